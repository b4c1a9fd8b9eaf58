//! The merge of small cells, several side by side.
//!
//! One step of a merge waits for the memory more than it computes: the lowest pair tells which two
//! bytes strings to look up, and their ranks tell the next lowest pair. So [`TOGETHER`] cells take
//! their steps in turn, and the processor does the work of the others while one waits. A step has
//! no branch that depends on the text: what does not exist is looked up as a key of no token.

use super::key::{Key, SHORT_BYTES};
use super::memo::{Hash, Memo};
use super::merge;
use super::vocabulary::{NONE, Vocabulary, bytes_at};

/// Longest cell that is merged here.
const SMALL_BYTES: usize = 16;

/// Cells that are merged side by side.
const TOGETHER: usize = 4;

/// Cells to merge, with their hashes.
pub(super) struct Together<'a> {
    vocabulary: &'a Vocabulary,
    cells: [Cell; TOGETHER],
    hashes: [Option<Hash>; TOGETHER],
    filled: usize,
}

impl<'a> Together<'a> {
    #[inline(always)]
    pub(super) fn new(vocabulary: &'a Vocabulary) -> Together<'a> {
        Together {
            vocabulary,
            cells: [Cell::EMPTY; TOGETHER],
            hashes: [None; TOGETHER],
            filled: 0,
        }
    }

    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.filled == TOGETHER
    }

    /// Tokens of the cell `text[start..end]`, if it is no small one that has to be merged; else it
    /// waits with the others, which are not full.
    #[inline(always)]
    pub(super) fn count_cell(
        &mut self,
        memo: Memo,
        text: &[u8],
        start: usize,
        end: usize,
    ) -> Option<u64> {
        let length = end - start;
        let hash = memo.hash(text, start, end);
        let count = match memo.piece(hash) {
            0 if self.vocabulary.rank(text, start, end) != NONE => 1,
            0 if length > SMALL_BYTES => {
                let starts = merge::starts(self.vocabulary, text, start, end);
                u64::from(starts.count_ones())
            }
            0 => {
                self.push(hash, text, start, end);
                return None;
            }
            count => return Some(count),
        };
        memo.remember_piece(hash, count);
        Some(count)
    }

    /// The cell `text[start..end]`, of at most [`SMALL_BYTES`], waits with the others, which are not
    /// full.
    #[inline(always)]
    pub(super) fn push(&mut self, hash: Hash, text: &[u8], start: usize, end: usize) {
        let place = self.filled % TOGETHER;
        self.hashes[place] = Some(hash);
        self.cells[place] = Cell::new(self.vocabulary, &bytes_at(text, start), end - start);
        self.filled += 1;
    }

    /// Tokens of all cells, which are forgotten.
    #[inline(always)]
    pub(super) fn count(&mut self, memo: Memo) -> u64 {
        let cells = &mut self.cells[..self.filled];
        loop {
            let mut lowest = NO_PAIR;
            for cell in &mut *cells {
                lowest = lowest.min(cell.step(self.vocabulary));
            }
            if lowest == NO_PAIR {
                break;
            }
        }
        let mut tokens = 0;
        for (cell, hash) in cells.iter().zip(self.hashes.iter().flatten()) {
            let count = u64::from(cell.starts.count_ones() - 1);
            memo.remember_piece(*hash, count);
            tokens += count;
        }
        self.filled = 0;
        tokens
    }
}

/// Low bits of a word, which hold a position.
const POSITION_BITS: u32 = 4;

/// Word of a position without a pair. Words are signed: SSE2 compares no others.
const NO_PAIR: i32 = i32::MAX;

/// A cell that is being merged.
#[derive(Clone, Copy)]
struct Cell {
    /// Rank of the pair that starts at each position, above the position itself.
    words: [i32; SMALL_BYTES],
    /// Its text, and whatever after it.
    text: [u8; 2 * SMALL_BYTES],
    /// Starts of spans, and the end of the last.
    starts: u32,
}

impl Cell {
    const EMPTY: Cell = Cell {
        words: [NO_PAIR; SMALL_BYTES],
        text: [0; 2 * SMALL_BYTES],
        starts: 1,
    };

    #[inline(always)]
    fn new(vocabulary: &Vocabulary, text: &[u8; SMALL_BYTES], length: usize) -> Cell {
        let mut cell = Cell {
            starts: (2 << length) - 1,
            ..Cell::EMPTY
        };
        cell.text[..SMALL_BYTES].copy_from_slice(text);
        for at in 0..length - 1 {
            let pair = [cell.text[at], cell.text[at + 1]];
            cell.words[at] = word(vocabulary.pair_rank(pair), at);
        }
        cell
    }

    /// Joins the lowest pair; returns its word, or [`NO_PAIR`] if nothing is left to join.
    #[inline(always)]
    fn step(&mut self, vocabulary: &Vocabulary) -> i32 {
        let lowest = self.words.iter().fold(NO_PAIR, |low, &word| low.min(word));
        if lowest == NO_PAIR {
            return NO_PAIR;
        }
        #[cfg(test)]
        super::steps::add(1);
        let at = lowest.cast_unsigned() as usize % SMALL_BYTES;
        let after = self.starts >> at >> 1;
        let joined = at + 1 + after.trailing_zeros() as usize;
        self.starts &= !(1 << joined);
        self.words[joined % SMALL_BYTES] = NO_PAIR;
        let after = self.starts >> at >> 1;
        let end = at + 1 + after.trailing_zeros() as usize;
        // Without a span behind the joined one, no bit is left: a length of no token.
        let more = after & after.wrapping_sub(1);
        let next = at + 1 + more.trailing_zeros() as usize;
        self.words[at] = word(self.rank(vocabulary, at, next), at);
        let before = self.starts & ((1 << at) - 1);
        // Without a span before the joined one, its own word is written once more.
        let previous = if before == 0 {
            at
        } else {
            before.ilog2() as usize
        };
        let end = if before == 0 { next } else { end };
        self.words[previous % SMALL_BYTES] = word(self.rank(vocabulary, previous, end), previous);
        lowest
    }

    #[inline(always)]
    fn rank(&self, vocabulary: &Vocabulary, from: usize, to: usize) -> u32 {
        let length = to - from;
        if length > SHORT_BYTES && length <= SMALL_BYTES {
            return vocabulary.rank(&self.text, from, to);
        }
        let text = self.text[from % SMALL_BYTES..].first_chunk();
        text.map_or(NONE, |text| {
            let key = Key::new(text, length.min(SHORT_BYTES + 1));
            vocabulary.key_rank(key)
        })
    }
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "a position is below 16")]
fn word(rank: u32, at: usize) -> i32 {
    if rank == NONE {
        NO_PAIR
    } else {
        (rank << POSITION_BITS | at as u32).cast_signed()
    }
}
