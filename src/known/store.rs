//! Known prefixes: the billed total at a prefix digest, bounded in bytes and in time.
//!
//! A store is a number of shards, each with a lock of its own that is held for one entry. An entry
//! is a digest and a few numbers; nothing of a message is ever kept.
//!
//! A conversation is known at its *boundaries*: the ends of its recorded requests and replies. Of
//! the older ones few are kept, ever further apart, so that the store holds long conversations by a
//! handful of entries and a branch still finds one near ([`superseded`]). Each entry says how far
//! back the boundary before it is, so that the store can find them without knowing conversations.
use crate::known::digest::Digest;
use crate::known::shard::{ENTRY_FORM_BYTES, Entry, Losses, Shard, Tick};
use crate::known::sync::atomic::{AtomicU64, Ordering};
use crate::known::sync::{Mutex, MutexGuard, PoisonError};

use crate::known::total::KnownTotal;

/// Memory that one entry is charged with: itself and its part of the index.
pub const ENTRY_BYTES: usize = 48;

/// More memory is not taken, 1 TiB: a shard numbers its entries in 32 bits.
pub const MAX_CAPACITY_BYTES: usize = 1 << 40;

/// A store of fewer entries is one shard.
const MIN_SHARDED_ENTRIES: usize = 1 << 16;

/// Larger stores have at least this number of shards, and fewer than twice as many.
const MIN_SHARDS: usize = 32;

/// So many of the latest boundaries of a conversation are kept, whatever their distance.
const LATEST_KEPT: usize = 3;

/// An older boundary goes if those beside it are no further apart than this, as a ratio of their
/// distances to the latest.
const SPREAD: usize = 8;

/// The deepest known prefix of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownPrefix {
    /// Number of messages in it, at least 1.
    pub message_count: usize,
    /// Its input tokens.
    pub total: KnownTotal,
}

/// The end of a recorded request or of its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// Number of messages up to it.
    pub message_count: usize,
    /// The prefix up to it.
    pub digest: Digest,
    /// Its input tokens.
    pub total: KnownTotal,
}

/// Numbers of lookups, losses and entries of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Lookups that found a known prefix.
    pub hits: u64,
    /// Lookups that found none.
    pub misses: u64,
    /// Entries that went for want of room.
    pub evicted: u64,
    /// Entries that were dropped because their time was over.
    pub expired: u64,
    /// Boundaries that later ones of the same conversation made needless.
    pub superseded: u64,
    /// Entries that are kept, expired ones that no lookup has met among them.
    pub entries: usize,
    /// Memory that is taken for them.
    pub used_bytes: usize,
    /// Memory that may be taken.
    pub capacity_bytes: usize,
}

/// Known totals by prefix digest, shared by threads.
pub struct PrefixStore {
    shards: Box<[Mutex<Shard>]>,
    life: Tick,
    capacity_bytes: usize,
    hits: AtomicU64,
    misses: AtomicU64,
    superseded: AtomicU64,
}

impl PrefixStore {
    /// A store of at most `capacity_bytes` or [`MAX_CAPACITY_BYTES`], at least one entry, each kept for `ttl_seconds` (to
    /// the sixteenth of a second, two years at most) after it was last recorded.
    pub fn new(capacity_bytes: usize, ttl_seconds: f64) -> PrefixStore {
        let capacity_bytes = capacity_bytes.min(MAX_CAPACITY_BYTES);
        let (shards, entries) = layout((capacity_bytes / ENTRY_BYTES).max(1));
        PrefixStore {
            shards: (0..shards)
                .map(|_| Mutex::new(Shard::new(entries)))
                .collect(),
            life: Tick::life(ttl_seconds),
            capacity_bytes,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            superseded: AtomicU64::new(0),
        }
    }

    /// Number of entries, expired ones that no lookup has met among them.
    pub fn len(&self) -> usize {
        self.locked().map(|shard| shard.len()).sum()
    }

