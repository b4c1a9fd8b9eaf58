#![allow(clippy::unwrap_used)]
//! Promises of digests and of the store of known prefixes.
use tokenctx::digest::{Digest, Digester};
use tokenctx::json::{Document, Limits};
use tokenctx::prefix::{ENTRY_BYTES, KnownTotal, PrefixStore};
use tokenctx::request::read_request;

fn prefixes(secret: &[u8], body: &str) -> Vec<Digest> {
    let document = Document::parse(body, &Limits::default()).unwrap();
    Digester::new(secret).prefixes("family", &read_request(&document, None, None))
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

#[test]
fn the_deepest_known_prefix_wins_and_a_shorter_one_stays() {
    let (mut store, chain) = (PrefixStore::new(1 << 20, 60.0), chain(5));
    store.record(chain[4], billed(400), 0.0);
    store.record(chain[2], billed(200), 0.0);
    let known = store.deepest(&chain, 1.0).unwrap();
    assert_eq!((known.message_count, known.total.tokens), (4, 400));
    let branch = [&chain[..3], &[Digest([99; 16])]].concat();
    assert_eq!(store.deepest(&branch, 1.0).unwrap().message_count, 2);
}

#[test]
fn the_context_alone_is_never_a_known_prefix() {
    let (mut store, chain) = (PrefixStore::new(1 << 20, 60.0), chain(1));
    store.record(chain[0], billed(10), 0.0);
    assert_eq!(store.deepest(&chain, 0.0), None);
    assert_eq!(store.deepest(&[], 0.0), None);
}

#[test]
fn a_derived_total_never_replaces_a_billed_one_that_still_lives() {
    let (mut store, chain) = (PrefixStore::new(1 << 20, 60.0), chain(1));
    store.record(chain[1], billed(100), 0.0);
    store.record(chain[1], derived(120), 1.0);
    assert_eq!(store.deepest(&chain, 2.0).unwrap().total, billed(100));
    store.record(chain[1], derived(120), 100.0);
    assert_eq!(store.deepest(&chain, 101.0).unwrap().total, derived(120));
}

#[test]
fn an_entry_lives_for_its_time_and_is_then_forgotten() {
    let (mut store, chain) = (PrefixStore::new(1 << 20, 60.0), chain(1));
    store.record(chain[1], billed(100), 0.0);
    assert!(store.deepest(&chain, 59.9).is_some());
    assert!(store.deepest(&chain, 60.0).is_none());
    assert!(store.is_empty());
}

#[test]
fn beyond_its_bytes_the_least_recently_used_goes_first() {
    let (mut store, chain) = (PrefixStore::new(2 * ENTRY_BYTES, 60.0), chain(3));
    store.record(chain[1], billed(1), 0.0);
    store.record(chain[2], billed(2), 0.0);
    assert!(store.deepest(&chain[..2], 0.0).is_some());
    store.record(chain[3], billed(3), 0.0);
    assert_eq!(store.len(), 2);
    assert!(store.deepest(&chain[..2], 0.0).is_some());
    assert_eq!(store.deepest(&chain[..3], 0.0).unwrap().message_count, 1);
}

#[test]
fn a_store_too_small_for_anything_still_holds_one() {
    let (mut store, chain) = (PrefixStore::new(0, 60.0), chain(2));
    store.record(chain[1], billed(1), 0.0);
    store.record(chain[2], billed(2), 0.0);
    assert_eq!(store.len(), 1);
}
