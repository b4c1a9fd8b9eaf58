//! Shapes of recorded calls, with which an edited or branched conversation is compared.
//!
//! A [`Shape`] is the bill of a recorded call, and for each of its messages 40 bits of the
//! digest and its count: 8 bytes a message, no text. A request that shares most of
//! its messages with a shape, in whatever order, is estimated by difference: the known total,
//! minus the messages that were removed, plus those that were added.
//!
//! [`Shapes`] finds them by MinHash: each is filed under the [`KEYS`] of its messages that have
//! the smallest digests, wherever they stand. An edit that takes away a share x of the messages
//! hides it with the chance x^8. A message that many conversations share (a system prompt, a few
//! shots) is full after [`PLACES`] of them, and the next is filed under others. By the last message of its
//! request it is found for another model, too.
//!
//! Considered, not measured: to file under the last messages only (an edited last turn hides it), under
//! all messages (half of the memory), bits for single tokens (an edit is a message).
use crate::engine::bounds::Stratum;
use crate::known::KnownTotal;
use crate::known::digest::Digest;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Messages that a shape is filed under.
const KEYS: usize = 8;

/// Shapes that are filed under one message.
const PLACES: usize = 4;

/// Shapes that are compared with a request.
const CANDIDATES: usize = 4;

/// Messages of a request that may be the last of one that another model has answered.
const SWITCH_MESSAGES: usize = 16;

/// Memory that a shape is charged with, beside its messages and keys.
pub const SHAPE_BYTES: usize = 384;

/// Memory that a key is charged with.
pub const KEY_BYTES: usize = 48;

const TOKENS_BITS: u32 = 21;
const STRATUM_BITS: u32 = 3;
const COUNT_BITS: u32 = TOKENS_BITS + STRATUM_BITS;

/// A message of a recorded call: 40 bits of its digest, its stratum, its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen(u64);

impl Seen {
    /// `None` if `tokens` are 2,097,152 or more.
    pub fn new(digest: Digest, stratum: Stratum, tokens: u64) -> Option<Seen> {
        let count = (stratum as u64) << TOKENS_BITS | tokens;
        (tokens >> TOKENS_BITS == 0).then_some(Seen(name(digest) << COUNT_BITS | count))
    }

    /// The count of its tokens.
    pub fn tokens(self) -> u64 {
        self.0 & ((1 << TOKENS_BITS) - 1)
    }

    /// The kind of its hardest part.
    pub fn stratum(self) -> Stratum {
        Stratum::numbered(self.0 >> TOKENS_BITS & ((1 << STRATUM_BITS) - 1))
    }

    fn name(self) -> u64 {
        self.0 >> COUNT_BITS
    }
}

/// 40 bits of a digest.
fn name(digest: Digest) -> u64 {
    digest.word() >> COUNT_BITS
}

/// The bill of a recorded call, and the counts of its messages.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Identity of what its counts depend on.
    pub family: u64,
    /// Identity of the context, whatever the family.
    pub any_family: u64,
    /// Identity of the context: of all before the messages.
    pub context: Digest,
    /// The count of that, without options.
    pub context_tokens: i64,
    /// The kind of its hardest part.
    pub context_stratum: Stratum,
    /// Billed for all messages; the reply, if there is one, is derived.
    pub total: KnownTotal,
    /// The user's last turn.
    pub turn: Option<usize>,
    /// Messages without the reply.
    pub request_len: usize,
    /// Messages of the request, and of the reply.
    pub messages: Box<[Seen]>,
}

/// The messages that a request shares with a shape.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlap {
    /// For each message of the request, its place in the shape.
    pub places: Vec<Option<usize>>,
    /// Messages of the shape that the request has not, and what they were counted as.
    pub removed: Sum,
    /// Messages that both have, beyond the known prefix of the request.
    pub kept: Sum,
}

/// Messages taken together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub messages: u64,
    /// The sum of their counts.
    pub tokens: u64,
    /// The last of their strata.
    pub stratum: Stratum,
}

impl Sum {
    fn add(&mut self, seen: Seen) {
        self.messages += 1;
        self.tokens += seen.tokens();
        self.stratum = self.stratum.max(seen.stratum());
    }
}

