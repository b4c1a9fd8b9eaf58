//! Classes of the characters of a block that are not ASCII, by AVX-512.
//!
//! A text uses few alphabets, and the classes of 128 characters fit into two registers, where one
//! instruction finds those of all characters of the block that are among them. So there are as many
//! rounds as parts of alphabets in the block, one or two as a rule. Most of Chinese and Korean needs none:
//! all characters of three bytes with the same first byte have one class.
#![allow(
    unsafe_code,
    reason = "instructions that the compiler may not assume to be there"
)]
#![allow(
    clippy::wildcard_imports,
    reason = "the instructions have a prefix of their own"
)]

use std::arch::x86_64::*;

use crate::bpe::split::block::{BLOCK, Block, BlockBytes};
use crate::bpe::split::unicode::{
    CASELESS, LEADS, LOWER, MARK, NUMBER, SPACE, UPPER, character_at, class_at, classes_around,
};

/// See [`Lanes::characters`](crate::bpe::split::block::Lanes::characters).
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi1,bmi2,popcnt")]
pub(in crate::bpe) fn set(window: &BlockBytes, block: &mut Block) {
    // SAFETY: a window has 64 bytes, and the load needs no alignment.
    let bytes = unsafe { _mm512_loadu_si512(window.as_ptr().cast()) };
    let [wide, two, three, four] = [0x80_u8, 0xC0, 0xE0, 0xF0]
        .map(|least| _mm512_cmpge_epu8_mask(bytes, _mm512_set1_epi8(least.cast_signed())));
    // At most one character goes beyond the block.
    let beyond = two & 1 << 63 | three & 0b11 << 62 | four & 0b111 << 61;
    let whole = block.text & beyond.wrapping_sub(1);
    let classes = classes(window, bytes, [two, three, four].map(|bits| bits & whole));
    block.firsts = whole & (two | !wide);
    let characters = |bits: u64| _pext_u64(bits, block.firsts);
    let of = |class: u8| _mm512_test_epi8_mask(classes, _mm512_set1_epi8(class.cast_signed()));
    block.upper = characters(block.upper | of(UPPER));
    block.lower = characters(block.lower | of(LOWER));
    block.caseless = characters(of(CASELESS));
    block.mark = characters(of(MARK));
    block.digit = characters(block.digit | of(NUMBER));
    block.white = characters(block.white | of(SPACE));
    block.space = characters(block.space);
    block.newline = characters(block.newline);
    block.quote = characters(block.quote);
    block.slash = characters(block.slash);
    block.text = characters(whole);
    block.wide = if block.last { 0 } else { !block.text };
    block.other = block.unnamed();
}

/// Classes of the characters of at least two, three and four bytes, at their first bytes; else 0.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn classes(window: &BlockBytes, bytes: __m512i, [two, three, mut four]: [u64; 3]) -> __m512i {
    // Of a character of two or three bytes, the last two: six bits of the one, and the lowest of the other,
    // say where it is among 128.
    let next = following::<1>(bytes);
    let last = _mm512_mask_mov_epi8(next, three, following::<2>(bytes));
    let before_last = _mm512_mask_mov_epi8(bytes, three, next);
    let one = _mm512_set1_epi8(1);
    let high = _mm512_andnot_si512(one, before_last);
    let low = _mm512_or_si512(
        _mm512_slli_epi16::<6>(_mm512_and_si512(before_last, one)),
        _mm512_and_si512(last, _mm512_set1_epi8(0x3F)),
    );
    let mut pending = two & !four;
    // SAFETY: there are sixteen.
    let leads = unsafe { _mm_loadu_si128(LEADS.as_ptr().cast()) };
    let leads = _mm512_shuffle_epi8(
        _mm512_broadcast_i32x4(leads),
        _mm512_and_si512(bytes, _mm512_set1_epi8(0x0F)),
    );
    let mut classes = _mm512_maskz_mov_epi8(pending & three, leads);
    pending &= !_mm512_test_epi8_mask(classes, classes);
    while pending != 0 {
        let at = pending.trailing_zeros() as usize % BLOCK;
        let (code, length) = character_at(window, at);
        let table = classes_around(code);
        // SAFETY: it has 128 bytes.
        let (first, second) = unsafe {
            (
                _mm512_loadu_si512(table.as_ptr().cast()),
                _mm512_loadu_si512(table.as_ptr().add(BLOCK).cast()),
            )
        };
        let mut same = equal(pending, high, window[(at + length - 2) % BLOCK] & !1);
        if length == 3 {
            same = equal(same, bytes, window[at]);
        }
        let found = _mm512_permutex2var_epi8(first, low, second);
        classes = _mm512_mask_mov_epi8(classes, same, found);
        pending &= !same;
    }
    while four != 0 {
        let at = four.trailing_zeros() as usize;
        let class = _mm512_set1_epi8(class_at(window, at).0.cast_signed());
        classes = _mm512_mask_mov_epi8(classes, 1 << at, class);
        four &= four - 1;
    }
    classes
}

/// Those of `places` where `bytes` has that byte.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn equal(places: u64, bytes: __m512i, byte: u8) -> u64 {
    _mm512_mask_cmpeq_epi8_mask(places, bytes, _mm512_set1_epi8(byte.cast_signed()))
}

/// The byte `BY` places behind each.
#[inline]
#[target_feature(enable = "avx512f,avx512vbmi")]
#[allow(clippy::cast_possible_truncation, reason = "a place is below 64")]
fn following<const BY: usize>(bytes: __m512i) -> __m512i {
    let places: BlockBytes = std::array::from_fn(|place| ((place + BY) % BLOCK) as u8);
    // SAFETY: there are 64.
    let places = unsafe { _mm512_loadu_si512(places.as_ptr().cast()) };
    _mm512_permutexvar_epi8(places, bytes)
}
