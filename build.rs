//! Writes the vocabulary and Unicode tables that `src/bpe/` includes and uses in place.
//!
//! Token bytes come from the crate `tiktoken-rs`, which embeds the published rank files but does
//! not export them: every rank is decoded through its public `decode_bytes`. Those of other vendors come
//! from the crate `tiktoken` in the same way. Unicode classes come
//! from `regex-syntax`, the tables behind the regex engine that `tiktoken` itself uses.
//! Everything the run time relies on is checked here, so that it need not be checked there.

#[path = "src/bpe/table/key.rs"]
#[allow(dead_code, reason = "some parts serve the run time only")]
mod key;

#[path = "src/bpe/table/made.rs"]
mod made;

#[path = "src/claude/compile.rs"]
mod claude;

#[path = "src/bpe/gemma/compile.rs"]
mod gemma;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::{env, fs, thread};

use regex_syntax::hir::{Class, ClassUnicode, HirKind};
use tiktoken_rs::CoreBPE;

/// FNV-1a of the class of every code point, as of Unicode 16.0.0.
const CLASSES_FNV: u64 = 0xC9CB_A54B_F95C_558A;

/// Ranks are packed into 18 bits by the merge.
const MAX_RANK: u32 = 1 << 18;

/// Slots per 100 keys.
const SLOTS_PERCENT: usize = 104;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for name in ["key", "made"] {
        println!("cargo::rerun-if-changed=src/bpe/table/{name}.rs");
    }
    let level = env::var("OPT_LEVEL").expect("cargo sets OPT_LEVEL");
    println!("cargo::rustc-env=TOKENCTX_OPT_LEVEL={level}");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    write_classes(&out);
    write_ranges(&out);
    for name in ["compile", "kind", "layout"] {
        println!("cargo::rerun-if-changed=src/claude/{name}.rs");
    }
    println!("cargo::rerun-if-changed=src/bpe/gemma");
    thread::scope(|scope| {
        scope.spawn(|| claude::write(Path::new(env!("CARGO_MANIFEST_DIR")), &out));
        let out = &out;
        scope.spawn(|| {
            let (ranked, known) = gemma::read(Path::new(env!("CARGO_MANIFEST_DIR")));
            write_compact("gemma", &ranked, out);
            gemma::write_known(&known, out);
        });
        for vocabulary in PUBLISHED {
            scope.spawn(move || write_published(vocabulary, out));
        }
        for (name, tokens, load, write) in VOCABULARIES {
            scope.spawn(move || {
                let ranked = ranked_tokens(&load());
                assert_eq!(ranked.len(), tokens, "{name}: number of tokens");
                write(name, &ranked, out);
            });
        }
    });
}

/// Checks a vocabulary and writes it.
type Write = fn(&str, &[(Vec<u8>, u32)], &Path);

