//! Blocks by NEON, which every aarch64 machine has: 64 bytes of text at once.
#![allow(
    unsafe_code,
    reason = "instructions that the compiler does not vouch for"
)]

use std::arch::aarch64::{
    uint8x16_t, vceqq_u8, vcleq_u8, vdupq_n_u8, vget_lane_u64, vld1q_u8, vld4q_u8,
    vreinterpret_u64_u8, vreinterpretq_u16_u8, vshrn_n_u16, vsriq_n_u8, vsubq_u8,
};

use crate::bpe::split::block::{BLOCK, BlockBytes, Lanes};

/// Sixty-four bytes: the first vector has every fourth of them, from the first on, the next vector from
/// the second on, and so on.
#[derive(Clone, Copy)]
pub(crate) struct Neon([uint8x16_t; 4]);

#[inline(always)]
pub(crate) fn load(bytes: &[u8; 16]) -> uint8x16_t {
    // SAFETY: the reference is to sixteen bytes, and the load needs no alignment.
    unsafe { vld1q_u8(bytes.as_ptr()) }
}

// SAFETY of every block: every aarch64 machine has NEON, and only loads touch the memory.
impl Neon {
    /// The highest bit of each byte of `masks`, in the order of the text.
    ///
    /// Four neighbours are at the same place of the four vectors: each insertion puts bits of one vector beside
    /// those of another, until half a byte has all four. These are seven instructions; to add up bits of
    /// vectors that have their bytes as the text has them takes nine, and needs whole bytes of ones.
    #[inline(always)]
    fn bits(masks: [uint8x16_t; 4]) -> u64 {
        let [first, second, third, fourth] = masks;
        // SAFETY: see above.
        unsafe {
            let low = vsriq_n_u8::<1>(second, first);
            let high = vsriq_n_u8::<1>(fourth, third);
            let four = vsriq_n_u8::<2>(high, low);
            let twice = vsriq_n_u8::<4>(four, four);
            let all = vshrn_n_u16::<4>(vreinterpretq_u16_u8(twice));
            vget_lane_u64::<0>(vreinterpret_u64_u8(all))
        }
    }
}

/// The highest bit of a word.
const HIGHEST: u64 = 1 << 63;

/// Places that are written at once; most blocks have fewer.
const AT_ONCE: usize = 16;

impl Lanes for Neon {
    const WIDTH: usize = BLOCK;

    #[inline(always)]
    fn load(bytes: &BlockBytes, _part: usize) -> Neon {
        // SAFETY: the reference is to 64 bytes, and the load needs no alignment.
        let parts = unsafe { vld4q_u8(bytes.as_ptr()) };
        Neon([parts.0, parts.1, parts.2, parts.3])
    }

    #[inline(always)]
    fn wide(self) -> u64 {
        Neon::bits(self.0)
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

    /// The places are counted from the other end, since this machine counts leading zeros only.
    #[inline(always)]
    fn places(start: usize, bits: u64, places: &mut [usize; BLOCK]) {
        let mut bits = bits.reverse_bits();
        for places in places.as_chunks_mut::<AT_ONCE>().0 {
            for place in places {
                let zeros = bits.leading_zeros();
                *place = start.wrapping_add(zeros as usize + 1);
                bits &= !HIGHEST.wrapping_shr(zeros);
            }
            if bits == 0 {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpe::split::block::Portable;

    #[test]
    fn test_neon_finds_the_same_places() {
        for bits in [0, 1, 1 << 63, 0x8001, u64::MAX, 0x1FFFF] {
            let (mut neon, mut portable) = ([0; BLOCK], [0; BLOCK]);
            Neon::places(100, bits, &mut neon);
            Portable::places(100, bits, &mut portable);
            let found = bits.count_ones() as usize;
            assert_eq!(neon[..found], portable[..found], "{bits:x}");
        }
    }

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
