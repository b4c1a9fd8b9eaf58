//! Merges by AVX-512: sixteen cells at once.
//!
//! The results are defined by [`batch`](crate::bpe::merge::batch), whose portable code the tests compare with
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

use crate::bpe::merge::batch::{
    BATCH_CELLS, BatchKernel, MergeBatch, NO_PAIR, POSITION_BITS, POSITIONS, Row, Texts,
};
use crate::bpe::merge::gather::{self, slots_in};
use crate::bpe::merge::kernel::MergeKernel;
use crate::bpe::merge::long;
use crate::bpe::merge::long_batch::{LongCellBatch, LongCellKernel};
use crate::bpe::merge::window::{CANDIDATES, Candidates, LookUp};
use crate::bpe::split::avx512::Avx512;
use crate::bpe::table::Vocabulary;
use crate::bpe::table::key;

const _: () = assert!(BATCH_CELLS == 16);

/// The last position.
const LAST: i32 = POSITIONS as i32 - 1;

/// Longest pair that is looked up in all lanes at once.
const SHORT: i32 = key::SHORT_BYTES as i32;

// SAFETY of every block: functions of this type are reached only through `count_avx512` of
// `scan.rs`, after detection.
impl MergeKernel for Avx512 {
    const WHOLE_BYTES: usize = 24; // measured: 16 is slower in translations, 31 no faster

    #[inline(always)]
    fn count_long(vocabulary: &Vocabulary, cell: &[u8]) -> u64 {
        // SAFETY: see above.
        unsafe { count_long(vocabulary, cell) }
    }
}

impl BatchKernel for Avx512 {
    #[inline(always)]
    fn join(batch: &mut MergeBatch, vocabulary: &Vocabulary) {
        // SAFETY: see above.
        unsafe { join(batch, vocabulary) }
    }
}

impl LongCellKernel for Avx512 {
    #[inline(always)]
    fn read(long_cells: &mut LongCellBatch<'_>, vocabulary: &Vocabulary) {
        // SAFETY: see above.
        unsafe { read(long_cells, vocabulary) }
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
fn read(long_cells: &mut LongCellBatch<'_>, vocabulary: &Vocabulary) {
    long_cells.read::<Avx512>(vocabulary);
}

/// Cells that are as fast one after the other: a step of vectors takes as long for one as for all.
const FEW: u32 = BATCH_CELLS as u32 / 4;

/// [`MergeBatch::join`], a lane of the vectors for each cell.
#[inline(never)]
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vbmi,avx512vl,bmi1,bmi2,lzcnt,popcnt"
)]
fn join(batch: &mut MergeBatch, vocabulary: &Vocabulary) {
    if batch.busy.count_ones() <= FEW {
        batch.join_lanes(vocabulary);
        set_lowest(batch);
        return;
    }
    // SAFETY: both have sixteen words.
    let (lowest, starts) = unsafe {
        (
            _mm512_loadu_si512(batch.lowest.as_ptr().cast()),
            _mm512_loadu_si512(batch.starts.as_ptr().cast()),
        )
    };
    let lanes = batch.busy as u16;
    let at = _mm512_and_si512(lowest, _mm512_set1_epi32(LAST));
    let one = _mm512_set1_epi32(1);
    let bit = _mm512_sllv_epi32(one, at);
    // Of the starts behind `at`, the first is the one that goes.
    let behind = _mm512_and_si512(starts, minus(_mm512_add_epi32(bit, bit)));
    let (joined, behind) = first(behind);
    let (end, behind) = first(behind);
    let (next, _) = first(behind);
    // A lane has a pair behind the joined span if another span follows, and one before if one is before.
    let has_next = lanes & _mm512_test_epi32_mask(next, next);
    let starts = _mm512_andnot_si512(joined, starts);
    let before = _mm512_and_si512(starts, _mm512_sub_epi32(bit, one));
    let has_previous = lanes & _mm512_test_epi32_mask(before, before);
    let [end, next, previous] = [end, next, before].map(|bits| highest(bits));
    let previous_bit = _mm512_sllv_epi32(one, previous);
    // All is asked for before the first answer is used, so that the lanes wait for the memory together.
    let texts = Registers::load(&batch.texts);
    let [low, high] = Pairs::all(&texts, has_next, at, next);
    let [low_before, high_before] = Pairs::all(&texts, has_previous, previous, end);
    let pairs = [low, high, low_before, high_before];
    let buckets = pairs.map(|pairs| pairs.buckets(vocabulary));
    // While the memory answers, the lowest of the pairs that stay is found.
    let lowest = least(
        &batch.words,
        _mm512_andnot_si512(_mm512_or_si512(bit, previous_bit), starts),
    );
    let [low, high, low_before, high_before] =
        [0, 1, 2, 3].map(|half: usize| pairs[half].ranks(vocabulary, buckets[half]));
    // The new pairs as words, to be compared with the lowest of the others.
    let made = words(low, high, at);
    let made_before = words(low_before, high_before, previous);
    let lowest = _mm512_min_epi32(lowest, _mm512_min_epi32(made, made_before));
    // SAFETY: both have sixteen words.
    unsafe {
        _mm512_storeu_si512(batch.lowest.as_mut_ptr().cast(), lowest);
        _mm512_storeu_si512(batch.starts.as_mut_ptr().cast(), starts);
    }
    set(batch, lanes, at, made);
    set(batch, has_previous, previous, made_before);
    // Pairs longer than a short token are seldom, and looked up one by one.
    let long = (long(has_next, at, next), long(has_previous, previous, end));
    if long.0 | long.1 != 0 {
        set_long(batch, vocabulary, long.0, at, next);
        set_long(batch, vocabulary, long.1, previous, end);
    }
}