/// Name, number of ordinary tokens, where they come from, and how they are written.
type Vocabulary = (&'static str, usize, fn() -> CoreBPE, Write);

const VOCABULARIES: [Vocabulary; 3] = [
    (
        "o200k",
        199_998,
        || tiktoken_rs::o200k_base().expect("embedded"),
        write_tables,
    ),
    (
        "cl100k",
        100_256,
        || tiktoken_rs::cl100k_base().expect("embedded"),
        write_tables,
    ),
    (
        "p50k",
        50_280,
        || tiktoken_rs::p50k_base().expect("embedded"),
        write_with_r50k,
    ),
];

/// Number of ordinary tokens of r50k.
const R50K_TOKENS: usize = 50_256;

/// Writes p50k, of which r50k is the head.
fn write_with_r50k(name: &str, ranked: &[(Vec<u8>, u32)], out: &Path) {
    let r50k = ranked_tokens(&tiktoken_rs::r50k_base().expect("embedded"));
    assert_eq!(r50k.len(), R50K_TOKENS, "r50k: number of tokens");
    assert!(
        ranked.starts_with(&r50k),
        "the tokens of r50k are those of p50k"
    );
    write_compact(name, ranked, out);
}

/// Name, ranks of the ordinary tokens, and FNV-1a of their texts, each with its length before it.
type Published = (&'static str, std::ops::Range<u32>, u64);

/// Vocabularies of the crate `tiktoken`, which has special tokens outside of these ranks.
const PUBLISHED: [Published; 3] = [
    ("deepseek_v3", 3..128_000, 0xCEDE_1308_8F7B_27D1),
    ("mistral_v3", 1_000..131_072, 0xA04D_1714_7ED4_DD30),
    ("qwen2", 0..151_643, 0xBEC4_AE9E_6E75_C10C),
];

/// Checks a vocabulary of the crate `tiktoken` and writes it.
fn write_published((name, ranks, fnv): Published, out: &Path) {
    let encoding = tiktoken::get_encoding(name).expect("a name of the crate");
    let ranked: Vec<(Vec<u8>, u32)> = ranks.map(|rank| (encoding.decode(&[rank]), rank)).collect();
    let lengths = |token: &[u8]| (token.len() as u64).to_le_bytes();
    let bytes = ranked
        .iter()
        .flat_map(|(token, _)| lengths(token).into_iter().chain(token.iter().copied()));
    let made = fnv_1a(bytes);
    assert_eq!(
        made, fnv,
        "{name}: not the tokens that were published, but {made:#X}"
    );
    write_compact(name, &ranked, out);
}

fn fnv_1a(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
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

/// Writes the joins of a vocabulary, of which `src/bpe/table/compact.rs` builds the tables: the two parts of each
/// token by rank, where a byte is itself and [`key::NO_PART`], and what is no token is that twice. All lowest bytes
/// of the left parts come first, since they are hard to deflate and the others are not.
fn write_compact(name: &str, ranked: &[(Vec<u8>, u32)], out: &Path) {
    let joins = validate(name, ranked);
    let mut parts = vec![[key::NO_PART; 2]; joins.len()];
    for (token, rank) in ranked {
        parts[*rank as usize] = match joins[*rank as usize] {
            Some(join) => [join.left(), join.right()],
            None => [token[0].into(), key::NO_PART],
        };
    }
    let parts_come_first =
        |(rank, [left, right]): (u32, &[u32; 2])| *right == key::NO_PART || left.max(right) < &rank;
    assert!(
        (0..).zip(&parts).all(parts_come_first),
        "{name}: a token comes before its parts"
    );
    let mut planes = Vec::new();
    for side in 0..2 {
        for place in 0..key::PART_BYTES {
            planes.extend(parts.iter().map(|part| part[side].to_le_bytes()[place]));
        }
    }
    let best = miniz_oxide::deflate::CompressionLevel::UberCompression as u8;
    let deflated = miniz_oxide::deflate::compress_to_vec(&planes, best);
    write(out, &format!("{name}.compact"), &deflated);
}

/// Writes the tables of a vocabulary, which are used as they are.
fn write_tables(name: &str, ranked: &[(Vec<u8>, u32)], out: &Path) {
    let joins = validate(name, ranked);
    let borrowed: Vec<(&[u8], u32)> = ranked
        .iter()
        .map(|(token, rank)| (&**token, *rank))
        .collect();
    let made = made::Tables::new(&borrowed, &joins, SLOTS_PERCENT).expect("hashes that differ");
    for (part, data) in [
        ("bytes", &made.bytes[..]),
        ("tokens", made.tokens.as_flattened()),
        ("neighbours", &made.neighbours),
        ("split_neighbours", &made.split_neighbours),
        ("pairs", made.pairs.as_flattened()),
        ("long_filter", &made.long_filter),
        ("join_slots", made.join_slots.as_flattened()),
        ("join_buckets", made.join_buckets.as_flattened()),
        ("singles", made.singles.as_flattened()),
        ("tiny", made.words[..made.tiny_slots].as_flattened()),
        ("words", made.words.as_flattened()),
        ("short_buckets", made.short_buckets.as_flattened()),
        ("long", made.long.as_flattened()),
        ("long_pilots", made.long_pilots.as_flattened()),
    ] {
        write(out, &format!("{name}.{part}"), data);
    }
}

fn write(out: &Path, name: &str, data: &[u8]) {
    fs::write(out.join(name), data).expect("OUT_DIR is writable");
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

/// [`made::place`] of tables that are as small as can be.
fn place<T: Copy>(keyed: &[(u64, T)]) -> (Vec<Option<T>>, Vec<u16>) {
    made::place(keyed, SLOTS_PERCENT).expect("hashes that differ")
}

/// Sets that only some split rules ask for.
const RANGES: [(&str, &str); 2] = [("han", r"\p{Han}"), ("signs", r"[\p{P}\p{S}]")];

/// Writes the first and the last code point of each range of the sets.
fn write_ranges(out: &Path) {
    for (name, pattern) in RANGES {
        let ranges = code_points(pattern);
        let bounds = ranges
            .ranges()
            .iter()
            .flat_map(|range| [range.start(), range.end()]);
        let bytes: Vec<u8> = bounds
            .flat_map(|bound| u32::from(bound).to_le_bytes())
            .collect();
        write(out, &format!("ranges.{name}"), &bytes);
    }
}

/// The set that a pattern stands for.
fn code_points(pattern: &str) -> ClassUnicode {
    let hir = regex_syntax::parse(pattern).expect("a valid pattern");
    match hir.into_kind() {
        HirKind::Class(Class::Unicode(set)) => set,
        _ => panic!("{pattern} is not a set of code points"),
    }
}

/// Writes the two-level class table: a block number for every 128 code points, and the blocks.
fn write_classes(out: &Path) {
    let mut classes = vec![1u8; 0x11_0000];
    for (class, pattern) in CLASSES {
        for range in code_points(pattern).ranges() {
            let members = &mut classes[range.start() as usize..=range.end() as usize];
            assert!(
                members.iter().all(|&c| c == 1),
                "{pattern} overlaps another class"
            );
            members.fill(class);
        }
    }
    assert_eq!(
        fnv_1a(classes.iter().copied()),
        CLASSES_FNV,
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
