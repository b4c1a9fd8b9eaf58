//! The merge of many cells side by side.
//!
//! A step of a merge waits more than it computes: the lowest pair tells which two byte strings to
//! look up, their ranks tell the next lowest pair, and tables of megabytes are seldom near. So
//! [`BATCH_CELLS`] cells take each step together: first all ask the memory for what they will read, then all
//! read it. A lane whose cell is merged takes the next cell, also of a later piece, so that lanes are
//! seldom idle before the text ends. A cell that is already in a lane takes no other: texts repeat their
//! words, and a sixth to a third of what comes here is such a word.
//!
//! The pairs of all lanes stand row by row, a row for each position in a cell: the lowest pair of
//! every lane is found by one pass of vector instructions, with AVX-512 while the memory answers: of
//! the pairs that stay, to which those that the step makes are added. A step has no branch that
//! depends on the text: what does not exist is looked up as a key of no token.
//!
//! # Tried and lost
//!
//! By AVX-512 (2026-11-22):
//!
//! - Knowing spans by their tokens, as [`window`](crate::bpe::merge::window) does, so that cells of up to 31
//!   characters take part: fewer instructions in a step, but tables other than those that the rounds
//!   before have just read. From 6 % faster to 4 % slower with the load of the machine; English 4 %
//!   slower. With two groups of lanes, messages were 8 % slower: a short text pays for their room.
//! - Looking up by scalar code what the buckets have not ruled out, a third: 2 % faster where all is
//!   near, no difference in a text. Storing by scalar code instead of three scatters, or asking for all
//!   buckets, then for all words, before they are gathered: 6 and 17 % slower where all is near.
//! - Moving the last cells of a text to the first half of the lanes, so that steps skip the other: no
//!   difference. The last four one after the other instead ([`MergeBatch::join_lanes`]): messages 2 to 4 %
//!   faster; eight or twelve: no gain.
//! - Joining first, in one step, all pairs of bytes that no other join can come before, by two bounds for every
//!   two bytes made at build time: half of all joins, but the steps that are left wait as long. Looked up
//!   in vectors, from all new cells, messages were 2 to 6 % faster, other scripts and English 3 to 5 %
//!   slower, base64 11 to 15 %; looked up one by one, all was 2 to 14 % slower.

use crate::bpe::prefetch::prefetch;
use crate::bpe::split::block::Lanes;
use crate::bpe::table::key::{Key, SHORT_BYTES};
use crate::bpe::table::memo::{Hash, Memo};
use crate::bpe::table::{NONE, Vocabulary, bytes_at};

/// Longest cell that is merged here; [`merge`](crate::bpe::merge::cell) has the longer ones.
pub(in crate::bpe) const BATCH_CELL_BYTES: usize = (1 << POSITION_BITS) - 1;

/// Cells that are merged side by side.
pub(in crate::bpe) const BATCH_CELLS: usize = 16;

/// Bit set of all lanes.
const ALL: u32 = u32::MAX >> (32 - BATCH_CELLS);

/// Low bits of a word, which hold a position.
pub(in crate::bpe) const POSITION_BITS: u32 = 5;

/// Word of a position without a pair. Words are signed: SSE2 compares no others.
pub(in crate::bpe) const NO_PAIR: i32 = i32::MAX;

/// Positions in a cell; the last is never used.
pub(in crate::bpe) const POSITIONS: usize = 1 << POSITION_BITS;

/// A cell's text, and whatever after it.
type Text = [u8; POSITIONS + 16];

/// The texts of all lanes, one after the other, the even ones before the odd ones in each half.
pub(in crate::bpe) type Texts = [u8; BATCH_CELLS * POSITIONS + 16];

/// Where the text of a lane starts.
#[inline(always)]
fn text_start(lane: usize) -> usize {
    POSITIONS * (lane / 8 * 8 + lane % 2 * 4 + lane % 8 / 2)
}

/// A word of every lane.
pub(in crate::bpe) type Row = [i32; BATCH_CELLS];

