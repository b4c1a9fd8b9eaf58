//! The engine: what a request will cost, and what a billed call tells about the next one.
//!
//! [`Engine::estimate`] and [`Engine::record`] are the whole story, in order. A body becomes a document, a
//! request, and one digest for each prefix of its messages. The deepest prefix whose total was billed is
//! looked up; what stands behind it is counted; both together are the estimate. A record looks up what was
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
mod half_bill;
mod input;
mod known_body;
pub mod learn;
mod lesson;
mod lookup;
#[cfg(feature = "python")]
mod parts;
mod reading;
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
pub use lesson::Billed;
#[cfg(feature = "python")]
pub(crate) use parts::{CountedParts, WantedParts, apportioned};
pub use settings::{Method, Settings};
pub use shared::{SharedEntry, Wanted};
pub use statistics::{Statistics, UNRECORDED};
pub use tables::replace_tables;

use crate::Error;
use crate::count::{Counter, Vocabularies};
use crate::json::{Document, Limits};
use crate::known::digest::{Digest, Digester};
use crate::known::export::{self, ExportError};
use crate::known::fingerprint::Kind;
use crate::known::sealed::Sealer;
use crate::known::tenant::Tenant;
use crate::known::{Boundary, PrefixStore};
use crate::profile::table::Table;
use crate::request::{Message, read_reply};
use drift::Watch;
use known_body::beginning::{self as resume, Begun, BodyPrefix, BodyPrefixes};
use known_body::omitted::{StandIns, message_digests, message_ranges};
use known_body::tools::KnownTools;
use learn::{Learner, Learners};
use lesson::{CallLesson, Reply};
use lookup::Known;
use reading::Reading;
use shape::Shapes;
use shared::wanted_prefixes;
use statistics::Counters;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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
    digester: Digester,
    sealer: Sealer,
    method: Method,
    vocabularies: Vocabularies,
    is_learning: bool,
    table: Cow<'static, Table>,
    store: PrefixStore,
    learners: Mutex<Learners>,
    watch: Mutex<Watch>,
    /// Whether a provider has lately changed how it counts; the watch has which.
    is_unsettled: AtomicBool,
    body_prefixes: Mutex<BodyPrefixes>,
    shapes: Mutex<Shapes>,
    counters: Counters,
}

/// What an engine says of a request.
///
/// ```
/// # use tokenctx::{Alone, Answer, Body, Call, Engine, Settings};
/// # let engine = Engine::new(b"a secret of 16 bytes or more", Settings::default());
/// # let body = Body::Bytes(br#"{"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}"#);
/// match engine.estimate(&body, &Call::default(), 8, &Alone)? {
///     Answer::Estimate(estimate) => assert_eq!(estimate.tokens, 8),
///     Answer::Wanted(wanted) => println!("ask a store for {} prefixes", wanted.prefixes.len()),
/// }
/// # Ok::<(), tokenctx::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "nearly all are estimates")]
pub enum Answer {
    /// What it will cost.
    Estimate(Estimate),
    /// Others may know more than this process: what to ask them for.
    Wanted(Wanted),
}

/// A recorded call.
///
/// ```
/// # use tokenctx::{Alone, Billed, Body, Call, Engine, ReplyFault, Settings};
/// # let engine = Engine::new(b"a secret of 16 bytes or more", Settings::default());
/// # let body = Body::Bytes(br#"{"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}"#);
/// let billed = Billed { input_tokens: 9, output_tokens: 5, ..Billed::default() };
/// let reply = Body::Bytes(b"not JSON");
/// let record = engine.record(&body, billed, Some(&reply), &Call::default(), &Alone)?;
/// let record = record.expect("input was billed");
/// assert_eq!((record.expected.tokens, record.reply_fault), (8, Some(ReplyFault::Unreadable)));
/// # Ok::<(), tokenctx::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What the request would have been estimated at before.
    pub expected: Estimate,
    /// Why its reply is not known with it, if one was given.
    pub reply_fault: Option<ReplyFault>,
    /// What other processes may take over, if the call wants it.
    pub entries: Vec<SharedEntry>,
    /// The change of the provider that its bill has shown, if it was the one to do so.
    pub drift: Option<Drift>,
}

