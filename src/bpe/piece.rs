//! The tokens of a piece that is not one token.
//!
//! A piece falls into **cells**: a border between two characters that are neighbours in no token is
//! inside no token. Few characters are neighbours in a token (25,000 pairs in all of `o200k_base`),
//! so that a long run of Chinese falls into cells of two characters, most of which are tokens. Any
//! other cell is merged ([`merge`]) or, if it is long, searched ([`search`]).

use super::merge::{self, MERGE_BYTES};
use super::search;
use super::vocabulary::{NONE, Vocabulary};

/// Number of tokens of the piece `text[start..end]`.
#[inline(always)]
pub(super) fn count(vocabulary: &Vocabulary, text: &[u8], start: usize, end: usize) -> u64 {
    let (mut from, mut count) = (start, 0);
    while from < end {
        let to = cell_end(vocabulary, text, from, end);
        count += if vocabulary.rank(text, from, to) != NONE {
            1
        } else if to - from <= MERGE_BYTES {
            merge::starts(vocabulary, text, from, to).count_ones().into()
        } else {
            search::tokens(vocabulary, text, from, to).len() as u64
        };
        from = to;
    }
    count
}

/// Appends the tokens of the piece `text[start..end]`.
pub(super) fn encode(
    vocabulary: &Vocabulary,
    text: &[u8],
    start: usize,
    end: usize,
    tokens: &mut Vec<u32>,
) {
    let mut from = start;
    while from < end {
        let to = cell_end(vocabulary, text, from, end);
        if to - from > MERGE_BYTES {
            tokens.append(&mut search::tokens(vocabulary, text, from, to));
        } else {
            let mut starts = merge::starts(vocabulary, text, from, to);
            let mut start = from;
            while starts != 0 {
                starts &= starts - 1;
                let end = to.min(from + starts.trailing_zeros() as usize);
                tokens.push(vocabulary.rank(text, start, end));
                start = end;
            }
        }
        from = to;
    }
}

/// End of the cell at `start` of a piece that ends at `end`.
#[inline(always)]
fn cell_end(vocabulary: &Vocabulary, text: &[u8], start: usize, end: usize) -> usize {
    // Nearly all pairs of ASCII are neighbours somewhere: there is nothing to gain.
    if text[end - 1].is_ascii() {
        end
    } else {
        vocabulary.cell_end(text, start, end)
    }
}
