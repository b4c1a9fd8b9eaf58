//! The tokens of a piece that is not one token.
//!
//! A piece falls into **cells**: a border between two characters that are neighbours in no token is
//! inside no token. Few characters are neighbours in a token (25,000 pairs in all of `o200k_base`),
//! so that a long run of Chinese falls into cells of two characters, most of which are tokens. Any
//! other cell is merged ([`merge`]) or, if it is long, read in windows ([`long`]).

use crate::bpe::merge::cell::{self, MERGE_BYTES};
use crate::bpe::merge::long;
use crate::bpe::merge::window::OneByOne;
use crate::bpe::table::{NONE, Vocabulary};
use crate::interrupt::Steps;

/// Number of tokens of the piece `text[start..end]`, with nothing remembered.
#[cfg(test)]
#[inline(always)]
pub(in crate::bpe) fn count(vocabulary: &Vocabulary, text: &[u8], start: usize, end: usize) -> u64 {
    let (mut from, mut count) = (start, 0);
    if vocabulary.rank(text, start, end) != NONE {
        return 1;
    }
    while from < end {
        let to = cell_end(vocabulary, text, from, end, 0);
        count += if merged_rank(vocabulary, text, from, to) != NONE {
            1
        } else if to - from <= MERGE_BYTES {
            cell::starts(vocabulary, text, from, to).count_ones().into()
        } else {
            long::count::<OneByOne>(vocabulary, &text[from..to])
        };
        from = to;
    }
    count
}

/// Rank of a part of a piece that is one token, or [`NONE`].
#[inline(always)]
pub(in crate::bpe) fn merged_rank(
    vocabulary: &Vocabulary,
    text: &[u8],
    start: usize,
    end: usize,
) -> u32 {
    match vocabulary.rank(text, start, end) {
        rank if rank != NONE && vocabulary.is_merged(rank) => rank,
        _ => NONE,
    }
}

/// Appends the tokens of the piece `text[start..end]`, which is no token.
pub(in crate::bpe) fn encode(
    vocabulary: &Vocabulary,
    text: &[u8],
    start: usize,
    end: usize,
    tokens: &mut Vec<u32>,
) {
    let (mut from, mut steps) = (start, Steps::default());
    while from < end {
        steps.step();
        let to = cell_end(vocabulary, text, from, end, 0);
        match merged_rank(vocabulary, text, from, to) {
            NONE if to - from > MERGE_BYTES => {
                tokens.extend(long::encode::<OneByOne>(vocabulary, &text[from..to]));
            }
            NONE => cell::encode(vocabulary, text, from, to, tokens),
            rank => tokens.push(rank),
        }
        from = to;
    }
}

/// End of the cell at `start` of a piece that ends at `end`.
///
/// A piece of at most `whole` bytes is one cell.
#[inline(always)]
pub(in crate::bpe) fn cell_end(
    vocabulary: &Vocabulary,
    text: &[u8],
    start: usize,
    end: usize,
    whole: usize,
) -> usize {
    // Nearly all pairs of ASCII are neighbours somewhere: there is nothing to gain.
    if text[end - 1].is_ascii() || end - start <= whole {
        end
    } else {
        vocabulary.cell_end(text, start, end)
    }
}
