//! Pieces that were found and wait to be counted.
//!
//! They are counted many at once, in rounds: those that are remembered, those that are short tokens,
//! those that are long and remembered; what is left falls into cells, and of these those that are
//! remembered, those that are tokens, the rest, which is merged. What the first rounds leave is written
//! down for the next without asking, so that no branch depends on a table: a wrong guess of the
//! processor would cost more than the look-up. And each round first asks for all that it will read, so
//! that its pieces wait for the memory together: waiting is most of the time that new text takes.

#![allow(
    clippy::cast_possible_truncation,
    reason = "a number of a piece is below 512"
)]

use crate::bpe::borders::{Borders, ROOM};
use crate::bpe::merge::batch::{BATCH_CELL_BYTES, MergeBatch};
use crate::bpe::merge::kernel::MergeKernel;
use crate::bpe::merge::long::PARTED_BYTES;
use crate::bpe::merge::long_batch::LongCellBatch;
use crate::bpe::merge::piece;
use crate::bpe::prefetch::prefetch;
use crate::bpe::split::Rule;
use crate::bpe::split::block::Lanes;
use crate::bpe::table::key::{Key, SHORT_BYTES};
use crate::bpe::table::memo::{Hash, Memo, SHORT_PIECE_BYTES};
use crate::bpe::table::{NONE, Vocabulary, bytes_at};
use crate::interrupt;

/// Cells that are looked up at once.
const CELLS: usize = 32;

/// A cell that waits to be looked up.
#[derive(Clone, Copy)]
struct Cell {
    hash: Hash,
    start: usize,
    end: usize,
    /// Where it is in the vocabulary if it is a short token.
    place: usize,
    /// The piece that it is in.
    piece: u16,
    /// True if it is less than the piece.
    is_part: bool,
}

impl Cell {
    const NONE: Cell = Cell {
        hash: Hash::NONE,
        start: 0,
        end: 0,
        place: 0,
        piece: 0,
        is_part: false,
    };

    /// False if it is a piece that the second round looked up.
    #[inline(always)]
    fn is_new(&self) -> bool {
        self.is_part || self.end - self.start > SHORT_BYTES
    }

    /// Its key, or that of no token if it is long.
    #[inline(always)]
    fn key(&self, text: &[u8]) -> Key {
        let length = (self.end - self.start).min(SHORT_BYTES + 1);
        Key::new(&bytes_at(text, self.start), length)
    }

    /// True if it is one token.
    #[inline(always)]
    fn is_token(&self, vocabulary: &Vocabulary, text: &[u8]) -> bool {
        let rank = if self.end - self.start > SHORT_BYTES {
            vocabulary.rank(text, self.start, self.end)
        } else {
            vocabulary.rank_at(self.place, self.key(text))
        };
        rank != NONE && (!self.is_part || vocabulary.is_merged(rank))
    }
}

/// A text that is being counted.
pub(super) struct Counting<'a> {
    vocabulary: &'a Vocabulary<'a>,
    memo: Memo,
    /// Of cells that are less than their piece.
    memo_of_parts: Memo,
    text: &'a [u8],
    /// Its long cells that are being read.
    long_cells: LongCellBatch<'a>,
}

impl<'a> Counting<'a> {
    #[inline(always)]
    pub(super) fn new(vocabulary: &'a Vocabulary<'a>, memo: Memo, text: &'a [u8]) -> Counting<'a> {
        // A token that only a whole piece is counts more as a part.
        let memo_of_parts = match vocabulary.has_wholes() {
            true => memo.apart(),
            false => memo,
        };
        Counting {
            vocabulary,
            memo,
            memo_of_parts,
            text,
            long_cells: LongCellBatch::new(),
        }
    }

    #[inline(always)]
    pub(super) fn text(&self) -> &'a [u8] {
        self.text
    }
}

/// Pieces one after the other. A thread keeps one and uses it for each text, always with the same
/// instructions: to clear what it holds would take as long as to count a short text.
pub(super) struct Pieces {
    borders: Borders,
    hashes: [Hash; ROOM],
    /// Those that are not remembered, and where they are in the vocabulary if they are short tokens.
    unknown: [u16; ROOM],
    places: [u32; ROOM],
    /// Those of them that are no short tokens.
    others: [u16; ROOM],
    /// Cells of these.
    cells: [Cell; CELLS],
    /// Cells of earlier pieces that are being merged.
    batch: MergeBatch,
}

