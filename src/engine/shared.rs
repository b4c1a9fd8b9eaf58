//! Questions to a store that several processes share, and the entries that go into it and come from it.
use crate::engine::cache_points::{CachedPrefix, names, points};
use crate::engine::guarded::Guarded;
use crate::engine::learn::{Learner, Learners};
use crate::engine::lookup::Known;
use crate::engine::reading::Reading;
use crate::known::digest::{Digest, Digester};
use crate::known::sealed::{Entry, Sealer};
use crate::known::{Boundary, KnownTotal};

/// Nothing is kept longer.
const MAX_AGE_SECONDS: u64 = 2 * 365 * 24 * 3600;

/// A question to other processes.
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
    /// The prefix that all requests of the conversation share.
    pub root: Digest,
    /// Prefixes at which another process may know a total, the deepest last.
    pub prefixes: Vec<Digest>,
    /// Points of which it may know that a provider has cached them, if the call wants to know.
    pub points: Vec<Digest>,
    /// The name under which it may have learned how the model is billed.
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
    /// The prefix that all requests of the conversation share.
    pub root: Digest,
    /// The prefix.
    pub prefix: Digest,
    /// Its total, bound to it.
    pub sealed: Vec<u8>,
}

/// Other processes' question and answer: makes what leaves the process, and opens what comes from another.
pub(super) struct Sharing {
    digester: Digester,
    sealer: Sealer,
}

impl Sharing {
    pub(super) fn new(secret: &[u8], digester: &Digester) -> Sharing {
        Sharing {
            digester: digester.clone(),
            sealer: Sealer::new(secret),
        }
    }

    /// The name under which another process may have learned how `model` is billed, if it is time to ask. Then
    /// it has been asked.
    pub(super) fn ask_learned(
        &self,
        learners: &Guarded<Learners>,
        model: &str,
        now_seconds: f64,
    ) -> Option<Digest> {
        learners.with(|all| all.ask(model, || self.learned_name(model), now_seconds))
    }

    /// The name by which other processes know `model`, which has its tenant in its name.
    fn learned_name(&self, model: &str) -> Digest {
        self.digester.bytes(format!("learned\0{model}").as_bytes())
    }

    /// The corrections of `model`, for other processes.
    pub(super) fn learned_entry(&self, model: &str, learner: &Learner) -> SharedEntry {
        let name = self.learned_name(model);
        SharedEntry {
            root: name,
            prefix: name,
            sealed: self.sealer.seal_learned(name, &learner.pack()),
        }
    }

    /// The corrections that another process has sealed for `name` under the same secret.
    pub(super) fn open_learned(&self, name: Digest, sealed: &[u8]) -> Option<Learner> {
        Learner::unpack(self.sealer.open_learned(name, sealed)?)
    }

    /// The totals at `boundaries` for other processes.
    pub(super) fn entries(
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

    /// The total that another process has sealed for `digest` under the same secret, and its age.
    pub(super) fn open_total(
        &self,
        digest: Digest,
        sealed: &[u8],
        unix_seconds: u64,
    ) -> Option<(KnownTotal, f64)> {
        let entry = self.sealer.open(digest, sealed)?;
        let age_seconds = unix_seconds.saturating_sub(entry.recorded_seconds);
        #[allow(clippy::cast_precision_loss)] // two years
        let age_seconds = age_seconds.min(MAX_AGE_SECONDS) as f64;
        let is_total = CachedPrefix::of_entry(&entry).is_none();
        is_total.then_some((entry.total, age_seconds))
    }

    /// `cached` for other processes.
    pub(super) fn seal_cached(&self, digest: Digest, cached: CachedPrefix) -> Vec<u8> {
        self.sealer.seal(digest, &cached.entry())
    }

    /// The cached prefix that another process has sealed for `digest` under the same secret.
    pub(super) fn open_cached(&self, digest: Digest, sealed: &[u8]) -> Option<CachedPrefix> {
        CachedPrefix::of_entry(&self.sealer.open(digest, sealed)?)
    }
}

/// The prefixes, and the corrections by their name `learned`, that another process may know beyond what is
/// `known`, with at most `limit` prefixes; `None` if there can be nothing, or if `limit` is 0.
pub(super) fn wanted(
    reading: &Reading<'_>,
    known: &Known,
    provider: Option<&str>,
    limit: usize,
    learned: Option<Digest>,
) -> Option<Wanted> {
    let prefixes = wanted_prefixes(reading, known, limit);
    if prefixes.is_empty() && learned.is_none() {
        return None;
    }
    let points = match prefixes.is_empty() {
        true => Vec::new(),
        false => points(reading, &names(reading, provider)),
    };
    Some(Wanted {
        root: reading.root(),
        prefixes,
        points: points.iter().map(|point| point.digest).collect(),
        learned,
    })
}

/// The last `limit` prefixes, deepest last, at which another process may have recorded more than is `known`.
///
/// A recorded prefix ends with a request or with its reply, so only the borders of the assistant's messages
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
