//! Reading of a long cell: a window after the other is merged, and checked where it meets the one before.
//!
//! By this lemma: if `a` and `b` are encodings, and the last token of `a` and the first of `b` stay
//! apart when their joined text is encoded, then `a` followed by `b` is the encoding of the joined
//! text. (The joins inside of each token, and their order, are the same in both; a join across a
//! border would have to happen between spans of the two tokens next to it, and whether it does
//! depends on those two alone.)
//!
//! So a window of 126 bytes is encoded by itself ([`window`]). It begins a little before the end of
//! what is done, and is appended from a border that both have and where the tokens on both sides stay
//! apart: that is proof enough, and the last tokens before it are replaced. Eight readers take a step at
//! once, since a merge waits more than it computes: of eight cells, or of eight parts of one.
//!
//! A window that does not fit is made anew from farther back, twice as far every time, and the next are
//! made as wide as that, so that the work stays n log n however the text is made. Those above 254 bytes
//! are merged by a tree ([`tree_window`]).
//!
//! The last tokens of a window, which the text after it may change, are left to the next; in a run, all up
//! to the longest token that such a run has, so that no window goes on from one that could still grow. A
//! guess ([`guess`]) may save a window, by the same lemma.
//!
//! # Tried and lost
//!
//! - A binary heap over a linked list: about 120 ms/MB on runs and 50 to 75 on random letters
//!   (prototype, 2026-11-20).
//! - A search for the longest token that stays apart from the one before it, with places that led
//!   nowhere marked: 9 times the time of a merge on random letters, 100 times and more on runs of
//!   `-`, and 2,100 instructions for a short word against 1,000 of the merge (2026-11-21).
//! - Deciding whether two tokens stay apart by merging their text: slower on long tokens.
//! - Four windows of one reader that overlap, each begun without knowing how the one before ends: in
//!   runs they have another phase and do not fit, 60 to 85 ms/MB (2026-11-22).
//! - The longest token of a run as a guess: right for long runs, which a window tells too, and wrong for
//!   most of 50 to 200 bytes (2026-11-22).

use crate::bpe::merge::guess::{Followers, guess};
use crate::bpe::merge::tree_window;
use crate::bpe::merge::window::{self, LookUp, MergeWindow, SmallWindow, WINDOWS_AT_ONCE};
use crate::bpe::table::key::LONG_TOKEN_BYTES;
use crate::bpe::table::{NONE, Vocabulary};

/// Bytes that a window shares with what is done.
const OVERLAP: usize = 4;

/// Bytes that a window advances by, at least.
const STEP: usize = 64;

/// Bytes that a window shares at most, unless one did not fit: a longer token is in a run.
const SHARED: usize = SmallWindow::BYTES - STEP;

/// Bytes of a run that is worth ending a window beside it.
const RUN: usize = 4;

/// Bytes of a run whose tokens fill the end of a window.
const LONG_RUN: usize = 16;

/// Longest text, in bytes, that makes a run when it is repeated. The tokens of a run depend on where it
/// starts, and become shorter and shorter towards its end.
const PERIOD: usize = 8;

/// A window that is merged by itself.
type LargeWindow = MergeWindow<256>;

/// Last tokens of a window that the text after it may change, as a rule.
const UNSETTLED: usize = 2;

/// A cell, and its encoding as far as it is read.
pub(in crate::bpe) struct Reader<'a> {
    cell: &'a [u8],
    /// The encoding of the bytes of its part before `end`.
    tokens: Vec<u32>,
    /// The first token that the reader of the part before has not.
    first: usize,
    end: usize,
    /// Where to stop reading; more may be read.
    goal: usize,
    /// Start of the window that is merged now.
    start: usize,
    /// Bytes that the next window advances by, and shares with what is done, at least.
    step: usize,
    back: usize,
    /// Last tokens that the text after them may change, as a rule.
    unsettled: usize,
    /// Start and token of every span of the last window.
    spans: Vec<(usize, u32)>,
    followers: Followers,
}

