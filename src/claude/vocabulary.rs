//! Vocabularies: tables that `build.rs` wrote, used in place.
//!
//! * Entries: one perfect hash for both vocabularies, with the token counts of whole words and of
//!   punctuation of up to 13 bytes.
//! * States and masks: an Aho-Corasick automaton over marked text for each vocabulary. The mask of
//!   a state has bit `n - 1` set if a piece of `n` bytes ends where the state is reached.
//! * Ladders: tokens of a run of one white space character, by length.

#![allow(
    clippy::cast_possible_truncation,
    reason = "a part of a word is what is meant"
)]

use super::key;
use super::layout::{self, LADDER};

/// Keeps entries from straddling cache lines.
#[repr(C, align(64))]
struct Aligned<T: ?Sized>(T);

macro_rules! table {
    ($name:expr) => {{
        static TABLE: &Aligned<[u8]> =
            &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/", $name)));
        TABLE.0.as_chunks().0
    }};
}

static ENTRIES: &[[u8; 16]] = table!("claude.entries");
static PILOTS: &[[u8; 2]] = table!("claude.pilots");

/// The tables of one vocabulary.
pub(super) struct Vocabulary {
    /// Its place in shared tables.
    pub(super) number: usize,
    states: &'static [[u8; 8]],
    /// The state after each byte if nothing before it matters.
    roots: &'static [[u8; 8]],
    masks: &'static [[u8; 16]],
    ladders: &'static [[u8; 2]],
}

pub(super) static V3: Vocabulary = Vocabulary {
    number: 0,
    states: table!("claude_v3.states"),
    roots: table!("claude_v3.roots"),
    masks: table!("claude_v3.masks"),
    ladders: table!("claude_v3.ladders"),
};

pub(super) static V4_7: Vocabulary = Vocabulary {
    number: 1,
    states: table!("claude_v4_7.states"),
    roots: table!("claude_v4_7.roots"),
    masks: table!("claude_v4_7.masks"),
    ladders: table!("claude_v4_7.ladders"),
};

/// White space that has a ladder.
#[derive(Clone, Copy)]
pub(super) enum Ladder {
    Space,
    Newline,
    Tab,
    Ideographic,
}

impl Vocabulary {
    /// The state before any text.
    pub(super) fn root(&self) -> u64 {
        u64::from_le_bytes(self.states[0])
    }

    /// The state after one more byte. Amortised constant: a failure undoes an earlier step.
    #[inline(always)]
    pub(super) fn step(&self, mut state: u64, byte: u8) -> u64 {
        const SLOTS: u64 = (1 << layout::BASE_BITS) - 1;
        loop {
            let slot = (state >> layout::BASE_SHIFT & SLOTS) as usize ^ usize::from(byte);
            let next = self.states.get(slot).map_or(0, |s| u64::from_le_bytes(*s));
            if next as u8 == byte {
                return next;
            }
            let fail = (state >> layout::FAIL_SHIFT & SLOTS) as usize;
            if fail == 0 {
                return u64::from_le_bytes(self.roots[usize::from(byte)]);
            }
            state = u64::from_le_bytes(self.states[fail]);
        }
    }

    /// Lengths of the pieces that end where `state` was reached: bit `n - 1` for `n` bytes, and
    /// those above 64.
    #[inline(always)]
    pub(super) fn ends(&self, state: u64) -> [u64; 2] {
        let mask = u128::from_le_bytes(self.masks[(state >> layout::MASK_SHIFT) as usize]);
        [mask as u64, (mask >> 64) as u64]
    }

    /// Tokens of a run of white space.
    pub(super) fn run(&self, ladder: Ladder, length: usize) -> u64 {
        let cell = |at: usize| u16::from_le_bytes(self.ladders[ladder as usize * LADDER + at]);
        if length < LADDER {
            // Cell 0 is the longest piece.
            return if length == 0 { 0 } else { cell(length).into() };
        }
        let longest = usize::from(cell(0));
        let pieces = (length - LADDER) / longest + 1;
        pieces as u64 + u64::from(cell(length - pieces * longest))
    }
}

/// Value of a text of up to 13 bytes, the low ones of `text`; its bits are those of `layout.rs`.
#[inline(always)]
pub(super) fn value(text: [u8; 16], length: usize) -> Option<u32> {
    let key = key::pack(text, length);
    let hash = key::hash_short(key);
    let pilot = u16::from_le_bytes(PILOTS[key::bucket(hash, PILOTS.len())]);
    let entry = u128::from_le_bytes(ENTRIES[key::slot(hash, pilot, ENTRIES.len())]);
    let found = entry & !(u128::MAX << key::RANK_SHIFT) == key;
    found.then_some((entry >> key::RANK_SHIFT) as u32)
}
