//! Words: where they end, how their case is marked, and what they cost.

#![allow(
    clippy::cast_possible_truncation,
    reason = "a half of a word is what is meant"
)]

use super::character::Character;
use super::kind;
use super::layout::{BOW, CAPS, EOW, SHIFT, WORD_COST_MASK, WORD_VALUES};
use super::marked::{Marked, Written};
use super::vocabulary;
use crate::bpe::table::key::SHORT_BYTES;

/// Least characters of a word that `<caps>` marks.
pub(super) const CAPS_CHARACTERS: usize = 4;

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
pub(super) struct Word<'a> {
    pub(super) text: &'a [u8],
    case: Case,
    /// True if its last character is also a symbol.
    pub(super) symbolic: bool,
}

impl<'a> Word<'a> {
    /// The word that starts at `start`, whose first character is of a word.
    #[inline(always)]
    pub(super) fn read(text: &'a [u8], start: usize, marks_capitals: bool) -> Word<'a> {
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
        Word {
            text: &text[start..end],
            case: shape.case(marks_capitals),
            symbolic: last.is(kind::SYMBOLIC),
        }
    }

    /// True if it is written as it is.
    #[inline(always)]
    pub(super) fn is_literal(&self) -> bool {
        self.case == Case::Literal
    }

    /// A word that is written as it is.
    pub(super) fn literal(text: &'a [u8]) -> Word<'a> {
        Word {
            text,
            case: Case::Literal,
            symbolic: false,
        }
    }

    /// A word of ASCII.
    pub(super) fn ascii(text: &'a [u8], marks_capitals: bool) -> Word<'a> {
        let capitals = text.iter().filter(|byte| byte.is_ascii_uppercase()).count();
        let case = if marks_capitals && capitals == text.len() && capitals >= CAPS_CHARACTERS {
            Case::Capitals
        } else if capitals == 1 && text[0].is_ascii_uppercase() {
            Case::Title
        } else {
            Case::Literal
        };
        Word {
            text,
            case,
            symbolic: false,
        }
    }

    /// Its tokens, markers included, if it is in the table of entries, else 0.
    #[inline(always)]
    pub(super) fn known_tokens(&self, vocabulary: usize) -> u64 {
        // Lower case may be shorter, but not by half.
        if self.text.len() > 2 * SHORT_BYTES {
            return 0;
        }
        let (mut lowered, mut length) = ([0; 16], 0);
        each_written(self.case, self.text, |written, from, at| {
            let bytes = &from[at..at + written.length];
            if let Some(place) = lowered.get_mut(length..length + bytes.len()) {
                place.copy_from_slice(bytes);
            }
            length += bytes.len();
        });
        let found = (length <= SHORT_BYTES).then(|| vocabulary::value(&lowered, length));
        found
            .flatten()
            .map_or(0, |value| self.tokens_of(value, vocabulary))
    }

    /// Its tokens by its value in the table of entries.
    fn tokens_of(&self, value: u32, vocabulary: usize) -> u64 {
        let layout = WORD_VALUES[vocabulary];
        let tokens = u64::from(value >> layout.cost_shift & WORD_COST_MASK);
        let whole = match self.case {
            Case::Literal => return tokens,
            Case::Title => value >> layout.title_shift,
            Case::Capitals => value >> layout.caps_shift,
        };
        if whole & 1 == 1 { 1 } else { tokens + 1 }
    }
}

impl Written for Word<'_> {
    fn length(&self) -> usize {
        self.text.len()
    }

    #[inline(always)]
    fn write(&self, marked: &mut impl Marked) {
        match self.case {
            Case::Literal => {}
            Case::Title => marked.byte(SHIFT),
            Case::Capitals => marked.byte(CAPS),
        }
        marked.byte(BOW);
        each_written(self.case, self.text, |written, from, at| {
            marked.character(written, from, at);
        });
        marked.byte(EOW);
    }
}

/// Calls `write` with each character of the word as it is written, and where its bytes are.
#[inline(always)]
fn each_written(case: Case, text: &[u8], mut write: impl FnMut(Character, &[u8], usize)) {
    let mut at = 0;
    while at < text.len() {
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

/// The properties of a word that decide how its case is written.
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
    /// True if the tail has a capital that is not a dotted I.
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
