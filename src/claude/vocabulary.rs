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

use std::hint::select_unpredictable;

use super::layout::{self, LADDER, LANES};
use crate::bpe::table::key::{self, Key};

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

static ENTRIES: &[[[u8; 8]; 2]] = table!("claude.entries").as_chunks().0;
static PILOTS: &[[u8; 2]] = table!("claude.pilots");

/// Bits of a slot of the automaton.
const SLOTS: u64 = (1 << layout::BASE_BITS) - 1;

/// The tables of one vocabulary.
pub(super) struct Vocabulary {
    /// Its place in shared tables.
    pub(super) number: usize,
    states: &'static [[u8; 8]],
    /// The state after each byte if nothing before it matters.
    roots: &'static [[u8; 8]],
    masks: &'static [[u8; 16]],
    lanes: &'static [[u8; LANES]],
    ladders: &'static [[u8; 2]],
}

pub(super) static V3: Vocabulary = Vocabulary {
    number: 0,
    states: table!("claude_v3.states"),
    roots: table!("claude_v3.roots"),
    masks: table!("claude_v3.masks"),
    lanes: table!("claude_v3.lanes"),
    ladders: table!("claude_v3.ladders"),
};

pub(super) static V4_7: Vocabulary = Vocabulary {
    number: 1,
    states: table!("claude_v4_7.states"),
    roots: table!("claude_v4_7.roots"),
    masks: table!("claude_v4_7.masks"),
    lanes: table!("claude_v4_7.lanes"),
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

    /// The state after one step, and whether it went over the byte or failed to. Without a branch.
    #[inline(always)]
    pub(super) fn attempt(&self, state: u64, byte: u8) -> (u64, bool) {
        let at = |slot: u64| {
            let state = self.states.get((slot & SLOTS) as usize);
            state.map_or(0, |state| u64::from_le_bytes(*state))
        };
        let next = at(state >> layout::BASE_SHIFT ^ u64::from(byte));
        let fail = state >> layout::FAIL_SHIFT & SLOTS;
        let root = u64::from_le_bytes(self.roots[usize::from(byte)]);
        let failed = select_unpredictable(fail == 0, root, at(fail));
        let goes = next as u8 == byte;
        (select_unpredictable(goes, next, failed), goes | (fail == 0))
    }

    /// Number of the mask of `state`.
    #[inline(always)]
    pub(super) fn mask_number(state: u64) -> u16 {
        (state >> layout::MASK_SHIFT) as u16
    }

    /// True if the mask of that number has pieces that are too long for lanes.
    #[inline(always)]
    pub(super) fn is_far(&self, number: u16) -> bool {
        u128::from_le_bytes(self.masks[usize::from(number)]) >> LANES != 0
    }

    /// The mask of that number, a byte for each length: 1 if a piece of that length ends here, else
    /// 255.
    #[inline(always)]
    pub(super) fn lanes(&self, number: u16) -> &[u8; LANES] {
        &self.lanes[usize::from(number)]
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

/// Value of the first `length` bytes of `text`, at most 13; its bits are those of `layout.rs`. No
/// value is 0.
#[inline(always)]
pub(super) fn value(text: &[u8; 16], length: usize) -> Option<u32> {
    let key = Key::new(text, length);
    Some(value_at(slot(key), key)).filter(|&value| value > 0)
}

/// Where the key is in the table of entries, if it is there.
#[inline(always)]
pub(super) fn slot(key: Key) -> usize {
    let hash = key.hash();
    let pilot = u16::from_le_bytes(PILOTS[key::bucket(hash, PILOTS.len())]);
    key::slot(hash, pilot, ENTRIES.len())
}

/// The entry in a slot.
#[inline(always)]
pub(super) fn entry(slot: usize) -> &'static [[u8; 8]; 2] {
    &ENTRIES[slot]
}

/// Value of the key if it is in its slot, else 0.
#[inline(always)]
pub(super) fn value_at(slot: usize, key: Key) -> u32 {
    let [low, high] = ENTRIES[slot].map(u64::from_le_bytes);
    let differs = (low ^ key.low) | (high ^ key.high) << (u64::BITS - key::RANK_SHIFT);
    select_unpredictable(differs == 0, (high >> key::RANK_SHIFT) as u32, 0)
}
