//! The encoding of a long cell: windows of it are merged, and checked where they meet.
//!
//! By this lemma: if `a` and `b` are encodings, and the last token of `a` and the first of `b` stay
//! apart when their joined text is encoded, then `a` followed by `b` is the encoding of the joined
//! text. (The joins inside of each token, and their order, are the same in both; a join across a
//! border would have to happen between spans of the two tokens next to it, and whether it does
//! depends on those two alone.)
//!
//! So windows are encoded by themselves. A window begins a little before the end of what is done, and
//! is appended from a border that both have and where the tokens on both sides stay apart: that is
//! proof enough, and the last tokens before it are replaced.
//!
//! - Four windows of 126 bytes, each of which shares 16 or more with the one before it, are merged
//!   side by side ([`narrow`]). One that does not fit is merged again from what is done by then.
//! - If the first does not fit, it is made anew from farther back, twice as far every time, and the
//!   next windows are made as wide as that, so that the work stays n log n however the text is made.
//!   Windows above 254 bytes are merged by a tree ([`wide`]).
//!
//! The last tokens of a window, which the text after it may change, are left to the next.
//!
//! A guess ([`guess`]) may save a window, by the same lemma.
//!
//! # Tried and lost
//!
//! - A binary heap over a linked list: about 120 ms/MB on runs and 50 to 75 on random letters
//!   (prototype, 2026-11-20).
//! - A search for the longest token that stays apart from the one before it, with places that led
//!   nowhere marked: 9 times the time of a merge on random letters, 100 times and more on runs of
//!   `-`, and 2,100 instructions for a short word against 1,000 of the merge (2026-11-21).
//! - Deciding whether two tokens stay apart by merging their text: slower on long tokens.
//! - Windows one after the other, each begun at the end of what is done: 205 instructions per byte of
//!   random letters against 141, 472 against 201 on long tokens in a row (2026-11-21). Most that did
//!   not fit went to the tree, at 300 and more.
//! - Four windows of up to 254 bytes side by side: 162 and 231.
//!
//! Slowest that is known: pieces of 150 to 400 bytes of two or three long runs, 80 to 120 ms/MB on a
//! busy machine, as before. Their windows do not fit, and go to the tree.

use super::guess::{Followers, RUN, guess};
use super::key::MAX_TOKEN_BYTES;
use super::narrow::{self, Narrow, TOGETHER, Window};
use super::vocabulary::{NONE, Vocabulary};
use super::wide;

/// Bytes that a window shares with the one before it, if they are merged side by side.
const OVERLAP: usize = 16;
const MOST_OVERLAP: usize = 48;

/// Bytes before the start of a window where the start of a run is looked for.
const RUN_BEFORE: usize = 40;

/// Bytes that a window advances by, at least.
const STEP: usize = 64;

/// A window that is merged by itself.
type Middle = Window<256>;

/// Last tokens of a window that the text after it may change, as a rule.
const UNSETTLED: usize = 2;

/// Encodes a cell of any length into the empty `tokens`.
#[inline(always)]
pub(super) fn encode(vocabulary: &Vocabulary, cell: &[u8], tokens: &mut Vec<u32>) {
    if cell.len() <= Narrow::BYTES {
        let mut window = Narrow::EMPTY;
        window.set(vocabulary, cell);
        narrow::merge(vocabulary, std::slice::from_mut(&mut window));
        tokens.extend(window.spans().map(|(_, token)| token));
        return;
    }
    let mut encoder = Encoder {
        vocabulary,
        cell,
        tokens,
        end: 0,
        spans: Vec::new(),
        step: STEP,
        overlap: OVERLAP,
        together: TOGETHER,
        unsettled: UNSETTLED,
        kept: 0,
    };
    let mut followers = Followers::new();
    let mut windows = [Narrow::EMPTY; TOGETHER];
    loop {
        encoder.end = guess(
            vocabulary,
            cell,
            encoder.end,
            encoder.tokens,
            &mut followers,
        );
        if encoder.end == cell.len() {
            return;
        }
        let settled = encoder.end;
        encoder.kept = encoder.tokens.len();
        encoder.append_windows(&mut windows);
        encoder.give_back(settled);
        if encoder.end < settled + STEP {
            encoder.step = encoder.step.max(3 * STEP);
        }
        followers.learn(&encoder.tokens[encoder.kept.saturating_sub(2)..]);
    }
}

