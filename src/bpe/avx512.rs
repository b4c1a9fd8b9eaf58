//! Blocks and merges by AVX-512: 64 bytes of text, or sixteen cells, at once.
//!
//! What is computed is defined by [`block`](super::block) and [`together`](super::together), whose
//! portable code the tests compare with this.
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

use super::block::{Lanes, Window};
use super::gather::{self, slots_in};
use super::key;
use super::lanes::Avx2;
use super::long;
use super::narrow::{CANDIDATES, Candidates, LookUp};
use super::together::{LANES, NO_PAIR, POSITION_BITS, POSITIONS, Text, Together};
use super::vocabulary::Vocabulary;
use super::waiting::Waiting;

const _: () = assert!(LANES == 16);

/// The last position.
const LAST: i32 = POSITIONS as i32 - 1;

/// Longest pair that is looked up in all lanes at once.
const SHORT: i32 = key::SHORT_BYTES as i32;

/// Sixty-four bytes. Only to be used where [`is_detected`](Avx512::is_detected) says so.
#[derive(Clone, Copy)]
pub(super) struct Avx512(__m512i);

impl Avx512 {
    /// True if this machine has all that is used here.
    #[inline]
    pub(super) fn is_detected() -> bool {
        Avx2::is_detected()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512cd")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
    }
}

// SAFETY of every block: functions of this type are reached only through `count_avx512` of
// `scan.rs`, after detection.
impl Lanes for Avx512 {
    const WIDTH: usize = 64;

