//! The merge, by its definition, for cells of at most [`MERGE_BYTES`].
//!
//! A cell starts as single bytes. While two neighbours joined are a token, the pair whose join has
//! the lowest rank is joined, the leftmost of equals first. What is left are the tokens.
//!
//! One word per byte holds the rank of the pair that starts there above its position, so that the
//! minimum of the words is the next pair. A scan for it is quadratic, but a scan of 16 words takes
//! two instructions with wide vectors.

use super::vocabulary::{NONE, Vocabulary};

/// Longest cell to merge.
pub(super) const MERGE_BYTES: usize = 64;

/// Starts of the tokens of `text[start..end]`: bit `n` stands for byte `n`.
#[inline(always)]
pub(super) fn starts(vocabulary: &Vocabulary, text: &[u8], start: usize, end: usize) -> u64 {
    let length = end - start;
    let spans = Spans {
        vocabulary,
        text,
        start,
    };
    if length <= 16 {
        merge::<16>(&spans, length)
    } else if length <= 32 {
        merge::<32>(&spans, length)
    } else {
        merge::<MERGE_BYTES>(&spans, length)
    }
}

/// The parts of a cell.
struct Spans<'a> {
    vocabulary: &'a Vocabulary,
    text: &'a [u8],
    start: usize,
}

impl Spans<'_> {
    #[inline(always)]
    fn pair(&self, at: usize) -> u32 {
        self.vocabulary.pair_rank(self.text, self.start + at)
    }

    #[inline(always)]
    fn rank(&self, from: usize, to: usize) -> u32 {
        self.vocabulary
            .candidate_rank(self.text, self.start + from, self.start + to)
    }
}

/// Low bits of a word, which hold a position.
const POSITION_BITS: u32 = 6;

/// Word of a position without a pair. Words are signed: SSE2 compares no others.
const NO_PAIR: i32 = i32::MAX;

#[inline(always)]
fn merge<const N: usize>(spans: &Spans, length: usize) -> u64 {
    let mut words = [NO_PAIR; N];
    let mut starts = u64::MAX >> (MERGE_BYTES - length);
    for at in 1..length {
        words[at - 1] = word(spans.pair(at - 1), at - 1);
    }
    loop {
        let lowest = words.iter().fold(NO_PAIR, |lowest, &word| lowest.min(word));
        if lowest == NO_PAIR {
            return starts;
        }
        let at = lowest.cast_unsigned() as usize % MERGE_BYTES;
        let next = |starts: u64, at: usize| {
            let after = starts >> at >> 1;
            if after == 0 {
                length
            } else {
                at + 1 + after.trailing_zeros() as usize
            }
        };
        let joined = next(starts, at);
        starts &= !(1 << joined);
        words[joined % N] = NO_PAIR;
        let after = next(starts, at);
        words[at % N] = if after < length {
            word(spans.rank(at, next(starts, after)), at)
        } else {
            NO_PAIR
        };
        let before = starts & ((1 << at) - 1);
        if before != 0 {
            let before = before.ilog2() as usize;
            words[before % N] = word(spans.rank(before, after), before);
        }
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
