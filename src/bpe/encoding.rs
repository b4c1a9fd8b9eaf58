//! The public handle to an encoding.

use crate::bpe::merge::piece;
use crate::bpe::scan;
use crate::bpe::split::{Cl100k, O200k, R50k, Rule};
use crate::bpe::table::key::MAX_TOKEN_BYTES;
use crate::bpe::table::{self, NONE, Vocabulary};

/// Copy handle to an encoding: a split rule and a vocabulary.
///
/// Text is only text: the spelling of a special token has no meaning and is counted as ordinary
/// characters, as `encode_ordinary` of `tiktoken` does. Every encoding is ready from the start;
/// nothing is loaded.
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
    R50kBase,
}

impl Encoding {
    /// All encodings, the newest first.
    pub const ALL: [Encoding; 5] = [
        Encoding {
            name: Name::O200kBase,
        },
        Encoding {
            name: Name::O200kHarmony,
        },
        Encoding {
            name: Name::Cl100kBase,
        },
        Encoding {
            name: Name::P50kBase,
        },
        Encoding {
            name: Name::R50kBase,
        },
    ];

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
            Name::R50kBase => "r50k_base",
        }
    }

    /// Number of tokens in `text`; special tokens count as plain text.
    ///
    /// Never fails: every text has an encoding. Linear in the text, but n log n in a single piece
    /// that was made to be slow. Allocates only for a stretch above 63 bytes that has no place to
    /// cut, four bytes for each of its tokens and a little more.
    pub fn count(self, text: &str) -> u64 {
        self.count_until(text, u64::MAX)
    }

    /// Number of tokens in `text` if it is at most `limit`, else `limit + 1`.
    ///
    /// Stops as soon as the answer is known; a text that is far too long is not even read, because
    /// no token is longer than 128 bytes.
    pub fn count_at_most(self, text: &str, limit: u64) -> u64 {
        let beyond = limit.saturating_add(1);
        if text.len().div_ceil(MAX_TOKEN_BYTES) as u64 > limit {
            return beyond;
        }
        self.count_until(text, limit).min(beyond)
    }

    /// The tokens of `text`; special tokens are encoded as plain text. Linear; never fails.
    pub fn encode(self, text: &str) -> Vec<u32> {
        let vocabulary = self.vocabulary();
        let text = text.as_bytes();
        let mut tokens = Vec::new();
        let mut start = 0;
        while start < text.len() {
            let end = self.piece_end(text, start);
            match vocabulary.rank(text, start, end) {
                NONE => piece::encode(vocabulary, text, start, end, &mut tokens),
                rank => tokens.push(rank),
            }
            start = end;
        }
        tokens
    }

    /// The bytes of `tokens`, or `None` if one is no token of this encoding (special ones are not).
    ///
    /// Tokens may cut a character, so that only a whole text is sure to be UTF-8.
    pub fn decode(self, tokens: &[u32]) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        for &token in tokens {
            bytes.extend_from_slice(self.vocabulary().token(token)?);
        }
        Some(bytes)
    }

    /// The vocabulary as a `.tiktoken` file: base64 of the token, a space, the rank, a line end;
    /// by rank. Byte for byte the published file.
    pub fn rank_file(self) -> Vec<u8> {
        let mut file = Vec::new();
        for (rank, token) in self.vocabulary().tokens() {
            push_base64(&mut file, token);
            file.extend_from_slice(format!(" {rank}\n").as_bytes());
        }
        file
    }

    fn vocabulary(self) -> &'static Vocabulary {
        match self.name {
            Name::O200kBase | Name::O200kHarmony => &table::O200K,
            Name::Cl100kBase => &table::CL100K,
            Name::P50kBase => &table::P50K,
            Name::R50kBase => &table::R50K,
        }
    }

    fn piece_end(self, text: &[u8], start: usize) -> usize {
        match self.name {
            Name::O200kBase | Name::O200kHarmony => O200k::end(text, start),
            Name::Cl100kBase => Cl100k::end(text, start),
            Name::P50kBase | Name::R50kBase => R50k::end(text, start),
        }
    }

    /// The count, or any number above `limit` if that is where it leads.
    fn count_until(self, text: &str, limit: u64) -> u64 {
        match self.name {
            Name::O200kBase | Name::O200kHarmony => {
                scan::count::<O200k>(self.vocabulary(), text.as_bytes(), limit)
            }
            Name::Cl100kBase => scan::count::<Cl100k>(self.vocabulary(), text.as_bytes(), limit),
            Name::P50kBase | Name::R50kBase => {
                scan::count::<R50k>(self.vocabulary(), text.as_bytes(), limit)
            }
        }
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