/// Finds the lowest word of each lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn set_lowest(batch: &mut MergeBatch) {
    // SAFETY: both have sixteen words.
    unsafe {
        let starts = _mm512_loadu_si512(batch.starts.as_ptr().cast());
        let lowest = least(&batch.words, starts);
        _mm512_storeu_si512(batch.lowest.as_mut_ptr().cast(), lowest);
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn minus(words: __m512i) -> __m512i {
    _mm512_sub_epi32(_mm512_setzero_si512(), words)
}

/// The lowest bit of each lane, and the others.
#[inline]
#[target_feature(enable = "avx512f")]
fn first(bits: __m512i) -> (__m512i, __m512i) {
    let first = _mm512_and_si512(bits, minus(bits));
    (first, _mm512_xor_si512(bits, first))
}

/// The place of the highest bit of each lane, or -1.
#[inline]
#[target_feature(enable = "avx512f,avx512cd")]
fn highest(bits: __m512i) -> __m512i {
    _mm512_sub_epi32(_mm512_set1_epi32(LAST), _mm512_lzcnt_epi32(bits))
}

/// The lowest word of each lane, of the positions in its bit set.
#[inline]
#[target_feature(enable = "avx512f")]
fn least(words: &[Row; POSITIONS], positions: __m512i) -> __m512i {
    const HALF: usize = POSITIONS / 2;
    let (near, far) = (
        &words.as_chunks::<HALF>().0[0],
        &words.as_chunks::<HALF>().0[1],
    );
    let lowest = least_of(near, positions);
    let positions = _mm512_srli_epi32::<{ HALF as u32 }>(positions);
    if _mm512_test_epi32_mask(positions, positions) == 0 {
        return lowest; // most cells are short
    }
    _mm512_min_epi32(lowest, least_of(far, positions))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn least_of(rows: &[Row; POSITIONS / 2], positions: __m512i) -> __m512i {
    let mut lowest = [_mm512_set1_epi32(NO_PAIR); 4]; // four short chains instead of a long one
    let mut position = _mm512_set1_epi32(1);
    for rows in rows.as_chunks::<4>().0 {
        for (lowest, row) in lowest.iter_mut().zip(rows) {
            // SAFETY: a row is sixteen words.
            let row = unsafe { _mm512_loadu_si512(row.as_ptr().cast()) };
            let lanes = _mm512_test_epi32_mask(positions, position);
            *lowest = _mm512_mask_min_epi32(*lowest, lanes, *lowest, row);
            position = _mm512_add_epi32(position, position);
        }
    }
    let [first, second, third, fourth] = lowest;
    _mm512_min_epi32(
        _mm512_min_epi32(first, second),
        _mm512_min_epi32(third, fourth),
    )
}

#[inline]
#[target_feature(enable = "avx512f")]
fn lane_numbers() -> __m512i {
    _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
}

/// Words of the pairs at `at`, by the ranks of both halves of the lanes and where there is one.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn words(low: (__m256i, __mmask8), high: (__m256i, __mmask8), at: __m512i) -> __m512i {
    let ranks = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low.0), high.0);
    let found = u16::from(low.1) | u16::from(high.1) << 8;
    let words = _mm512_or_si512(_mm512_slli_epi32::<POSITION_BITS>(ranks), at);
    _mm512_mask_mov_epi32(_mm512_set1_epi32(NO_PAIR), found, words)
}

