//! The way from a text to its tokens.
//!
//! Pieces are found as they are where they are counted ([`scan`]), and encoded many at
//! once, in rounds, for the reasons that [`pieces`](crate::bpe::pieces) tells: those that are remembered, those
//! that are short tokens, the rest. What a round finds is written down by piece; the tokens
//! are appended at its end, three at a time without asking how many there are.
#![allow(
    unsafe_code,
    reason = "calls what was compiled for the machine that this is"
)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "a number of a piece is below 512"
)]

use std::cell::Cell;
use std::ops::Range;

use crate::bpe::merge::piece;
use crate::bpe::prefetch::prefetch;
use crate::bpe::scan::{block_ends, starts_wide};
#[cfg(target_arch = "x86_64")]
use crate::bpe::split::avx512::Avx512;
use crate::bpe::split::block::{BLOCK, Lanes};
#[cfg(target_arch = "x86_64")]
use crate::bpe::split::simd::Avx2;
use crate::bpe::split::{Base, Rule};
use crate::bpe::table::id_memo::{AT_ONCE, IdMemo, Packed};
use crate::bpe::table::key::{Key, SHORT_BYTES};
use crate::bpe::table::memo::{Hash, MemoKey, SHORT_PIECE_BYTES};
use crate::bpe::table::{Vocabulary, bytes_at};
use crate::interrupt::{self, Steps};

/// Room for pieces.
const ROOM: usize = 512;

/// Pieces that are enough for a round.
const MANY: usize = ROOM - BLOCK - 1;

/// Bytes of text that have a token, or more: what is reserved at first.
const BYTES_OF_TOKEN: usize = 3;

thread_local!(static ROUND: Cell<Option<Box<Round>>> = const { Cell::new(None) });

/// Appends the tokens of `text`.
///
/// The thread's round is taken already where whoever watches this encodes something else.
pub(super) fn encode<R: Rule>(vocabulary: &Vocabulary, text: &[u8], tokens: &mut Vec<u32>) {
    let encoding = Encoding {
        vocabulary,
        memo: IdMemo::new(vocabulary.number, MemoKey::default()),
        text,
        tokens,
        lists: Lists::default(),
    };
    let mut round = ROUND.take().unwrap_or_default();
    encode_detected::<R>(&mut round, encoding);
    ROUND.set(Some(round));
}

/// [`encode_blocks`], by the best instructions of this machine.
fn encode_detected<R: Rule>(round: &mut Round, encoding: Encoding<'_>) {
    #[cfg(target_arch = "x86_64")]
    if Avx512::is_detected() {
        // SAFETY: the machine has what the function needs.
        unsafe { encode_avx512::<R>(round, encoding) }
    } else if Avx2::is_detected() {
        // SAFETY: the machine has what the function needs.
        unsafe { encode_avx2::<R>(round, encoding) }
    } else {
        encode_blocks::<R, Base>(round, encoding);
    }
    #[cfg(not(target_arch = "x86_64"))]
    encode_blocks::<R, Base>(round, encoding);
}

/// [`encode_blocks`], compiled for machines with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn encode_avx2<R: Rule>(round: &mut Round, encoding: Encoding<'_>) {
    encode_blocks::<R, Avx2>(round, encoding);
}

/// [`encode_blocks`], compiled for machines with AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vbmi,avx512vbmi2,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
fn encode_avx512<R: Rule>(round: &mut Round, encoding: Encoding<'_>) {
    encode_blocks::<R, Avx512>(round, encoding);
}

#[inline(always)]
fn encode_blocks<R: Rule, L: Lanes>(round: &mut Round, mut encoding: Encoding<'_>) {
    let text = encoding.text;
    encoding.tokens.reserve(text.len() / BYTES_OF_TOKEN);
    // As `count_blocks` of `scan.rs` finds them.
    let (mut start, mut alone) = (0, 0);
    round.borders[0] = 0;
    round.found = 0;
    while start < text.len() {
        let mut ends = 0;
        let knows_wide = R::IS_OF_BYTES || L::CHARACTERS && R::KNOWS_CHARACTERS;
        if R::KNOWS_BLOCKS && start >= alone && (knows_wide || !starts_wide(&text[start..])) {
            ends = block_ends::<R, L>(&text[start..]);
            let end = text.len().min(start + BLOCK);
            if ends == 0 && !text[start..end].is_ascii() {
                alone = end;
            }
        }
        if ends == 0 {
            start = R::end(text, start);
            round.push(start);
        } else {
            start = round.push_all::<L>(start, ends);
        }
        if round.found >= MANY {
            interrupt::poll();
            round.encode(&mut encoding);
        }
    }
    round.encode(&mut encoding);
}