/// The encoding of a cell, as far as it is read.
struct Encoder<'a> {
    vocabulary: &'a Vocabulary,
    cell: &'a [u8],
    /// The encoding of the bytes before `end`.
    tokens: &'a mut Vec<u32>,
    end: usize,
    /// Start and token of every span of the last window.
    spans: Vec<(usize, u32)>,
    /// Bytes that the next window advances by.
    step: usize,
    overlap: usize,
    together: usize,
    /// Last tokens that the text after them may change, as a rule.
    unsettled: usize,
    /// Tokens that the last windows left as they were.
    kept: usize,
}

impl Encoder<'_> {
    /// Appends a window, or several.
    #[inline(always)]
    fn append_windows(&mut self, windows: &mut [Narrow; TOGETHER]) {
        let (mut kept, mut start) = (self.tokens.len(), self.end);
        let mut back = OVERLAP;
        loop {
            let most = if back == OVERLAP {
                Narrow::BYTES - STEP
            } else {
                self.end
            };
            while let Some(last) = kept.checked_sub(1).filter(|_| self.end - start < back) {
                let length = byte_length(self.vocabulary, &self.tokens[last..kept]);
                if self.end - start + length > most {
                    break;
                }
                kept = last;
                start -= length;
            }
            let fits = if self.end - start + self.step <= Narrow::BYTES {
                self.append_narrow(start, windows)
            } else {
                self.append_wide(start)
            };
            if let Some(end) = fits {
                let given_back = if back == OVERLAP { 0 } else { end - start };
                self.step = (self.step / 2).max(given_back).max(STEP);
                return;
            }
            back = 2 * (self.end - start) + 1;
        }
    }

    /// Appends windows that are merged side by side, the first from `start`; returns the end before,
    /// or nothing if the first does not fit.
    #[inline(always)]
    fn append_narrow(&mut self, start: usize, windows: &mut [Narrow; TOGETHER]) -> Option<usize> {
        let before = self.end;
        self.unsettled = UNSETTLED;
        let mut starts = [start; TOGETHER];
        let mut number = 0;
        loop {
            let start = starts[number];
            let end = self.cell.len().min(start + Narrow::BYTES);
            windows[number].set(self.vocabulary, &self.cell[start..end]);
            number += 1;
            if number == self.together || end == self.cell.len() {
                break;
            }
            starts[number] = window_start(self.cell, end - self.overlap);
        }
        let windows = &mut windows[..number];
        narrow::merge(self.vocabulary, windows);
        for (at, window) in windows.iter().enumerate() {
            self.spans.clear();
            self.spans.extend(window.spans());
            if !self.append(starts[at]) {
                self.together = at.max(1);
                self.overlap = (2 * self.overlap).min(MOST_OVERLAP);
                return (at > 0).then_some(before);
            }
        }
        self.together = TOGETHER.min(2 * self.together);
        self.overlap = (self.overlap - self.overlap / 8).max(OVERLAP);
        Some(before)
    }

    /// Appends a wide window; returns the end before, or nothing if it does not fit.
    #[inline(always)]
    fn append_wide(&mut self, start: usize) -> Option<usize> {
        let before = self.end;
        let (end, unsettled) = window_end(self.cell, self.end + self.step);
        self.unsettled = unsettled;
        self.spans.clear();
        let text = &self.cell[start..end];
        if text.len() <= Middle::BYTES {
            let mut window = Middle::EMPTY;
            window.set(self.vocabulary, text);
            narrow::merge(self.vocabulary, std::slice::from_mut(&mut window));
            self.spans.extend(window.spans());
        } else {
            wide::merge(self.vocabulary, text, &mut self.spans);
        }
        self.append(start).then_some(before)
    }

    /// Gives back the last tokens after `settled`, which the text after them may change.
    #[inline(always)]
    fn give_back(&mut self, settled: usize) {
        for _ in 0..self.unsettled {
            let last = self
                .tokens
                .last()
                .map_or(0, |&last| byte_length(self.vocabulary, &[last]));
            if self.end < self.cell.len() && self.end - last > settled {
                self.tokens.pop();
                self.end -= last;
            }
        }
    }

    /// Appends the spans of the window at `start` where both encodings have a border and stay apart;
    /// false if they do so nowhere.
    #[inline(always)]
    fn append(&mut self, start: usize) -> bool {
        let (mut kept, mut border) = (self.tokens.len(), self.end);
        for at in (0..self.spans.len()).rev() {
            let (span_start, right) = self.spans[at];
            while border > start + span_start {
                kept -= 1;
                border -= byte_length(self.vocabulary, &self.tokens[kept..=kept]);
            }
            if border < start + span_start {
                continue;
            }
            let left = self.tokens[..kept].last();
            if left.is_none_or(|&left| stay_apart(self.vocabulary, left, right)) {
                self.tokens.truncate(kept);
                self.kept = self.kept.min(kept);
                let spans = &self.spans[at..];
                self.tokens.extend(spans.iter().map(|&(_, token)| token));
                let (last, token) = self.spans[self.spans.len() - 1];
                self.end = start + last + byte_length(self.vocabulary, &[token]);
                return true;
            }
        }
        false
    }
}

