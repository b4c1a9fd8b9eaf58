//! NH, the universal hash of UMAC: four sums of a block of bytes and of key words.
//!
//! [`sums_of_lines`] takes whole lines of 32 bytes. By AVX2 it is two and a half times as fast as two sums of
//! 128 bits by products of 64 bits, and a fifth faster by what every x86-64 machine has; AVX-512 is no faster.
#![allow(
    unsafe_code,
    reason = "instructions that the compiler may not assume to be there"
)]

use crate::bpe::prefetch::prefetch;

/// Bytes that are added to the sums together.
pub(super) const LINE_BYTES: usize = 32;
const LINE_WORDS: usize = LINE_BYTES / 8;

/// So many lines before they are added, the memory is asked for them: a kilobyte.
const LINES_AHEAD: usize = 32;

/// How many sums there are, each with the key moved on by a word.
pub(super) const SUMS: usize = 4;

/// So many key words are needed beside one for each word of the text.
pub(super) const MORE_WORDS: usize = SUMS - 1;

/// For each sum, of all 64-bit words of `lines`: the halves of a word and those of its key word are added mod
/// 2^32, and the products of both halves are added up mod 2^64.
pub(super) fn sums_of_lines(words: &[u64], lines: &[[u8; LINE_BYTES]]) -> [u64; SUMS] {
    #[cfg(target_arch = "x86_64")]
    return match is_x86_feature_detected!("avx2") {
        // SAFETY: this machine has AVX2.
        true => unsafe { avx2(words, lines) },
        // SAFETY: every x86-64 machine has SSE2.
        false => unsafe { sse2(words, lines) },
    };
    #[cfg(target_arch = "aarch64")]
    return neon(words, lines);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return portable(words, lines);
}

/// The lines, each with the key words that it needs. Texts of a body are strewn about the memory, and machines guess
/// what is read next no further than to the end of a page: so it is asked for before.
#[inline(always)]
fn with_words<'t>(
    words: &'t [u64],
    lines: &'t [[u8; LINE_BYTES]],
) -> impl Iterator<Item = (&'t [u8; LINE_BYTES], &'t [u64; LINE_WORDS + MORE_WORDS])> {
    lines.iter().take(LINES_AHEAD).for_each(prefetch);
    lines.iter().enumerate().map_while(move |(nth, line)| {
        if let Some(soon) = lines.get(nth + LINES_AHEAD) {
            prefetch(soon);
        }
        Some((line, words.get(nth * LINE_WORDS..)?.first_chunk()?))
    })
}

#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn portable(words: &[u64], lines: &[[u8; LINE_BYTES]]) -> [u64; SUMS] {
    let mut sums = [0_u64; SUMS];
    for (line, words) in with_words(words, lines) {
        for (nth, text) in line.as_chunks().0.iter().enumerate() {
            let text = halves(u64::from_le_bytes(*text));
            for (moved, sum) in sums.iter_mut().enumerate() {
                let key = halves(words[nth + moved]);
                let mixed = |half: usize| u64::from(text[half].wrapping_add(key[half]));
                *sum = sum.wrapping_add(mixed(0) * mixed(1));
            }
        }
    }
    sums
}

/// The low half of a word, and the high one.
#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[expect(clippy::cast_possible_truncation)] // that is what halves are
fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    _mm_add_epi32, _mm_add_epi64, _mm_loadu_si128, _mm_mul_epu32, _mm_setzero_si128,
    _mm_srli_epi64, _mm256_add_epi32, _mm256_add_epi64, _mm256_loadu_si256, _mm256_mul_epu32,
    _mm256_setzero_si256, _mm256_srli_epi64,
};

