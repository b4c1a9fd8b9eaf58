//! Long cells that wait, to be read side by side.

use crate::bpe::merge::long::FETCH_BYTES;
use crate::bpe::merge::window::{LookUp, WINDOWS_AT_ONCE};
use crate::bpe::merge::windows::{Reader, Windows, step};
use crate::bpe::split::block::Lanes;
use crate::bpe::table::Vocabulary;
use crate::bpe::table::memo::{Hash, Memo};
use crate::interrupt;

/// Bit set of all lanes.
const ALL: u32 = u32::MAX >> (32 - WINDOWS_AT_ONCE);

/// How long cells are read by the instructions that classify the text.
pub(crate) trait LongCellKernel: Lanes {
    /// [`LongCellBatch::read`], compiled for these instructions.
    fn read(cells: &mut LongCellBatch<'_>, vocabulary: &Vocabulary);
}

/// Cells that are being read. Memory is taken with the first cell.
pub(crate) struct LongCellBatch<'a> {
    readers: Vec<Reader<'a>>,
    windows: Windows,
    hashes: [Hash; WINDOWS_AT_ONCE],
    /// Bit set of the readers that have a cell.
    busy: u32,
    /// Bytes of all cells so far.
    bytes: usize,
}

impl<'a> LongCellBatch<'a> {
    #[inline(always)]
    pub(in crate::bpe) fn new() -> LongCellBatch<'a> {
        LongCellBatch {
            readers: Vec::new(),
            windows: Windows::new(),
            hashes: [Hash::NONE; WINDOWS_AT_ONCE],
            busy: 0,
            bytes: 0,
        }
    }

    /// Takes a cell; returns the tokens of cells that are read now.
    #[inline(never)]
    pub(in crate::bpe) fn push<L: LongCellKernel>(
        &mut self,
        vocabulary: &Vocabulary,
        memo: Memo,
        hash: Hash,
        cell: &'a [u8],
    ) -> u64 {
        let before = self.bytes;
        self.bytes += cell.len();
        if before < FETCH_BYTES && self.bytes >= FETCH_BYTES {
            vocabulary.fetch_joins();
        }
        let lane = self.busy.trailing_ones() as usize;
        match self.readers.get_mut(lane) {
            Some(reader) => reader.restart(cell),
            None => self.readers.push(Reader::new(cell, 0, cell.len())),
        }
        self.hashes[lane] = hash;
        self.busy |= 1 << lane;
        let mut tokens = 0;
        while self.busy == ALL {
            tokens += self.step::<L>(vocabulary, memo);
        }
        tokens
    }

    /// Tokens of all cells that are left.
    #[inline(always)]
    pub(in crate::bpe) fn finish<L: LongCellKernel>(
        &mut self,
        vocabulary: &Vocabulary,
        memo: Memo,
    ) -> u64 {
        let mut tokens = 0;
        while self.busy != 0 {
            tokens += self.step::<L>(vocabulary, memo);
        }
        tokens
    }

    /// A step of every reader; returns the tokens of those that are done, which are free then.
    #[inline(always)]
    fn step<L: LongCellKernel>(&mut self, vocabulary: &Vocabulary, memo: Memo) -> u64 {
        interrupt::poll();
        L::read(self, vocabulary);
        let mut tokens = 0;
        for (lane, reader) in self.readers.iter().enumerate() {
            if self.busy >> lane & 1 != 0 && reader.is_done() {
                let count = reader.tokens().len() as u64;
                memo.remember_piece(self.hashes[lane], count);
                tokens += count;
                self.busy &= !(1 << lane);
            }
        }
        tokens
    }

    /// Reads a window of every cell.
    #[inline(always)]
    pub(in crate::bpe) fn read<L: LookUp>(&mut self, vocabulary: &Vocabulary) {
        step::<L>(vocabulary, &mut self.readers, &mut self.windows);
    }
}