/// How a batch is merged by the instructions that classify the text.
pub(crate) trait BatchKernel: Lanes {
    /// [`MergeBatch::join`], compiled for these instructions.
    fn join(batch: &mut MergeBatch, vocabulary: &Vocabulary);
}

/// Cells that are being merged.
#[repr(align(64))]
pub(crate) struct MergeBatch {
    /// For each position and lane, the rank of the pair that starts there, above the position. Where no
    /// span starts any more it is [`NO_PAIR`] or, by AVX-512, which asks `starts`, what it was.
    pub(in crate::bpe) words: [Row; POSITIONS],
    /// The lowest word of each lane.
    pub(in crate::bpe) lowest: Row,
    /// Starts of spans in each cell, and the end of the last.
    pub(in crate::bpe) starts: [u32; BATCH_CELLS],
    pub(in crate::bpe) texts: Texts,
    hashes: [Hash; BATCH_CELLS],
    /// How often each cell occurred since it was taken.
    times: [u64; BATCH_CELLS],
    /// Bit set of the lanes that have a cell.
    pub(in crate::bpe) busy: u32,
    /// True if there is text in `texts`.
    pub(in crate::bpe) has_text: bool,
}

impl MergeBatch {
    pub(in crate::bpe) const fn new() -> MergeBatch {
        MergeBatch {
            words: [[NO_PAIR; BATCH_CELLS]; POSITIONS],
            lowest: [NO_PAIR; BATCH_CELLS],
            starts: [0; BATCH_CELLS],
            texts: [0; BATCH_CELLS * POSITIONS + 16],
            hashes: [Hash::NONE; BATCH_CELLS],
            times: [0; BATCH_CELLS],
            busy: 0,
            has_text: false,
        }
    }

    /// Forgets the cells of a count that failed.
    #[inline(always)]
    pub(in crate::bpe) fn restart(&mut self) {
        if self.busy != 0 {
            *self = MergeBatch::new();
        }
    }

    /// Takes the cell `text[start..end]`, of 2 to [`BATCH_CELL_BYTES`]; returns the tokens of cells
    /// that are merged now.
    #[inline(always)]
    pub(in crate::bpe) fn push<L: BatchKernel>(
        &mut self,
        vocabulary: &Vocabulary,
        memo: Memo,
        hash: Hash,
        text: &[u8],
        (start, end): (usize, usize),
    ) -> u64 {
        // A text repeats its words: this one may have been merged since it was looked for, or be here.
        let known = memo.piece(hash);
        if known != 0 {
            return known;
        }
        let same = self.lanes_of(hash);
        if same != 0 {
            self.times[same.trailing_zeros() as usize % BATCH_CELLS] += 1;
            return 0;
        }
        let lane = self.take(vocabulary, text, (start, end));
        self.hashes[lane] = hash;
        self.times[lane] = 1;
        // A cell without any pair is done: its bytes are its tokens.
        let mut tokens = 0;
        if self.lowest[lane] == NO_PAIR {
            tokens += self.free(memo);
        }
        while self.busy == ALL {
            tokens += self.step::<L>(vocabulary, memo);
        }
        tokens
    }

    /// Has the first free lane take the cell `text[start..end]`; returns the lane.
    #[inline(always)]
    pub(in crate::bpe) fn take(
        &mut self,
        vocabulary: &Vocabulary,
        text: &[u8],
        (start, end): (usize, usize),
    ) -> usize {
        let lane = self.busy.trailing_ones() as usize % BATCH_CELLS;
        self.busy |= 1 << lane;
        self.has_text = true;
        let length = end - start;
        self.starts[lane] = u32::MAX >> (BATCH_CELL_BYTES - length);
        let cell = &mut self.texts[text_start(lane)..][..POSITIONS];
        cell[..16].copy_from_slice(&bytes_at(text, start));
        if length > 16 {
            cell[16..].copy_from_slice(&bytes_at(text, start + 16));
        }
        // Every pair of bytes with its rank; the lowest is joined first.
        let mut lowest = NO_PAIR;
        for at in 0..(length - 1).min(BATCH_CELL_BYTES) {
            let word = word(vocabulary.pair_rank([cell[at], cell[at + 1]]), at);
            self.words[at][lane] = word;
            lowest = lowest.min(word);
        }
        // The last span and the end of it are in `starts` and have no pair.
        self.words[(length - 1) % POSITIONS][lane] = NO_PAIR;
        self.words[length % POSITIONS][lane] = NO_PAIR;
        self.lowest[lane] = lowest;
        lane
    }

