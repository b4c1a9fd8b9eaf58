//! Counts of messages that were counted before.
//!
//! A prefix that is known needs no count at all; the memo serves what is not: a conversation that
//! was edited, pruned or branched, a request that is estimated for several models or twice before
//! it is sent. It finds a message by its digest and holds a number, never text.
//!
//! It is a help, not a truth: who does not get a shard at once counts for himself. So no thread
//! waits for another, and a process that was forked while a shard was locked merely does without.
use crate::digest::{Digest, DigestHasher};
use lru::LruCache;
use std::hash::BuildHasherDefault;
use std::sync::Mutex;

/// Memory that one entry is charged with: key, count, links and table overhead.
const ENTRY_BYTES: usize = 128;

const SHARD_COUNT: usize = 16;

type Shard = LruCache<Key, Counted, BuildHasherDefault<DigestHasher>>;

/// A message under one way of counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The message.
    pub message: Digest,
    /// The profile, and whether reasoning counts.
    pub method: u64,
}

/// Tokens of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// How many.
    pub tokens: u64,
    /// Whether the message holds nothing but text.
    pub is_only_text: bool,
}

/// Counts by message, bounded in bytes; the least recently used of a shard goes first.
pub struct CountMemo {
    shards: [Mutex<Shard>; SHARD_COUNT],
    shard_capacity: usize,
}

impl CountMemo {
    /// A memo of at most `capacity_bytes`.
    pub fn new(capacity_bytes: usize) -> CountMemo {
        let shard = || {
            Mutex::new(LruCache::unbounded_with_hasher(
                BuildHasherDefault::default(),
            ))
        };
        CountMemo {
            shards: std::array::from_fn(|_| shard()),
            shard_capacity: capacity_bytes / ENTRY_BYTES / SHARD_COUNT,
        }
    }

    /// The count of `key`, if it is there and nobody is at its shard.
    pub fn get(&self, key: &Key) -> Option<Counted> {
        self.shard(key).try_lock().ok()?.get(key).copied()
    }

    /// Remembers the count of `key`, unless somebody is at its shard.
    pub fn put(&self, key: Key, counted: Counted) {
        let Ok(mut shard) = self.shard(&key).try_lock() else {
            return;
        };
        shard.put(key, counted);
        if shard.len() > self.shard_capacity {
            shard.pop_lru();
        }
    }

    /// Forgets everything but what somebody is at.
    pub fn clear(&self) {
        for shard in &self.shards {
            if let Ok(mut shard) = shard.try_lock() {
                shard.clear();
            }
        }
    }

    fn shard(&self, key: &Key) -> &Mutex<Shard> {
        // The first bytes of a digest place it inside of a shard, the last one chooses the shard.
        &self.shards[usize::from(key.message.0[15]) % SHARD_COUNT]
    }
}

impl std::fmt::Debug for CountMemo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CountMemo(..)")
    }
}
