//! The engine: the cost of a request, and the use of a billed call for the next one.
//!
//! [`Engine::estimate`] and [`Engine::record`] are the whole story, in order. A body becomes a document, a
//! request, and one digest for each prefix of its messages. The deepest prefix whose total was billed is
//! looked up; all behind it is counted; both together are the estimate. A record looks up what was
//! known before, estimates as if for the first time, and keeps the billed total at the end of the request and
//! at the end of its reply.
//!
//! An engine has no clock and no randomness: time and secret come from the caller. What runs it says how
//! locks are taken and long work is done ([`Host`]).
mod answer;
pub mod bounds;
mod cache_points;
mod difference;
mod drift;
mod edited;
pub mod estimate;
mod guarded;
mod half_bill;
mod input;
mod judgement;
mod known_body;
pub mod learn;
mod lesson;
#[cfg(feature = "python")]
mod lines;
mod lookup;
#[cfg(feature = "python")]
mod parts;
mod reading;
mod results;
mod rounds;
mod settings;
pub mod shape;
mod shared;
mod statistics;
mod tables;

pub use bounds::Uncertain;
pub use cache_points::{CachePoint, CachePoints, CachedPrefix};
pub use drift::Drift;
pub use estimate::{About, Estimate, RequestCount, Source};
pub use input::{Alone, Body, Call, Host};
pub use judgement::Doubt;
pub use lesson::Billed;
#[cfg(feature = "python")]
pub(crate) use lines::CountedLines;
#[cfg(feature = "python")]
pub(crate) use parts::{CountedParts, Head, ResultTokens, ToolTokens, WantedParts, apportioned};
pub(crate) use results::CountedPrefix;
pub use results::{Answer, Record, ReplyFault};
pub use settings::{Method, Settings};
pub use shared::{SharedEntry, Wanted};
pub use statistics::{Statistics, UNRECORDED};
pub use tables::replace_tables;

use crate::Error;
use crate::json::Limits;
use crate::known::PrefixStore;
use crate::known::digest::Digest;
use crate::known::export::{self, ExportError};
use crate::known::tenant::Tenant;
use crate::request::read_reply;
use answer::{count_whole, estimate_and_count, estimate_from, estimate_with_cache_points};
use cache_points::reply_point;
use drift::DriftWatch;
use guarded::Guarded;
use judgement::{Judge, is_doubtful};
use known_body::beginning::BodyPrefix;
use known_body::layout::BodyLayout;
use known_body::{KnownBody, KnownText, RecordedBodies, body_prefix, known_bodies};
use learn::Learner;
use lesson::{CallLesson, Reply, lesson_of};
use lookup::{Known, Memory};
use reading::{Reader, Reading};
use shape::{Shape, Shapes};
use shared::{Sharing, wanted_prefixes};
use statistics::Counters;
use std::sync::Arc;

/// Estimates and records. Safe to share between threads.
///
/// ```
/// use tokenctx::{Alone, Answer, Billed, Body, Call, Engine, Settings, Source};
///
/// let engine = Engine::new(b"a secret of 16 bytes or more", Settings::default());
/// let body = Body::Bytes(br#"{"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}"#);
/// let call = Call::default();
/// let Answer::Estimate(first) = engine.estimate(&body, &call, 0, &Alone)? else { unreachable!() };
/// assert_eq!((first.tokens, first.source), (8, Source::Estimated));
///
/// let billed = Billed { input_tokens: 9, output_tokens: 5, ..Billed::default() };
/// engine.record(&body, billed, None, &call, &Alone)?;
/// let Answer::Estimate(again) = engine.estimate(&body, &call, 0, &Alone)? else { unreachable!() };
/// assert_eq!((again.tokens, again.source), (9, Source::Exact));
/// # Ok::<(), tokenctx::Error>(())
/// ```
pub struct Engine {
    reader: Reader,
    memory: Memory,
    judge: Judge,
    bodies: RecordedBodies,
    sharing: Sharing,
    counters: Counters,
}

