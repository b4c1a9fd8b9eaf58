//! The encoding of a long cell: windows of it are merged, and checked where they meet.
//!
//! By this lemma: if `a` and `b` are encodings, and the last token of `a` and the first of `b` stay
//! apart when their joined text is encoded, then `a` followed by `b` is the encoding of the joined
//! text. (The joins inside of each token, and their order, are the same in both; a join across a
//! border would have to happen between spans of the two tokens next to it, and whether it does
//! depends on those two alone.)
//!
//! So a window is encoded by itself and kept if its first token stays apart from the last token
//! before it. If it does not, tokens are given back and encoded again with the window, twice as many
//! every time, and the next windows are made as wide as what was given back, so that the work stays
//! n log n however the text is made. The last tokens of a window, which the text after it may
//! change, are left to the next.
//!
//! **A guess** may save a window, by the same lemma: a token that once followed the last one and is
//! what the text goes on with, or the longest token of a run of one byte. Periodic text is read at
//! the speed of comparing bytes.
//!
//! # Tried and lost
//!
//! - A binary heap over a linked list: about 120 ms/MB on runs and 50 to 75 on random letters
//!   (prototype, 2026-11-20).
//! - A search for the longest token that stays apart from the one before it, with places that led
//!   nowhere marked: 9 times the time of this on random letters, 100 times and more on runs of
//!   `-`, and 2,100 instructions for a short word against 1,000 of the merge (2026-11-21).
//! - Deciding whether two tokens stay apart by merging their text: slower on long tokens.

use super::key::MAX_TOKEN_BYTES;
use super::merge::{self, MERGE_BYTES};
use super::vocabulary::{NONE, Vocabulary};
use super::wide;

/// Bytes that a long cell advances by, at least.
const STEP: usize = MERGE_BYTES;

/// Last tokens of a window that the text after it may change, as a rule.
const UNSETTLED: usize = 2;

/// Bytes of a run that is worth a guess: a vocabulary that has longer runs has this one.
const RUN: usize = 16;

/// Encodes a cell of any length into the empty `tokens`.
#[inline(always)]
pub(super) fn encode(vocabulary: &Vocabulary, cell: &[u8], tokens: &mut Vec<u32>) {
    let (mut at, mut step) = (0, STEP);
    let mut followers = Followers::new();
    loop {
        at = guess(vocabulary, cell, at, tokens, &mut followers);
        if at == cell.len() {
            return;
        }
        let (end, unsettled) = window_end(cell, at + step);
        let (start, kept) = append_window(vocabulary, cell, at, end, tokens);
        step = (step / 2).max(at - start).max(STEP);
        let settled = at;
        at = end;
        for _ in 0..unsettled {
            let last = tokens
                .last()
                .map_or(0, |&last| byte_length(vocabulary, &[last]));
            if end < cell.len() && at - last > settled {
                tokens.pop();
                at -= last;
            }
        }
        followers.learn(tokens.get(kept.saturating_sub(2)..).unwrap_or_default());
    }
}

/// Where a window may end at `end` or soon after it, and how many of its tokens are unsettled.
///
/// The end of a run of one byte is a good place, if it is near: seldom does a token reach beyond it.
fn window_end(cell: &[u8], end: usize) -> (usize, usize) {
    let Some((before, after)) = cell.split_at_checked(end) else {
        return (cell.len(), 0);
    };
    let more = after.iter().take(MAX_TOKEN_BYTES);
    let more = more.take_while(|&byte| before.last() == Some(byte)).count();
    if !(RUN..MAX_TOKEN_BYTES).contains(&more) {
        (end, UNSETTLED)
    } else {
        (end + more, 0)
    }
}

/// Appends the bytes from `at` to `end` to `tokens`, the encoding of those before; returns from
/// where they had to be encoded anew, and how many tokens are before that.
#[inline(always)]
fn append_window(
    vocabulary: &Vocabulary,
    cell: &[u8],
    at: usize,
    end: usize,
    tokens: &mut Vec<u32>,
) -> (usize, usize) {
    let mut given_back = 0;
    loop {
        let kept = tokens.len().saturating_sub(given_back);
        let start = at - byte_length(vocabulary, &tokens[kept..]);
        let mut encoded = window(vocabulary, cell, start, end);
        let apart = match (tokens[..kept].last(), encoded.first()) {
            (Some(&left), Some(&right)) => stay_apart(vocabulary, cell, start, left, right),
            _ => true,
        };
        if apart {
            tokens.truncate(kept);
            tokens.append(&mut encoded);
            return (start, kept);
        }
        given_back = 2 * given_back + 1;
    }
}

