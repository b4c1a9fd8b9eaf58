//! The split rules: where a text is cut into pieces before any merge.
//!
//! Each rule is published as a regular expression (quoted at its function). Here each is a
//! function from the start of a piece to its end: one pass, no backtracking beyond the piece, no
//! regex engine. The expressions try their alternatives in order at every position; what the first
//! character and the one after it are decides between the alternatives, so that no alternative is
//! tried in vain, with two exceptions that are argued where they occur.
//!
//! The same rule once more, for 64 bytes at once, is algebra on the bits of a [`Block`]: every bit
//! that is left is the start of a piece. It knows only what is in the block, and leaves what is rare, so it
//! says how many of its bits to trust; the rest is left to the function above, which is the oracle
//! of the tests. A rule looks only forward from the start of a piece, so that a block may begin at
//! any.

#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;
pub(crate) mod block;
#[cfg(target_arch = "x86_64")]
pub(in crate::bpe) mod characters;
pub(in crate::bpe) mod deepseek;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
pub(in crate::bpe) mod rule;
#[cfg(target_arch = "x86_64")]
pub(crate) mod simd;
pub(in crate::bpe) mod unicode;

/// The vector instructions that every machine of this kind has.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) use block::Portable as Base;
#[cfg(target_arch = "aarch64")]
pub(crate) use neon::Neon as Base;
#[cfg(target_arch = "x86_64")]
pub(crate) use simd::Sse2 as Base;

use crate::bpe::split::block::{BLOCK, Block, Lanes};
use crate::bpe::split::unicode::{
    CASELESS, END, LETTER, LOWER, MARK, NEWLINE, NUMBER, OTHER, SPACE, UPPER, class_at,
};

/// A split rule.
pub(in crate::bpe) trait Rule {
    /// True if [`Rule::starts`] finds any start.
    const KNOWS_BLOCKS: bool = true;

    /// True if [`Rule::starts`] may be asked about characters that are not ASCII, each with its class.
    const KNOWS_CHARACTERS: bool = true;

    /// End of the piece that starts at `start`, which is a character of the UTF-8 `text`.
    fn end(text: &[u8], start: usize) -> usize;

    /// Starts of pieces in the `block` at the beginning of `rest`, where a piece starts.
    fn starts<L: Lanes>(block: &Block, rest: &[u8]) -> Starts;

    /// True if all characters that are not ASCII are alike to the rule: then a block is one of bytes.
    const IS_OF_BYTES: bool = false;
}

/// Starts of pieces in a block.
pub(in crate::bpe) struct Starts {
    bits: u64,
    /// Number of the first bits that are known to be right.
    trusted: u32,
}

impl Starts {
    /// Ends of the pieces that are known, in a text of `length` bytes: bit `n` stands for the end after byte
    /// `n`.
    #[inline(always)]
    pub(in crate::bpe) fn ends<L: Lanes>(&self, block: &Block, length: usize) -> u64 {
        let trusted = u64::MAX.checked_shr(64 - self.trusted).unwrap_or(0);
        let end = if block.last && trusted == block.text {
            1 << (length - 1)
        } else {
            0
        };
        L::spread(self.bits & trusted, block.firsts) >> 1 | end
    }
}

/// Bits of a block whose starts depend on nothing that is `unknown` or behind the block.
///
/// The next byte decides if white space is a start.
#[inline(always)]
fn visible(block: &Block, unknown: u64) -> u32 {
    if unknown != 0 {
        unknown.trailing_zeros().saturating_sub(1)
    } else if block.last {
        block.text.count_ones()
    } else {
        u64::BITS - 1
    }
}

/// The byte that the bit `at` stands for.
#[inline(always)]
fn byte<L: Lanes>(block: &Block, at: usize) -> usize {
    L::spread(1 << at, block.firsts).trailing_zeros() as usize
}

/// The bit of the character at `byte`; none if it is outside of the block.
#[inline(always)]
fn bit(block: &Block, byte: usize) -> u64 {
    if byte < BLOCK {
        1 << (block.firsts & ((1 << byte) - 1)).count_ones()
    } else {
        0
    }
}

/// The bits after those of `bits`.
#[inline(always)]
fn after(bits: u64) -> u64 {
    bits << 1
}

/// First bytes of the runs of `bits`.
#[inline(always)]
fn firsts(bits: u64) -> u64 {
    bits & !after(bits)
}