impl Engine {
    /// An engine that knows nothing; engines of equal `secret` make equal digests.
    pub fn new(secret: &[u8], settings: Settings) -> Engine {
        tables::read_tables();
        let ttl = settings.ttl_seconds;
        let store = PrefixStore::new(settings.capacity_bytes, ttl);
        let shapes = Shapes::new(settings.shapes_bytes, ttl);
        let bodies = RecordedBodies::new(settings.body_prefixes_bytes);
        let reader = Reader::new(secret, settings);
        Engine {
            memory: Memory {
                store,
                shapes: Guarded::new(shapes),
                learners: Guarded::default(),
                watch: DriftWatch::default(),
            },
            judge: Judge::default(),
            bodies,
            sharing: Sharing::new(secret, &reader.digester),
            counters: Counters::default(),
            reader,
        }
    }

    /// The input tokens that `body` will be billed for; or, if another process may know more, the question
    /// for it: at most `wanted` prefixes. Linear in the body; the part of it that is known is not counted.
    ///
    /// Fails for text that is no JSON or beyond a limit; no content of a JSON value fails.
    pub fn estimate<H: Host>(
        &self,
        body: &Body<'_>,
        call: &Call<'_>,
        wanted: usize,
        host: &H,
    ) -> Result<Answer, Error> {
        let tenant = self.reader.tenant(call.tenant);
        let (digester, now) = (&tenant.digester, call.now_seconds);
        let max_bytes = Limits::default().max_bytes;
        let bytes = body.bytes().filter(|it| it.len() <= max_bytes);
        let prefixes = bytes.map(|it| self.bodies.candidates::<H>(digester, it));
        let prefixes = prefixes.unwrap_or_default();
        let answer = host.detached(body.byte_count(), || {
            // 1. The request, and the digests of its prefixes. Of a body that begins as a recorded one, or that
            // has recorded messages, only the rest is read.
            let points = call.wants_cache_points;
            let bytes = bytes.filter(|_| !points);
            let text = || self.bodies.without_text::<H>(digester, bytes?);
            let parts = known_bodies(body, prefixes, digester, points, text);
            // 2. The deepest prefix whose total is known here. The estimate is that total, and a count of all
            // beyond it.
            let part = |part: &KnownBody, reading: &Reading<'_>| {
                let known = H::locked(|| self.memory.find(reading, now));
                let is_asked = !wanted_prefixes(reading, &known, wanted).is_empty();
                let is_enough = !is_asked && part.is_enough(reading, &known);
                is_enough.then(|| {
                    self.counters.count_resumed();
                    Answer::Estimate(self.estimate_from(reading, &known, call))
                })
            };
            let whole = |reading: &Reading<'_>| {
                let (known, learned) = H::locked(|| {
                    let known = self.memory.find(reading, now);
                    let model = reading.learned_name.as_ref().filter(|_| wanted > 0);
                    let learners = &self.memory.learners;
                    let ask = |model| self.sharing.ask_learned(learners, model, now);
                    (known, model.and_then(|it| ask(it)))
                });
                // Others may know more: a question for them.
                match shared::wanted(reading, &known, call.provider, wanted, learned) {
                    Some(wanted) => {
                        self.memory.store.count_lookup(known.prefix);
                        Answer::Wanted(wanted)
                    }
                    None => Answer::Estimate(self.estimate_from(reading, &known, call)),
                }
            };
            let source = (body, call, &tenant);
            known_body::read(&self.reader, source, parts, &[], part, whole)
        })?;
        if let Answer::Estimate(estimate) = &answer {
            self.counters.count(estimate.source);
        }
        Ok(answer)
    }

    /// Remembers that `body` was `billed`, and `reply` its answer: the next turn begins there.
    ///
    /// `None` if nothing can be remembered: no input was billed, or there is no message. Linear in both. Fails as
    /// [`Engine::estimate`] for a body; then nothing is remembered. A reply that cannot be used is none, and the
    /// record says why.
    pub fn record<H: Host>(
        &self,
        body: &Body<'_>,
        billed: Billed,
        reply: Option<&Body<'_>>,
        call: &Call<'_>,
        host: &H,
    ) -> Result<Option<Record>, Error> {
        let tenant = self.reader.tenant(call.tenant);
        let digester = &tenant.digester;
        let reply_bytes = reply.map_or(0, Body::byte_count);
        let (reply_fault, outcome) = host.detached(body.byte_count() + reply_bytes, || {
            let outcome = |reply: &Reply<'_, '_>| {
                self.record_outcome::<H>((body, &tenant), (billed, reply), call)
            };
            // 1. The answer as it will come back in the next request.
            let Some(reply) = reply else {
                return (None, outcome(&Reply::default()));
            };
            let read = reply.read(|document| {
                let messages = read_reply(document)?;
                let reply = Reply::new(digester, &messages);
                Ok((ReplyFault::of(&reply, billed), outcome(&reply)))
            });
            let unreadable = |_| (Some(ReplyFault::Unreadable), outcome(&Reply::default()));
            read.unwrap_or_else(unreadable)
        });
        // Of a body that was read in whole there always is one.
        let Some(outcome) = outcome? else {
            return Ok(None);
        };
        let RecordOutcome {
            root,
            expected,
            lesson,
            prefix,
            text,
            doubt,
        } = outcome;
        let is_known = !lesson.boundaries.is_empty();
        // 5. What cannot be the bill of this prompt teaches nothing but that the provider may count otherwise now.
        let lesson = match doubt {
            None => lesson,
            Some(_) => lesson.untaught(),
        };
        if doubt.is_some_and(Doubt::is_refusal) && is_known {
            let drift = H::locked(|| lesson.watch(&self.memory, call));
            return Ok(Some(Record {
                expected,
                reply_fault,
                entries: Vec::new(),
                drift,
                doubt,
            }));
        }
        let mut entries = match call.wants_entries {
            true => self
                .sharing
                .entries(root, &lesson.boundaries, call.unix_seconds),
            false => Vec::new(),
        };
        // 6. What makes later requests quicker to read, and their counts nearer to the bills.
        let mut drift = None;
        H::locked(|| {
            if let (Some(bytes), Some(prefix), true) = (body.bytes(), prefix, is_known) {
                self.bodies.record(digester, bytes, prefix);
            }
            if let Some(text) = text.filter(|_| is_known) {
                self.bodies.record_text(text);
            }
            let learned;
            (drift, learned) = lesson.keep(&self.memory, &self.sharing, call);
            entries.extend(learned);
        });
        if !is_known {
            return Ok(None);
        }
        self.counters.count_record();
        Ok(Some(Record {
            expected,
            reply_fault,
            entries,
            drift,
            doubt,
        }))
    }

    /// The whole of `body` counted here, message by message, whatever is known of it. Fails as
    /// [`Engine::estimate`].
    pub fn count<H: Host>(
        &self,
        body: &Body<'_>,
        call: &Call<'_>,
        host: &H,
    ) -> Result<RequestCount, Error> {
        let tenant = self.reader.tenant(call.tenant);
        host.detached(body.byte_count(), || {
            body.read(|document| {
                Ok(count_whole(&self.reader.read(
                    document,
                    call,
                    &tenant,
                    &[],
                )?))
            })
        })
    }

    /// The prefixes of `body`, the shortest first: all before its messages, and after each message; each with the
    /// tokens up to its end, counted here. Two requests share a digest where they share a prefix. Fails as
    /// [`Engine::estimate`].
    pub(crate) fn count_prefixes<H: Host>(
        &self,
        body: &Body<'_>,
        call: &Call<'_>,
        host: &H,
    ) -> Result<Vec<CountedPrefix>, Error> {
        let tenant = self.reader.tenant(call.tenant);
        host.detached(body.byte_count(), || {
            body.read(|document| {
                let reading = self.reader.read(document, call, &tenant, &[])?;
                let count = count_whole(&reading);
                let messages = count.message_tokens.iter();
                let tokens = std::iter::once(&count.context_tokens).chain(messages);
                let ends = tokens.scan(0, |sum, tokens| {
                    *sum += tokens;
                    Some(*sum)
                });
                let both = reading.prefixes.iter().zip(ends);
                Ok(both
                    .map(|(&digest, tokens)| CountedPrefix { digest, tokens })
                    .collect())
            })
        })
    }

    /// The results of [`Engine::count`] and [`Engine::estimate`] for `body`, by what is known here. Fails as they
    /// do.
    pub fn count_and_estimate<H: Host>(
        &self,
        body: &Body<'_>,
        call: &Call<'_>,
        host: &H,
    ) -> Result<(RequestCount, Estimate), Error> {
        let tenant = self.reader.tenant(call.tenant);
        host.detached(body.byte_count(), || {
            body.read(|document| {
                let reading = self.reader.read(document, call, &tenant, &[])?;
                Ok(self.count_and_estimate_of::<H>(&reading, call))
            })
        })
    }

    /// The estimate for `body` by what is known here. If it has `least_tokens`, also the tokens around the messages and of
    /// those that the system says: no part of the conversation. An object is read once. Linear in the body. Fails as
    /// [`Engine::estimate`].
    #[cfg(feature = "python")]
    pub fn estimate_and_fixed<H: Host>(
        &self,
        body: &Body<'_>,
        call: &Call<'_>,
        least_tokens: u64,
        host: &H,
    ) -> Result<(Estimate, Option<u64>), Error> {
        let tenant = self.reader.tenant(call.tenant);
        let mut quick = None;
        if body.bytes().is_some()
            && let Answer::Estimate(estimate) = self.estimate(body, call, 0, host)?
        {
            if estimate.tokens < least_tokens {
                return Ok((estimate, None));
            }
            quick = Some(estimate);
        }
        host.detached(body.byte_count(), || {
            body.read(|document| {
                let reading = self.reader.read(document, call, &tenant, &[])?;
                let estimate = quick.unwrap_or_else(|| {
                    let known = H::locked(|| self.memory.find(&reading, call.now_seconds));
                    let estimate = self.estimate_from(&reading, &known, call);
                    self.counters.count(estimate.source);
                    estimate
                });
                let is_full = estimate.tokens >= least_tokens;
                let fixed = is_full.then(|| parts::fixed_tokens(document, &reading));
                Ok((estimate, fixed))
            })
        })
    }

    /// The result of [`Engine::count`] and, if wanted, of [`Engine::estimate`] for `body` by what is known here,
    /// and its parts. Linear in the body and, for tools, in their number. Fails as they do.
    #[cfg(feature = "python")]
    pub fn count_parts<H: Host>(
        &self,
        body: &Body<'_>,
        call: &Call<'_>,
        wanted: WantedParts<'_>,
        host: &H,
    ) -> Result<(RequestCount, Option<Estimate>, CountedParts), Error> {
        let tenant = self.reader.tenant(call.tenant);
        host.detached(body.byte_count(), || {
            body.read(|document| {
                let reading = self.reader.read(document, call, &tenant, &[])?;
                let (count, estimate) = match wanted.estimate {
                    false => (count_whole(&reading), None),
                    true => {
                        let (count, estimate) = self.count_and_estimate_of::<H>(&reading, call);
                        (count, Some(estimate))
                    }
                };
                let parts =
                    parts::count_parts(&self.reader, document, &reading, &count, call, wanted)?;
                Ok((count, estimate, parts))
            })
        })
    }

    fn count_and_estimate_of<H: Host>(
        &self,
        reading: &Reading<'_>,
        call: &Call<'_>,
    ) -> (RequestCount, Estimate) {
        let known = H::locked(|| self.memory.find(reading, call.now_seconds));
        self.memory.store.count_lookup(known.prefix);
        let (estimate, count) = estimate_and_count(reading, &known);
        self.counters.count(estimate.source);
        (count, estimate)
    }

    /// The number of bytes of `body` beyond the longest recorded one that it may begin with: all, if there is
    /// none. It reads little of `body`, so it may be mistaken.
    pub fn new_byte_count<H: Host>(&self, body: &[u8], tenant: Option<&[u8]>) -> usize {
        let tenant = self.reader.tenant(tenant);
        let candidates = self.bodies.candidates::<H>(&tenant.digester, body);
        body.len() - candidates.first().map_or(0, BodyPrefix::len)
    }

    /// Number of known prefixes.
    pub fn len(&self) -> usize {
        self.memory.store.len()
    }

    /// True if no prefix is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all that is known and all that was learned.
    pub fn clear(&self) {
        self.bodies.clear();
        self.judge.clear();
        self.memory.clear();
    }

    /// Counts a call that was not recorded, or not in whole, under one of [`UNRECORDED`]; true if it is one.
    pub fn note(&self, reason: &str) -> bool {
        self.counters.note(reason)
    }

    /// The numbers of questions so far, and of all that is kept.
    pub fn statistics(&self) -> Statistics {
        let Memory {
            store,
            shapes,
            learners,
            ..
        } = &self.memory;
        let kept = (
            shapes.with(|it| it.len()),
            learners.with(|it| it.iter().count()),
        );
        self.counters.statistics(store.stats(), kept)
    }

    /// The known prefixes as bytes; see [`export::export`].
    pub fn export<H: Host>(&self, now_seconds: f64) -> Vec<u8> {
        let locked = |step: &mut dyn FnMut()| H::locked(step);
        export::export(
            &self.memory.store,
            &self.reader.digester,
            now_seconds,
            locked,
        )
    }

    /// Takes over what another engine of the same secret has exported; see [`export::import`].
    pub fn import<H: Host>(&self, bytes: &[u8], now_seconds: f64) -> Result<usize, ExportError> {
        let locked = |step: &mut dyn FnMut()| H::locked(step);
        export::import(
            &self.memory.store,
            &self.reader.digester,
            bytes,
            now_seconds,
            locked,
        )
    }

    /// The corrections of each model.
    pub fn learned(&self) -> Vec<(String, Learner)> {
        let row = |(model, learner): (&str, &Learner)| (model.to_owned(), learner.clone());
        self.memory
            .learners
            .with(|learners| learners.iter().map(row).collect())
    }

    /// Sets the corrections of a model.
    pub fn set_learned(&self, model: String, learner: Learner) {
        self.memory
            .learners
            .with(|learners| learners.set(model, learner));
    }

    /// The last change in how it counts of each provider that has shown one.
    pub fn drifts(&self) -> Vec<Drift> {
        self.memory.watch.drifts()
    }

    /// Takes over a total that another process has recorded for `tenant`. False unless `sealed` is
    /// the entry that was sealed for `digest` under the same secret.
    pub fn insert(
        &self,
        tenant: Option<&[u8]>,
        digest: Digest,
        sealed: &[u8],
        now_seconds: f64,
        unix_seconds: u64,
    ) -> bool {
        let tenant = self.reader.tenant(tenant);
        let total = self.sharing.open_total(digest, sealed, unix_seconds);
        total
            .map(|(total, age_seconds)| {
                let recorded_seconds = now_seconds - age_seconds;
                let store = &self.memory.store;
                store.insert(tenant.number, digest, total, recorded_seconds);
            })
            .is_some()
    }

    /// Takes over the corrections of another process for the model that is [`Wanted`] by `name`, if it has
    /// learned from more calls. False unless `sealed` was sealed for it under the same secret.
    pub fn insert_learned(&self, name: Digest, sealed: &[u8]) -> bool {
        let learner = self.sharing.open_learned(name, sealed);
        learner
            .map(|it| {
                self.memory
                    .learners
                    .with(|learners| learners.take(name, it))
            })
            .is_some()
    }

    /// Packs a cached prefix for other processes.
    pub fn seal_cached(&self, digest: Digest, cached: CachedPrefix) -> Vec<u8> {
        self.sharing.seal_cached(digest, cached)
    }

    /// The cached prefix that another process has packed for `digest`; `None` unless it was under the same secret.
    pub fn open_cached(&self, digest: Digest, sealed: &[u8]) -> Option<CachedPrefix> {
        self.sharing.open_cached(digest, sealed)
    }

    /// The estimate by what is `known`; the look-up of it counts in the statistics.
    fn estimate_from(&self, reading: &Reading<'_>, known: &Known, call: &Call<'_>) -> Estimate {
        self.memory.store.count_lookup(known.prefix);
        estimate_with_cache_points(reading, known, call)
    }

    /// The outcome of a call with its answer; `None` where nothing can be remembered. From here on its total is
    /// known.
    fn record_outcome<H: Host>(
        &self,
        (body, tenant): (&Body<'_>, &Tenant),
        (billed, reply): (Billed, &Reply<'_, '_>),
        call: &Call<'_>,
    ) -> Result<Option<RecordOutcome>, Error> {
        let (digester, now) = (&tenant.digester, call.now_seconds);
        // 2. The request. Of a body that begins as a recorded one, or that has recorded messages, only the
        // rest is read.
        let layout = body.bytes().map(|bytes| {
            let matched = self.bodies.match_prefix::<H>(digester, bytes);
            BodyLayout::new(digester, bytes, matched)
        });
        let layout = layout.as_ref();
        let points = call.wants_cache_points;
        let part = layout.and_then(|it| KnownBody::without_messages(digester, it, points));
        let bytes = body.bytes().filter(|_| !points && layout.is_some());
        let text = || self.bodies.without_text::<H>(digester, bytes?);
        let part = part.or_else(text);
        // 3. What was known of it before.
        let look = |reading: &Reading<'_>| {
            H::locked(|| {
                let known = self.memory.find(reading, now);
                let before = self.memory.shape_before(reading, known.prefix);
                (known, before)
            })
        };
        // 4. Whether it can be a bill of this prompt, and its lesson. From here on its total is known.
        let outcome = |reading: &Reading<'_>, known, part: Option<&KnownBody>| {
            let mut outcome = self.outcome(reading, known, (billed, reply), call);
            if is_doubtful(&outcome.expected, billed.input_tokens) {
                if part.is_some() {
                    return None; // it has to be read in whole
                }
                let count = estimate_from(reading, &Known::default());
                outcome.doubt = H::locked(|| {
                    self.judge
                        .doubt(reading, &count, billed.input_tokens, &self.memory.watch)
                });
            }
            let boundaries = &outcome.lesson.boundaries;
            match outcome.doubt {
                Some(doubt) if doubt.is_refusal() => {}
                _ => {
                    outcome.prefix = layout.and_then(|it| body_prefix(it, part, reading));
                    let bytes = bytes.filter(|_| part.is_none());
                    outcome.text =
                        bytes.and_then(|it| KnownText::new(&self.reader, it, call, reading));
                    H::locked(|| self.memory.keep(reading, boundaries, now));
                }
            }
            Some(outcome)
        };
        let partly = |part: &KnownBody, reading: &Reading<'_>| {
            let known = look(reading);
            let is_enough = part.is_enough(reading, &known.0);
            let found = is_enough.then(|| outcome(reading, known, Some(part)));
            found.flatten().map(Some)
        };
        let whole = |reading: &Reading<'_>| outcome(reading, look(reading), None);
        let source = (body, call, tenant);
        let digests = layout.map(BodyLayout::digests).unwrap_or_default();
        let parts = part.into_iter();
        known_body::read(&self.reader, source, parts, &digests, partly, whole)
    }

    /// The estimate before a bill, and the lesson of the bill.
    fn outcome(
        &self,
        reading: &Reading<'_>,
        (known, before): (Known, Option<Arc<Shape>>),
        (billed, reply): (Billed, &Reply<'_, '_>),
        call: &Call<'_>,
    ) -> RecordOutcome {
        let mut expected = self.estimate_from(reading, &known, call);
        let lesson = lesson_of(reading, known.prefix, before.as_deref(), billed, reply);
        if let (Some(points), [_, reply]) = (&mut expected.cache_points, &lesson.boundaries[..]) {
            points.reply = Some(reply_point(reading, points, reply.digest));
        }
        RecordOutcome {
            root: reading.root(),
            expected,
            lesson,
            prefix: None,
            text: None,
            doubt: None,
        }
    }
}

/// The outcome of a recorded call.
struct RecordOutcome {
    root: Digest,
    expected: Estimate,
    lesson: CallLesson,
    prefix: Option<BodyPrefix>,
    text: Option<KnownText>,
    /// The reason why the bill is not believed.
    doubt: Option<Doubt>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("method", &self.reader.method)
            .finish_non_exhaustive()
    }
}