/// Where a window may start at `start` or soon before it: not within a run of one byte, whose tokens
/// depend on where it starts.
fn window_start(cell: &[u8], start: usize) -> usize {
    let near = start - RUN_BEFORE..start;
    let is_border = |&at: &usize| cell[at] != cell[at + 1];
    near.rev()
        .find(is_border)
        .map_or(start, |before| before + 1)
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
    if (RUN..MAX_TOKEN_BYTES).contains(&more) {
        (end + more, 0)
    } else {
        (end, UNSETTLED)
    }
}

/// True if `left` and `right` are the encoding of their joined text.
///
/// Goes backwards through the spans on both sides of the border, from the whole tokens to single
/// bytes, the one that was joined last first. At some time in the merge, each of these two spans
/// were neighbours. They were joined then, if their join has a lower rank than the joins that made
/// them parts of larger spans; of equal ranks the leftmost pair is joined first.
pub(super) fn stay_apart(vocabulary: &Vocabulary, mut left: u32, mut right: u32) -> bool {
    let (mut left_until, mut right_until) = (NONE, NONE);
    loop {
        let joined = vocabulary.joined(left, right);
        if joined < left_until && joined <= right_until && joined != NONE {
            return false;
        }
        match (vocabulary.join(left), vocabulary.join(right)) {
            (None, None) => return true,
            (Some(join), None) => (left_until, left) = (left, join.right()),
            (Some(join), Some(_)) if left > right => (left_until, left) = (left, join.right()),
            (_, Some(join)) => (right_until, right) = (right, join.left()),
        }
    }
}

/// Bytes of the text of `tokens`.
pub(super) fn byte_length(vocabulary: &Vocabulary, tokens: &[u32]) -> usize {
    tokens
        .iter()
        .filter_map(|&token| vocabulary.token(token))
        .map(<[u8]>::len)
        .sum()
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
                    let mut spans = Vec::new();
                    wide::merge(vocabulary, text, &mut spans);
                    let merged = |spans: &[(usize, u32)]| -> Vec<u32> {
                        spans.iter().map(|&(_, token)| token).collect()
                    };
                    assert_eq!(merged(&spans), expected, "{text:?}");
                    if length <= Narrow::BYTES {
                        let mut window = Narrow::EMPTY;
                        window.set(vocabulary, text);
                        narrow::merge(vocabulary, std::slice::from_mut(&mut window));
                        let spans: Vec<_> = window.spans().collect();
                        assert_eq!(merged(&spans), expected, "{text:?}");
                    }
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
                    assert_eq!(stay_apart(vocabulary, left.0, right.0), same);
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
                let mut spans = Vec::new();
                steps::of(|| wide::merge(&O200K, text.as_bytes(), &mut spans))
            };
            let (one, two) = (steps(4_096), steps(8_192));
            assert!(two <= one * 5 / 2, "{alphabet:?}: {one} {two}");
        }
    }
}