    #[inline(always)]
    fn load(window: &Window, _part: usize) -> Self {
        // SAFETY: a window has 64 bytes, and the load needs no alignment.
        Self(unsafe { _mm512_loadu_si512(window.as_ptr().cast()) })
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

    #[inline(always)]
    fn count_long(vocabulary: &Vocabulary, cell: &[u8]) -> u64 {
        // SAFETY: see above.
        unsafe { count_long(vocabulary, cell) }
    }

    #[inline(always)]
    fn join(together: &mut Together, vocabulary: &Vocabulary) -> u32 {
        // SAFETY: see above.
        unsafe { join(together, vocabulary) }
    }

    #[inline(always)]
    fn read(waiting: &mut Waiting<'_>, vocabulary: &Vocabulary) {
        // SAFETY: see above.
        unsafe { read(waiting, vocabulary) }
    }
}

impl LookUp for Avx512 {
    #[inline(always)]
    fn joined(vocabulary: &Vocabulary, asked: &Candidates, _number: usize) -> [u32; CANDIDATES] {
        // SAFETY: see above.
        unsafe { gather::joined(vocabulary, asked) }
    }
}

#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
fn count_long(vocabulary: &Vocabulary, cell: &[u8]) -> u64 {
    long::count::<Avx512>(vocabulary, cell)
}

#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
fn read(waiting: &mut Waiting<'_>, vocabulary: &Vocabulary) {
    waiting.read::<Avx512>(vocabulary);
}

/// [`Together::join`], a lane of the vectors for each cell.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
fn join(together: &mut Together, vocabulary: &Vocabulary) -> u32 {
    let (one, no_pair) = (_mm512_set1_epi32(1), _mm512_set1_epi32(NO_PAIR));
    let mut lowest = no_pair;
    for row in &together.words {
        // SAFETY: a row is sixteen words.
        let row = unsafe { _mm512_loadu_si512(row.as_ptr().cast()) };
        lowest = _mm512_min_epi32(lowest, row);
    }
    let lanes = _mm512_cmpneq_epi32_mask(lowest, no_pair);
    // SAFETY: there are sixteen starts.
    let starts = unsafe { _mm512_loadu_si512(together.starts.as_ptr().cast()) };
    let at = _mm512_and_si512(lowest, _mm512_set1_epi32(LAST));
    let (joined, _) = after(starts, at);
    let starts = _mm512_andnot_si512(_mm512_sllv_epi32(one, joined), starts);
    // SAFETY: the same.
    unsafe { _mm512_mask_storeu_epi32(together.starts.as_mut_ptr().cast(), lanes, starts) };
    set(together, lanes, joined, no_pair);
    let (end, _) = after(starts, joined);
    let (next, is_last) = after(starts, end);
    let before = _mm512_and_si512(starts, _mm512_sub_epi32(_mm512_sllv_epi32(one, at), one));
    let previous = _mm512_sub_epi32(_mm512_set1_epi32(LAST), _mm512_lzcnt_epi32(before));
    let has_previous = lanes & _mm512_test_epi32_mask(before, before);
    // All is asked for before the first answer is used, so that the lanes wait for the memory together.
    let [low, high] = Pairs::all(together, lanes & !is_last, at, next);
    let [low_before, high_before] = Pairs::all(together, has_previous, previous, end);
    let mut asked = [low, high, low_before, high_before];
    for half in &mut asked {
        half.find(vocabulary);
    }
    let [low, high, low_before, high_before] = asked;
    let pairs = words([low.ranks(vocabulary), high.ranks(vocabulary)], at);
    let before = words(
        [low_before.ranks(vocabulary), high_before.ranks(vocabulary)],
        previous,
    );
    set(together, lanes, at, pairs);
    set(together, has_previous, previous, before);
    let long = (
        long(lanes & !is_last, at, next),
        long(has_previous, previous, end),
    );
    if long.0 | long.1 != 0 {
        set_long(together, vocabulary, long.0, at, next);
        set_long(together, vocabulary, long.1, previous, end);
    }
    lanes.into()
}

/// The start after that at `at` in each lane, and the lanes that have none.
#[inline]
#[target_feature(enable = "avx512f,avx512cd")]
fn after(starts: __m512i, at: __m512i) -> (__m512i, __mmask16) {
    let later = _mm512_srlv_epi32(starts, _mm512_add_epi32(at, _mm512_set1_epi32(1)));
    let first = _mm512_and_si512(later, _mm512_sub_epi32(_mm512_setzero_si512(), later));
    let place = _mm512_sub_epi32(_mm512_set1_epi32(32), _mm512_lzcnt_epi32(first));
    let none = _mm512_testn_epi32_mask(later, later);
    (_mm512_add_epi32(at, place), none)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn lane_numbers() -> __m512i {
    _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
}

/// Words of the pairs at `at`, by the ranks of both halves of the lanes and where there is one.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn words([low, high]: [(__m256i, __mmask8); 2], at: __m512i) -> __m512i {
    let ranks = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low.0), high.0);
    let found = u16::from(low.1) | u16::from(high.1) << 8;
    let words = _mm512_or_si512(_mm512_slli_epi32::<POSITION_BITS>(ranks), at);
    _mm512_mask_mov_epi32(_mm512_set1_epi32(NO_PAIR), found, words)
}

/// Sets the words at a position of some lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn set(together: &mut Together, lanes: __mmask16, at: __m512i, words: __m512i) {
    let row = _mm512_and_si512(at, _mm512_set1_epi32(LAST));
    let place = _mm512_or_si512(_mm512_slli_epi32::<{ LANES.ilog2() }>(row), lane_numbers());
    let base = together.words.as_mut_ptr().cast();
    // SAFETY: a place is below POSITIONS * LANES.
    unsafe { _mm512_mask_i32scatter_epi32::<4>(base, lanes, place, words) }
}

/// The lanes whose pair is too long for [`Pairs`].
#[inline]
#[target_feature(enable = "avx512f")]
fn long(lanes: __mmask16, from: __m512i, to: __m512i) -> __mmask16 {
    let length = _mm512_sub_epi32(to, from);
    lanes & _mm512_cmpgt_epi32_mask(length, _mm512_set1_epi32(SHORT))
}

