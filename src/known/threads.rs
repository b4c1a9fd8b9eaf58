//! Threads at work on a store at once leave it as if they had come one after another, in every schedule.
use crate::known::digest::{Digest, Digester};
use crate::known::store::{Boundary, PrefixStore};
use crate::known::sync::thread;
use crate::known::total::KnownTotal;
use std::sync::Arc;

const THREADS: u64 = 3;
const CONVERSATIONS: usize = 3;
const MESSAGES: usize = 3;

/// The prefixes of a conversation, index 0: no message.
fn prefixes(conversation: usize) -> Vec<Digest> {
    let digester = Digester::new(b"a secret of 16 bytes or more");
    let name = |count: usize| [conversation.to_le_bytes(), count.to_le_bytes()].concat();
    (0..=MESSAGES)
        .map(|count| digester.bytes(&name(count)))
        .collect()
}

/// The bill of a prefix as one of the threads has it.
fn bill(thread: u64, conversation: usize, count: usize) -> u64 {
    1_000 * (thread + 1) + 100 * conversation as u64 + count as u64
}

/// Each thread records each conversation, turn by turn, and looks up what it has recorded; the numbers of the store
/// and each total are those that some thread has given.
fn storm() {
    let store = Arc::new(PrefixStore::new(1 << 16, 60.0));
    let one = |thread: u64| {
        let store = Arc::clone(&store);
        move || {
            for conversation in 0..CONVERSATIONS {
                let prefixes = prefixes(conversation);
                for count in 1..=MESSAGES {
                    let total = KnownTotal {
                        tokens: bill(thread, conversation, count),
                        ..KnownTotal::default()
                    };
                    let boundary = Boundary {
                        message_count: count,
                        digest: prefixes[count],
                        total,
                    };
                    store.record(1, &prefixes[..=count], &[boundary], 1.0);
                    let found = store.find(&prefixes, 1.0).expect("it was recorded");
                    let theirs = |it| bill(it, conversation, found.message_count);
                    assert!((0..THREADS).any(|it| found.total.tokens == theirs(it)));
                    assert!(found.message_count >= count);
                }
            }
        }
    };
    let threads: Vec<_> = (0..THREADS).map(|it| thread::spawn(one(it))).collect();
    for thread in threads {
        thread.join().expect("no thread panics");
    }
    assert_eq!(store.len(), CONVERSATIONS * MESSAGES);
    for conversation in 0..CONVERSATIONS {
        for digest in &prefixes(conversation)[1..] {
            let known = [prefixes(conversation)[0], *digest];
            assert!(store.find(&known, 1.0).is_some());
        }
    }
}

#[test]
fn test_threads_see_what_one_thread_would() {
    #[cfg(shuttle)]
    shuttle::check_random(storm, 2_000);
    #[cfg(not(shuttle))]
    (0..200).for_each(|_| storm());
}
