//! How the tables are packed. `build.rs` includes this file too.

/// Word begins; a byte that no UTF-8 has, as every marker.
pub(crate) const BOW: u8 = 0xFF;
/// Word ends.
pub(crate) const EOW: u8 = 0xFE;
/// The first letter is a capital.
pub(crate) const SHIFT: u8 = 0xFD;
/// All letters are capitals.
pub(crate) const CAPS: u8 = 0xFC;

/// The rest of a word that may follow an apostrophe.
pub(crate) const SUFFIXES: [&[u8]; 7] = [b"s", b"t", b"d", b"m", b"ll", b"re", b"ve"];

/// No piece is longer, markers included.
pub(crate) const MAX_PIECE_BYTES: usize = 128;

/// Lengths of white space whose cost is in a table; longer runs start with longest pieces.
pub(crate) const LADDER: usize = 512;

/// Lengths of pieces that have a byte in a word of lanes.
pub(crate) const LANES: usize = 16;

/// A state of the automaton: label (low 8 bits), base, failure, number of the mask.
pub(crate) const BASE_BITS: u32 = 20;
pub(crate) const BASE_SHIFT: u32 = 8;
pub(crate) const FAIL_SHIFT: u32 = 28;
pub(crate) const MASK_SHIFT: u32 = 48;

/// Where the parts of a word's value are, for one vocabulary.
#[derive(Clone, Copy)]
pub(crate) struct WordValue {
    /// Tokens of the word as it stands.
    pub(crate) cost_shift: u32,
    /// True if one token is the word with [`SHIFT`].
    pub(crate) title_shift: u32,
    /// True if one token is the word with [`CAPS`].
    pub(crate) caps_shift: u32,
}

/// By vocabulary.
pub(crate) const WORD_VALUES: [WordValue; 2] = [
    WordValue {
        cost_shift: 0,
        title_shift: 10,
        caps_shift: 12,
    },
    WordValue {
        cost_shift: 5,
        title_shift: 11,
        caps_shift: 13,
    },
];
pub(crate) const WORD_COST_MASK: u32 = 31;

/// Where the tokens of punctuation are in its value: by vocabulary, then by markers.
#[inline(always)]
pub(crate) const fn punctuation_shift(vocabulary: usize, bow: bool, eow: bool) -> u32 {
    let shifts = if vocabulary == 0 {
        [0, 2, 4, 6]
    } else {
        [8, 10, 12, 14]
    };
    shifts[2 * eow as usize + bow as usize]
}
pub(crate) const PUNCTUATION_COST_MASK: u32 = 3;
