//! The rule of DeepSeek: three regular expressions, each of which cuts what the one before has left.
//!
//! ```text
//! \p{N}{1,3}
//!
//! [一-龥\u3040-\u309F\u30A0-\u30FF]+
//!
//! [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+
//! [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
//!  ?[\p{P}\p{S}]+[\r\n]*
//! \s*[\r\n]+
//! \s+(?!\S)
//! \s+
//! ```
//!
//! So to the third, a stretch of the characters of the second is a text of its own, and so is what stands
//! between numbers and such stretches. Controls and what is not assigned may stand before a word; else no
//! expression takes them, and a run of them is a piece.

use crate::bpe::split::block::{Block, Lanes};
use crate::bpe::split::unicode::{
    END, NEWLINE, NUMBER, OTHER, SPACE, character_at, class_at, is_sign,
};
use crate::bpe::split::{Rule, Starts, bytes_end, run_end_at_most};

/// The rule of DeepSeek V3 and V4, and of R1.
pub(in crate::bpe) struct DeepSeek;

impl Rule for DeepSeek {
    const KNOWS_BLOCKS: bool = false;

    #[inline(always)]
    fn end(text: &[u8], start: usize) -> usize {
        let stretch = Stretch::around(text, start);
        let (kind, next) = stretch.kind_at(start);
        match kind {
            Kind::Number => run_end_at_most(text, next, NUMBER, 2),
            Kind::Word => stretch.run_end(next, Kind::Word),
            Kind::Sign => {
                let letters = bytes_end(text, next, |byte| byte.is_ascii_alphabetic());
                match text[start].is_ascii() && letters > next {
                    true => letters,
                    false => stretch.signs_end(next),
                }
            }
            Kind::Blank | Kind::Newline => match stretch.kind_at(next) {
                (Kind::Word, after) if kind == Kind::Blank => stretch.run_end(after, Kind::Word),
                (Kind::Sign, after) if text[start] == b' ' => stretch.signs_end(after),
                _ => stretch.white_end(start),
            },
            Kind::Nothing | Kind::End => match stretch.kind_at(next) {
                (Kind::Word, after) => stretch.run_end(after, Kind::Word),
                _ => stretch.nothings_end(next),
            },
        }
    }

    fn starts<L: Lanes>(_block: &Block, _rest: &[u8]) -> Starts {
        Starts {
            bits: 0,
            trusted: 0,
        }
    }
}

/// The kinds of characters that the third expression tells apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The end of the stretch, but for a number.
    End,
    Number,
    /// Letters and marks.
    Word,
    /// Punctuation and symbols.
    Sign,
    /// White space without line ends.
    Blank,
    Newline,
    /// Anything else.
    Nothing,
}

/// The stretches that are texts to the third expression: characters of the second, or none of them.
#[derive(Clone, Copy)]
struct Stretch<'t> {
    text: &'t [u8],
    is_east: bool,
}

impl Stretch<'_> {
    #[inline(always)]
    fn around(text: &[u8], at: usize) -> Stretch<'_> {
        let is_east = is_east(character_at(text, at).0);
        Stretch { text, is_east }
    }

    /// Kind of the character at `at`, and where it ends.
    #[inline(always)]
    fn kind_at(self, at: usize) -> (Kind, usize) {
        let (class, length) = class_at(self.text, at);
        let (code, _) = character_at(self.text, at);
        let kind = match class {
            END => Kind::End,
            _ if is_east(code) != self.is_east => Kind::End,
            NUMBER => Kind::Number,
            SPACE => Kind::Blank,
            NEWLINE => Kind::Newline,
            OTHER if is_sign(code) => Kind::Sign,
            OTHER => Kind::Nothing,
            _ => Kind::Word,
        };
        (kind, at + length)
    }

    /// End of the run of characters of that kind at `at`.
    #[inline(always)]
    fn run_end(self, mut at: usize, of: Kind) -> usize {
        loop {
            let (kind, next) = self.kind_at(at);
            if kind != of {
                return at;
            }
            at = next;
        }
    }

    /// End of the run of signs at `at`, and of the line ends behind it.
    fn signs_end(self, at: usize) -> usize {
        let end = self.run_end(at, Kind::Sign);
        self.run_end(end, Kind::Newline)
    }

    /// End of the piece of white space at `start`.
    fn white_end(self, start: usize) -> usize {
        let (mut at, mut last, mut after_newline) = (start, start, None);
        loop {
            let (kind, next) = self.kind_at(at);
            match kind {
                Kind::Newline => after_newline = Some(next),
                Kind::Blank => {}
                _ if after_newline.is_some() => return after_newline.unwrap_or(at),
                // All at an end, else all but the last character; a single one in any case.
                Kind::End | Kind::Number => return at,
                _ if last == start => return at,
                _ => return last,
            }
            (last, at) = (at, next);
        }
    }

    /// End of the run at `at` of what no expression takes: what stands before a word is taken with it.
    fn nothings_end(self, mut at: usize) -> usize {
        loop {
            let (kind, next) = self.kind_at(at);
            if kind != Kind::Nothing || self.kind_at(next).0 == Kind::Word {
                return at;
            }
            at = next;
        }
    }
}

/// True if the second expression takes that character: Chinese and Japanese.
#[inline(always)]
fn is_east(code: u32) -> bool {
    matches!(code, 0x4E00..=0x9FA5 | 0x3040..=0x30FF)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces as `tokenizers` gives them for the `tokenizer.json` of DeepSeek V3.
    #[test]
    fn test_pieces_are_those_of_the_three_expressions() {
        for (text, pieces) in [
            ("it's 12345.5", "it|'s| |123|45|.|5"),
            ("a  b   1  中 。", "a| | b|   |1|  |中| 。"),
            ("!!go !go\n\n x", "!!|go| !|go|\n\n| x"),
            (
                "\u{1}\u{1}\u{1}a\u{1}\u{1}1",
                "\u{1}\u{1}|\u{1}a|\u{1}\u{1}|1",
            ),
            (
                "カ・ナ漢字々、゠\u{3040}ン",
                "カ|・|ナ漢字|々|、|゠|\u{3040}ン",
            ),
            ("e\u{301}\u{301} \u{301}", "e\u{301}\u{301}| \u{301}"),
            (" \n  \t", " \n|  \t"),
        ] {
            let (bytes, mut start, mut made) = (text.as_bytes(), 0, Vec::new());
            while start < bytes.len() {
                let end = DeepSeek::end(bytes, start);
                made.push(&text[start..end]);
                start = end;
            }
            assert_eq!(made.join("|"), pieces, "{text:?}");
        }
    }
}
