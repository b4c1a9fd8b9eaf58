//! Pieces that were found and wait to be counted.
//!
//! They are counted many at once, in rounds: those that are remembered, those that are short tokens,
//! those that are long and remembered; what is left falls into cells, and of these those that are
//! remembered, those that are tokens, the rest, which is merged. What the first rounds leave is written
//! down for the next without asking, so that no branch depends on a table: a wrong guess of the
//! processor would cost more than the look-up. And each round first asks for all that it will read, so
//! that its pieces wait for the memory together: it is what counting new text takes most of its time
//! for.

#![allow(
    clippy::cast_possible_truncation,
    reason = "a number of a piece is below 256"
)]

use super::block::{BLOCK, Lanes, prefetch};
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

/// Cells that are looked up at once.
const CELLS: usize = 32;

/// A cell that waits to be looked up.
#[derive(Clone, Copy, Default)]
struct Cell {
    hash: Hash,
    start: usize,
    end: usize,
    /// Where it is in the vocabulary if it is a short token.
    place: usize,
    /// The piece that it is in.
    piece: u8,
    /// False if it is a piece that the second round looked up.
    is_new: bool,
}

impl Cell {
    /// Its key, or that of no token if it is long.
    #[inline(always)]
    fn key(&self, text: &[u8]) -> Key {
        let length = (self.end - self.start).min(SHORT_BYTES + 1);
        Key::new(&bytes_at(text, self.start), length)
    }

    /// Its rank, or [`NONE`].
    #[inline(always)]
    fn rank(&self, vocabulary: &Vocabulary, text: &[u8]) -> u32 {
        if self.end - self.start > SHORT_BYTES {
            vocabulary.rank(text, self.start, self.end)
        } else {
            vocabulary.rank_at(self.place, self.key(text))
        }
    }
}

/// Cells of pieces that are not remembered.
struct Cells {
    cells: [Cell; CELLS],
    found: usize,
}

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
            memo.prefetch(*hash);
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
            *place = vocabulary.place(key) as u32;
            prefetch(vocabulary.word(*place as usize));
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

    /// The third round: everything else that is remembered, the rest cell by cell.
    #[inline(always)]
    fn count_others<L: Lanes>(
        &mut self,
        vocabulary: &Vocabulary,
        memo: Memo,
        text: &'a [u8],
        others: &[u8],
    ) -> u64 {
        if others.is_empty() {
            return 0;
        }
        for &piece in others {
            let (start, end) = self.piece(piece);
            if end - start > SHORT_PIECE_BYTES {
                let hash = memo.hash(text, start, end);
                self.hashes[usize::from(piece)] = hash;
                memo.prefetch(hash);
            }
        }
        let (mut tokens, mut others, mut from) = (0, others, None);
        let mut cells = Cells {
            cells: [Cell::default(); CELLS],
            found: 0,
        };
        loop {
            tokens += self.find_cells(vocabulary, memo, text, &mut cells, &mut others, &mut from);
            tokens += self.count_cells::<L>(vocabulary, memo, text, &mut cells);
            if others.is_empty() {
                return tokens;
            }
        }
    }

    /// Cuts pieces into cells until there is no room for more. The first of `others` is cut from
    /// `from` on; both become what is left. Returns the tokens of the pieces that are remembered.
    #[inline(always)]
    fn find_cells(
        &self,
        vocabulary: &Vocabulary,
        memo: Memo,
        text: &[u8],
        cells: &mut Cells,
        others: &mut &[u8],
        from: &mut Option<usize>,
    ) -> u64 {
        let mut tokens = 0;
        cells.found = 0;
        while let Some((&piece, rest)) = others.split_first() {
            let (whole, (start, end)) = (self.hashes[usize::from(piece)], self.piece(piece));
            let known = memo.piece(whole);
            let mut at = from.take().unwrap_or(start);
            if at == start && known != 0 {
                tokens += known;
                at = end;
            }
            while at < end {
                if cells.found == CELLS {
                    *from = Some(at);
                    return tokens;
                }
                let to = piece::cell_end(vocabulary, text, at, end);
                let is_whole = to - at == end - start;
                let hash = if is_whole {
                    whole
                } else {
                    let hash = memo.hash(text, at, to);
                    memo.prefetch(hash);
                    hash
                };
                cells.cells[cells.found % CELLS] = Cell {
                    hash,
                    start: at,
                    end: to,
                    place: 0,
                    piece,
                    is_new: !is_whole || to - at > SHORT_BYTES,
                };
                cells.found += 1;
                at = to;
            }
            *others = rest;
        }
        tokens
    }

    /// Number of tokens of the cells, which are forgotten, or of those before them if they have to
    /// wait. The fourth round: cells that are remembered, or that make a piece be remembered.
    #[inline(always)]
    fn count_cells<L: Lanes>(
        &mut self,
        vocabulary: &Vocabulary,
        memo: Memo,
        text: &'a [u8],
        cells: &mut Cells,
    ) -> u64 {
        let (mut tokens, mut unknown, mut left) = (0, [0; CELLS], 0);
        // Tokens of a piece as long as all of its cells are known, else 0.
        let mut known = 0;
        for at in 0..cells.found {
            let cell = &mut cells.cells[at % CELLS];
            let piece = usize::from(cell.piece);
            let (start, end) = (self.borders[piece], self.borders[(piece + 1) % ROOM]);
            let count = memo.piece(cell.hash);
            tokens += count;
            let is_known = count != 0 && (known != 0 || cell.start == start);
            known = if is_known { known + count } else { 0 };
            if cell.end == end {
                if is_known {
                    memo.remember_piece(self.hashes[piece], known);
                }
                known = 0;
            }
            if count == 0 {
                unknown[left % CELLS] = at as u8;
                left += 1;
                if cell.is_new {
                    let key = cell.key(text);
                    cell.place = vocabulary.place(key);
                    prefetch(vocabulary.word(cell.place));
                }
            }
        }
        for &at in &unknown[..left] {
            let cell = cells.cells[usize::from(at)];
            tokens += self.count_cell::<L>(vocabulary, memo, text, cell);
        }
        tokens
    }

    /// Tokens of a cell, or of those before it if it has to wait. The last round.
    #[inline(always)]
    fn count_cell<L: Lanes>(
        &mut self,
        vocabulary: &Vocabulary,
        memo: Memo,
        text: &'a [u8],
        cell: Cell,
    ) -> u64 {
        let Cell {
            hash, start, end, ..
        } = cell;
        let count = if cell.is_new && cell.rank(vocabulary, text) != NONE {
            1
        } else if end - start > PARTED_BYTES {
            L::count_long(vocabulary, &text[start..end])
        } else if end - start > TOGETHER_BYTES {
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