/// Appends tokens that need no window; returns where that ends.
fn guess(
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
        let apart = |&last: &u32| stay_apart(vocabulary, cell, at, last, run);
        if !tokens.last().is_none_or(apart) {
            return at;
        }
        tokens.push(run);
        followers.learn(&tokens[tokens.len().saturating_sub(3)..]);
        at = end;
    }
}

/// Tokens that were seen next to each other: so they stay apart.
struct Followers {
    /// By one token before; and by two, which tell more in periodic text.
    one: [(u32, u32); 256],
    two: [(u32, u32, u32); 256],
}

impl Followers {
    fn new() -> Followers {
        Followers {
            one: [(NONE, NONE); 256],
            two: [(NONE, NONE, NONE); 256],
        }
    }

    fn learn(&mut self, encoded: &[u32]) {
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

/// True if `left`, which ends at `border`, and `right`, which starts there, are the encoding of
/// their joined text.
///
/// Goes backwards through the spans on both sides of the border, from the whole tokens to single
/// bytes, the one that was joined last first. At some time in the merge, each of these two spans
/// were neighbours. They were joined then, if their join has a lower rank than the joins that made
/// them parts of larger spans; of equal ranks the leftmost pair is joined first.
fn stay_apart(vocabulary: &Vocabulary, text: &[u8], border: usize, left: u32, right: u32) -> bool {
    let (mut left, mut right) = (left, right);
    let mut start = border - byte_length(vocabulary, &[left]);
    let mut end = border + byte_length(vocabulary, &[right]);
    let (mut left_until, mut right_until) = (NONE, NONE);
    loop {
        let joined = vocabulary.candidate_rank(text, start, end);
        if joined < left_until && joined <= right_until && joined != NONE {
            return false;
        }
        let (left_is_byte, right_is_byte) = (start + 1 == border, border + 1 == end);
        if left_is_byte && right_is_byte {
            return true;
        }
        if right_is_byte || (!left_is_byte && left > right) {
            let join = vocabulary.join(left);
            left_until = left;
            left = join.right();
            start += join.left_length();
        } else {
            let join = vocabulary.join(right);
            right_until = right;
            right = join.left();
            end = border + join.left_length();
        }
    }
}

/// Bytes of the text of `tokens`.
fn byte_length(vocabulary: &Vocabulary, tokens: &[u32]) -> usize {
    tokens
        .iter()
        .filter_map(|&token| vocabulary.token(token))
        .map(<[u8]>::len)
        .sum()
}

/// The encoding of `text[start..end]`, by the definition.
#[inline(always)]
fn window(vocabulary: &Vocabulary, text: &[u8], start: usize, end: usize) -> Vec<u32> {
    let mut tokens = Vec::new();
    if end - start <= MERGE_BYTES {
        merge::encode(vocabulary, text, start, end, &mut tokens);
    } else {
        wide::encode(vocabulary, &text[start..end], &mut tokens);
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::super::vocabulary::{CL100K, O200K, R50K};
    use super::super::{piece, steps};
    use super::*;

    /// Numbers that look random, below `limit`.
    fn numbers(mut seed: u64, limit: usize) -> impl Iterator<Item = usize> {
        std::iter::repeat_with(move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as usize % limit
        })
    }

    /// Text of `length` bytes, from an alphabet of single characters or words.
    fn text(alphabet: &[&str], length: usize) -> String {
        let mut text = String::new();
        let mut picks = numbers(7, alphabet.len());
        while text.len() < length {
            text.push_str(alphabet[picks.next().unwrap_or(0)]);
        }
        text
    }

    const ALPHABETS: &[&[&str]] = &[
        &["a"],
        &[" "],
        &["="],
        &["\n"],
        &["\u{301}"],
        &["\t"],
        &["/"],
        &["a", "b"],
        &["a", "B"],
        &[" ", "\t"],
        &["=", "-"],
        &["a", "e", "i", "o", "u", "n", "t", "s"],
        &["E", "T", "A", "O", "I", "N"],
        &["的", "一", "是", "不", "了"],
        &["ก", "ข", "ไ", "ท", "ย"],
        &["the", "tion", "ing", "er", "pre", "con"],
        &[
            "                                                  ",
            "\t\t\t\t",
            "\t",
        ],
        &["-----------------------", "=====================", "*"],
        &["👨\u{200d}👩\u{200d}👧"],
        &["0", "1", "a", "f"],
        &[
            "                                                                    \n",
            "                               \n",
        ],
        &[
            "                                ",
            "\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t",
        ],
        &[
            "================================",
            "--------------------------------",
        ],
    ];

    fn definition(vocabulary: &Vocabulary, text: &[u8]) -> Vec<u32> {
        let mut starts: Vec<usize> = (0..=text.len()).collect();
        let rank = |from, to| vocabulary.rank(text, from, to);
        let lowest = |starts: &[usize]| {
            let pairs = starts.windows(3).map(|pair| rank(pair[0], pair[2]));
            pairs.enumerate().map(|(at, rank)| (rank, at)).min()
        };
        while let Some((_, at)) = lowest(&starts).filter(|&(rank, _)| rank != NONE) {
            starts.remove(at + 1);
        }
        starts
            .windows(2)
            .map(|span| rank(span[0], span[1]))
            .collect()
    }

    #[test]
    fn test_every_way_to_encode_gives_the_same_tokens() {
        for vocabulary in [&O200K, &CL100K, &R50K] {
            for alphabet in ALPHABETS {
                for length in [1, 2, 15, 16, 17, 32, 33, 63, 64, 65, 128, 129, 256, 400] {
                    let text = text(alphabet, length);
                    let text = &text.as_bytes()[..length];
                    let expected = definition(vocabulary, text);
                    let mut tokens = Vec::new();
                    encode(vocabulary, text, &mut tokens);
                    assert_eq!(tokens, expected, "{text:?}");
                    assert_eq!(window(vocabulary, text, 0, length), expected, "{text:?}");
                    tokens.clear();
                    wide::encode(vocabulary, text, &mut tokens);
                    assert_eq!(tokens, expected, "{text:?}");
                }
            }
        }
    }

    #[test]
    fn test_tokens_stay_apart_if_their_text_is_encoded_so() {
        for vocabulary in [&O200K, &CL100K, &R50K] {
            let tokens: Vec<(u32, &[u8])> = vocabulary.tokens().collect();
            let mut apart = 0;
            for (index, pick) in (0..tokens.len()).step_by(7).zip(numbers(7, tokens.len())) {
                for (left, right) in [(index, pick), (index, index), (pick, index / 7)] {
                    let (left, right) = (tokens[left], tokens[right]);
                    let text = [left.1, right.1].concat();
                    let same = definition(vocabulary, &text) == [left.0, right.0];
                    let border = left.1.len();
                    assert_eq!(stay_apart(vocabulary, &text, border, left.0, right.0), same);
                    apart += usize::from(same);
                }
            }
            assert!(apart > 0);
        }
    }

    #[test]
    fn test_work_is_linear_in_the_piece() {
        for vocabulary in [&O200K, &CL100K, &R50K] {
            for alphabet in ALPHABETS {
                let steps = |length| {
                    let text = text(alphabet, length);
                    steps::of(|| {
                        assert!(piece::count(vocabulary, text.as_bytes(), 0, text.len()) > 0);
                    })
                };
                let (one, two, four) = (steps(8_000), steps(16_000), steps(32_000));
                let all = format!("{alphabet:?}: {one} {two} {four}");
                assert!(two <= one * 5 / 2 + 1_000, "{all}");
                assert!(four <= two * 5 / 2 + 1_000, "{all}");
                assert!(four <= 32_000 * 40, "{all}");
                if let [run] = alphabet
                    && run.len() == 1
                {
                    assert!(four <= 32_000, "{all}");
                }
            }
        }
    }

    #[test]
    fn test_a_wide_window_is_linear() {
        for alphabet in ALPHABETS {
            let steps = |length| {
                let text = text(alphabet, length);
                let mut tokens = Vec::new();
                steps::of(|| wide::encode(&O200K, text.as_bytes(), &mut tokens))
            };
            let (one, two) = (steps(4_096), steps(8_192));
            assert!(two <= one * 5 / 2, "{alphabet:?}: {one} {two}");
        }
    }
}