impl Shape {
    /// The overlap of messages of these `digests`, of which `start` are known, with this shape. Equal
    /// messages are paired in their order, but in a run with their neighbours if they can be.
    /// Sorts the shape's messages.
    ///
    /// A message that `is_bound` to the one before it, as a result to its call, is not the same
    /// behind another.
    pub fn overlap(
        &self,
        digests: &[Digest],
        start: usize,
        is_bound: impl Fn(usize) -> bool,
    ) -> Overlap {
        let mut overlap = Overlap::default();
        let mut waiting = Waiting::new(&self.messages);
        let mut next = 0;
        for digest in digests {
            let place = waiting.take(name(*digest), next);
            next = place.map_or(0, |place| place + 1);
            overlap.places.push(place);
        }
        for index in (0..digests.len()).filter(|index| is_bound(*index)) {
            let before = index
                .checked_sub(1)
                .and_then(|before| overlap.places[before]);
            overlap.places[index] =
                overlap.places[index].filter(|place| before.map(|it| it + 1) == Some(*place));
        }
        let mut is_kept = vec![false; self.messages.len()];
        for (index, place) in overlap.places.iter().enumerate() {
            if let Some(place) = *place {
                is_kept[place] = true;
                if index >= start {
                    overlap.kept.add(self.messages[place]);
                }
            }
        }
        for (seen, is_kept) in self.messages.iter().zip(is_kept) {
            if !is_kept {
                overlap.removed.add(*seen);
            }
        }
        overlap
    }

    /// No more tokens than these are shared with messages of these `digests`.
    pub fn shared_at_most(&self, digests: &[Digest]) -> u64 {
        let mut most: HashMap<u64, u64, BuildHasherDefault<KeyHasher>> = HashMap::default();
        for seen in &self.messages {
            let tokens = most.entry(seen.name()).or_default();
            *tokens = seen.tokens().max(*tokens);
        }
        let names = digests.iter().map(|digest| name(*digest));
        names.filter_map(|name| most.get(&name)).sum()
    }

    /// True if it begins with messages of these names.
    fn begins(&self, names: impl ExactSizeIterator<Item = u64>) -> bool {
        names.len() <= self.messages.len()
            && names
                .zip(&self.messages)
                .all(|(name, seen)| name == seen.name())
    }

    /// True if `later` is a later turn of it, or the same call again.
    fn is_continued_by(&self, later: &Shape) -> bool {
        let names = self.messages[..self.request_len]
            .iter()
            .map(|seen| seen.name());
        (self.family, self.context) == (later.family, later.context) && later.begins(names)
    }

    fn bytes(&self, keys: usize) -> usize {
        SHAPE_BYTES + size_of::<Seen>() * self.messages.len() + KEY_BYTES * keys
    }
}

/// The messages of a shape that are not paired yet.
struct Waiting<'s> {
    messages: &'s [Seen],
    is_taken: Vec<bool>,
    /// Names and places, sorted.
    sorted: Vec<(u64, usize)>,
    /// How many of a name were passed over, at the first of it in `sorted`.
    passed: Vec<usize>,
}

