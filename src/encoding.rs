//! Encodings of every kind, by name.

use crate::bpe::{self, gemma};
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
    /// That of Gemma and Gemini.
    Gemma,
    /// A byte pair encoding of the user's.
    Ranked(Arc<bpe::RankEncoding>),
}

impl Encoding {
    /// Names of the encodings in the package.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let bpe = bpe::Encoding::ALL.into_iter().map(bpe::Encoding::name);
        bpe.chain(ClaudeFamily::ALL.map(ClaudeFamily::name))
            .chain([gemma::NAME])
    }

    /// The encoding of the package that has this name.
    pub fn named(name: &str) -> Option<Encoding> {
        let claude = || ClaudeFamily::named(name).map(Encoding::Claude);
        bpe::Encoding::named(name)
            .map(Encoding::Bpe)
            .or_else(claude)
            .or_else(|| (name == gemma::NAME).then_some(Encoding::Gemma))
    }

    /// Name of the encoding.
    pub fn name(&self) -> &str {
        match self {
            Encoding::Bpe(encoding) => encoding.name(),
            Encoding::Claude(family) => family.name(),
            Encoding::Gemma => gemma::NAME,
            Encoding::Ranked(ranked) => ranked.name(),
        }
    }

    /// Builds the tables that are not there yet: of `p50k`, `r50k`, Gemma and the other vendors. The first count builds
    /// them too, in 20 to 120 ms; a process that forks shares with its children what was built before.
    pub fn preload(&self) {
        match self {
            Encoding::Bpe(encoding) => encoding.preload(),
            Encoding::Gemma => gemma::preload(),
            Encoding::Claude(_) | Encoding::Ranked(_) => {}
        }
    }

    /// Number of tokens of `text`. Linear; never fails.
    pub fn count(&self, text: &str) -> u64 {
        match self {
            Encoding::Bpe(encoding) => encoding.count(text),
            Encoding::Claude(family) => family.count(text),
            Encoding::Gemma => gemma::count_in(bpe::MemoKey::default(), text),
            Encoding::Ranked(ranked) => ranked.count(text),
        }
    }

    /// The same, remembered under `key`: see [`bpe::MemoKey`]. Of a vocabulary of the user's about the
    /// same: see [`bpe::RankEncoding::count_in`].
    pub fn count_in(&self, key: bpe::MemoKey, text: &str) -> u64 {
        match self {
            Encoding::Bpe(encoding) => encoding.count_in(key, text),
            Encoding::Claude(family) => family.count_in(key, text),
            Encoding::Gemma => gemma::count_in(key, text),
            Encoding::Ranked(ranked) => ranked.count_in(key, text),
        }
    }

    /// Number of tokens of `text` if it is at most `limit`, else `limit + 1`.
    ///
    /// Stops as soon as the answer is known.
    pub fn count_at_most(&self, text: &str, limit: u64) -> u64 {
        match self {
            Encoding::Bpe(encoding) => encoding.count_at_most(text, limit),
            Encoding::Claude(family) => family.count_at_most(text, limit),
            Encoding::Gemma => gemma::count_at_most(text, limit),
            Encoding::Ranked(ranked) => ranked.count_at_most(text, limit),
        }
    }

    /// The tokens of `text`; `None` if only their number is known.
    pub fn encode(&self, text: &str) -> Option<Vec<u32>> {
        match self {
            Encoding::Bpe(encoding) => Some(encoding.encode(text)),
            Encoding::Claude(_) | Encoding::Gemma => None,
            Encoding::Ranked(ranked) => Some(ranked.encode(text)),
        }
    }

    /// The bytes of `token`; `None` if it is none of this encoding.
    pub fn decode(&self, token: u32) -> Option<Vec<u8>> {
        match self {
            Encoding::Bpe(encoding) => encoding.decode(&[token]),
            Encoding::Claude(_) | Encoding::Gemma => None,
            Encoding::Ranked(ranked) => ranked.decode(token),
        }
    }

    /// The ordinary or special token that is `bytes`.
    pub fn token(&self, bytes: &[u8]) -> Option<u32> {
        match self {
            Encoding::Bpe(encoding) => encoding.token(bytes),
            Encoding::Claude(_) | Encoding::Gemma => None,
            Encoding::Ranked(ranked) => ranked.token(bytes),
        }
    }

    /// The ordinary tokens, in the order of their numbers; `None` if only their number is known.
    pub fn tokens(&self) -> Option<Vec<&[u8]>> {
        match self {
            Encoding::Bpe(encoding) => Some(encoding.tokens().collect()),
            Encoding::Claude(_) | Encoding::Gemma => None,
            Encoding::Ranked(ranked) => Some(ranked.tokens().collect()),
        }
    }

    /// The largest number of a token, ordinary or special.
    pub fn max_token(&self) -> Option<u32> {
        let ordinary = self.tokens()?.pop().and_then(|token| self.token(token));
        let special = self.special_tokens().into_iter().map(|(_, number)| number);
        ordinary.into_iter().chain(special).max()
    }

    /// The special tokens, each with its number; none of a vocabulary of the user's.
    pub fn special_tokens(&self) -> Vec<(String, u32)> {
        match self {
            Encoding::Bpe(encoding) => encoding.special_tokens().collect(),
            Encoding::Claude(_) | Encoding::Gemma | Encoding::Ranked(_) => Vec::new(),
        }
    }

    /// The number of the special token that is `text`.
    pub fn special(&self, text: &str) -> Option<u32> {
        match self {
            Encoding::Bpe(encoding) => encoding.special(text),
            Encoding::Claude(_) | Encoding::Gemma | Encoding::Ranked(_) => None,
        }
    }

    /// As [`Encoding::encode`], with a special token where `text` has one that is allowed.
    pub fn encode_with_special(
        &self,
        text: &str,
        is_allowed: impl Fn(&str) -> bool,
    ) -> Option<Vec<u32>> {
        match self {
            Encoding::Bpe(encoding) => Some(encoding.encode_with_special(text, is_allowed)),
            _ => self.encode(text),
        }
    }

    /// The first special token in `text` that is asked for.
    pub fn special_in<'t>(
        &self,
        text: &'t str,
        is_asked_for: impl Fn(&str) -> bool,
    ) -> Option<&'t str> {
        match self {
            Encoding::Bpe(encoding) => encoding.special_in(text, is_asked_for),
            Encoding::Claude(_) | Encoding::Gemma | Encoding::Ranked(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two with one number would remember each other's counts.
    #[test]
    fn test_no_two_vocabularies_share_a_number() {
        let mut owners: Vec<(u64, &str)> = Vec::new();
        let same = [
            ("o200k_harmony", "o200k_base"),
            ("p50k_edit", "p50k_base"),
            ("gpt2", "r50k_base"),
        ];
        for encoding in bpe::Encoding::ALL {
            let name = encoding.name();
            let (_, owner) = *same.iter().find(|it| it.0 == name).unwrap_or(&(name, name));
            owners.push((encoding.number(), owner));
        }
        owners.push((gemma::number(), gemma::NAME));
        for family in ClaudeFamily::ALL {
            owners.push((family.number(), family.name()));
            owners.push((family.vocabulary_number(), "pieces of Claude"));
        }
        for (number, owner) in &owners {
            let others = owners.iter().filter(|it| it.0 == *number && it.1 != *owner);
            assert_eq!(others.count(), 0, "{number} of {owner}");
        }
    }
}
