//! Marking: the text as runs, and the markers that each run gets.
//!
//! A run is as long as its class goes on. There are four kinds of cells, cut where no piece can
//! cross:
//!
//! * a **word**, always between `<bow>` and `<eow>`;
//! * **white space**, each stretch of one character by itself. A single space between `<eow>` and
//!   `<bow>` costs nothing;
//! * a **clump**, which is all between words and white space: runs of punctuation, digits, symbols,
//!   ideographs. Its first run may take a `<bow>` after a space and its last an `<eow>` before
//!   a single one: punctuation and symbols do, ASCII digits and ideographs do not;
//! * a **contraction**: an apostrophe that is a run of its own and the rest of a word such as `t` or
//!   `ll` have no `<bow>` between them and are one cell.
//!
//! An apostrophe that is a clump of its own before a word takes no `<bow>`.

use super::ascii;
use super::cells::Cells;
use super::character::{Character, ascii_kind};
use super::clump::{APOSTROPHE, Clump, MarkedCell};
use super::counter::Counter;
use super::family::ClaudeFamily;
use super::kind;
use super::vocabulary::{Ladder, Vocabulary};
use super::word::Word;
use crate::bpe::MemoKey;
#[cfg(test)]
use crate::bpe::split::block::Portable;
use crate::bpe::split::block::{Block, Lanes, padded};
use crate::interrupt::Steps;

const SPACE_CODE: u32 = b' ' as u32;

/// Bytes after a cell that its tokens may depend on, at most.
const LOOK_AHEAD: usize = 32;

/// Counts the tokens of a text, cell by cell.
pub(super) struct Marker<'a> {
    text: &'a [u8],
    vocabulary: &'static Vocabulary,
    absorbs_space: bool,
    marks_capitals: bool,
    counter: Counter,
    cells: Cells,
    tokens: u64,
    steps: Steps,
    /// True if what is before is a space or the frame's `<bow>`.
    after_space: bool,
    /// True if what is before ended in `<eow>`.
    after_eow: bool,
    /// True if a single space after `<eow>` waits for a `<bow>`, which makes it free.
    seam: bool,
    /// True if what is before is a word whose last character is also a symbol.
    after_symbolic: bool,
}