/// The last byte of each run of white space, unless the text ends there.
#[inline(always)]
fn before_word(block: &Block) -> u64 {
    block.white & !(block.white >> 1) & block.text >> 1
}

/// The first byte of each run of `bits` and every third after it.
#[inline(always)]
pub(crate) fn thirds(bits: u64) -> u64 {
    let mut starts = firsts(bits);
    let whole = bits & bits << 1 & bits << 2;
    let mut more = starts << 3 & whole;
    while more != 0 {
        starts |= more;
        more = more << 3 & whole;
    }
    starts
}

/// Bytes to trust, if no run that goes from one of `firsts` to one of `ends`, or to the end of the
/// block, may be trusted.
#[inline(always)]
fn before_runs(runs: u64, firsts: u64, ends: u64) -> u32 {
    let (after, beyond) = runs.overflowing_add(firsts);
    if beyond || after & !runs & ends != 0 {
        firsts.trailing_zeros()
    } else {
        u64::BITS
    }
}

/// Classes that may follow a word's or a number's own characters in a run of punctuation.
const PUNCTUATION: u8 = OTHER | MARK;

/// The rule of `o200k_base` and `o200k_harmony`.
///
/// ```text
/// [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
/// [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
/// \p{N}{1,3}
///  ?[^\s\p{L}\p{N}]+[\r\n/]*
/// \s*[\r\n]+
/// \s+(?!\S)
/// \s+
/// ```
pub(in crate::bpe) type O200k = Cased<true, 3, true, false>;

/// The rule of Mistral's Tekken: as [`O200k`], but without contractions, and each digit is a piece.
pub(in crate::bpe) type Tekken = Cased<false, 1, true, false>;

/// The rule of Kimi: as [`O200k`], but a run of Han characters is a piece of its own and belongs to no
/// word, and slashes do not belong to the punctuation before them.
///
/// ```text
/// [\p{Han}]+
/// [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:...)?
/// [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:...)?
/// \p{N}{1,3}
///  ?[^\s\p{L}\p{N}]+[\r\n]*
/// \s*[\r\n]+
/// \s+(?!\S)
/// \s+
/// ```
pub(in crate::bpe) type Kimi = Cased<true, 3, false, true>;

/// A rule whose words are cut where upper case follows lower case: with contractions or without, numbers
/// of up to `DIGITS` digits, slashes behind punctuation or not, and Han characters in words or apart.
pub(in crate::bpe) struct Cased<
    const CONTRACTIONS: bool,
    const DIGITS: usize,
    const SLASHES: bool,
    const HAN_APART: bool,
>;

