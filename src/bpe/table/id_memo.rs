//! Tokens of pieces that were encoded before, by hash.
//!
//! What the [memo of counts](crate::bpe::table::memo) is for counting, this is for encoding. An entry holds up to
//! three tokens and is two words. The first word is mixed with the second, so that halves of two entries do
//! not fit together and threads share the table without a lock; and the second is mixed with the hash, so that
//! the tokens can be read by whoever has the piece and the secret, and by nobody else. A piece of up to
//! [`MOST`] tokens takes several entries of one line of memory.
//!
//! A process has the memory of the table, 1 MB, once it encodes.

#![allow(
    clippy::cast_possible_truncation,
    reason = "a part of a word is what is meant"
)]

use std::hint::select_unpredictable;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::bpe::prefetch::prefetch;
use crate::bpe::table::NONE;
use crate::bpe::table::key::RANK_BITS;
use crate::bpe::table::memo::{Hash, Memo, MemoKey};

/// Entries of the table.
const ENTRIES: usize = 1 << 16;

/// Entries of a line of memory.
const ENTRIES_OF_LINE: usize = 4;

/// Tokens of an entry.
pub(in crate::bpe) const AT_ONCE: usize = 3;

/// Tokens of the longest piece that is remembered.
pub(in crate::bpe) const MOST: usize = AT_ONCE * ENTRIES_OF_LINE;

/// A bit of an entry that others go on from.
const MORE: u64 = 1 << 56;

/// Where the number of tokens is in an entry.
const COUNT_SHIFT: u32 = AT_ONCE as u32 * RANK_BITS;

static TABLE: Entries = Entries([const { [const { AtomicU64::new(0) }; 2] }; ENTRIES]);

#[repr(align(64))]
struct Entries([[AtomicU64; 2]; ENTRIES]);

impl Entries {
    #[inline(always)]
    fn at(&self, hash: Hash) -> &[AtomicU64; 2] {
        &self.0[hash.place as usize % ENTRIES]
    }
}

/// Up to [`AT_ONCE`] tokens in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bpe) struct Packed(u64);

impl Packed {
    /// Not known.
    pub(in crate::bpe) const NONE: Packed = Packed(0);

    /// The token of that rank, or what is not known if there is none; without a branch.
    #[inline(always)]
    pub(in crate::bpe) fn rank(rank: u32) -> Packed {
        let word = u64::from(rank) | 1 << COUNT_SHIFT;
        Packed(select_unpredictable(rank == NONE, 0, word))
    }

    /// What stands for the tokens of a list of that number.
    #[inline(always)]
    pub(in crate::bpe) fn list(number: usize) -> Packed {
        Packed(MORE | number as u64)
    }

    /// The number of the list that this stands for, if it does.
    #[inline(always)]
    pub(in crate::bpe) fn listed(self) -> Option<usize> {
        self.has_more().then_some((self.0 % MORE) as usize)
    }

    /// The first tokens of these, at most [`AT_ONCE`].
    #[inline(always)]
    pub(in crate::bpe) fn of(tokens: &[u32]) -> Packed {
        let (mut word, mut count) = (0, 0);
        for (place, &token) in (0..).zip(tokens.iter().take(AT_ONCE)) {
            word |= u64::from(token) << (place * RANK_BITS);
            count = u64::from(place) + 1;
        }
        let more = if tokens.len() > AT_ONCE { MORE } else { 0 };
        Packed(word | count << COUNT_SHIFT | more)
    }

    #[inline(always)]
    pub(in crate::bpe) fn is_known(self) -> bool {
        self != Packed::NONE
    }

    /// True if these are the first tokens of more.
    #[inline(always)]
    pub(in crate::bpe) fn has_more(self) -> bool {
        self.0 & MORE != 0
    }

    #[inline(always)]
    pub(in crate::bpe) fn count(self) -> usize {
        (self.0 >> COUNT_SHIFT) as usize % (AT_ONCE + 1)
    }

    /// The tokens, and zeros.
    #[inline(always)]
    pub(in crate::bpe) fn tokens(self) -> [u32; AT_ONCE] {
        [0, 1, 2].map(|place| (self.0 >> (place * RANK_BITS)) as u32 % (1 << RANK_BITS))
    }
}

/// What is remembered of one vocabulary.
#[derive(Clone, Copy)]
pub(in crate::bpe) struct IdMemo {
    hashes: Memo,
}

impl IdMemo {
    pub(in crate::bpe) fn new(vocabulary: u64, key: MemoKey) -> IdMemo {
        let hashes = Memo::new(vocabulary, key);
        IdMemo { hashes }
    }

    /// The hashes by which pieces are found.
    #[inline(always)]
    pub(in crate::bpe) fn hashes(self) -> Memo {
        self.hashes
    }

    /// Asks for what [`find`](Self::find) will read.
    #[inline(always)]
    pub(in crate::bpe) fn prefetch(self, hash: Hash) {
        prefetch(TABLE.at(hash));
    }

    /// The first tokens of the piece of that hash, if they are known; without a branch.
    #[inline(always)]
    pub(in crate::bpe) fn find(self, hash: Hash) -> Packed {
        let [first, second] = TABLE.at(hash);
        let second = second.load(Relaxed);
        let fits = first.load(Relaxed) ^ second == hash.tag;
        Packed(select_unpredictable(fits, second ^ mask(hash), 0))
    }

    /// Appends the tokens of the piece of that hash, if all are known.
    pub(in crate::bpe) fn find_all(self, hash: Hash, tokens: &mut Vec<u32>) -> bool {
        let before = tokens.len();
        for part in 0..ENTRIES_OF_LINE as u64 {
            let packed = self.find(part_of(hash, part));
            if !packed.is_known() {
                break;
            }
            tokens.extend(&packed.tokens()[..packed.count()]);
            if !packed.has_more() {
                return true;
            }
        }
        tokens.truncate(before);
        false
    }

    /// Remembers `tokens`, unless they are none; without a branch.
    #[inline(always)]
    pub(in crate::bpe) fn remember_some(self, hash: Hash, tokens: Packed) {
        let [first, second] = TABLE.at(hash);
        let made = tokens.0 ^ mask(hash);
        let before = [first.load(Relaxed), second.load(Relaxed)];
        let is_known = tokens.is_known();
        first.store(
            select_unpredictable(is_known, hash.tag ^ made, before[0]),
            Relaxed,
        );
        second.store(select_unpredictable(is_known, made, before[1]), Relaxed);
    }

    /// Remembers `tokens`, unless they are more than [`MOST`].
    #[inline(always)]
    pub(in crate::bpe) fn remember(self, hash: Hash, tokens: &[u32]) {
        if tokens.len() > MOST {
            return;
        }
        for (part, at) in (0..).zip((0..tokens.len()).step_by(AT_ONCE)) {
            self.remember_some(part_of(hash, part), Packed::of(&tokens[at..]));
        }
    }
}

/// What the tokens of an entry are mixed with: bits that tell neither its place nor the rest of it.
#[inline(always)]
fn mask(hash: Hash) -> u64 {
    (hash.place / ENTRIES as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// The hash of a further entry of a piece, in the same line.
#[inline(always)]
fn part_of(hash: Hash, part: u64) -> Hash {
    Hash {
        tag: hash
            .tag
            .wrapping_add(part.wrapping_mul(0xD6E8_FEB8_6659_FD93)),
        place: hash.place ^ part ^ part << u64::BITS / 2,
    }
}
