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

use super::character::{Character, ascii_kind};
use super::encoding::ClaudeFamily;
use super::key::SHORT_BYTES;
use super::kind;
use super::layout::{self, BOW, EOW, PUNCTUATION_COST_MASK};
use super::tiling::Tiling;
use super::vocabulary::{self, Ladder, Vocabulary};
use super::word::{Words, window_at};

/// Anything that a clump is made of.
const CLUMP: u32 = kind::PUNCTUATION | DIGITS | HARD;
/// A run of digits mixes these.
const DIGITS: u32 = kind::DIGIT | kind::BORDER_DIGIT;
/// Numbers that are marked beside a space.
const NUMBERS: u32 = kind::NUMBER | kind::DECIMAL;
const HARD: u32 = kind::IDEOGRAPH | kind::SYMBOL | NUMBERS | kind::SELECTOR;

const SPACE_CODE: u32 = b' ' as u32;
const APOSTROPHE: u8 = b'\'';

/// The rest of a word that may follow an apostrophe.
const SUFFIXES: [&[u8]; 7] = [b"s", b"t", b"d", b"m", b"ll", b"re", b"ve"];
const MAX_SUFFIX_BYTES: usize = 2;

/// Bytes after a cell that its tokens may depend on, at most.
const LOOK_AHEAD: usize = 32;

/// Counts the tokens of a text, cell by cell.
pub(super) struct Marker<'a> {
    text: &'a [u8],
    vocabulary: &'static Vocabulary,
    absorbs_space: bool,
    words: Words,
    tiling: Tiling,
    tokens: u64,
    /// Whether what is before is a space or the frame's `<bow>`.
    after_space: bool,
    /// Whether what is before ended in `<eow>`.
    after_eow: bool,
    /// Whether a single space after `<eow>` waits for a `<bow>`, which makes it free.
    seam: bool,
    /// Whether what is before is a word whose last character is also a symbol.
    after_symbolic: bool,
}

