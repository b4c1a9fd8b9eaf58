//! Borders of the pieces of a text, found 64 bytes at a time, and one by one where a block does not tell.
use crate::bpe::split::Rule;
use crate::bpe::split::block::{BLOCK, Block, Lanes, padded};
use crate::bpe::table::bytes_at;
use crate::bpe::table::key::{Key, SHORT_BYTES};
use std::slice::Windows;

/// Room for pieces.
pub(super) const ROOM: usize = 512;

/// So many are found that the next block may not find room.
const MANY: usize = ROOM - BLOCK - 1;

/// Where pieces begin and end, one after the other; the last one's end is where the next one begins.
pub(super) struct Borders {
    /// Start of the first, then the end of each.
    places: [usize; ROOM],
    found: usize,
    /// Up to here pieces are found one by one: a block that is not ASCII takes long, and told nothing.
    alone: usize,
}

impl Borders {
    pub(super) const fn new() -> Borders {
        Borders {
            places: [0; ROOM],
            found: 0,
            alone: 0,
        }
    }

    /// Forgets all pieces; the first of a text will start at 0.
    #[inline(always)]
    pub(super) fn restart(&mut self) {
        (self.places[0], self.found, self.alone) = (0, 0, 0);
    }

    /// Forgets all pieces; the next one starts where the last one ends.
    #[inline(always)]
    pub(super) fn go_on(&mut self) {
        self.places[0] = self.places[self.found % ROOM];
        self.found = 0;
    }

    /// How many pieces there are.
    #[inline(always)]
    pub(super) fn found(&self) -> usize {
        self.found
    }

    /// True if the next block may not find room.
    #[inline(always)]
    pub(super) fn are_many(&self) -> bool {
        self.found >= MANY
    }

    /// Start and end of each piece.
    #[inline(always)]
    pub(super) fn pairs(&self) -> Windows<'_, usize> {
        self.places[..=self.found].windows(2)
    }

    /// Start and end of a piece.
    #[inline(always)]
    pub(super) fn piece(&self, piece: u16) -> (usize, usize) {
        let piece = usize::from(piece);
        (self.places[piece % ROOM], self.places[(piece + 1) % ROOM])
    }

    /// The key of a piece, or that of no token if it is long.
    #[inline(always)]
    pub(super) fn key(&self, text: &[u8], piece: u16) -> Key {
        let (start, end) = self.piece(piece);
        Key::new(&bytes_at(text, start), (end - start).min(SHORT_BYTES + 1))
    }

    /// Finds pieces of `text` from `start` on, where one starts: those that a block tells, or one; returns the
    /// last end. There must be room, and text.
    #[inline(always)]
    pub(super) fn find<R: Rule, L: Lanes>(&mut self, text: &[u8], start: usize) -> usize {
        let mut ends = 0;
        let knows_wide = R::IS_OF_BYTES || L::CHARACTERS && R::KNOWS_CHARACTERS;
        if R::KNOWS_BLOCKS && start >= self.alone && (knows_wide || !starts_wide(&text[start..])) {
            ends = block_ends::<R, L>(&text[start..]);
            let end = text.len().min(start + BLOCK);
            if ends == 0 && !text[start..end].is_ascii() {
                self.alone = end;
            }
        }
        if ends == 0 {
            let end = R::end(text, start);
            self.found += 1;
            self.places[self.found % ROOM] = end;
            return end;
        }
        let places = self.places.get_mut(self.found + 1..);
        if let Some(places) = places.and_then(|places| places.first_chunk_mut()) {
            L::places(start, ends, places);
        }
        self.found += ends.count_ones() as usize;
        start + BLOCK - ends.leading_zeros() as usize
    }
}

/// Ends of the pieces that are known by the first block of `rest`, where one starts, as
/// [`Starts::ends`](crate::bpe::split::Starts::ends) gives them.
#[inline(always)]
pub(super) fn block_ends<R: Rule, L: Lanes>(rest: &[u8]) -> u64 {
    let copy;
    let window = match rest.first_chunk() {
        Some(window) => window,
        None => {
            copy = padded(rest);
            &copy
        }
    };
    let mut block = Block::new::<L>(window, rest.len());
    // Two copies of the rule: that of ASCII has fewer classes.
    if L::CHARACTERS && R::KNOWS_CHARACTERS && !R::IS_OF_BYTES && block.wide != 0 {
        L::characters(window, &mut block);
        R::starts::<L>(&block, rest).ends::<L>(&block, rest.len())
    } else {
        R::starts::<L>(&block, rest).ends::<L>(&block, rest.len())
    }
}

/// True if one of the first bytes is not ASCII: then no block is worth its cost that knows ASCII only.
#[inline(always)]
fn starts_wide(rest: &[u8]) -> bool {
    rest.first_chunk::<8>()
        .is_some_and(|first| !first.is_ascii())
}
