//! The way from a text to its tokens.
//!
//! Pieces are found as where they are counted ([`Borders`]), and encoded many at once, in rounds, for the
//! reasons that [`pieces`](crate::bpe::pieces) tells: those that are remembered, those that are short tokens, the
//! rest. What a round finds is written down by piece; the tokens are appended at its end, three at a time
//! without asking how many there are.
#![allow(
    unsafe_code,
    reason = "calls what was compiled for the machine that this is"
)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "a number of a piece is below 512"
)]

use std::cell;
use std::ops::Range;

use crate::bpe::borders::{Borders, ROOM};
use crate::bpe::merge::batch::{BATCH_CELL_BYTES, BATCH_CELLS, MergeBatch};
use crate::bpe::merge::kernel::MergeKernel;
use crate::bpe::merge::piece;
use crate::bpe::prefetch::prefetch;
#[cfg(target_arch = "x86_64")]
use crate::bpe::split::avx512::Avx512;
#[cfg(target_arch = "x86_64")]
use crate::bpe::split::simd::Avx2;
use crate::bpe::split::{Base, Rule};
use crate::bpe::table::id_memo::{AT_ONCE, IdMemo, Packed};
use crate::bpe::table::key::SHORT_BYTES;
use crate::bpe::table::memo::{Hash, Memo, MemoKey, SHORT_PIECE_BYTES};
use crate::bpe::table::{Vocabulary, bytes_at};
use crate::interrupt;

/// Cells that are enough to merge them.
const CELLS: usize = 256;

/// Longest piece that is cut into cells; a longer one is encoded by itself.
const CUT_BYTES: usize = 4096;

/// Bytes of text that have a token, or more: what is reserved at first.
const BYTES_OF_TOKEN: usize = 3;

thread_local!(static ROUND: cell::Cell<Option<Box<Round>>> = const { cell::Cell::new(None) });

/// Appends the tokens of `text`.
///
/// The thread's round is taken already where whoever watches this encodes something else.
pub(super) fn encode<R: Rule>(vocabulary: &Vocabulary, text: &[u8], tokens: &mut Vec<u32>) {
    let memo = IdMemo::new(vocabulary.number, MemoKey::default());
    encode_new::<R>(Encoding::new(vocabulary, memo, text, tokens));
}

/// A round whose text ends by unwinding is not kept, so that what is kept is as new.
fn encode_new<R: Rule>(encoding: Encoding<'_>) {
    let mut round = ROUND.take().unwrap_or_default();
    encode_detected::<R>(&mut round, encoding);
    round.batch.forget_texts();
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
fn encode_blocks<R: Rule, L: MergeKernel>(round: &mut Round, mut encoding: Encoding<'_>) {
    let text = encoding.text;
    encoding.tokens.reserve(text.len() / BYTES_OF_TOKEN);
    round.borders.restart();
    let mut start = 0;
    while start < text.len() {
        start = round.borders.find::<R, L>(text, start);
        if round.borders.are_many() {
            interrupt::poll();
            round.encode::<L>(&mut encoding);
        }
    }
    round.encode::<L>(&mut encoding);
}

/// A text that is being encoded.
struct Encoding<'a> {
    vocabulary: &'a Vocabulary<'a>,
    memo: IdMemo,
    text: &'a [u8],
    tokens: &'a mut Vec<u32>,
    lists: Lists,
    cells: Vec<Cell>,
    /// Pieces that these are cells of, and where their cells begin.
    cut: Vec<(u16, usize)>,
    hashes_of_parts: Memo,
}

/// A cell that has to be merged, or may have to.
struct Cell {
    hash: Hash,
    start: usize,
    end: usize,
    /// Whether it is less than the piece.
    is_part: bool,
    known: Packed,
    /// The number of a cell of the same text that was there before, or its own.
    twin: usize,
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
    fn packed(&mut self, from: usize) -> Packed {
        let tokens = &self.tokens[from..];
        if tokens.len() <= AT_ONCE {
            let packed = Packed::of(tokens);
            self.tokens.truncate(from);
            return packed;
        }
        self.spans.push(from..self.tokens.len());
        Packed::list(self.spans.len() - 1)
    }