impl<'s> Waiting<'s> {
    fn new(messages: &'s [Seen]) -> Waiting<'s> {
        let mut sorted: Vec<_> = messages.iter().map(|seen| seen.name()).zip(0..).collect();
        sorted.sort_unstable();
        Waiting {
            messages,
            is_taken: vec![false; messages.len()],
            passed: vec![0; messages.len()],
            sorted,
        }
    }

    /// Takes the message of this name at place `next`, or the first that is left.
    fn take(&mut self, name: u64, next: usize) -> Option<usize> {
        let is_next = self.messages.get(next).is_some_and(|it| it.name() == name);
        let place = match is_next && !self.is_taken[next] {
            true => next,
            false => self.first(name)?,
        };
        self.is_taken[place] = true;
        Some(place)
    }

    fn first(&mut self, name: u64) -> Option<usize> {
        let start = self.sorted.partition_point(|it| it.0 < name);
        loop {
            let at = start + self.passed.get(start)?;
            let (_, place) = *self.sorted.get(at).filter(|it| it.0 == name)?;
            if !self.is_taken[place] {
                return Some(place);
            }
            self.passed[start] += 1;
        }
    }
}

struct Filed {
    shape: Arc<Shape>,
    keys: Vec<u64>,
    expires_seconds: f64,
}

/// Shapes, bounded in bytes and in time; the one that was recorded first goes first.
#[derive(Default)]
pub struct Shapes {
    /// By the number of the recorded call.
    filed: BTreeMap<u32, Filed>,
    /// Up to [`PLACES`] of them by key, the oldest first; 0 is none.
    places: HashMap<u64, [u32; PLACES], BuildHasherDefault<KeyHasher>>,
    last: u32,
    bytes: usize,
    capacity_bytes: usize,
    ttl_seconds: f64,
}

impl Shapes {
    /// Room for `capacity_bytes`, each shape kept for `ttl_seconds` after it was recorded.
    pub fn new(capacity_bytes: usize, ttl_seconds: f64) -> Shapes {
        Shapes {
            capacity_bytes,
            ttl_seconds,
            ..Shapes::default()
        }
    }

    /// Number of shapes.
    pub fn len(&self) -> usize {
        self.filed.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.filed.is_empty()
    }

    /// Memory that they are charged with.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Shapes::new(self.capacity_bytes, self.ttl_seconds);
    }

    /// Remembers `shape`, in place of one that it continues. One too large is not kept.
    ///
    /// All are forgotten after 2^32 of them.
    pub fn record(&mut self, shape: Shape, now_seconds: f64) {
        if let Some(old) = self.continued_by(&shape) {
            self.forget(old);
        }
        let mut keys = self.free_keys(&shape);
        if keys.is_empty() {
            return;
        }
        let last = shape.messages[..shape.request_len].last();
        keys.extend(last.map(|last| key(shape.any_family, last.name())));
        let bytes = shape.bytes(keys.len());
        if bytes > self.capacity_bytes {
            return;
        }
        while self.bytes + bytes > self.capacity_bytes {
            let first = self.filed.keys().next().copied();
            first.into_iter().for_each(|id| self.forget(id));
        }
        if self.last == u32::MAX {
            self.clear();
        }
        self.last += 1;
        for key in &keys {
            let places = self.places.entry(*key).or_default();
            let free = places.iter().position(|id| *id == 0).unwrap_or_else(|| {
                places.rotate_left(1);
                PLACES - 1
            });
            places[free] = self.last;
        }
        self.bytes += bytes;
        let filed = Filed {
            shape: Arc::new(shape),
            keys,
            expires_seconds: now_seconds + self.ttl_seconds,
        };
        self.filed.insert(self.last, filed);
    }

    /// Up to [`CANDIDATES`] shapes of `family` that are filed under messages of these digests:
    /// first those that the most messages lead to, of equals the newest.
    pub fn near(&self, family: u64, digests: &[Digest], now_seconds: f64) -> Vec<Arc<Shape>> {
        let mut hits: BTreeMap<u32, u32> = BTreeMap::new();
        for id in digests
            .iter()
            .flat_map(|it| self.filed_under(family, name(*it)))
        {
            *hits.entry(id).or_default() += 1;
        }
        let mut hits: Vec<_> = hits.into_iter().map(|(id, count)| (count, id)).collect();
        hits.sort_unstable_by(|left, right| right.cmp(left));
        let filed = hits.iter().filter_map(|(_, id)| self.filed.get(id));
        let fresh =
            filed.filter(|it| it.shape.family == family && now_seconds < it.expires_seconds);
        fresh
            .map(|it| Arc::clone(&it.shape))
            .take(CANDIDATES)
            .collect()
    }

    /// A shape of `family` that begins with `context` and messages of these digests.
    pub fn beginning(
        &self,
        family: u64,
        context: Digest,
        digests: &[Digest],
    ) -> Option<Arc<Shape>> {
        let names = digests.iter().map(|it| name(*it));
        let mut ids = names.clone().flat_map(|it| self.filed_under(family, it));
        let is_same = |shape: &Shape| (shape.family, shape.context) == (family, context);
        let found = ids.find_map(|id| {
            let shape = &self.filed.get(&id)?.shape;
            (is_same(shape) && shape.begins(names.clone())).then_some(shape)
        });
        found.map(Arc::clone)
    }

