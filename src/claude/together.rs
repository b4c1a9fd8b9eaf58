//! The tiling of short marked texts, several side by side.
//!
//! A step of the automaton waits for the memory more than it computes, and where it leads decides
//! the next. So [`TOGETHER`] texts take their steps in turn. First they go through the automaton, a
//! transition or a failure at a time; then the least numbers of tokens are found, where the last
//! sixteen are the bytes of one word and the pieces that end here the bytes of another. Neither has
//! a branch that depends on the text.

#![allow(
    clippy::cast_possible_truncation,
    reason = "a part of a word is what is meant"
)]

use super::character::Character;
use super::costs::Costs;
use super::layout::LANES;
use super::tiling::{Marked, Tiling};
use super::vocabulary::Vocabulary;
use crate::bpe::table::memo::{Hash, Memo};

/// Texts that are tiled side by side.
const TOGETHER: usize = 4;

/// Room for a text: a power of two.
const ROOM: usize = 64;

/// Longest cell that fits, whatever its markers and its lower case.
pub(super) const SHORT_CELL_BYTES: usize = 38;

/// Number of a character of 1 to 4 bytes and 1 to 4 tokens.
const fn number(length: u8, tokens: u8) -> u8 {
    4 * (length - 1) + tokens - 1
}

/// Number of what ends inside of a character.
const INSIDE: u8 = 16;

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
pub(super) struct Together {
    vocabulary: &'static Vocabulary,
    texts: [Text; TOGETHER],
    hashes: [Option<Hash>; TOGETHER],
    filled: usize,
}

/// A marked text.
#[derive(Clone, Copy)]
pub(super) struct Text {
    bytes: [u8; ROOM],
    /// The character that ends with each byte: its length and tokens, as in [`ALONE`].
    characters: [u8; ROOM],
    length: usize,
    /// Number of the vocabulary.
    vocabulary: usize,
}

impl Text {
    const EMPTY: Text = Text {
        vocabulary: 0,
        bytes: [0; ROOM],
        characters: [0; ROOM],
        length: 0,
    };

    /// What was appended: bytes, and length and tokens of the characters that end with them.
    pub(super) fn steps(&self) -> impl Iterator<Item = (u8, Option<(usize, u64)>)> {
        let steps = self.bytes.iter().zip(&self.characters).take(self.length);
        steps.map(|(byte, number)| {
            let parts = (usize::from(number / 4) + 1, u64::from(number % 4) + 1);
            (*byte, (*number != INSIDE).then_some(parts))
        })
    }
}

impl Marked for Text {
    #[inline(always)]
    fn byte(&mut self, byte: u8) {
        let at = self.length % ROOM;
        self.bytes[at] = byte;
        self.characters[at] = number(1, 1);
        self.length += 1;
    }

    #[inline(always)]
    fn character(&mut self, character: Character, text: &[u8], at: usize) {
        for &byte in &text[at..at + character.length] {
            self.byte(byte);
            self.characters[(self.length - 1) % ROOM] = INSIDE;
        }
        let cost = character.cost(self.vocabulary) as u8;
        self.characters[(self.length - 1) % ROOM] = number(character.length as u8, cost);
    }
}

impl Together {
    pub(super) fn new(vocabulary: &'static Vocabulary) -> Together {
        Together {
            vocabulary,
            texts: [Text {
                vocabulary: vocabulary.number,
                ..Text::EMPTY
            }; TOGETHER],
            hashes: [None; TOGETHER],
            filled: 0,
        }
    }

    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.filled == TOGETHER
    }

    /// An empty text, for a cell of at most [`SHORT_CELL_BYTES`]; there is room.
    #[inline(always)]
    pub(super) fn push(&mut self, hash: Hash) -> &mut Text {
        let place = self.filled % TOGETHER;
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
        self.filled = 0;
        tokens
    }

    /// The number of the mask at each byte of each text.
    #[inline(always)]
    fn numbers(&self) -> [[u16; ROOM]; TOGETHER] {
        let mut numbers = [[0; ROOM]; TOGETHER];
        let mut states = [self.vocabulary.root(); TOGETHER];
        let mut ats = [0; TOGETHER];
        loop {
            let mut left = 0;
            for place in 0..TOGETHER {
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
    fn least(&self, numbers: &[[u16; ROOM]; TOGETHER]) -> [u8; TOGETHER] {
        let longest = self.texts.iter().map(|text| text.length).max();
        let mut before = [Costs::start(); TOGETHER];
        let mut counts = [[0; ROOM]; TOGETHER];
        for at in 0..longest.unwrap_or(0).min(ROOM) {
            for place in 0..TOGETHER {
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
