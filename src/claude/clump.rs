//! Clumps: all between words and white space.
//!
//! A clump is runs of punctuation, digits, symbols and ideographs. Its first run may take a `<bow>`
//! after a space and its last an `<eow>` before a single one: punctuation and symbols do, ASCII
//! digits and ideographs do not.

use super::character::Character;
use super::kind;
use super::layout::{BOW, EOW, SUFFIXES};
use super::marked::{Marked, Written};

pub(super) const APOSTROPHE: u8 = b'\'';

/// The longest of [`SUFFIXES`].
const MAX_SUFFIX_BYTES: usize = 2;

/// The runs of a clump, as far as they matter for its markers.
pub(super) struct Clump {
    pub(super) end: usize,
    pub(super) takes_bow: bool,
    pub(super) takes_eow: bool,
    /// Bytes of the contraction's suffix after the clump; 0 if there is none.
    pub(super) suffix: usize,
}

/// A run of a clump while it is read.
#[derive(Clone, Copy)]
struct Run {
    /// Kinds that go on with the run.
    members: u32,
    first: u32,
    last: u32,
    bytes: usize,
    /// True if its characters are numbers of one kind.
    uniform: bool,
}

impl Run {
    fn new(character: Character) -> Run {
        let class = [kind::PUNCTUATION, kind::DIGITS, kind::SYMBOL, kind::NUMBERS]
            .into_iter()
            .find(|class| character.is(*class));
        let members = match class {
            Some(members @ (kind::PUNCTUATION | kind::DIGITS)) => members,
            Some(hard) => hard | kind::SELECTOR,
            None => kind::IDEOGRAPH | kind::SELECTOR,
        };
        Run {
            members,
            first: character.kind,
            last: character.kind,
            bytes: character.length,
            uniform: character.is(kind::NUMBERS | kind::DIGITS),
        }
    }

    fn add(&mut self, character: Character) {
        self.last = character.kind;
        self.bytes += character.length;
        let same = self.members == kind::DIGITS
            || character.kind & kind::NUMBERS == self.first & kind::NUMBERS;
        self.uniform &= same;
    }

    /// True if a character of these bits, at the edge of the run, is marked beside a space.
    fn is_marked(&self, edge: u32) -> bool {
        let number = self.uniform && edge & (kind::NUMBERS | kind::BORDER_DIGIT) != 0;
        number || edge & (kind::PUNCTUATION | kind::SYMBOL | kind::SELECTOR) != 0
    }
}

impl Clump {
    /// The clump that starts at `start`.
    pub(super) fn read(text: &[u8], start: usize, after_symbolic: bool) -> Clump {
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
                if !character.is(kind::CLUMP) {
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
pub(super) fn suffix(text: &[u8], start: usize) -> usize {
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

/// A part of a clump, or a contraction, with its markers.
pub(super) struct MarkedCell<'a> {
    pub(super) text: &'a [u8],
    pub(super) bow: bool,
    pub(super) eow: bool,
}

impl<'a> MarkedCell<'a> {
    /// The cell whose markers are told by the spaces at its ends, or by the suffix that it ends in.
    pub(super) fn new(cell: &'a [u8]) -> MarkedCell<'a> {
        let (bow, space) = (cell.starts_with(b" "), cell.ends_with(b" "));
        MarkedCell {
            text: &cell[usize::from(bow)..cell.len() - usize::from(space)],
            bow,
            eow: space || cell.last().is_some_and(u8::is_ascii_alphabetic),
        }
    }
}

impl Written for MarkedCell<'_> {
    fn length(&self) -> usize {
        self.text.len()
    }

    #[inline(always)]
    fn write(&self, marked: &mut impl Marked) {
        if self.bow {
            marked.byte(BOW);
        }
        let mut at = 0;
        while at < self.text.len() {
            let character = Character::at(self.text, at);
            marked.character(character, self.text, at);
            at += character.length;
        }
        if self.eow {
            marked.byte(EOW);
        }
    }
}