    /// The newest call of another family than `family`, but with the same before its messages, whose request
    /// and reply messages of these digests begin with.
    pub fn of_other_family(
        &self,
        (family, any_family): (u64, u64),
        digests: &[Digest],
        now_seconds: f64,
    ) -> Option<Arc<Shape>> {
        let names = digests.iter().map(|it| name(*it));
        let ends = names.clone().rev().take(SWITCH_MESSAGES);
        let mut ids = ends.flat_map(|name| {
            let ids = self.filed_under(any_family, name);
            ids.collect::<Vec<_>>().into_iter().rev()
        });
        let is_begun = |filed: &&Filed| {
            let seen = filed.shape.messages.iter().map(|it| it.name());
            let count = filed.shape.messages.len();
            count <= digests.len()
                && filed.shape.family != family
                && now_seconds < filed.expires_seconds
                && seen.eq(names.clone().take(count))
        };
        let found = ids.find_map(|id| self.filed.get(&id).filter(is_begun));
        found.map(|it| Arc::clone(&it.shape))
    }

    fn continued_by(&self, shape: &Shape) -> Option<u32> {
        let names = shape.messages.iter().map(|seen| seen.name());
        let mut ids = names.flat_map(|it| self.filed_under(shape.family, it));
        ids.find(|id| {
            let filed = self.filed.get(id);
            filed.is_some_and(|it| it.shape.is_continued_by(shape))
        })
    }

    fn filed_under(&self, family: u64, name: u64) -> impl Iterator<Item = u32> + use<> {
        let places = self.places.get(&key(family, name)).copied();
        let places = places.unwrap_or_default();
        places.into_iter().filter(|id| *id != 0)
    }

    /// The keys under which `shape` is to be filed: the smallest of its keys that are not full.
    fn free_keys(&self, shape: &Shape) -> Vec<u64> {
        let mut names: Vec<u64> = shape.messages.iter().map(|seen| seen.name()).collect();
        names.sort_unstable();
        names.dedup();
        let all = names.iter().map(|name| key(shape.family, *name));
        let is_free = |key: &u64| self.places.get(key).is_none_or(|it| it.contains(&0));
        let free: Vec<u64> = all.clone().filter(is_free).take(KEYS).collect();
        if free.is_empty() {
            all.take(1).collect()
        } else {
            free
        }
    }

    fn forget(&mut self, id: u32) {
        let Some(filed) = self.filed.remove(&id) else {
            return;
        };
        self.bytes -= filed.shape.bytes(filed.keys.len());
        for key in &filed.keys {
            let Some(places) = self.places.get_mut(key) else {
                continue;
            };
            if let Some(place) = places.iter().position(|it| *it == id) {
                places[place..].rotate_left(1);
                places[PLACES - 1] = 0;
            }
            if *places == [0; PLACES] {
                self.places.remove(key);
            }
        }
    }
}

