//! Cells of 64 bytes of ASCII at once, as algebra on the bits of a [`Block`].
//!
//! The cost of a cell depends on its bytes and on the spaces beside it. A run of punctuation is
//! therefore taken together with the space whose marker it gets: ` (` has a `<bow>`, `, ` has an
//! `<eow>`, and the bytes of a cell tell all that its tokens depend on. A space may so be in two
//! cells. A contraction's apostrophe and its suffix are one cell. Digits and white space are no
//! cells: their tokens are counted here, as bits.
//!
//! The first byte of a block is the last that was counted before, an ASCII character that is no
//! space. The oracle is the way cell by cell, in [`marker`](super::marker).

use super::clump;
use super::vocabulary::{Ladder, Vocabulary};
use crate::bpe::split::block::Block;
use crate::bpe::split::thirds;

/// The bit sets of a block.
pub(super) struct Found {
    /// First byte of each cell.
    pub(super) firsts: u64,
    /// Last byte of each cell.
    pub(super) lasts: u64,
    /// Tokens of what is no cell.
    pub(super) tokens: u64,
    /// Bytes from the start of the block to the end of the last cell; 0 if there is none.
    pub(super) length: usize,
}

/// The cells of the `block` at `start` of `text`.
#[inline(always)]
pub(super) fn find(block: &Block, text: &[u8], start: usize, vocabulary: &Vocabulary) -> Found {
    let (letter, digit, other, space) = (block.letter(), block.digit, block.other, block.space);
    let ends = lasts(letter) | lasts(digit) | lasts(other);
    // An apostrophe may be half of a contraction.
    let known = ends & visible(block) & !block.quote & !1;
    let told = u64::MAX.unbounded_shr(known.leading_zeros()) & !1;
    let (other_first, other_last) = (firsts(other) & told, lasts(other) & told);
    let mut opening = block.quote & other_first & other_last & letter >> 1;
    let bow = other_first & space << 1 & !opening;
    let eow = other_last & space >> 1 & !(space >> 2);
    let mut first = firsts(letter) & told | other_first & !bow | bow >> 1;
    let mut last = lasts(letter) & told | other_last & !eow | eow << 1;
    let single = space & !(block.white << 1) & !(block.white >> 1) & told;
    let seam = single & (letter | other) << 1 & (letter | other & !opening) >> 1;
    while opening != 0 {
        let at = opening.trailing_zeros();
        if clump::suffix(text, start + at as usize + 1) > 0 {
            first &= !(2 << at);
            last &= !(1 << at);
        }
        opening &= opening - 1;
    }
    let spaces = u64::from((single & !seam).count_ones());
    let digits = u64::from(thirds(digit & told).count_ones());
    Found {
        firsts: first,
        lasts: last,
        tokens: spaces + digits + stretches(block, block.white & told & !single, vocabulary),
        length: (u64::BITS - known.leading_zeros()) as usize,
    }
}

/// Bytes that may be the last of a run: the next byte is there and ASCII, and the one after that is
/// there; or the text ends.
#[inline(always)]
fn visible(block: &Block) -> u64 {
    if block.last && block.wide == 0 {
        block.text
    } else {
        let next = block.wide.trailing_zeros().min(u64::BITS - 1);
        u64::MAX.unbounded_shr(u64::BITS + 1 - next)
    }
}

/// Tokens of white space that is no single space.
#[inline(always)]
fn stretches(block: &Block, white: u64, vocabulary: &Vocabulary) -> u64 {
    let space = block.space & white;
    let newline = block.newline & white;
    let tab = white & !space & !newline;
    let starts = firsts(space) | firsts(newline) | firsts(tab);
    let mut long = white;
    for step in [1, 2, 4, 8, 1] {
        long &= long << step;
    }
    if long == 0 {
        return u64::from(starts.count_ones());
    }
    let runs = [
        (Ladder::Space, space),
        (Ladder::Newline, newline),
        (Ladder::Tab, tab),
    ];
    let tokens = |(ladder, mut run): (Ladder, u64)| {
        let mut tokens = 0;
        while run != 0 {
            let rest = run >> run.trailing_zeros();
            let length = (!rest).trailing_zeros();
            tokens += vocabulary.run(ladder, length as usize);
            run &= run.wrapping_add(run & run.wrapping_neg());
        }
        tokens
    };
    runs.into_iter().map(tokens).sum()
}

#[inline(always)]
fn firsts(runs: u64) -> u64 {
    runs & !(runs << 1)
}

#[inline(always)]
fn lasts(runs: u64) -> u64 {
    runs & !(runs >> 1)
}