    /// Frees the lanes whose cell has no pair any more; returns the bit set of them.
    #[inline(always)]
    pub(in crate::bpe) fn free_merged(&mut self) -> u32 {
        let mut merged = 0;
        for (lane, &lowest) in self.lowest.iter().enumerate() {
            merged |= u32::from(lowest == NO_PAIR) << lane;
        }
        merged &= self.busy;
        self.busy &= !merged;
        merged
    }

    /// Overwrites the texts. A thread keeps its batch, and words that no vocabulary has are names and passwords.
    #[inline(always)]
    pub(in crate::bpe) fn forget_texts(&mut self) {
        if self.has_text {
            self.texts = [0; BATCH_CELLS * POSITIONS + 16];
            self.has_text = false;
        }
    }

    /// Bit set of the lane that has the cell of that hash, if one has.
    #[inline(always)]
    fn lanes_of(&self, hash: Hash) -> u32 {
        let mut lanes = 0;
        for (lane, other) in self.hashes.iter().enumerate() {
            lanes |= u32::from(other.is(hash)) << lane;
        }
        lanes & self.busy
    }

    /// Tokens of all cells that are left; their texts are overwritten.
    #[inline(always)]
    pub(in crate::bpe) fn finish<L: BatchKernel>(
        &mut self,
        vocabulary: &Vocabulary,
        memo: Memo,
    ) -> u64 {
        let mut tokens = 0;
        while self.busy != 0 {
            tokens += self.step::<L>(vocabulary, memo);
        }
        self.forget_texts();
        tokens
    }

    /// A step of every cell; returns the tokens of those that are merged.
    #[inline(always)]
    fn step<L: BatchKernel>(&mut self, vocabulary: &Vocabulary, memo: Memo) -> u64 {
        L::join(self, vocabulary);
        self.free(memo)
    }

    /// Frees the lanes whose cell has no pair any more; returns the tokens of these cells.
    #[inline(always)]
    fn free(&mut self, memo: Memo) -> u64 {
        let mut merged = self.free_merged();
        let mut tokens = 0;
        while merged != 0 {
            let lane = merged.trailing_zeros() as usize % BATCH_CELLS;
            let count = u64::from(self.starts[lane].count_ones() - 1);
            memo.remember_piece(self.hashes[lane], count);
            tokens += count * self.times[lane];
            merged &= merged - 1;
        }
        tokens
    }

    /// Joins the lowest pair of each cell, which has one.
    #[inline(always)]
    pub(in crate::bpe) fn join(&mut self, vocabulary: &Vocabulary) {
        self.join_lanes(vocabulary);
        let mut lowest = [NO_PAIR; BATCH_CELLS];
        for row in &self.words {
            for (lowest, word) in lowest.iter_mut().zip(row) {
                *lowest = (*lowest).min(*word);
            }
        }
        self.lowest = lowest;
    }

    /// The same, but `lowest` stays as it was.
    ///
    /// First all lanes ask for what they have to look up, then they look it up, so that they wait for
    /// the memory together.
    #[inline(always)]
    pub(in crate::bpe) fn join_lanes(&mut self, vocabulary: &Vocabulary) {
        // Each lane joins its pair, and asks for the two that this makes.
        let mut pairs = [[Pair::default(); 2]; BATCH_CELLS];
        let mut lanes = self.busy;
        for pairs in &mut pairs {
            if lanes == 0 {
                break;
            }
            let lane = lanes.trailing_zeros() as usize % BATCH_CELLS;
            lanes &= lanes - 1;
            *pairs = self.join_lane(vocabulary, lane);
        }
        // By now the memory has answered: the ranks are read and written down.
        let mut lanes = self.busy;
        for pairs in pairs {
            if lanes == 0 {
                break;
            }
            let lane = lanes.trailing_zeros() as usize % BATCH_CELLS;
            lanes &= lanes - 1;
            for pair in pairs {
                let rank = pair.rank(vocabulary, self.text(lane));
                self.words[pair.from % POSITIONS][lane] = word(rank, pair.from);
            }
        }
    }

