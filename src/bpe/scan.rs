//! The way through a text: its pieces are found and counted, many at a time.
#![allow(
    unsafe_code,
    reason = "calls what was compiled for the machine that this is"
)]

use std::cell::RefCell;

use crate::bpe::merge::kernel::MergeKernel;
#[cfg(test)]
use crate::bpe::merge::piece;
use crate::bpe::pieces::{Counting, Pieces};
#[cfg(target_arch = "x86_64")]
use crate::bpe::split::avx512::Avx512;
#[cfg(target_arch = "x86_64")]
use crate::bpe::split::simd::Avx2;
use crate::bpe::split::{Base, Rule};
use crate::bpe::table::Vocabulary;
use crate::bpe::table::memo::{Memo, MemoKey};
use crate::interrupt;

thread_local!(static PIECES: RefCell<Pieces> = const { RefCell::new(Pieces::new()) });

/// Tokens of `text`, or any number above `limit` if that is where it leads; only its pieces are remembered.
pub(super) fn count_part<R: Rule>(
    vocabulary: &Vocabulary,
    key: MemoKey,
    text: &[u8],
    limit: u64,
) -> u64 {
    let memo = Memo::new(vocabulary.number, key);
    count_new::<R>(Counting::new(vocabulary, memo, text), limit)
}

/// The same, of a text that is not remembered.
///
/// The thread's pieces are taken already where whoever watches a count counts something else.
fn count_new<R: Rule>(text: Counting<'_>, limit: u64) -> u64 {
    PIECES.with(|kept| match kept.try_borrow_mut() {
        Ok(mut pieces) => {
            let pieces = Ended(&mut pieces);
            count_detected::<R>(pieces.0, text, limit)
        }
        Err(_) => count_detected::<R>(&mut Pieces::new(), text, limit),
    })
}

