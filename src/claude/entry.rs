//! Cells of ASCII in the table of entries, without a branch that depends on the text.

#![allow(
    clippy::cast_possible_truncation,
    reason = "there are fewer slots than 32 bits"
)]

use std::hint::select_unpredictable;

use super::layout::{PUNCTUATION_COST_MASK, WORD_COST_MASK, WORD_VALUES, punctuation_shift};
use super::vocabulary;
use super::word::CAPS_CHARACTERS;
use crate::bpe::table::bytes_at;
use crate::bpe::table::key::{Key, SHORT_BYTES, low_bytes};

/// The bit by which small letters differ from capitals, in every byte.
const SMALL: [u8; 16] = [0x20; 16];

/// Bits of bytes that are not ASCII.
const WIDE: u64 = 0x8080_8080_8080_8080;

/// How a value is read.
#[derive(Clone, Copy)]
struct Form {
    /// Where the tokens are.
    shift: u32,
    mask: u32,
    /// Where it says that one token is all.
    whole_shift: u32,
    /// Tokens of a marker before the word.
    marker: u32,
}

/// Past all bits of a value.
const NOWHERE: u32 = 31;

/// By vocabulary: words as they are, as titles and in capitals; punctuation by its markers.
static FORMS: [[Form; 8]; 2] = [forms(0), forms(1)];

const TITLE: usize = 1;
const CAPITALS: usize = 2;
const PUNCTUATION: usize = 4;

const fn forms(vocabulary: usize) -> [Form; 8] {
    let layout = WORD_VALUES[vocabulary];
    let word = Form {
        shift: layout.cost_shift,
        mask: WORD_COST_MASK,
        whole_shift: NOWHERE,
        marker: 0,
    };
    let mut forms = [word; 8];
    forms[TITLE].whole_shift = layout.title_shift;
    forms[TITLE].marker = 1;
    forms[CAPITALS].whole_shift = layout.caps_shift;
    forms[CAPITALS].marker = 1;
    let mut markers = 0;
    while markers < 4 {
        forms[PUNCTUATION + markers] = Form {
            shift: punctuation_shift(vocabulary, markers & 1 == 1, markers & 2 == 2),
            mask: PUNCTUATION_COST_MASK,
            whole_shift: NOWHERE,
            marker: 0,
        };
        markers += 1;
    }
    forms
}

/// Where a cell is in the table, if it is there.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    key: Key,
    slot: u32,
    form: u8,
}

impl Entry {
    /// The entry of no cell.
    pub(super) const NONE: Entry = Entry {
        key: Key { low: 0, high: 0 },
        slot: 0,
        form: 0,
    };

    /// The place of the cell `text[start..end]`: of ASCII, or a word that is written as it is.
    #[inline(always)]
    pub(super) fn new(text: &[u8], start: usize, end: usize, marks_capitals: bool) -> Entry {
        let (bow, eow) = (text[start] == b' ', text[end - 1] == b' ');
        let start = start + usize::from(bow);
        let length = (end - usize::from(eow) - start).min(SHORT_BYTES + 1);
        let bytes = bytes_at(text, start);
        let (mut low, mut high) = low_bytes(&bytes, length);
        let (low_small, high_small) = low_bytes(&SMALL, length);
        let (low_capitals, high_capitals) = (!low & low_small, !high & high_small);
        let word = bytes[0].is_ascii_alphabetic() | !bytes[0].is_ascii();
        let ascii = (low | high) & WIDE == 0;
        let title = word & ascii & (low_capitals == 0x20) & (high_capitals == 0);
        let capitals = word
            & ascii
            & marks_capitals
            & (length >= CAPS_CHARACTERS)
            & (low_capitals == low_small)
            & (high_capitals == high_small);
        low |= select_unpredictable(capitals, low_small, u64::from(title) << 5);
        high |= select_unpredictable(capitals, high_small, 0);
        let folded = u128::from(high) << 64 | u128::from(low);
        let key = Key::new(&folded.to_le_bytes(), length);
        let case = usize::from(title) * TITLE + usize::from(capitals) * CAPITALS;
        let markers = PUNCTUATION + usize::from(bow) + 2 * usize::from(eow);
        Entry {
            key,
            slot: vocabulary::slot(key) as u32,
            form: select_unpredictable(word, case, markers) as u8,
        }
    }

    /// The place in the table.
    #[inline(always)]
    pub(super) fn place(&self) -> &'static [[u8; 8]; 2] {
        vocabulary::entry(self.slot as usize)
    }

    /// Tokens of the cell, or 0 if the table does not know.
    #[inline(always)]
    pub(super) fn tokens(&self, vocabulary: usize) -> u64 {
        let form = FORMS[vocabulary][usize::from(self.form % 8)];
        let value = vocabulary::value_at(self.slot as usize, self.key);
        let tokens = value >> form.shift & form.mask;
        let marked = select_unpredictable(tokens > 0, tokens + form.marker, 0);
        let whole = value >> form.whole_shift & 1;
        u64::from(select_unpredictable(whole == 1, 1, marked))
    }
}
