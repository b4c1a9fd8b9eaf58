//! Pieces that were found and wait to be counted.
//!
//! They are counted many at once, in three rounds: those that are short tokens, those that are
//! remembered, the rest. What one round leaves is written down for the next without asking, so that
//! no branch depends on a table: a wrong guess of the processor would cost more than the look-up,
//! and look-ups that wait for memory overlap.

#![allow(
    clippy::cast_possible_truncation,
    reason = "a number of a piece is below 256"
)]

use super::block::{BLOCK, Lanes};
use super::key::SHORT_BYTES;
use super::memo::{Memo, SHORT_PIECE_BYTES};
use super::merge::MERGE_BYTES;
use super::piece;
use super::small::Together;
use super::vocabulary::{Vocabulary, bytes_at};

/// Room for pieces: so many that a byte is their number, and no place is out of bounds.
const ROOM: usize = 256;

/// Pieces that are enough for a round.
const MANY: usize = ROOM - 2 * BLOCK;

/// Ends that are written at once; most blocks have fewer.
const AT_ONCE: usize = 16;

/// Pieces one after the other.
pub(super) struct Pieces {
    /// Start of the first, then the end of each.
    borders: [usize; ROOM],
    found: usize,
}

impl Pieces {
    /// No pieces; the first will start at 0.
    #[inline(always)]
    pub(super) fn new() -> Pieces {
        Pieces {
            borders: [0; ROOM],
            found: 0,
        }
    }

    /// True if the next block may not find room.
    #[inline(always)]
    pub(super) fn are_many(&self) -> bool {
        self.found >= MANY
    }

    #[inline(always)]
    pub(super) fn push(&mut self, end: usize) {
        self.found += 1;
        self.borders[self.found % ROOM] = end;
    }

    /// Pieces of the block at `start` that end after the bytes of `ends`; returns the last end.
    #[inline(always)]
    pub(super) fn push_all(&mut self, start: usize, mut ends: u64) -> usize {
        let last = start + BLOCK - ends.leading_zeros() as usize;
        let mut at = self.found + 1;
        self.found += ends.count_ones() as usize;
        while let Some(borders) = self.borders.get_mut(at..at + AT_ONCE) {
            for border in borders {
                *border = start + ends.trailing_zeros() as usize + 1;
                ends &= ends.wrapping_sub(1);
            }
            if ends == 0 {
                break;
            }
            at += AT_ONCE;
        }
        last
    }

    /// Number of tokens of the pieces, which are forgotten.
    #[inline(always)]
    pub(super) fn count<L: Lanes>(
        &mut self,
        vocabulary: &Vocabulary,
        memo: Memo,
        text: &[u8],
    ) -> u64 {
        let (mut tokens, mut unknown, mut left) = (0, [0; ROOM], 0);
        for (piece, border) in self.borders[..=self.found].windows(2).enumerate() {
            let length = (border[1] - border[0]).min(SHORT_PIECE_BYTES + 1);
            let hash = memo.hash_short(&bytes_at(text, border[0]), length);
            let count = memo.piece(hash);
            tokens += count;
            unknown[left % ROOM] = piece as u8;
            left += usize::from(count == 0);
        }
        tokens += self.count_unknown::<L>(vocabulary, memo, text, &unknown[..left]);
        self.borders[0] = self.borders[self.found % ROOM];
        self.found = 0;
        tokens
    }

    /// The second round: short tokens.
    #[inline(always)]
    fn count_unknown<L: Lanes>(
        &self,
        vocabulary: &Vocabulary,
        memo: Memo,
        text: &[u8],
        unknown: &[u8],
    ) -> u64 {
        let mut slots = [0; ROOM];
        for (slot, &piece) in slots.iter_mut().zip(unknown) {
            let (start, end) = self.piece(piece);
            *slot = vocabulary.short_slot(&bytes_at(text, start), end - start) as u32;
            L::prefetch(vocabulary.short_entry(*slot as usize));
        }
        let (mut tokens, mut others, mut left) = (0, [0; ROOM], 0);
        for (&slot, &piece) in slots.iter().zip(unknown) {
            let (start, end) = self.piece(piece);
            let text = bytes_at(text, start);
            let count = vocabulary.count_at(slot as usize, &text, end - start);
            let hash = memo.hash_short(&text, (end - start).min(SHORT_PIECE_BYTES + 1));
            memo.remember_if(hash, count);
            tokens += count;
            others[left % ROOM] = piece;
            left += usize::from(count == 0);
        }
        tokens + self.count_others::<L>(vocabulary, memo, text, &others[..left])
    }

    /// The third round: everything else.
    #[inline(always)]
    fn count_others<L: Lanes>(
        &self,
        vocabulary: &Vocabulary,
        memo: Memo,
        text: &[u8],
        others: &[u8],
    ) -> u64 {
        let (mut tokens, mut together) = (0, Together::new(vocabulary));
        for &piece in others {
            let (start, end) = self.piece(piece);
            if end - start > MERGE_BYTES && text[end - 1].is_ascii() {
                tokens += L::count_piece(vocabulary, text, start, end);
                continue;
            }
            if end - start <= SHORT_BYTES && text[end - 1].is_ascii() {
                together.push(memo.hash(text, start, end), text, start, end);
                if together.is_full() {
                    tokens += together.count(memo);
                }
                continue;
            }
            let hash = memo.hash(text, start, end);
            let count = memo.piece(hash);
            if count != 0 {
                tokens += count;
                continue;
            }
            let (mut from, mut known, mut waiting) = (start, 0, false);
            while from < end {
                let to = piece::cell_end(vocabulary, text, from, end);
                if to - from > MERGE_BYTES {
                    known += L::count_piece(vocabulary, text, from, to);
                } else if let Some(count) = together.count_cell(memo, text, from, to) {
                    known += count;
                } else {
                    waiting = true;
                }
                from = to;
                if together.is_full() {
                    tokens += together.count(memo);
                }
            }
            tokens += known;
            if !waiting {
                memo.remember_piece(hash, known);
            }
        }
        tokens + together.count(memo)
    }

    #[inline(always)]
    fn piece(&self, piece: u8) -> (usize, usize) {
        let piece = usize::from(piece);
        (self.borders[piece], self.borders[(piece + 1) % ROOM])
    }
}