/// Sets the words of long pairs, one by one.
#[inline(never)]
#[target_feature(enable = "avx512f")]
fn set_long(
    together: &mut Together,
    vocabulary: &Vocabulary,
    mut lanes: __mmask16,
    from: __m512i,
    to: __m512i,
) {
    let (mut starts, mut ends) = ([0_u32; LANES], [0_u32; LANES]);
    // SAFETY: both have room for sixteen numbers.
    unsafe {
        _mm512_storeu_si512(starts.as_mut_ptr().cast(), from);
        _mm512_storeu_si512(ends.as_mut_ptr().cast(), to);
    }
    while lanes != 0 {
        let lane = lanes.trailing_zeros() as usize % LANES;
        together.set_long(vocabulary, lane, starts[lane] as usize, ends[lane] as usize);
        lanes &= lanes - 1;
    }
}

/// Eight pairs, to be looked up: [`Pair`](super::together).
#[derive(Clone, Copy)]
struct Pairs {
    lanes: __mmask8,
    /// Those whose tokens have one word.
    tiny: __mmask8,
    low: __m512i,
    high: __m512i,
    /// Where the key ends, if it is a token.
    place: __m512i,
}

impl Pairs {
    /// The short pairs of some lanes, half by half.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    fn all(together: &Together, lanes: __mmask16, from: __m512i, to: __m512i) -> [Pairs; 2] {
        let length = _mm512_sub_epi32(to, from);
        let lanes = lanes & _mm512_cmple_epi32_mask(length, _mm512_set1_epi32(SHORT));
        let row = _mm512_set1_epi32(size_of::<Text>() as i32);
        let start = _mm512_and_si512(from, _mm512_set1_epi32(LAST));
        let start = _mm512_add_epi32(_mm512_mullo_epi32(lane_numbers(), row), start);
        let low = (
            _mm512_castsi512_si256(start),
            _mm512_castsi512_si256(length),
        );
        let high = (
            _mm512_extracti64x4_epi64::<1>(start),
            _mm512_extracti64x4_epi64::<1>(length),
        );
        [
            Pairs::new(together, lanes as u8, low.0, low.1),
            Pairs::new(together, (lanes >> 8) as u8, high.0, high.1),
        ]
    }

    /// The keys of so many bytes from these places in all texts.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    fn new(together: &Together, lanes: __mmask8, start: __m256i, length: __m256i) -> Pairs {
        let texts: *const i64 = together.texts.as_ptr().cast();
        // SAFETY: sixteen bytes from a position below POSITIONS are in the text of its lane.
        let (low, high) = unsafe {
            (
                _mm512_i32gather_epi64::<1>(start, texts),
                _mm512_i32gather_epi64::<1>(start, texts.add(1)),
            )
        };
        let length = _mm512_cvtepi32_epi64(length);
        let bits = _mm512_slli_epi64::<3>(length);
        let word = _mm512_set1_epi64(64);
        let low = _mm512_and_si512(low, ones(bits));
        let high_bits = _mm512_sub_epi64(_mm512_max_epi64(bits, word), word);
        let high = _mm512_and_si512(high, ones(high_bits));
        let tiny = _mm512_cmple_epi64_mask(length, _mm512_set1_epi64(key::TINY_BYTES as i64));
        let high = _mm512_mask_mov_epi64(high, tiny, low);
        let length = _mm512_slli_epi64::<{ key::LENGTH_SHIFT }>(length);
        Pairs {
            lanes,
            tiny,
            low: _mm512_maskz_mov_epi64(!tiny, low),
            high: _mm512_or_si512(high, length),
            place: _mm512_setzero_si512(),
        }
    }

    /// Where they are; those that their buckets do not have are gone.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl")]
    fn find(&mut self, vocabulary: &Vocabulary) {
        if self.lanes == 0 {
            return;
        }
        let hash = fold(
            _mm512_xor_si512(self.low, _mm512_set1_epi64(key::LOW_SALT.cast_signed())),
            _mm512_xor_si512(self.high, _mm512_set1_epi64(key::HIGH_SALT.cast_signed())),
        );
        let second_table = _mm512_set1_epi64(key::BUCKETS as i64);
        let bucket = _mm512_and_si512(hash, _mm512_set1_epi64(key::BUCKETS as i64 - 1));
        let bucket = _mm512_mask_add_epi64(bucket, !self.tiny, bucket, second_table);
        let slots = _mm512_set1_epi64(vocabulary.short_slots() as i64);
        let tiny_slots = _mm512_set1_epi64(vocabulary.tiny_slots as i64);
        let slots = _mm512_mask_mov_epi64(slots, self.tiny, tiny_slots);
        let (lanes, slot) = slots_in(vocabulary.short_buckets, hash, bucket, slots);
        let second = _mm512_set1_epi64(vocabulary.short_start() as i64 + 1);
        let place = _mm512_add_epi64(_mm512_slli_epi64::<1>(slot), second);
        self.lanes &= lanes;
        self.place = _mm512_mask_mov_epi64(place, self.tiny, slot);
    }

    /// Ranks of those that are tokens, and the lanes that have one.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl")]
    fn ranks(self, vocabulary: &Vocabulary) -> (__m256i, __mmask8) {
        if self.lanes == 0 {
            return (_mm256_setzero_si256(), 0);
        }
        let words = vocabulary.words.as_ptr().cast();
        let (mut low, two) = (_mm512_setzero_si512(), self.lanes & !self.tiny);
        // SAFETY: the place is one of the words; if the token has two, it is not the first.
        let high = unsafe { _mm512_mask_i64gather_epi64::<8>(low, self.lanes, self.place, words) };
        if two != 0 {
            let first = _mm512_sub_epi64(self.place, _mm512_set1_epi64(1));
            // SAFETY: the same.
            low = unsafe { _mm512_mask_i64gather_epi64::<8>(low, two, first, words) };
        }
        let differs = _mm512_xor_si512(high, self.high);
        let differs = _mm512_slli_epi64::<{ u64::BITS - key::RANK_SHIFT }>(differs);
        let differs = _mm512_or_si512(differs, _mm512_xor_si512(low, self.low));
        let found = self.lanes & _mm512_testn_epi64_mask(differs, differs);
        let ranks = _mm512_srli_epi64::<{ key::RANK_SHIFT }>(high);
        (_mm512_cvtepi64_epi32(ranks), found)
    }
}