/// Sets the words at a position of some lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn set(batch: &mut MergeBatch, lanes: __mmask16, at: __m512i, words: __m512i) {
    let row = _mm512_and_si512(at, _mm512_set1_epi32(LAST));
    let place = _mm512_or_si512(
        _mm512_slli_epi32::<{ BATCH_CELLS.ilog2() }>(row),
        lane_numbers(),
    );
    let base = batch.words.as_mut_ptr().cast();
    // SAFETY: a place is below POSITIONS * BATCH_CELLS.
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
    batch: &mut MergeBatch,
    vocabulary: &Vocabulary,
    mut lanes: __mmask16,
    from: __m512i,
    to: __m512i,
) {
    let (mut starts, mut ends) = ([0_u32; BATCH_CELLS], [0_u32; BATCH_CELLS]);
    // SAFETY: both have room for sixteen numbers.
    unsafe {
        _mm512_storeu_si512(starts.as_mut_ptr().cast(), from);
        _mm512_storeu_si512(ends.as_mut_ptr().cast(), to);
    }
    while lanes != 0 {
        let lane = lanes.trailing_zeros() as usize % BATCH_CELLS;
        batch.set_long(vocabulary, lane, starts[lane] as usize, ends[lane] as usize);
        lanes &= lanes - 1;
    }
}

/// Eight pairs, to be looked up: [`Pair`](crate::bpe::merge::batch).
#[derive(Clone, Copy)]
struct Pairs {
    lanes: __mmask8,
    /// Those whose tokens have one word.
    tiny: __mmask8,
    /// Their keys, and the hashes of these.
    low: __m512i,
    high: __m512i,
    hash: __m512i,
}

impl Pairs {
    /// The short pairs of some lanes, half by half.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi")]
    fn all(texts: &Registers, lanes: __mmask16, from: __m512i, to: __m512i) -> [Pairs; 2] {
        let length = _mm512_sub_epi32(to, from);
        let at_most = |bytes| _mm512_cmple_epi32_mask(length, _mm512_set1_epi32(bytes));
        let lanes = lanes & at_most(SHORT);
        let tiny = at_most(key::TINY_BYTES as i32);
        let [first, second] = texts.bytes(from, length);
        let lengths = (
            _mm512_castsi512_si256(length),
            _mm512_extracti64x4_epi64::<1>(length),
        );
        [
            Pairs::new(lanes as u8, tiny as u8, first, lengths.0),
            Pairs::new((lanes >> 8) as u8, (tiny >> 8) as u8, second, lengths.1),
        ]
    }

    /// The pairs of these texts.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    fn new(
        lanes: __mmask8,
        tiny: __mmask8,
        (low, high): (__m512i, __m512i),
        length: __m256i,
    ) -> Pairs {
        let high = _mm512_mask_mov_epi64(high, tiny, low);
        let length = _mm512_slli_epi64::<{ key::LENGTH_SHIFT }>(_mm512_cvtepi32_epi64(length));
        let (low, high) = (
            _mm512_maskz_mov_epi64(!tiny, low),
            _mm512_or_si512(high, length),
        );
        Pairs {
            lanes,
            tiny,
            low,
            high,
            hash: hash(low, high),
        }
    }

    /// Their buckets, if there is a lane: a short text has few cells.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn buckets(self, vocabulary: &Vocabulary) -> __m256i {
        if self.lanes == 0 {
            return _mm256_setzero_si256();
        }
        let bucket = _mm512_and_si512(self.hash, _mm512_set1_epi64(key::BUCKETS as i64 - 1));
        let second_table = _mm512_set1_epi64(key::BUCKETS as i64);
        let bucket = _mm512_mask_add_epi64(bucket, !self.tiny, bucket, second_table);
        gather::buckets(vocabulary.short_buckets, bucket)
    }

    /// Ranks of those that are tokens, by their buckets, and the lanes that have one.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl")]
    fn ranks(self, vocabulary: &Vocabulary, buckets: __m256i) -> (__m256i, __mmask8) {
        if self.lanes == 0 {
            return (_mm256_setzero_si256(), 0);
        }
        let slots = _mm512_set1_epi64(vocabulary.short_slots() as i64);
        let tiny_slots = _mm512_set1_epi64(vocabulary.tiny_slots as i64);
        let slots = _mm512_mask_mov_epi64(slots, self.tiny, tiny_slots);
        let (lanes, slot) = slots_in(buckets, self.hash, slots);
        let lanes = self.lanes & lanes;
        let second = _mm512_set1_epi64(vocabulary.short_start() as i64 + 1);
        let place = _mm512_add_epi64(_mm512_slli_epi64::<1>(slot), second);
        let place = _mm512_mask_mov_epi64(place, self.tiny, slot);
        let words = vocabulary.words.as_ptr().cast();
        let (mut low, two) = (_mm512_setzero_si512(), lanes & !self.tiny);
        // SAFETY: the place is one of the words; if the token has two, it is not the first.
        let high = unsafe { _mm512_mask_i64gather_epi64::<8>(low, lanes, place, words) };
        if two != 0 {
            let first = _mm512_sub_epi64(place, _mm512_set1_epi64(1));
            // SAFETY: the same.
            low = unsafe { _mm512_mask_i64gather_epi64::<8>(low, two, first, words) };
        }
        let differs = _mm512_xor_si512(high, self.high);
        let differs = _mm512_slli_epi64::<{ u64::BITS - key::RANK_SHIFT }>(differs);
        let differs = _mm512_or_si512(differs, _mm512_xor_si512(low, self.low));
        let found = lanes & _mm512_testn_epi64_mask(differs, differs);
        let ranks = _mm512_srli_epi64::<{ key::RANK_SHIFT }>(high);
        (_mm512_cvtepi64_epi32(ranks), found)
    }
}

