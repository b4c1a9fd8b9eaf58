//! Digests by fingerprint: what was digested before is not digested again.
//!
//! Three tables of sets of four entries, of 40 KB, 160 KB and 1.3 MB, for the whole process: the next one is begun
//! when half of the one before is taken, so that few pages are touched while little is known. In a set that is
//! full, chance decides what goes. Threads share the tables without a lock, which a fork could copy locked: the
//! last word of an entry is a sum of the others, so that halves of two entries do not fit together, but for once
//! in 2^48 times.
//!
//! An entry is found by 128 bits under a key of one estimator and one tenant. It has the digest that BLAKE3 would
//! give, so what is remembered and what is forgotten changes no answer.
use crate::known::identity::Digest;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

const SET: usize = 4;
const NOTE_BITS: u32 = 16;

/// Fingerprint, digest, and what binds them, with a note in its lowest bytes.
type Entry = [AtomicU64; 5];
type Table<const SETS: usize> = [[Entry; SET]; SETS];

static SMALL: Table<{ 1 << 8 }> = free();
static MIDDLE: Table<{ 1 << 10 }> = free();
static LARGE: Table<{ 1 << 13 }> = free();
static COUNT: AtomicUsize = AtomicUsize::new(0);

const fn free<const SETS: usize>() -> Table<SETS> {
    [const { [const { [const { AtomicU64::new(0) }; 5] }; SET] }; SETS]
}

/// The tables, the largest first.
fn tables() -> [&'static [[Entry; SET]]; 3] {
    [&LARGE, &MIDDLE, &SMALL]
}

/// The digest, and what was noted beside it, that was remembered for `fingerprint`.
pub(crate) fn remembered(fingerprint: Digest) -> Option<(Digest, u16)> {
    let count = COUNT.load(Relaxed);
    let [large, middle, small] = tables();
    let begun = [(large, most(middle)), (middle, most(small)), (small, 0)];
    let begun = begun.into_iter().filter(|(_, least)| count >= *least);
    begun.map(|(table, _)| table).find_map(|table| {
        let set = &table[place(fingerprint, table.len())];
        set.iter().find_map(|entry| read(entry, fingerprint))
    })
}

/// Remembers `digest`, and a `note`, for `fingerprint`.
pub(crate) fn remember(fingerprint: Digest, digest: Digest, note: u16) {
    let count = COUNT.fetch_add(1, Relaxed);
    let [large, middle, small] = tables();
    let table = match count {
        _ if count < most(small) => small,
        _ if count < most(middle) => middle,
        _ => large,
    };
    let set = &table[place(fingerprint, table.len())];
    let is_free = |entry: &Entry| read(entry, fingerprint).is_some() || is_empty(entry);
    let at = set.iter().position(is_free).unwrap_or(count % SET);
    write(&set[at], fingerprint, digest, note);
}

/// So much is remembered before a larger table is begun.
fn most(table: &[[Entry; SET]]) -> usize {
    table.len() * SET / 2
}

#[expect(clippy::cast_possible_truncation)] // the low bits are what is meant
fn place(fingerprint: Digest, sets: usize) -> usize {
    fingerprint.word() as usize & (sets - 1)
}

fn is_empty(entry: &Entry) -> bool {
    entry[4].load(Relaxed) == 0
}

/// The bond of the words of an entry: they are uniform, so a sum with each at other bits does.
fn bound(words: [u64; 4], note: u16) -> u64 {
    let [a, b, c, d] = words;
    let sum = a ^ b.rotate_left(13) ^ c.rotate_left(29) ^ d.rotate_left(47);
    let sum = sum.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 << NOTE_BITS;
    sum & !((1 << NOTE_BITS) - 1) | u64::from(note)
}

fn read(entry: &Entry, fingerprint: Digest) -> Option<(Digest, u16)> {
    let [a, b] = words(fingerprint);
    if entry[0].load(Relaxed) != a || entry[1].load(Relaxed) != b {
        return None;
    }
    let [c, d, last] = [2, 3, 4].map(|nth: usize| entry[nth].load(Relaxed));
    let note = note_of(last);
    (bound([a, b, c, d], note) == last).then(|| (digest([c, d]), note))
}

/// The lowest bytes of `word`.
fn note_of(word: u64) -> u16 {
    let [low, high, ..] = word.to_le_bytes();
    u16::from_le_bytes([low, high])
}

fn write(entry: &Entry, fingerprint: Digest, digest: Digest, note: u16) {
    let ([a, b], [c, d]) = (words(fingerprint), words(digest));
    let last = bound([a, b, c, d], note);
    for (place, word) in entry.iter().zip([a, b, c, d, last]) {
        place.store(word, Relaxed);
    }
}

fn words(digest: Digest) -> [u64; 2] {
    let halves = digest.0.as_chunks().0;
    [0, 1].map(|half: usize| u64::from_le_bytes(halves[half]))
}

fn digest([first, second]: [u64; 2]) -> Digest {
    let mut digest = Digest([0; 16]);
    digest.0[..8].copy_from_slice(&first.to_le_bytes());
    digest.0[8..].copy_from_slice(&second.to_le_bytes());
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(number: u64) -> Digest {
        Digest::of(&blake3::hash(&number.to_le_bytes()))
    }

    #[test]
    fn what_is_found_is_what_was_remembered() {
        assert_eq!(remembered(named(1)), None);
        for number in 0..100_000 {
            remember(named(number), named(number + 1), note_of(number));
        }
        let found = |number| remembered(named(number));
        let right = |number: u64| Some((named(number + 1), note_of(number)));
        assert!((0..100_000).all(|it| found(it).is_none() || found(it) == right(it)));
        assert!((95_000..100_000).filter(|it| found(*it).is_some()).count() > 4_000);
        assert_eq!(found(100_001), None);
    }

    #[test]
    fn halves_of_two_entries_are_none() {
        let entry = Entry::default();
        write(&entry, named(1), named(2), 3);
        assert_eq!(read(&entry, named(1)), Some((named(2), 3)));
        assert_eq!(read(&entry, named(2)), None);
        entry[2].store(named(9).word(), Relaxed);
        assert_eq!(read(&entry, named(1)), None);
    }
}
