//! What the store of known prefixes costs: `store [conversations] [turns]`, one thread.
//!
//! Times are those that the thread ran, where the system tells them. Digests are made ahead by a generator, since the store does not care where they come from. A
//! turn is one request and its reply, so it has two boundaries.
use std::time::Instant;
use std::{env, fs};
use tokenctx::known::digest::Digest;
use tokenctx::known::{Boundary, ENTRY_BYTES, KnownTotal, PrefixStore};

const CAPACITY_BYTES: usize = 256_000_000;

/// Conversations whose turns come in turn.
const BATCH: usize = 10_000;

/// The digest of the first `count` messages of a conversation.
fn digest(conversation: u64, count: u64) -> Digest {
    let mut state = conversation << 12 | count;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&next().to_le_bytes());
    bytes[8..].copy_from_slice(&next().to_le_bytes());
    Digest(bytes)
}

/// Prefixes of `count` messages, index 0: none.
fn prefixes(conversation: u64, count: u64) -> Vec<Digest> {
    (0..=count)
        .map(|count| digest(conversation, count))
        .collect()
}

/// Tokens of the first `count` messages.
fn total(conversation: u64, count: u64) -> KnownTotal {
    KnownTotal {
        tokens: conversation % 1000 + 100 * count,
        derived_tokens: u64::from(count.is_multiple_of(2)),
        ..KnownTotal::default()
    }
}

/// Looks up the request of a turn (from 1) and records it with its reply.
fn turn(store: &PrefixStore, conversation: u64, turn: usize, prefixes: &[Digest]) -> Option<u64> {
    let count = 2 * turn - 1;
    let known = store.deepest(&prefixes[..=count], 0.0);
    let boundary = |count: usize| Boundary {
        message_count: count,
        digest: prefixes[count],
        total: total(conversation, count as u64),
    };
    let boundaries = [boundary(count), boundary(count + 1)];
    store.record(0, &prefixes[..=count], &boundaries, 0.0);
    known.map(|known| known.total.tokens)
}

/// Bytes of this process in memory.
fn resident_bytes() -> usize {
    let Ok(status) = fs::read_to_string("/proc/self/status") else {
        return 0;
    };
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<usize>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// Nanoseconds that this thread has run; where nobody tells, those since `start`.
fn ran(start: Instant) -> f64 {
    let told = fs::read_to_string("/proc/thread-self/schedstat").ok();
    let told = told.and_then(|text| text.split_whitespace().next()?.parse().ok());
    told.unwrap_or_else(|| 1e9 * start.elapsed().as_secs_f64())
}

fn rate(title: &str, count: u64, work: impl FnOnce()) {
    let start = Instant::now();
    let before = ran(start);
    work();
    let nanoseconds = (ran(start) - before) / count as f64;
    println!(
        "{title:<58} {:7.2} M/s {nanoseconds:8.0} ns",
        1e3 / nanoseconds
    );
}

/// Lookup and insertion of single entries, in a store that becomes full.
fn single_entries(capacity_bytes: usize) {
    println!("{:.0} MB:", capacity_bytes as f64 / 1e6);
    let store = PrefixStore::new(capacity_bytes, 3600.0);
    let half = capacity_bytes / ENTRY_BYTES * 4 / 5;
    let count = half as u64;
    let digests: Vec<_> = (0..2 * count).map(|number| digest(number, 1)).collect();
    let insert = |digests: &[Digest]| {
        for digest in digests {
            store.insert(0, *digest, total(1, 1), 0.0);
        }
    };
    let context = digest(0, 0);
    let find = |digests: &[Digest]| {
        let known = |it: &&Digest| store.deepest(&[context, **it], 0.0).is_some();
        digests.iter().filter(known).count()
    };
    rate("insert, room left", count, || insert(&digests[..half]));
    rate("lookup, known", count, || {
        assert_eq!(find(&digests[..half]), half);
    });
    rate("lookup, unknown", count, || {
        assert_eq!(find(&digests[half..]), 0);
    });
    rate(
        "lookup of an unknown one and insert, store gets full",
        count,
        || {
            for digest in &digests[half..] {
                assert!(store.deepest(&[context, *digest], 0.0).is_none());
                store.insert(0, *digest, total(1, 1), 0.0);
            }
        },
    );
}

/// Many conversations, all of their turns, in turn.
fn conversations(conversations: u64, turns: u32) {
    let before = resident_bytes();
    let store = PrefixStore::new(CAPACITY_BYTES, 3600.0);
    let (mut nanoseconds, mut known) = (0.0, 0);
    for first in (0..conversations).step_by(BATCH) {
        let numbers = first..(first + BATCH as u64).min(conversations);
        let all: Vec<_> = numbers
            .clone()
            .map(|it| prefixes(it, 2 * u64::from(turns)))
            .collect();
        let start = Instant::now();
        let ran_before = ran(start);
        for nth in 1..=turns as usize {
            for (number, prefixes) in numbers.clone().zip(&all) {
                known += u64::from(turn(&store, number, nth, prefixes).is_some());
            }
        }
        nanoseconds += ran(start) - ran_before;
    }
    assert_eq!(
        known,
        conversations * u64::from(turns - 1),
        "a turn was not known"
    );
    let after = resident_bytes();
    let nanoseconds = nanoseconds / (conversations as f64 * f64::from(turns));
    println!("a turn: lookup, two boundaries, old ones dropped           {nanoseconds:17.0} ns");
    let found = (0..conversations).filter(|number| {
        let prefixes = prefixes(*number, 2 * u64::from(turns) + 1);
        let known = store.deepest(&prefixes, 0.0);
        let last = total(*number, 2 * u64::from(turns));
        known.is_some_and(|it| it.total == last)
    });
    let found = found.count();
    let stats = store.stats();
    println!("{conversations} conversations of {turns} turns: known to the last message {found}");
    println!(
        "entries {} ({:.2} each), evicted {}, used {:.1} MB of {:.1}, resident {:.1} MB more",
        stats.entries,
        stats.entries as f64 / conversations as f64,
        stats.evicted,
        stats.used_bytes as f64 / 1e6,
        stats.capacity_bytes as f64 / 1e6,
        after.saturating_sub(before) as f64 / 1e6,
    );
}

fn main() {
    let mut arguments = env::args()
        .skip(1)
        .map(|it| it.parse::<u64>().expect("a number"));
    let (count, turns) = (arguments.next(), arguments.next());
    single_entries(64 << 20);
    single_entries(CAPACITY_BYTES);
    let turns = turns.and_then(|it| u32::try_from(it).ok());
    conversations(count.unwrap_or(1_000_000), turns.unwrap_or(40));
}
