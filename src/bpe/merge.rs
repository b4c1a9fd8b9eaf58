//! The merge: from the bytes of a piece to its tokens.
//!
//! # What is computed
//!
//! A piece starts as single bytes. While two neighbours joined are a token, the pair whose join
//! has the lowest rank is joined, the leftmost of equals first. What is left are the tokens.
//!
//! # How
//!
//! **Cells.** A border between two characters that are neighbours in no token is crossed by no
//! merge. Few characters are neighbours in a token (25,000 pairs in all of `o200k_base`), so that a
//! long run of Chinese falls into cells of two characters, most of which are tokens.
//!
//! **A window** of up to [`WIDE`] bytes follows the definition: one word per byte holds the rank of
//! the pair that starts there above its position, so that the minimum of the words is the next
//! pair. A scan for the minimum is quadratic in the window, but a scan of 32 words takes a few
//! nanoseconds. A wider window, which only text made for the purpose asks for, replaces the scan
//! by a tournament tree: n log n.
//!
//! **A long cell** goes through windows from left to right, by this lemma: if `a` and `b` are
//! encodings, and the last token of `a` and the first of `b` stay apart when their joined text is
//! encoded, then `a` followed by `b` is the encoding of the joined text. (A merge across the
//! border would have to happen between the two tokens next to it, or on the way to them; whether
//! it does depends on those two texts alone.) So, given the encoding of everything before a window,
//! the last tokens are given back, encoded again together with the window, and kept if the
//! first new token stays apart from the last one that was not given back. If it does not, more is
//! given back, twice as much every time, and the next windows are made as wide as what was given
//! back, so that the work stays n log n however the text is made.
//!
//! **A repeated token** is taken without a window: if a token stays apart from itself, it may be
//! appended as often as the text repeats it. Runs of one character are read at memory speed.
//!
//! # Tried and lost
//!
//! A binary heap over a linked list for pieces above 40 bytes: 70 to 130 ms/MB on runs and random
//! letters against 1 to 60 here. Longest match with backtracking is as fast as this on random
//! letters, but needs a trie of 4 MB for `o200k_base` or many hash probes for each match.

use super::vocabulary::{NONE, Vocabulary};

/// Window of most pieces that are no token.
const NARROW: usize = 32;

/// Widest cell that is a single window, whatever it holds.
const MIDDLE: usize = 128;

/// Widest window that is scanned.
const WIDE: usize = 1024;

/// Bytes that a long cell advances by, at least.
const STEP: usize = 64;

/// Tokens that are given back at first.
const GIVEN_BACK: usize = 2;

/// Number of tokens of the piece `text[start..end]`, which is no token itself.
pub(super) fn count(vocabulary: &Vocabulary, text: &[u8], start: usize, end: usize) -> usize {
    let mut count = 0;
    for_each_cell(vocabulary, text, start, end, |from, to, rank| {
        count += match to - from {
            _ if rank != NONE => 1,
            0..=MIDDLE => window(vocabulary, text, from, to, |_, _| ()),
            _ => {
                let mut tokens = Vec::new();
                long_cell(vocabulary, &text[from..to], &mut tokens);
                tokens.len()
            }
        };
    });
    count
}

/// Appends the tokens of the piece `text[start..end]`, which is no token itself.
pub(super) fn encode(
    vocabulary: &Vocabulary,
    text: &[u8],
    start: usize,
    end: usize,
    tokens: &mut Vec<u32>,
) {
    for_each_cell(vocabulary, text, start, end, |from, to, rank| {
        match to - from {
            _ if rank != NONE => tokens.push(rank),
            0..=MIDDLE => {
                window(vocabulary, text, from, to, |from, to| {
                    tokens.push(vocabulary.rank(text, from, to));
                });
            }
            _ => {
                let mut encoded = Vec::new();
                long_cell(vocabulary, &text[from..to], &mut encoded);
                tokens.append(&mut encoded);
            }
        }
    });
}

