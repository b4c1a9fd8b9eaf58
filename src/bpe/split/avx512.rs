//! Blocks by AVX-512: 64 bytes of text at once.
//!
//! The results are defined by [`block`](crate::bpe::split::block), whose portable code the tests compare with
//! this.
#![allow(
    unsafe_code,
    reason = "instructions that the compiler may not assume to be there"
)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "sizes of tables and bits of a mask"
)]
#![allow(
    clippy::wildcard_imports,
    reason = "the instructions have a prefix of their own"
)]

use std::arch::x86_64::*;

use crate::bpe::level::SimdLevel;
use crate::bpe::split::block::{BLOCK, Block, BlockBytes, Lanes};
use crate::bpe::split::characters;

/// Sixty-four bytes. Only to be used where [`is_detected`](Avx512::is_detected) says so.
#[derive(Clone, Copy)]
pub(in crate::bpe) struct Avx512(__m512i);

impl Avx512 {
    /// True if texts are counted so: this machine can, and no lower level was chosen.
    #[inline]
    pub(in crate::bpe) fn is_detected() -> bool {
        SimdLevel::Avx512.is_used()
    }
}

// SAFETY of every block: functions of this type are reached only through `count_avx512` of
// `scan.rs`, after detection.
impl Lanes for Avx512 {
    const WIDTH: usize = 64;

    #[inline(always)]
    fn load(bytes: &BlockBytes, _part: usize) -> Self {
        // SAFETY: a block has 64 bytes, and the load needs no alignment.
        Self(unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) })
    }

    #[inline(always)]
    fn wide(self) -> u64 {
        // SAFETY: see above.
        unsafe { _mm512_movepi8_mask(self.0) }
    }

    #[inline(always)]
    fn equal(self, byte: u8) -> u64 {
        // SAFETY: see above.
        unsafe { _mm512_cmpeq_epi8_mask(self.0, _mm512_set1_epi8(byte.cast_signed())) }
    }

    #[inline(always)]
    fn within(self, first: u8, last: u8) -> u64 {
        // SAFETY: see above.
        unsafe {
            let above = _mm512_sub_epi8(self.0, _mm512_set1_epi8(first.cast_signed()));
            _mm512_cmple_epu8_mask(above, _mm512_set1_epi8((last - first).cast_signed()))
        }
    }

    const CHARACTERS: bool = true;

    #[inline(always)]
    fn characters(bytes: &BlockBytes, block: &mut Block) {
        // SAFETY: see above.
        unsafe { characters::set(bytes, block) }
    }

    #[inline(always)]
    fn spread(bits: u64, places: u64) -> u64 {
        if places == u64::MAX {
            bits
        } else {
            // SAFETY: see above.
            unsafe { _pdep_u64(bits, places) }
        }
    }

    #[inline(always)]
    fn places(start: usize, bits: u64, places: &mut [usize; BLOCK]) {
        // SAFETY: see above.
        unsafe { self::places(start, bits, places) }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
fn places(start: usize, bits: u64, places: &mut [usize; BLOCK]) {
    let numbers: [u8; BLOCK] = std::array::from_fn(|number| number as u8 + 1);
    // SAFETY: as many bytes.
    let numbers = unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) };
    let mut numbers = _mm512_maskz_compress_epi8(bits, numbers);
    let start = _mm512_set1_epi64(start as i64);
    let mut left = bits.count_ones();
    for places in places.as_chunks_mut::<16>().0 {
        let bytes = _mm512_castsi512_si128(numbers);
        let low = _mm512_add_epi64(_mm512_cvtepu8_epi64(bytes), start);
        let high = _mm512_add_epi64(_mm512_cvtepu8_epi64(_mm_bsrli_si128::<8>(bytes)), start);
        // SAFETY: there are sixteen.
        unsafe {
            _mm512_storeu_si512(places.as_mut_ptr().cast(), low);
            _mm512_storeu_si512(places.as_mut_ptr().add(8).cast(), high);
        }
        if left <= 16 {
            break;
        }
        left -= 16;
        numbers = _mm512_alignr_epi32::<4>(numbers, numbers);
    }
}