/// Words whose low bits are ones, so many.
#[inline]
#[target_feature(enable = "avx512f")]
fn ones(bits: __m512i) -> __m512i {
    let one = _mm512_set1_epi64(1);
    _mm512_sub_epi64(_mm512_sllv_epi64(one, bits), one)
}

/// [`key::fold`].
#[inline]
#[target_feature(enable = "avx512f")]
fn fold(left: __m512i, right: __m512i) -> __m512i {
    let half = |word| _mm512_srli_epi64::<32>(word);
    let low = _mm512_set1_epi64(0xFFFF_FFFF);
    let lowest = _mm512_mul_epu32(left, right);
    let cross = _mm512_mul_epu32(left, half(right));
    let other = _mm512_mul_epu32(half(left), right);
    let highest = _mm512_mul_epu32(half(left), half(right));
    let crossed = _mm512_add_epi64(_mm512_and_si512(cross, low), _mm512_and_si512(other, low));
    let middle = _mm512_add_epi64(half(lowest), crossed);
    let carried = _mm512_add_epi64(half(cross), half(other));
    let high = _mm512_add_epi64(_mm512_add_epi64(highest, half(middle)), carried);
    let low = _mm512_and_si512(lowest, low);
    let low = _mm512_or_si512(_mm512_slli_epi64::<32>(middle), low);
    _mm512_xor_si512(low, high)
}
