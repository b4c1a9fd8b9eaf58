//! Blocks by NEON, which every aarch64 machine has: 64 bytes of text at once.
#![allow(
    unsafe_code,
    reason = "instructions that the compiler does not vouch for"
)]

use std::arch::aarch64::{
    uint8x16_t, vandq_u8, vceqq_u8, vcgeq_u8, vcleq_u8, vdupq_n_u8, vgetq_lane_u64, vld1q_u8,
    vpaddq_u8, vreinterpretq_u64_u8, vsubq_u8,
};

use crate::bpe::split::block::{BLOCK, BlockBytes, Lanes};

/// Sixty-four bytes.
#[derive(Clone, Copy)]
pub(crate) struct Neon([uint8x16_t; 4]);

/// One bit of each byte of eight.
const BITS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];

#[inline(always)]
pub(crate) fn load(bytes: &[u8; 16]) -> uint8x16_t {
    // SAFETY: the reference is to sixteen bytes, and the load needs no alignment.
    unsafe { vld1q_u8(bytes.as_ptr()) }
}

// SAFETY of every block: every aarch64 machine has NEON, and only loads touch the memory.
impl Neon {
    /// One bit of each byte of `masks`, whose bytes are 0 or 255: neighbours are added up, three times.
    #[inline(always)]
    fn bits(masks: [uint8x16_t; 4]) -> u64 {
        let bits = load(&BITS);
        // SAFETY: see above.
        unsafe {
            let [a, b, c, d] = masks.map(|mask| vandq_u8(mask, bits));
            let sums = vpaddq_u8(vpaddq_u8(a, b), vpaddq_u8(c, d));
            vgetq_lane_u64::<0>(vreinterpretq_u64_u8(vpaddq_u8(sums, sums)))
        }
    }
}

impl Lanes for Neon {
    const WIDTH: usize = BLOCK;

    #[inline(always)]
    fn load(bytes: &BlockBytes, _part: usize) -> Neon {
        let (quarters, _) = bytes.as_chunks();
        Neon(std::array::from_fn(|at| load(&quarters[at])))
    }

    #[inline(always)]
    fn wide(self) -> u64 {
        // SAFETY: see above.
        Neon::bits(unsafe { self.0.map(|bytes| vcgeq_u8(bytes, vdupq_n_u8(0x80))) })
    }

    #[inline(always)]
    fn equal(self, byte: u8) -> u64 {
        // SAFETY: see above.
        Neon::bits(unsafe { self.0.map(|bytes| vceqq_u8(bytes, vdupq_n_u8(byte))) })
    }

    #[inline(always)]
    fn within(self, first: u8, last: u8) -> u64 {
        // SAFETY: see above.
        Neon::bits(unsafe {
            let (start, length) = (vdupq_n_u8(first), vdupq_n_u8(last - first));
            self.0.map(|bytes| vcleq_u8(vsubq_u8(bytes, start), length))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpe::split::block::Portable;

    #[test]
    fn test_neon_finds_the_same_bytes() {
        for first in (0..=255_u8).step_by(7) {
            let bytes: BlockBytes =
                std::array::from_fn(|at| first.wrapping_add(at.to_le_bytes()[0]));
            let parts = [0, 1, 2, 3].map(|part| Portable::load(&bytes, part));
            let all = |bits: &dyn Fn(Portable) -> u64| {
                let shifted = parts.iter().enumerate();
                shifted.fold(0, |all, (at, part)| all | bits(*part) << (16 * at))
            };
            let neon = Neon::load(&bytes, 0);
            assert_eq!(neon.wide(), all(&Portable::wide));
            assert_eq!(neon.equal(b'/'), all(&|part| part.equal(b'/')));
            for (low, high) in [(b'\t', b'\r'), (b'0', b'9'), (b'A', b'Z'), (b'a', b'z')] {
                assert_eq!(neon.within(low, high), all(&|part| part.within(low, high)));
            }
        }
    }
}