    /// How many tokens the lists have that these stand for, some of which for the same.
    fn count(&self, known: &[Packed]) -> usize {
        let listed = known.iter().filter_map(|known| known.listed());
        listed.map(|list| self.spans[list].len()).sum()
    }

    /// Appends the tokens that this stands for.
    fn append(&mut self, known: Packed) {
        match known.listed() {
            Some(list) => self.tokens.extend_from_within(self.spans[list].clone()),
            None => self.tokens.extend(&known.tokens()[..known.count()]),
        }
    }
}

/// Pieces one after the other. A thread keeps one and uses it for each text; no text is left in it.
struct Round {
    borders: Borders,
    hashes: [Hash; ROOM],
    /// What is known of each; nothing between two texts.
    known: [Packed; ROOM],
    /// Those that are not remembered, and where they are in the vocabulary if they are short tokens.
    unknown: [u16; ROOM],
    places: [u32; ROOM],
    /// Those of them that are no short tokens.
    others: [u16; ROOM],
    /// Cells of these that are being merged, and the number of each.
    batch: MergeBatch,
    lanes: [usize; BATCH_CELLS],
}

impl Default for Round {
    fn default() -> Round {
        Round {
            borders: Borders::new(),
            hashes: [Hash::NONE; ROOM],
            known: [Packed::NONE; ROOM],
            unknown: [0; ROOM],
            places: [0; ROOM],
            others: [0; ROOM],
            batch: MergeBatch::new(),
            lanes: [0; BATCH_CELLS],
        }
    }
}

impl Round {
    /// Appends the tokens of the pieces, which are forgotten.
    #[inline(always)]
    fn encode<L: MergeKernel>(&mut self, of: &mut Encoding<'_>) {
        let unknown = self.find_remembered(of);
        let others = self.find_short_tokens(of, unknown);
        self.encode_others::<L>(of, others);
        self.append(of);
        self.borders.go_on();
    }

    /// The first round: what is remembered. Returns how many pieces are not.
    #[inline(always)]
    fn find_remembered(&mut self, of: &mut Encoding<'_>) -> usize {
        let (memo, hashes, text) = (of.memo, of.memo.hashes(), of.text);
        for (hash, border) in self.hashes.iter_mut().zip(self.borders.pairs()) {
            let length = border[1].wrapping_sub(border[0]);
            let bytes = bytes_at(text, border[0]);
            *hash = hashes.hash_short(&bytes, length.min(SHORT_PIECE_BYTES + 1));
            memo.prefetch(*hash);
        }
        let (mut unknown, mut listed) = (0_usize, 0_usize);
        for (piece, &hash) in self.hashes[..self.borders.found()].iter().enumerate() {
            let known = memo.find(hash);
            self.known[piece % ROOM] = known;
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
            let place = vocabulary.place(self.borders.key(text, self.unknown[at]));
            self.places[at] = place as u32;
            prefetch(vocabulary.word(place));
        }
        let mut others = 0_usize;
        for at in 0..unknown {
            let (place, piece) = (self.places[at] as usize, self.unknown[at]);
            let known = Packed::rank(vocabulary.rank_at(place, self.borders.key(text, piece)));
            memo.remember_some(self.hashes[usize::from(piece) % ROOM], known);
            self.known[usize::from(piece) % ROOM] = known;
            self.others[others % ROOM] = piece;
            others = others.wrapping_add(usize::from(!known.is_known()));
        }
        others.min(ROOM)
    }