impl<const CONTRACTIONS: bool, const DIGITS: usize, const SLASHES: bool, const HAN_APART: bool> Rule
    for Cased<CONTRACTIONS, DIGITS, SLASHES, HAN_APART>
{
    // A block does not tell Han characters from other letters without case.
    const KNOWS_CHARACTERS: bool = !HAN_APART;

    // The classes of the first two characters say which alternative of the expression matches, and of what an
    // alternative has taken it gives back nothing, except inside of `word`. So each alternative is one branch, where a
    // regular expression would try one after the other.
    #[inline(always)]
    fn end(text: &[u8], start: usize) -> usize {
        let word_end = |end| match CONTRACTIONS {
            true => contraction_end::<true>(text, end),
            false => end,
        };
        let (first, length) = class_at(text, start);
        if HAN_APART && unicode::is_han_at(text, start) {
            return han_end(text, start + length);
        }
        if first & LETTER != 0 {
            let (Word::Lowered(end) | Word::Upper(end)) = word::<HAN_APART>(text, start);
            return word_end(end);
        }
        let next = start + length;
        if first == NUMBER {
            return run_end_at_most(text, next, NUMBER, DIGITS - 1);
        }
        let (second, _) = class_at(text, next);
        let is_word =
            second & (LETTER | MARK) != 0 && !(HAN_APART && unicode::is_han_at(text, next));
        if first != NEWLINE && is_word {
            let end = match word::<HAN_APART>(text, next) {
                Word::Lowered(end) => end,
                // The first alternative without its prefix comes before the second with it: a mark
                // is both a prefix and a word.
                Word::Upper(_) if first == MARK => next,
                Word::Upper(end) => end,
            };
            return word_end(end);
        }
        if first == MARK {
            return word_end(next);
        }
        if first == OTHER || (text[start] == b' ' && second & PUNCTUATION != 0) {
            let end = run_end(text, next, PUNCTUATION);
            let belongs = |byte| matches!(byte, b'\r' | b'\n') || (SLASHES && byte == b'/');
            return bytes_end(text, end, belongs);
        }
        let white = White::at(text, start);
        match white.after_newline {
            Some(end) => end,
            None => white.end_before_word(text),
        }
    }

    #[inline(always)]
    fn starts<L: Lanes>(block: &Block, rest: &[u8]) -> Starts {
        let letters = block.letter() | block.mark;
        let other = block.other & !block.mark;
        let lower = letters & !block.upper;
        let mut bits =
            prefixed_starts::<DIGITS>(block, letters, other) | block.upper & after(lower);
        let (mut quotes, mut previous) = (block.quote & after(letters), 0);
        while CONTRACTIONS && quotes != 0 {
            let at = quotes.trailing_zeros() as usize;
            let quote = byte::<L>(block, at);
            let end = contraction_end::<true>(rest, quote);
            // A contraction belongs to the word before it, but what follows it starts anew.
            if end > quote && quote != previous {
                bits = bits & !(0b111 << at) | bit(block, end);
                previous = end;
            }
            quotes &= quotes - 1;
        }
        // A mark without a letter before it is a prefix, a word or punctuation.
        let lone = firsts(block.mark) & !after(block.letter());
        let unknown = block.wide | lone;
        // Upper case after a letter without case, or a mark: see `word`.
        let backtracking = block.upper & after(lower & !block.lower);
        let indents = block.blank() & after(block.newline);
        let breaks = block.newline & after(other);
        let slashes = if SLASHES { block.slash } else { 0 };
        let trusted = before_runs(block.blank(), indents, block.newline | unknown)
            .min(before_runs(block.newline, breaks, slashes))
            .min(backtracking.trailing_zeros())
            .min(visible(block, unknown));
        Starts { bits, trusted }
    }
}

/// The rule of `cl100k_base`.
///
/// ```text
/// '(?i:[sdmt]|ll|ve|re)
/// [^\r\n\p{L}\p{N}]?+\p{L}++
/// \p{N}{1,3}+
///  ?[^\s\p{L}\p{N}]++[\r\n]*+
/// \s++$
/// \s*[\r\n]
/// \s+(?!\S)
/// \s
/// ```
pub(in crate::bpe) type Cl100k = Uncased<3, false>;

/// The rule of Llama 3 and GLM: as [`Cl100k`], but line ends end a piece at the end of the text too.
pub(in crate::bpe) type Llama3 = Uncased<3, true>;

/// The rule of Qwen: as [`Llama3`], but each digit is a piece.
pub(in crate::bpe) type Qwen = Uncased<1, true>;

/// A rule whose words are runs of letters: with numbers of up to `DIGITS` digits, and line ends that end a
/// piece in the white space at the end of a text too, or not.
pub(in crate::bpe) struct Uncased<const DIGITS: usize, const LINES: bool>;

impl<const DIGITS: usize, const LINES: bool> Rule for Uncased<DIGITS, LINES> {
    #[inline(always)]
    fn end(text: &[u8], start: usize) -> usize {
        let (first, length) = class_at(text, start);
        let next = start + length;
        if first & LETTER != 0 {
            return run_end(text, next, LETTER);
        }
        if first == NUMBER {
            return run_end_at_most(text, next, NUMBER, DIGITS - 1);
        }
        let contraction = contraction_end::<true>(text, start);
        if contraction > start {
            return contraction;
        }
        let (second, _) = class_at(text, next);
        if first != NEWLINE && second & LETTER != 0 {
            return run_end(text, next, LETTER);
        }
        if first & PUNCTUATION != 0 || (text[start] == b' ' && second & PUNCTUATION != 0) {
            let end = run_end(text, next, PUNCTUATION);
            return bytes_end(text, end, |byte| matches!(byte, b'\r' | b'\n'));
        }
        let white = White::at(text, start);
        match white.after_newline {
            Some(end) if LINES || white.end < text.len() => end,
            _ => white.end_before_word(text),
        }
    }

