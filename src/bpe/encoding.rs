//! The public handle to an encoding.

use crate::bpe::special::{self, Specials};
use crate::bpe::split::rule::SplitRule;
use crate::bpe::table::key::MAX_TOKEN_BYTES;
use crate::bpe::table::memo::MemoKey;
use crate::bpe::table::{self, NONE, Vocabulary};

/// Copy handle to an encoding: a split rule and a vocabulary.
///
/// Text is only text: the spelling of a special token has no meaning and is counted as ordinary
/// characters, as `encode_ordinary` of `tiktoken` does. `o200k` and `cl100k` are ready from the start;
/// the tables of the others are built when one is first used, in some 50 ms.
///
/// ```
/// use tokenctx::bpe::Encoding;
///
/// let encoding = Encoding::named("o200k_base").expect("a known name");
/// assert_eq!(encoding.count("hello world"), 2);
/// assert_eq!(encoding.encode("hello world"), [24912, 2375]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Encoding {
    name: Name,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Name {
    O200kBase,
    O200kHarmony,
    Cl100kBase,
    P50kBase,
    P50kEdit,
    R50kBase,
    Gpt2,
    DeepSeekV3,
    MistralV3,
    Qwen2,
}

impl Encoding {
    /// All encodings: OpenAI's, the newest first, two of which differ from another in name and special
    /// tokens alone; then those of other vendors.
    pub const ALL: [Encoding; 10] = [
        Encoding::of(Name::O200kBase),
        Encoding::of(Name::O200kHarmony),
        Encoding::of(Name::Cl100kBase),
        Encoding::of(Name::P50kBase),
        Encoding::of(Name::P50kEdit),
        Encoding::of(Name::R50kBase),
        Encoding::of(Name::Gpt2),
        Encoding::of(Name::DeepSeekV3),
        Encoding::of(Name::MistralV3),
        Encoding::of(Name::Qwen2),
    ];

    const fn of(name: Name) -> Encoding {
        Encoding { name }
    }

    /// The encoding of that name, as `tiktoken` spells it.
    pub fn named(name: &str) -> Option<Encoding> {
        Encoding::ALL
            .into_iter()
            .find(|encoding| encoding.name() == name)
    }

