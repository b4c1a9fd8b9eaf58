//! Writes the vocabulary and Unicode tables that `src/bpe/` includes and uses in place.
//!
//! Token bytes come from the crate `tiktoken-rs`, which embeds the published rank files but does
//! not export them: every rank is decoded through its public `decode_bytes`. Unicode classes come
//! from `regex-syntax`, the tables behind the regex engine that `tiktoken` itself uses.
//! Everything the run time relies on is checked here, so that it need not be checked there.

#[path = "src/bpe/table/key.rs"]
#[allow(dead_code, reason = "some parts serve the run time only")]
mod key;

#[path = "src/claude/compile.rs"]
mod claude;

#[path = "src/bpe/gemma/compile.rs"]
mod gemma;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::{env, fs, thread};

use regex_syntax::hir::{Class, HirKind};
use tiktoken_rs::CoreBPE;

/// FNV-1a of the class of every code point, as of Unicode 16.0.0.
const CLASSES_FNV: u64 = 0xC9CB_A54B_F95C_558A;

/// Ranks are packed into 18 bits by the merge.
const MAX_RANK: u32 = 1 << 18;

/// Mean number of keys that share a pilot, at most: more is smaller, but slower to search.
const KEYS_PER_PILOT: usize = 4;

/// Slots per 100 keys.
const SLOTS_PERCENT: usize = 104;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/bpe/table/key.rs");
    let level = env::var("OPT_LEVEL").expect("cargo sets OPT_LEVEL");
    println!("cargo::rustc-env=TOKENCTX_OPT_LEVEL={level}");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    write_classes(&out);
    for name in ["compile", "kind", "layout"] {
        println!("cargo::rerun-if-changed=src/claude/{name}.rs");
    }
    println!("cargo::rerun-if-changed=src/bpe/gemma");
    let [.., p50k, r50k] = thread::scope(|scope| {
        scope.spawn(|| claude::write(Path::new(env!("CARGO_MANIFEST_DIR")), &out));
        let out = &out;
        scope.spawn(|| {
            let (ranked, known) = gemma::read(Path::new(env!("CARGO_MANIFEST_DIR")));
            prepare("gemma", &ranked, out);
            gemma::write_known(&known, out);
        });
        VOCABULARIES
            .map(|(name, tokens, load)| {
                scope.spawn(move || {
                    let ranked = ranked_tokens(&load());
                    assert_eq!(ranked.len(), tokens, "{name}: number of tokens");
                    prepare(name, &ranked, out);
                    ranked
                })
            })
            .map(|thread| thread.join().expect("a vocabulary as it was published"))
    });
    assert!(
        p50k.starts_with(&r50k),
        "the tokens of r50k are those of p50k"
    );
}

