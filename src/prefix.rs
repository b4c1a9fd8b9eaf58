//! Known prefixes: the billed total at a prefix digest, bounded in bytes and in time.
//!
//! A store is a map with an order of last use. An entry is a digest and a few numbers, so it is
//! charged a flat [`ENTRY_BYTES`]; nothing of a message is ever kept.
use crate::digest::{Digest, DigestHasher};
use lru::LruCache;
use std::hash::BuildHasherDefault;

/// Memory that one entry is charged with: key, totals, expiry, links and table overhead.
pub const ENTRY_BYTES: usize = 128;

/// Input tokens of a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownTotal {
    /// How many.
    pub tokens: u64,
    /// How many of them are the output of the call before, not yet billed as input; 0 if the
    /// provider has billed them all.
    pub derived_tokens: u64,
    /// The options that the request was sent with.
    pub options: KnownOptions,
}

/// Options of a request: tool choice, output schema, thinking. They are billed and may change from
/// turn to turn, so they are no part of the prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownOptions {
    /// Their identity; 0 if there are none.
    pub digest: u64,
    /// What they were counted as; negative where they save tokens.
    pub tokens: i64,
}

impl KnownTotal {
    /// Whether the provider has billed all of it as input.
    pub fn is_billed(self) -> bool {
        self.derived_tokens == 0
    }
}

/// The deepest known prefix of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownPrefix {
    /// Number of messages in it, at least 1.
    pub message_count: usize,
    /// Its input tokens.
    pub total: KnownTotal,
}

#[derive(Clone, Copy)]
struct Entry {
    total: KnownTotal,
    expires_seconds: f64,
}

/// Known totals by prefix digest; the least recently used goes first when the store is full.
pub struct PrefixStore {
    entries: LruCache<Digest, Entry, BuildHasherDefault<DigestHasher>>,
    capacity: usize,
    ttl_seconds: f64,
}

impl PrefixStore {
    /// A store of at most `capacity_bytes`, at least one entry, each kept for `ttl_seconds`
    /// after it was last recorded.
    pub fn new(capacity_bytes: usize, ttl_seconds: f64) -> PrefixStore {
        PrefixStore {
            entries: LruCache::unbounded_with_hasher(BuildHasherDefault::default()),
            capacity: (capacity_bytes / ENTRY_BYTES).max(1),
            ttl_seconds,
        }
    }

    /// Number of entries, expired ones that nobody asked for among them.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Remembers `total` for a prefix; a billed total is not replaced by a derived one.
    pub fn record(&mut self, digest: Digest, mut total: KnownTotal, now_seconds: f64) {
        if let Some(found) = self.entries.peek(&digest)
            && now_seconds < found.expires_seconds
            && found.total.is_billed()
            && !total.is_billed()
        {
            total = found.total;
        }
        let expires_seconds = now_seconds + self.ttl_seconds;
        self.entries.put(
            digest,
            Entry {
                total,
                expires_seconds,
            },
        );
        if self.entries.len() > self.capacity {
            self.entries.pop_lru();
        }
    }

    /// The last of `prefixes` (index 0: no message) that is known and not expired.
    ///
    /// Linear in the number of messages beyond it; an expired entry on the way is dropped.
    pub fn deepest(&mut self, prefixes: &[Digest], now_seconds: f64) -> Option<KnownPrefix> {
        for (message_count, digest) in prefixes.iter().enumerate().skip(1).rev() {
            let Some(entry) = self.entries.peek(digest).copied() else {
                continue;
            };
            if now_seconds < entry.expires_seconds {
                self.entries.promote(digest);
                return Some(KnownPrefix {
                    message_count,
                    total: entry.total,
                });
            }
            self.entries.pop(digest);
        }
        None
    }
}
