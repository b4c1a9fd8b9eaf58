//! Bodies that begin with a recorded body: only what is new in them is read.
//!
//! A client that sends a conversation again usually writes the same bytes again and more behind
//! them. For each recorded body a [`Start`] keeps where its messages end and a keyed hash of all
//! bytes up to there. A body that begins with the same bytes is cut short: its first message, a few
//! before the new ones, the new ones, and all other members stay; the known messages in between
//! are left out ([`Start::short`]). Reading that text gives what reading the whole would give,
//! because a message is read by itself. So one pass of BLAKE3 over the bytes takes the place of
//! parsing and of one digest per message.
//!
//! Which start may fit is looked up by samples of the body at powers of two, so no length has to
//! be known. The hash decides; the samples only choose what to try.
use crate::count::last_user_index;
use crate::json::array_elements;
use crate::known::digest::{Digest, Digester};
use crate::request::{Dialect, Message, Part};
use lru::LruCache;
use std::num::NonZeroUsize;

/// Shorter bodies are read in whole: it takes less than a hundredth of a millisecond.
const MIN_BYTES: usize = 16 << 10;

/// The first sample ends at this power of two.
const FIRST_SAMPLE: u32 = 10;

/// Bytes of a sample.
const SAMPLE_BYTES: usize = 32;

/// Starts with the same samples that are kept: later turns and branches of one conversation.
const STARTS_PER_KEY: usize = 4;

/// Memory that one key with its starts is charged with.
pub const KEY_BYTES: usize = 768;

/// Members that may hold the messages.
const LISTS: [&[u8]; 4] = [b"messages", b"contents", b"input", b"prompt"];

/// The beginning of a recorded body.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Where its last message ends.
    end: usize,
    /// Where its first message ends, and where the messages before the new ones begin that stay.
    left_out: (usize, usize),
    hash: Digest,
    /// Identity of what stands before the messages.
    pub context: Digest,
    /// Identity of the messages up to those that stay.
    pub prefix: Digest,
    /// The format of the whole body.
    pub dialect: Dialect,
    /// Reasoning after the user's last turn, in the messages that are left out.
    pub reasoning_tokens: u64,
}

impl Start {
    /// The beginning of `body`, a valid JSON text of these `messages`; `None` if it is not clear
    /// which bytes are which message, or if what comes later could depend on what is left out.
    ///
    /// `prefixes` are the digests of the context and of the first k messages; `reasoning` counts
    /// what a message has of it.
    pub fn new(
        digester: &Digester,
        body: &[u8],
        dialect: Dialect,
        messages: &[Message<'_>],
        prefixes: &[Digest],
        reasoning: impl FnMut(&Message<'_>) -> u64,
    ) -> Option<Start> {
        if body.len() < MIN_BYTES {
            return None;
        }
        let ranges = array_elements(body, &LISTS)?;
        let stay = messages
            .iter()
            .rposition(|it| it.role != "tool")?
            .checked_sub(1)?;
        let is_reasoning = |part: &Part<'_>| matches!(part, Part::Reasoning { .. });
        let starts_plainly = !messages[0].parts.iter().any(is_reasoning);
        if ranges.len() != messages.len() || stay < 2 || !starts_plainly {
            return None;
        }
        let turn = last_user_index(&messages[..stay]).unwrap_or(0);
        let end = ranges.last()?.end;
        Some(Start {
            end,
            left_out: (ranges[0].end, ranges[stay].start),
            hash: digester.bytes(&body[..end]),
            context: prefixes[0],
            prefix: prefixes[stay],
            dialect,
            reasoning_tokens: messages[turn + 1..stay].iter().map(reasoning).sum(),
        })
    }

    /// `body` without the messages that are left out, if it begins with the same bytes.
    pub fn short(&self, digester: &Digester, body: &[u8]) -> Option<Vec<u8>> {
        let known = body.get(..self.end)?;
        if digester.bytes(known) != self.hash {
            return None;
        }
        let (head, tail) = (&body[..self.left_out.0], &body[self.left_out.1..]);
        Some([head, b",", tail].concat())
    }
}

/// The beginnings of recorded bodies, bounded; the least recently used go first.
pub struct Starts(LruCache<Digest, Vec<Start>>);

impl Starts {
    /// Room for `capacity_bytes`, at least one key.
    pub fn new(capacity_bytes: usize) -> Starts {
        let keys = NonZeroUsize::new(capacity_bytes / KEY_BYTES).unwrap_or(NonZeroUsize::MIN);
        Starts(LruCache::new(keys))
    }

    /// Those that `body` may begin with, the longest first.
    pub fn candidates(&mut self, digester: &Digester, body: &[u8]) -> Vec<Start> {
        let mut found: Vec<Start> = Vec::new();
        for samples in all_samples(body) {
            let starts = self.0.get(&digester.bytes(&samples));
            found.extend(
                starts
                    .into_iter()
                    .flatten()
                    .filter(|it| it.end <= body.len()),
            );
            if !found.is_empty() {
                break;
            }
        }
        found.sort_by_key(|start| usize::MAX - start.end);
        found
    }

    /// Remembers `start` of `body`.
    pub fn record(&mut self, digester: &Digester, body: &[u8], start: Start) {
        let Some(samples) = all_samples(&body[..start.end]).next() else {
            return;
        };
        let key = digester.bytes(&samples);
        let starts = self.0.get_or_insert_mut(key, Vec::new);
        starts.retain(|it| it.hash != start.hash);
        starts.truncate(STARTS_PER_KEY - 1);
        starts.insert(0, start);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
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