    #[inline(always)]
    fn starts<L: Lanes>(block: &Block, rest: &[u8]) -> Starts {
        let quotes = block.quote & firsts(block.other) & !after(block.space);
        let bits = prefixed_starts::<DIGITS>(block, block.letter(), block.other)
            | contractions::<true, L>(block, quotes, rest).0;
        let indents = block.blank() & after(block.newline);
        let ends = block.newline | block.wide | !block.text;
        let mut trusted = before_runs(block.blank(), indents, ends).min(visible(block, block.wide));
        if LINES && block.last {
            // White space that ends the text is left to the function above.
            let before = u64::BITS - (block.text & !block.white).leading_zeros();
            let ends_white = block.white.checked_shr(before).is_some_and(|it| it != 0);
            trusted = trusted.min(if ends_white { before } else { u64::BITS });
        }
        Starts { bits, trusted }
    }
}

/// The rule of `r50k_base` and `p50k_base`.
///
/// ```text
/// '(?:[sdmt]|ll|ve|re)
///  ?\p{L}++
///  ?\p{N}++
///  ?[^\s\p{L}\p{N}]++
/// \s++$
/// \s+(?!\S)
/// \s
/// ```
pub(in crate::bpe) struct R50k;

impl Rule for R50k {
    #[inline(always)]
    fn end(text: &[u8], start: usize) -> usize {
        let contraction = contraction_end::<false>(text, start);
        if contraction > start {
            return contraction;
        }
        let (mut class, length) = class_at(text, start);
        let next = start + length;
        if text[start] == b' ' {
            class = class_at(text, next).0;
        }
        for set in [LETTER, NUMBER, PUNCTUATION] {
            if class & set != 0 {
                return run_end(text, next, set);
            }
        }
        White::at(text, start).end_before_word(text)
    }

    #[inline(always)]
    fn starts<L: Lanes>(block: &Block, rest: &[u8]) -> Starts {
        let words = firsts(block.letter()) | firsts(block.digit) | firsts(block.other);
        let words = words & !after(block.space);
        let (ends, inside) = contractions::<false, L>(block, block.quote & words, rest);
        let white = firsts(block.white) | before_word(block);
        Starts {
            bits: words & !inside | white | ends,
            trusted: visible(block, block.wide),
        }
    }
}

/// The rule of Gemma, whose joins would find most of it: no token crosses these borders.
///
/// ```text
/// \n{1,31}
/// \t{1,31}
///  {2,31}
/// [0-9]
///  ?(?:[^ \n\t0-9]|(?<=>) (?=</))+
///  
/// ```
pub(in crate::bpe) struct Gemma;

/// Longest run of white space that is a token of Gemma's.
const GEMMA_RUN: usize = 31;

impl Gemma {
    /// Classes that have a piece of their own, beside white space.
    fn is_word(byte: u8) -> bool {
        !matches!(byte, b' ' | b'\n' | b'\t' | b'0'..=b'9')
    }

    /// True if the space at `at` is inside of the token `> </`.
    #[inline(always)]
    fn is_between_tags(text: &[u8], at: usize) -> bool {
        at > 0 && text[at - 1] == b'>' && text[at + 1..].starts_with(b"</")
    }

    fn run_end(text: &[u8], start: usize) -> usize {
        let run = &text[start..text.len().min(start + GEMMA_RUN)];
        bytes_end(run, 0, |byte| byte == text[start]) + start
    }
}

impl Rule for Gemma {
    const IS_OF_BYTES: bool = true;

    #[inline(always)]
    fn end(text: &[u8], start: usize) -> usize {
        let is_word = |at: usize| text.get(at).is_some_and(|&byte| Gemma::is_word(byte));
        match text[start] {
            b'0'..=b'9' => return start + 1,
            b'\n' | b'\t' => return Gemma::run_end(text, start),
            b' ' if text.get(start + 1) == Some(&b' ') => return Gemma::run_end(text, start),
            _ => {}
        }
        let mut at = start + 1;
        loop {
            at = bytes_end(text, at, Gemma::is_word);
            let goes_on = at > start + 1 || Gemma::is_word(text[start]);
            if !(goes_on && is_word(at + 1) && text[at] == b' ' && Gemma::is_between_tags(text, at))
            {
                return at;
            }
            at += 1;
        }
    }

