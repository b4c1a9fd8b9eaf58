//! Words: where they end, how their case is marked, and what they cost.

#![allow(
    clippy::cast_possible_truncation,
    reason = "a half of a word is what is meant"
)]

use super::character::Character;
use super::key::SHORT_BYTES;
use super::kind;
use super::layout::{BOW, CAPS, EOW, SHIFT, WORD_COST_MASK, WORD_VALUES};
use super::tiling::Tiling;
use super::vocabulary;

/// Bytes that are looked at together.
const WINDOW: usize = 16;

/// Least characters of a word that `<caps>` marks.
const CAPS_CHARACTERS: usize = 4;

/// Never marked, and keeps the word around it from being marked.
const SHARP_S: u32 = 'ẞ' as u32;
/// Stays as it is in a marked word.
const DOTTED_I: u32 = 'İ' as u32;

/// How the case of a word is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    /// As it is.
    Literal,
    /// `<shift>` and lower case.
    Title,
    /// `<caps>` and lower case.
    Capitals,
}

/// A word of a text.
#[derive(Clone, Copy)]
pub(super) struct Word {
    /// Where it ends.
    pub(super) end: usize,
    /// Its tokens, markers included.
    pub(super) tokens: u64,
    /// Whether its last character is also a symbol.
    pub(super) symbolic: bool,
}

/// Reads words and counts their tokens.
pub(super) struct Words {
    vocabulary: usize,
    marks_capitals: bool,
}

impl Words {
    pub(super) fn new(vocabulary: usize, marks_capitals: bool) -> Words {
        Words {
            vocabulary,
            marks_capitals,
        }
    }

    /// The word that starts at `start`, whose first character is of a word.
    #[inline(always)]
    pub(super) fn read(&self, text: &[u8], start: usize, tiling: &mut Tiling) -> Word {
        let window = window_at(text, start);
        let (letters, capitals) = ascii_letters(window);
        let length = (!letters & HIGH_BITS).trailing_zeros() as usize / 8;
        let end = start + length;
        let next = text.get(end).is_some_and(|byte| *byte >= 0x80);
        if length <= SHORT_BYTES && !next && length > 0 {
            let capitals = capitals & !(u128::MAX << (8 * length));
            let (case, window) = if capitals == 0 {
                (Case::Literal, window)
            } else if capitals == 0x80 {
                (Case::Title, window | 0x20)
            } else if self.marks_capitals
                && length >= CAPS_CHARACTERS
                && capitals.count_ones() as usize == length
            {
                (Case::Capitals, window | LOWER_CASE)
            } else {
                (Case::Literal, window)
            };
            let tokens = match vocabulary::value(window.to_le_bytes(), length) {
                Some(value) => self.known(case, value),
                None => self.tile(case, text, start, end, tiling),
            };
            return Word {
                end,
                tokens,
                symbolic: false,
            };
        }
        self.read_any(text, start, tiling)
    }

    /// [`read`](Self::read) for words that are long or not ASCII.
    #[inline(never)]
    fn read_any(&self, text: &[u8], start: usize, tiling: &mut Tiling) -> Word {
        let mut shape = Shape::default();
        let mut end = start;
        let mut last = Character::NONE;
        loop {
            let character = Character::at(text, end);
            if !character.is(kind::WORD) {
                break;
            }
            shape.add(character);
            last = character;
            end += character.length;
        }
        let case = shape.case(self.marks_capitals);
        Word {
            end,
            tokens: self.tokens(case, text, start, end, tiling),
            symbolic: last.is(kind::SYMBOLIC),
        }
    }

    fn tokens(
        &self,
        case: Case,
        text: &[u8],
        start: usize,
        end: usize,
        tiling: &mut Tiling,
    ) -> u64 {
        let mut lowered = [0; WINDOW];
        let mut length = 0;
        // Lower case may be shorter, but not by half.
        if end - start <= 2 * SHORT_BYTES {
            each_written(case, text, start, end, |written, from, at| {
                let bytes = &from[at..at + written.length];
                if let Some(place) = lowered.get_mut(length..length + bytes.len()) {
                    place.copy_from_slice(bytes);
                }
                length += bytes.len();
            });
            let found = (length <= SHORT_BYTES).then(|| vocabulary::value(lowered, length));
            if let Some(value) = found.flatten() {
                return self.known(case, value);
            }
        }
        self.tile(case, text, start, end, tiling)
    }

    /// Tokens of a word in the table of entries.
    #[inline(always)]
    fn known(&self, case: Case, value: u32) -> u64 {
        let layout = WORD_VALUES[self.vocabulary];
        let tokens = u64::from(value >> layout.cost_shift & WORD_COST_MASK);
        let whole = match case {
            Case::Literal => return tokens,
            Case::Title => value >> layout.title_shift,
            Case::Capitals => value >> layout.caps_shift,
        };
        if whole & 1 == 1 { 1 } else { tokens + 1 }
    }

