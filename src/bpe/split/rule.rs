//! Split rules by name, for vocabularies that come at run time.

use crate::bpe::split::deepseek::DeepSeek;
use crate::bpe::split::{Cl100k, Kimi, Llama3, O200k, Qwen, R50k, Rule, Tekken};
use crate::bpe::table::Vocabulary;
use crate::bpe::table::memo::{self, MemoKey};
use crate::bpe::{ids, scan};

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
    /// That of Llama 3 and GLM: as `cl100k_base`, but line ends end a piece at the end of the text too.
    Llama3,
    /// That of Qwen: as Llama 3, but each digit is a piece.
    Qwen,
    /// That of Mistral's Tekken: as `o200k_base`, without contractions, and each digit is a piece.
    Tekken,
    /// That of Kimi: as `o200k_base`, but Han characters are apart.
    Kimi,
    /// That of DeepSeek: three rules one after the other.
    DeepSeek,
}

/// Rule, its names, and the regular expressions that it implements.
const RULES: [(SplitRule, &[&str], &[&str]); 8] = [
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
        &["llama3", "glm"],
        &[concat!(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
            r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        )],
    ),
    (
        SplitRule::Qwen,
        &["qwen", "qwen2"],
        &[concat!(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
            r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        )],
    ),
    (
        SplitRule::Tekken,
        &["mistral_v3"],
        &[concat!(
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
            r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
            r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        )],
    ),
    (
        SplitRule::Kimi,
        &["kimi_k2"],
        &[concat!(
            r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*",
            r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+",
            r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        )],
    ),
    // The vendor cuts by three expressions, one after the other: this is the same at once. What none
    // of them takes is a piece as far as it goes.
    (
        SplitRule::DeepSeek,
        &["deepseek_v3"],
        &[concat!(
            r"\p{N}{1,3}|(?:(?=[\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}])[^\p{L}\p{P}\p{S}])?",
            r"(?:(?=[\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}])[\p{L}\p{M}])+",
            r"|(?:(?=[\x{3040}-\x{30FF}])[\p{P}\p{S}])+",
            r"|(?:(?=[\x{3040}-\x{30FF}])[^\p{L}\p{M}\p{P}\p{S}]",
            r"(?!(?=[\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}])[\p{L}\p{M}]))+",
            r"|[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}\p{N}]?",
            r"(?:(?![\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}])[\p{L}\p{M}])+",
            r"| ?(?:(?![\x{3040}-\x{30FF}])[\p{P}\p{S}])+[\r\n]*|\s*[\r\n]+",
            r"|\s+(?![^\s\p{N}\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}])|\s+",
            r"|(?:[^\s\p{L}\p{M}\p{N}\p{P}\p{S}\x{3040}-\x{30FF}]",
            r"(?!(?![\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}])[\p{L}\p{M}]))+",
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

    /// The rule that a `tokenizer.json` states as one regular expression. There `$` is the end of a line, so that
    /// the expressions that have it are other ones.
    pub(in crate::bpe) fn of_pattern(pattern: &str) -> Option<SplitRule> {
        let mut rules = RULES.iter();
        let is_known = |it: &&(_, _, &[&str])| it.2.contains(&pattern) && !pattern.contains('$');
        rules.find(is_known).map(|(rule, ..)| *rule)
    }

    /// Tokens of `text` in that vocabulary, remembered under `key`, or any number above `limit` if that is
    /// where it leads.
    pub(in crate::bpe) fn count(
        self,
        vocabulary: &Vocabulary<'_>,
        key: MemoKey,
        text: &[u8],
        limit: u64,
    ) -> u64 {
        memo::remembered(vocabulary.number, key, text, limit, || {
            self.count_part(vocabulary, key, text, limit)
        })
    }

    /// The same, of a part of a text that is remembered as a whole.
    pub(in crate::bpe) fn count_part(
        self,
        vocabulary: &Vocabulary<'_>,
        key: MemoKey,
        text: &[u8],
        limit: u64,
    ) -> u64 {
        match self {
            SplitRule::O200k => scan::count_part::<O200k>(vocabulary, key, text, limit),
            SplitRule::Cl100k => scan::count_part::<Cl100k>(vocabulary, key, text, limit),
            SplitRule::R50k => scan::count_part::<R50k>(vocabulary, key, text, limit),
            SplitRule::Llama3 => scan::count_part::<Llama3>(vocabulary, key, text, limit),
            SplitRule::Qwen => scan::count_part::<Qwen>(vocabulary, key, text, limit),
            SplitRule::Tekken => scan::count_part::<Tekken>(vocabulary, key, text, limit),
            SplitRule::Kimi => scan::count_part::<Kimi>(vocabulary, key, text, limit),
            SplitRule::DeepSeek => scan::count_part::<DeepSeek>(vocabulary, key, text, limit),
        }
    }

    /// Appends the tokens of `text` in that vocabulary to `tokens`.
    pub(in crate::bpe) fn encode(
        self,
        vocabulary: &Vocabulary<'_>,
        text: &[u8],
        tokens: &mut Vec<u32>,
    ) {
        match self {
            SplitRule::O200k => ids::encode::<O200k>(vocabulary, text, tokens),
            SplitRule::Cl100k => ids::encode::<Cl100k>(vocabulary, text, tokens),
            SplitRule::R50k => ids::encode::<R50k>(vocabulary, text, tokens),
            SplitRule::Llama3 => ids::encode::<Llama3>(vocabulary, text, tokens),
            SplitRule::Qwen => ids::encode::<Qwen>(vocabulary, text, tokens),
            SplitRule::Tekken => ids::encode::<Tekken>(vocabulary, text, tokens),
            SplitRule::Kimi => ids::encode::<Kimi>(vocabulary, text, tokens),
            SplitRule::DeepSeek => ids::encode::<DeepSeek>(vocabulary, text, tokens),
        }
    }

    /// End of the piece that starts at `start`, which is a character of the UTF-8 `text`.
    pub(in crate::bpe) fn end(self, text: &[u8], start: usize) -> usize {
        match self {
            SplitRule::O200k => O200k::end(text, start),
            SplitRule::Cl100k => Cl100k::end(text, start),
            SplitRule::R50k => R50k::end(text, start),
            SplitRule::Llama3 => Llama3::end(text, start),
            SplitRule::Qwen => Qwen::end(text, start),
            SplitRule::Tekken => Tekken::end(text, start),
            SplitRule::Kimi => Kimi::end(text, start),
            SplitRule::DeepSeek => DeepSeek::end(text, start),
        }
    }
}