    /// True if nothing is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.locked().for_each(|mut shard| shard.clear());
    }

    /// The numbers of lookups so far and of entries. Each number is right; together they are of one
    /// moment only if no other thread uses the store.
    pub fn stats(&self) -> StoreStats {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut stats = StoreStats {
            hits: count(&self.hits),
            misses: count(&self.misses),
            superseded: count(&self.superseded),
            capacity_bytes: self.capacity_bytes,
            ..StoreStats::default()
        };
        for shard in self.locked() {
            let Losses { evicted, expired } = shard.losses;
            stats.evicted += evicted;
            stats.expired += expired;
            stats.entries += shard.len();
            stats.used_bytes += shard.bytes();
        }
        stats
    }

    /// Remembers `total` for the prefix `digest` of `tenant`; a billed total is not replaced by a
    /// derived one.
    pub fn insert(&self, tenant: u8, digest: Digest, total: KnownTotal, now_seconds: f64) {
        self.put(tenant, digest, total, None, Tick::at(now_seconds));
    }

    /// Remembers the `boundaries` of a call of `tenant`, the shallowest first, and forgets those
    /// of the same conversation that are no longer needed.
    ///
    /// `prefixes` are those of the request, index 0: no message. As [`PrefixStore::deepest`] but
    /// for the few boundaries behind the one that it finds.
    pub fn record(
        &self,
        tenant: u8,
        prefixes: &[Digest],
        boundaries: &[Boundary],
        now_seconds: f64,
    ) {
        let now = Tick::at(now_seconds);
        let Some(first) = boundaries.first() else {
            return;
        };
        let known = prefixes.get(..first.message_count).unwrap_or(prefixes);
        let mut counts: Vec<_> = boundaries.iter().rev().map(|it| it.message_count).collect();
        counts.extend(self.known_before(known, now));
        let is_needless = superseded(&counts);
        let mut kept = Vec::with_capacity(counts.len());
        for (&count, is_needless) in counts.iter().zip(is_needless) {
            if is_needless && self.shard(&prefixes[count]).remove(&prefixes[count]) {
                self.superseded.fetch_add(1, Ordering::Relaxed);
            } else {
                kept.push(count);
            }
        }
        let back = |place: usize| kept.get(place + 1).map_or(0, |before| kept[place] - before);
        for (place, boundary) in boundaries.iter().rev().enumerate() {
            let back = Some(back(place));
            self.put(tenant, boundary.digest, boundary.total, back, now);
        }
        for place in boundaries.len()..kept.len() {
            let digest = &prefixes[kept[place]];
            if let Some(entry) = self.shard(digest).get(digest, now) {
                entry.set_back(back(place));
            }
        }
    }

    /// The last of `prefixes` (index 0: no message) that is known and not expired.
    ///
    /// Linear in the number of messages beyond it; an expired entry on the way is dropped.
    pub fn deepest(&self, prefixes: &[Digest], now_seconds: f64) -> Option<KnownPrefix> {
        let found = self.find(prefixes, now_seconds);
        self.count_lookup(found);
        found
    }

    /// Counts a lookup of which [`PrefixStore::find`] was the result.
    pub(crate) fn count_lookup(&self, found: Option<KnownPrefix>) {
        let counter = match found {
            Some(_) => &self.hits,
            None => &self.misses,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// As [`PrefixStore::deepest`], in no statistics.
    pub fn find(&self, prefixes: &[Digest], now_seconds: f64) -> Option<KnownPrefix> {
        let now = Tick::at(now_seconds);
        let behind = prefixes.iter().enumerate().skip(1).rev();
        behind.into_iter().find_map(|(message_count, digest)| {
            let mut shard = self.shard(digest);
            let entry = shard.get(digest, now)?;
            entry.touch();
            Some(KnownPrefix {
                message_count,
                total: entry.total(),
            })
        })
    }

    pub(crate) fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// Appends the entries of one shard that have not expired, in the form of an export.
    pub(crate) fn export_shard(&self, place: usize, now_seconds: f64, bytes: &mut Vec<u8>) {
        let now = Tick::at(now_seconds);
        let shard = self.shards[place].lock();
        let shard = shard.unwrap_or_else(PoisonError::into_inner);
        bytes.reserve(shard.len() * ENTRY_FORM_BYTES);
        bytes.extend(shard.iter().filter_map(|entry| entry.form(now)).flatten());
    }

    /// Takes over an entry of an export; true if it was not known before.
    pub(crate) fn import_entry(&self, form: &[u8; ENTRY_FORM_BYTES], now_seconds: f64) -> bool {
        let now = Tick::at(now_seconds);
        let entry = Entry::of_form(form, now, self.life);
        let mut shard = self.shard(&entry.digest);
        let is_new = shard.get(&entry.digest, now).is_none();
        if is_new {
            shard.insert(entry, now);
        }
        is_new
    }

    /// Message counts of the known boundaries of a conversation, the deepest first.
    fn known_before(&self, prefixes: &[Digest], now: Tick) -> Vec<usize> {
        let mut found = Vec::new();
        let mut back = 1;
        let mut count = prefixes.len();
        while back < count {
            count -= back;
            let entry = self
                .shard(&prefixes[count])
                .get(&prefixes[count], now)
                .copied();
            match entry {
                Some(entry) => {
                    found.push(count);
                    back = match entry.back() {
                        0 => break,
                        back => back,
                    };
                }
                None if found.is_empty() => back = 1,
                None => break,
            }
        }
        found
    }

    /// Sets the total of a prefix and, if given, how far back the boundary before it is.
    fn put(&self, tenant: u8, digest: Digest, total: KnownTotal, back: Option<usize>, now: Tick) {
        let expires = now.after(self.life);
        let mut shard = self.shard(&digest);
        if let Some(entry) = shard.get(&digest, now) {
            entry.renew(total, expires);
            entry.set_back(back.unwrap_or(entry.back()));
        } else {
            let mut entry = Entry::new(digest, total, tenant, expires);
            entry.set_back(back.unwrap_or(0));
            shard.insert(entry, now);
        }
    }

    /// The shard of `digest`, locked.
    fn shard(&self, digest: &Digest) -> MutexGuard<'_, Shard> {
        let [.., a, b, c, d] = digest.0;
        let place = (u64::from(u32::from_le_bytes([a, b, c, d])) * self.shards.len() as u64) >> 32;
        #[allow(
            clippy::cast_possible_truncation,
            reason = "below the number of shards"
        )]
        let shard = &self.shards[place as usize];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shards one after another, locked.
    fn locked(&self) -> impl Iterator<Item = MutexGuard<'_, Shard>> {
        let shards = self.shards.iter();
        shards.map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Number of shards for this number of entries, and how many each holds: three quarters of a power of
/// two, so that the index is as full as it may be. A small store is one shard, and its index may
/// take some hundred kilobytes more than it is charged with.
fn layout(entries: usize) -> (usize, usize) {
    if entries < MIN_SHARDED_ENTRIES {
        return (1, entries);
    }
    let power = (entries / MIN_SHARDS * 4 / 3).ilog2();
    let in_shard = 3 << (power - 2);
    (entries / in_shard, in_shard)
}

/// Which of the boundaries at `counts` messages, the deepest first, are needless.
///
/// The latest and the first stay. Between them one goes if its neighbours are near enough to each
/// other; so their number grows with the logarithm of the conversation, and whoever leaves it at
/// some distance from its end finds a boundary at most [`SPREAD`] times as far back.
fn superseded(counts: &[usize]) -> Vec<bool> {
    let mut last_kept = 0;
    let is_needless = |(place, count): (usize, &usize)| {
        let distance = counts[0] - count;
        let next = counts.get(place + 1).map(|next| counts[0] - next);
        let is_needless =
            place >= LATEST_KEPT && next.is_some_and(|next| next <= last_kept * SPREAD);
        if !is_needless {
            last_kept = distance;
        }
        is_needless
    };
    counts.iter().enumerate().map(is_needless).collect()
}
