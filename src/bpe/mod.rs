//! Byte pair encodings: how many tokens a text has.
//!
//! A text is cut into pieces by the encoding's split rule ([`split`]), which looks at classes of
//! characters only ([`unicode`]). A piece that is in the vocabulary ([`vocabulary`]) is one token;
//! these are nine of ten. Any other piece is encoded ([`piece`]).

mod block;
mod encoding;
mod key;
#[cfg(target_arch = "x86_64")]
mod lanes;
mod long;
mod memo;
mod merge;
mod piece;
mod scan;
mod split;
#[cfg(test)]
mod steps;
mod unicode;
mod vocabulary;

pub use encoding::Encoding;
