//! What an engine asks of a store that several processes share, and what it takes from one.
use super::learn::Learner;
use super::{CachedPrefix, Call, Engine, Known, Reading};
use crate::known::Boundary;
use crate::known::digest::Digest;
use crate::known::sealed::Entry;

/// Nothing is kept longer.
const MAX_AGE_SECONDS: u64 = 2 * 365 * 24 * 3600;

/// What to ask other processes for.
///
/// ```
/// # use tokenctx::{Alone, Answer, Body, Call, Engine, Settings};
/// # let engine = Engine::new(b"a secret of 16 bytes or more", Settings::default());
/// let body = Body::Bytes(
///     br#"{"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"},
///         {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "And now?"}]}"#,
/// );
/// let Answer::Wanted(wanted) = engine.estimate(&body, &Call::default(), 8, &Alone)? else {
///     unreachable!("another process may know the first turn")
/// };
/// assert!(wanted.prefixes.len() <= 8);
/// # Ok::<(), tokenctx::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// What all requests of the conversation share.
    pub root: Digest,
    /// Prefixes at which another process may know a total, the deepest last.
    pub prefixes: Vec<Digest>,
    /// Points of which it may know that a provider has cached them, if the call wants to know.
    pub points: Vec<Digest>,
    /// By what it may have learned how the model is billed.
    pub learned: Option<Digest>,
}

/// A known total as another process takes it over.
///
/// ```
/// # use tokenctx::{Alone, Billed, Body, Call, Engine, Settings};
/// let [one, other] = [(); 2].map(|()| Engine::new(b"a secret of 16 bytes or more", Settings::default()));
/// # let body = Body::Bytes(br#"{"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}"#);
/// let billed = Billed { input_tokens: 9, ..Billed::default() };
/// let call = Call { wants_entries: true, ..Call::default() };
/// let record = one.record(&body, billed, None, &call, &Alone)?.expect("input was billed");
/// for entry in record.entries {
///     assert!(other.insert(None, entry.prefix, &entry.sealed, 0.0, 0));
/// }
/// # Ok::<(), tokenctx::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedEntry {
    /// What all requests of the conversation share.
    pub root: Digest,
    /// The prefix.
    pub prefix: Digest,
    /// Its total, bound to it.
    pub sealed: Vec<u8>,
}

impl Engine {
    /// What another process may know beyond what is `known`, with at most `limit` prefixes; `None` if there
    /// can be nothing, or if `limit` is 0.
    pub(super) fn wanted(
        &self,
        reading: &Reading<'_>,
        known: &Known,
        call: &Call<'_>,
        limit: usize,
        learned: Option<Digest>,
    ) -> Option<Wanted> {
        let prefixes = wanted_prefixes(reading, known, limit);
        if prefixes.is_empty() && learned.is_none() {
            return None;
        }
        let points = match prefixes.is_empty() {
            true => Vec::new(),
            false => self.points(reading, call),
        };
        Some(Wanted {
            root: reading.root(),
            prefixes,
            points: points.iter().map(|point| point.digest).collect(),
            learned,
        })
    }

    /// By what another process may have learned how the model of what was read is billed, if it is time to
    /// ask. Then it has been asked.
    pub(super) fn ask_learned(&self, reading: &Reading<'_>, now_seconds: f64) -> Option<Digest> {
        let model = self.model(reading)?;
        let name = || self.learned_name(&model);
        self.with_learners(|learners| learners.ask(&model, name, now_seconds))
    }

    /// What other processes know `model` by, which has its tenant in its name.
    fn learned_name(&self, model: &str) -> Digest {
        self.digester.bytes(format!("learned\0{model}").as_bytes())
    }

    /// What was learned of `model`, for other processes.
    pub(super) fn learned_entry(&self, model: &str, learner: &Learner) -> SharedEntry {
        let name = self.learned_name(model);
        SharedEntry {
            root: name,
            prefix: name,
            sealed: self.sealer.seal_learned(name, &learner.pack()),
        }
    }

    /// Takes over what another process has learned of the model that is [`Wanted`] by `name`, if that is
    /// more. `false` unless `sealed` is what was sealed for it under the same secret.
    pub fn insert_learned(&self, name: Digest, sealed: &[u8]) -> bool {
        let packed = self.sealer.open_learned(name, sealed);
        let learner = packed.and_then(Learner::unpack);
        learner
            .map(|it| self.with_learners(|learners| learners.take(name, it)))
            .is_some()
    }

    /// The totals at `boundaries` for other processes.
    pub(super) fn shared_entries(
        &self,
        root: Digest,
        boundaries: &[Boundary],
        unix_seconds: u64,
    ) -> Vec<SharedEntry> {
        let sealed = |boundary: &Boundary| {
            let entry = Entry {
                total: boundary.total,
                recorded_seconds: unix_seconds,
            };
            SharedEntry {
                root,
                prefix: boundary.digest,
                sealed: self.sealer.seal(boundary.digest, &entry).to_vec(),
            }
        };
        boundaries.iter().map(sealed).collect()
    }

    /// Takes over a total that another process has recorded for `tenant`. `false` unless `sealed` is
    /// what was sealed for `digest` under the same secret.
    pub fn insert(
        &self,
        tenant: Option<&[u8]>,
        digest: Digest,
        sealed: &[u8],
        now_seconds: f64,
        unix_seconds: u64,
    ) -> bool {
        let tenant = self.tenant(tenant);
        let Some(entry) = self.sealer.open(digest, sealed) else {
            return false;
        };
        if CachedPrefix::of_entry(&entry).is_some() {
            return false;
        }
        let age_seconds = unix_seconds.saturating_sub(entry.recorded_seconds);
        #[allow(clippy::cast_precision_loss)] // two years
        let age_seconds = age_seconds.min(MAX_AGE_SECONDS) as f64;
        let recorded_seconds = now_seconds - age_seconds;
        self.store
            .insert(tenant.number, digest, entry.total, recorded_seconds);
        true
    }
}

/// The last `limit` prefixes, deepest last, at which another process may have recorded more than is `known`.
///
/// What was recorded ends with a request or with its reply, so only the borders of the assistant's messages
/// are asked for. Without one beyond the known prefix nothing is.
pub(super) fn wanted_prefixes(reading: &Reading<'_>, known: &Known, limit: usize) -> Vec<Digest> {
    let messages = &reading.request.messages;
    let known = known.prefix.map_or(0, |prefix| prefix.message_count);
    let is_answer = |index: usize| messages[index].role == "assistant";
    let count = messages.len();
    if limit == 0 || !(known..count).any(is_answer) {
        return Vec::new();
    }
    let is_border = |end: &usize| *end == count || is_answer(*end) != is_answer(*end - 1);
    let ends = (known.max(1)..=count).rev().filter(|end| *end != known);
    let mut prefixes: Vec<_> = ends
        .filter(is_border)
        .take(limit)
        .map(|end| reading.prefixes[end])
        .collect();
    prefixes.reverse();
    prefixes
}

impl Reading<'_> {
    /// What all requests of a conversation share, and few others: the prefix that ends with the
    /// user's first message. Without messages, the context.
    pub(super) fn root(&self) -> Digest {
        let messages = &self.request.messages;
        let first = messages.iter().position(|message| message.role == "user");
        let end = first.map_or(messages.len().min(1), |index| index + 1);
        self.prefixes[end]
    }
}
