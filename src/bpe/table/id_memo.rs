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

/// Pairs of entries of the table: with places for one each, twice as many pieces of English are displaced.
const PAIRS: usize = 1 << 15;

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

static TABLE: Pairs = Pairs::new();

/// An entry: what the tokens are mixed with, and the tokens, which are mixed with the hash.
type Entry = [AtomicU64; 2];

#[repr(align(64))]
struct Pairs([[Entry; 2]; PAIRS]);

impl Pairs {
    const fn new() -> Pairs {
        Pairs([const { [const { [const { AtomicU64::new(0) }; 2] }; 2] }; PAIRS])
    }

    #[inline(always)]
    fn at(&self, hash: Hash) -> &[Entry; 2] {
        &self.0[hash.place as usize % PAIRS]
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
        let token = |place: u32| (self.0 >> (place * RANK_BITS)) as u32 % (1 << RANK_BITS);
        [token(0), token(1), token(2)]
    }
}

/// What is remembered of one vocabulary.
#[derive(Clone, Copy)]
pub(in crate::bpe) struct IdMemo {
    hashes: Memo,
    pairs: &'static Pairs,
}

impl IdMemo {
    pub(in crate::bpe) fn new(vocabulary: u64, key: MemoKey) -> IdMemo {
        IdMemo {
            hashes: Memo::new(vocabulary, key),
            pairs: &TABLE,
        }
    }

    /// The hashes by which pieces are found.
    #[inline(always)]
    pub(in crate::bpe) fn hashes(self) -> Memo {
        self.hashes
    }

    /// Asks for what [`find`](Self::find) will read.
    #[inline(always)]
    pub(in crate::bpe) fn prefetch(self, hash: Hash) {
        prefetch(self.pairs.at(hash));
    }

