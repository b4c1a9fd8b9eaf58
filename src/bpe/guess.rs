//! Guesses at the tokens of a long cell, which need no window where they are right.
//!
//! A token that once followed the last one and is what the text goes on with, or the longest token of
//! a run of one byte: by the lemma of [`long`](super::long) it is right if the two stay apart. Periodic
//! text is so read at the speed of comparing bytes.

use super::key::MAX_TOKEN_BYTES;
use super::long::{byte_length, stay_apart};
use super::vocabulary::{NONE, Vocabulary};

/// Bytes of a run that is worth a guess: a vocabulary that has longer runs has this one.
pub(super) const RUN: usize = 16;

/// Appends tokens that need no window; returns where that ends.
#[inline(always)]
pub(super) fn guess(
    vocabulary: &Vocabulary,
    cell: &[u8],
    mut at: usize,
    tokens: &mut Vec<u32>,
    followers: &mut Followers,
) -> usize {
    loop {
        let follows = |&token: &u32| {
            let text = vocabulary.token(token);
            text.is_some_and(|text| cell[at..].starts_with(text))
        };
        if let Some(token) = followers.of(tokens).into_iter().flatten().find(follows) {
            tokens.push(token);
            at += byte_length(vocabulary, &[token]);
            continue;
        }
        let Some(end) = run_token_end(vocabulary, cell, at) else {
            return at;
        };
        let run = vocabulary.rank(cell, at, end);
        let apart = |&last: &u32| stay_apart(vocabulary, last, run);
        if !tokens.last().is_none_or(apart) {
            return at;
        }
        tokens.push(run);
        followers.learn(&tokens[tokens.len().saturating_sub(3)..]);
        at = end;
    }
}

/// Tokens that were seen next to each other: so they stay apart.
pub(super) struct Followers {
    /// By one token before; and by two, which tell more in periodic text.
    one: [(u32, u32); 256],
    two: [(u32, u32, u32); 256],
}

impl Followers {
    pub(super) fn new() -> Followers {
        Followers {
            one: [(NONE, NONE); 256],
            two: [(NONE, NONE, NONE); 256],
        }
    }

    pub(super) fn learn(&mut self, encoded: &[u32]) {
        for pair in encoded.windows(2) {
            self.one[pair[0] as usize % 256] = (pair[0], pair[1]);
        }
        for three in encoded.windows(3) {
            self.two[place(three[0], three[1])] = (three[0], three[1], three[2]);
        }
    }

    /// What may come after `tokens`, the likelier first.
    fn of(&self, tokens: &[u32]) -> [Option<u32>; 2] {
        let Some(&last) = tokens.last() else {
            return [None; 2];
        };
        let before = tokens.len().checked_sub(2).map_or(NONE, |at| tokens[at]);
        let (first, second, third) = self.two[place(before, last)];
        let (left, right) = self.one[last as usize % 256];
        [
            ((first, second) == (before, last)).then_some(third),
            (left == last).then_some(right),
        ]
    }
}

fn place(first: u32, second: u32) -> usize {
    (first.wrapping_mul(31) ^ second) as usize % 256
}

/// End of the longest token of at least [`RUN`] bytes, all the same, at `at`.
fn run_token_end(vocabulary: &Vocabulary, cell: &[u8], at: usize) -> Option<usize> {
    let rest = &cell[at..cell.len().min(at + MAX_TOKEN_BYTES)];
    let run = rest
        .iter()
        .take_while(|&byte| rest.first() == Some(byte))
        .count();
    let is_token = |length: &usize| vocabulary.rank(cell, at, at + length) != NONE;
    if run < RUN || !is_token(&RUN) {
        return None;
    }
    (RUN..=run).rev().find(is_token).map(|length| at + length)
}
