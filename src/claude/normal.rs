//! Normalisation: what the model forgets about a text before it looks at it.
//!
//! In this order: normalisation form C; controls except tab and line feed are removed; NUL becomes
//! a space; U+0E4D U+0E32 becomes U+0E33; private use of the basic plane is removed; the family v3
//! makes curly quotes straight; every space separator but U+3000 becomes a space. Text without any
//! of these, nearly all text, is not copied.
//!
//! Form C is that of Unicode 15.0, as in the Python that the data come from: code points assigned
//! later stay as they are. All others have the same form C in every later version (Unicode's
//! stability policy), so that the crate may have newer tables.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;

use super::character::{Character, kind_of};
use super::kind;
use crate::interrupt::Steps;

/// Bytes looked at together.
const CHUNK: usize = 32;

/// Anything that normalisation may have to look at.
const SPECIAL: u32 = kind::CONTROL
    | kind::PRIVATE
    | kind::BLANK
    | kind::QUOTE
    | kind::NIKHAHIT
    | kind::COMBINING
    | kind::COMPOSING;

/// Joins U+0E4D before it.
const SARA_AA: char = '\u{0E32}';

/// The normal form of `text`. Linear; copies only if something changes.
pub(super) fn normal(text: &str, fold_quotes: bool) -> Cow<'_, str> {
    let first = next_special(text.as_bytes(), 0, fold_quotes);
    if first == text.len() {
        return Cow::Borrowed(text);
    }
    let mut writer = Writer {
        normal: String::with_capacity(text.len()),
        fold_quotes,
        after_nikhahit: false,
    };
    let (mut at, mut special) = (0, first);
    let mut steps = Steps::default();
    while at < text.len() {
        steps.step();
        let end = special_end(text.as_bytes(), special);
        let plain = &text[at..special];
        let first = Character::at(text.as_bytes(), special);
        if !first.is(kind::COMBINING | kind::COMPOSING) && end == special + first.length {
            writer.plain(plain);
            text[special..end].chars().for_each(|c| writer.character(c));
        } else {
            let base = plain.chars().next_back().filter(|&base| {
                first.is(kind::COMBINING | kind::COMPOSING)
                    && kind_of(base.into()) & kind::UNASSIGNED == 0
            });
            let start = special - base.map_or(0, char::len_utf8);
            writer.plain(&text[at..start]);
            text[start..end].nfc().for_each(|c| writer.character(c));
        }
        at = end;
        special = if writer.after_nikhahit && text[at..].starts_with(SARA_AA) {
            at
        } else {
            next_special(text.as_bytes(), at, fold_quotes)
        };
    }
    Cow::Owned(writer.normal)
}

/// Start of the first character from `at` on that normalisation may change; else the end.
fn next_special(text: &[u8], mut at: usize, fold_quotes: bool) -> usize {
    let special = if fold_quotes {
        SPECIAL
    } else {
        SPECIAL & !kind::QUOTE
    };
    loop {
        while let Some(chunk) = text[at..].first_chunk::<CHUNK>() {
            if !chunk
                .iter()
                .fold(true, |plain, &byte| plain & is_plain(byte))
            {
                break;
            }
            at += CHUNK;
        }
        let stop = (at + CHUNK).min(text.len());
        while at < stop {
            let character = Character::at(text, at);
            if character.is(special) && !combines_normally(text, at, character) {
                return at;
            }
            at += character.length;
        }
        if at >= text.len() {
            return text.len();
        }
    }
}

/// True if the byte is an ASCII character that normalisation keeps.
#[inline(always)]
fn is_plain(byte: u8) -> bool {
    (byte.wrapping_sub(b' ') < 0x5F) | (byte == b'\n') | (byte == b'\t')
}

/// True if the character is a mark that is alone after one that is none; then nothing changes.
fn combines_normally(text: &[u8], at: usize, mark: Character) -> bool {
    mark.kind & SPECIAL == kind::COMBINING
        && !Character::at(text, at + mark.length).is(kind::COMBINING | kind::COMPOSING)
}

/// End of the special character at `at` and of all that may be joined to it or sorted with it.
fn special_end(text: &[u8], mut at: usize) -> usize {
    at += Character::at(text, at).length;
    loop {
        let character = Character::at(text, at);
        if !character.is(kind::COMBINING | kind::COMPOSING) {
            return at;
        }
        at += character.length;
    }
}

/// Writes what is left of a text in form C.
struct Writer {
    normal: String,
    fold_quotes: bool,
    after_nikhahit: bool,
}

impl Writer {
    /// Text without special characters.
    fn plain(&mut self, text: &str) {
        self.normal.push_str(text);
        self.after_nikhahit &= text.is_empty();
    }

    fn character(&mut self, character: char) {
        let bits = kind_of(character.into());
        if bits & kind::CONTROL != 0 {
            return;
        }
        let after_nikhahit = std::mem::replace(&mut self.after_nikhahit, false);
        if bits & kind::PRIVATE != 0 {
            return;
        }
        self.after_nikhahit = bits & kind::NIKHAHIT != 0;
        let written = match character {
            _ if bits & kind::BLANK != 0 => ' ',
            '\u{2018}' | '\u{2019}' if self.fold_quotes => '\'',
            '\u{201C}' | '\u{201D}' if self.fold_quotes => '"',
            SARA_AA if after_nikhahit => {
                self.normal.pop();
                '\u{0E33}'
            }
            kept => kept,
        };
        self.normal.push(written);
    }
}