    /// Tokens of any other word.
    fn tile(&self, case: Case, text: &[u8], start: usize, end: usize, tiling: &mut Tiling) -> u64 {
        match case {
            Case::Literal => {}
            Case::Title => tiling.byte(SHIFT),
            Case::Capitals => tiling.byte(CAPS),
        }
        tiling.byte(BOW);
        each_written(case, text, start, end, |written, from, at| {
            tiling.character(written, from, at);
        });
        tiling.byte(EOW);
        tiling.finish()
    }
}

/// Calls `write` with each character of the word as it is written, and where its bytes are.
fn each_written(
    case: Case,
    text: &[u8],
    start: usize,
    end: usize,
    mut write: impl FnMut(Character, &[u8], usize),
) {
    let mut at = start;
    while at < end {
        let character = Character::at(text, at);
        if case == Case::Literal || !character.is(kind::LOWERS) || character.code == DOTTED_I {
            write(character, text, at);
        } else {
            let mut bytes = [0; 4];
            let lower = lower_case(character.code)
                .encode_utf8(&mut bytes)
                .as_bytes();
            write(Character::at(lower, 0), lower, 0);
        }
        at += character.length;
    }
}

/// The lower case of a capital or title-case letter; that of a dotted I, two characters, is not
/// asked for.
fn lower_case(code: u32) -> char {
    let lower = match code {
        0x41..=0x5A | 0xC0..=0xDE | 0x391..=0x3AB | 0x410..=0x42F => code + 0x20,
        0x400..=0x40F => code + 0x50,
        _ => code,
    };
    let character = char::from_u32(lower).unwrap_or_default();
    if lower == code {
        character.to_lowercase().next().unwrap_or_default()
    } else {
        character
    }
}

/// What decides how the case of a word is written.
#[derive(Default)]
struct Shape {
    characters: usize,
    first: u32,
    first_code: u32,
    /// Bits of any character but the first.
    tail: u32,
    /// Characters that are no capitals but have case.
    small: bool,
    has_sharp_s: bool,
    has_dotted_i: bool,
    /// Whether the tail has a capital that is not a dotted I.
    tail_capital: bool,
}

impl Shape {
    #[inline(always)]
    fn add(&mut self, character: Character) {
        let upper = character.is(kind::UPPER);
        if self.characters == 0 {
            self.first = character.kind;
            self.first_code = character.code;
        } else {
            self.tail |= character.kind;
            self.tail_capital |= upper && character.code != DOTTED_I;
        }
        self.characters += 1;
        self.small |= !upper && character.is(kind::LOWER);
        self.has_sharp_s |= character.code == SHARP_S;
        self.has_dotted_i |= character.code == DOTTED_I;
    }

    fn case(&self, marks_capitals: bool) -> Case {
        let upper_first = self.first & kind::UPPER != 0;
        let any = self.first | self.tail;
        if self.first & kind::STRAY != 0 || self.has_sharp_s || any & kind::UPPER == 0 {
            return Case::Literal;
        }
        if self.has_dotted_i {
            let title = upper_first && self.first_code != DOTTED_I && !self.tail_capital;
            return if title { Case::Title } else { Case::Literal };
        }
        let capitals = !self.small && any & kind::CASELESS == 0;
        if marks_capitals && capitals && self.characters >= CAPS_CHARACTERS {
            return Case::Capitals;
        }
        if upper_first && self.tail & kind::UPPER == 0 {
            Case::Title
        } else {
            Case::Literal
        }
    }
}

const HIGH_BITS: u128 = 0x8080_8080_8080_8080_8080_8080_8080_8080;
const LOWER_CASE: u128 = 0x2020_2020_2020_2020_2020_2020_2020_2020;

/// The bytes from `start` on, the first in the low bits; zeros past the end.
#[inline(always)]
pub(super) fn window_at(text: &[u8], start: usize) -> u128 {
    if let Some(window) = text[start..].first_chunk::<WINDOW>() {
        return u128::from_le_bytes(*window);
    }
    let mut window = [0; WINDOW];
    let rest = &text[start..];
    window[..rest.len()].copy_from_slice(rest);
    u128::from_le_bytes(window)
}

/// The high bit of every byte that is an ASCII letter, and of every one that is a capital.
#[inline(always)]
fn ascii_letters(window: u128) -> (u128, u128) {
    let (low, low_capitals) = ascii_letters_of_half(window as u64);
    let (high, high_capitals) = ascii_letters_of_half((window >> 64) as u64);
    (
        u128::from(high) << 64 | u128::from(low),
        u128::from(high_capitals) << 64 | u128::from(low_capitals),
    )
}

#[inline(always)]
fn ascii_letters_of_half(bytes: u64) -> (u64, u64) {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    // Seven bits of each byte, in lower case: adding cannot carry into the next byte.
    let lower = (bytes & !HIGH) | (0x20 * ONES);
    let at_least_a = lower + (0x80 - b'a' as u64) * ONES;
    let above_z = lower + (0x7F - b'z' as u64) * ONES;
    let letters = at_least_a & !above_z & !bytes & HIGH;
    (letters, letters & !(bytes << 2))
}
