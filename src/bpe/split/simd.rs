//! The vector instructions behind [`Block`](crate::bpe::split::block::Block).
#![allow(
    unsafe_code,
    reason = "instructions that the compiler may not assume to be there"
)]

use std::arch::x86_64::{
    __m128i, __m256i, _MM_HINT_T0, _mm_add_epi8, _mm_cmpeq_epi8, _mm_cmpgt_epi8, _mm_loadu_si128,
    _mm_movemask_epi8, _mm_prefetch, _mm_set1_epi8, _mm256_add_epi8, _mm256_cmpeq_epi8,
    _mm256_cmpgt_epi8, _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_set1_epi8,
};

use crate::bpe::merge::batch::Together;
use crate::bpe::merge::long;
use crate::bpe::merge::long_batch::Waiting;
use crate::bpe::merge::window::OneByOne;
use crate::bpe::split::block::{Lanes, Window};
use crate::bpe::table::Vocabulary;

/// Sixteen bytes, by instructions that every x86-64 machine has.
#[derive(Clone, Copy)]
pub(crate) struct Sse2(__m128i);

/// Thirty-two bytes. Only to be used where [`is_detected`](Avx2::is_detected) says so.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(__m256i);

impl Avx2 {
    /// True if this machine has AVX2 and the bit instructions that came with it.
    #[inline]
    pub(crate) fn is_detected() -> bool {
        is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt")
    }
}

macro_rules! lanes {
    ($name:ident, $width:literal, $load:ident, $set:ident, $equal:ident, $add:ident, $above:ident, $bits:ident, $count:expr, $join:expr, $read:expr) => {
        // SAFETY of every block: every x86-64 machine has the instructions of `Sse2`; those of
        // `Avx2` are reached only through the function that `encoding.rs` calls after detection.
        impl Lanes for $name {
            const WIDTH: usize = $width;

            #[inline(always)]
            fn load(window: &Window, part: usize) -> Self {
                let bytes: &[u8; $width] = &window.as_chunks().0[part];
                // SAFETY: the reference is to `$width` bytes, and the load needs no alignment.
                Self(unsafe { $load(bytes.as_ptr().cast()) })
            }

            #[inline(always)]
            fn wide(self) -> u64 {
                // SAFETY: see above.
                u64::from(unsafe { $bits(self.0) }.cast_unsigned())
            }

            #[inline(always)]
            fn equal(self, byte: u8) -> u64 {
                // SAFETY: see above.
                Self(unsafe { $equal(self.0, $set(byte.cast_signed())) }).wide()
            }

            #[inline(always)]
            fn within(self, first: u8, last: u8) -> u64 {
                let (shift, below) = range(first, last);
                // SAFETY: see above.
                Self(unsafe { $above($add(self.0, $set(shift)), $set(below)) }).wide()
            }

            #[inline(always)]
            fn count_long(vocabulary: &Vocabulary, cell: &[u8]) -> u64 {
                // SAFETY: see above.
                #[allow(unused_unsafe)]
                unsafe {
                    $count(vocabulary, cell)
                }
            }

            #[inline(always)]
            fn join(together: &mut Together, vocabulary: &Vocabulary) {
                // SAFETY: see above.
                #[allow(unused_unsafe)]
                unsafe {
                    $join(together, vocabulary)
                }
            }

            #[inline(always)]
            fn read(waiting: &mut Waiting<'_>, vocabulary: &Vocabulary) {
                // SAFETY: see above.
                #[allow(unused_unsafe)]
                unsafe {
                    $read(waiting, vocabulary)
                }
            }
        }
    };
}

lanes!(
    Sse2,
    16,
    _mm_loadu_si128,
    _mm_set1_epi8,
    _mm_cmpeq_epi8,
    _mm_add_epi8,
    _mm_cmpgt_epi8,
    _mm_movemask_epi8,
    count_sse2,
    join_sse2,
    read_sse2
);
lanes!(
    Avx2,
    32,
    _mm256_loadu_si256,
    _mm256_set1_epi8,
    _mm256_cmpeq_epi8,
    _mm256_add_epi8,
    _mm256_cmpgt_epi8,
    _mm256_movemask_epi8,
    count_avx2,
    join_avx2,
    read_avx2
);

/// See [`block::prefetch`](crate::bpe::split::block::prefetch).
#[inline(always)]
pub(in crate::bpe) fn prefetch<T>(soon: &T) {
    // SAFETY: every x86-64 machine has it, and it reads nothing.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(soon).cast()) }
}

#[inline(never)]
fn count_sse2(vocabulary: &Vocabulary, cell: &[u8]) -> u64 {
    long::count::<OneByOne>(vocabulary, cell)
}

#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn count_avx2(vocabulary: &Vocabulary, cell: &[u8]) -> u64 {
    long::count::<OneByOne>(vocabulary, cell)
}

#[inline(never)]
fn join_sse2(together: &mut Together, vocabulary: &Vocabulary) {
    together.join(vocabulary);
}

#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn join_avx2(together: &mut Together, vocabulary: &Vocabulary) {
    together.join(vocabulary);
}

#[inline(never)]
fn read_sse2(waiting: &mut Waiting<'_>, vocabulary: &Vocabulary) {
    waiting.read::<OneByOne>(vocabulary);
}

#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn read_avx2(waiting: &mut Waiting<'_>, vocabulary: &Vocabulary) {
    waiting.read::<OneByOne>(vocabulary);
}

/// What to add to a byte, so that `first..=last` and no other byte is then above the second result,
/// as a signed number: the instructions compare no others.
#[inline(always)]
fn range(first: u8, last: u8) -> (i8, i8) {
    let shift = i8::MAX - last.cast_signed();
    (shift, shift + first.cast_signed() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpe::merge::avx512::Avx512;
    use crate::bpe::split::block::BLOCK;

    #[allow(clippy::cast_possible_truncation, reason = "a byte below 256")]
    fn check<L: Lanes>() {
        for first in (0..=255_u8).step_by(BLOCK) {
            let bytes: Window = std::array::from_fn(|at| first.wrapping_add(at as u8));
            for part in 0..BLOCK / L::WIDTH {
                let bits = |belongs: &dyn Fn(u8) -> bool| {
                    let part = &bytes[part * L::WIDTH..][..L::WIDTH];
                    part.iter()
                        .rev()
                        .fold(0, |bits, &byte| bits << 1 | u64::from(belongs(byte)))
                };
                let lanes = L::load(&bytes, part);
                assert_eq!(lanes.wide(), bits(&|byte| byte >= 0x80));
                assert_eq!(lanes.equal(b'/'), bits(&|byte| byte == b'/'));
                for (low, high) in [(b'\t', b'\r'), (b'0', b'9'), (b'A', b'Z'), (b'a', b'z')] {
                    let within = |byte| (low..=high).contains(&byte);
                    assert_eq!(lanes.within(low, high), bits(&within));
                }
            }
        }
    }

    #[test]
    fn test_every_level_finds_the_same_bytes() {
        check::<Sse2>();
        if Avx2::is_detected() {
            check::<Avx2>();
        }
        if Avx512::is_detected() {
            check::<Avx512>();
        }
    }
}
