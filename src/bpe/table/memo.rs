//! Counts that were found before, by hash.
//!
//! The vocabulary is megabytes of table, and a text uses a few thousand lines of it, each of which
//! holds one piece that occurs and three that do not: waiting for them was two fifths of the time of
//! new text. What a worker sees again and again fits into 512 KB, eight to a line. So pieces are looked
//! for here first, tokens and others alike. Whole texts are remembered too: a gateway sees the same
//! messages with every turn.
//!
//! A memo is a table with one place for each hash, or two for a text; the newer count takes the place. An
//! entry of [`Pieces`] is one word; in an entry of [`Texts`], the first word is mixed with the second, so
//! that halves of two entries do not fit together. So threads share a table without a lock. There are
//! [`TABLES`] tables of pieces, and threads take turns in choosing, because a core that writes makes
//! the others wait.
//!
//! No text is kept, only hashes with a secret of the process. Two pieces have the same 58 bits at
//! the same place once in 10^17 times, and without the secret no one can bring that about.
//!
//! Whoever counts under a [`MemoKey`] finds what was counted under the same one and nothing else: how long
//! a count takes would tell one tenant what another has sent, word by word.

#![allow(
    clippy::cast_possible_truncation,
    reason = "a part of a word is what is meant"
)]

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::bpe::prefetch::prefetch;
use crate::bpe::table::key::bytes_at;
use crate::bpe::table::key::low_bytes;

/// Counts of pieces in one table.
const PIECES: usize = 1 << 16;

/// Pairs of counts of texts: of the 3,000 texts of a long conversation, some 50 are displaced.
const TEXTS: usize = 1 << 13;

/// Shortest text whose count is remembered: counting a shorter one takes no longer.
const REMEMBERED_BYTES: usize = 64;

/// Tables of pieces, for threads in turn: 2 MB of memory at most, of which a process has what it uses.
const TABLES: usize = 4;

/// Bytes of a page of memory, at least.
pub(super) const PAGE_BYTES: usize = 4096;

/// Longest piece that is hashed at once.
pub(crate) const SHORT_PIECE_BYTES: usize = 15;

/// Shortest text whose hash is made in four parts side by side.
const SIDE_BY_SIDE: usize = 256;

static TABLES_OF_PIECES: [Pieces; TABLES] =
    [const { Pieces([const { AtomicU64::new(0) }; PIECES]) }; TABLES];

static TEXT_COUNTS: Texts =
    Texts([const { [const { [const { AtomicU64::new(0) }; 2] }; 2] }; TEXTS]);

static SECRET: OnceLock<[u64; 2]> = OnceLock::new();

/// Gives every process the same hashes, so that instructions can be counted; before the first count.
pub(in crate::bpe) fn fix_secret() {
    SECRET.get_or_init(|| [0x243F_6A88_85A3_08D3, 0x1319_8A2E_0370_7344]);
}

/// Whose counts are remembered together; those of another key are not found. Uniform bits that are told to
/// nobody, or zeros for all who have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoKey(pub [u64; 2]);

/// The counts that this thread remembers of one vocabulary under one key.
#[derive(Clone, Copy)]
pub(crate) struct Memo {
    secret: [u64; 2],
    pieces: &'static Pieces,
}

/// A hash of 128 bits.
#[derive(Clone, Copy)]
pub(crate) struct Hash {
    /// Both halves of a product, joined.
    pub(in crate::bpe::table) tag: u64,
    /// The same, joined at other bits: the high half alone crowds words that differ in one byte.
    pub(in crate::bpe::table) place: u64,
}

impl Hash {
    pub(crate) const NONE: Hash = Hash { tag: 0, place: 0 };

    /// True if both are hashes of the same, but for once in 2^64 times.
    #[inline(always)]
    pub(in crate::bpe) fn is(self, other: Hash) -> bool {
        self.tag == other.tag
    }

    /// The same hash at one of the first `places` of a table, a power of two.
    #[inline(always)]
    pub(crate) fn within(self, places: u64) -> Hash {
        Hash {
            place: self.place & (places - 1),
            ..self
        }
    }
}

