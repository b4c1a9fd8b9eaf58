//! Pieces that were found and wait to be counted.
//!
//! They are counted many at once, in three rounds: those that are remembered, those that are short
//! tokens, the rest. What one round leaves is written down for the next without asking, so that no
//! branch depends on a table: a wrong guess of the processor would cost more than the look-up. And
//! each round first asks for all that it will read, so that its pieces wait for the memory together:
//! it is what counting new text takes most of its time for.

#![allow(
    clippy::cast_possible_truncation,
    reason = "a number of a piece is below 256"
)]

use super::block::{BLOCK, Lanes};
use super::key::{Key, SHORT_BYTES};
use super::long::PARTED_BYTES;
use super::memo::{Hash, Memo, SHORT_PIECE_BYTES};
use super::piece;
use super::together::{TOGETHER_BYTES, Together};
use super::vocabulary::{NONE, Vocabulary, bytes_at};
use super::waiting::Waiting;

/// Room for pieces: so many that a byte is their number, and no place is out of bounds.
const ROOM: usize = 256;

/// Pieces that are enough for a round.
const MANY: usize = ROOM - 2 * BLOCK;

/// Ends that are written at once; most blocks have fewer.
const AT_ONCE: usize = 16;

/// Pieces one after the other.
pub(super) struct Pieces<'a> {
    /// Start of the first, then the end of each.
    borders: [usize; ROOM],
    found: usize,
    hashes: [Hash; ROOM],
    /// Cells of earlier pieces that are being merged.
    together: Together,
    waiting: Waiting<'a>,
}

impl<'a> Pieces<'a> {
    /// No pieces; the first will start at 0.
    #[inline(always)]
    pub(super) fn new() -> Pieces<'a> {
        Pieces {
            borders: [0; ROOM],
            found: 0,
            hashes: [Hash::default(); ROOM],
            together: Together::new(),
            waiting: Waiting::new(),
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

    /// Number of tokens of the pieces, which are forgotten. Some are not counted before the next
    /// call or [`finish`](Self::finish). The first round: what is remembered.
    #[inline(always)]
    pub(super) fn count<L: Lanes>(
        &mut self,
        vocabulary: &Vocabulary,
        memo: Memo,
        text: &'a [u8],
    ) -> u64 {
        for (hash, border) in self
            .hashes
            .iter_mut()
            .zip(self.borders[..=self.found].windows(2))
        {
            let length = (border[1] - border[0]).min(SHORT_PIECE_BYTES + 1);
            *hash = memo.hash_short(&bytes_at(text, border[0]), length);
            memo.prefetch::<L>(*hash);
        }
        let (mut tokens, mut unknown, mut left) = (0, [0; ROOM], 0);
        for (piece, &hash) in self.hashes[..self.found].iter().enumerate() {
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
        &mut self,
        vocabulary: &Vocabulary,
        memo: Memo,
        text: &'a [u8],
        unknown: &[u8],
    ) -> u64 {
        let mut places = [0; ROOM];
        for (place, &piece) in places.iter_mut().zip(unknown) {
            let (start, end) = self.piece(piece);
            let key = Key::new(&bytes_at(text, start), (end - start).min(SHORT_BYTES + 1));
            *place = vocabulary.place(key, key.hash()) as u32;
            L::prefetch(vocabulary.word(*place as usize));
        }
        let (mut tokens, mut others, mut left) = (0, [0; ROOM], 0);
        for (&place, &piece) in places.iter().zip(unknown) {
            let (start, end) = self.piece(piece);
            let text = bytes_at(text, start);
            let key = Key::new(&text, (end - start).min(SHORT_BYTES + 1));
            let count = u64::from(vocabulary.rank_at(place as usize, key) != NONE);
            let hash = self.hashes[usize::from(piece)];
            memo.remember_some(hash, count);
            tokens += count;
            others[left % ROOM] = piece;
            left += usize::from(count == 0);
        }
        tokens + self.count_others::<L>(vocabulary, memo, text, &others[..left])
    }

    /// The third round: everything else.
    #[inline(always)]
    fn count_others<L: Lanes>(
        &mut self,
        vocabulary: &Vocabulary,
        memo: Memo,
        text: &'a [u8],
        others: &[u8],
    ) -> u64 {
        let mut tokens = 0;
        for &piece in others {
            let (start, end) = self.piece(piece);
            let is_ascii = text[end - 1].is_ascii();
            let hash = memo.hash(text, start, end);
            let known = memo.piece(hash);
            tokens += if known != 0 {
                known
            } else if !is_ascii {
                self.count_cells::<L>(vocabulary, memo, hash, text, (start, end))
            } else {
                self.count_cell::<L>(vocabulary, memo, hash, text, (start, end))
            };
        }
        tokens
    }

    /// Tokens of a piece that may have several cells, or of those before them if they have to wait.
    #[inline(always)]
    fn count_cells<L: Lanes>(
        &mut self,
        vocabulary: &Vocabulary,
        memo: Memo,
        hash: Hash,
        text: &'a [u8],
        (start, end): (usize, usize),
    ) -> u64 {
        let (mut from, mut tokens, mut all_known) = (start, 0, true);
        while from < end {
            let to = piece::cell_end(vocabulary, text, from, end);
            let hash = memo.hash(text, from, to);
            let count = memo.piece(hash);
            if count == 0 {
                all_known = false;
                tokens += self.count_cell::<L>(vocabulary, memo, hash, text, (from, to));
            }
            tokens += count;
            from = to;
        }
        if all_known {
            memo.remember_piece(hash, tokens);
        }
        tokens
    }

    /// Tokens of a cell, or of those before it if it has to wait.
    #[inline(always)]
    fn count_cell<L: Lanes>(
        &mut self,
        vocabulary: &Vocabulary,
        memo: Memo,
        hash: Hash,
        text: &'a [u8],
        (start, end): (usize, usize),
    ) -> u64 {
        let length = end - start;
        // A short piece was looked up in the second round.
        let is_new = length > SHORT_BYTES || !text[end - 1].is_ascii();
        let count = if is_new && vocabulary.rank(text, start, end) != NONE {
            1
        } else if length > PARTED_BYTES {
            L::count_long(vocabulary, &text[start..end])
        } else if length > TOGETHER_BYTES {
            let cell = &text[start..end];
            return self.waiting.push::<L>(vocabulary, memo, hash, cell);
        } else {
            let cell = (start, end);
            return self.together.push::<L>(vocabulary, memo, hash, text, cell);
        };
        memo.remember_piece(hash, count);
        count
    }

    /// Number of tokens of what still waits.
    #[inline(always)]
    pub(super) fn finish<L: Lanes>(&mut self, vocabulary: &Vocabulary, memo: Memo) -> u64 {
        self.together.finish::<L>(vocabulary, memo) + self.waiting.finish::<L>(vocabulary, memo)
    }

    #[inline(always)]
    fn piece(&self, piece: u8) -> (usize, usize) {
        let piece = usize::from(piece);
        (self.borders[piece], self.borders[(piece + 1) % ROOM])
    }
}