    /// The text of a lane's cell.
    #[inline(always)]
    fn text(&self, lane: usize) -> &Text {
        let rest = &self.texts[text_start(lane % BATCH_CELLS)..];
        rest.first_chunk().unwrap_or(&[0; POSITIONS + 16])
    }

    /// Sets the word of a pair that is longer than a short token.
    #[cfg(target_arch = "x86_64")]
    pub(in crate::bpe) fn set_long(
        &mut self,
        vocabulary: &Vocabulary,
        lane: usize,
        from: usize,
        to: usize,
    ) {
        let word = word(vocabulary.candidate_rank(self.text(lane), from, to), from);
        self.words[from % POSITIONS][lane] = word;
        self.lowest[lane] = self.lowest[lane].min(word);
    }

    /// Joins the lowest pair of a lane; returns the pairs that this makes.
    #[inline(always)]
    fn join_lane(&mut self, vocabulary: &Vocabulary, lane: usize) -> [Pair; 2] {
        #[cfg(test)]
        crate::bpe::steps::add(1);
        let at = self.lowest[lane].cast_unsigned() as usize % POSITIONS;
        let starts = self.starts[lane];
        let joined = after(starts, at);
        let starts = starts & !(1 << joined);
        self.starts[lane] = starts;
        self.words[joined % POSITIONS][lane] = NO_PAIR;
        let end = after(starts, at);
        let before = starts & ((1 << at) - 1);
        // Without a span behind the joined one, the next end is far away: a length of no token.
        let next = after(starts, end);
        // Without a span before the joined one, its own word is written once more.
        let previous = if before == 0 {
            at
        } else {
            before.ilog2() as usize
        };
        let previous_end = if before == 0 { next } else { end };
        let text = self.text(lane);
        [
            Pair::new(vocabulary, text, at, next),
            Pair::new(vocabulary, text, previous, previous_end),
        ]
    }
}

/// Two neighbours, whose join is looked up.
#[derive(Clone, Copy, Default)]
struct Pair {
    from: usize,
    to: usize,
    key: Key,
    place: usize,
}

impl Pair {
    #[inline(always)]
    fn new(vocabulary: &Vocabulary, text: &Text, from: usize, to: usize) -> Pair {
        let length = to.wrapping_sub(from).min(SHORT_BYTES + 1);
        let start = text[from % POSITIONS..].first_chunk();
        let key = start.map_or(Key::default(), |start| Key::new(start, length));
        let place = vocabulary.place(key);
        prefetch(vocabulary.word(place));
        Pair {
            from,
            to,
            key,
            place,
        }
    }

    #[inline(always)]
    fn rank(&self, vocabulary: &Vocabulary, text: &Text) -> u32 {
        let length = self.to.wrapping_sub(self.from);
        if length.wrapping_sub(SHORT_BYTES + 1) < BATCH_CELL_BYTES - SHORT_BYTES {
            return vocabulary.candidate_rank(text, self.from, self.to);
        }
        vocabulary.rank_at(self.place, self.key)
    }
}

/// The start after that at `at`, or a place beyond all cells.
#[inline(always)]
fn after(starts: u32, at: usize) -> usize {
    let later = u64::from(starts) >> (at % 64) >> 1;
    at + 1 + later.trailing_zeros() as usize
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "a position is below 32")]
fn word(rank: u32, at: usize) -> i32 {
    if rank == NONE {
        NO_PAIR
    } else {
        (rank << POSITION_BITS | at as u32).cast_signed()
    }
}
