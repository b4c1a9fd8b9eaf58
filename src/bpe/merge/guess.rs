//! Guesses at the tokens of a long cell, which need no window where they are right.
//!
//! A token that once followed the last one and is what the text goes on with: by the lemma of
//! [`windows`](crate::bpe::merge::windows) it is right, for the two stay apart. Periodic text is so read at the speed of
//! comparing bytes.

use crate::bpe::table::{NONE, Vocabulary};

/// Appends tokens that need no window, up to about the byte `goal`; returns where that ends.
#[inline(always)]
pub(in crate::bpe) fn guess(
    vocabulary: &Vocabulary,
    cell: &[u8],
    mut at: usize,
    goal: usize,
    tokens: &mut Vec<u32>,
    followers: &Followers,
) -> usize {
    while at < goal {
        let follows = |&(_, text): &(u32, &[u8])| cell[at..].starts_with(text);
        let texts = followers.of(tokens).into_iter().flatten();
        let mut texts = texts.filter_map(|token| Some((token, vocabulary.token(token)?)));
        let Some((token, text)) = texts.find(follows) else {
            break;
        };
        tokens.push(token);
        at += text.len();
    }
    at
}

/// Tokens that were seen next to each other: so they stay apart.
pub(in crate::bpe) struct Followers {
    /// By one token before; and by two, which tell more in periodic text.
    one: [(u32, u32); 256],
    two: [(u32, u32, u32); 256],
}

impl Followers {
    pub(in crate::bpe) fn new() -> Followers {
        Followers {
            one: [(NONE, NONE); 256],
            two: [(NONE, NONE, NONE); 256],
        }
    }

    pub(in crate::bpe) fn learn(&mut self, encoded: &[u32]) {
        for pair in encoded.windows(2) {
            self.one[pair[0] as usize % 256] = (pair[0], pair[1]);
        }
        for three in encoded.windows(3) {
            self.two[place(three[0], three[1])] = (three[0], three[1], three[2]);
        }
    }

    /// The tokens that may come after `tokens`, the likelier first.
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
