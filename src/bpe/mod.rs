//! Byte pair encodings: how many tokens a text has, and which.
//!
//! A text is cut into pieces by the encoding's split rule ([`split`]), which looks at classes of
//! characters only, 64 bytes of them at a time ([`borders`]). Most pieces were counted before. A piece that
//! is in the vocabulary ([`table`]) is one token; these are nine of ten. Any other falls into cells, which
//! are merged ([`merge`]).
//!
//! Token ids are found piece by piece ([`ids`]).
//!
//! Gemma's is SentencePiece's kind ([`gemma`]), made one of bytes.
//!
//! Of a vocabulary that comes at run time ([`rank_encoding`]) the same tables are made when it is read, if they can hold
//! it; else it shares the split rules and nothing else.

mod borders;
mod encoding;
pub(crate) mod gemma;
mod ids;
mod level;
mod merge;
mod pieces;
pub(crate) mod prefetch;
pub(in crate::bpe) mod prepare;
#[cfg(test)]
pub(crate) mod random_texts;
mod rank_encoding;
pub(crate) mod sampling;
mod scan;
mod special;
pub(crate) mod split;
#[cfg(test)]
mod steps;
pub(crate) mod table;

pub use encoding::Encoding;
pub use level::SimdLevel;
pub use rank_encoding::RankEncoding;
pub use split::rule::SplitRule;
pub use table::memo::MemoKey;
pub use table::rank_file::RankFileError;

/// Makes every run the same to the instruction, for measurements: what is remembered is found by
/// hashes with a secret, and this fixes the secret. Call it before the first count.
pub fn fix_hashes() {
    table::memo::fix_secret();
}
