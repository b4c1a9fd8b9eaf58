//! The least number of pieces that a marked text can be tiled with.
//!
//! One token is one piece, one marker, or a part of a character that is no piece. The least number
//! of tokens up to a position is one more than the least of those up to the start of any piece that
//! ends there. An automaton names these pieces as the text goes by, so that only the numbers of the
//! last 128 bytes are kept: linear time, constant memory, whatever the text.
//!
//! Tried and lost: an automaton without the table of states after the root, which compares once
//! more for each byte that begins anew, and lengths in one word of 128 bits: 20 ns for each byte of
//! random letters, 13 ns now. What is left are branches that depend on the text.

use super::character::Character;
use super::layout::MAX_PIECE_BYTES;
use super::marked::{Marked, Text};
use super::vocabulary::Vocabulary;
use crate::interrupt;

/// Positions that are remembered; a power of two above the longest piece.
const MEMORY: usize = 2 * MAX_PIECE_BYTES;

/// Bytes of one text from poll to poll.
const POLLED_BYTES: usize = 4096;

/// Tiles one marked text after another.
pub(super) struct Tiling {
    vocabulary: &'static Vocabulary,
    state: u64,
    at: usize,
    /// Least number of tokens up to each position, modulo [`MEMORY`].
    least: [u64; MEMORY],
}

impl Tiling {
    /// A tiling of nothing yet.
    pub(super) fn new(vocabulary: &'static Vocabulary) -> Tiling {
        Tiling {
            vocabulary,
            state: vocabulary.root(),
            at: 0,
            least: [0; MEMORY],
        }
    }

    /// Tokens of a text that was written for [`TilingBatch`](super::batch::TilingBatch).
    pub(super) fn text(&mut self, text: &Text) -> u64 {
        for (byte, character) in text.steps() {
            self.state = self.vocabulary.step(self.state, byte);
            if let Some((length, cost)) = character {
                self.end_character(length, cost);
            }
        }
        self.finish()
    }

    /// The position after a character of `length` bytes that costs `cost` tokens alone.
    #[inline(always)]
    fn end_character(&mut self, length: usize, cost: u64) {
        let before = self.least[self.at % MEMORY];
        self.at = self.at.wrapping_add(length);
        // In a word that is as long as a book.
        if self.at % POLLED_BYTES < length {
            interrupt::poll();
        }
        let mut least = before + cost;
        let [mut ends, mut far_ends] = self.vocabulary.ends(self.state);
        while ends != 0 {
            let piece = ends.trailing_zeros() as usize + 1;
            least = least.min(self.least[self.at.wrapping_sub(piece) % MEMORY] + 1);
            ends &= ends - 1;
        }
        while far_ends != 0 {
            let piece = far_ends.trailing_zeros() as usize + 65;
            least = least.min(self.least[self.at.wrapping_sub(piece) % MEMORY] + 1);
            far_ends &= far_ends - 1;
        }
        self.least[self.at % MEMORY] = least;
    }

    /// Tokens of all that was appended; what comes next is another text.
    #[inline(always)]
    pub(super) fn finish(&mut self) -> u64 {
        let tokens = self.least[self.at % MEMORY];
        self.at = 0;
        self.least[0] = 0;
        self.state = self.vocabulary.root();
        tokens
    }
}

impl Marked for Tiling {
    #[inline(always)]
    fn byte(&mut self, byte: u8) {
        self.state = self.vocabulary.step(self.state, byte);
        self.end_character(1, 1);
    }

    #[inline(always)]
    fn character(&mut self, character: Character, text: &[u8], at: usize) {
        for &byte in &text[at..at + character.length] {
            self.state = self.vocabulary.step(self.state, byte);
        }
        self.end_character(character.length, character.cost(self.vocabulary.number));
    }
}