impl Memo {
    /// The memo for the vocabulary of that number, under `key`.
    pub(crate) fn new(vocabulary: u64, key: MemoKey) -> Memo {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static TABLE: Cell<usize> = const { Cell::new(usize::MAX) });
        let [first, second] = *SECRET.get_or_init(|| {
            let random = RandomState::new();
            [random.hash_one(0), random.hash_one(1)]
        });
        if TABLE.get() == usize::MAX {
            TABLE.set(THREADS.fetch_add(1, Relaxed) % TABLES);
        }
        Memo {
            secret: [
                first ^ key.0[0] ^ vocabulary.wrapping_mul(0x9E37_79B9_7F4A_7C15),
                second ^ key.0[1],
            ],
            pieces: &TABLES_OF_PIECES[TABLE.get() % TABLES],
        }
    }

    /// The same for parts of pieces, where these may have other counts than a whole piece of their text.
    pub(in crate::bpe) fn apart(mut self) -> Memo {
        self.secret[1] ^= 0xD6E8_FEB8_6659_FD93;
        self
    }

    /// Hash of `text[start..end]`, which is not empty.
    #[inline(always)]
    pub(crate) fn hash(self, text: &[u8], start: usize, end: usize) -> Hash {
        if end - start > SHORT_PIECE_BYTES {
            self.hash_long(text, start, end)
        } else {
            self.hash_short(&bytes_at(text, start), end - start)
        }
    }

    /// Hash of the first `length` bytes of `text`, at most [`SHORT_PIECE_BYTES`].
    #[inline(always)]
    pub(crate) fn hash_short(self, text: &[u8; 16], length: usize) -> Hash {
        let (low, high) = low_bytes(text, length);
        self.mixed(low ^ self.secret[0], high | (length as u64) << 56)
    }

    /// Hash of `text[start..end]`, which is longer than [`SHORT_PIECE_BYTES`].
    #[inline(always)]
    fn hash_long(self, text: &[u8], start: usize, end: usize) -> Hash {
        let mut hash = self.mixed(self.secret[0], (end - start) as u64);
        let mut at = start;
        if end - start >= SIDE_BY_SIDE {
            let mut lanes = [0, 1, 2, 3].map(|lane| hash.tag.wrapping_add(lane));
            for block in text[start..end].as_chunks::<64>().0 {
                for (lane, bytes) in lanes.iter_mut().zip(block.as_chunks().0) {
                    let (low, high) = low_bytes(bytes, 16);
                    *lane = self.mixed(low ^ *lane, high).tag;
                }
            }
            for (number, lane) in (0..).zip(lanes) {
                hash = self.mixed(lane ^ hash.tag, number);
            }
            at = end - (end - start) % 64;
        }
        while at < end {
            let (low, high) = low_bytes(&bytes_at(text, at), 16.min(end - at));
            hash = self.mixed(low ^ hash.tag, high);
            at += 16;
        }
        hash
    }

    #[inline(always)]
    fn mixed(self, low: u64, high: u64) -> Hash {
        let product = u128::from(low).wrapping_mul(u128::from(high ^ self.secret[1]));
        let (low, high) = (product as u64, (product >> 64) as u64);
        Hash {
            tag: low ^ high,
            place: low >> 32 ^ high,
        }
    }

    /// Asks for what [`piece`](Self::piece) will read.
    #[inline(always)]
    pub(in crate::bpe) fn prefetch(self, hash: Hash) {
        prefetch(self.pieces.at(hash));
    }

    /// Tokens of the piece of that hash, or 0.
    #[inline(always)]
    pub(crate) fn piece(self, hash: Hash) -> u64 {
        let entry = self.pieces.at(hash).load(Relaxed);
        if (entry ^ hash.tag) >> COUNT_BITS == 0 {
            entry & MOST
        } else {
            0
        }
    }

    #[inline(always)]
    pub(crate) fn remember_piece(self, hash: Hash, tokens: u64) {
        if tokens <= MOST {
            let entry = hash.tag & !MOST | tokens;
            self.pieces.at(hash).store(entry, Relaxed);
        }
    }

    /// Remembers `tokens` of a piece, at most [`MOST`], unless they are none; without a branch.
    #[inline(always)]
    pub(crate) fn remember_some(self, hash: Hash, tokens: u64) {
        let entry = self.pieces.at(hash);
        let before = entry.load(Relaxed);
        let made = hash.tag & !MOST | tokens;
        entry.store(if tokens == 0 { before } else { made }, Relaxed);
    }

    /// Tokens of the text of that hash, or 0.
    fn text(self, hash: Hash) -> u64 {
        let found = TEXT_COUNTS.at(hash).iter().find_map(|[mixed, tokens]| {
            let tokens = tokens.load(Relaxed);
            (mixed.load(Relaxed) ^ tokens == hash.tag).then_some(tokens)
        });
        found.unwrap_or(0)
    }

    /// Remembers `tokens` in front; what was there goes behind.
    fn remember_text(self, hash: Hash, tokens: u64) {
        let [front, behind] = TEXT_COUNTS.at(hash);
        for (to, from) in behind.iter().zip(front) {
            to.store(from.load(Relaxed), Relaxed);
        }
        front[0].store(hash.tag ^ tokens, Relaxed);
        front[1].store(tokens, Relaxed);
    }
}

/// Tokens of `text` in the vocabulary of that number: remembered under `key`, or what `count` finds, which
/// is remembered if it is some and at most `limit`.
pub(crate) fn remembered(
    vocabulary: u64,
    key: MemoKey,
    text: &[u8],
    limit: u64,
    count: impl FnOnce() -> u64,
) -> u64 {
    if text.len() < REMEMBERED_BYTES {
        return count();
    }
    let memo = Memo::new(vocabulary, key);
    let hash = memo.hash(text, 0, text.len());
    match memo.text(hash) {
        0 => {
            let tokens = count();
            if tokens <= limit {
                memo.remember_text(hash, tokens);
            }
            tokens
        }
        tokens => tokens,
    }
}

