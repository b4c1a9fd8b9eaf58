//! The kind of the character at a position.

use super::kind::{self, BLOCK};

static KINDS: &[[u8; 4]] = include_bytes!(concat!(env!("OUT_DIR"), "/claude.kinds"))
    .as_chunks()
    .0;
static INDEX: &[[u8; 2]] = include_bytes!(concat!(env!("OUT_DIR"), "/claude.index"))
    .as_chunks()
    .0;
static BLOCKS: &[[u8; BLOCK]] = include_bytes!(concat!(env!("OUT_DIR"), "/claude.blocks"))
    .as_chunks()
    .0;
static ASCII: &[u8; BLOCK] = &BLOCKS[0];

/// A character of a text.
#[derive(Clone, Copy)]
pub(super) struct Character {
    /// Its code point.
    pub(super) code: u32,
    /// Bits of `kind.rs`.
    pub(super) kind: u32,
    /// Length in bytes.
    pub(super) length: usize,
}

impl Character {
    /// Stands where no text is: no kind, no length.
    pub(super) const NONE: Character = Character {
        code: 0,
        kind: 0,
        length: 0,
    };

    /// The character that starts at `at`, or [`NONE`](Self::NONE) past the end of the valid UTF-8.
    #[inline(always)]
    pub(super) fn at(text: &[u8], at: usize) -> Character {
        match text.get(at) {
            None => Character::NONE,
            Some(&byte) if byte < 0x80 => Character {
                code: byte.into(),
                kind: ascii_kind(byte),
                length: 1,
            },
            Some(&lead) => Character::wide_at(text, at, lead),
        }
    }

    #[inline(always)]
    fn wide_at(text: &[u8], at: usize, lead: u8) -> Character {
        let tail = |offset: usize| {
            text.get(at + offset)
                .map_or(0, |&byte| u32::from(byte & 0x3F))
        };
        let lead = u32::from(lead);
        let (code, length) = if lead < 0xE0 {
            ((lead & 0x1F) << 6 | tail(1), 2)
        } else if lead < 0xF0 {
            ((lead & 0x0F) << 12 | tail(1) << 6 | tail(2), 3)
        } else {
            let high = (lead & 0x07) << 18 | tail(1) << 12;
            (high | tail(2) << 6 | tail(3), 4)
        };
        Character {
            code,
            kind: kind_of(code),
            length,
        }
    }

    /// True if the kind has one of these bits.
    #[inline(always)]
    pub(super) fn is(self, bits: u32) -> bool {
        self.kind & bits != 0
    }

    /// Tokens of the character alone in a vocabulary, 1 to 4.
    #[inline(always)]
    pub(super) fn cost(self, vocabulary: usize) -> u64 {
        u64::from(self.kind >> kind::COST_SHIFTS[vocabulary] & 7)
    }
}

/// Bits of an ASCII character.
#[inline(always)]
pub(super) fn ascii_kind(byte: u8) -> u32 {
    u32::from_le_bytes(KINDS[usize::from(ASCII[usize::from(byte & 0x7F)])])
}

/// Bits of the character with this code point, below 0x110000.
#[inline(always)]
pub(super) fn kind_of(code: u32) -> u32 {
    let code = code as usize;
    let block = u16::from_le_bytes(INDEX[code / BLOCK]);
    u32::from_le_bytes(KINDS[usize::from(BLOCKS[usize::from(block)][code % BLOCK])])
}
