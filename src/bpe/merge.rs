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
//! encoded, then `a` followed by `b` is the encoding of the joined text. (The joins inside of each
//! token, and their order, are the same in both; a join across a border would have to happen
//! between spans of the two tokens next to it, and whether it does depends on those two alone.)
//! So a window is encoded by itself and kept if its first token stays apart from the last token
//! before it. If it does not, tokens are given back and encoded again with the window, twice as
//! many every time, and the next windows are made as wide as what was given back, so that the work
//! stays n log n however the text is made. The last tokens of a window, which the text after it
//! may change, are left to the next.
//!
//! **A guess** may save a window, by the same lemma: a token that once followed the last one and
//! is what the text goes on with, or the longest token of a run of one byte. Periodic text is read
//! at the speed of comparing bytes.
//!
//! # Tried and lost
//!
//! - A binary heap over a linked list for pieces above 40 bytes: about 120 ms/MB on runs and 50 to
//!   75 on random letters (prototype, 2026-11-20) against 2 and about 40 here.
//! - Deciding whether two tokens stay apart by merging their text: slower on long tokens.
//! - Not tried: longest match with backtracking, which needs a trie or many probes for each match.
//!
//! Slowest inputs known: long pieces whose tokens are about as long as a window, such as lines of
//! 99 spaces, at 110 to 160 ms/MB (2026-11-21, a busy machine).

use super::key::MAX_TOKEN_BYTES;
use super::vocabulary::{NONE, Vocabulary};

/// Widest windows whose spans are bits of a word; most cells fit into the first.
const NARROW: [usize; 2] = [16, 32];
const NARROW_MAX: usize = 63;

/// Widest cell that is a single window, whatever it holds.
const MIDDLE: usize = 128;

/// Widest window that is scanned.
const WIDE: usize = 1024;

/// Bytes that a long cell advances by, at least.
const STEP: usize = NARROW_MAX;

/// Last tokens of a window that the text after it may change, as a rule.
const UNSETTLED: usize = 2;

/// Bytes of a run that is worth a guess: a vocabulary that has longer runs has this one.
const RUN: usize = 16;