    /// Name of the encoding, as `tiktoken` spells it.
    pub fn name(self) -> &'static str {
        match self.name {
            Name::O200kBase => "o200k_base",
            Name::O200kHarmony => "o200k_harmony",
            Name::Cl100kBase => "cl100k_base",
            Name::P50kBase => "p50k_base",
            Name::P50kEdit => "p50k_edit",
            Name::R50kBase => "r50k_base",
            Name::Gpt2 => "gpt2",
            Name::DeepSeekV3 => "deepseek_v3",
            Name::MistralV3 => "mistral_v3",
            Name::Qwen2 => "qwen2",
        }
    }

    /// Number of tokens in `text`; special tokens count as plain text.
    ///
    /// Never fails: every text has an encoding. Linear in the text, but n log n in a single piece
    /// that was made to be slow. Allocates only for a stretch above 63 bytes that has no place to
    /// cut, four bytes for each of its tokens and a little more.
    pub fn count(self, text: &str) -> u64 {
        self.count_in(MemoKey::default(), text)
    }

    /// The same, remembered under `key`.
    pub fn count_in(self, key: MemoKey, text: &str) -> u64 {
        self.count_until(key, text, u64::MAX)
    }

    /// Number of tokens in `text` if it is at most `limit`, else `limit + 1`.
    ///
    /// Stops as soon as the answer is known; a text that is far too long is not even read, because
    /// no token is longer than 256 bytes.
    pub fn count_at_most(self, text: &str, limit: u64) -> u64 {
        let beyond = limit.saturating_add(1);
        if text.len().div_ceil(MAX_TOKEN_BYTES) as u64 > limit {
            return beyond;
        }
        self.count_until(MemoKey::default(), text, limit)
            .min(beyond)
    }

    /// The tokens of `text`; special tokens are encoded as plain text. Linear; never fails.
    pub fn encode(self, text: &str) -> Vec<u32> {
        let mut tokens = Vec::new();
        self.encode_into(text, &mut tokens);
        tokens
    }

    /// The tokens of `text`, with a special token where `text` has one that is allowed.
    pub fn encode_with_special(self, text: &str, is_allowed: impl Fn(&str) -> bool) -> Vec<u32> {
        let (mut tokens, mut done) = (Vec::new(), 0);
        while let Some((start, special, number)) = self.specials().find(text, done, &is_allowed) {
            self.encode_into(&text[done..start], &mut tokens);
            tokens.push(number);
            done = start + special.len();
        }
        self.encode_into(&text[done..], &mut tokens);
        tokens
    }

    /// The first special token in `text` that is asked for.
    pub fn special_in(self, text: &str, is_asked_for: impl Fn(&str) -> bool) -> Option<&str> {
        let found = self.specials().find(text, 0, is_asked_for);
        found.map(|(_, special, _)| special)
    }

    /// The special tokens, each with its number; one number may have two texts.
    pub fn special_tokens(self) -> impl Iterator<Item = (String, u32)> {
        self.specials().all()
    }

    /// The number of the special token that is `text`.
    pub fn special(self, text: &str) -> Option<u32> {
        self.specials().number(text)
    }

    /// The token that is `bytes`, ordinary or special.
    pub fn token(self, bytes: &[u8]) -> Option<u32> {
        let special = || self.specials().number(std::str::from_utf8(bytes).ok()?);
        match bytes.is_empty() {
            true => None,
            false => match self.vocabulary().rank(bytes, 0, bytes.len()) {
                NONE => special(),
                rank => Some(rank),
            },
        }
    }

    /// The ordinary tokens, in the order of their numbers.
    pub fn tokens(self) -> impl Iterator<Item = &'static [u8]> {
        self.vocabulary().tokens().map(|(_, token)| token)
    }

    fn encode_into(self, text: &str, tokens: &mut Vec<u32>) {
        let (rule, vocabulary) = (self.split_rule(), self.vocabulary());
        rule.encode(vocabulary, text.as_bytes(), tokens);
    }

    /// The bytes of `tokens`, special ones too, or `None` if one is no token of this encoding.
    ///
    /// Tokens may cut a character, so that only a whole text is sure to be UTF-8.
    pub fn decode(self, tokens: &[u32]) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        for &token in tokens {
            match self.vocabulary().token(token) {
                Some(token) => bytes.extend_from_slice(token),
                None => bytes.extend(self.specials().text(token)?.into_bytes()),
            }
        }
        Some(bytes)
    }

    /// The vocabulary as a `.tiktoken` file: base64 of the token, a space, the rank, a line end;
    /// by rank. Of OpenAI's byte for byte the published file.
    pub fn rank_file(self) -> Vec<u8> {
        let mut file = Vec::new();
        for (rank, token) in self.vocabulary().tokens() {
            push_base64(&mut file, token);
            file.extend_from_slice(format!(" {rank}\n").as_bytes());
        }
        file
    }

    #[cfg(test)]
    /// Number of its vocabulary in what is remembered, below 16.
    pub(crate) fn number(self) -> u64 {
        self.vocabulary().number
    }

    /// Builds the tables, if they are not there yet.
    pub fn preload(self) {
        self.vocabulary();
    }

    fn vocabulary(self) -> &'static Vocabulary<'static> {
        match self.name {
            Name::O200kBase | Name::O200kHarmony => &table::O200K,
            Name::Cl100kBase => &table::CL100K,
            Name::P50kBase | Name::P50kEdit => table::P50K.get(),
            Name::R50kBase | Name::Gpt2 => table::R50K.get(),
            Name::DeepSeekV3 => table::DEEPSEEK_V3.get(),
            Name::MistralV3 => table::MISTRAL_V3.get(),
            Name::Qwen2 => table::QWEN2.get(),
        }
    }

    fn specials(self) -> &'static Specials {
        match self.name {
            Name::O200kBase => &special::O200K,
            Name::O200kHarmony => &special::HARMONY,
            Name::Cl100kBase => &special::CL100K,
            Name::P50kEdit => &special::P50K_EDIT,
            Name::P50kBase | Name::R50kBase | Name::Gpt2 => &special::R50K,
            _ => &special::UNTOLD,
        }
    }

    fn split_rule(self) -> SplitRule {
        match self.name {
            Name::O200kBase | Name::O200kHarmony => SplitRule::O200k,
            Name::Cl100kBase => SplitRule::Cl100k,
            Name::P50kBase | Name::P50kEdit | Name::R50kBase | Name::Gpt2 => SplitRule::R50k,
            Name::DeepSeekV3 => SplitRule::DeepSeek,
            Name::MistralV3 => SplitRule::Tekken,
            Name::Qwen2 => SplitRule::Qwen,
        }
    }

    /// The count, or any number above `limit` if that is where it leads.
    fn count_until(self, key: MemoKey, text: &str, limit: u64) -> u64 {
        let (rule, vocabulary) = (self.split_rule(), self.vocabulary());
        rule.count(vocabulary, key, text.as_bytes(), limit)
    }
}

/// Appends the standard base64 of `bytes`, padded.
fn push_base64(file: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| chunk.get(at).map_or(0, |&byte| u32::from(byte));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit)) as usize & 63;
            file.push(if digit <= chunk.len() {
                DIGITS[index]
            } else {
                b'='
            });
        }
    }
}
