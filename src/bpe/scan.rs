//! The way through a text: pieces 64 bytes at a time, and one by one where a block does not tell.
#![allow(
    unsafe_code,
    reason = "calls what was compiled for the machine that this is"
)]

use super::block::{Block, Lanes, Window, padded};
#[cfg(target_arch = "x86_64")]
use super::lanes::{Avx2, Sse2};
use super::piece;
use super::split::Rule;
use super::vocabulary::Vocabulary;

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
    count_one_by_one::<R>(vocabulary, text, limit)
}

/// [`count_blocks`], compiled for machines with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn count_avx2<R: Rule>(vocabulary: &Vocabulary, text: &[u8], limit: u64) -> u64 {
    count_blocks::<R, Avx2>(vocabulary, text, limit)
}

#[inline(always)]
fn count_blocks<R: Rule, L: Lanes>(vocabulary: &Vocabulary, text: &[u8], limit: u64) -> u64 {
    let (mut start, mut tokens) = (0, 0);
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
                0 => L::count_unknown(vocabulary, text, start, end),
                count => count,
            };
            start = end;
            continue;
        }
        let mut at = 0;
        while ends != 0 {
            let end = ends.trailing_zeros() as usize + 1;
            tokens += match vocabulary.count(window, at, end.wrapping_sub(at)) {
                0 => L::count_unknown(vocabulary, text, start + at, start + end),
                count => count,
            };
            at = end;
            ends &= ends - 1;
        }
        start += at;
    }
    tokens
}

/// True if one of the first bytes is not ASCII: then no block is worth its cost.
#[inline(always)]
fn starts_wide(window: &Window) -> bool {
    window.first_chunk::<8>().is_some_and(|first| !first.is_ascii())
}

#[cfg(any(test, not(target_arch = "x86_64")))]
fn count_one_by_one<R: Rule>(vocabulary: &Vocabulary, text: &[u8], limit: u64) -> u64 {
    let (mut start, mut tokens) = (0, 0);
    while start < text.len() && tokens <= limit {
        let end = R::end(text, start);
        tokens += piece::count(vocabulary, text, start, end);
        start = end;
    }
    tokens
}