    /// The first tokens of the piece of that hash, if they are known; without a branch.
    #[inline(always)]
    pub(in crate::bpe) fn find(self, hash: Hash) -> Packed {
        let words = self.pairs.at(hash).each_ref().map(|[first, second]| {
            let second = second.load(Relaxed);
            let fits = first.load(Relaxed) ^ second == hash.tag;
            select_unpredictable(fits, second ^ mask(hash), 0)
        });
        Packed(words[0] | words[1])
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

    /// Remembers `tokens` in front, unless they are none; what was there goes behind. Without a branch.
    #[inline(always)]
    pub(in crate::bpe) fn remember_some(self, hash: Hash, tokens: Packed) {
        let made = tokens.0 ^ mask(hash);
        let [front, behind] = self.pairs.at(hash);
        for ((front, behind), made) in front.iter().zip(behind).zip([hash.tag ^ made, made]) {
            let before = [front.load(Relaxed), behind.load(Relaxed)];
            let is_known = tokens.is_known();
            front.store(select_unpredictable(is_known, made, before[0]), Relaxed);
            behind.store(
                select_unpredictable(is_known, before[0], before[1]),
                Relaxed,
            );
        }
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
    (hash.place / PAIRS as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// The hash of a further entry of a piece, in the same line.
#[inline(always)]
fn part_of(hash: Hash, part: u64) -> Hash {
    Hash {
        tag: hash
            .tag
            .wrapping_add(part.wrapping_mul(0xD6E8_FEB8_6659_FD93)),
        place: hash.place ^ (part % 2) ^ (part << (u64::BITS / 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpe::table::NOTHING;

    /// Tables that no other test writes to.
    static ALONE: [Pairs; 4] = [const { Pairs::new() }; 4];

    fn memo(table: usize, vocabulary: u64, key: [u64; 2]) -> IdMemo {
        IdMemo {
            hashes: Memo::new(vocabulary, MemoKey(key)),
            pairs: &ALONE[table],
        }
    }

    fn found(memo: IdMemo, hash: Hash) -> Option<Vec<u32>> {
        let mut tokens = vec![1];
        let is_known = memo.find_all(hash, &mut tokens);
        assert_eq!(tokens[0], 1, "what was there stays");
        assert!(is_known || tokens.len() == 1);
        is_known.then(|| tokens[1..].to_vec())
    }

    fn tokens(count: usize) -> Vec<u32> {
        (0..count as u32).map(|it| NOTHING - 1 - it).collect()
    }

    #[test]
    fn test_up_to_twelve_tokens_are_remembered_by_whom_they_belong_to() {
        let keys = [[0, 0], [1, 0], [0, 1], [7, 9]];
        for count in 1..=MOST + 1 {
            let text = vec![b'a'; count];
            let owners = [5, 6].map(|vocabulary| keys.map(|key| (vocabulary, key)));
            for &(vocabulary, key) in owners.as_flattened() {
                let memo = memo(0, vocabulary, key);
                let hash = memo.hashes().hash(&text, 0, count);
                assert_eq!(found(memo, hash), None);
                memo.remember(hash, &tokens(count));
                let expected = (count <= MOST).then(|| tokens(count));
                assert_eq!(found(memo, hash), expected);
            }
        }
    }

    #[test]
    fn test_a_word_has_what_it_was_packed_of() {
        for count in 0..=AT_ONCE + 1 {
            let packed = Packed::of(&tokens(count));
            assert_eq!(packed.count(), count.min(AT_ONCE));
            assert_eq!(packed.tokens()[..packed.count()], tokens(packed.count()));
            assert_eq!(packed.has_more(), count > AT_ONCE);
            assert_eq!(packed.is_known(), count > 0);
        }
        assert_eq!(Packed::rank(NONE), Packed::NONE);
        assert_eq!(Packed::rank(0), Packed::of(&[0]));
        let listed = [Packed::list(5).listed(), Packed::rank(5).listed()];
        assert_eq!(listed, [Some(5), None]);
    }

    #[test]
    fn test_halves_of_two_entries_do_not_fit() {
        let memo = memo(1, 7, [0, 0]);
        let hashes = [[3, 0x1234_5678_0000_0011], [9, 0x8765_4321_0000_0011]]
            .map(|[tag, place]| Hash { tag, place });
        let words = hashes.map(|hash| {
            memo.remember(hash, &tokens(2));
            let [front, _] = memo.pairs.at(hash);
            front.each_ref().map(|word| word.load(Relaxed))
        });
        let [front, behind] = memo.pairs.at(hashes[0]);
        for (place, [first, second]) in [(front, [0, 1]), (behind, [1, 0])] {
            place[0].store(words[first][0], Relaxed);
            place[1].store(words[second][1], Relaxed);
        }
        assert_eq!(hashes.map(|hash| found(memo, hash)), [None, None]);
    }

    #[test]
    fn test_a_third_takes_the_place_of_the_oldest_and_a_part_alone_is_nothing() {
        let memo = memo(2, 8, [0, 0]);
        let hash = |tag| Hash {
            tag,
            place: 0x5_0000_0020,
        };
        for tag in 1..=3 {
            memo.remember(hash(tag), &tokens(tag as usize));
        }
        let all = [1, 2, 3].map(|tag| found(memo, hash(tag)));
        assert_eq!(all, [None, Some(tokens(2)), Some(tokens(3))]);
        memo.remember_some(hash(1), Packed::NONE);
        assert_eq!(found(memo, hash(2)), Some(tokens(2)));
        memo.remember(hash(1), &tokens(MOST));
        assert_eq!(found(memo, hash(1)), Some(tokens(MOST)));
        memo.remember(part_of(hash(2), 1), &tokens(1));
        assert_eq!(found(memo, hash(1)), None);
        memo.remember(hash(1), &tokens(MOST));
        assert_eq!(found(memo, hash(1)), Some(tokens(MOST)));
    }

    #[test]
    fn test_an_entry_does_not_show_its_tokens() {
        let memo = memo(3, 9, [0, 0]);
        let hash = memo.hashes().hash(b"a name", 0, 6);
        memo.remember(hash, &tokens(2));
        let [front, _] = memo.pairs.at(hash);
        for word in front {
            assert_ne!(Packed(word.load(Relaxed)).tokens()[..2], tokens(2));
        }
    }
}
