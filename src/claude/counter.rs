//! The tokens of cells: remembered, in the table of entries, or tiled.

use super::batch::TilingBatch;
use super::clump::MarkedCell;
use super::entry::Entry;
use super::family::ClaudeFamily;
use super::marked::SHORT_CELL_BYTES;
use super::marked::Written;
use super::tiling::Tiling;
use super::vocabulary::Vocabulary;
use super::word::Word;
use crate::bpe::table::bytes_at;
use crate::bpe::table::memo::{Hash, Memo, MemoKey, SHORT_PIECE_BYTES};

/// Number of the first vocabulary in what all vocabularies share: no byte pair encoding has it.
pub(super) const FIRST_NUMBER: u64 = 5;

/// Places of the memo that are used: with more, less is counted again, but memory is slow when it is
/// new.
const PLACES: u64 = 1 << 13;

/// Counts cells.
pub(super) struct Counter {
    vocabulary: &'static Vocabulary,
    marks_capitals: bool,
    memo: Memo,
    batch: TilingBatch,
    tiling: Tiling,
}

impl Counter {
    pub(super) fn new(family: ClaudeFamily, key: MemoKey) -> Counter {
        let vocabulary = family.vocabulary();
        Counter {
            vocabulary,
            marks_capitals: family.marks_capitals(),
            memo: Memo::new(FIRST_NUMBER + vocabulary.number as u64, key),
            batch: TilingBatch::new(vocabulary),
            tiling: Tiling::new(vocabulary),
        }
    }

    /// The same with a memory of its own, which is empty.
    #[cfg(test)]
    pub(super) fn forgetful(self) -> Counter {
        use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
        static NUMBER: AtomicU64 = AtomicU64::new(1_000_000);
        let memo = Memo::new(NUMBER.fetch_add(1, Relaxed), MemoKey::default());
        Counter { memo, ..self }
    }

    /// Tokens of the cell of ASCII `text[start..end]` if it is short and remembered, else 0.
    #[inline(always)]
    pub(super) fn remembered(&self, text: &[u8], start: usize, end: usize) -> u64 {
        self.memo.piece(self.short_hash(text, start, end))
    }

    /// Where the cell of ASCII `text[start..end]` is in the table of entries.
    #[inline(always)]
    pub(super) fn entry(&self, text: &[u8], start: usize, end: usize) -> Entry {
        Entry::new(text, start, end, self.marks_capitals)
    }

    /// Tokens of the cell of ASCII `text[start..end]` if its entry is in the table, else 0.
    #[inline(always)]
    pub(super) fn known(&self, entry: &Entry, text: &[u8], start: usize, end: usize) -> u64 {
        let tokens = entry.tokens(self.vocabulary.number);
        self.memo
            .remember_some(self.short_hash(text, start, end), tokens);
        tokens
    }

    /// Tokens of any other cell of ASCII, or of those that waited, if it waits.
    #[inline(never)]
    pub(super) fn other(&mut self, text: &[u8], start: usize, end: usize) -> u64 {
        let cell = &text[start..end];
        let hash = self.hash(text, start, end);
        if cell.len() > SHORT_PIECE_BYTES {
            let tokens = self.memo.piece(hash);
            if tokens > 0 {
                return tokens;
            }
        }
        if cell[0].is_ascii_alphabetic() && cell.is_ascii() {
            self.tile(hash, &Word::ascii(cell, self.marks_capitals))
        } else if !cell.is_ascii() {
            self.tile(hash, &Word::literal(cell))
        } else {
            self.tile(hash, &MarkedCell::new(cell))
        }
    }

    /// Tokens of the word at `start`, or of those that waited, if it waits.
    #[inline(always)]
    pub(super) fn word(&mut self, word: &Word, text: &[u8], start: usize) -> u64 {
        let hash = self.hash(text, start, start + word.text.len());
        let tokens = self.memo.piece(hash);
        if tokens > 0 {
            return tokens;
        }
        let tokens = word.known_tokens(self.vocabulary.number);
        if tokens > 0 {
            self.memo.remember_piece(hash, tokens);
            return tokens;
        }
        self.tile(hash, word)
    }

    /// Tokens of a part of a clump, told as [`MarkedCell::new`] says, or of those that waited, if it
    /// waits.
    #[inline(always)]
    pub(super) fn cell(&mut self, text: &[u8], start: usize, end: usize) -> u64 {
        let hash = self.hash(text, start, end);
        match self.memo.piece(hash) {
            0 => self.tile(hash, &MarkedCell::new(&text[start..end])),
            tokens => tokens,
        }
    }

    /// Tokens of a cell that is not worth remembering.
    pub(super) fn uncommon(&mut self, cell: &impl Written) -> u64 {
        cell.write(&mut self.tiling);
        self.tiling.finish()
    }

    /// Tokens of all that waits.
    pub(super) fn finish(&mut self) -> u64 {
        self.batch.count(self.memo, &mut self.tiling)
    }

    /// Tokens of a cell, or of those that waited, if it waits.
    #[inline(always)]
    fn tile(&mut self, hash: Hash, cell: &impl Written) -> u64 {
        if cell.length() > SHORT_CELL_BYTES {
            let tokens = self.uncommon(cell);
            self.memo.remember_piece(hash, tokens);
            return tokens;
        }
        cell.write(self.batch.push(hash));
        if self.batch.is_full() {
            self.finish()
        } else {
            0
        }
    }

    #[inline(always)]
    fn hash(&self, text: &[u8], start: usize, end: usize) -> Hash {
        self.memo.hash(text, start, end).within(PLACES)
    }

    /// The same for a cell of at most [`SHORT_PIECE_BYTES`]; the hash of no cell for a longer one.
    #[inline(always)]
    fn short_hash(&self, text: &[u8], start: usize, end: usize) -> Hash {
        let length = (end - start).min(SHORT_PIECE_BYTES + 1);
        let hash = self.memo.hash_short(&bytes_at(text, start), length);
        hash.within(PLACES)
    }
}
