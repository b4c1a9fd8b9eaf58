//! Look-ups in the tables of a vocabulary by AVX-512, in all lanes at once.
//!
//! Each is defined by the function of [`key`] or [`Vocabulary`] that its comment names.
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

use crate::bpe::merge::window::{CANDIDATES, Candidates};
use crate::bpe::table::key;
use crate::bpe::table::{NONE, Vocabulary};

/// [`Vocabulary::likely_joined`] of all candidates, eight by eight.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
pub(in crate::bpe) fn joined(vocabulary: &Vocabulary, asked: &Candidates) -> [u32; CANDIDATES] {
    let mut ranks = [0; CANDIDATES];
    let joins = [0, 8].map(|from| Joins::find(vocabulary, asked, from));
    for (joins, ranks) in joins.iter().zip(ranks.as_chunks_mut::<8>().0) {
        // SAFETY: there is room for eight.
        unsafe { _mm256_storeu_si256(ranks.as_mut_ptr().cast(), joins.ranks(vocabulary)) }
    }
    ranks
}

/// Eight joins, to be looked up.
#[derive(Clone, Copy)]
struct Joins {
    /// Those that their buckets may have.
    lanes: __mmask8,
    hash: __m512i,
    /// Where they are.
    slot: __m512i,
}

impl Joins {
    /// Eight of the candidates, from one on.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl")]
    fn find(vocabulary: &Vocabulary, asked: &Candidates, from: usize) -> Joins {
        let tokens = |of: &[u32; CANDIDATES]| {
            // SAFETY: there are eight from 0 on, and from 8 on.
            _mm512_cvtepu32_epi64(unsafe { _mm256_loadu_si256(of.as_ptr().add(from).cast()) })
        };
        let right = _mm512_slli_epi64::<{ key::RANK_BITS }>(tokens(&asked.right));
        let hash = join_hash(_mm512_or_si512(tokens(&asked.left), right));
        let slots = _mm512_set1_epi64(vocabulary.join_slots.len() as i64 - 1);
        let (lanes, slot) = slots_in(buckets(vocabulary.join_buckets, hash), hash, slots);
        Joins { lanes, hash, slot }
    }

    /// The ranks of their tokens, or [`NONE`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl")]
    fn ranks(&self, vocabulary: &Vocabulary) -> __m256i {
        let none = _mm256_set1_epi32(NONE.cast_signed());
        let slots = vocabulary.join_slots[1..].as_ptr().cast();
        // SAFETY: a slot is one of them.
        let marked =
            unsafe { _mm512_mask_i64gather_epi32::<4>(none, self.lanes, self.slot, slots) };
        let mark = _mm512_cvtepi64_epi32(self.hash);
        let unlike = _mm256_srli_epi32::<{ (u32::BITS - key::JOIN_MARK_BITS) as i32 }>(
            _mm256_xor_si256(mark, marked),
        );
        let found = self.lanes & _mm256_testn_epi32_mask(unlike, unlike);
        let ranks = _mm256_set1_epi32((1 << key::RANK_BITS) - 1);
        _mm256_mask_and_epi32(none, found, marked, ranks)
    }
}

/// [`key::Join::hash`].
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn join_hash(join: __m512i) -> __m512i {
    let salted = _mm512_xor_si512(join, _mm512_set1_epi64(key::HIGH_SALT.cast_signed()));
    let mixed = _mm512_mullo_epi64(salted, _mm512_set1_epi64(key::LOW_SALT.cast_signed()));
    _mm512_xor_si512(mixed, _mm512_srli_epi64::<32>(mixed))
}

/// Eight of these buckets, of which there are a power of two: those of the last bits of `at`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(in crate::bpe) fn buckets(of: &[[u8; 4]], at: __m512i) -> __m256i {
    assert!(!of.is_empty());
    let at = _mm512_and_si512(at, _mm512_set1_epi64(of.len() as i64 - 1));
    // SAFETY: no place is beyond the last one.
    unsafe { _mm512_i64gather_epi32::<4>(at, of.as_ptr().cast()) }
}

/// The lanes whose buckets may have their hashes, and the slots of all: [`key::slot`].
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
pub(in crate::bpe) fn slots_in(
    buckets: __m256i,
    hash: __m512i,
    slots: __m512i,
) -> (__mmask8, __m512i) {
    let bits = bucket_bits(hash);
    let lanes = _mm256_cmpeq_epi32_mask(_mm256_and_si256(buckets, bits), bits);
    let pilot = _mm256_and_si256(buckets, _mm256_set1_epi32(u16::MAX.into()));
    let pilot = _mm512_slli_epi64::<1>(_mm512_cvtepu32_epi64(pilot));
    let factor = _mm512_or_si512(pilot, _mm512_set1_epi64(1));
    let mixed = _mm512_srli_epi64::<32>(_mm512_mullo_epi64(hash, factor));
    (
        lanes,
        _mm512_srli_epi64::<32>(_mm512_mul_epu32(mixed, slots)),
    )
}

/// [`key::bucket_bits`].
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn bucket_bits(hash: __m512i) -> __m256i {
    let first = _mm256_set1_epi32(key::FIRST_BUCKET_BIT.cast_signed());
    let bit = |hash| {
        let place = _mm256_and_si256(_mm512_cvtepi64_epi32(hash), _mm256_set1_epi32(15));
        _mm256_sllv_epi32(first, place)
    };
    _mm256_or_si256(
        bit(_mm512_srli_epi64::<16>(hash)),
        bit(_mm512_srli_epi64::<20>(hash)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpe::merge::window::{LookUp, OneByOne};
    use crate::bpe::split::avx512::Avx512;
    use crate::bpe::table::{CL100K, O200K, R50K};

    #[test]
    fn test_every_way_to_look_up_finds_the_same_joins() {
        for vocabulary in [&O200K, &CL100K, R50K.get()] {
            let mut found = 0;
            for (rank, _) in vocabulary.tokens().step_by(3) {
                let Some(join) = vocabulary.join(rank) else {
                    continue;
                };
                let near = |lane: u32| (join.left() ^ (lane & 3), join.right() ^ (lane >> 2));
                let pairs: Vec<_> = (0..CANDIDATES as u32).map(near).collect();
                let asked = Candidates::of(&pairs);
                let proven = |ranks: [u32; CANDIDATES]| -> Vec<u32> {
                    let is_joined = |&(rank, (left, right)): &(u32, (u32, u32))| {
                        rank != NONE && vocabulary.is_joined(rank, left, right)
                    };
                    let ranks = ranks.into_iter().zip(pairs.iter().copied());
                    ranks
                        .map(|pair| if is_joined(&pair) { pair.0 } else { NONE })
                        .collect()
                };
                let expected: Vec<u32> = pairs
                    .iter()
                    .map(|&(left, right)| vocabulary.joined(left, right))
                    .collect();
                assert_eq!(
                    proven(OneByOne::joined(vocabulary, &asked, CANDIDATES)),
                    expected
                );
                if Avx512::is_detected() {
                    assert_eq!(
                        proven(Avx512::joined(vocabulary, &asked, CANDIDATES)),
                        expected
                    );
                }
                assert_eq!(expected[0], rank);
                found += expected.iter().filter(|&&rank| rank != NONE).count();
            }
            assert!(found > vocabulary.tokens().count() / 3);
        }
    }
}
