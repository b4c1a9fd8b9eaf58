//! Split rules by name, for vocabularies that come at run time.

use crate::bpe::split::unicode::{NEWLINE, NUMBER, SPACE, class_at};
use crate::bpe::split::{Cl100k, O200k, R50k, Rule};

/// How a text is cut into pieces.
///
/// ```
/// use tokenctx::SplitRule;
///
/// assert_eq!(SplitRule::named("o200k_harmony"), Some(SplitRule::O200k));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitRule {
    /// That of `o200k_base`.
    O200k,
    /// That of `cl100k_base`.
    Cl100k,
    /// That of `r50k_base` and GPT-2.
    R50k,
    /// That of Llama 3: as `cl100k_base`, but line ends end a piece at the end of the text too.
    Llama3,
    /// That of Qwen: as Llama 3, but each digit is a piece.
    Qwen,
}

/// Rule, its names, and the regular expressions that it implements.
const RULES: [(SplitRule, &[&str], &[&str]); 5] = [
    (
        SplitRule::O200k,
        &["o200k_base", "o200k_harmony"],
        &[concat!(
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        )],
    ),
    (
        SplitRule::Cl100k,
        &["cl100k_base"],
        &[concat!(
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+",
            r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
        )],
    ),
    (
        SplitRule::R50k,
        &["r50k_base", "p50k_base", "p50k_edit", "gpt2"],
        &[
            concat!(
                r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++",
                r"|\s++$|\s+(?!\S)|\s",
            ),
            concat!(
                r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+",
                r"|\s+(?!\S)|\s+",
            ),
        ],
    ),
    (
        SplitRule::Llama3,
        &["llama3"],
        &[concat!(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
            r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        )],
    ),
    (
        SplitRule::Qwen,
        &["qwen"],
        &[concat!(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
            r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        )],
    ),
];

impl SplitRule {
    /// Names of all rules; some have two.
    pub fn names() -> impl Iterator<Item = &'static str> {
        RULES.iter().flat_map(|(_, names, _)| *names).copied()
    }

    /// The rule of this name, or that of this regular expression, letter by letter.
    pub fn named(name: &str) -> Option<SplitRule> {
        RULES
            .iter()
            .find(|(_, names, patterns)| names.contains(&name) || patterns.contains(&name))
            .map(|(rule, ..)| *rule)
    }

    /// The regular expression of the encoding of this name, as its vendor publishes it.
    pub fn pattern(encoding: &str) -> Option<&'static str> {
        let mut rules = RULES.iter();
        let (.., patterns) = rules.find(|(_, names, _)| names.contains(&encoding))?;
        patterns.first().copied()
    }

    /// End of the piece that starts at `start`, which is a character of the UTF-8 `text`.
    pub(in crate::bpe) fn end(self, text: &[u8], start: usize) -> usize {
        match self {
            SplitRule::O200k => O200k::end(text, start),
            SplitRule::Cl100k => Cl100k::end(text, start),
            SplitRule::R50k => R50k::end(text, start),
            SplitRule::Llama3 => line_end(text, start, Cl100k::end(text, start)),
            SplitRule::Qwen => match class_at(text, start) {
                (NUMBER, length) => start + length,
                _ => line_end(text, start, Cl100k::end(text, start)),
            },
        }
    }
}

/// `end`; but of white space that ends the text, the end of the last line.
fn line_end(text: &[u8], start: usize, end: usize) -> usize {
    let (mut at, mut after_newline) = (start, end);
    if end < text.len() {
        return end;
    }
    while at < end {
        let (class, length) = class_at(text, at);
        if class & (SPACE | NEWLINE) == 0 {
            return end;
        }
        at += length;
        if class == NEWLINE {
            after_newline = at;
        }
    }
    after_newline
}
