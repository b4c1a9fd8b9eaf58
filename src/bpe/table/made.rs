//! The tables of a vocabulary, made from its tokens.
//!
//! `build.rs` includes this file too, and writes the tables of the package's vocabularies; those of a user's
//! file are made when it is read.

#![allow(
    clippy::cast_possible_truncation,
    reason = "a half of a word is what is meant"
)]

use super::key::{self, Join, Key, Token};

/// Rank of what is no token.
const NONE: u32 = u32::MAX;

/// Slots per 100 keys of tables that are made at run time: more than in those of `build.rs`, so that they are
/// found sooner.
#[allow(dead_code, reason = "`build.rs` has its own")]
pub(crate) const SLOTS_PERCENT: usize = 125;

/// Mean number of keys that share a pilot, at most: more is smaller, but slower to search.
const KEYS_PER_PILOT: usize = 4;

/// The tables, as `Vocabulary` has them.
pub(crate) struct Tables {
    pub(crate) bytes: Vec<u8>,
    pub(crate) tokens: Vec<[u8; 8]>,
    pub(crate) join_slots: Vec<[u8; 4]>,
    pub(crate) join_buckets: Vec<[u8; 4]>,
    pub(crate) singles: Vec<[u8; 4]>,
    pub(crate) neighbours: Vec<u8>,
    pub(crate) split_neighbours: Vec<u8>,
    pub(crate) pairs: Vec<[u8; 4]>,
    pub(crate) long_filter: Vec<u8>,
    pub(crate) words: Vec<[u8; 8]>,
    pub(crate) tiny_slots: usize,
    pub(crate) short_buckets: Vec<[u8; 4]>,
    pub(crate) long: Vec<[u8; 4]>,
    pub(crate) long_pilots: Vec<[u8; 2]>,
}

impl Tables {
    /// The tables of tokens in the order of their ranks, each with its last join; with `slots_percent` slots for
    /// 100 keys. Nothing if two keys have one hash.
    pub(crate) fn new(
        ranked: &[(&[u8], u32)],
        joins: &[Option<Join>],
        slots_percent: usize,
    ) -> Option<Tables> {
        let (bytes, tokens) = texts(ranked, joins);
        let (neighbours, split_neighbours) = neighbour_filters(ranked);
        let long_tokens = || ranked.iter().filter(|it| it.0.len() > key::SHORT_BYTES);
        let (mut tiny, mut others) = (Vec::new(), Vec::new());
        for (token, rank) in ranked.iter().filter(|it| it.0.len() <= key::SHORT_BYTES) {
            let key = Key::new(&first_bytes(token), token.len());
            let high = key.high | u64::from(*rank) << key::RANK_SHIFT;
            if key.is_tiny() {
                tiny.push((key.hash(), [high]));
            } else {
                others.push((key.hash(), [key.low, high]));
            }
        }
        let long: Vec<(u64, u32)> = long_tokens()
            .map(|(token, rank)| (key::hash_long(token), *rank))
            .map(|(hash, rank)| (hash, key::marked(hash, rank, key::LONG_MARK_BITS)))
            .collect();
        let joined: Vec<(u64, u32)> = (0..)
            .zip(joins)
            .filter_map(|(rank, join)| Some(((*join)?.hash(), rank)))
            .map(|(hash, rank)| (hash, key::marked(hash, rank, key::JOIN_MARK_BITS)))
            .collect();
        let (join_slots, join_pilots) = place(&joined, slots_percent)?;
        let (tiny_slots, tiny_pilots) = place_by(&tiny, key::BUCKETS, slots_percent)?;
        let (short_slots, short_pilots) = place_by(&others, key::BUCKETS, slots_percent)?;
        let (long_slots, long_pilots) = place(&long, slots_percent)?;
        let mut short_buckets = buckets(&tiny, &tiny_pilots);
        short_buckets.extend(buckets(&others, &short_pilots));
        let mut words: Vec<[u8; 8]> = self::words(&tiny_slots).collect();
        words.resize(words.len().next_multiple_of(8), [0; 8]);
        words.extend(self::words(&short_slots));
        let first = NONE.to_le_bytes();
        let joins = join_slots
            .iter()
            .map(|rank| rank.unwrap_or(0).to_le_bytes());
        Some(Tables {
            bytes,
            tokens,
            join_slots: [first].into_iter().chain(joins).collect(),
            join_buckets: buckets(&joined, &join_pilots),
            singles: singles(ranked),
            neighbours,
            split_neighbours,
            pairs: pairs(ranked),
            long_filter: long_filter(long_tokens().map(|it| it.0)),
            words,
            tiny_slots: tiny_slots.len(),
            short_buckets,
            long: long_slots
                .iter()
                .map(|it| it.unwrap_or(0).to_le_bytes())
                .collect(),
            long_pilots: long_pilots.iter().map(|it| it.to_le_bytes()).collect(),
        })
    }
}

/// The text of all tokens, and what is known of each rank.
fn texts(ranked: &[(&[u8], u32)], joins: &[Option<Join>]) -> (Vec<u8>, Vec<[u8; 8]>) {
    let (mut bytes, mut tokens) = (Vec::new(), Vec::new());
    for (token, rank) in ranked {
        let join = joins[*rank as usize].unwrap_or(Join::NONE);
        tokens.resize(*rank as usize, Token::NONE.0.to_le_bytes());
        tokens.push(Token::new(join, token.len(), bytes.len()).0.to_le_bytes());
        bytes.extend_from_slice(token);
    }
    (bytes, tokens)
}