/// Has the memory made of what this thread remembers, so that no count waits for that: 0.8 MB.
///
/// A page is made when it is first written to, and a new text writes to all of them.
pub(super) fn make_pages() {
    let pieces = Memo::new(0, MemoKey::default()).pieces.0.iter();
    let texts = TEXT_COUNTS.0.as_flattened().as_flattened().iter();
    for word in pieces.chain(texts).step_by(PAGE_BYTES / size_of::<u64>()) {
        word.store(word.load(Relaxed), Relaxed);
    }
}

/// A number for a vocabulary that comes at run time, of which no other has counted.
pub(crate) fn new_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 32);
    NEXT.fetch_add(1, Relaxed)
}

/// Low bits of an entry of [`Pieces`], which hold the count.
const COUNT_BITS: u32 = 6;

/// Largest count of a piece.
const MOST: u64 = (1 << COUNT_BITS) - 1;

#[repr(align(64))]
struct Pieces([AtomicU64; PIECES]);

impl Pieces {
    #[inline(always)]
    fn at(&self, hash: Hash) -> &AtomicU64 {
        &self.0[hash.place as usize % PIECES]
    }
}

#[repr(align(64))]
struct Texts([[[AtomicU64; 2]; 2]; TEXTS]);

impl Texts {
    fn at(&self, hash: Hash) -> &[[AtomicU64; 2]; 2] {
        &self.0[hash.place as usize % TEXTS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn test_what_was_remembered_is_there() {
        let memo = Memo::new(9, MemoKey::default());
        let hash = memo.hash(b"a text that no other test counts", 0, 32);
        assert_eq!((memo.piece(hash), memo.text(hash)), (0, 0));
        memo.remember_piece(hash, 3);
        memo.remember_text(hash, 1_000_000);
        assert_eq!((memo.piece(hash), memo.text(hash)), (3, 1_000_000));
        let other =
            Memo::new(10, MemoKey::default()).hash(b"a text that no other test counts", 0, 32);
        assert_eq!((memo.piece(other), memo.text(other)), (0, 0));
        memo.remember_piece(other, MOST + 1);
        assert_eq!(memo.piece(other), 0);
    }

    #[test]
    fn test_two_texts_share_a_place_and_a_third_takes_the_older_one() {
        let memo = Memo::new(12, MemoKey::default());
        let hashes = [1, 2, 3].map(|tag| Hash { tag, place: 77 });
        for (tokens, hash) in (1..).zip(hashes) {
            memo.remember_text(hash, tokens);
        }
        assert_eq!(hashes.map(|hash| memo.text(hash)), [0, 2, 3]);
    }

    #[test]
    fn test_only_what_is_long_enough_and_within_the_limit_is_remembered() {
        let counted =
            |text: &[u8], limit, tokens| remembered(13, MemoKey::default(), text, limit, || tokens);
        let (short, long) = ([b'a'; REMEMBERED_BYTES - 1], [b'a'; REMEMBERED_BYTES]);
        assert_eq!([1, 2].map(|tokens| counted(&short, 9, tokens)), [1, 2]);
        let limits = [(1, 5), (9, 7), (9, 8)];
        let found = limits.map(|(limit, tokens)| counted(&long, limit, tokens));
        assert_eq!(found, [5, 7, 7]);
    }

    #[test]
    fn test_another_key_finds_nothing() {
        let keys = [[0, 0], [1, 0], [0, 1], [7, 9]].map(MemoKey);
        for text in [&b"short"[..], &[b'x'; 40], &[b'y'; 4096]] {
            let memos = keys.map(|key| Memo::new(11, key));
            for (nth, memo) in memos.iter().enumerate() {
                let hash = memo.hash(text, 0, text.len());
                assert_eq!((memo.piece(hash), memo.text(hash)), (0, 0), "{nth}");
                memo.remember_piece(hash, 5);
                memo.remember_text(hash, 50);
                let again = Memo::new(11, keys[nth]).hash(text, 0, text.len());
                assert_eq!((memo.piece(again), memo.text(again)), (5, 50), "{nth}");
            }
        }
    }

    #[test]
    fn test_every_byte_and_the_length_change_the_hash() {
        let text = [0; SIDE_BY_SIDE + 100];
        let memo = Memo::new(1, MemoKey::default());
        let hash = |text: &[u8], end| memo.hash(text, 0, end).tag;
        let mut seen = HashSet::new();
        for end in 1..=text.len() {
            assert!(seen.insert(hash(&text, end)));
            for at in 0..end {
                let mut other = text;
                other[at] = 1;
                assert!(seen.insert(hash(&other, end)));
            }
        }
    }
}