/// Name, number of ordinary tokens, and where they come from.
type Vocabulary = (&'static str, usize, fn() -> CoreBPE);

const VOCABULARIES: [Vocabulary; 4] = [
    ("o200k", 199_998, || {
        tiktoken_rs::o200k_base().expect("embedded")
    }),
    ("cl100k", 100_256, || {
        tiktoken_rs::cl100k_base().expect("embedded")
    }),
    ("p50k", 50_280, || {
        tiktoken_rs::p50k_base().expect("embedded")
    }),
    ("r50k", 50_256, || {
        tiktoken_rs::r50k_base().expect("embedded")
    }),
];

/// Checks a vocabulary and writes its tables.
fn prepare(name: &str, ranked: &[(Vec<u8>, u32)], out: &Path) {
    let joins = validate(name, ranked);
    write_vocabulary(out, name, ranked, &joins);
}

/// Token bytes and rank of every ordinary token, by rank.
fn ranked_tokens(bpe: &CoreBPE) -> Vec<(Vec<u8>, u32)> {
    let special: HashSet<&[u8]> = bpe
        .special_tokens()
        .into_iter()
        .map(str::as_bytes)
        .collect();
    (0..MAX_RANK)
        .filter_map(|rank| Some((bpe.decode_bytes(&[rank]).ok()?, rank)))
        .filter(|(token, _)| !special.contains(token.as_slice()))
        .collect()
}

/// Panics unless every byte is a token, no token occurs twice or is too long, and every token
/// merges to itself by joins of ascending rank. Returns the last join of each token, by rank.
///
/// So "the whole piece is a token" and "the piece merges to one token" are the same, and the
/// argument of `src/bpe/piece.rs` about neighbouring tokens holds.
fn validate(name: &str, ranked: &[(Vec<u8>, u32)]) -> Vec<Option<key::Join>> {
    let ranks: HashMap<&[u8], u32> = ranked.iter().map(|(t, r)| (t.as_slice(), *r)).collect();
    assert_eq!(ranks.len(), ranked.len(), "{name}: a token occurs twice");
    for byte in 0..=u8::MAX {
        assert!(
            ranks.contains_key([byte].as_slice()),
            "{name}: byte {byte} is not a token"
        );
    }
    let mut joins = Vec::new();
    for (token, rank) in ranked {
        assert!(
            token.len() <= key::MAX_TOKEN_BYTES,
            "{name}: token {rank} is too long"
        );
        let mut starts: Vec<usize> = (0..=token.len()).collect();
        let (mut join, mut highest) = (None, 0);
        while let Some((joined, at)) = (0..starts.len().saturating_sub(2))
            .filter_map(|i| Some((*ranks.get(&token[starts[i]..starts[i + 2]])?, i)))
            .min()
        {
            assert!(
                joined >= highest,
                "{name}: token {rank} is not joined in order of rank"
            );
            highest = joined;
            let (left, right) =
                token[starts[at]..starts[at + 2]].split_at(starts[at + 1] - starts[at]);
            join = Some(key::Join::new(ranks[left], ranks[right]));
            starts.remove(at + 1);
        }
        assert_eq!(
            starts.len(),
            2,
            "{name}: token {rank} does not merge to itself"
        );
        joins.resize(*rank as usize, None);
        joins.push(join);
    }
    joins
}

fn write_vocabulary(
    out: &Path,
    name: &str,
    ranked: &[(Vec<u8>, u32)],
    joins: &[Option<key::Join>],
) {
    let mut bytes = Vec::new();
    let mut tokens = Vec::new();
    for (token, rank) in ranked {
        let join = joins[*rank as usize].unwrap_or(key::Join::NONE);
        tokens.resize(*rank as usize, key::Token::NONE);
        tokens.push(key::Token::new(join, token.len(), bytes.len()));
        bytes.extend_from_slice(token);
    }
    let (neighbours, split_neighbours) = neighbour_filters(ranked);
    let (short, long): (Vec<_>, Vec<_>) = ranked
        .iter()
        .partition(|(token, _)| token.len() <= key::SHORT_BYTES);
    let mut pairs = vec![u32::MAX; 1 << 16];
    for (token, rank) in ranked {
        if let [first, second] = token[..] {
            pairs[usize::from(u16::from_be_bytes([first, second]))] = *rank;
        }
    }
    let mut long_filter = vec![0; key::LONG_FILTER_BYTES];
    for (token, _) in &long {
        let key = key::Key::new(&first_bytes(token), key::SHORT_BYTES + 1);
        let bit = key::filter_bit(key.hash(), long_filter.len());
        long_filter[bit / 8] |= 1 << (bit % 8);
    }
    let (mut tiny, mut others) = (Vec::new(), Vec::new());
    for (token, rank) in short {
        let key = key::Key::new(&first_bytes(token), token.len());
        let high = key.high | u64::from(*rank) << key::RANK_SHIFT;
        if key.is_tiny() {
            tiny.push((key.hash(), [high]));
        } else {
            others.push((key.hash(), [key.low, high]));
        }
    }
    let long: Vec<(u64, u32)> = long
        .into_iter()
        .map(|(token, rank)| (key::hash_long(token), *rank))
        .map(|(hash, rank)| (hash, key::marked(hash, rank, key::LONG_MARK_BITS)))
        .collect();
    let joined: Vec<(u64, u32)> = (0..)
        .zip(joins)
        .filter_map(|(rank, join)| Some(((*join)?.hash(), rank)))
        .map(|(hash, rank)| (hash, key::marked(hash, rank, key::JOIN_MARK_BITS)))
        .collect();
    let (join_slots, join_pilots) = place(&joined);
    let (tiny_slots, tiny_pilots) = place_by(&tiny, key::BUCKETS);
    let (short_slots, short_pilots) = place_by(&others, key::BUCKETS);
    let mut short_buckets = buckets(&tiny, &tiny_pilots);
    short_buckets.extend(buckets(&others, &short_pilots));
    let (long_slots, long_pilots) = place(&long);
    let write = |part: &str, data: Vec<u8>| {
        fs::write(out.join(format!("{name}.{part}")), data).expect("OUT_DIR is writable");
    };
    write("bytes", bytes);
    write(
        "tokens",
        tokens.iter().flat_map(|t| t.0.to_le_bytes()).collect(),
    );
    write("neighbours", neighbours);
    write("split_neighbours", split_neighbours);
    write(
        "pairs",
        pairs.iter().flat_map(|rank| rank.to_le_bytes()).collect(),
    );
    write("long_filter", long_filter);
    write(
        "join_slots",
        std::iter::once(u32::MAX)
            .chain(join_slots.iter().map(|rank| rank.unwrap_or(0)))
            .flat_map(u32::to_le_bytes)
            .collect(),
    );
    write("join_buckets", buckets(&joined, &join_pilots));
    let mut singles = [0; 1 << 8];
    for (token, rank) in ranked {
        if let [byte] = token[..] {
            singles[usize::from(byte)] = *rank;
        }
    }
    write(
        "singles",
        singles.iter().flat_map(|rank| rank.to_le_bytes()).collect(),
    );
    let mut words = words(&tiny_slots);
    write("tiny", words.clone());
    words.resize(words.len().next_multiple_of(64), 0);
    words.extend(self::words(&short_slots));
    write("words", words);
    write("short_buckets", short_buckets);
    write(
        "long",
        long_slots
            .iter()
            .flat_map(|s| s.unwrap_or(0).to_le_bytes())
            .collect(),
    );
    write(
        "long_pilots",
        long_pilots.iter().flat_map(|p| p.to_le_bytes()).collect(),
    );
}

/// Pilots, and above them the bits of the keys in each bucket.
fn buckets<T>(keyed: &[(u64, T)], pilots: &[u16]) -> Vec<u8> {
    let mut buckets: Vec<u32> = pilots.iter().map(|&pilot| pilot.into()).collect();
    for (hash, _) in keyed {
        buckets[key::bucket(*hash, pilots.len())] |= key::bucket_bits(*hash);
    }
    buckets.into_iter().flat_map(u32::to_le_bytes).collect()
}

fn words<const WORDS: usize>(slots: &[Option<[u64; WORDS]>]) -> Vec<u8> {
    let words = slots.iter().flat_map(|slot| slot.unwrap_or([0; WORDS]));
    words.flat_map(u64::to_le_bytes).collect()
}

fn first_bytes(token: &[u8]) -> [u8; 16] {
    let mut text = [0; 16];
    let length = token.len().min(text.len());
    text[..length].copy_from_slice(&token[..length]);
    text
}

/// Two bit sets: characters that are neighbours in a token that is UTF-8 (hashed); bytes on both
/// sides of the start of a character in any other token.
fn neighbour_filters(ranked: &[(Vec<u8>, u32)]) -> (Vec<u8>, Vec<u8>) {
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

/// A perfect hash: slots that hold the values, and the pilot of each bucket that leads there.
///
/// Buckets are placed from the fullest to the emptiest; each takes the first pilot that sends all
/// of its keys to free slots.
fn place_by<T: Copy>(keyed: &[(u64, T)], pilots: usize) -> (Vec<Option<T>>, Vec<u16>) {
    let mut slots = vec![None; keyed.len() * SLOTS_PERCENT / 100 + 1];
    let mut pilots = vec![0; pilots];
    let mut buckets = vec![Vec::new(); pilots.len()];
    for entry in keyed {
        buckets[key::bucket(entry.0, pilots.len())].push(*entry);
    }
    let mut order: Vec<usize> = (0..buckets.len()).collect();
    order.sort_by_key(|&bucket| (std::cmp::Reverse(buckets[bucket].len()), bucket));
    let mut targets = Vec::new();
    for bucket in order {
        pilots[bucket] = (0..=u16::MAX)
            .find(|&pilot| {
                targets.clear();
                buckets[bucket].iter().all(|(hash, _)| {
                    let target = key::slot(*hash, pilot, slots.len());
                    let free = slots[target].is_none() && !targets.contains(&target);
                    targets.push(target);
                    free
                })
            })
            .expect("a pilot exists for every bucket");
        for (hash, value) in &buckets[bucket] {
            let target = key::slot(*hash, pilots[bucket], slots.len());
            slots[target] = Some(*value);
        }
    }
    (slots, pilots)
}

/// The same, of buckets of [`KEYS_PER_PILOT`].
fn place<T: Copy>(keyed: &[(u64, T)]) -> (Vec<Option<T>>, Vec<u16>) {
    place_by(keyed, (keyed.len() / KEYS_PER_PILOT).next_power_of_two())
}

/// Classes of `src/bpe/unicode.rs`, in its bit order; what no property claims is `OTHER`.
const CLASSES: [(u8, &str); 7] = [
    (1 << 1, r"[\p{Lu}\p{Lt}]"),
    (1 << 2, r"\p{Ll}"),
    (1 << 3, r"[\p{Lm}\p{Lo}]"),
    (1 << 4, r"\p{M}"),
    (1 << 5, r"\p{N}"),
    (1 << 6, r"[\s--\r\n]"),
    (1 << 7, r"[\r\n]"),
];

/// Writes the two-level class table: a block number for every 128 code points, and the blocks.
fn write_classes(out: &Path) {
    let mut classes = vec![1u8; 0x11_0000];
    for (class, pattern) in CLASSES {
        let hir = regex_syntax::parse(pattern).expect("a valid pattern");
        let HirKind::Class(Class::Unicode(set)) = hir.kind() else {
            panic!("{pattern} is not a set of code points")
        };
        for range in set.ranges() {
            let members = &mut classes[range.start() as usize..=range.end() as usize];
            assert!(
                members.iter().all(|&c| c == 1),
                "{pattern} overlaps another class"
            );
            members.fill(class);
        }
    }
    let fnv = classes
        .iter()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, &class| {
            (hash ^ u64::from(class)).wrapping_mul(0x0000_0100_0000_01B3)
        });
    assert_eq!(
        fnv, CLASSES_FNV,
        "regex-syntax no longer has the tables of Unicode 16.0.0"
    );
    fs::write(out.join("classes.two_bytes"), &classes[..1 << 11]).expect("OUT_DIR is writable");
    let mut numbers = HashMap::new();
    let mut blocks = Vec::new();
    let mut index = Vec::new();
    for block in classes.chunks(128) {
        let next = numbers.len();
        index.push(*numbers.entry(block).or_insert_with(|| {
            blocks.extend_from_slice(block);
            u8::try_from(next).expect("at most 256 different blocks")
        }));
    }
    fs::write(out.join("classes.index"), index).expect("OUT_DIR is writable");
    fs::write(out.join("classes.blocks"), blocks).expect("OUT_DIR is writable");
}