/// Why a call is recorded without its reply.
///
/// ```
/// assert_eq!(tokenctx::ReplyFault::WithoutOutput.name(), "reply_without_output");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyFault {
    /// No JSON, or beyond a limit.
    Unreadable,
    /// JSON in which there is no answer, or more than one.
    NotUnderstood,
    /// The usage has no output: what the reply adds is not known.
    WithoutOutput,
}

impl ReplyFault {
    /// `"reply_unreadable"`, `"reply_not_understood"`, `"reply_without_output"`.
    pub fn name(self) -> &'static str {
        match self {
            ReplyFault::Unreadable => "reply_unreadable",
            ReplyFault::NotUnderstood => "reply_not_understood",
            ReplyFault::WithoutOutput => "reply_without_output",
        }
    }

    fn of(reply: Option<&Result<Reply, Error>>, billed: Billed) -> Option<ReplyFault> {
        match reply? {
            Err(_) => Some(ReplyFault::Unreadable),
            Ok(reply) if !reply.is_understood => Some(ReplyFault::NotUnderstood),
            Ok(_) if billed.output_tokens == 0 => Some(ReplyFault::WithoutOutput),
            Ok(_) => None,
        }
    }
}

impl Engine {
    /// An engine that knows nothing; engines of equal `secret` make equal digests.
    pub fn new(secret: &[u8], settings: Settings) -> Engine {
        tables::read_tables();
        let (ttl, shapes_bytes) = (settings.ttl_seconds, settings.shapes_bytes);
        Engine {
            digester: Digester::new(secret),
            sealer: Sealer::new(secret),
            is_learning: settings.is_learning && matches!(settings.method, Method::Profile),
            method: settings.method,
            vocabularies: settings.vocabularies,
            table: settings.table,
            store: PrefixStore::new(settings.capacity_bytes, ttl),
            learners: Mutex::default(),
            watch: Mutex::default(),
            is_unsettled: AtomicBool::new(false),
            body_prefixes: Mutex::new(BodyPrefixes::new(settings.body_prefixes_bytes)),
            shapes: Mutex::new(Shapes::new(shapes_bytes, ttl)),
            counters: Counters::default(),
        }
    }

    /// The input tokens that `body` will be billed for; or, if another process may know more, what to ask
    /// for: at most `wanted` prefixes. Linear in the body; what is known of it is not counted.
    ///
    /// Fails for text that is no JSON or beyond a limit; no content of a JSON value fails.
    pub fn estimate<H: Host>(
        &self,
        body: &Body<'_>,
        call: &Call<'_>,
        wanted: usize,
        host: &H,
    ) -> Result<Answer, Error> {
        let tenant = self.tenant(call.tenant);
        // 1. A body that begins as a recorded one is read from where it goes on; of one with recorded
        // messages, only others are read.
        let resumed = self.resumed_estimate(body, call, &tenant, wanted, host);
        let resumed = resumed.or_else(|| self.standing_estimate(body, call, &tenant, wanted, host));
        let answer = match resumed {
            Some(estimate) => Answer::Estimate(estimate),
            None => host.detached(body.byte_count(), || {
                body.read(|document| {
                    // 2. The request, and the digests of its prefixes.
                    let reading = self.read(document, call, &tenant)?;
                    // 3. The deepest prefix whose total is known here, or what to ask others for.
                    let (known, learned) = H::locked(|| {
                        let known = self.known(&reading, call.now_seconds);
                        let is_asked = (wanted > 0).then_some(call.now_seconds);
                        (
                            known,
                            is_asked.and_then(|now| self.ask_learned(&reading, now)),
                        )
                    });
                    Ok(match self.wanted(&reading, &known, call, wanted, learned) {
                        Some(wanted) => Answer::Wanted(wanted),
                        // 4. The known total, and a count of what is beyond it.
                        None => Answer::Estimate(self.told(&reading, &known, call)),
                    })
                })
            })?,
        };
        if let Answer::Estimate(estimate) = &answer {
            self.counters.count(estimate.source);
        }
        Ok(answer)
    }