    /// The third round, of so many pieces: what is remembered of the long ones, the rest cell by cell.
    #[inline(always)]
    fn encode_others<L: MergeKernel>(&mut self, of: &mut Encoding<'_>, others: usize) {
        for at in 0..others {
            let piece = self.others[at];
            let (start, end) = self.borders.piece(piece);
            if end - start > SHORT_PIECE_BYTES {
                let hash = of.memo.hashes().hash(of.text, start, end);
                self.hashes[usize::from(piece) % ROOM] = hash;
                of.memo.prefetch(hash);
            }
        }
        for at in 0..others {
            let piece = self.others[at];
            let hash = self.hashes[usize::from(piece) % ROOM];
            let known = of.find_long(hash, self.borders.piece(piece));
            self.known[usize::from(piece) % ROOM] = known;
            if !known.is_known() {
                of.cut.push((piece, of.cells.len()));
                of.cut_piece::<L>(hash, self.borders.piece(piece));
                if of.cells.len() >= CELLS {
                    self.merge_cells::<L>(of);
                }
            }
        }
        self.merge_cells::<L>(of);
    }

    /// The last round: cells that are remembered, those that are tokens, the rest, which is merged.
    #[inline(always)]
    fn merge_cells<L: MergeKernel>(&mut self, of: &mut Encoding<'_>) {
        interrupt::poll();
        for number in 0..of.cells.len() {
            of.cells[number].known = of.find_cell(number);
            if !of.cells[number].known.is_known() {
                self.push_cell::<L>(of, number);
            }
        }
        while self.batch.busy != 0 {
            L::join(&mut self.batch, of.vocabulary);
            self.take_merged(of);
        }
        for (nth, &(piece, first)) in of.cut.iter().enumerate() {
            let end = of.cut.get(nth + 1).map_or(of.cells.len(), |next| next.1);
            let known = |cell: &Cell| of.cells[cell.twin].known;
            let piece = usize::from(piece) % ROOM;
            self.known[piece] = match &of.cells[first..end] {
                [cell] => known(cell),
                cells => {
                    let from = of.lists.tokens.len();
                    cells.iter().for_each(|it| of.lists.append(known(it)));
                    let tokens = &of.lists.tokens[from..];
                    of.memo.remember(self.hashes[piece], tokens);
                    of.lists.packed(from)
                }
            };
        }
        of.cut.clear();
        of.cells.clear();
    }

    /// Merges a cell at once if it is long, else beside others.
    #[inline(always)]
    fn push_cell<L: MergeKernel>(&mut self, of: &mut Encoding<'_>, number: usize) {
        let Cell {
            hash, start, end, ..
        } = of.cells[number];
        if end - start > BATCH_CELL_BYTES {
            let (from, cell) = (of.lists.tokens.len(), &of.text[start..end]);
            piece::encode(of.vocabulary, cell, 0, cell.len(), &mut of.lists.tokens);
            of.memo.remember(hash, &of.lists.tokens[from..]);
            of.cells[number].known = of.lists.packed(from);
            return;
        }
        let lanes = self.lanes.iter().enumerate();
        let is_same = |(lane, cell): &(usize, &usize)| {
            self.batch.busy >> lane & 1 != 0 && of.cells[**cell].hash.is(hash)
        };
        if let Some((_, &twin)) = lanes.into_iter().find(is_same) {
            of.cells[number].twin = twin;
            return;
        }
        let lane = self.batch.take(of.vocabulary, of.text, (start, end));
        self.lanes[lane % BATCH_CELLS] = number;
        self.take_merged(of);
        while self.batch.is_full() {
            L::join(&mut self.batch, of.vocabulary);
            self.take_merged(of);
        }
    }

    /// Writes down the tokens of the cells that are merged.
    #[inline(always)]
    fn take_merged(&mut self, of: &mut Encoding<'_>) {
        let mut merged = self.batch.free_merged();
        while merged != 0 {
            let lane = merged.trailing_zeros() as usize % BATCH_CELLS;
            merged &= merged - 1;
            of.write_cell(self.lanes[lane], self.batch.starts[lane]);
        }
    }