/// The key under which a shape is filed for a message.
fn key(family: u64, name: u64) -> u64 {
    family ^ name.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Keys are uniform already.
#[derive(Default)]
pub struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: u64) -> Digest {
        let hash = blake3::hash(&number.to_le_bytes());
        Digest(hash.as_bytes()[..16].try_into().expect("16 bytes"))
    }

    fn digests(numbers: impl Iterator<Item = u64>) -> Vec<Digest> {
        numbers.map(digest).collect()
    }

    fn shape(numbers: impl Iterator<Item = u64>) -> Shape {
        let seen = |digest: &Digest| Seen::new(*digest, Stratum::Tools, 100);
        let messages: Option<Vec<Seen>> = digests(numbers).iter().map(seen).collect();
        let messages = messages.expect("few tokens");
        Shape {
            family: 7,
            any_family: 9,
            context: digest(u64::MAX),
            context_tokens: 10,
            context_stratum: Stratum::Text,
            total: KnownTotal::default(),
            turn: None,
            request_len: messages.len(),
            messages: messages.into(),
        }
    }

    #[test]
    fn a_message_keeps_its_numbers() {
        for stratum in [Stratum::Text, Stratum::Images, Stratum::Undetermined] {
            for tokens in [0, 1, (1 << TOKENS_BITS) - 1] {
                let seen = Seen::new(digest(1), stratum, tokens).expect("few tokens");
                assert_eq!((seen.stratum(), seen.tokens()), (stratum, tokens));
                assert_eq!(seen.name(), name(digest(1)));
            }
        }
        assert_eq!(Seen::new(digest(1), Stratum::Text, 1 << TOKENS_BITS), None);
    }

    #[test]
    fn an_overlap_is_a_difference_of_lists() {
        let shape = shape([1, 2, 3, 2, 4].into_iter());
        let overlap = shape.overlap(&digests([2, 3, 2, 2, 5, 1].into_iter()), 1, |_| false);
        let places = [Some(1), Some(2), Some(3), None, None, Some(0)];
        assert_eq!(overlap.places, places);
        assert_eq!((overlap.removed.messages, overlap.removed.tokens), (1, 100));
        assert_eq!((overlap.kept.messages, overlap.kept.tokens), (3, 300));
        assert_eq!(overlap.removed.stratum, Stratum::Tools);
        let behind = shape.overlap(&digests([1, 3, 2].into_iter()), 0, |index| index == 1);
        assert_eq!(behind.places, [Some(0), None, Some(3)]);
    }

    #[test]
    fn a_conversation_is_found_among_many_after_most_edits() {
        let mut shapes = Shapes::new(8 << 20, 60.0);
        let system = 1 << 60;
        let of = |nth: u64| std::iter::once(system).chain((0..40).map(move |it| nth << 8 | it));
        (0..1000).for_each(|nth| shapes.record(shape(of(nth)), 0.0));
        let is_found = |nth: u64, kept: &dyn Fn(usize) -> bool| {
            let kept = of(nth).enumerate().filter(|it| kept(it.0)).map(|it| it.1);
            let near = shapes.near(7, &digests(kept), 1.0);
            near.first().is_some_and(|it| **it == shape(of(nth)))
        };
        let count =
            |kept: &dyn Fn(usize) -> bool| (0..1000).filter(|nth| is_found(*nth, kept)).count();
        assert_eq!(count(&|_| true), 1000);
        assert!(count(&|index| index > 20) > 980);
        assert!(count(&|index| index % 4 == 0) > 850);
        assert!(shapes.near(8, &digests(of(1)), 1.0).is_empty());
        assert!(shapes.near(7, &digests(of(1)), 60.0).is_empty());
    }

    #[test]
    fn a_later_turn_takes_the_place_of_the_one_before() {
        let mut shapes = Shapes::new(1 << 20, 60.0);
        for turns in 1..50 {
            shapes.record(shape(0..turns), 0.0);
        }
        assert_eq!(shapes.len(), 1);
        shapes.record(shape((0..30).chain(100..130)), 0.0);
        assert_eq!(shapes.len(), 2);
        let begun = shapes.beginning(7, digest(u64::MAX), &digests((0..30).chain(100..110)));
        assert_eq!(begun.map(|it| it.messages.len()), Some(60));
        assert!(shapes.beginning(7, digest(0), &digests(0..30)).is_none());
    }

    #[test]
    fn memory_is_bounded_and_given_back() {
        let mut shapes = Shapes::new(100_000, 60.0);
        for nth in 0..2000_u64 {
            shapes.record(shape((0..10).chain(nth << 8..(nth << 8) + nth % 90)), 0.0);
            assert!(shapes.bytes() <= 100_000);
        }
        let charged: usize = shapes
            .filed
            .values()
            .map(|it| it.shape.bytes(it.keys.len()))
            .sum();
        assert_eq!(charged, shapes.bytes());
        let ids: Vec<u32> = shapes.filed.keys().copied().collect();
        ids.into_iter().for_each(|id| shapes.forget(id));
        assert_eq!((shapes.bytes(), shapes.places.len()), (0, 0));
        shapes.record(shape(0..20_000), 0.0);
        assert!(shapes.is_empty());
    }
}