impl<'a> Marker<'a> {
    /// A marker for normal text without line feeds at its end.
    pub(super) fn new(family: ClaudeFamily, text: &'a [u8]) -> Marker<'a> {
        let vocabulary = family.vocabulary();
        Marker {
            text,
            vocabulary,
            absorbs_space: family.absorbs_space(),
            words: Words::new(vocabulary.number, family.marks_capitals()),
            tiling: Tiling::new(vocabulary),
            tokens: 0,
            after_space: family.absorbs_space(),
            after_eow: false,
            seam: false,
            after_symbolic: false,
        }
    }

    /// Number of tokens of the text, or a number above `limit` if that is where it leads.
    pub(super) fn count(mut self, limit: u64) -> u64 {
        self.begin();
        let mut at = 0;
        while at < self.text.len() && self.tokens <= limit {
            at = self.cell(at);
        }
        self.tokens + u64::from(self.seam)
    }

    /// Whether the text has more than `limit` tokens, whatever comes after it.
    pub(super) fn exceeds(mut self, limit: u64) -> bool {
        self.begin();
        let mut at = 0;
        while at + LOOK_AHEAD < self.text.len() {
            // Of what is counted before a cell that begins here, nothing is taken back.
            if self.tokens > limit {
                return true;
            }
            at = self.cell(at);
        }
        false
    }

    /// The frame's `<bow>` is paid for if nothing uses it up.
    fn begin(&mut self) {
        let first = Character::at(self.text, 0);
        if self.absorbs_space && !first.is(kind::WORD | CLUMP) && first.code != SPACE_CODE {
            self.tokens += 1;
        }
    }

    /// End of the cell at `at`, whose tokens are added.
    #[inline(always)]
    fn cell(&mut self, at: usize) -> usize {
        let character = Character::at(self.text, at);
        if character.is(kind::WORD) {
            self.word(at)
        } else if character.is(kind::SPACE) {
            self.space(at, character)
        } else {
            self.clump(at)
        }
    }

    #[inline(always)]
    fn word(&mut self, at: usize) -> usize {
        let word = self.words.read(self.text, at, &mut self.tiling);
        self.tokens += word.tokens;
        self.after_symbolic = word.symbolic;
        self.after_eow = true;
        self.seam = false;
        self.after_space = false;
        word.end
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

    /// Whether a clump that ends at `end` is before a space that an `<eow>` may stand for.
    #[inline(always)]
    fn before_space(&self, end: usize) -> bool {
        self.text.get(end) == Some(&b' ') && self.text.get(end + 1) != Some(&b' ')
    }

    #[inline(always)]
    fn clump(&mut self, start: usize) -> usize {
        let mut end = start;
        let mut bits = 0;
        while let Some(&byte) = self.text.get(end) {
            let kind = if byte < 0x80 {
                ascii_kind(byte)
            } else {
                return self.clump_or_word(start, end, bits);
            };
            if kind & (kind::PUNCTUATION | kind::DIGIT) == 0 {
                break;
            }
            bits |= kind;
            end += 1;
        }
        self.ascii_clump(start, end, bits)
    }

    /// A clump of ASCII that stops before a character that is not ASCII.
    #[inline(never)]
    fn clump_or_word(&mut self, start: usize, end: usize, bits: u32) -> usize {
        if Character::at(self.text, end).is(CLUMP) {
            self.any_clump(start)
        } else {
            self.ascii_clump(start, end, bits)
        }
    }

    /// A clump of ASCII punctuation and digits, whose kinds together are `bits`.
    #[inline(always)]
    fn ascii_clump(&mut self, start: usize, end: usize, bits: u32) -> usize {
        let lone_apostrophe = self.text[end - 1] == APOSTROPHE
            && (end - start == 1 || ascii_kind(self.text[end - 2]) & kind::DIGIT != 0)
            && Character::at(self.text, end).is(kind::WORD);
        if lone_apostrophe || bits & kind::DIGIT != 0 && bits & kind::PUNCTUATION != 0 {
            return self.any_clump(start);
        }
        let bow = self.after_space;
        if bits & kind::PUNCTUATION != 0 {
            let eow = self.before_space(end);
            self.tokens += u64::from(self.seam && !bow) + self.punctuation(start, end, bow, eow);
            self.after_eow = eow;
        } else {
            let frame = self.absorbs_space && start == 0;
            self.tokens += u64::from(self.seam) + u64::from(frame);
            self.tokens += (end - start).div_ceil(3) as u64;
            self.after_eow = false;
        }
        self.seam = false;
        self.after_space = false;
        self.after_symbolic = false;
        end
    }

    /// Tokens of ASCII punctuation with its markers.
    #[inline(always)]
    fn punctuation(&mut self, start: usize, end: usize, bow: bool, eow: bool) -> u64 {
        let length = end - start;
        if length <= SHORT_BYTES {
            let window = window_at(self.text, start).to_le_bytes();
            if let Some(value) = vocabulary::value(window, length) {
                let shift = layout::punctuation_shift(self.vocabulary.number, bow, eow);
                let tokens = value >> shift & PUNCTUATION_COST_MASK;
                if tokens > 0 {
                    return tokens.into();
                }
            }
        }
        self.tile_ascii(start, end, bow, eow)
    }

    fn tile_ascii(&mut self, start: usize, end: usize, bow: bool, eow: bool) -> u64 {
        if bow {
            self.tiling.byte(BOW);
        }
        for &byte in &self.text[start..end] {
            self.tiling.byte(byte);
        }
        if eow {
            self.tiling.byte(EOW);
        }
        self.tiling.finish()
    }

    /// Any clump, and the suffix of a contraction if one follows.
    #[inline(never)]
    fn any_clump(&mut self, start: usize) -> usize {
        let clump = Clump::read(self.text, start, self.after_symbolic);
        let suffix = clump.suffix;
        let opens_word = clump.end - start == 1
            && self.text[start] == APOSTROPHE
            && Character::at(self.text, clump.end).is(kind::WORD);
        let bow = self.after_space && clump.takes_bow && !opens_word;
        let eow = suffix > 0 || clump.takes_eow && self.before_space(clump.end);
        self.tokens += u64::from(self.seam && !bow);
        let frame = self.absorbs_space && start == 0;
        // At the start of a message the frame's `<bow>` is written, or the space that it stands for.
        self.tokens += u64::from(frame && opens_word);
        if bow || frame && !opens_word {
            self.tiling.byte(BOW);
        }
        let mut at = start;
        while at < clump.end {
            let character = Character::at(self.text, at);
            if character.is(kind::IDEOGRAPH | kind::DIGIT) {
                at = self.alone(at, character);
            } else {
                self.tiling.character(character, self.text, at);
                at += character.length;
            }
        }
        for &byte in &self.text[clump.end..clump.end + suffix] {
            self.tiling.byte(byte);
        }
        if eow {
            self.tiling.byte(EOW);
        }
        self.tokens += self.tiling.finish();
        self.after_eow = eow;
        self.seam = false;
        self.after_space = false;
        self.after_symbolic = false;
        clump.end + suffix
    }

    /// Ideographs or ASCII digits, which no piece joins to anything else.
    #[inline(always)]
    fn alone(&mut self, mut at: usize, mut character: Character) -> usize {
        self.tokens += self.tiling.finish();
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

/// The runs of a clump, as far as they matter for its markers.
struct Clump {
    end: usize,
    takes_bow: bool,
    takes_eow: bool,
    /// Bytes of the contraction's suffix after the clump; 0 if there is none.
    suffix: usize,
}

/// A run of a clump while it is read.
#[derive(Clone, Copy)]
struct Run {
    /// Kinds that go on with the run.
    members: u32,
    first: u32,
    last: u32,
    bytes: usize,
    /// Whether its characters are numbers of one kind.
    uniform: bool,
}

impl Run {
    fn new(character: Character) -> Run {
        let class = [kind::PUNCTUATION, DIGITS, kind::SYMBOL, NUMBERS]
            .into_iter()
            .find(|class| character.is(*class));
        let members = match class {
            Some(members @ (kind::PUNCTUATION | DIGITS)) => members,
            Some(hard) => hard | kind::SELECTOR,
            None => kind::IDEOGRAPH | kind::SELECTOR,
        };
        Run {
            members,
            first: character.kind,
            last: character.kind,
            bytes: character.length,
            uniform: character.is(NUMBERS | DIGITS),
        }
    }

    fn add(&mut self, character: Character) {
        self.last = character.kind;
        self.bytes += character.length;
        let same = self.members == DIGITS || character.kind & NUMBERS == self.first & NUMBERS;
        self.uniform &= same;
    }

    /// Whether a character of these bits, at the edge of the run, is marked beside a space.
    fn is_marked(&self, edge: u32) -> bool {
        let number = self.uniform && edge & (NUMBERS | kind::BORDER_DIGIT) != 0;
        number || edge & (kind::PUNCTUATION | kind::SYMBOL | kind::SELECTOR) != 0
    }
}

impl Clump {
    /// The clump that starts at `start`.
    fn read(text: &[u8], start: usize, after_symbolic: bool) -> Clump {
        let first = Character::at(text, start);
        let mut run = Run::new(first);
        let mut takes_bow = None;
        // Whether what is before the run is marked on its right.
        let mut marked_before = after_symbolic;
        let mut end = start + first.length;
        loop {
            let character = Character::at(text, end);
            if character.is(run.members) {
                run.add(character);
            } else {
                takes_bow.get_or_insert(run.is_marked(run.first));
                if !character.is(CLUMP) {
                    break;
                }
                marked_before = run.is_marked(run.last);
                run = Run::new(character);
            }
            end += character.length;
        }
        let lone_apostrophe = run.bytes == 1 && text[end - 1] == APOSTROPHE;
        let contracts = lone_apostrophe && !marked_before;
        Clump {
            end,
            takes_bow: takes_bow.unwrap_or_default(),
            takes_eow: run.is_marked(run.last),
            suffix: if contracts { suffix(text, end) } else { 0 },
        }
    }
}

/// Length of the word at `start` if it is the suffix of a contraction, else 0.
fn suffix(text: &[u8], start: usize) -> usize {
    let letters = text[start..]
        .iter()
        .take(MAX_SUFFIX_BYTES)
        .take_while(|byte| byte.is_ascii_lowercase())
        .count();
    let end = start + letters;
    let whole = !Character::at(text, end).is(kind::WORD);
    let known = SUFFIXES.contains(&&text[start..end]);
    if whole && known { letters } else { 0 }
}