/// Number of tokens of the piece `text[start..end]`, which is no token itself.
pub(super) fn count(vocabulary: &Vocabulary, text: &[u8], start: usize, end: usize) -> usize {
    let mut count = 0;
    for_each_cell(vocabulary, text, start, end, |from, to, rank| {
        count += match to - from {
            _ if rank != NONE => 1,
            0..=NARROW_MAX => window(vocabulary, text, from, to, |_, _| ()),
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
            0..=NARROW_MAX => {
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
    let mut followers = Followers([(NONE, NONE); 256]);
    loop {
        at = guess(vocabulary, piece, at, tokens, &mut followers);
        if at == piece.len() {
            return;
        }
        let end = piece.len().min(at + step);
        let known = tokens.len().saturating_sub(1);
        let start = append_window(vocabulary, piece, at, end, tokens);
        step = (step / 2).max(at - start).max(STEP);
        let settled = at;
        at = end;
        for _ in 0..UNSETTLED {
            let last = tokens
                .last()
                .map_or(0, |&last| byte_length(vocabulary, &[last]));
            if end < piece.len() && at - last > settled {
                tokens.pop();
                at -= last;
            }
        }
        followers.learn(tokens.get(known..).unwrap_or_default());
    }
}

/// Appends the bytes from `at` to `end` to `tokens`, the encoding of those before; returns from
/// where they had to be encoded anew.
fn append_window(
    vocabulary: &Vocabulary,
    piece: &[u8],
    at: usize,
    end: usize,
    tokens: &mut Vec<u32>,
) -> usize {
    let mut given_back = 0;
    loop {
        let kept = tokens.len().saturating_sub(given_back);
        let start = at - byte_length(vocabulary, &tokens[kept..]);
        let mut encoded = Vec::new();
        window(vocabulary, piece, start, end, |from, to| {
            encoded.push(vocabulary.rank(piece, from, to));
        });
        let apart = match (tokens[..kept].last(), encoded.first()) {
            (Some(&left), Some(&right)) => stay_apart(vocabulary, piece, start, left, right),
            _ => true,
        };
        if apart {
            tokens.truncate(kept);
            tokens.append(&mut encoded);
            return start;
        }
        given_back = 2 * given_back + 1;
    }
}

/// Appends tokens that need no window; returns where that ends.
fn guess(
    vocabulary: &Vocabulary,
    piece: &[u8],
    mut at: usize,
    tokens: &mut Vec<u32>,
    followers: &mut Followers,
) -> usize {
    loop {
        let last = tokens.last().copied();
        let follower = last.and_then(|last| followers.of(last));
        if let Some((token, text)) = follower.and_then(|f| Some((f, vocabulary.token(f)?)))
            && piece[at..].starts_with(text)
        {
            tokens.push(token);
            at += text.len();
            continue;
        }
        let Some(end) = run_token_end(vocabulary, piece, at) else {
            return at;
        };
        let run = vocabulary.rank(piece, at, end);
        if last.is_some_and(|last| !stay_apart(vocabulary, piece, at, last, run)) {
            return at;
        }
        followers.learn(&[last.unwrap_or(NONE), run]);
        tokens.push(run);
        at = end;
    }
}

/// For some tokens, one that was seen next to it: so the two stay apart.
struct Followers([(u32, u32); 256]);

impl Followers {
    fn learn(&mut self, encoded: &[u32]) {
        for pair in encoded.windows(2) {
            self.0[pair[0] as usize % self.0.len()] = (pair[0], pair[1]);
        }
    }

    fn of(&self, token: u32) -> Option<u32> {
        let (left, right) = self.0[token as usize % self.0.len()];
        (left == token).then_some(right)
    }
}

/// End of the longest token of at least [`RUN`] bytes, all the same, at `at`.
fn run_token_end(vocabulary: &Vocabulary, piece: &[u8], at: usize) -> Option<usize> {
    let rest = &piece[at..piece.len().min(at + MAX_TOKEN_BYTES)];
    let run = rest
        .iter()
        .take_while(|&byte| rest.first() == Some(byte))
        .count();
    let is_token = |length: &usize| vocabulary.rank(piece, at, at + length) != NONE;
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
        let (left_split, right_split) = (vocabulary.split(left), vocabulary.split(right));
        if let Some(length) = left_split.filter(|_| right_split.is_none() || left > right) {
            left_until = left;
            start += length;
            left = vocabulary.rank(text, start, border);
        } else if let Some(length) = right_split {
            right_until = right;
            end = border + length;
            right = vocabulary.rank(text, border, end);
        } else {
            return true;
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

/// Merges `text[start..end]`, calls `token` with the range of every token, returns their number.
#[inline(always)]
fn window(
    vocabulary: &Vocabulary,
    text: &[u8],
    start: usize,
    end: usize,
    token: impl FnMut(usize, usize),
) -> usize {
    let length = end - start;
    let bytes = Window {
        vocabulary,
        text,
        start,
        length,
    };
    if length <= NARROW[0] {
        bytes.merge([NO_PAIR; NARROW[0]], Bits::new(length), token)
    } else if length <= NARROW[1] {
        bytes.merge([NO_PAIR; NARROW[1]], Bits::new(length), token)
    } else if length <= NARROW_MAX {
        bytes.merge([NO_PAIR; NARROW_MAX], Bits::new(length), token)
    } else if length <= MIDDLE {
        bytes.merge([NO_PAIR; MIDDLE], Links::new(length), token)
    } else if length <= WIDE {
        bytes.merge([NO_PAIR; WIDE], Links::new(length), token)
    } else {
        bytes.merge(Tournament::new(length), Links::new(length), token)
    }
}

/// The lowest ranked pair of a window; positions are those of the first byte of a pair.
trait Pairs {
    /// Sets the rank of the pair at `position`, [`NONE`] to remove it.
    fn set(&mut self, position: usize, rank: u32);
    /// Position of the lowest, leftmost pair among the first `length` positions.
    fn lowest(&self, length: usize) -> Option<usize>;
}

/// Bits of a scanned word that hold the position; ranks have 18 bits.
const POSITION_BITS: u32 = 10;

/// Word of a position without a pair. Words are signed: SSE2 compares no others.
const NO_PAIR: i32 = i32::MAX;

const _: () = assert!(WIDE <= 1 << POSITION_BITS && POSITION_BITS + 18 < u32::BITS);

impl<const N: usize> Pairs for [i32; N] {
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "a position is below N")]
    fn set(&mut self, position: usize, rank: u32) {
        self[position] = if rank == NONE {
            NO_PAIR
        } else {
            (rank << POSITION_BITS | position as u32).cast_signed()
        };
    }

    #[inline(always)]
    fn lowest(&self, length: usize) -> Option<usize> {
        // A short array is searched whole: its length is known to the compiler.
        let words = if N <= NARROW_MAX {
            self.as_slice()
        } else {
            &self[..length]
        };
        #[cfg(test)]
        steps::add(words.len() / 16 + 1);
        let word = words.iter().fold(NO_PAIR, |lowest, &word| lowest.min(word));
        (word != NO_PAIR).then_some(word.cast_unsigned() as usize % (1 << POSITION_BITS))
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
        #[cfg(test)]
        steps::add(self.ranks.len().ilog2() as usize);
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

    fn lowest(&self, _: usize) -> Option<usize> {
        let winner = self.winners[1];
        (self.ranks[winner] != NONE).then_some(winner)
    }
}

/// The spans that a window is divided into, by the positions of their first bytes.
trait Spans {
    /// Start of the span after that at `start`: the length of the window after the last.
    fn next(&self, start: usize) -> usize;
    /// Start of the span before that at `start`, which is not the first.
    fn previous(&self, start: usize) -> usize;
    /// Joins the span at `start` to the one before it.
    fn join(&mut self, start: usize);
}

/// One bit for every start and one for the end.
struct Bits(u64);

impl Bits {
    fn new(length: usize) -> Bits {
        Bits(u64::MAX >> (NARROW_MAX - length))
    }
}

impl Spans for Bits {
    #[inline(always)]
    fn next(&self, start: usize) -> usize {
        (self.0 >> start >> 1).trailing_zeros() as usize + start + 1
    }

    #[inline(always)]
    fn previous(&self, start: usize) -> usize {
        (self.0 & ((1 << start) - 1)).ilog2() as usize
    }

    #[inline(always)]
    fn join(&mut self, start: usize) {
        self.0 &= !(1 << start);
    }
}

/// The list of starts, linked in both directions.
struct Links {
    next: Vec<usize>,
    previous: Vec<usize>,
}

impl Links {
    fn new(length: usize) -> Links {
        // Nothing is before the first start: its link is never followed.
        Links {
            next: (1..=length).collect(),
            previous: (0..=length).map(|at| at.max(1) - 1).collect(),
        }
    }
}

impl Spans for Links {
    fn next(&self, start: usize) -> usize {
        self.next[start]
    }

    fn previous(&self, start: usize) -> usize {
        self.previous[start]
    }

    fn join(&mut self, start: usize) {
        let (before, after) = (self.previous[start], self.next[start]);
        self.next[before] = after;
        self.previous[after] = before;
    }
}

/// Bytes to merge.
struct Window<'a> {
    vocabulary: &'a Vocabulary,
    text: &'a [u8],
    start: usize,
    length: usize,
}

impl Window<'_> {
    /// The definition: joins the lowest pair until none is left.
    #[inline(always)]
    fn merge(
        &self,
        mut pairs: impl Pairs,
        mut spans: impl Spans,
        mut token: impl FnMut(usize, usize),
    ) -> usize {
        for at in 1..self.length {
            pairs.set(at - 1, self.rank(at - 1, at + 1));
        }
        let mut count = self.length;
        while let Some(at) = pairs.lowest(self.length) {
            let joined = spans.next(at);
            spans.join(joined);
            pairs.set(joined, NONE);
            let after = spans.next(at);
            let rank = if after < self.length {
                self.rank(at, spans.next(after))
            } else {
                NONE
            };
            pairs.set(at, rank);
            if at > 0 {
                let before = spans.previous(at);
                pairs.set(before, self.rank(before, after));
            }
            count -= 1;
        }
        let mut at = 0;
        while at < self.length {
            let next = spans.next(at);
            token(self.start + at, self.start + next);
            at = next;
        }
        count
    }

    #[inline(always)]
    fn rank(&self, from: usize, to: usize) -> u32 {
        self.vocabulary
            .candidate_rank(self.text, self.start + from, self.start + to)
    }
}

/// Work done by this thread: words searched and ranks looked up.
#[cfg(test)]
mod steps {
    use std::cell::Cell;

    thread_local!(static STEPS: Cell<usize> = const { Cell::new(0) });

    pub(super) fn add(steps: usize) {
        STEPS.set(STEPS.get() + steps);
    }

    pub(super) fn of(work: impl FnOnce()) -> usize {
        STEPS.set(0);
        work();
        STEPS.get()
    }
}

#[cfg(test)]
mod tests {
    use super::super::vocabulary::{CL100K, O200K, R50K};
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
    ];

    fn window_tokens(vocabulary: &Vocabulary, text: &[u8], pairs: impl Pairs) -> Vec<u32> {
        let window = Window {
            vocabulary,
            text,
            start: 0,
            length: text.len(),
        };
        let mut tokens = Vec::new();
        window.merge(pairs, Links::new(text.len()), |from, to| {
            tokens.push(vocabulary.rank(text, from, to));
        });
        tokens
    }

    #[test]
    fn test_every_way_to_merge_gives_the_same_tokens() {
        for vocabulary in [&O200K, &CL100K, &R50K] {
            for alphabet in ALPHABETS {
                for length in [1, 2, 15, 16, 17, 32, 33, 63, 64, 127, 128, 129, 400, 1000] {
                    let text = text(alphabet, length);
                    let text = &text.as_bytes()[..length];
                    let expected = window_tokens(vocabulary, text, Tournament::new(length));
                    assert_eq!(window_tokens(vocabulary, text, [NO_PAIR; WIDE]), expected);
                    let mut tokens = Vec::new();
                    long_cell(vocabulary, text, &mut tokens);
                    assert_eq!(tokens, expected);
                    tokens.clear();
                    window(vocabulary, text, 0, length, |from, to| {
                        tokens.push(vocabulary.rank(text, from, to));
                    });
                    assert_eq!(tokens, expected);
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
                    let expected = [left.0, right.0];
                    let pairs = Tournament::new(text.len());
                    let same = window_tokens(vocabulary, &text, pairs) == expected;
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
                    steps::of(|| assert!(count(vocabulary, text.as_bytes(), 0, text.len()) > 0))
                };
                let (one, two, four) = (steps(8_000), steps(16_000), steps(32_000));
                assert!(
                    two <= one * 5 / 2 + 1_000,
                    "{alphabet:?}: {one} {two} {four}"
                );
                assert!(
                    four <= two * 5 / 2 + 1_000,
                    "{alphabet:?}: {one} {two} {four}"
                );
                assert!(four <= 32_000 * 400, "{alphabet:?}: {one} {two} {four}");
            }
        }
    }

    #[test]
    fn test_a_wide_window_is_n_log_n() {
        for alphabet in ALPHABETS {
            let steps = |length| {
                let text = text(alphabet, length);
                steps::of(|| {
                    drop(window_tokens(
                        &O200K,
                        text.as_bytes(),
                        Tournament::new(text.len()),
                    ))
                })
            };
            let (one, two) = (steps(4_096), steps(8_192));
            assert!(two <= one * 5 / 2, "{alphabet:?}: {one} {two}");
        }
    }
}
