//! Byte pair encodings: how many tokens a text has.
//!
//! A text is cut into pieces by the encoding's split rule ([`split`]), which looks at classes of
//! characters only ([`unicode`]), 64 bytes of them at a time ([`scan`], [`block`]). Most
//! pieces were counted before ([`memo`]). A piece that is in the vocabulary ([`vocabulary`]) is one
//! token; these are nine of ten. Any other ([`piece`]) falls into cells, which are merged ([`together`])
//! or, if they are long, read window after window ([`reader`], [`waiting`], [`long`]).
//!
//! A vocabulary that comes at run time ([`ranked`]) shares the split rules and nothing else.

#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod block;
#[cfg(target_arch = "x86_64")]
mod characters;
mod encoding;
#[cfg(target_arch = "x86_64")]
mod gather;
mod guess;
pub(crate) mod key;
#[cfg(target_arch = "x86_64")]
pub(crate) mod lanes;
mod long;
pub(crate) mod memo;
mod merge;
mod narrow;
mod piece;
mod pieces;
#[cfg(test)]
pub(crate) mod random_texts;
mod rank_file;
mod ranked;
mod reader;
mod scan;
pub(crate) mod split;
mod split_rule;
#[cfg(test)]
mod steps;
mod together;
mod unicode;
pub(crate) mod vocabulary;
mod waiting;
mod wide;

pub use encoding::Encoding;
pub use rank_file::RankFileError;
pub use ranked::Ranked;
pub use split_rule::SplitRule;

/// Makes every run the same to the instruction, for measurements: what is remembered is found by
/// hashes with a secret, and this fixes the secret. Call it before the first count.
pub fn fix_hashes() {
    memo::fix_secret();
}