    /// Appends what is known of each piece, in their order.
    #[inline(always)]
    fn append(&mut self, of: &mut Encoding<'_>) {
        let (mut at, lists) = (of.tokens.len(), &mut of.lists);
        let all = &mut self.known[..self.borders.found()];
        let listed = match lists.spans.is_empty() {
            true => 0,
            false => lists.count(all),
        };
        of.tokens.resize(at + AT_ONCE * all.len() + listed, 0);
        let tokens = of.tokens.as_mut_slice();
        for &known in &*all {
            if let Some(list) = known.listed() {
                let list = &lists.tokens[lists.spans[list].clone()];
                tokens[at..][..list.len()].copy_from_slice(list);
                at += list.len();
            } else if let Some(room) = tokens[at..].first_chunk_mut() {
                *room = known.tokens();
                at += known.count();
            }
        }
        all.fill(Packed::NONE);
        of.tokens.truncate(at);
        lists.tokens.clear();
        lists.spans.clear();
    }
}

impl<'a> Encoding<'a> {
    fn new(
        vocabulary: &'a Vocabulary<'a>,
        memo: IdMemo,
        text: &'a [u8],
        tokens: &'a mut Vec<u32>,
    ) -> Encoding<'a> {
        // A token that only a whole piece is is several as a part.
        let hashes_of_parts = match vocabulary.has_wholes() {
            true => memo.hashes().apart(),
            false => memo.hashes(),
        };
        Encoding {
            vocabulary,
            memo,
            hashes_of_parts,
            text,
            tokens,
            lists: Lists::default(),
            cells: Vec::new(),
            cut: Vec::new(),
        }
    }

    /// The tokens of the piece of that hash, if it has more than fit into a word and they are known.
    fn find_all(&mut self, hash: Hash) -> Packed {
        let from = self.lists.tokens.len();
        match self.memo.find_all(hash, &mut self.lists.tokens) {
            true => self.lists.packed(from),
            false => Packed::NONE,
        }
    }

    /// The tokens of a piece that is no short token, if it is remembered or one token.
    #[inline(always)]
    fn find_long(&mut self, hash: Hash, (start, end): (usize, usize)) -> Packed {
        // A text repeats its words: this one may have been encoded since it was looked for.
        let known = self.find(hash);
        if known.is_known() || end - start <= SHORT_BYTES {
            return known;
        }
        let known = Packed::rank(self.vocabulary.rank(self.text, start, end));
        self.memo.remember_some(hash, known);
        known
    }

    /// What is remembered of that hash.
    #[inline(always)]
    fn find(&mut self, hash: Hash) -> Packed {
        let known = self.memo.find(hash);
        if known.has_more() {
            self.find_all(hash)
        } else {
            known
        }
    }

    /// Cuts a piece into cells, or takes it as one if it is so long that they would be too many.
    #[inline(always)]
    fn cut_piece<L: MergeKernel>(&mut self, whole: Hash, (start, end): (usize, usize)) {
        let mut at = start;
        while at < end {
            let to = match end - start > CUT_BYTES {
                true => end,
                false => piece::cell_end(self.vocabulary, self.text, at, end, L::WHOLE_BYTES),
            };
            let is_part = to - at < end - start;
            let hash = if is_part {
                let hash = self.hashes_of_parts.hash(self.text, at, to);
                self.memo.prefetch(hash);
                hash
            } else {
                whole
            };
            self.cells.push(Cell {
                hash,
                start: at,
                end: to,
                is_part,
                known: Packed::NONE,
                twin: self.cells.len(),
            });
            at = to;
        }
    }

    /// The tokens of that cell if it is remembered, or one token.
    #[inline(always)]
    fn find_cell(&mut self, number: usize) -> Packed {
        let Cell {
            hash,
            start,
            end,
            is_part,
            ..
        } = self.cells[number];
        let known = self.find(hash);
        if known.is_known() || !is_part {
            return known;
        }
        let known = Packed::rank(piece::merged_rank(self.vocabulary, self.text, start, end));
        self.memo.remember_some(hash, known);
        known
    }

    /// Writes down the tokens of that cell, which start where `starts` has bits; the last bit is its end.
    #[inline(always)]
    fn write_cell(&mut self, number: usize, mut starts: u32) {
        let Cell { hash, start, .. } = self.cells[number];
        let (from, mut at) = (self.lists.tokens.len(), 0);
        starts &= starts - 1;
        while starts != 0 {
            let to = starts.trailing_zeros() as usize;
            starts &= starts - 1;
            let rank = self.vocabulary.rank(self.text, start + at, start + to);
            self.lists.tokens.push(rank);
            at = to;
        }
        self.memo.remember(hash, &self.lists.tokens[from..]);
        self.cells[number].known = self.lists.packed(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpe::random_texts::random_texts;
    use crate::bpe::scan::tests::ATOMS;
    use crate::bpe::split::block::Portable;
    use crate::bpe::split::deepseek::DeepSeek;
    use crate::bpe::split::{Cl100k, Kimi, Llama3, O200k, Qwen, R50k, Tekken};
    use crate::bpe::table::ranks::tests::ODD;
    use crate::bpe::table::{CL100K, DEEPSEEK_V3, MISTRAL_V3, NONE, O200K, P50K, QWEN2, R50K};
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// The tokens by the definition, with nothing remembered.
    fn one_by_one<R: Rule>(vocabulary: &Vocabulary, text: &[u8]) -> Vec<u32> {
        let (mut start, mut tokens) = (0, Vec::new());
        while start < text.len() {
            let end = R::end(text, start);
            match vocabulary.rank(text, start, end) {
                NONE => piece::encode(vocabulary, text, start, end, &mut tokens),
                rank => tokens.push(rank),
            }
            start = end;
        }
        tokens
    }

    /// A memo that remembers nothing yet.
    fn empty() -> IdMemo {
        static NUMBER: AtomicU64 = AtomicU64::new(1 << 20);
        IdMemo::new(NUMBER.fetch_add(1, Relaxed), MemoKey::default())
    }

    fn tokens_of(work: impl FnOnce(&mut Vec<u32>)) -> Vec<u32> {
        let mut tokens = vec![7];
        work(&mut tokens);
        assert_eq!(tokens.remove(0), 7, "what was there stays");
        tokens
    }

    /// The tokens by every level, with nothing remembered; by one of them again, with all remembered.
    fn levels<R: Rule>(vocabulary: &Vocabulary, text: &[u8]) -> Vec<Vec<u32>> {
        fn made<'a>(
            (vocabulary, memo): (&'a Vocabulary<'a>, IdMemo),
            text: &'a [u8],
            work: impl FnOnce(&mut Round, Encoding<'_>),
        ) -> Vec<u32> {
            tokens_of(|tokens| {
                let encoding = Encoding::new(vocabulary, memo, text, tokens);
                work(&mut Round::default(), encoding);
            })
        }
        let memo = empty();
        vec![
            made((vocabulary, memo), text, encode_blocks::<R, Portable>),
            made((vocabulary, memo), text, encode_blocks::<R, Portable>),
            made((vocabulary, empty()), text, encode_blocks::<R, Base>),
            #[cfg(target_arch = "x86_64")]
            made((vocabulary, empty()), text, |round, encoding| {
                if Avx2::is_detected() {
                    // SAFETY: the machine has what the function needs.
                    unsafe { encode_avx2::<R>(round, encoding) }
                } else {
                    encode_blocks::<R, Base>(round, encoding);
                }
            }),
            made((vocabulary, empty()), text, encode_detected::<R>),
        ]
    }

    fn check<R: Rule>(vocabulary: &Vocabulary, text: &str) {
        let expected = one_by_one::<R>(vocabulary, text.as_bytes());
        for made in levels::<R>(vocabulary, text.as_bytes()) {
            assert_eq!(made, expected, "{text:?}");
        }
    }

    fn check_all(text: &str) {
        check::<O200k>(&O200K, text);
        check::<Cl100k>(&CL100K, text);
        check::<R50k>(&R50K, text);
        check::<R50k>(&P50K, text);
        check::<Llama3>(&CL100K, text);
        check::<DeepSeek>(&DEEPSEEK_V3, text);
        check::<Kimi>(&QWEN2, text);
        check::<Qwen>(&QWEN2, text);
        check::<Tekken>(&MISTRAL_V3, text);
        check::<O200k>(&ODD, text);
        check::<R50k>(&ODD, text);
    }

    #[test]
    fn test_every_level_encodes_the_same() {
        random_texts(ATOMS, 11, 3_000).for_each(|text| check_all(&text));
    }

    #[test]
    fn test_texts_of_many_rounds_and_cells_are_encoded_the_same() {
        let joined: String = random_texts(ATOMS, 13, 300).collect();
        check_all(&joined);
        for (word, times) in [
            ("中文字符編碼測試漢語", 700),
            ("абвгдежзийклмн", 100),
            ("ไทยภาษา", 300),
            ("xqzjw", 2_000),
            ("x中é", 3_000),
            ("한국어 문장을 씁니다 ", 400),
        ] {
            check_all(&word.repeat(times));
        }
        check_all("");
    }

    #[test]
    fn test_threads_that_share_the_memo_encode_the_same() {
        let texts: Vec<String> = random_texts(ATOMS, 17, 300).collect();
        let expected: Vec<_> = texts
            .iter()
            .map(|text| one_by_one::<O200k>(&O200K, text.as_bytes()))
            .collect();
        let memo = empty();
        let again = || {
            for (text, expected) in texts.iter().zip(&expected).cycle().take(3_000) {
                let made = tokens_of(|tokens| {
                    encode_new::<O200k>(Encoding::new(&O200K, memo, text.as_bytes(), tokens));
                });
                assert_eq!(&made, expected, "{text:?}");
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(again);
            }
        });
    }

    #[test]
    fn test_no_text_is_kept_and_one_that_is_ended_leaves_nothing() {
        fn end() {
            std::panic::resume_unwind(Box::new("ended"));
        }
        let text = "qzxvj wkqxz\u{e9}bvq jjxqk password ".repeat(500);
        let expected = one_by_one::<O200k>(&O200K, text.as_bytes());
        let encode = || {
            let made = tokens_of(|tokens| {
                encode_new::<O200k>(Encoding::new(&O200K, empty(), text.as_bytes(), tokens));
            });
            assert_eq!(made, expected);
            let round = ROUND.take().expect("it is kept");
            assert!(round.known.iter().all(|known| !known.is_known()));
            assert!(!round.batch.has_text);
            ROUND.set(Some(round));
        };
        encode();
        let encode_on = || loop {
            encode();
        };
        let ended = std::panic::catch_unwind(|| interrupt::watched(end, encode_on));
        assert!(ended.expect_err("it was ended").is::<&str>());
        encode();
    }

    /// `benches/exactness.py` writes the file: encoding, text, tokens of `tiktoken`.
    #[test]
    fn test_every_level_encodes_as_the_file_says() {
        let Ok(path) = std::env::var("TOKENCTX_TOKENS") else {
            println!("skipped: TOKENCTX_TOKENS names no file");
            return;
        };
        let file = std::fs::read(path).expect("a file");
        let rows: Vec<(String, String, Vec<u32>)> = serde_json::from_slice(&file).expect("rows");
        for (encoding, text, tokens) in rows {
            let bytes = text.as_bytes();
            let made = match encoding.as_bytes()[0] {
                b'o' => levels::<O200k>(&O200K, bytes),
                b'c' => levels::<Cl100k>(&CL100K, bytes),
                b'p' => levels::<R50k>(&P50K, bytes),
                b'd' => levels::<DeepSeek>(&DEEPSEEK_V3, bytes),
                b'm' => levels::<Tekken>(&MISTRAL_V3, bytes),
                b'q' => levels::<Qwen>(&QWEN2, bytes),
                _ => levels::<R50k>(&R50K, bytes),
            };
            assert!(
                made.iter().all(|made| *made == tokens),
                "{encoding}: {text:?}"
            );
        }
    }
}
