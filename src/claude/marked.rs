//! Marked texts: what is tiled, as its bytes and markers.

#![allow(
    clippy::cast_possible_truncation,
    reason = "lengths and tokens of a character are at most 4"
)]

use super::character::Character;

/// Room for a text: a power of two.
pub(super) const ROOM: usize = 64;

/// Longest cell that fits, whatever its markers and its lower case.
pub(super) const SHORT_CELL_BYTES: usize = 38;

/// Number of a character of 1 to 4 bytes and 1 to 4 tokens.
const fn number(length: u8, tokens: u8) -> u8 {
    4 * (length - 1) + tokens - 1
}

/// Number of what ends inside of a character.
pub(super) const INSIDE: u8 = 16;

/// Where a marked text is written to.
pub(super) trait Marked {
    /// Appends one of the markers of `layout.rs`, or an ASCII character.
    fn byte(&mut self, byte: u8);

    /// Appends a character, given where its bytes are.
    fn character(&mut self, character: Character, text: &[u8], at: usize);
}

/// A receiver of marked text.
pub(super) trait Written {
    /// Length in bytes, without markers.
    fn length(&self) -> usize;

    /// Appends the marked text.
    fn write(&self, marked: &mut impl Marked);
}

/// A marked text.
#[derive(Clone, Copy)]
pub(super) struct Text {
    pub(super) bytes: [u8; ROOM],
    /// The number of the character that ends with each byte, or [`INSIDE`].
    pub(super) characters: [u8; ROOM],
    pub(super) length: usize,
    /// Number of the vocabulary.
    pub(super) vocabulary: usize,
}

impl Text {
    pub(super) const EMPTY: Text = Text {
        vocabulary: 0,
        bytes: [0; ROOM],
        characters: [0; ROOM],
        length: 0,
    };

    /// The text that was appended: bytes, and length and tokens of the characters that end with them.
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
