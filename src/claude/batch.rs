//! The tiling of short marked texts, several side by side.
//!
//! A step of the automaton waits for the memory more than it computes, and where it leads decides
//! the next. So [`BATCH_TEXTS`] texts take their steps in turn. First they go through the automaton, a
//! transition or a failure at a time; then the least numbers of tokens are found, where the last
//! sixteen are the bytes of one word and the pieces that end here the bytes of another. Neither has
//! a branch that depends on the text.

#![allow(
    clippy::cast_possible_truncation,
    reason = "a part of a word is what is meant"
)]

use super::costs::Costs;
use super::layout::LANES;
use super::marked::{INSIDE, ROOM, Text};
use super::tiling::Tiling;
use super::vocabulary::Vocabulary;
use crate::bpe::table::memo::{Hash, Memo};

/// Texts that are tiled side by side.
const BATCH_TEXTS: usize = 4;

/// Tokens of a character alone, by its number, in the byte for its length.
static ALONE: [[u8; LANES]; 32] = {
    let mut alone = [[u8::MAX; LANES]; 32];
    let mut number = 0;
    while number < INSIDE as usize {
        alone[number][number / 4] = number as u8 % 4 + 1;
        number += 1;
    }
    alone
};

/// Texts to tile, with the hashes of what they were written for.
pub(super) struct TilingBatch {
    vocabulary: &'static Vocabulary,
    texts: [Text; BATCH_TEXTS],
    hashes: [Option<Hash>; BATCH_TEXTS],
    filled: usize,
}

impl TilingBatch {
    pub(super) fn new(vocabulary: &'static Vocabulary) -> TilingBatch {
        TilingBatch {
            vocabulary,
            texts: [Text {
                vocabulary: vocabulary.number,
                ..Text::EMPTY
            }; BATCH_TEXTS],
            hashes: [None; BATCH_TEXTS],
            filled: 0,
        }
    }

    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.filled == BATCH_TEXTS
    }

    /// An empty text, for a cell of at most [`SHORT_CELL_BYTES`](super::marked::SHORT_CELL_BYTES); there is room.
    #[inline(always)]
    pub(super) fn push(&mut self, hash: Hash) -> &mut Text {
        let place = self.filled % BATCH_TEXTS;
        self.filled += 1;
        self.hashes[place] = Some(hash);
        self.texts[place].length = 0;
        &mut self.texts[place]
    }

    /// Tokens of all texts, which are remembered and forgotten.
    pub(super) fn count(&mut self, memo: Memo, tiling: &mut Tiling) -> u64 {
        for text in &mut self.texts[self.filled..] {
            text.length = 0;
        }
        let numbers = self.numbers();
        let counts = self.least(&numbers);
        let mut tokens = 0;
        for place in 0..self.filled {
            let text = &self.texts[place];
            let mut numbers = numbers[place][..text.length].iter();
            let far = numbers.any(|&number| self.vocabulary.is_far(number));
            let count = if far {
                tiling.text(text)
            } else {
                counts[place].into()
            };
            if let Some(hash) = self.hashes[place] {
                memo.remember_piece(hash, count);
            }
            tokens += count;
        }
        for text in &mut self.texts[..self.filled] {
            text.bytes = Text::EMPTY.bytes;
        }
        self.filled = 0;
        tokens
    }

    /// The number of the mask at each byte of each text.
    #[inline(always)]
    fn numbers(&self) -> [[u16; ROOM]; BATCH_TEXTS] {
        let mut numbers = [[0; ROOM]; BATCH_TEXTS];
        let mut states = [self.vocabulary.root(); BATCH_TEXTS];
        let mut ats = [0; BATCH_TEXTS];
        loop {
            let mut left = 0;
            for place in 0..BATCH_TEXTS {
                let text = &self.texts[place];
                let at = ats[place] % ROOM;
                let (state, advances) = self.vocabulary.attempt(states[place], text.bytes[at]);
                states[place] = state;
                numbers[place][at] = Vocabulary::mask_number(state);
                ats[place] = (at + usize::from(advances)).min(text.length);
                left |= text.length - ats[place];
            }
            if left == 0 {
                return numbers;
            }
        }
    }

    /// The least number of tokens of each text.
    #[inline(always)]
    fn least(&self, numbers: &[[u16; ROOM]; BATCH_TEXTS]) -> [u8; BATCH_TEXTS] {
        let longest = self.texts.iter().map(|text| text.length).max();
        let mut before = [Costs::start(); BATCH_TEXTS];
        let mut counts = [[0; ROOM]; BATCH_TEXTS];
        for at in 0..longest.unwrap_or(0).min(ROOM) {
            for place in 0..BATCH_TEXTS {
                let pieces = self.vocabulary.lanes(numbers[place][at]);
                let alone = &ALONE[usize::from(self.texts[place].characters[at]) % ALONE.len()];
                before[place] = before[place].next(pieces, alone);
                counts[place][at] = before[place].last();
            }
        }
        std::array::from_fn(|place| {
            let last = self.texts[place].length.wrapping_sub(1) % ROOM;
            counts[place][last]
        })
    }
}
