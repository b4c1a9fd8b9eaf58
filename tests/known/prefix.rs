#![allow(clippy::unwrap_used)]
//! Promises of digests and of the store of known prefixes.
use tokenctx::json::{Document, Limits};
use tokenctx::known::digest::{Digest, Digester};
use tokenctx::known::{Boundary, ENTRY_BYTES, KnownTotal, PrefixStore};
use tokenctx::request::read_request;

fn prefixes(secret: &[u8], body: &str) -> Vec<Digest> {
    let document = Document::parse(body, &Limits::default()).unwrap();
    Digester::new(secret).prefixes(
        "family",
        &read_request(&document, None, None).expect("a request"),
    )
}

fn billed(tokens: u64) -> KnownTotal {
    KnownTotal {
        tokens,
        ..KnownTotal::default()
    }
}

fn derived(tokens: u64) -> KnownTotal {
    KnownTotal {
        tokens,
        derived_tokens: 1,
        ..KnownTotal::default()
    }
}

/// Prefixes of a conversation of `count` messages that no other conversation shares.
fn chain(count: u8) -> Vec<Digest> {
    (0..=count).map(|index| Digest([index; 16])).collect()
}

#[test]
fn a_longer_conversation_begins_with_the_prefixes_of_a_shorter_one() {
    let short = prefixes(b"s", r#"[{"role":"user","content":"a"}]"#);
    let long = prefixes(
        b"s",
        r#"[{"role":"user","content":"a"},{"role":"user","content":"a"}]"#,
    );
    assert_eq!((short.len(), long.len()), (2, 3));
    assert_eq!(short, long[..2]);
    assert_ne!(long[1], long[2]);
}

#[test]
fn digests_of_another_secret_never_match() {
    let body = r#"[{"role":"user","content":"a"}]"#;
    let (one, other) = (prefixes(b"one", body), prefixes(b"other", body));
    assert!(one.iter().all(|digest| !other.contains(digest)));
}

#[test]
fn fields_cannot_run_into_each_other() {
    let bodies = [
        r#"[{"role":"user","name":"ab","content":"c"}]"#,
        r#"[{"role":"user","name":"a","content":"bc"}]"#,
        r#"[{"role":"user","content":"abc"}]"#,
        r#"[{"role":"user","content":"ab"},{"role":"user","content":"c"}]"#,
    ];
    let ends: Vec<_> = bodies
        .iter()
        .map(|body| *prefixes(b"s", body).last().unwrap())
        .collect();
    for (index, end) in ends.iter().enumerate() {
        assert!(!ends[..index].contains(end), "{}", bodies[index]);
    }
}

/// Records a call whose request ends with the last of `prefixes`.
fn record(store: &PrefixStore, prefixes: &[Digest], total: KnownTotal, now_seconds: f64) {
    let boundary = Boundary {
        message_count: prefixes.len() - 1,
        digest: *prefixes.last().unwrap(),
        total,
    };
    store.record(0, prefixes, &[boundary], now_seconds);
}

#[test]
fn the_deepest_known_prefix_wins_and_a_shorter_one_stays() {
    let (store, chain) = (PrefixStore::new(1 << 20, 60.0), chain(5));
    record(&store, &chain[..5], billed(400), 0.0);
    record(&store, &chain[..3], billed(200), 0.0);
    let known = store.deepest(&chain, 1.0).unwrap();
    assert_eq!((known.message_count, known.total.tokens), (4, 400));
    let branch = [&chain[..3], &[Digest([99; 16])]].concat();
    assert_eq!(store.deepest(&branch, 1.0).unwrap().message_count, 2);
}

#[test]
fn the_context_alone_is_never_a_known_prefix() {
    let (store, chain) = (PrefixStore::new(1 << 20, 60.0), chain(1));
    store.insert(0, chain[0], billed(10), 0.0);
    assert_eq!(store.deepest(&chain, 0.0), None);
    assert_eq!(store.deepest(&[], 0.0), None);
}

#[test]
fn a_derived_total_never_replaces_a_billed_one_that_still_lives() {
    let (store, chain) = (PrefixStore::new(1 << 20, 60.0), chain(1));
    record(&store, &chain, billed(100), 0.0);
    record(&store, &chain, derived(120), 1.0);
    assert_eq!(store.deepest(&chain, 2.0).unwrap().total, billed(100));
    record(&store, &chain, derived(120), 100.0);
    assert_eq!(store.deepest(&chain, 101.0).unwrap().total, derived(120));
}

#[test]
fn an_entry_lives_for_its_time_and_is_then_forgotten() {
    for start in [0.0, -1e9, 1.8e9, f64::from(u32::MAX) / 16.0 - 30.0] {
        let (store, chain) = (PrefixStore::new(1 << 20, 60.0), chain(1));
        record(&store, &chain, billed(100), start);
        assert!(store.deepest(&chain, start + 59.9).is_some());
        assert!(store.deepest(&chain, start + 60.0).is_none());
        assert!(store.is_empty());
        assert_eq!(store.stats().expired, 1);
    }
}

#[test]
fn beyond_its_bytes_what_was_not_used_goes_first() {
    let (store, chain) = (PrefixStore::new(2 * ENTRY_BYTES, 60.0), chain(3));
    store.insert(0, chain[1], billed(1), 0.0);
    store.insert(0, chain[2], billed(2), 0.0);
    assert!(store.deepest(&chain[..2], 0.0).is_some());
    store.insert(0, chain[3], billed(3), 0.0);
    assert_eq!((store.len(), store.stats().evicted), (2, 1));
    assert!(store.deepest(&chain[..2], 0.0).is_some());
    assert_eq!(store.deepest(&chain[..3], 0.0).unwrap().message_count, 1);
}

#[test]
fn a_store_too_small_for_anything_still_holds_one() {
    let (store, chain) = (PrefixStore::new(0, 60.0), chain(2));
    store.insert(0, chain[1], billed(1), 0.0);
    store.insert(0, chain[2], billed(2), 0.0);
    assert_eq!(store.len(), 1);
}

#[test]
fn a_long_conversation_is_known_by_few_boundaries_that_grow_rare() {
    let (store, chain) = (PrefixStore::new(1 << 20, 60.0), chain(240));
    for end in 1..=240 {
        record(&store, &chain[..=end], billed(end as u64), 0.0);
        assert!(store.len() <= 8);
        assert_eq!(store.deepest(&chain, 0.0).unwrap().message_count, end);
    }
    for left in 1..239 {
        let branch = [&chain[..=240 - left], &[Digest([255; 16])]].concat();
        let found = store.deepest(&branch, 0.0).unwrap().message_count;
        assert!(240 - found <= 8 * left + 8, "{left} from the end: {found}");
    }
    assert_eq!(store.stats().superseded, 240 - store.len() as u64);
}

/// A digest like a keyed one.
fn digest(number: u64) -> Digest {
    let hash = blake3::hash(&number.to_le_bytes());
    Digest(*hash.as_bytes().first_chunk().unwrap())
}

#[test]
fn a_flood_of_one_tenant_leaves_the_others_their_share() {
    for entries in [1000, 100_000] {
        let store = PrefixStore::new(entries * ENTRY_BYTES, 60.0);
        let kept = (entries / 4) as u64;
        for number in 0..kept {
            store.insert(1, digest(number), billed(number), 0.0);
        }
        for number in kept..10 * entries as u64 {
            store.insert(2, digest(number), billed(number), 0.0);
        }
        let is_known = |number: &u64| store.deepest(&[digest(0), digest(*number)], 0.0).is_some();
        assert_eq!((0..kept).filter(is_known).count() as u64, kept);
        assert!(store.len() <= entries);
    }
}

#[test]
fn used_bytes_are_within_the_capacity_whatever_comes_and_goes() {
    let capacity_bytes = 200_000 * ENTRY_BYTES;
    let store = PrefixStore::new(capacity_bytes, 1.0);
    for round in 0..6_u64 {
        for number in 0..150_000 {
            let number = number + round * 100_000;
            let prefixes = [digest(0), digest(number)];
            record(&store, &prefixes, billed(number), round as f64 / 2.0);
        }
        let stats = store.stats();
        assert!(stats.used_bytes <= capacity_bytes, "{stats:?}");
        assert!(stats.used_bytes >= stats.entries * 40, "{stats:?}");
    }
    assert!(store.stats().entries > 150_000);
    store.clear();
    assert_eq!((store.len(), store.stats().used_bytes), (0, 0));
}