    #[inline(always)]
    fn starts<L: Lanes>(block: &Block, rest: &[u8]) -> Starts {
        let (mut lines, mut tabs, mut white) = (0, 0, block.white & !block.space);
        while white != 0 {
            let at = white.trailing_zeros() as usize;
            lines |= u64::from(rest[at] == b'\n') << at;
            tabs |= u64::from(rest[at] == b'\t') << at;
            white &= white - 1;
        }
        let spaces = block.space;
        let lone = spaces & !after(spaces) & !(spaces >> 1);
        let mut between = lone & after(block.other) & block.other >> 1 & block.slash >> 2;
        let mut joined = 0;
        while between != 0 {
            let at = between.trailing_zeros() as usize;
            joined |= u64::from(Gemma::is_between_tags(rest, at)) << at;
            between &= between - 1;
        }
        let words = block.text & !(spaces | lines | tabs | block.digit);
        let bits = firsts(spaces) & !joined
            | firsts(lines)
            | firsts(tabs)
            | block.digit
            | firsts(words) & !after(lone);
        // The next two bytes say whether a space is between tags.
        let visible = match block.last {
            true => block.text.count_ones(),
            false => u64::BITS - 2,
        };
        let trusted = [spaces, lines, tabs].map(before_long_run).into_iter().min();
        Starts {
            bits,
            trusted: visible.min(trusted.unwrap_or(0)),
        }
    }
}

/// Bits before the second of the first run of 32 that `bits` have.
#[inline(always)]
fn before_long_run(bits: u64) -> u32 {
    let runs = [1, 2, 4, 8, 16]
        .into_iter()
        .fold(bits, |runs, by| runs & runs >> by);
    match runs {
        0 => u64::BITS,
        _ => runs.trailing_zeros() + 1,
    }
}

/// The starts that the rules with a prefix have in common, by what they take for letters and for punctuation.
#[inline(always)]
fn prefixed_starts<const DIGITS: usize>(block: &Block, letters: u64, other: u64) -> u64 {
    let blank = block.blank();
    let punctuation = firsts(other) & !after(block.space);
    let letters = firsts(letters) & !after(blank | punctuation);
    let blanks = blank & (!after(block.white) | after(block.newline) | before_word(block));
    let newlines = block.newline & !after(block.white | other);
    let numbers = match DIGITS {
        1 => block.digit,
        _ => thirds(block.digit),
    };
    punctuation | letters | blanks | newlines | numbers
}

/// Ends of the contractions at `quotes`, which are starts of pieces, and the letters inside them.
#[inline(always)]
fn contractions<const FOLD: bool, L: Lanes>(
    block: &Block,
    mut quotes: u64,
    rest: &[u8],
) -> (u64, u64) {
    let (mut ends, mut inside) = (0, 0);
    while quotes != 0 {
        let at = quotes.trailing_zeros() as usize;
        let quote = byte::<L>(block, at);
        let end = contraction_end::<FOLD>(rest, quote);
        if end > quote {
            ends |= bit(block, end);
            inside |= 0b110 << at;
        }
        quotes &= quotes - 1;
    }
    (ends, inside & !ends)
}

/// A word without its prefix, by the alternative of the `o200k` rule that takes it.
enum Word {
    /// The first alternative: upper case, then at least one letter that is not upper case.
    Lowered(usize),
    /// The second alternative, because all is upper case.
    Upper(usize),
}

/// The word at `start`, which is a letter or a mark.
///
/// A letter without case, or a mark, belongs to both halves of the first alternative. If upper
/// case follows the last of them, the expression backtracks to it: the word ends there. With
/// `HAN_APART`, Han characters are no part of it.
#[inline(always)]
fn word<const HAN_APART: bool>(text: &[u8], start: usize) -> Word {
    let (mut at, mut after_caseless) = (start, None);
    loop {
        let (class, length) = class_at(text, at);
        match class {
            LOWER if HAN_APART => return Word::Lowered(lower_end_before_han(text, at + length)),
            LOWER => return Word::Lowered(run_end(text, at + length, LOWER | CASELESS | MARK)),
            UPPER => at += length,
            CASELESS | MARK if !(HAN_APART && unicode::is_han_at(text, at)) => {
                at += length;
                after_caseless = Some(at);
            }
            _ => return after_caseless.map_or(Word::Upper(at), Word::Lowered),
        }
    }
}

/// End of the run at `at` of what may end a word: no upper case and no Han character.
fn lower_end_before_han(text: &[u8], mut at: usize) -> usize {
    loop {
        at = run_end(text, at, LOWER);
        let (class, length) = class_at(text, at);
        if class & (CASELESS | MARK) == 0 || unicode::is_han_at(text, at) {
            return at;
        }
        at += length;
    }
}