impl<'a> Reader<'a> {
    /// A reader of `cell` from the byte `start` to `goal`, or a little more.
    pub(in crate::bpe) fn new(cell: &'a [u8], start: usize, goal: usize) -> Reader<'a> {
        Reader {
            cell,
            tokens: Vec::new(),
            first: 0,
            end: start,
            goal: goal.min(cell.len()),
            start,
            step: STEP,
            back: OVERLAP,
            unsettled: UNSETTLED,
            spans: Vec::new(),
            followers: Followers::new(),
        }
    }

    /// Starts with another cell, to be read whole.
    #[inline(always)]
    pub(in crate::bpe) fn restart(&mut self, cell: &'a [u8]) {
        if self.cell.len() > SmallWindow::BYTES {
            self.followers = Followers::new();
        }
        self.tokens.clear();
        (self.cell, self.end, self.goal) = (cell, 0, cell.len());
        (self.step, self.back) = (STEP, OVERLAP);
    }

    #[inline(always)]
    pub(in crate::bpe) fn is_done(&self) -> bool {
        self.end >= self.goal
    }

    /// Where the reading ends now.
    #[inline(always)]
    pub(in crate::bpe) fn end(&self) -> usize {
        self.end
    }

    #[inline(always)]
    pub(in crate::bpe) fn tokens(&self) -> &[u32] {
        &self.tokens[self.first..]
    }

    /// Goes on for so many bytes.
    pub(in crate::bpe) fn read_on(&mut self, bytes: usize) {
        self.goal = self.cell.len().min(self.end + bytes);
    }

    /// Ends where what `next` has read of the same cell goes on; false if the two do not fit yet.
    pub(in crate::bpe) fn join(&mut self, vocabulary: &Vocabulary, next: &mut Reader) -> bool {
        let mut end = next.end;
        let spans = next.tokens.iter().rev().map(|&token| {
            end -= vocabulary.length(token);
            (end, token)
        });
        let Some((kept, from)) = self.border(vocabulary, spans) else {
            return false;
        };
        let dropped = self.tokens.drain(kept..);
        self.end -= dropped.map(|token| vocabulary.length(token)).sum::<usize>();
        next.first = next.tokens.len() - from;
        true
    }

    /// Reads up to where a window is needed, and returns its text; nothing if the goal is reached before.
    #[inline(always)]
    fn open(&mut self, vocabulary: &Vocabulary) -> Option<&'a [u8]> {
        loop {
            self.end = guess(
                vocabulary,
                self.cell,
                self.end,
                self.goal,
                &mut self.tokens,
                &self.followers,
            );
            if self.is_done() {
                return None;
            }
            // A window that did not fit may begin anywhere before; any other keeps room to get on.
            let most = if self.back == OVERLAP {
                SHARED
            } else {
                self.end
            };
            self.start = self.window_start(vocabulary, self.back, most);
            let text = &self.cell[self.start..self.window_end()];
            if text.len() <= LargeWindow::BYTES {
                return Some(text);
            }
            // Too wide to be merged beside others: it is merged here, alone.
            self.spans.clear();
            tree_window::merge(vocabulary, text, &mut self.spans);
            self.close(vocabulary);
        }
    }

    /// Appends the spans of the window, which is merged.
    #[inline(always)]
    fn close(&mut self, vocabulary: &Vocabulary) {
        let (settled, shared) = (self.end, self.end - self.start);
        // No border that both encodings have: the same end again, from twice as far back.
        let Some(kept) = self.append(vocabulary) else {
            self.back = (2 * shared).max(OVERLAP) + 1;
            return;
        };
        // What had to begin so far back will have to again: the next windows advance by as much.
        if self.back != OVERLAP {
            self.back = OVERLAP;
            self.step = self.step.max(shared);
        }
        self.give_back(vocabulary, settled);
        // A window that hardly got on is made wider; one that did, outside of a run, narrower again.
        if self.end < settled + STEP / 2 {
            self.step = (2 * self.step).max(3 * STEP);
        } else if period(self.cell, self.end).is_none() {
            self.step = (self.step / 2).max(STEP);
        }
        self.learn(kept);
    }

    /// Where a window starts that shares at least so many bytes with what is done, unless these are
    /// more than `most`.
    #[inline(always)]
    fn window_start(&self, vocabulary: &Vocabulary, shared: usize, most: usize) -> usize {
        let mut start = self.end;
        for &token in self.tokens.iter().rev() {
            let length = vocabulary.length(token);
            if self.end - start >= shared || self.end - start + length > most {
                break;
            }
            start -= length;
        }
        start
    }

