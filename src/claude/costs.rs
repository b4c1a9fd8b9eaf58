//! The least numbers of tokens up to the last sixteen bytes of a text, side by side.
//!
//! They are the bytes of one vector. The compiler makes branches of the same written for any machine.
#![allow(
    unsafe_code,
    reason = "instructions that the compiler may not assume to be there"
)]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m128i, _mm_adds_epu8, _mm_and_si128, _mm_cvtsi32_si128, _mm_cvtsi128_si32, _mm_loadu_si128,
    _mm_min_epu8, _mm_or_si128, _mm_slli_si128, _mm_srli_si128,
};

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::{
    uint8x16_t, vdupq_n_u8, vextq_u8, vgetq_lane_u8, vminq_u8, vminvq_u8, vqaddq_u8,
};

use super::layout::LANES;
#[cfg(target_arch = "aarch64")]
use crate::bpe::split::neon::load;

#[cfg(target_arch = "x86_64")]
type Vector = __m128i;
#[cfg(target_arch = "aarch64")]
type Vector = uint8x16_t;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
type Vector = [u8; LANES];

/// Byte `n` is the least number up to `n` bytes before; 255 stands for never.
#[derive(Clone, Copy)]
pub(super) struct Costs(Vector);

#[cfg(target_arch = "x86_64")]
// SAFETY of every block: every x86-64 machine has SSE2.
impl Costs {
    /// Of a text of which nothing was read.
    #[inline(always)]
    pub(super) fn start() -> Costs {
        let mut start = [u8::MAX; LANES];
        start[0] = 0;
        Costs(load(&start))
    }

    /// One byte on, given the tokens of the pieces that end there, by their length, and those of a
    /// character.
    #[inline(always)]
    pub(super) fn next(self, pieces: &[u8; LANES], alone: &[u8; LANES]) -> Costs {
        // SAFETY: see above.
        unsafe {
            let last = _mm_min_epu8(load(pieces), load(alone));
            let mut least = _mm_adds_epu8(self.0, last);
            least = _mm_min_epu8(least, _mm_srli_si128::<8>(least));
            least = _mm_min_epu8(least, _mm_srli_si128::<4>(least));
            least = _mm_min_epu8(least, _mm_srli_si128::<2>(least));
            least = _mm_min_epu8(least, _mm_srli_si128::<1>(least));
            let least = _mm_and_si128(least, _mm_cvtsi32_si128(0xFF));
            Costs(_mm_or_si128(_mm_slli_si128::<1>(self.0), least))
        }
    }

    /// The least number up to here.
    #[inline(always)]
    pub(super) fn last(self) -> u8 {
        // SAFETY: see above.
        let [last, ..] = unsafe { _mm_cvtsi128_si32(self.0) }.to_le_bytes();
        last
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn load(bytes: &[u8; LANES]) -> Vector {
    // SAFETY: the reference is to sixteen bytes, and the load needs no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[cfg(target_arch = "aarch64")]
// SAFETY of every block: every aarch64 machine has NEON.
impl Costs {
    /// Of a text of which nothing was read.
    #[inline(always)]
    pub(super) fn start() -> Costs {
        let mut start = [u8::MAX; LANES];
        start[0] = 0;
        Costs(load(&start))
    }

    /// One byte on, given the tokens of the pieces that end there, by their length, and those of a
    /// character.
    #[inline(always)]
    pub(super) fn next(self, pieces: &[u8; LANES], alone: &[u8; LANES]) -> Costs {
        // SAFETY: see above.
        unsafe {
            let last = vminq_u8(load(pieces), load(alone));
            let least = vdupq_n_u8(vminvq_u8(vqaddq_u8(self.0, last)));
            Costs(vextq_u8::<15>(least, self.0))
        }
    }

    /// The least number up to here.
    #[inline(always)]
    pub(super) fn last(self) -> u8 {
        // SAFETY: see above.
        unsafe { vgetq_lane_u8::<0>(self.0) }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
impl Costs {
    /// Of a text of which nothing was read.
    pub(super) fn start() -> Costs {
        let mut start = [u8::MAX; LANES];
        start[0] = 0;
        Costs(start)
    }

    /// One byte on, given the tokens of the pieces that end there, by their length, and those of a
    /// character.
    pub(super) fn next(self, pieces: &[u8; LANES], alone: &[u8; LANES]) -> Costs {
        let mut costs = [u8::MAX; LANES];
        for at in 0..LANES {
            let tokens = pieces[at].min(alone[at]);
            costs[0] = costs[0].min(self.0[at].saturating_add(tokens));
        }
        costs[1..].copy_from_slice(&self.0[..LANES - 1]);
        Costs(costs)
    }

    /// The least number up to here.
    pub(super) fn last(self) -> u8 {
        self.0[0]
    }
}