/// End of the run of Han characters at `at`.
fn han_end(text: &[u8], mut at: usize) -> usize {
    while unicode::is_han_at(text, at) {
        at += class_at(text, at).1;
    }
    at
}

/// End of the contraction at `at` (`'s`, `'t`, `'re`, `'ve`, `'m`, `'ll`, `'d`), or `at`.
///
/// With `FOLD` in either case; U+017F, the long s, is a lower case of S.
#[inline(always)]
fn contraction_end<const FOLD: bool>(text: &[u8], at: usize) -> usize {
    if text.get(at) == Some(&b'\'') {
        contraction_end_at_quote::<FOLD>(text, at)
    } else {
        at
    }
}

fn contraction_end_at_quote<const FOLD: bool>(text: &[u8], at: usize) -> usize {
    let letter = |offset: usize| {
        let byte = text.get(at + offset).copied().unwrap_or(0);
        if FOLD {
            byte.to_ascii_lowercase()
        } else {
            byte
        }
    };
    match (letter(1), letter(2)) {
        (b's' | b't' | b'm' | b'd', _) => at + 2,
        (b'r' | b'v', b'e') | (b'l', b'l') => at + 3,
        (0xC5, 0xBF) if FOLD => at + 3,
        _ => at,
    }
}

/// End of the run of characters of the classes `set` at `at`.
#[inline(always)]
fn run_end(text: &[u8], mut at: usize, set: u8) -> usize {
    if set & LOWER != 0 {
        at = ascii_letters_end(text, at, if set & UPPER != 0 { ASCII_CASE } else { 0 });
    }
    loop {
        let (class, length) = class_at(text, at);
        if class & set == 0 {
            return at;
        }
        at += length;
    }
}

/// The bit that tells upper from lower case in ASCII.
const ASCII_CASE: u8 = 0x20;

/// End of the run of lower case ASCII letters at `at`, if the bits `ignored` are set in all bytes;
/// or a place in the run, near the end of the text.
///
/// Eight bytes at once: a word has about five, so that there is nothing to mispredict.
#[inline(always)]
fn ascii_letters_end(text: &[u8], mut at: usize, ignored: u8) -> usize {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * EACH;
    while let Some(chunk) = text.get(at..).and_then(|rest| rest.first_chunk()) {
        let bytes = u64::from_le_bytes(*chunk) | (EACH * u64::from(ignored));
        let low = bytes & !HIGH;
        // The high bit of each sum is set from `a` on, and from the byte after `z` on.
        let from_a = low + EACH * (0x80 - u64::from(b'a'));
        let after_z = low + EACH * (0x7F - u64::from(b'z'));
        let others = (!from_a | after_z | bytes) & HIGH;
        if others != 0 {
            return at + others.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at
}

/// [`run_end`], but at most `limit` characters.
#[inline(always)]
fn run_end_at_most(text: &[u8], mut at: usize, set: u8, limit: usize) -> usize {
    for _ in 0..limit {
        let (class, length) = class_at(text, at);
        if class & set == 0 {
            break;
        }
        at += length;
    }
    at
}

/// End of the run of bytes at `at` that `belongs` accepts.
#[inline(always)]
fn bytes_end(text: &[u8], at: usize, belongs: impl Fn(u8) -> bool) -> usize {
    text[at..]
        .iter()
        .position(|&byte| !belongs(byte))
        .map_or(text.len(), |length| at + length)
}

/// A run of white space.
struct White {
    start: usize,
    /// Start of its last character.
    last: usize,
    end: usize,
    /// End of its last line end.
    after_newline: Option<usize>,
}

impl White {
    #[inline(always)]
    fn at(text: &[u8], start: usize) -> White {
        let mut white = White {
            start,
            last: start,
            end: start,
            after_newline: None,
        };
        loop {
            let (class, length) = class_at(text, white.end);
            if class & (SPACE | NEWLINE) == 0 {
                return white;
            }
            white.last = white.end;
            white.end += length;
            if class == NEWLINE {
                white.after_newline = Some(white.end);
            }
        }
    }

    /// `\s+(?!\S)`, else `\s`: all of it at the end of the text; else all but the last character,
    /// which may become the prefix of what follows; a single character in any case.
    #[inline(always)]
    fn end_before_word(&self, text: &[u8]) -> usize {
        if self.end == text.len() || self.last == self.start {
            self.end
        } else {
            self.last
        }
    }
}

const _: () = assert!(END == 0, "no set of classes contains the end of the text");