/// [`key::Key::hash`].
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn hash(low: __m512i, high: __m512i) -> __m512i {
    let salt = |salt: u64| _mm512_set1_epi64(salt.cast_signed());
    let both = _mm512_add_epi64(low, _mm512_mullo_epi64(high, salt(key::HIGH_SALT)));
    let mixed = _mm512_mullo_epi64(both, salt(key::LOW_SALT));
    let highest = _mm512_srli_epi64::<{ u64::BITS - key::BUCKETS.ilog2() }>(mixed);
    _mm512_xor_si512(mixed, highest)
}

/// [`Texts`], four in two registers.
struct Registers([[__m512i; 2]; 4]);

impl Registers {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(texts: &Texts) -> Registers {
        let load = |texts: &[u8; 64]| {
            // SAFETY: they are as many bytes.
            unsafe { _mm512_loadu_si512(texts.as_ptr().cast()) }
        };
        let all = &texts.as_chunks::<64>().0.as_chunks::<2>().0;
        Registers([0, 1, 2, 3].map(|four: usize| [load(&all[four][0]), load(&all[four][1])]))
    }

    /// So many bytes, at most sixteen, from these positions: two words of each of the first eight lanes,
    /// and of the others.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi")]
    fn bytes(&self, from: __m512i, length: __m512i) -> [(__m512i, __m512i); 2] {
        let numbers = _mm512_broadcast_i32x4(_mm_setr_epi8(
            0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
        ));
        // Where the text of each lane starts in its two registers.
        let start = _mm512_setr_epi32(0, 0, 32, 32, 64, 64, 96, 96, 0, 0, 32, 32, 64, 64, 96, 96);
        let from = _mm512_add_epi32(from, start);
        let mut bytes = [_mm512_setzero_si512(); 4];
        for ((bytes, texts), first_lane) in bytes.iter_mut().zip(self.0).zip([0, 1, 8, 9]) {
            // The lowest byte of every second lane, sixteen times.
            let every_second = _mm512_set_epi64(6, 6, 4, 4, 2, 2, 0, 0);
            let lane = _mm512_add_epi64(every_second, _mm512_set1_epi64(first_lane));
            let lane = _mm512_mullo_epi64(lane, _mm512_set1_epi64(0x0404_0404_0404_0404));
            let at = _mm512_add_epi8(_mm512_permutexvar_epi8(lane, from), numbers);
            let length = _mm512_permutexvar_epi8(lane, length);
            let kept = _mm512_cmplt_epu8_mask(numbers, length);
            *bytes = _mm512_maskz_permutex2var_epi8(kept, texts[0], at, texts[1]);
        }
        let [even, odd, even_after, odd_after] = bytes;
        let words = |even, odd| {
            (
                _mm512_unpacklo_epi64(even, odd),
                _mm512_unpackhi_epi64(even, odd),
            )
        };
        [words(even, odd), words(even_after, odd_after)]
    }
}