impl Pieces {
    pub(super) const fn new() -> Pieces {
        Pieces {
            borders: Borders::new(),
            hashes: [Hash::NONE; ROOM],
            unknown: [0; ROOM],
            places: [0; ROOM],
            others: [0; ROOM],
            cells: [Cell::NONE; CELLS],
            batch: MergeBatch::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn hold_text(&self) -> bool {
        self.batch.has_text
    }

    /// Forgets all pieces; the first of a text will start at 0.
    #[inline(always)]
    pub(super) fn restart(&mut self) {
        self.borders.restart();
        self.batch.restart();
    }

    /// Pieces that wait to be counted.
    #[inline(always)]
    pub(super) fn found(&self) -> u64 {
        self.borders.found() as u64
    }

    /// True if the next block may not find room.
    #[inline(always)]
    pub(super) fn are_many(&self) -> bool {
        self.borders.are_many()
    }

    /// Finds pieces of `text` from `start` on, where one starts; returns the last end.
    #[inline(always)]
    pub(super) fn find<R: Rule, L: Lanes>(&mut self, text: &[u8], start: usize) -> usize {
        self.borders.find::<R, L>(text, start)
    }

    /// Number of tokens of the pieces, which are forgotten. Some are not counted before the next
    /// call or [`finish`](Self::finish). The first round: what is remembered.
    #[inline(always)]
    pub(super) fn count<L: MergeKernel>(&mut self, of: &mut Counting<'_>) -> u64 {
        let (memo, text) = (of.memo, of.text);
        for (hash, border) in self.hashes.iter_mut().zip(self.borders.pairs()) {
            let length = border[1].wrapping_sub(border[0]);
            let bytes = bytes_at(text, border[0]);
            *hash = memo.hash_short(&bytes, length.min(SHORT_PIECE_BYTES + 1));
            memo.prefetch(*hash);
        }
        let (mut tokens, mut unknown) = (0_u64, 0_usize);
        for (piece, &hash) in self.hashes[..self.borders.found()].iter().enumerate() {
            let count = memo.piece(hash);
            self.unknown[unknown % ROOM] = piece as u16;
            tokens = tokens.wrapping_add(count);
            unknown = unknown.wrapping_add(usize::from(count == 0));
        }
        tokens += self.count_unknown::<L>(of, unknown);
        self.borders.go_on();
        tokens
    }

    /// The second round, of `unknown` pieces: short tokens.
    #[inline(always)]
    fn count_unknown<L: MergeKernel>(&mut self, of: &mut Counting<'_>, unknown: usize) -> u64 {
        let (vocabulary, memo, text) = (of.vocabulary, of.memo, of.text);
        let unknown = unknown.min(ROOM);
        for at in 0..unknown {
            let place = vocabulary.place(self.borders.key(text, self.unknown[at]));
            self.places[at] = place as u32;
            prefetch(vocabulary.word(place));
        }
        let (mut tokens, mut others) = (0_u64, 0_usize);
        for at in 0..unknown {
            let (place, piece) = (self.places[at] as usize, self.unknown[at]);
            let rank = vocabulary.rank_at(place, self.borders.key(text, piece));
            let count = u64::from(rank != NONE);
            memo.remember_some(self.hashes[usize::from(piece) % ROOM], count);
            self.others[others % ROOM] = piece;
            tokens = tokens.wrapping_add(count);
            others = others.wrapping_add(usize::from(count == 0));
        }
        tokens + self.count_others::<L>(of, others)
    }

    /// The third round, of `others` pieces: what is remembered of the long ones, the rest cell by cell.
    #[inline(always)]
    fn count_others<L: MergeKernel>(&mut self, of: &mut Counting<'_>, others: usize) -> u64 {
        let (memo, text) = (of.memo, of.text);
        let others = others.min(ROOM);
        for at in 0..others {
            let piece = self.others[at];
            let (start, end) = self.borders.piece(piece);
            if end - start > SHORT_PIECE_BYTES {
                let hash = memo.hash(text, start, end);
                self.hashes[usize::from(piece) % ROOM] = hash;
                memo.prefetch(hash);
            }
        }
        let (mut tokens, mut next) = (0, Next::default());
        while next.other < others {
            interrupt::poll();
            let (known, cells) = self.find_cells::<L>(of, &mut next, others);
            tokens += known + self.count_cells::<L>(of, cells);
        }
        tokens
    }

    /// Cuts pieces into cells until there is no room for more; returns the tokens of the pieces that are
    /// remembered, and the number of cells.
    #[inline(always)]
    fn find_cells<L: MergeKernel>(
        &mut self,
        of: &Counting<'_>,
        next: &mut Next,
        others: usize,
    ) -> (u64, usize) {
        let (vocabulary, memo, text) = (of.vocabulary, of.memo, of.text);
        let (mut tokens, mut cells) = (0, 0);
        while next.other < others {
            let piece = self.others[next.other % ROOM];
            let (whole, (start, end)) = (
                self.hashes[usize::from(piece) % ROOM],
                self.borders.piece(piece),
            );
            let known = memo.piece(whole);
            let mut at = next.from.take().unwrap_or(start);
            if at == start && known != 0 {
                tokens += known;
                at = end;
            }
            while at < end {
                if cells == CELLS {
                    next.from = Some(at);
                    return (tokens, cells);
                }
                let to = piece::cell_end(vocabulary, text, at, end, L::WHOLE_BYTES);
                let is_whole = to - at == end - start;
                let hash = if is_whole {
                    whole
                } else {
                    let hash = of.memo_of_parts.hash(text, at, to);
                    memo.prefetch(hash);
                    hash
                };
                self.cells[cells % CELLS] = Cell {
                    hash,
                    start: at,
                    end: to,
                    place: 0,
                    piece,
                    is_part: !is_whole,
                };
                cells += 1;
                at = to;
            }
            next.other += 1;
        }
        (tokens, cells)
    }

    /// Number of tokens of so many cells, which are forgotten, or of those before them if they have to
    /// wait. The fourth round: cells that are remembered, or that make a piece be remembered.
    #[inline(always)]
    fn count_cells<L: MergeKernel>(&mut self, of: &mut Counting<'_>, cells: usize) -> u64 {
        let (vocabulary, memo, text) = (of.vocabulary, of.memo, of.text);
        let (mut tokens, mut unknown, mut left) = (0, [0; CELLS], 0);
        // Tokens of a piece as long as all of its cells are known, else 0.
        let mut known = 0;
        for at in 0..cells {
            let cell = self.cells[at % CELLS];
            let (start, end) = self.borders.piece(cell.piece);
            let count = memo.piece(cell.hash);
            tokens += count;
            let is_known = count != 0 && (known != 0 || cell.start == start);
            known = if is_known { known + count } else { 0 };
            if cell.end == end {
                if is_known {
                    let hash = self.hashes[usize::from(cell.piece) % ROOM];
                    memo.remember_piece(hash, known);
                }
                known = 0;
            }
            if count == 0 {
                unknown[left % CELLS] = at as u8;
                left += 1;
                if cell.is_new() {
                    let place = vocabulary.place(cell.key(text));
                    self.cells[at % CELLS].place = place;
                    prefetch(vocabulary.word(place));
                }
            }
        }
        for &at in &unknown[..left] {
            tokens += self.count_cell::<L>(of, self.cells[usize::from(at) % CELLS]);
        }
        tokens
    }

    /// Tokens of a cell, or of those before it if it has to wait. The last round.
    #[inline(always)]
    fn count_cell<L: MergeKernel>(&mut self, of: &mut Counting<'_>, cell: Cell) -> u64 {
        let Cell {
            hash, start, end, ..
        } = cell;
        let (vocabulary, memo, text) = (of.vocabulary, of.memo, of.text);
        let count = if cell.is_new() && cell.is_token(vocabulary, text) {
            1
        } else if end - start > PARTED_BYTES {
            L::count_long(vocabulary, &text[start..end])
        } else if end - start > BATCH_CELL_BYTES {
            let cell = &text[start..end];
            return of.long_cells.push::<L>(vocabulary, memo, hash, cell);
        } else {
            let cell = (start, end);
            return self.batch.push::<L>(vocabulary, memo, hash, text, cell);
        };
        memo.remember_piece(hash, count);
        count
    }

    /// Number of tokens of what still waits.
    #[inline(always)]
    pub(super) fn finish<L: MergeKernel>(&mut self, of: &mut Counting<'_>) -> u64 {
        let (vocabulary, memo) = (of.vocabulary, of.memo);
        self.batch.finish::<L>(vocabulary, memo) + of.long_cells.finish::<L>(vocabulary, memo)
    }
}

/// The piece that is cut into cells next.
#[derive(Default)]
struct Next {
    /// Its place among the others.
    other: usize,
    /// Where it is cut from on, if not from its start.
    from: Option<usize>,
}