impl<'a> Marker<'a> {
    /// A marker for normal text without line feeds at its end.
    pub(super) fn new(family: ClaudeFamily, key: MemoKey, text: &'a [u8]) -> Marker<'a> {
        let vocabulary = family.vocabulary();
        Marker {
            text,
            vocabulary,
            absorbs_space: family.absorbs_space(),
            marks_capitals: family.marks_capitals(),
            counter: Counter::new(family, key),
            cells: Cells::new(),
            tokens: 0,
            steps: Steps::default(),
            after_space: family.absorbs_space(),
            after_eow: false,
            seam: false,
            after_symbolic: false,
        }
    }

    /// Number of tokens of the text, or a number above `limit` if that is where it leads.
    #[inline(always)]
    pub(super) fn count<L: Lanes>(mut self, limit: u64) -> u64 {
        self.begin();
        let mut at = 0;
        while at < self.text.len() && self.tokens <= limit {
            at = self.advance::<L>(at, true);
        }
        self.count_cells::<L>();
        self.tokens + self.counter.finish() + u64::from(self.seam)
    }

    /// True if the text has more than `limit` tokens, whatever comes after it.
    #[inline(always)]
    pub(super) fn exceeds<L: Lanes>(mut self, limit: u64) -> bool {
        self.begin();
        let mut at = 0;
        while at + LOOK_AHEAD < self.text.len() {
            // Of what is counted before a cell that begins here, nothing is taken back.
            if self.tokens > limit {
                return true;
            }
            at = self.advance::<L>(at, false);
        }
        false
    }

    /// End of what is counted next, many cells or one; `whole` says that nothing follows the text.
    #[inline(always)]
    fn advance<L: Lanes>(&mut self, at: usize, whole: bool) -> usize {
        self.steps.step();
        let end = self.block::<L>(at, whole);
        if end == at {
            return self.cell::<L>(at);
        }
        if self.cells.are_many() {
            self.count_cells::<L>();
        }
        end
    }

    /// End of the cells that a block of ASCII at `at` tells of, which wait to be counted.
    #[inline(always)]
    fn block<L: Lanes>(&mut self, at: usize, whole: bool) -> usize {
        let start = at.wrapping_sub(1);
        let Some(rest) = self.text.get(start..) else {
            return at;
        };
        let copy;
        let window = match rest.first_chunk() {
            Some(window) => window,
            None if whole => {
                copy = padded(rest);
                &copy
            }
            None => return at,
        };
        if window[0] == b' ' || !window[..8].is_ascii() {
            return at;
        }
        let block = Block::new::<L>(window, if whole { rest.len() } else { usize::MAX });
        let found = ascii::find(&block, self.text, start, self.vocabulary);
        if found.length == 0 {
            return at;
        }
        self.tokens += found.tokens;
        self.cells.push_all(start, found.firsts, found.lasts);
        let end = start + found.length;
        let last = ascii_kind(self.text[end - 1]);
        self.after_eow =
            last & kind::WORD != 0 || last & kind::PUNCTUATION != 0 && self.before_space(end);
        end
    }

    #[inline(always)]
    fn count_cells<L: Lanes>(&mut self) {
        self.tokens += self.cells.count::<L>(&mut self.counter, self.text);
    }

    /// The frame's `<bow>` is paid for if nothing uses it up.
    fn begin(&mut self) {
        let first = Character::at(self.text, 0);
        if self.absorbs_space && !first.is(kind::WORD | kind::CLUMP) && first.code != SPACE_CODE {
            self.tokens += 1;
        }
    }

    /// End of the cell at `at`, whose tokens are added.
    #[inline(always)]
    fn cell<L: Lanes>(&mut self, at: usize) -> usize {
        let character = Character::at(self.text, at);
        if character.is(kind::WORD) {
            self.word::<L>(at)
        } else if character.is(kind::SPACE) {
            self.space(at, character)
        } else {
            self.clump(at)
        }
    }

    #[inline(always)]
    fn word<L: Lanes>(&mut self, at: usize) -> usize {
        let word = Word::read(self.text, at, self.marks_capitals);
        if word.is_literal() {
            self.cells.push(at, at + word.text.len());
            if self.cells.are_many() {
                self.count_cells::<L>();
            }
        } else {
            self.tokens += self.counter.word(&word, self.text, at);
        }
        self.after_word(&word);
        at + word.text.len()
    }

    #[inline(always)]
    fn after_word(&mut self, word: &Word) {
        self.after_symbolic = word.symbolic;
        self.after_eow = true;
        self.seam = false;
        self.after_space = false;
    }

    #[inline(always)]
    fn space(&mut self, at: usize, first: Character) -> usize {
        self.after_symbolic = false;
        let single = first.code == SPACE_CODE && !Character::at(self.text, at + 1).is(kind::SPACE);
        if single {
            self.seam = self.after_eow;
            self.tokens += u64::from(!self.after_eow);
            self.after_space = true;
            self.after_eow = false;
            return at + 1;
        }
        self.spaces(at)
    }

    /// A run of white space that is not a single space.
    fn spaces(&mut self, mut at: usize) -> usize {
        loop {
            let space = Character::at(self.text, at);
            let ladder = match space.code {
                0x20 => Ladder::Space,
                0x0A => Ladder::Newline,
                0x09 => Ladder::Tab,
                0x3000 => Ladder::Ideographic,
                _ => break,
            };
            let start = at;
            while Character::at(self.text, at).code == space.code {
                at += space.length;
            }
            self.tokens += self.vocabulary.run(ladder, (at - start) / space.length);
            self.after_space = space.code == SPACE_CODE;
        }
        self.after_eow = false;
        at
    }

    /// True if a clump that ends at `end` is before a space that an `<eow>` may stand for.
    #[inline(always)]
    fn before_space(&self, end: usize) -> bool {
        self.text.get(end) == Some(&b' ') && self.text.get(end + 1) != Some(&b' ')
    }

    /// A clump, and the suffix of a contraction if one follows.
    #[inline(always)]
    fn clump(&mut self, start: usize) -> usize {
        let clump = Clump::read(self.text, start, self.after_symbolic);
        let suffix = clump.suffix;
        let opens_word = clump.end - start == 1
            && self.text[start] == APOSTROPHE
            && Character::at(self.text, clump.end).is(kind::WORD);
        let bow = self.after_space && clump.takes_bow && !opens_word;
        let eow = suffix > 0 || clump.takes_eow && self.before_space(clump.end);
        self.tokens += u64::from(self.seam && !bow);
        // At the start of a message the frame's `<bow>` is written, or the space that it stands for.
        let frame = self.absorbs_space && start == 0;
        self.tokens += u64::from(frame && opens_word);
        let mut bow = bow || frame && !opens_word;
        let (mut at, mut from) = (start, start);
        while at < clump.end {
            self.steps.step();
            let character = Character::at(self.text, at);
            if character.is(kind::IDEOGRAPH | kind::DIGIT) {
                self.part(from, at, bow, false, 0);
                bow = false;
                at = self.alone(at, character);
                from = at;
            } else {
                at += character.length;
            }
        }
        self.part(from, clump.end, bow, eow, suffix);
        self.after_eow = eow;
        self.seam = false;
        self.after_space = false;
        self.after_symbolic = false;
        clump.end + suffix
    }

    /// Counts a part of a clump with its markers, and the suffix after it.
    #[inline(always)]
    fn part(&mut self, start: usize, end: usize, bow: bool, eow: bool, suffix: usize) {
        let first = Character::at(self.text, start);
        if start == end {
            self.tokens += u64::from(bow) + u64::from(eow);
            return;
        }
        if !bow && !eow && start + first.length == end {
            self.tokens += first.cost(self.vocabulary.number);
            return;
        }
        self.tokens += if bow && start == 0 {
            let cell = MarkedCell {
                text: &self.text[..end + suffix],
                bow,
                eow,
            };
            self.counter.uncommon(&cell)
        } else {
            let space_after = usize::from(eow && suffix == 0);
            let (start, end) = (start - usize::from(bow), end + suffix + space_after);
            self.counter.cell(self.text, start, end)
        };
    }

    /// Ideographs or ASCII digits, which no piece joins to anything else.
    #[inline(always)]
    fn alone(&mut self, mut at: usize, mut character: Character) -> usize {
        let start = at;
        if character.is(kind::DIGIT) {
            while self.text.get(at).is_some_and(u8::is_ascii_digit) {
                at += 1;
            }
            self.tokens += (at - start).div_ceil(3) as u64;
            return at;
        }
        while character.is(kind::IDEOGRAPH) {
            self.tokens += character.cost(self.vocabulary.number);
            at += character.length;
            character = Character::at(self.text, at);
        }
        at
    }
}

#[cfg(test)]
impl Marker<'_> {
    /// A marker that remembers nothing yet.
    pub(super) fn forgetful(mut self) -> Self {
        self.counter = self.counter.forgetful();
        self
    }

    /// The count without blocks, rounds and memory for words.
    pub(super) fn count_plainly(mut self) -> u64 {
        self.begin();
        let mut at = 0;
        while at < self.text.len() {
            if Character::at(self.text, at).is(kind::WORD) {
                let word = Word::read(self.text, at, self.marks_capitals);
                self.tokens += match word.known_tokens(self.vocabulary.number) {
                    0 => self.counter.uncommon(&word),
                    tokens => tokens,
                };
                self.after_word(&word);
                at += word.text.len();
            } else {
                at = self.cell::<Portable>(at);
            }
        }
        self.tokens + self.counter.finish() + u64::from(self.seam)
    }
}
