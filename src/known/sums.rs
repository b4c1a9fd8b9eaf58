//! The sums behind fingerprints: NH of words of 32 bits, made four times, by vector instructions.
//!
//! A block is read in stripes of sixteen words, of which the first eight make pairs with the last. In each pass a
//! stripe meets another stripe of the key: the stripe `n` meets that of `n`, `n + 1`, `n + 2` and `n + 3`.
//!
//! Tried: NH of words of 64 bits, made twice, which promises the same and takes twice the time, since a product
//! of 128 bits is made one at a time; AVX-512, which is a twentieth quicker than AVX2 on Zen 4; the same without
//! intrinsics, of which the compiler makes five times the time.
#![allow(
    unsafe_code,
    reason = "instructions that the compiler may not assume to be there"
)]

use crate::bpe::prefetch::prefetch;

/// The longest text that has one set of sums: nearly all messages have one, so BLAKE3 compresses once.
pub(super) const BLOCK_BYTES: usize = 8192;

/// How often a block is summed up, each time with another part of the key.
const PASSES: usize = 4;

/// Bytes of the sums of a block.
pub(super) const SUMS_BYTES: usize = 8 * PASSES;

const STRIPE_BYTES: usize = 64;
const HALF_BYTES: usize = STRIPE_BYTES / 2;

/// So many stripes before one is added, the memory is asked for it: texts of a body are strewn about, and machines
/// guess what is read next no further than to the end of a page.
const STRIPES_AHEAD: usize = 16;

/// Words of 32 bits, the low byte first.
type Stripe = [u8; STRIPE_BYTES];

/// The numbers that are added to the words of a block.
pub(super) type KeyStripes = [Stripe; BLOCK_BYTES / STRIPE_BYTES + PASSES - 1];

/// The sums of at most a block, which ends with zeros.
#[inline]
pub(super) fn sums_of(key: &KeyStripes, bytes: &[u8]) -> [u8; SUMS_BYTES] {
    debug_assert!(bytes.len() <= BLOCK_BYTES, "{} bytes", bytes.len());
    let sums = sums_detected(key, bytes);
    let mut written = [0; SUMS_BYTES];
    for (to, sum) in written.as_chunks_mut().0.iter_mut().zip(sums) {
        *to = sum.to_le_bytes();
    }
    written
}