/// Calls `cell` with range and rank of every cell of the piece `text[start..end]`.
#[inline(always)]
fn for_each_cell(
    vocabulary: &Vocabulary,
    text: &[u8],
    start: usize,
    end: usize,
    mut cell: impl FnMut(usize, usize, u32),
) {
    let mut from = start;
    while from < end {
        let to = vocabulary.cell_end(text, from, end);
        let whole = to - from == end - start;
        cell(
            from,
            to,
            if whole {
                NONE
            } else {
                vocabulary.rank(text, from, to)
            },
        );
        from = to;
    }
}

/// Encodes a cell of any length into the empty `tokens`.
fn long_cell(vocabulary: &Vocabulary, piece: &[u8], tokens: &mut Vec<u32>) {
    let (mut at, mut step) = (0, STEP);
    let mut encoded = Vec::new();
    while at < piece.len() {
        at = repeat(vocabulary, piece, at, tokens);
        let end = piece.len().min(at + step);
        let mut given_back = GIVEN_BACK;
        loop {
            let kept = tokens.len().saturating_sub(given_back);
            let start = at - byte_length(vocabulary, &tokens[kept..]);
            encoded.clear();
            window(vocabulary, piece, start, end, |from, to| {
                encoded.push(vocabulary.rank(piece, from, to));
            });
            let apart = match (tokens[..kept].last(), encoded.first()) {
                (Some(&left), Some(&right)) => stay_apart(vocabulary, piece, start, left, right),
                _ => true,
            };
            if apart {
                step = (step / 2).max(at - start).max(STEP);
                tokens.truncate(kept);
                tokens.append(&mut encoded);
                break;
            }
            given_back *= 2;
        }
        at = end;
    }
}

/// Appends the last token as often as the text at `at` repeats it; returns where that ends.
fn repeat(vocabulary: &Vocabulary, piece: &[u8], mut at: usize, tokens: &mut Vec<u32>) -> usize {
    let Some(&last) = tokens.last() else {
        return at;
    };
    let Some(token) = vocabulary.token(last) else {
        return at;
    };
    if piece[at..].starts_with(token) && stay_apart(vocabulary, piece, at, last, last) {
        while piece[at..].starts_with(token) {
            tokens.push(last);
            at += token.len();
        }
    }
    at
}

/// True if `left`, which ends at `border`, and `right`, which starts there, are the encoding of
/// their joined text.
fn stay_apart(vocabulary: &Vocabulary, piece: &[u8], border: usize, left: u32, right: u32) -> bool {
    let start = border - byte_length(vocabulary, &[left]);
    let end = border + byte_length(vocabulary, &[right]);
    let mut borders = 0;
    let count = window(vocabulary, piece, start, end, |from, _| {
        borders += usize::from(from == border);
    });
    count == 2 && borders == 1
}

/// Bytes of the text of `tokens`.
fn byte_length(vocabulary: &Vocabulary, tokens: &[u32]) -> usize {
    tokens
        .iter()
        .filter_map(|&token| vocabulary.token(token))
        .map(<[u8]>::len)
        .sum()
}

/// Merges `text[start..end]`, calls `token` with the range of every token, returns their number.
#[inline(always)]
fn window(
    vocabulary: &Vocabulary,
    text: &[u8],
    start: usize,
    end: usize,
    token: impl FnMut(usize, usize),
) -> usize {
    match end - start {
        0..=NARROW => merge(
            vocabulary,
            text,
            start,
            end,
            token,
            [NONE; NARROW],
            [0; NARROW],
            [0; NARROW],
        ),
        ..=MIDDLE => merge(
            vocabulary,
            text,
            start,
            end,
            token,
            [NONE; MIDDLE],
            [0; MIDDLE],
            [0; MIDDLE],
        ),
        ..=WIDE => merge(
            vocabulary,
            text,
            start,
            end,
            token,
            [NONE; WIDE],
            [0; WIDE],
            [0; WIDE],
        ),
        length => {
            let links = || vec![0; length];
            merge(
                vocabulary,
                text,
                start,
                end,
                token,
                Tournament::new(length),
                links(),
                links(),
            )
        }
    }
}

