//! Gemma's vocabulary, which is that of Gemini from 1.5 on.
//!
//! It is SentencePiece's byte pair encoding: joins begin with characters, a space is part of the word
//! behind it, a character that the vocabulary has not is its bytes, and runs of white space and some tags
//! of HTML are taken from the text as they stand, before any join. `build.rs` makes a vocabulary
//! of bytes of it: each character is joined from its bytes before all else. Then scan, memo and joins are
//! those of the other encodings, on what is between the tags and the unknown characters.
//!
//! Markers of turns and media are plain text here, as special tokens are elsewhere. Gemma 4, which newer
//! models have, joins runs of white space and tags by rules of its own: a run of more than 31 may differ
//! by a token there.

use std::borrow::Cow;

use crate::bpe::scan;
use crate::bpe::split::Gemma;
use crate::bpe::table::GEMMA;
use crate::bpe::table::key::MAX_TOKEN_BYTES;
use crate::bpe::table::memo::{self, MemoKey};

/// Name of the encoding.
pub(crate) const NAME: &str = "gemma";

/// Elements of HTML whose tags without attributes are tokens.
const ELEMENTS: [&str; 35] = [
    "a",
    "b",
    "bbox",
    "blockquote",
    "body",
    "caption",
    "code",
    "div",
    "em",
    "footer",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "html",
    "i",
    "iframe",
    "img",
    "li",
    "s",
    "span",
    "strong",
    "sub",
    "sup",
    "table",
    "tbody",
    "td",
    "tfoot",
    "th",
    "thead",
    "tr",
    "u",
    "ul",
];

/// Longest of their names.
const ELEMENT_BYTES: usize = 10;

/// SentencePiece's mark of a space, which it takes for one.
const SPACE_MARK: char = '\u{2581}';

/// For every 256 code points, which of [`KNOWN`] tells the characters that the vocabulary has.
static KNOWN_INDEX: &[[u8; 2]] = include_bytes!(concat!(env!("OUT_DIR"), "/gemma.known_index"))
    .as_chunks()
    .0;
static KNOWN: &[[u8; 32]] = include_bytes!(concat!(env!("OUT_DIR"), "/gemma.known"))
    .as_chunks()
    .0;

#[cfg(test)]
/// Number of the vocabulary in what is remembered.
pub(crate) fn number() -> u64 {
    GEMMA.get().number
}

/// Builds the tables, if they are not there yet.
pub(crate) fn preload() {
    GEMMA.get();
}

/// Number of tokens in `text`, remembered under `key`. Linear, as
/// [`Encoding::count`](crate::bpe::Encoding::count) is; never fails.
pub(crate) fn count_in(key: MemoKey, text: &str) -> u64 {
    count_until(key, text, u64::MAX)
}

/// Number of tokens in `text` if it is at most `limit`, else `limit + 1`; stops early.
pub(crate) fn count_at_most(text: &str, limit: u64) -> u64 {
    let beyond = limit.saturating_add(1);
    if text.len().div_ceil(MAX_TOKEN_BYTES) as u64 > limit {
        return beyond;
    }
    count_until(MemoKey::default(), text, limit).min(beyond)
}

/// The count, or any number above `limit` if that is where it leads.
fn count_until(key: MemoKey, text: &str, limit: u64) -> u64 {
    let vocabulary = GEMMA.get();
    memo::remembered(vocabulary.number, key, text.as_bytes(), limit, || {
        let text = match text.contains(SPACE_MARK) {
            true => Cow::Owned(text.replace(SPACE_MARK, " ")),
            false => Cow::Borrowed(text),
        };
        let (mut tokens, mut start) = (0, 0);
        while tokens <= limit {
            let stop = next_stop(&text, start);
            let stretch = &text.as_bytes()[start..stop.start];
            tokens +=
                scan::count_part::<Gemma>(vocabulary, key, stretch, limit - tokens) + stop.tokens;
            start = stop.start + stop.length;
            if start == text.len() {
                break;
            }
        }
        tokens
    })
}

/// A part of the text that is in no word: a tag, a character that is unknown, or the end of the text.
struct Stop {
    start: usize,
    length: usize,
    tokens: u64,
}

/// The first one from `start` on.
fn next_stop(text: &str, start: usize) -> Stop {
    let bytes = text.as_bytes();
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        let (length, tokens) = match byte {
            b'<' => (tag_bytes(&bytes[at..]), 1),
            0..0x80 => (0, 0),
            _ => unknown_bytes(text, at),
        };
        if length > 0 {
            return Stop {
                start: at,
                length,
                tokens,
            };
        }
        at += 1;
        at += bytes[at..]
            .iter()
            .position(|&byte| byte == b'<' || byte >= 0xC0)
            .unwrap_or(bytes.len() - at);
    }
    Stop {
        start: bytes.len(),
        length: 0,
        tokens: 0,
    }
}

/// Bytes of the tag at the start of `text`, which is a `<`; 0 if it is none that is a token.
fn tag_bytes(text: &[u8]) -> usize {
    let name = 1 + usize::from(text.get(1) == Some(&b'/'));
    let rest = &text[name.min(text.len())..];
    let window = &rest[..rest.len().min(ELEMENT_BYTES + 1)];
    let length = window.iter().position(|&byte| byte == b'>');
    match length {
        Some(length) if is_element(&rest[..length]) => name + length + 1,
        _ => 0,
    }
}

fn is_element(name: &[u8]) -> bool {
    ELEMENTS
        .binary_search_by(|element| element.as_bytes().cmp(name))
        .is_ok()
}

/// Bytes and tokens of the character at `at` if the vocabulary has it not; else nothing.
fn unknown_bytes(text: &str, at: usize) -> (usize, u64) {
    match text[at..].chars().next() {
        Some(character) if !is_known(character) => {
            let length = character.len_utf8();
            (length, length as u64)
        }
        _ => (0, 0),
    }
}

fn is_known(character: char) -> bool {
    let code = character as usize;
    let block = KNOWN_INDEX[code / 256];
    let bits = &KNOWN[usize::from(u16::from_le_bytes(block))];
    bits[code % 256 / 8] >> (code % 8) & 1 != 0
}