/// A text that is being encoded.
struct Encoding<'a> {
    vocabulary: &'a Vocabulary<'a>,
    memo: IdMemo,
    text: &'a [u8],
    tokens: &'a mut Vec<u32>,
    lists: Lists,
}

/// Tokens of the pieces of a round that have more than fit into a word.
#[derive(Default)]
struct Lists {
    tokens: Vec<u32>,
    /// Where those of each piece are.
    spans: Vec<Range<usize>>,
}

impl Lists {
    /// What stands for the tokens from that place on.
    fn push(&mut self, from: usize) -> Packed {
        self.spans.push(from..self.tokens.len());
        Packed::list(self.spans.len() - 1)
    }
}

/// Pieces one after the other. A thread keeps one and uses it for each text; no text is left in it.
struct Round {
    /// Start of the first, then the end of each.
    borders: [usize; ROOM],
    found: usize,
    hashes: [Hash; ROOM],
    /// What is known of each; nothing between two texts.
    known: [Packed; ROOM],
    /// Those that are not remembered, and where they are in the vocabulary if they are short tokens.
    unknown: [u16; ROOM],
    places: [u32; ROOM],
    /// Those of them that are no short tokens.
    others: [u16; ROOM],
}

impl Default for Round {
    fn default() -> Round {
        Round {
            borders: [0; ROOM],
            found: 0,
            hashes: [Hash::NONE; ROOM],
            known: [Packed::NONE; ROOM],
            unknown: [0; ROOM],
            places: [0; ROOM],
            others: [0; ROOM],
        }
    }
}

impl Round {
    #[inline(always)]
    fn push(&mut self, end: usize) {
        self.found += 1;
        self.borders[self.found % ROOM] = end;
    }

    /// Pieces of the block at `start` that end after the bytes of `ends`; returns the last end.
    #[inline(always)]
    fn push_all<L: Lanes>(&mut self, start: usize, ends: u64) -> usize {
        let borders = self.borders.get_mut(self.found + 1..);
        if let Some(borders) = borders.and_then(|borders| borders.first_chunk_mut()) {
            L::places(start, ends, borders);
        }
        self.found += ends.count_ones() as usize;
        start + BLOCK - ends.leading_zeros() as usize
    }

    /// Appends the tokens of the pieces, which are forgotten.
    #[inline(always)]
    fn encode(&mut self, of: &mut Encoding<'_>) {
        let unknown = self.find_remembered(of);
        let others = self.find_short_tokens(of, unknown);
        self.merge_others(of, others);
        self.append(of);
        self.borders[0] = self.borders[self.found % ROOM];
        self.found = 0;
    }

    /// The first round: what is remembered. Returns how many pieces are not.
    #[inline(always)]
    fn find_remembered(&mut self, of: &mut Encoding<'_>) -> usize {
        let (memo, hashes, text) = (of.memo, of.memo.hashes(), of.text);
        let borders = self.borders[..=self.found].windows(2);
        for (hash, border) in self.hashes.iter_mut().zip(borders) {
            let length = border[1].wrapping_sub(border[0]);
            let bytes = bytes_at(text, border[0]);
            *hash = hashes.hash_short(&bytes, length.min(SHORT_PIECE_BYTES + 1));
            memo.prefetch(*hash);
        }
        let (mut unknown, mut listed) = (0_usize, 0_usize);
        let pieces = self.hashes[..self.found].iter().zip(&mut self.known);
        for (piece, (&hash, known)) in pieces.enumerate() {
            *known = memo.find(hash);
            self.unknown[unknown % ROOM] = piece as u16;
            unknown = unknown.wrapping_add(usize::from(!known.is_known()));
            self.others[listed % ROOM] = piece as u16;
            listed = listed.wrapping_add(usize::from(known.has_more()));
        }
        for &piece in &self.others[..listed.min(ROOM)] {
            let at = usize::from(piece) % ROOM;
            self.known[at] = of.find_all(self.hashes[at]);
            if !self.known[at].is_known() {
                self.unknown[unknown % ROOM] = piece;
                unknown += 1;
            }
        }
        unknown.min(ROOM)
    }