/// Pieces whose text is overwritten if the count is ended from outside.
struct Ended<'p>(&'p mut Pieces);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            *self.0 = Pieces::new();
        }
    }
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
        count_blocks::<R, Base>(pieces, text, limit)
    }
    #[cfg(not(target_arch = "x86_64"))]
    count_blocks::<R, Base>(pieces, text, limit)
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
fn count_blocks<R: Rule, L: MergeKernel>(
    pieces: &mut Pieces,
    mut counting: Counting<'_>,
    limit: u64,
) -> u64 {
    pieces.restart();
    let text = counting.text();
    let (mut start, mut tokens) = (0, 0);
    // A piece has a token at least.
    while start < text.len() && tokens + pieces.found() <= limit {
        start = pieces.find::<R, L>(text, start);
        if pieces.are_many() {
            interrupt::poll();
            tokens += pieces.count::<L>(&mut counting);
        }
    }
    tokens += pieces.count::<L>(&mut counting);
    tokens + pieces.finish::<L>(&mut counting)
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
    use super::*;
    use crate::bpe::borders::block_ends;
    use crate::bpe::random_texts::{ATOMS, random_texts};
    use crate::bpe::split::block::{BLOCK, Lanes, Portable};
    use crate::bpe::split::deepseek::DeepSeek;
    use crate::bpe::split::{Cl100k, Gemma, Kimi, Llama3, O200k, Qwen, R50k, Tekken};
    use crate::bpe::table::ranks::tests::ODD;
    use crate::bpe::table::{CL100K, DEEPSEEK_V3, GEMMA, MISTRAL_V3, O200K, P50K, QWEN2, R50K};
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// Checks the ends that blocks tell; returns how many they are.
    #[inline(always)]
    fn check_ends<R: Rule, L: Lanes>(text: &str) -> u32 {
        let (text, mut start, mut told) = (text.as_bytes(), 0, 0);
        while start < text.len() {
            let ends = block_ends::<R, L>(&text[start..]);
            let (mut expected, mut at) = (0, start);
            while at < text.len() && at < start + BLOCK && ends >> (at - start) != 0 {
                at = R::end(text, at);
                expected |= 1_u64 << (at - start - 1);
            }
            assert_eq!(ends, expected, "{:?}", &text[start..]);
            told += ends.count_ones();
            start = at.max(R::end(text, start));
        }
        told
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,bmi1,bmi2,lzcnt,popcnt")]
    fn check_ends_by_avx512<R: Rule>(text: &str) -> u32 {
        check_ends::<R, Avx512>(text)
    }

    fn check_ends_by_all<R: Rule>(text: &str) -> [u32; 2] {
        let told = check_ends::<R, Portable>(text);
        #[cfg(target_arch = "x86_64")]
        if Avx512::is_detected() {
            // SAFETY: the machine has what the function needs.
            return [told, unsafe { check_ends_by_avx512::<R>(text) }];
        }
        [told, check_ends::<R, Base>(text)]
    }

    #[test]
    fn test_blocks_find_the_ends_of_the_rule() {
        let mut told = [0, 0];
        for text in random_texts(ATOMS, 7, 10_000) {
            for [portable, all] in [
                check_ends_by_all::<O200k>(&text),
                check_ends_by_all::<Cl100k>(&text),
                check_ends_by_all::<R50k>(&text),
                check_ends_by_all::<Gemma>(&text),
                check_ends_by_all::<Kimi>(&text),
                check_ends_by_all::<Llama3>(&text),
                check_ends_by_all::<Qwen>(&text),
                check_ends_by_all::<Tekken>(&text),
            ] {
                told = [told[0] + portable, told[1] + all];
            }
        }
        assert!(told[1] >= told[0] && told[0] > 100_000, "{told:?}");
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn test_blocks_know_every_character() {
        if !Avx512::is_detected() {
            println!("skipped: only AVX-512 classifies characters that are not ASCII");
            return;
        }
        let characters: Vec<char> = ('\0'..=char::MAX).collect();
        for (number, some) in characters.chunks(9).enumerate() {
            let mut text = "-".repeat(number % 7);
            for (&character, around) in some.iter().zip(["a.", "B", " ", "\n"].iter().cycle()) {
                text.extend([character, 'x', character, character]);
                text.push_str(around);
            }
            // SAFETY: the machine has what the functions need.
            unsafe {
                check_ends_by_avx512::<O200k>(&text);
                check_ends_by_avx512::<Cl100k>(&text);
                check_ends_by_avx512::<Kimi>(&text);
                check_ends_by_avx512::<Qwen>(&text);
                check_ends_by_avx512::<Tekken>(&text);
            }
        }
    }

    /// A memo that remembers nothing yet.
    fn empty() -> Memo {
        static NUMBER: AtomicU64 = AtomicU64::new(100);
        Memo::new(NUMBER.fetch_add(1, Relaxed), MemoKey::default())
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
            count_blocks::<R, Base>(pieces, new(), all),
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
            count_blocks::<R, Base>(pieces, text, u64::MAX)
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
        for text in random_texts(ATOMS, 7, 10_000) {
            check::<O200k>(&O200K, &text);
            check::<Cl100k>(&CL100K, &text);
            check::<R50k>(R50K.get(), &text);
            check::<Gemma>(GEMMA.get(), &text);
            check::<DeepSeek>(DEEPSEEK_V3.get(), &text);
            check::<Kimi>(QWEN2.get(), &text);
            check::<Qwen>(QWEN2.get(), &text);
            check::<Tekken>(MISTRAL_V3.get(), &text);
            check::<O200k>(&ODD, &text);
            check::<R50k>(&ODD, &text);
        }
    }

    #[test]
    fn test_a_count_that_is_ended_leaves_no_text() {
        fn end() {
            std::panic::resume_unwind(Box::new("ended"));
        }
        let text = "qzxvj wkqxz\u{e9}bvq jjxqk ".repeat(500);
        let count =
            || count_new::<O200k>(Counting::new(&O200K, empty(), text.as_bytes()), u64::MAX);
        let expected = count();
        let count_on = || {
            loop {
                assert_eq!(count(), expected);
            }
        };
        for _ in 0..4 {
            let ended = std::panic::catch_unwind(|| interrupt::watched(end, count_on));
            assert!(ended.expect_err("it was ended").is::<&str>());
            PIECES.with_borrow(|pieces| assert!(!pieces.hold_text()));
            assert_eq!(count(), expected);
        }
    }

    /// `benches/exactness.py` writes the file: encoding, text, tokens of `tiktoken`.
    #[test]
    fn test_every_level_counts_as_the_file_says() {
        let Ok(path) = std::env::var("TOKENCTX_TOKENS") else {
            println!("skipped: TOKENCTX_TOKENS names no file");
            return;
        };
        let file = std::fs::read(path).expect("a file");
        let rows: Vec<(String, String, Vec<u32>)> = serde_json::from_slice(&file).expect("rows");
        for (encoding, text, tokens) in rows {
            let tokens = tokens.len() as u64;
            let made = match encoding.as_bytes()[0] {
                b'o' => levels::<O200k>(&O200K, &text),
                b'c' => levels::<Cl100k>(&CL100K, &text),
                b'p' => levels::<R50k>(P50K.get(), &text),
                b'd' => levels::<DeepSeek>(DEEPSEEK_V3.get(), &text),
                b'm' => levels::<Tekken>(MISTRAL_V3.get(), &text),
                b'q' => levels::<Qwen>(QWEN2.get(), &text),
                _ => levels::<R50k>(R50K.get(), &text),
            };
            assert!(
                made.iter().all(|&made| made == tokens),
                "{encoding}: {made:?}, not {tokens}: {text:?}"
            );
        }
    }
}
