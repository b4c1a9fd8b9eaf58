//! The way through a text: pieces 64 bytes at a time, and one by one where a block does not tell.
#![allow(
    unsafe_code,
    reason = "calls what was compiled for the machine that this is"
)]

use std::cell::RefCell;

#[cfg(target_arch = "x86_64")]
use super::avx512::Avx512;
#[cfg(any(test, not(target_arch = "x86_64")))]
use super::block::Portable;
use super::block::{Block, Lanes, Window, padded};
#[cfg(target_arch = "x86_64")]
use super::lanes::{Avx2, Sse2};
use super::memo::Memo;
#[cfg(test)]
use super::piece;
use super::pieces::{Counting, Pieces};
use super::split::Rule;
use super::vocabulary::Vocabulary;

/// Shortest text whose count is remembered: counting a shorter one takes no longer.
const REMEMBERED_BYTES: usize = 64;

thread_local!(static PIECES: RefCell<Pieces> = const { RefCell::new(Pieces::new()) });

/// Tokens of `text`, or any number above `limit` if that is where it leads.
pub(super) fn count<R: Rule>(vocabulary: &Vocabulary, text: &[u8], limit: u64) -> u64 {
    let memo = Memo::new(vocabulary.number);
    if text.len() < REMEMBERED_BYTES {
        return count_new::<R>(Counting::new(vocabulary, memo, text), limit);
    }
    let hash = memo.hash(text, 0, text.len());
    match memo.text(hash) {
        0 => {
            let count = count_new::<R>(Counting::new(vocabulary, memo, text), limit);
            if count <= limit {
                memo.remember_text(hash, count);
            }
            count
        }
        count => count,
    }
}

/// The same, of a text that is not remembered.
fn count_new<R: Rule>(text: Counting<'_>, limit: u64) -> u64 {
    PIECES.with_borrow_mut(|pieces| count_detected::<R>(pieces, text, limit))
}

/// [`count_blocks`], by the best instructions of this machine.
fn count_detected<R: Rule>(pieces: &mut Pieces, text: Counting<'_>, limit: u64) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if Avx512::is_detected() {
        // SAFETY: the machine has what the function needs.
        unsafe { count_avx512::<R>(pieces, text, limit) }
    } else if Avx2::is_detected() {
        // SAFETY: the machine has what the function needs.
        unsafe { count_avx2::<R>(pieces, text, limit) }
    } else {
        count_blocks::<R, Sse2>(pieces, text, limit)
    }
    #[cfg(not(target_arch = "x86_64"))]
    count_blocks::<R, Portable>(pieces, text, limit)
}

/// [`count_blocks`], compiled for machines with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn count_avx2<R: Rule>(pieces: &mut Pieces, text: Counting<'_>, limit: u64) -> u64 {
    count_blocks::<R, Avx2>(pieces, text, limit)
}

/// [`count_blocks`], compiled for machines with AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vbmi,avx512vbmi2,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
fn count_avx512<R: Rule>(pieces: &mut Pieces, text: Counting<'_>, limit: u64) -> u64 {
    count_blocks::<R, Avx512>(pieces, text, limit)
}

#[inline(always)]
fn count_blocks<R: Rule, L: Lanes>(
    pieces: &mut Pieces,
    mut counting: Counting<'_>,
    limit: u64,
) -> u64 {
    pieces.restart();
    let text = counting.text();
    let (mut start, mut tokens) = (0, 0);
    // A piece has a token at least.
    while start < text.len() && tokens + pieces.found() <= limit {
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
            start = R::end(text, start);
            pieces.push(start);
        } else {
            start = pieces.push_all::<L>(start, ends);
        }
        if pieces.are_many() {
            tokens += pieces.count::<L>(&mut counting);
        }
    }
    tokens += pieces.count::<L>(&mut counting);
    tokens + pieces.finish::<L>(&mut counting)
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
    use super::super::vocabulary::{CL100K, O200K, P50K, R50K};
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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

    /// A memo that remembers nothing yet.
    fn empty() -> Memo {
        static NUMBER: AtomicU64 = AtomicU64::new(100);
        Memo::new(NUMBER.fetch_add(1, Relaxed))
    }

    /// The count by every level, with nothing remembered; by one of them again, with all remembered.
    fn levels<R: Rule>(vocabulary: &Vocabulary, text: &str) -> Vec<u64> {
        let (text, all, memo) = (text.as_bytes(), u64::MAX, empty());
        let new = || Counting::new(vocabulary, empty(), text);
        let same = || Counting::new(vocabulary, memo, text);
        let pieces = &mut Pieces::new();
        vec![
            count_blocks::<R, Portable>(pieces, same(), all),
            count_blocks::<R, Portable>(pieces, same(), all),
            #[cfg(target_arch = "x86_64")]
            count_blocks::<R, Sse2>(pieces, new(), all),
            #[cfg(target_arch = "x86_64")]
            count_by_avx2::<R>(pieces, new()),
            count_new::<R>(new(), all),
        ]
    }

    #[cfg(target_arch = "x86_64")]
    fn count_by_avx2<R: Rule>(pieces: &mut Pieces, text: Counting<'_>) -> u64 {
        if Avx2::is_detected() {
            // SAFETY: the machine has what the function needs.
            unsafe { count_avx2::<R>(pieces, text, u64::MAX) }
        } else {
            count_blocks::<R, Sse2>(pieces, text, u64::MAX)
        }
    }

    fn check<R: Rule>(vocabulary: &Vocabulary, text: &str) {
        let expected = count_one_by_one::<R>(vocabulary, text.as_bytes(), u64::MAX);
        let made = levels::<R>(vocabulary, text);
        assert!(
            made.iter().all(|&made| made == expected),
            "{made:?}, not {expected}: {text:?}"
        );
    }

    #[test]
    fn test_every_level_counts_the_same() {
        let mut seed = 7_u64;
        for _ in 0..10_000 {
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

    /// `benches/exactness.py` writes the file: encoding, text, tokens of `tiktoken`.
    #[test]
    fn test_every_level_counts_as_the_file_says() {
        let Ok(path) = std::env::var("TOKENCTX_COUNTS") else {
            println!("skipped: TOKENCTX_COUNTS names no file");
            return;
        };
        let file = std::fs::read(path).expect("a file");
        let rows: Vec<(String, String, u64)> = serde_json::from_slice(&file).expect("rows");
        for (encoding, text, tokens) in rows {
            let made = match encoding.as_bytes()[0] {
                b'o' => levels::<O200k>(&O200K, &text),
                b'c' => levels::<Cl100k>(&CL100K, &text),
                b'p' => levels::<R50k>(&P50K, &text),
                _ => levels::<R50k>(&R50K, &text),
            };
            assert!(
                made.iter().all(|&made| made == tokens),
                "{encoding}: {made:?}, not {tokens}: {text:?}"
            );
        }
    }
}
