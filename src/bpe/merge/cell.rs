//! The merge, by its definition, for cells of at most [`MERGE_BYTES`].
//!
//! A cell starts as single bytes. While two neighbours joined are a token, the pair whose join has
//! the lowest rank is joined, the leftmost of equals first. What is left are the tokens.
//!
//! One word per byte holds the rank of the pair that starts there above its position, so that the
//! minimum of the words is the next pair. A scan for it is quadratic, but a scan of 16 words takes
//! two instructions with wide vectors.

use crate::bpe::table::{CELL_BYTES, Cell, NONE, Vocabulary};

/// Longest cell to merge.
pub(in crate::bpe) const MERGE_BYTES: usize = CELL_BYTES;

/// Starts of the tokens of `text[start..end]`: bit `n` stands for byte `n`.
#[inline(always)]
pub(in crate::bpe) fn starts(
    vocabulary: &Vocabulary,
    text: &[u8],
    start: usize,
    end: usize,
) -> u64 {
    let (length, cell) = (end - start, vocabulary.cell(text, start, end));
    if length <= 16 {
        merge::<16>(&cell, length)
    } else if length <= 32 {
        merge::<32>(&cell, length)
    } else {
        merge::<MERGE_BYTES>(&cell, length)
    }
}

/// Appends the tokens of `text[start..end]`.
#[inline(always)]
pub(in crate::bpe) fn encode(
    vocabulary: &Vocabulary,
    text: &[u8],
    start: usize,
    end: usize,
    tokens: &mut Vec<u32>,
) {
    let (mut starts, mut at) = (starts(vocabulary, text, start, end), start);
    while starts != 0 {
        starts &= starts - 1;
        let next = end.min(start + starts.trailing_zeros() as usize);
        tokens.push(vocabulary.rank(text, at, next));
        at = next;
    }
}

/// Low bits of a word, which hold a position.
const POSITION_BITS: u32 = 6;

/// Word of a position without a pair. Words are signed: SSE2 compares no others.
const NO_PAIR: i32 = i32::MAX;

#[inline(always)]
fn merge<const N: usize>(cell: &Cell, length: usize) -> u64 {
    let mut words = [NO_PAIR; N];
    for (at, pair) in words[..length - 1].iter_mut().enumerate() {
        *pair = word(cell.pair(at), at);
    }
    let mut starts = u64::MAX >> (MERGE_BYTES - length);
    loop {
        #[cfg(test)]
        crate::bpe::steps::add(N / 16);
        let lowest = words.iter().fold(NO_PAIR, |lowest, &word| lowest.min(word));
        if lowest == NO_PAIR {
            return starts;
        }
        let at = lowest.cast_unsigned() as usize % N;
        let joined = after(starts, at, length);
        starts &= !(1 << joined);
        words[joined % N] = NO_PAIR;
        let end = after(starts, at, length);
        words[at] = if end < length {
            word(cell.rank(at, after(starts, end, length)), at)
        } else {
            NO_PAIR
        };
        let before = starts & ((1 << at) - 1);
        if before != 0 {
            let before = before.ilog2() as usize % N;
            words[before] = word(cell.rank(before, end), before);
        }
    }
}

/// The start after that at `at`: the length of the cell after the last.
#[inline(always)]
fn after(starts: u64, at: usize, length: usize) -> usize {
    match starts >> at >> 1 {
        0 => length,
        rest => at + 1 + rest.trailing_zeros() as usize,
    }
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "a position is below 64")]
fn word(rank: u32, at: usize) -> i32 {
    if rank == NONE {
        NO_PAIR
    } else {
        (rank << POSITION_BITS | at as u32).cast_signed()
    }
}
