//! Encodings of every kind, by name.

use crate::bpe;
use crate::claude::ClaudeFamily;
use std::sync::Arc;

/// An encoding: counts the tokens of a text, and may tell which they are.
///
/// ```
/// use tokenctx::encoding::Encoding;
///
/// let encoding = Encoding::named("claude_v3").expect("a known name");
/// assert_eq!(encoding.count("hello, world"), 3);
/// assert_eq!(encoding.encode("hello, world"), None);
/// ```
#[derive(Clone, Debug)]
pub enum Encoding {
    /// A byte pair encoding of the package.
    Bpe(bpe::Encoding),
    /// A family of Claude's count model.
    Claude(ClaudeFamily),
    /// A byte pair encoding of the user's.
    Ranked(Arc<bpe::Ranked>),
}

impl Encoding {
    /// Names of the encodings in the package.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let bpe = bpe::Encoding::ALL.into_iter().map(bpe::Encoding::name);
        bpe.chain(ClaudeFamily::ALL.map(ClaudeFamily::name))
    }

    /// The encoding of the package that has this name.
    pub fn named(name: &str) -> Option<Encoding> {
        let claude = || ClaudeFamily::named(name).map(Encoding::Claude);
        bpe::Encoding::named(name)
            .map(Encoding::Bpe)
            .or_else(claude)
    }

    /// Name of the encoding.
    pub fn name(&self) -> &str {
        match self {
            Encoding::Bpe(encoding) => encoding.name(),
            Encoding::Claude(family) => family.name(),
            Encoding::Ranked(ranked) => ranked.name(),
        }
    }

    /// Number of tokens of `text`. Linear; never fails.
    pub fn count(&self, text: &str) -> u64 {
        match self {
            Encoding::Bpe(encoding) => encoding.count(text),
            Encoding::Claude(family) => family.count(text),
            Encoding::Ranked(ranked) => ranked.count(text),
        }
    }

    /// Number of tokens of `text` if it is at most `limit`, else `limit + 1`.
    ///
    /// Stops as soon as the answer is known.
    pub fn count_at_most(&self, text: &str, limit: u64) -> u64 {
        match self {
            Encoding::Bpe(encoding) => encoding.count_at_most(text, limit),
            Encoding::Claude(family) => family.count_at_most(text, limit),
            Encoding::Ranked(ranked) => ranked.count_at_most(text, limit),
        }
    }

    /// The tokens of `text`; `None` if only their number is known.
    pub fn encode(&self, text: &str) -> Option<Vec<u32>> {
        match self {
            Encoding::Bpe(encoding) => Some(encoding.encode(text)),
            Encoding::Claude(_) => None,
            Encoding::Ranked(ranked) => Some(ranked.encode(text)),
        }
    }

    /// The bytes of `token`; `None` if it is none of this encoding, as special ones are.
    pub fn decode(&self, token: u32) -> Option<Vec<u8>> {
        match self {
            Encoding::Bpe(encoding) => encoding.decode(&[token]),
            Encoding::Claude(_) => None,
            Encoding::Ranked(ranked) => ranked.decode(token),
        }
    }
}
