//! The encoding of a long cell, by a search.
//!
//! By this lemma: **if every two neighbours among some tokens stay apart when their joined text is
//! encoded, then these tokens are the encoding of their whole text.** (The joins inside each token,
//! and their order, are the same in both; a join across a border would have to happen between spans
//! of the two tokens next to it, and whether it does depends on those two alone.) So a text has one
//! such row of tokens, and any way to find it is right.
//!
//! The search takes the longest token that the text goes on with and that stays apart from the one
//! before it, then the next. Where no token goes on, the last one is given back for a shorter one.
//! What is before a place is its only encoding, however the search came there; so a place that led
//! nowhere is never tried again, and the search is linear in the text.
//!
//! # Tried and lost
//!
//! - A binary heap over a linked list: about 120 ms/MB on runs and 50 to 75 on random letters
//!   (prototype, 2026-11-20).
//! - Windows of 63 bytes that are merged and then checked at their borders by the same lemma: 110
//!   to 160 ms/MB if the tokens are about as long as a window.

use super::key::{MAX_TOKEN_BYTES, SHORT_BYTES};
use super::vocabulary::{NONE, Vocabulary};

/// The tokens of `text[start..end]`.
pub(super) fn tokens(vocabulary: &Vocabulary, text: &[u8], start: usize, end: usize) -> Vec<u32> {
    let search = Search {
        vocabulary,
        text,
        start,
        end,
    };
    search.run()
}

/// A token in the text.
#[derive(Clone, Copy)]
struct Span {
    rank: u32,
    length: usize,
}

/// The search for the encoding of `text[start..end]`.
struct Search<'a> {
    vocabulary: &'a Vocabulary,
    text: &'a [u8],
    start: usize,
    end: usize,
}

impl Search<'_> {
    fn run(&self) -> Vec<u32> {
        let mut tokens = Vec::new();
        let mut dead = vec![0; (self.end - self.start) / 64 + 1];
        let (mut at, mut last, mut longest) = (self.start, None, MAX_TOKEN_BYTES);
        while at < self.end {
            if let Some(next) = self.next(at, last, longest, &dead) {
                tokens.push(next.rank);
                at += next.length;
                (last, longest) = (Some(next), MAX_TOKEN_BYTES);
            } else if let Some(given_back) = last {
                let place = at - self.start;
                dead[place / 64] |= 1 << (place % 64);
                tokens.pop();
                at -= given_back.length;
                longest = given_back.length - 1;
                last = tokens.last().map(|&before| self.span(before));
            } else {
                break; // Unreachable: every text has an encoding.
            }
        }
        tokens
    }

    /// The longest token at `at`, of at most `longest` bytes, that stays apart from `last` and does
    /// not end at a dead place.
    #[inline(always)]
    fn next(&self, at: usize, last: Option<Span>, longest: usize, dead: &[u64]) -> Option<Span> {
        let longest = longest.min(self.end - at);
        let fits = |span: &Span| {
            let place = at + span.length - self.start;
            dead.get(place / 64).is_none_or(|bits| bits >> (place % 64) & 1 == 0)
                && last.is_none_or(|last| self.stay_apart(last, at, *span))
        };
        let prefixes = self.vocabulary.prefixes(self.text, at);
        if longest > SHORT_BYTES && prefixes.has_long() {
            let found = (SHORT_BYTES + 1..=longest).rev().find_map(|length| {
                let rank = self.vocabulary.rank(self.text, at, at + length);
                Some(Span { rank, length }).filter(|span| rank != NONE && fits(span))
            });
            if found.is_some() {
                return found;
            }
        }
        (1..=longest.min(SHORT_BYTES)).rev().find_map(|length| {
            let rank = prefixes.rank(length);
            Some(Span { rank, length }).filter(|span| rank != NONE && fits(span))
        })
    }

    fn span(&self, rank: u32) -> Span {
        let length = self.vocabulary.token(rank).map_or(0, <[u8]>::len);
        Span { rank, length }
    }

    /// True if `left`, which ends at `border`, and `right`, which starts there, are the encoding of
    /// their joined text.
    ///
    /// Goes backwards through the spans on both sides of the border, from the whole tokens to
    /// single bytes, the one that was joined last first. At some time in the merge, each of these
    /// two spans were neighbours. They were joined then, if their join has a lower rank than the
    /// joins that made them parts of larger spans; of equal ranks the leftmost is joined first.
    #[inline(always)]
    fn stay_apart(&self, left: Span, border: usize, right: Span) -> bool {
        let (mut left, mut right) = (left, right);
        let (mut left_until, mut right_until) = (NONE, NONE);
        loop {
            let (start, end) = (border - left.length, border + right.length);
            let joined = self.vocabulary.candidate_rank(self.text, start, end);
            if joined < left_until && joined <= right_until && joined != NONE {
                return false;
            }
            let left_join = (left.length > 1 && (right.length == 1 || left.rank > right.rank))
                .then(|| self.vocabulary.join(left.rank));
            if let Some(join) = left_join {
                left_until = left.rank;
                left.rank = join.right();
                left.length -= join.left_length();
            } else if right.length > 1 {
                let join = self.vocabulary.join(right.rank);
                right_until = right.rank;
                right.rank = join.left();
                right.length = join.left_length();
            } else {
                return true;
            }
        }
    }
}