    /// The second round, of so many pieces: short tokens. Returns how many are none.
    #[inline(always)]
    fn find_short_tokens(&mut self, of: &Encoding<'_>, unknown: usize) -> usize {
        let (vocabulary, memo, text) = (of.vocabulary, of.memo, of.text);
        for at in 0..unknown {
            let place = vocabulary.place(self.key(text, self.unknown[at]));
            self.places[at] = place as u32;
            prefetch(vocabulary.word(place));
        }
        let mut others = 0_usize;
        for at in 0..unknown {
            let (place, piece) = (self.places[at] as usize, self.unknown[at]);
            let known = Packed::rank(vocabulary.rank_at(place, self.key(text, piece)));
            memo.remember_some(self.hashes[usize::from(piece) % ROOM], known);
            self.known[usize::from(piece) % ROOM] = known;
            self.others[others % ROOM] = piece;
            others = others.wrapping_add(usize::from(!known.is_known()));
        }
        others.min(ROOM)
    }

    /// The last round, of so many pieces: what is remembered of the long ones, the rest one by one.
    #[inline(always)]
    fn merge_others(&mut self, of: &mut Encoding<'_>, others: usize) {
        for at in 0..others {
            let piece = self.others[at];
            let (start, end) = self.piece(piece);
            if end - start > SHORT_PIECE_BYTES {
                let hash = of.memo.hashes().hash(of.text, start, end);
                self.hashes[usize::from(piece) % ROOM] = hash;
                of.memo.prefetch(hash);
            }
        }
        let mut steps = Steps::default();
        for at in 0..others {
            steps.step();
            let piece = self.others[at];
            let hash = self.hashes[usize::from(piece) % ROOM];
            self.known[usize::from(piece) % ROOM] = of.encode_piece(hash, self.piece(piece));
        }
    }

    /// Appends what is known of each piece, in their order.
    #[inline(always)]
    fn append(&mut self, of: &mut Encoding<'_>) {
        let (mut at, lists) = (of.tokens.len(), &mut of.lists);
        of.tokens
            .resize(at + AT_ONCE * self.found + lists.tokens.len(), 0);
        for known in &mut self.known[..self.found] {
            if let Some(list) = known.listed() {
                let list = &lists.tokens[lists.spans[list].clone()];
                of.tokens[at..][..list.len()].copy_from_slice(list);
                at += list.len();
            } else if let Some(tokens) = of.tokens[at..].first_chunk_mut() {
                *tokens = known.tokens();
                at += known.count();
            }
            *known = Packed::NONE;
        }
        of.tokens.truncate(at);
        lists.tokens.clear();
        lists.spans.clear();
    }

    #[inline(always)]
    fn piece(&self, piece: u16) -> (usize, usize) {
        let piece = usize::from(piece);
        (self.borders[piece % ROOM], self.borders[(piece + 1) % ROOM])
    }

    /// The key of a piece, or that of no token if it is long.
    #[inline(always)]
    fn key(&self, text: &[u8], piece: u16) -> Key {
        let (start, end) = self.piece(piece);
        Key::new(&bytes_at(text, start), (end - start).min(SHORT_BYTES + 1))
    }
}

impl Encoding<'_> {
    /// The tokens of the piece of that hash, if it has more than fit into a word and they are known.
    fn find_all(&mut self, hash: Hash) -> Packed {
        let from = self.lists.tokens.len();
        match self.memo.find_all(hash, &mut self.lists.tokens) {
            true => self.lists.push(from),
            false => Packed::NONE,
        }
    }

    /// The tokens of a piece that is no short token.
    fn encode_piece(&mut self, hash: Hash, (start, end): (usize, usize)) -> Packed {
        let (vocabulary, text) = (self.vocabulary, self.text);
        // A text repeats its words: this one may have been encoded since it was looked for.
        let mut known = self.memo.find(hash);
        if known.has_more() {
            known = self.find_all(hash);
        }
        if !known.is_known() && end - start > SHORT_BYTES {
            known = Packed::rank(vocabulary.rank(text, start, end));
            self.memo.remember_some(hash, known);
        }
        if known.is_known() {
            return known;
        }
        let from = self.lists.tokens.len();
        piece::encode(vocabulary, text, start, end, &mut self.lists.tokens);
        self.memo.remember(hash, &self.lists.tokens[from..]);
        self.lists.push(from)
    }
}
