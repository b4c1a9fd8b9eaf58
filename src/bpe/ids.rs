//! The tokens of a text: pieces 64 bytes at a time, as they are counted, and looked up many at once.
#![allow(
    unsafe_code,
    reason = "calls what was compiled for the machine that this is"
)]

use crate::bpe::merge::piece;
use crate::bpe::prefetch::prefetch;
use crate::bpe::scan::known_ends;
#[cfg(target_arch = "x86_64")]
use crate::bpe::split::avx512::Avx512;
use crate::bpe::split::block::{BLOCK, Lanes};
#[cfg(target_arch = "x86_64")]
use crate::bpe::split::simd::Avx2;
use crate::bpe::split::{Base, Rule};
use crate::bpe::table::key::{Key, SHORT_BYTES};
use crate::bpe::table::{NONE, Vocabulary, bytes_at};
use crate::interrupt;

/// Room for pieces.
const ROOM: usize = 192;

/// Pieces that are looked up at once.
const MANY: usize = ROOM - BLOCK - 1;

/// Appends the tokens of `text`, by the best instructions of this machine.
pub(super) fn encode<R: Rule>(vocabulary: &Vocabulary, text: &[u8], tokens: &mut Vec<u32>) {
    #[cfg(target_arch = "x86_64")]
    if Avx512::is_detected() {
        // SAFETY: the machine has what the function needs.
        unsafe { encode_avx512::<R>(vocabulary, text, tokens) }
    } else if Avx2::is_detected() {
        // SAFETY: the machine has what the function needs.
        unsafe { encode_avx2::<R>(vocabulary, text, tokens) }
    } else {
        encode_blocks::<R, Base>(vocabulary, text, tokens);
    }
    #[cfg(not(target_arch = "x86_64"))]
    encode_blocks::<R, Base>(vocabulary, text, tokens);
}

/// [`encode_blocks`], compiled for machines with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn encode_avx2<R: Rule>(vocabulary: &Vocabulary, text: &[u8], tokens: &mut Vec<u32>) {
    encode_blocks::<R, Avx2>(vocabulary, text, tokens);
}

#[cfg(all(test, target_arch = "x86_64"))]
pub(super) fn encode_by_avx2<R: Rule>(vocabulary: &Vocabulary, text: &[u8], tokens: &mut Vec<u32>) {
    if Avx2::is_detected() {
        // SAFETY: the machine has what the function needs.
        unsafe { encode_avx2::<R>(vocabulary, text, tokens) }
    } else {
        encode_blocks::<R, Base>(vocabulary, text, tokens);
    }
}

/// [`encode_blocks`], compiled for machines with AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vbmi,avx512vbmi2,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
fn encode_avx512<R: Rule>(vocabulary: &Vocabulary, text: &[u8], tokens: &mut Vec<u32>) {
    encode_blocks::<R, Avx512>(vocabulary, text, tokens);
}

#[inline(always)]
pub(super) fn encode_blocks<R: Rule, L: Lanes>(
    vocabulary: &Vocabulary,
    text: &[u8],
    tokens: &mut Vec<u32>,
) {
    // Start of the first piece, then the end of each.
    let (mut borders, mut found) = ([0; ROOM], 0);
    let (mut start, mut alone) = (0, 0);
    while start < text.len() {
        let ends = known_ends::<R, L>(text, start, &mut alone);
        if ends == 0 {
            start = R::end(text, start);
            borders[(found + 1) % ROOM] = start;
            found += 1;
        } else {
            let room = borders.get_mut(found + 1..);
            if let Some(room) = room.and_then(|room| room.first_chunk_mut()) {
                L::places(start, ends, room);
            }
            found += ends.count_ones() as usize;
            start += BLOCK - ends.leading_zeros() as usize;
        }
        if found >= MANY {
            interrupt::poll();
            look_up(vocabulary, text, &borders[..=found], tokens);
            (borders[0], found) = (start, 0);
        }
    }
    look_up(vocabulary, text, &borders[..=found], tokens);
}

/// Appends the tokens of the pieces between `borders`.
#[inline(always)]
fn look_up(vocabulary: &Vocabulary, text: &[u8], borders: &[usize], tokens: &mut Vec<u32>) {
    let key = |start: usize, end: usize| {
        let length = (end - start).min(SHORT_BYTES + 1);
        Key::new(&bytes_at(text, start), length)
    };
    let mut places = [0; ROOM];
    for (place, border) in places.iter_mut().zip(borders.windows(2)) {
        *place = vocabulary.place(key(border[0], border[1]));
        prefetch(vocabulary.word(*place));
    }
    tokens.reserve(borders.len());
    for (&place, border) in places.iter().zip(borders.windows(2)) {
        let (start, end) = (border[0], border[1]);
        let mut rank = vocabulary.rank_at(place, key(start, end));
        if end - start > SHORT_BYTES {
            rank = vocabulary.rank(text, start, end);
        }
        match rank {
            NONE => piece::encode(vocabulary, text, start, end, tokens),
            rank => tokens.push(rank),
        }
    }
}