#[cfg(target_arch = "x86_64")]
macro_rules! by_vectors {
    ($name:ident, $features:literal, $lanes:literal, $zero:ident, $load:ident, $add:ident, $shift:ident, $multiply:ident, $sum:ident) => {
        #[target_feature(enable = $features)]
        fn $name(words: &[u64], lines: &[[u8; LINE_BYTES]]) -> [u64; SUMS] {
            let mut sums = [$zero(); SUMS];
            for (line, words) in with_words(words, lines) {
                let (parts, _) = line.as_chunks::<{ 8 * $lanes }>();
                for (nth, part) in parts.iter().enumerate() {
                    // SAFETY: the reference is to so many bytes, and the load needs no alignment.
                    let text = unsafe { $load(part.as_ptr().cast()) };
                    for (moved, sum) in sums.iter_mut().enumerate() {
                        let keys = words[nth * $lanes + moved..].first_chunk::<$lanes>();
                        let Some(keys) = keys else { continue };
                        // SAFETY: the same of so many words.
                        let mixed = $add(text, unsafe { $load(keys.as_ptr().cast()) });
                        *sum = $sum(*sum, $multiply(mixed, $shift::<32>(mixed)));
                    }
                }
            }
            sums.map(|sum| {
                // SAFETY: any bits are words, of which it has as many.
                let lanes: [u64; $lanes] = unsafe { std::mem::transmute(sum) };
                lanes.into_iter().fold(0, u64::wrapping_add)
            })
        }
    };
}

#[cfg(target_arch = "x86_64")]
by_vectors!(
    sse2,
    "sse2",
    2,
    _mm_setzero_si128,
    _mm_loadu_si128,
    _mm_add_epi32,
    _mm_srli_epi64,
    _mm_mul_epu32,
    _mm_add_epi64
);

#[cfg(target_arch = "x86_64")]
by_vectors!(
    avx2,
    "avx2",
    4,
    _mm256_setzero_si256,
    _mm256_loadu_si256,
    _mm256_add_epi32,
    _mm256_srli_epi64,
    _mm256_mul_epu32,
    _mm256_add_epi64
);

#[cfg(target_arch = "aarch64")]
fn neon(words: &[u64], lines: &[[u8; LINE_BYTES]]) -> [u64; SUMS] {
    use std::arch::aarch64::{
        uint32x4_t, vaddq_u32, vaddvq_u64, vdupq_n_u64, vget_low_u32, vld1q_u32, vmlal_high_u32,
        vmlal_u32, vuzp1q_u32, vuzp2q_u32,
    };
    // SAFETY: the references are to sixteen bytes, and the load needs no alignment.
    let text = |bytes: &[u8; 16]| -> uint32x4_t { unsafe { vld1q_u32(bytes.as_ptr().cast()) } };
    let key = |words: &[u64; 2]| -> uint32x4_t { unsafe { vld1q_u32(words.as_ptr().cast()) } };
    // SAFETY: every aarch64 machine has NEON.
    unsafe {
        let mut sums = [vdupq_n_u64(0); SUMS];
        for (line, words) in with_words(words, lines) {
            let halves = line.as_chunks().0;
            let (first, second) = (text(&halves[0]), text(&halves[1]));
            for (moved, sum) in sums.iter_mut().enumerate() {
                let keys = words[moved..].as_chunks().0;
                let first = vaddq_u32(first, key(&keys[0]));
                let second = vaddq_u32(second, key(&keys[1]));
                let (low, high) = (vuzp1q_u32(first, second), vuzp2q_u32(first, second));
                *sum = vmlal_u32(*sum, vget_low_u32(low), vget_low_u32(high));
                *sum = vmlal_high_u32(*sum, low, high);
            }
        }
        sums.map(|sum| vaddvq_u64(sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_machines_have_the_same_sums() {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(7);
            state ^ state >> 31
        };
        let words: Vec<u64> = (0..400).map(|_| next()).collect();
        let lines: Vec<[u8; LINE_BYTES]> = (0..90)
            .map(|_| std::array::from_fn(|_| next().to_le_bytes()[7]))
            .collect();
        for count in [0, 1, 2, 3, 90] {
            let lines = &lines[..count];
            let expected = portable(&words, lines);
            assert_eq!(sums_of_lines(&words, lines), expected);
            #[cfg(target_arch = "x86_64")]
            // SAFETY: every x86-64 machine has SSE2.
            assert_eq!(unsafe { sse2(&words, lines) }, expected);
        }
    }
}