/// [`sums`], by the best instructions of this machine.
#[cfg(target_arch = "x86_64")]
#[inline]
fn sums_detected(key: &KeyStripes, bytes: &[u8]) -> [u64; PASSES] {
    if crate::bpe::SimdLevel::Avx2.is_used() {
        // SAFETY: the machine has what the function needs.
        unsafe { sums_avx2(key, bytes) }
    } else {
        sums::<x86::Sse2>(key, bytes)
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sums_avx2(key: &KeyStripes, bytes: &[u8]) -> [u64; PASSES] {
    sums::<x86::Avx2>(key, bytes)
}

#[cfg(target_arch = "aarch64")]
fn sums_detected(key: &KeyStripes, bytes: &[u8]) -> [u64; PASSES] {
    sums::<neon::Neon>(key, bytes)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn sums_detected(key: &KeyStripes, bytes: &[u8]) -> [u64; PASSES] {
    sums::<Portable>(key, bytes)
}

/// Words side by side.
trait Vector: Copy {
    /// How many are half a stripe.
    const HALF: usize;
    /// Sums of products of 64 bits.
    type Sums: Copy;

    fn no_sums() -> Self::Sums;

    /// The vector at that place of a stripe.
    fn load(stripe: &Stripe, nth: usize) -> Self;

    /// `sums`, and the products of (`self` + `key`) and (`other` + `other_key`), which are added mod 2^32.
    fn add_products(self, key: Self, other: Self, other_key: Self, sums: Self::Sums) -> Self::Sums;

    /// The sum of the sums.
    fn total(sums: Self::Sums) -> u64;
}

#[inline(always)]
fn sums<V: Vector>(key: &KeyStripes, bytes: &[u8]) -> [u64; PASSES] {
    let (stripes, rest) = bytes.as_chunks();
    let mut keys = key.windows(PASSES);
    let mut sums = [V::no_sums(); PASSES];
    stripes.iter().take(STRIPES_AHEAD).for_each(prefetch);
    for ((nth, stripe), key) in stripes.iter().enumerate().zip(&mut keys) {
        if let Some(soon) = stripes.get(nth + STRIPES_AHEAD) {
            prefetch(soon);
        }
        add_stripe::<V>(&mut sums, stripe, key);
    }
    if let (false, Some(key)) = (rest.is_empty(), keys.next()) {
        let mut stripe = [0; STRIPE_BYTES];
        stripe[..rest.len()].copy_from_slice(rest);
        add_stripe::<V>(&mut sums, &stripe, key);
    }
    sums.map(V::total)
}

#[inline(always)]
fn add_stripe<V: Vector>(sums: &mut [V::Sums; PASSES], stripe: &Stripe, key: &[Stripe]) {
    for nth in 0..V::HALF {
        let (one, other) = (V::load(stripe, nth), V::load(stripe, nth + V::HALF));
        for (sum, key) in sums.iter_mut().zip(key) {
            let (key, other_key) = (V::load(key, nth), V::load(key, nth + V::HALF));
            *sum = one.add_products(key, other, other_key, *sum);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use crate::known::sums::{HALF_BYTES, Stripe, Vector};
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_add_epi32, _mm_add_epi64, _mm_loadu_si128, _mm_mul_epu32,
        _mm_setzero_si128, _mm_srli_epi64, _mm256_add_epi32, _mm256_add_epi64, _mm256_loadu_si256,
        _mm256_mul_epu32, _mm256_setzero_si256, _mm256_srli_epi64,
    };
    use std::mem::transmute;

    /// Four words, by instructions that every x86-64 machine has.
    #[derive(Clone, Copy)]
    pub(super) struct Sse2(__m128i);

    /// Eight words. Only to be used where the machine has AVX2.
    #[derive(Clone, Copy)]
    pub(super) struct Avx2(__m256i);

    macro_rules! vector {
        ($name:ident, $vector:ident, $lanes:literal, $zero:ident, $load:ident, $add:ident, $add_long:ident, $product:ident, $shift:ident) => {
            // SAFETY of every block: every x86-64 machine has the instructions of `Sse2`; those of `Avx2` are
            // reached only through `sums_avx2`. A vector is as many bits as its lanes.
            impl Vector for $name {
                const HALF: usize = HALF_BYTES / size_of::<Self>();
                type Sums = Self;

                #[inline(always)]
                fn no_sums() -> Self {
                    // SAFETY: see above.
                    Self(unsafe { $zero() })
                }

                #[inline(always)]
                fn load(stripe: &Stripe, nth: usize) -> Self {
                    let part: &[u8; size_of::<Self>()] = &stripe.as_chunks().0[nth];
                    // SAFETY: the reference is to as many bytes, and the load needs no alignment.
                    Self(unsafe { $load(part.as_ptr().cast()) })
                }

                #[inline(always)]
                fn add_products(self, key: Self, other: Self, other_key: Self, sums: Self) -> Self {
                    // SAFETY: see above.
                    unsafe {
                        let (one, other) = ($add(self.0, key.0), $add(other.0, other_key.0));
                        let even = $product(one, other);
                        let odd = $product($shift::<32>(one), $shift::<32>(other));
                        Self($add_long(sums.0, $add_long(even, odd)))
                    }
                }

                #[inline(always)]
                fn total(sums: Self) -> u64 {
                    // SAFETY: see above.
                    let lanes = unsafe { transmute::<$vector, [u64; $lanes]>(sums.0) };
                    lanes.into_iter().fold(0, u64::wrapping_add)
                }
            }
        };
    }

    vector!(
        Sse2,
        __m128i,
        2,
        _mm_setzero_si128,
        _mm_loadu_si128,
        _mm_add_epi32,
        _mm_add_epi64,
        _mm_mul_epu32,
        _mm_srli_epi64
    );
    vector!(
        Avx2,
        __m256i,
        4,
        _mm256_setzero_si256,
        _mm256_loadu_si256,
        _mm256_add_epi32,
        _mm256_add_epi64,
        _mm256_mul_epu32,
        _mm256_srli_epi64
    );
}

#[cfg(target_arch = "aarch64")]
mod neon {
    use crate::known::sums::{HALF_BYTES, Stripe, Vector};
    use std::arch::aarch64::{
        uint32x4_t, uint64x2_t, vaddq_u32, vaddvq_u64, vdupq_n_u64, vget_low_u32, vld1q_u8,
        vmlal_high_u32, vmlal_u32, vreinterpretq_u32_u8,
    };

    /// Four words, by instructions that every aarch64 machine has.
    #[derive(Clone, Copy)]
    pub(super) struct Neon(uint32x4_t);

    // SAFETY of every block: every aarch64 machine has NEON.
    impl Vector for Neon {
        const HALF: usize = HALF_BYTES / size_of::<Self>();
        type Sums = uint64x2_t;

        #[inline(always)]
        fn no_sums() -> uint64x2_t {
            // SAFETY: see above.
            unsafe { vdupq_n_u64(0) }
        }

        #[inline(always)]
        fn load(stripe: &Stripe, nth: usize) -> Self {
            let part: &[u8; size_of::<Self>()] = &stripe.as_chunks().0[nth];
            // SAFETY: the reference is to as many bytes, and the load needs no alignment.
            Neon(unsafe { vreinterpretq_u32_u8(vld1q_u8(part.as_ptr())) })
        }

        #[inline(always)]
        fn add_products(
            self,
            key: Self,
            other: Self,
            other_key: Self,
            sums: uint64x2_t,
        ) -> uint64x2_t {
            // SAFETY: see above.
            unsafe {
                let (one, other) = (vaddq_u32(self.0, key.0), vaddq_u32(other.0, other_key.0));
                let low = vmlal_u32(sums, vget_low_u32(one), vget_low_u32(other));
                vmlal_high_u32(low, one, other)
            }
        }

        #[inline(always)]
        fn total(sums: uint64x2_t) -> u64 {
            // SAFETY: see above.
            unsafe { vaddvq_u64(sums) }
        }
    }
}

/// Word by word.
#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[derive(Clone, Copy)]
struct Portable(u32);

#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
impl Vector for Portable {
    const HALF: usize = HALF_BYTES / size_of::<Self>();
    type Sums = u64;

    fn no_sums() -> u64 {
        0
    }

    fn load(stripe: &Stripe, nth: usize) -> Self {
        Portable(u32::from_le_bytes(stripe.as_chunks().0[nth]))
    }

    fn add_products(self, key: Self, other: Self, other_key: Self, sums: u64) -> u64 {
        let one = u64::from(self.0.wrapping_add(key.0));
        let other = u64::from(other.0.wrapping_add(other_key.0));
        sums.wrapping_add(one.wrapping_mul(other))
    }

    fn total(sums: u64) -> u64 {
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the definition: words of the block and of the key, moved on by a stripe in each pass.
    fn defined(key: &KeyStripes, bytes: &[u8]) -> [u64; PASSES] {
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len().next_multiple_of(STRIPE_BYTES), 0);
        let word = |bytes: &[u8], at: usize| {
            u32::from_le_bytes(*bytes[4 * at..].first_chunk().expect("a word"))
        };
        std::array::from_fn(|pass| {
            let mut sum = 0_u64;
            for first in (0..padded.len() / 4).filter(|at| at % 16 < 8) {
                let [one, other] = [first, first + 8].map(|at| {
                    let added = word(key.as_flattened(), at + 16 * pass);
                    u64::from(word(&padded, at).wrapping_add(added))
                });
                sum = sum.wrapping_add(one * other);
            }
            sum
        })
    }

    #[test]
    fn all_instructions_make_the_sums_of_the_definition() {
        let mut state = 1_u64;
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(11);
            state.to_be_bytes()[0]
        };
        let mut key: KeyStripes = [[0; STRIPE_BYTES]; _];
        key.as_flattened_mut().fill_with(&mut random);
        let mut block = [0; BLOCK_BYTES];
        block.fill_with(random);
        for byte in [0, 255] {
            block[256..1024].fill(byte);
            for length in (0..200).chain([1023, BLOCK_BYTES - 1, BLOCK_BYTES]) {
                let (bytes, expected) = (&block[..length], defined(&key, &block[..length]));
                assert_eq!(sums_detected(&key, bytes), expected, "{length}");
                assert_eq!(sums::<Portable>(&key, bytes), expected, "{length}");
                #[cfg(target_arch = "x86_64")]
                assert_eq!(sums::<x86::Sse2>(&key, bytes), expected, "{length}");
            }
        }
    }
}
