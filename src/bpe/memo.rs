//! Counts of the pieces that this call has merged already.
//!
//! A text repeats its own names: of the pieces outside the vocabulary, 40 % of those in English
//! text, 56 % in code and 80 % in JSON were seen before in the same text, and 27 % in messages of
//! 200 bytes to 4 KB (2026-11-21). The memo is 4 KB on the stack of one call and ends with it.

use super::key::{Key, RANK_SHIFT};

/// Pieces that are remembered, at most: 1,024 would be right for another 6 %.
const PIECES: usize = 256;

/// A table with one place for each hash; the newer piece takes the place.
pub(super) struct Memo([(u64, u64); PIECES]);

impl Memo {
    #[inline(always)]
    pub(super) fn new() -> Memo {
        Memo([(0, 0); PIECES])
    }

    /// Tokens of the piece, or 0 if it is not remembered.
    #[inline(always)]
    pub(super) fn count(&self, key: Key) -> u64 {
        let (low, high) = self.0[place(key)];
        let differs = (low ^ key.low) | (high ^ key.high) << (u64::BITS - RANK_SHIFT);
        if differs == 0 { high >> RANK_SHIFT } else { 0 }
    }

    #[inline(always)]
    pub(super) fn remember(&mut self, key: Key, count: u64) {
        self.0[place(key)] = (key.low, key.high | count << RANK_SHIFT);
    }
}

#[inline(always)]
fn place(key: Key) -> usize {
    (key.hash() >> 32) as usize & (PIECES - 1)
}