/// The lowest ranked pair of a window; positions are those of the first byte of a pair.
trait Pairs {
    /// Sets the rank of the pair at `position`, [`NONE`] to remove it.
    fn set(&mut self, position: usize, rank: u32);
    /// Position and rank of the lowest, leftmost pair among the first `length` positions.
    fn lowest(&self, length: usize) -> Option<(usize, u32)>;
}

/// Bits of a scanned word that hold the position; ranks have 18 bits.
const POSITION_BITS: u32 = 10;

const _: () = assert!(WIDE <= 1 << POSITION_BITS && POSITION_BITS + 18 < u32::BITS);

impl<const N: usize> Pairs for [u32; N] {
    #[inline(always)]
    fn set(&mut self, position: usize, rank: u32) {
        self[position] = if rank == NONE {
            NONE
        } else {
            rank << POSITION_BITS | position as u32
        };
    }

    #[inline(always)]
    fn lowest(&self, length: usize) -> Option<(usize, u32)> {
        let word = self[..length]
            .iter()
            .copied()
            .min()
            .filter(|&word| word != NONE)?;
        let position = word & ((1 << POSITION_BITS) - 1);
        Some((position as usize, word >> POSITION_BITS))
    }
}

/// A tree whose inner nodes hold the position of the lower of their two children.
struct Tournament {
    ranks: Vec<u32>,
    /// Node 1 is the root, the children of node n are 2n and 2n + 1.
    winners: Vec<usize>,
}

impl Tournament {
    fn new(length: usize) -> Tournament {
        let leaves = length.next_power_of_two();
        let mut winners = vec![0; 2 * leaves];
        for (position, leaf) in winners[leaves..].iter_mut().enumerate() {
            *leaf = position;
        }
        for node in (1..leaves).rev() {
            winners[node] = winners[2 * node];
        }
        Tournament {
            ranks: vec![NONE; leaves],
            winners,
        }
    }
}

impl Pairs for Tournament {
    fn set(&mut self, position: usize, rank: u32) {
        self.ranks[position] = rank;
        let mut node = (position + self.ranks.len()) / 2;
        while node > 0 {
            let (left, right) = (self.winners[2 * node], self.winners[2 * node + 1]);
            self.winners[node] = if self.ranks[right] < self.ranks[left] {
                right
            } else {
                left
            };
            node /= 2;
        }
    }

    fn lowest(&self, _: usize) -> Option<(usize, u32)> {
        let winner = self.winners[1];
        Some((winner, self.ranks[winner])).filter(|&(_, rank)| rank != NONE)
    }
}

/// The definition, over a list of spans that is linked by position.
///
/// `next` and `previous` of a span's first byte are the first byte of the span after and before it.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn merge(
    vocabulary: &Vocabulary,
    text: &[u8],
    start: usize,
    end: usize,
    mut token: impl FnMut(usize, usize),
    mut pairs: impl Pairs,
    mut next: impl AsMut<[usize]>,
    mut previous: impl AsMut<[usize]>,
) -> usize {
    let (next, previous) = (next.as_mut(), previous.as_mut());
    let length = end - start;
    let rank = |from: usize, to: usize| vocabulary.candidate_rank(text, start + from, start + to);
    for at in 0..length {
        next[at] = at + 1;
        previous[at] = at.wrapping_sub(1);
        if at + 1 < length {
            pairs.set(at, rank(at, at + 2));
        }
    }
    let mut spans = length;
    while let Some((at, _)) = pairs.lowest(length) {
        let joined = next[at];
        let after = next[joined];
        spans -= 1;
        pairs.set(joined, NONE);
        next[at] = after;
        if after < length {
            previous[after] = at;
            pairs.set(at, rank(at, next[after]));
        } else {
            pairs.set(at, NONE);
        }
        if at > 0 {
            pairs.set(previous[at], rank(previous[at], after));
        }
    }
    let mut at = 0;
    while at < length {
        token(start + at, start + next[at]);
        at = next[at];
    }
    spans
}
