//! The way through a text: pieces 64 bytes at a time, and one by one where a block does not tell.
#![allow(
    unsafe_code,
    reason = "calls what was compiled for the machine that this is"
)]

#[cfg(any(test, not(target_arch = "x86_64")))]
use super::block::Portable;
use super::block::{Block, Lanes, Window, padded};
use super::key::{Key, SHORT_BYTES};
#[cfg(target_arch = "x86_64")]
use super::lanes::{Avx2, Sse2};
use super::memo::Memo;
#[cfg(test)]
use super::piece;
use super::split::Rule;
use super::vocabulary::{Vocabulary, bytes_at};

/// Tokens of `text`, or any number above `limit` if that is where it leads.
pub(super) fn count<R: Rule>(vocabulary: &Vocabulary, text: &[u8], limit: u64) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if Avx2::is_detected() {
        // SAFETY: the machine has what the function needs.
        unsafe { count_avx2::<R>(vocabulary, text, limit) }
    } else {
        count_blocks::<R, Sse2>(vocabulary, text, limit)
    }
    #[cfg(not(target_arch = "x86_64"))]
    count_blocks::<R, Portable>(vocabulary, text, limit)
}

/// [`count_blocks`], compiled for machines with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn count_avx2<R: Rule>(vocabulary: &Vocabulary, text: &[u8], limit: u64) -> u64 {
    count_blocks::<R, Avx2>(vocabulary, text, limit)
}

#[inline(always)]
fn count_blocks<R: Rule, L: Lanes>(vocabulary: &Vocabulary, text: &[u8], limit: u64) -> u64 {
    let (mut start, mut tokens, mut memo) = (0, 0, Memo::new());
    while start < text.len() && tokens <= limit {
        let rest = &text[start..];
        let copy;
        let window = match rest.first_chunk() {
            Some(window) => window,
            None => {
                copy = padded(rest);
                &copy
            }
        };
        let mut ends = 0;
        if !starts_wide(window) {
            let block = Block::new::<L>(window, rest.len());
            ends = R::starts(&block, rest).ends(&block);
        }
        if ends == 0 {
            let end = R::end(text, start);
            tokens += match vocabulary.count(window, 0, end - start) {
                0 => count_unknown::<L>(vocabulary, &mut memo, text, start, end),
                count => count,
            };
            start = end;
            continue;
        }
        let mut at = 0;
        while ends != 0 {
            let end = ends.trailing_zeros() as usize + 1;
            tokens += match vocabulary.count(window, at, end.wrapping_sub(at)) {
                0 => count_unknown::<L>(vocabulary, &mut memo, text, start + at, start + end),
                count => count,
            };
            at = end;
            ends &= ends - 1;
        }
        start += at;
    }
    tokens
}

/// Tokens of a piece that is not among the short ones of the vocabulary.
#[inline(never)]
fn count_unknown<L: Lanes>(
    vocabulary: &Vocabulary,
    memo: &mut Memo,
    text: &[u8],
    start: usize,
    end: usize,
) -> u64 {
    if end - start > SHORT_BYTES {
        return L::count_piece(vocabulary, text, start, end);
    }
    let key = Key::new(&bytes_at(text, start), end - start);
    match memo.count(key) {
        0 => {
            let count = L::count_piece(vocabulary, text, start, end);
            memo.remember(key, count);
            count
        }
        count => count,
    }
}

/// True if one of the first bytes is not ASCII: then no block is worth its cost.
#[inline(always)]
fn starts_wide(window: &Window) -> bool {
    window
        .first_chunk::<8>()
        .is_some_and(|first| !first.is_ascii())
}

#[cfg(test)]
fn count_one_by_one<R: Rule>(vocabulary: &Vocabulary, text: &[u8], limit: u64) -> u64 {
    let (mut start, mut tokens) = (0, 0);
    while start < text.len() && tokens <= limit {
        let end = R::end(text, start);
        tokens += piece::count(vocabulary, text, start, end);
        start = end;
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::super::split::{Cl100k, O200k, R50k};
    use super::super::vocabulary::{CL100K, O200K, R50K};
    use super::*;

    /// What the algebra of blocks looks at: all classes, and the long runs that leave a block.
    const ATOMS: &[&str] = &[
        "a",
        "bc",
        "Word",
        "UPPER",
        "lM",
        "1",
        "22",
        "4567",
        " ",
        "  ",
        "    ",
        "\t",
        "\n",
        "\r\n",
        "\n\n",
        "'s",
        "'S",
        "'ll",
        "'Re",
        "'",
        "''",
        "'\u{17f}",
        "!",
        "==",
        "/",
        "_",
        "\0",
        "\u{7f}",
        "é",
        "中文",
        "\u{301}",
        "\u{3000}",
        "\u{85}",
        "—",
        "“x”",
        "👍",
        "\n        ",
        "\n \n",
        "                                                  ",
        "!\n\n/",
        "\n                                                                  \n",
    ];

    fn check<R: Rule>(vocabulary: &Vocabulary, text: &str) {
        let expected = count_one_by_one::<R>(vocabulary, text.as_bytes(), u64::MAX);
        let blocks = count_blocks::<R, Portable>(vocabulary, text.as_bytes(), u64::MAX);
        assert_eq!(blocks, expected, "{text:?}");
        #[cfg(target_arch = "x86_64")]
        let blocks = count_blocks::<R, Sse2>(vocabulary, text.as_bytes(), u64::MAX);
        assert_eq!(blocks, expected, "{text:?}");
        let detected = count::<R>(vocabulary, text.as_bytes(), u64::MAX);
        assert_eq!(detected, expected, "{text:?}");
    }

    #[test]
    fn test_every_level_counts_the_same() {
        let mut seed = 7_u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..40 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text.push_str(ATOMS[(seed >> 33) as usize % ATOMS.len()]);
                if seed >> 60 == 0 {
                    break;
                }
            }
            check::<O200k>(&O200K, &text);
            check::<Cl100k>(&CL100K, &text);
            check::<R50k>(&R50K, &text);
        }
    }
}
