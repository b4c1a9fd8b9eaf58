//! Cells that were found and wait to be counted.
//!
//! They are counted many at once, in rounds: those that are remembered, then the rest. What a round
//! leaves is written down for the next without asking, so that no branch depends on a table.

#![allow(
    clippy::cast_possible_truncation,
    reason = "a number of a cell is below 256"
)]

use super::counter::Counter;
use super::entry::Entry;
use crate::bpe::prefetch::prefetch;
use crate::bpe::split::block::{BLOCK, Lanes};

/// Room for cells: so many that a byte is their number, and no place is out of bounds.
const ROOM: usize = 256;

/// Cells that are enough for a round.
const MANY: usize = ROOM - 2 * BLOCK;

/// Cells that are written at once; most blocks have fewer.
const AT_ONCE: usize = 16;

/// Cells of a text.
pub(super) struct Cells {
    starts: [usize; ROOM],
    ends: [usize; ROOM],
    found: usize,
}

impl Cells {
    #[inline(always)]
    pub(super) fn new() -> Cells {
        Cells {
            starts: [0; ROOM],
            ends: [0; ROOM],
            found: 0,
        }
    }

    /// True if the next block may not find room.
    #[inline(always)]
    pub(super) fn are_many(&self) -> bool {
        self.found >= MANY
    }

    #[inline(always)]
    pub(super) fn push(&mut self, start: usize, end: usize) {
        let at = self.found % ROOM;
        (self.starts[at], self.ends[at]) = (start, end);
        self.found += 1;
    }

    /// Cells of the block at `start`, by their first and last bytes.
    #[inline(always)]
    pub(super) fn push_all(&mut self, start: usize, mut firsts: u64, mut lasts: u64) {
        let mut at = self.found;
        self.found += firsts.count_ones() as usize;
        while let (Some(starts), Some(ends)) = (
            self.starts.get_mut(at..at + AT_ONCE),
            self.ends.get_mut(at..at + AT_ONCE),
        ) {
            for (cell_start, cell_end) in starts.iter_mut().zip(ends) {
                *cell_start = start + firsts.trailing_zeros() as usize;
                *cell_end = start + lasts.trailing_zeros() as usize + 1;
                firsts &= firsts.wrapping_sub(1);
                lasts &= lasts.wrapping_sub(1);
            }
            if firsts == 0 {
                break;
            }
            at += AT_ONCE;
        }
    }

    /// Number of tokens of the cells, which are forgotten; some may wait in `counter`.
    #[inline(always)]
    pub(super) fn count<L: Lanes>(&mut self, counter: &mut Counter, text: &[u8]) -> u64 {
        let (mut tokens, mut unknown, mut left) = (0, [0; ROOM], 0);
        for cell in 0..self.found {
            let (start, end) = self.cell(cell as u8);
            let count = counter.remembered(text, start, end);
            tokens += count;
            unknown[left % ROOM] = cell as u8;
            left += usize::from(count == 0);
        }
        tokens += self.count_unknown::<L>(counter, text, &unknown[..left % ROOM]);
        self.found = 0;
        tokens
    }

    /// The second round: words and punctuation that the table of entries knows.
    #[inline(always)]
    fn count_unknown<L: Lanes>(&self, counter: &mut Counter, text: &[u8], unknown: &[u8]) -> u64 {
        let mut entries = [Entry::NONE; ROOM];
        for (entry, &cell) in entries.iter_mut().zip(unknown) {
            let (start, end) = self.cell(cell);
            *entry = counter.entry(text, start, end);
            prefetch(entry.place());
        }
        let (mut tokens, mut others, mut left) = (0, [0; ROOM], 0);
        for (entry, &cell) in entries.iter().zip(unknown) {
            let (start, end) = self.cell(cell);
            let count = counter.known(entry, text, start, end);
            tokens += count;
            others[left % ROOM] = cell;
            left += usize::from(count == 0);
        }
        for &cell in &others[..left % ROOM] {
            let (start, end) = self.cell(cell);
            tokens += counter.other(text, start, end);
        }
        tokens
    }

    #[inline(always)]
    fn cell(&self, cell: u8) -> (usize, usize) {
        let cell = usize::from(cell);
        (self.starts[cell], self.ends[cell])
    }
}
