//! The vector instructions behind [`Block`](crate::bpe::split::block::Block).
#![allow(
    unsafe_code,
    reason = "instructions that the compiler may not assume to be there"
)]

use std::arch::x86_64::{
    __m128i, __m256i, _mm_add_epi8, _mm_cmpeq_epi8, _mm_cmpgt_epi8, _mm_loadu_si128,
    _mm_movemask_epi8, _mm_set1_epi8, _mm256_add_epi8, _mm256_cmpeq_epi8, _mm256_cmpgt_epi8,
    _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_set1_epi8,
};

use crate::bpe::level::SimdLevel;
use crate::bpe::split::block::{BlockBytes, Lanes};

/// Sixteen bytes, by instructions that every x86-64 machine has.
#[derive(Clone, Copy)]
pub(crate) struct Sse2(__m128i);

/// Thirty-two bytes. Only to be used where [`is_detected`](Avx2::is_detected) says so.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(__m256i);

impl Avx2 {
    /// True if texts are counted so: this machine can, and no lower level was chosen.
    #[inline]
    pub(crate) fn is_detected() -> bool {
        SimdLevel::Avx2.is_used()
    }
}

macro_rules! lanes {
    ($name:ident, $width:literal, $load:ident, $set:ident, $equal:ident, $add:ident, $above:ident, $bits:ident) => {
        // SAFETY of every block: every x86-64 machine has the instructions of `Sse2`; those of
        // `Avx2` are reached only through the function that `encoding.rs` calls after detection.
        impl Lanes for $name {
            const WIDTH: usize = $width;

            #[inline(always)]
            fn load(bytes: &BlockBytes, part: usize) -> Self {
                let part: &[u8; $width] = &bytes.as_chunks().0[part];
                // SAFETY: the reference is to `$width` bytes, and the load needs no alignment.
                Self(unsafe { $load(part.as_ptr().cast()) })
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
    _mm_movemask_epi8
);
lanes!(
    Avx2,
    32,
    _mm256_loadu_si256,
    _mm256_set1_epi8,
    _mm256_cmpeq_epi8,
    _mm256_add_epi8,
    _mm256_cmpgt_epi8,
    _mm256_movemask_epi8
);

/// The number to add to a byte, so that `first..=last` and no other byte is then above the second result,
/// as a signed number: the instructions compare no others.
#[inline(always)]
fn range(first: u8, last: u8) -> (i8, i8) {
    let shift = i8::MAX - last.cast_signed();
    (shift, shift + first.cast_signed() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpe::split::avx512::Avx512;
    use crate::bpe::split::block::BLOCK;

    #[allow(clippy::cast_possible_truncation, reason = "a byte below 256")]
    fn check<L: Lanes>() {
        for first in (0..=255_u8).step_by(BLOCK) {
            let bytes: BlockBytes = std::array::from_fn(|at| first.wrapping_add(at as u8));
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