    /// Remembers that `body` was `billed`, and `reply` its answer: the next turn begins there.
    ///
    /// `None` if it tells nothing: no input was billed, or there is no message. Linear in both. Fails as
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
        let tenant = self.tenant(call.tenant);
        // 1. The answer as it will come back in the next request.
        let read_reply = |reply: &Body<'_>| {
            let read = || reply.read(|it| Ok(self.read_reply(&tenant, &read_reply(it)?)));
            host.detached(reply.byte_count(), read)
        };
        let reply = reply.map(read_reply);
        let reply_fault = ReplyFault::of(reply.as_ref(), billed);
        let reply: Reply = reply.and_then(Result::ok).unwrap_or_default();
        let Learned {
            root,
            expected,
            lesson,
            prefix,
        } = host.detached(body.byte_count(), || {
            let begun = self.begun::<H>(body, &tenant);
            let known = begun.as_ref().zip(body.bytes());
            let known = known.and_then(|(it, bytes)| it.ranges(&tenant.digester, bytes));
            let ranges = known.unwrap_or_else(|| message_ranges(body));
            let source = (body, begun.as_ref(), &ranges[..]);
            // 2. The request; of what is known of it, not all is read.
            let learned = self.standing_lesson::<H>(source, billed, &reply, call, &tenant);
            if let Some(learned) = learned {
                return Ok(learned);
            }
            body.read(|document| {
                let reading = self.read_begun(document, call, &tenant, source.1, &ranges)?;
                Ok(self.learned_of::<H>(&reading, source, None, (billed, &reply), call))
            })
        })?;
        let is_known = !lesson.boundaries.is_empty();
        let mut entries = match call.wants_entries {
            true => self.shared_entries(root, &lesson.boundaries, call.unix_seconds),
            false => Vec::new(),
        };
        // 5. What makes later requests quicker to read, and their counts nearer to the bills.
        let mut drift = None;
        H::locked(|| {
            if let (Some(bytes), Some(prefix), true) = (body.bytes(), prefix, is_known) {
                self.with_body_prefixes(|all| all.record(&tenant.digester, bytes, prefix));
            }
            let learned;
            (drift, learned) = self.learn_from(lesson, call);
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
        }))
    }

    /// What the call tells of a body of known messages; `None` if it must be read in whole.
    fn standing_lesson<H: Host>(
        &self,
        source: Placed<'_, '_>,
        billed: Billed,
        reply: &Reply,
        call: &Call<'_>,
        tenant: &Tenant,
    ) -> Option<Learned> {
        let (body, begun, ranges) = source;
        let bytes = body.bytes().filter(|_| !call.wants_cache_points)?;
        let stand_ins = StandIns::new(&tenant.digester, bytes, ranges, begun)?;
        let document = Document::from_bytes(&stand_ins.text, &Limits::default()).ok()?;
        let reading = self.read_stand_ins(&document, call, tenant, &stand_ins)?;
        let known = H::locked(|| self.peek_known(&reading, call.now_seconds));
        let is_known = known
            .prefix
            .is_some_and(|it| stand_ins.stands_for(&reading.request, it));
        (is_known && known.near.is_empty()).then(|| {
            self.learned_of::<H>(&reading, source, Some(&stand_ins), (billed, reply), call)
        })
    }

    /// What a call tells beyond what was known before: prefixes, shape, lesson. From here on its total is known.
    fn learned_of<H: Host>(
        &self,
        reading: &Reading<'_>,
        source: Placed<'_, '_>,
        stand_ins: Option<&StandIns>,
        (billed, reply): (Billed, &Reply),
        call: &Call<'_>,
    ) -> Learned {
        let now = call.now_seconds;
        // 3. What it would have been estimated at.
        let look = || {
            (
                self.peek_known(reading, now),
                self.known_before(reading, now),
            )
        };
        let (known, known_before) = H::locked(look);
        let mut expected = self.told(reading, &known, call);
        // 4. What the call tells beyond what was known before.
        let known = known_before;
        let lesson = self.lesson_of(reading, &known, billed, reply);
        if let (Some(points), [_, reply]) = (&mut expected.cache_points, &lesson.boundaries[..]) {
            points.reply = Some(self.reply_point(reading, points, reply.digest));
        }
        let prefix = self.body_prefix(source, stand_ins, reading);
        H::locked(|| self.keep(reading, &lesson.boundaries, now));
        Learned {
            root: reading.root(),
            expected,
            lesson,
            prefix,
        }
    }

    /// The whole of `body` counted here, message by message, whatever is known of it. Fails as
    /// [`Engine::estimate`].
    pub fn count<H: Host>(
        &self,
        body: &Body<'_>,
        call: &Call<'_>,
        host: &H,
    ) -> Result<RequestCount, Error> {
        let tenant = self.tenant(call.tenant);
        host.detached(body.byte_count(), || {
            body.read(|document| Ok(self.count_read(&self.read(document, call, &tenant)?)))
        })
    }

    /// What [`Engine::count`] and [`Engine::estimate`] say of `body`, by what is known here. Fails as they do.
    pub fn count_and_estimate<H: Host>(
        &self,
        body: &Body<'_>,
        call: &Call<'_>,
        host: &H,
    ) -> Result<(RequestCount, Estimate), Error> {
        let tenant = self.tenant(call.tenant);
        let (count, estimate) = host.detached(body.byte_count(), || {
            body.read(|document| {
                let reading = self.read(document, call, &tenant)?;
                let known = H::locked(|| self.known(&reading, call.now_seconds));
                let (estimate, count) = self.answer_and_count(&reading, &known);
                Ok((count, estimate))
            })
        })?;
        self.counters.count(estimate.source);
        Ok((count, estimate))
    }

    /// The estimate for a body that begins as a recorded one; `None` if it must be read in whole.
    fn resumed_estimate<H: Host>(
        &self,
        body: &Body<'_>,
        call: &Call<'_>,
        tenant: &Tenant,
        wanted: usize,
        host: &H,
    ) -> Option<Estimate> {
        let limits = Limits::default();
        let bytes = body.bytes().filter(|it| it.len() <= limits.max_bytes)?;
        let prefixes = self.candidates::<H>(bytes, tenant);
        if prefixes.is_empty() {
            return None;
        }
        // `None` if it cannot be read so, `Some(None)` if what is read must be read in whole.
        let told = |prefix: &BodyPrefix, tools: Option<&resume::Placed<'_>>| {
            let shortened_body = prefix.shortened(bytes, tools);
            let document = Document::from_bytes(&shortened_body, &limits).ok()?;
            let tools = tools.map(|(tools, _)| &***tools);
            let reading = self.read_shortened(&document, call, tenant, prefix, tools)?;
            let known = H::locked(|| self.known(&reading, call.now_seconds));
            let is_known = known.prefix.is_some() && known.near.is_empty();
            let is_told = is_known && wanted_prefixes(&reading, &known, wanted).is_empty();
            Some(is_told.then(|| self.told(&reading, &known, call)))
        };
        let estimate = |prefix: &BodyPrefix| {
            if !prefix.is_beginning(&tenant.digester, bytes) {
                return None;
            }
            let tools = prefix.tools_in(&tenant.digester, bytes);
            let tools = tools.filter(|_| !call.wants_cache_points);
            let short = tools.and_then(|tools| told(prefix, Some(&tools)));
            short.or_else(|| told(prefix, None)).flatten()
        };
        let found = host.detached(bytes.len(), || prefixes.iter().find_map(estimate))?;
        self.counters.count_resumed();
        Some(found)
    }

    /// The estimate for a body of known messages; `None` if it must be read in whole.
    fn standing_estimate<H: Host>(
        &self,
        body: &Body<'_>,
        call: &Call<'_>,
        tenant: &Tenant,
        wanted: usize,
        host: &H,
    ) -> Option<Estimate> {
        let bytes = body.bytes().filter(|_| !call.wants_cache_points)?;
        let found = host.detached(bytes.len(), || {
            if !StandIns::are_likely(&tenant.digester, bytes) {
                return None;
            }
            let ranges = message_ranges(body);
            let stand_ins = StandIns::new(&tenant.digester, bytes, &ranges, None)?;
            let document = Document::from_bytes(&stand_ins.text, &Limits::default()).ok()?;
            let reading = self.read_stand_ins(&document, call, tenant, &stand_ins)?;
            let now = call.now_seconds;
            let known = H::locked(|| self.peek_known(&reading, now));
            let is_asked = !wanted_prefixes(&reading, &known, wanted).is_empty();
            let is_known = known
                .prefix
                .is_some_and(|it| stand_ins.stands_for(&reading.request, it));
            if is_asked || !is_known || !known.near.is_empty() {
                return None;
            }
            let known = H::locked(|| self.known(&reading, now));
            Some(self.told(&reading, &known, call))
        })?;
        self.counters.count_resumed();
        Some(found)
    }

    /// How many bytes of `body` go beyond the longest recorded one that it may begin with: all, if there is
    /// none. It reads little of `body`, so it may be mistaken.
    pub fn new_byte_count<H: Host>(&self, body: &[u8], tenant: Option<&[u8]>) -> usize {
        let candidates = self.candidates::<H>(body, &self.tenant(tenant));
        body.len() - candidates.first().map_or(0, BodyPrefix::len)
    }

    /// The recorded beginnings that `body` may have, the longest first.
    fn candidates<H: Host>(&self, body: &[u8], tenant: &Tenant) -> Vec<BodyPrefix> {
        let find = |ends: Range<usize>| {
            let keys = resume::keys(&tenant.digester, body, ends);
            H::locked(|| self.with_body_prefixes(|all| all.candidates(&keys, body)))
        };
        let mut found = resume::likely_ends(body).map(find);
        found.find(|it| !it.is_empty()).unwrap_or_default()
    }

    /// The recorded beginning that `body` has.
    fn begun<'k, H: Host>(&self, body: &Body<'_>, tenant: &'k Tenant) -> Option<Begun<'k>> {
        let bytes = body.bytes()?;
        let mut all = self.candidates::<H>(bytes, tenant).into_iter();
        all.find_map(|prefix| prefix.begins(&tenant.digester, bytes))
    }

    /// The estimate, and what a forecast of the provider's cache goes by if `call` wants it.
    fn told(&self, reading: &Reading<'_>, known: &Known, call: &Call<'_>) -> Estimate {
        let mut estimate = self.answer(reading, known);
        if call.wants_cache_points {
            estimate.cache_points = Some(Box::new(self.cache_points(reading, call, known)));
        }
        estimate
    }

    /// The beginning of a body that was read as `reading`; `None` if it is not clear. Linear.
    fn body_prefix(
        &self,
        source: Placed<'_, '_>,
        stand_ins: Option<&StandIns>,
        reading: &Reading<'_>,
    ) -> Option<BodyPrefix> {
        let (body, begun, ranges) = source;
        let (request, bytes) = (&reading.request, body.bytes()?);
        let has_later_tools = !request.deferred_tools.is_empty() || !request.added_tools.is_empty();
        let is_clear = ranges.len() == request.messages.len() && reading.edited.is_none();
        let is_plain = request.assumptions.is_empty() && request.edits.is_empty();
        if !is_clear || !is_plain || has_later_tools {
            return None;
        }
        let end = ranges.last()?.end;
        let fingerprint = begun.and_then(|it| it.fingerprint(bytes, end));
        let whole = || {
            let digester = &reading.tenant.digester;
            digester.fingerprint(Kind::Body, &bytes[..end])
        };
        let fingerprint = fingerprint.unwrap_or_else(whole);
        let read = (request, &reading.digests[..]);
        let digester = &reading.tenant.digester;
        let digests = message_digests(digester, bytes, ranges, read, stand_ins);
        let tools = self.known_tools(source, reading);
        let new = |counter: &mut Counter<'_>| {
            BodyPrefix::new(
                fingerprint,
                ranges,
                request,
                (&reading.prefixes, &digests),
                tools.clone(),
                |message: &Message<'_>| counter.reasoning(message),
            )
        };
        Some(self.counted(reading, new).0?.after(begun))
    }

    /// The tools of a body that was read as `reading`: those that it has begun with, if they are the same.
    fn known_tools(
        &self,
        (body, begun, ranges): Placed<'_, '_>,
        reading: &Reading<'_>,
    ) -> Option<Arc<KnownTools>> {
        let (request, bytes) = (&reading.request, body.bytes()?);
        let digester = &reading.tenant.digester;
        let context = reading.prefixes[0];
        let old = begun.and_then(|it| it.prefix.tools_in(digester, bytes));
        match old.filter(|(tools, _)| tools.context == context) {
            Some((tools, _)) => Some(Arc::clone(tools)),
            None if reading.options != 0 => None,
            None => {
                let family = self.family(request, &reading.profile, reading.is_known_model);
                let context = (&*family, context, reading.any_family());
                KnownTools::new(digester, bytes, ranges, request, context).map(Arc::new)
            }
        }
    }

    /// Makes the totals at `boundaries` of what was read known.
    fn keep(&self, reading: &Reading<'_>, boundaries: &[Boundary], now_seconds: f64) {
        let (tenant, prefixes) = (reading.tenant.number, &reading.prefixes);
        self.store.record(tenant, prefixes, boundaries, now_seconds);
    }

    /// The tenant of this name; all who name none are one.
    fn tenant(&self, name: Option<&[u8]>) -> Tenant {
        Tenant::new(&self.digester, name)
    }

    /// Number of known prefixes.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Whether no prefix is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all that is known and all that was learned.
    pub fn clear(&self) {
        self.with_body_prefixes(BodyPrefixes::clear);
        self.with_shapes(Shapes::clear);
        self.store.clear();
        self.with_learners(Learners::clear);
        self.with_watch(Watch::clear);
        self.is_unsettled.store(false, Ordering::Relaxed);
    }

    /// Counts what was not recorded, or without what, under one of [`UNRECORDED`]; whether it is one.
    pub fn note(&self, reason: &str) -> bool {
        self.counters.note(reason)
    }

    /// What was asked so far, and what is kept.
    pub fn statistics(&self) -> Statistics {
        let kept = (
            self.with_shapes(|it| it.len()),
            self.with_learners(|it| it.iter().count()),
        );
        self.counters.statistics(self.store.stats(), kept)
    }

    /// What is known as bytes; see [`export::export`].
    pub fn export<H: Host>(&self, now_seconds: f64) -> Vec<u8> {
        let locked = |step: &mut dyn FnMut()| H::locked(step);
        export::export(&self.store, &self.digester, now_seconds, locked)
    }

    /// Takes over what another engine of the same secret has exported; see [`export::import`].
    pub fn import<H: Host>(&self, bytes: &[u8], now_seconds: f64) -> Result<usize, ExportError> {
        let locked = |step: &mut dyn FnMut()| H::locked(step);
        export::import(&self.store, &self.digester, bytes, now_seconds, locked)
    }

    /// What was learned, by model.
    pub fn learned(&self) -> Vec<(String, Learner)> {
        let row = |(model, learner): (&str, &Learner)| (model.to_owned(), learner.clone());
        self.with_learners(|learners| learners.iter().map(row).collect())
    }

    /// Sets what was learned about a model.
    pub fn set_learned(&self, model: String, learner: Learner) {
        self.with_learners(|learners| learners.set(model, learner));
    }

    /// Runs `action` on what was learned, alone.
    fn with_learners<T>(&self, action: impl FnOnce(&mut Learners) -> T) -> T {
        action(&mut self.learners.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs `action` on what is watched, alone.
    fn with_watch<T>(&self, action: impl FnOnce(&mut Watch) -> T) -> T {
        action(&mut self.watch.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs `action` on the beginnings of recorded bodies, alone.
    fn with_body_prefixes<T>(&self, action: impl FnOnce(&mut BodyPrefixes) -> T) -> T {
        action(
            &mut self
                .body_prefixes
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// Runs `action` on the shapes of recorded calls, alone.
    fn with_shapes<T>(&self, action: impl FnOnce(&mut Shapes) -> T) -> T {
        action(&mut self.shapes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A body, the recorded one that it begins with, and where its messages are.
type Placed<'b, 'k> = (&'b Body<'b>, Option<&'b Begun<'k>>, &'b [Range<usize>]);

/// What a recorded call tells.
struct Learned {
    root: Digest,
    expected: Estimate,
    lesson: CallLesson,
    prefix: Option<BodyPrefix>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}