fn singles(ranked: &[(&[u8], u32)]) -> Vec<[u8; 4]> {
    let mut singles = vec![[0; 4]; 1 << 8];
    for (token, rank) in ranked {
        if let [byte] = token[..] {
            singles[usize::from(byte)] = rank.to_le_bytes();
        }
    }
    singles
}

fn pairs(ranked: &[(&[u8], u32)]) -> Vec<[u8; 4]> {
    let mut pairs = vec![NONE.to_le_bytes(); 1 << 16];
    for (token, rank) in ranked {
        if let [first, second] = token[..] {
            pairs[usize::from(u16::from_be_bytes([first, second]))] = rank.to_le_bytes();
        }
    }
    pairs
}

fn long_filter<'t>(long: impl Iterator<Item = &'t [u8]>) -> Vec<u8> {
    let mut filter = vec![0; key::LONG_FILTER_BYTES];
    for token in long {
        let key = Key::new(&first_bytes(token), key::SHORT_BYTES + 1);
        let bit = key::filter_bit(key.hash(), filter.len());
        filter[bit / 8] |= 1 << (bit % 8);
    }
    filter
}

/// Pilots, and above them the bits of the keys in each bucket.
fn buckets<T>(keyed: &[(u64, T)], pilots: &[u16]) -> Vec<[u8; 4]> {
    let mut buckets: Vec<u32> = pilots.iter().map(|&pilot| pilot.into()).collect();
    for (hash, _) in keyed {
        buckets[key::bucket(*hash, pilots.len())] |= key::bucket_bits(*hash);
    }
    buckets.into_iter().map(u32::to_le_bytes).collect()
}

fn words<const WORDS: usize>(slots: &[Option<[u64; WORDS]>]) -> impl Iterator<Item = [u8; 8]> {
    let words = slots.iter().flat_map(|slot| slot.unwrap_or([0; WORDS]));
    words.map(u64::to_le_bytes)
}

fn first_bytes(token: &[u8]) -> [u8; 16] {
    let mut text = [0; 16];
    let length = token.len().min(text.len());
    text[..length].copy_from_slice(&token[..length]);
    text
}

/// Two bit sets: characters that are neighbours in a token that is UTF-8 (hashed); bytes on both
/// sides of the start of a character in any other token.
fn neighbour_filters(ranked: &[(&[u8], u32)]) -> (Vec<u8>, Vec<u8>) {
    let mut characters = vec![0; 1 << (key::NEIGHBOUR_BITS - 3)];
    let mut bytes = vec![0; 1 << (16 - 3)];
    let set = |bits: &mut [u8], bit: usize| bits[bit / 8] |= 1 << (bit % 8);
    for (token, _) in ranked {
        match std::str::from_utf8(token) {
            Ok(token) => {
                for (left, right) in token.chars().zip(token.chars().skip(1)) {
                    set(&mut characters, key::neighbours(left.into(), right.into()));
                }
            }
            Err(_) => {
                for pair in token.windows(2).filter(|pair| pair[1] & 0xC0 != 0x80) {
                    set(
                        &mut bytes,
                        usize::from(u16::from_be_bytes([pair[0], pair[1]])),
                    );
                }
            }
        }
    }
    (characters, bytes)
}

/// Slots that hold the values, and the pilot of each bucket that leads there.
type Placed<T> = (Vec<Option<T>>, Vec<u16>);

/// A perfect hash; nothing if there is none, because two keys have one hash.
///
/// Buckets are placed from the fullest to the emptiest; each takes the first pilot that sends all
/// of its keys to free slots.
fn place_by<T: Copy>(keyed: &[(u64, T)], pilots: usize, slots_percent: usize) -> Option<Placed<T>> {
    let mut slots = vec![None; keyed.len() * slots_percent / 100 + 1];
    // A byte a slot stays near while pilots are searched; the slots themselves would not.
    let mut taken = vec![false; slots.len()];
    let mut pilots = vec![0; pilots];
    let mut ordered: Vec<(u32, u32)> = (0..)
        .zip(keyed)
        .map(|(at, it)| (key::bucket(it.0, pilots.len()) as u32, at))
        .collect();
    ordered.sort_unstable();
    let mut buckets: Vec<&[(u32, u32)]> =
        ordered.chunk_by(|left, right| left.0 == right.0).collect();
    buckets.sort_by_key(|bucket| std::cmp::Reverse(bucket.len()));
    let (mut hashes, mut targets) = (Vec::new(), Vec::new());
    for bucket in buckets {
        hashes.clear();
        hashes.extend(bucket.iter().map(|(_, at)| keyed[*at as usize].0));
        let pilot = (0..=u16::MAX).find(|&pilot| {
            targets.clear();
            hashes.iter().all(|&hash| {
                let target = key::slot(hash, pilot, slots.len());
                let free = !taken[target] && !targets.contains(&target);
                targets.push(target);
                free
            })
        })?;
        pilots[bucket[0].0 as usize] = pilot;
        for (&target, (_, at)) in targets.iter().zip(bucket) {
            taken[target] = true;
            slots[target] = Some(keyed[*at as usize].1);
        }
    }
    Some((slots, pilots))
}

/// The same, of buckets of [`KEYS_PER_PILOT`].
pub(crate) fn place<T: Copy>(keyed: &[(u64, T)], slots_percent: usize) -> Option<Placed<T>> {
    let pilots = (keyed.len() / KEYS_PER_PILOT).next_power_of_two();
    place_by(keyed, pilots, slots_percent)
}