    /// Where the window ends: a narrow one not within a run, if one begins soon before; a wider one at
    /// the end of a run, if that is near. Seldom does a token reach beyond either.
    #[inline(always)]
    fn window_end(&mut self) -> usize {
        let is_small = self.back == OVERLAP && self.step == STEP;
        let end = if is_small {
            self.start + SmallWindow::BYTES
        } else {
            self.end + self.step
        };
        self.unsettled = 0;
        if end >= self.cell.len() {
            return self.cell.len();
        }
        // A token seldom reaches from before a run into it: the border is a good end.
        let run = run_before(self.cell, self.end, end);
        if is_small && run >= RUN && end - run >= self.end + STEP / 2 {
            return end - run;
        }
        let more = run_after(self.cell, end);
        let fits =
            end + more <= self.start + LargeWindow::BYTES || end > self.start + LargeWindow::BYTES;
        if !is_small && fits && (RUN..LONG_TOKEN_BYTES).contains(&more) {
            return end + more;
        }
        self.unsettled = UNSETTLED;
        end
    }

    /// Gives back the last tokens after `settled`, which the text after them may change: two, but not
    /// all; or those of a run, up to one after which the same may come again. A window that is wide for
    /// such a run has some of them, so that a reader gets on.
    #[inline(always)]
    fn give_back(&mut self, vocabulary: &Vocabulary, settled: usize) {
        if self.end == self.cell.len() {
            return;
        }
        let run = run_before(self.cell, settled, self.end);
        let (in_run, run_start) = (run >= LONG_RUN, self.end - run);
        for given_back in 0.. {
            let Some((&last, before)) = self.tokens.split_last() else {
                return;
            };
            let length = vocabulary.length(last);
            let start = self.end - length;
            let shorter = before
                .last()
                .is_some_and(|&before| length < vocabulary.length(before));
            // In a run the last tokens may grow with it, until one is as long as those before it and
            // two of it join to nothing.
            let is_settled = if in_run {
                let twins = vocabulary.joined(last, last);
                let may_grow = shorter || self.step <= 3 * STEP && twins != NONE;
                start < run_start || given_back > 0 && !may_grow
            } else {
                given_back >= self.unsettled || start <= settled
            };
            if is_settled {
                return;
            }
            self.tokens.pop();
            self.end = start;
        }
    }

    /// Remembers what follows what, from soon before the end of the first `kept` tokens on.
    #[inline(always)]
    fn learn(&mut self, kept: usize) {
        let from = kept.min(self.tokens.len()).saturating_sub(2);
        self.followers.learn(&self.tokens[from..]);
    }

    /// Appends the spans of the last window where both encodings have a border and stay apart; returns
    /// the number of tokens before that border, if there is one.
    #[inline(always)]
    fn append(&mut self, vocabulary: &Vocabulary) -> Option<usize> {
        let spans = self.spans.iter().rev();
        let spans = spans.map(|&(at, token)| (self.start + at, token));
        let (kept, from) = self.border(vocabulary, spans)?;
        self.tokens.truncate(kept);
        let spans = &self.spans[self.spans.len() - from..];
        self.tokens.extend(spans.iter().map(|&(_, token)| token));
        let (last, token) = self.spans[self.spans.len() - 1];
        self.end = self.start + last + vocabulary.length(token);
        Some(kept)
    }

    /// The last border that what is done has in common with `spans`, given from the last on, and where
    /// both stay apart: the number of tokens before it, and of spans after it.
    #[inline(always)]
    fn border(
        &self,
        vocabulary: &Vocabulary,
        spans: impl Iterator<Item = (usize, u32)>,
    ) -> Option<(usize, usize)> {
        let (mut kept, mut border) = (self.tokens.len(), self.end);
        for (at, (start, right)) in spans.enumerate() {
            // Walks both encodings backwards to a place where both have a border.
            while border > start && kept > 0 {
                kept -= 1;
                border -= vocabulary.length(self.tokens[kept]);
            }
            if border != start {
                continue;
            }
            let left = self.tokens[..kept].last();
            if left.is_none_or(|&left| stay_apart(vocabulary, left, right)) {
                return Some((kept, at + 1));
            }
        }
        None
    }
}

/// Windows of all readers, by their width. Memory is taken with the first of each.
pub(in crate::bpe) struct Windows {
    small: Row<128>,
    large: Row<256>,
}

/// Windows of one width.
struct Row<const PLACES: usize> {
    windows: Vec<MergeWindow<PLACES>>,
    /// The reader of each.
    readers: [usize; WINDOWS_AT_ONCE],
    number: usize,
}

impl Windows {
    pub(in crate::bpe) fn new() -> Windows {
        Windows {
            small: Row::new(),
            large: Row::new(),
        }
    }
}

