//! Bodies that begin with a recorded body: only what is new in them is read.
//!
//! A client that sends a conversation again usually writes the same bytes again and more behind
//! them. For each recorded body a [`BodyPrefix`] keeps where its messages end and a keyed hash of all
//! bytes up to there. A body that begins with the same bytes is cut short: its first message, a few
//! before the new ones, the new ones, and all other members stay; the known messages in between
//! are left out ([`BodyPrefix::shortened`]). Reading that text gives what reading the whole would give,
//! because a message is read by itself. So one pass of BLAKE3 over the bytes takes the place of
//! parsing and of one digest per message.
//!
//! Which prefix may fit is looked up by samples of the body at powers of two, so no length has to
//! be known. The hash decides; the samples only choose what to try.
use crate::count::last_user_index;
use crate::json::array_elements;
use crate::known::digest::{Digest, Digester};
use crate::request::{Dialect, Message, Part};
use lru::LruCache;

/// Shorter bodies are read in whole: it takes less than a hundredth of a millisecond.
const MIN_BYTES: usize = 16 << 10;

/// The first sample ends at this power of two.
const FIRST_SAMPLE: u32 = 10;

/// Bytes of a sample.
const SAMPLE_BYTES: usize = 32;

/// Prefixes with the same samples that are kept: later turns and branches of one conversation.
const PREFIXES_PER_KEY: usize = 4;

/// Memory that one key with its prefixes is charged with.
pub(super) const KEY_BYTES: usize = 768;

/// Members that may hold the messages.
const LISTS: [&[u8]; 4] = [b"messages", b"contents", b"input", b"prompt"];

/// The beginning of a recorded body, up to the end of its messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyPrefix {
    /// Where its last message ends.
    end: usize,
    /// Where its first message ends, and where the messages before the new ones begin that stay.
    left_out: (usize, usize),
    hash: Digest,
    /// Identity of what stands before the messages.
    pub context: Digest,
    /// Identity of the messages up to those that stay.
    pub digest: Digest,
    /// The format of the whole body.
    pub dialect: Dialect,
    /// Reasoning after the user's last turn, in the messages that are left out.
    pub reasoning_tokens: u64,
}

impl BodyPrefix {
    /// The beginning of `body`, a valid JSON text of these `messages`; `None` if it is not clear
    /// which bytes are which message, or if what comes later could depend on what is left out.
    ///
    /// `prefixes` are the digests of the context and of the first k messages; `reasoning` counts
    /// what a message has of it.
    pub(super) fn new(
        digester: &Digester,
        body: &[u8],
        dialect: Dialect,
        messages: &[Message<'_>],
        prefixes: &[Digest],
        reasoning: impl FnMut(&Message<'_>) -> u64,
    ) -> Option<BodyPrefix> {
        if body.len() < MIN_BYTES {
            return None;
        }
        let ranges = array_elements(body, &LISTS)?;
        let stay = messages
            .iter()
            .rposition(|it| it.role != "tool")?
            .checked_sub(1)?;
        let is_reasoning = |part: &Part<'_>| matches!(part, Part::Reasoning { .. });
        let begins_plainly = !messages[0].parts.iter().any(is_reasoning);
        if ranges.len() != messages.len() || stay < 2 || !begins_plainly {
            return None;
        }
        let turn = last_user_index(&messages[..stay]).unwrap_or(0);
        let end = ranges.last()?.end;
        Some(BodyPrefix {
            end,
            left_out: (ranges[0].end, ranges[stay].start),
            hash: digester.bytes(&body[..end]),
            context: prefixes[0],
            digest: prefixes[stay],
            dialect,
            reasoning_tokens: messages[turn + 1..stay].iter().map(reasoning).sum(),
        })
    }

    /// `body` without the messages that are left out, if it begins with the same bytes.
    pub(super) fn shortened(&self, digester: &Digester, body: &[u8]) -> Option<Vec<u8>> {
        let known = body.get(..self.end)?;
        if digester.bytes(known) != self.hash {
            return None;
        }
        let (head, tail) = (&body[..self.left_out.0], &body[self.left_out.1..]);
        Some([head, b",", tail].concat())
    }
}

/// The beginnings of recorded bodies, bounded; the least recently used go first.
pub(super) struct BodyPrefixes {
    /// By the samples; unbounded, since a bounded cache takes all of its memory at once.
    by_samples: LruCache<Digest, Vec<BodyPrefix>>,
    max_keys: usize,
}

impl BodyPrefixes {
    /// Room for `capacity_bytes`, at least one key.
    pub(super) fn new(capacity_bytes: usize) -> BodyPrefixes {
        BodyPrefixes {
            by_samples: LruCache::unbounded(),
            max_keys: (capacity_bytes / KEY_BYTES).max(1),
        }
    }

    /// Those that `body` may begin with, the longest first.
    pub(super) fn candidates(&mut self, digester: &Digester, body: &[u8]) -> Vec<BodyPrefix> {
        let mut found: Vec<BodyPrefix> = Vec::new();
        for samples in all_samples(body) {
            let known = self.by_samples.get(&digester.bytes(&samples));
            found.extend(
                known
                    .into_iter()
                    .flatten()
                    .filter(|it| it.end <= body.len()),
            );
            if !found.is_empty() {
                break;
            }
        }
        found.sort_by_key(|prefix| usize::MAX - prefix.end);
        found
    }

    /// Remembers `prefix` of `body`.
    pub(super) fn record(&mut self, digester: &Digester, body: &[u8], prefix: BodyPrefix) {
        let Some(samples) = all_samples(&body[..prefix.end]).next() else {
            return;
        };
        let key = digester.bytes(&samples);
        if self.by_samples.len() == self.max_keys && !self.by_samples.contains(&key) {
            self.by_samples.pop_lru();
        }
        let known = self.by_samples.get_or_insert_mut(key, Vec::new);
        known.retain(|it| it.hash != prefix.hash);
        known.truncate(PREFIXES_PER_KEY - 1);
        known.insert(0, prefix);
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.by_samples.clear();
    }
}

/// Samples of `body` up to each power of two in it, from the highest on.
fn all_samples(body: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let highest = body.len().checked_ilog2().unwrap_or(0);
    let lowest = MIN_BYTES.ilog2();
    let body = &body[..body.len().min(1 << highest)];
    (lowest..=highest).rev().map(move |last| {
        let ends = (FIRST_SAMPLE..=last).map(|power| 1_usize << power);
        ends.flat_map(|end| &body[end - SAMPLE_BYTES..end])
            .copied()
            .collect()
    })
}