impl<const PLACES: usize> Row<PLACES> {
    fn new() -> Row<PLACES> {
        Row {
            windows: Vec::new(),
            readers: [0; WINDOWS_AT_ONCE],
            number: 0,
        }
    }

    #[inline(always)]
    fn push(&mut self, vocabulary: &Vocabulary, text: &[u8], reader: usize) {
        self.windows.resize(WINDOWS_AT_ONCE, MergeWindow::EMPTY);
        self.windows[self.number].set(vocabulary, text);
        self.readers[self.number] = reader;
        self.number += 1;
    }

    /// Merges all, and gives them to their readers.
    #[inline(always)]
    fn merge<L: LookUp>(&mut self, vocabulary: &Vocabulary, readers: &mut [Reader<'_>]) {
        let windows = &mut self.windows[..self.number];
        window::merge::<L, _>(vocabulary, windows);
        for (window, &reader) in windows.iter().zip(&self.readers) {
            let reader = &mut readers[reader];
            reader.spans.clear();
            reader.spans.extend(window.spans());
            reader.close(vocabulary);
        }
        self.number = 0;
    }
}

/// A step of up to [`WINDOWS_AT_ONCE`] readers; false if all have reached their goals.
#[inline(always)]
pub(in crate::bpe) fn step<L: LookUp>(
    vocabulary: &Vocabulary,
    readers: &mut [Reader<'_>],
    windows: &mut Windows,
) -> bool {
    for (at, reader) in readers.iter_mut().enumerate() {
        match reader.open(vocabulary) {
            None => {}
            Some(text) if text.len() <= SmallWindow::BYTES => {
                windows.small.push(vocabulary, text, at)
            }
            Some(text) => windows.large.push(vocabulary, text, at),
        }
    }
    let number = windows.small.number + windows.large.number;
    windows.small.merge::<L>(vocabulary, readers);
    windows.large.merge::<L>(vocabulary, readers);
    number > 0
}

/// Bytes of the shortest text that comes before the byte `at` and again after it, if it is short.
#[inline(always)]
fn period(cell: &[u8], at: usize) -> Option<usize> {
    let (before, after) = cell.split_at(at);
    let repeats = |&period: &usize| before.ends_with(&after[..period]);
    (1..=PERIOD.min(after.len())).find(repeats)
}

/// Bytes of the run from `start` or later to `end`, within which that is.
#[inline(always)]
pub(in crate::bpe) fn run_before(cell: &[u8], start: usize, end: usize) -> usize {
    let Some(period) = period(cell, end) else {
        return 0;
    };
    let pairs = cell[start..end]
        .iter()
        .rev()
        .zip(cell[..end + period].iter().rev());
    pairs.take_while(|(byte, later)| byte == later).count()
}

/// Bytes after `end` of the run that goes on there, if not of more than a token.
#[inline(always)]
fn run_after(cell: &[u8], end: usize) -> usize {
    let Some(period) = period(cell, end) else {
        return 0;
    };
    let pairs = cell[end..].iter().zip(&cell[end - period..]);
    let pairs = pairs.take(LONG_TOKEN_BYTES);
    pairs.take_while(|(byte, before)| byte == before).count()
}

/// True if `left` and `right` are the encoding of their joined text.
///
/// Goes backwards through the spans on both sides of the border, from the whole tokens to single
/// bytes, the one that was joined last first. At some time in the merge, each of these two spans
/// them parts of larger spans; of equal ranks the leftmost pair is joined first. That a larger span is
/// made later holds where the joins inside of both tokens ascend; else their text is merged.
pub(in crate::bpe) fn stay_apart(vocabulary: &Vocabulary, mut left: u32, mut right: u32) -> bool {
    if vocabulary.is_unordered(left) || vocabulary.is_unordered(right) {
        return are_merged_apart(vocabulary, left, right);
    }
    let (mut left_until, mut right_until) = (NONE, NONE);
    loop {
        // Would these two spans have been joined before either became part of a larger one?
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

/// The same, by the merge of their text.
#[cold]
fn are_merged_apart(vocabulary: &Vocabulary, left: u32, right: u32) -> bool {
    let texts = [left, right].map(|token| vocabulary.token(token).unwrap_or_default());
    let mut spans = Vec::new();
    tree_window::merge(vocabulary, &texts.concat(), &mut spans);
    spans == [(0, left), (texts[0].len(), right)]
}
