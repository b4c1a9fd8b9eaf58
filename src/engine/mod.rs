//! The engine: body -> request -> digests -> known prefix -> counts -> estimate.
//!
//! An [`Engine`] has no clock and no randomness: time and secret come from the caller. Its steps
//! are separate, so that a caller can do the long ones ([`Engine::read`], [`Engine::answer`])
//! without any lock and the short one ([`Engine::known`]) in between.
pub mod bounds;
mod difference;
pub mod estimate;
mod half_bill;
pub mod learn;
mod recorded;
pub mod resume;
mod rounds;
pub mod shape;
mod shared;

use crate::count::{Counter, Vocabularies, last_user_index};
use crate::engine::bounds::Stratum;
use crate::engine::estimate::{Count, Estimate, RequestCount, Source};
use crate::engine::learn::{Learner, Learners};
use crate::engine::resume::{Start, Starts};
use crate::engine::shape::{Shape, Shapes};
use crate::known::digest::{Digest, Digester};
use crate::known::export::{self, ExportError};
use crate::known::sealed::Sealer;
use crate::known::tenant::Tenant;
use crate::known::{Boundary, KnownOptions, KnownPrefix, KnownTotal, PrefixStore};
use crate::profile::Profile;
use crate::profile::model_name::ModelName;
use crate::profile::table::Table;
use crate::request::{Message, Part, Request};
pub use recorded::Recorded;
use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

/// Beginnings of the assumptions about what the request does not hold.
const UNTOLD: [&str; 3] = ["remote_", "unreadable_", "server_"];

/// Assumed if the user's vocabulary could not count.
const FAILED_VOCABULARY: &str = "failed_vocabulary";

/// Nothing is learned about a model whose name is longer.
const MAX_MODEL_BYTES: usize = 200;

/// How text is counted.
#[derive(Clone, Debug)]
pub enum Method {
    /// By the profile of the model.
    Profile,
    /// The token counting strategy: o200k_base for all, 4 per message.
    Universal,
    /// RFC 006: characters over characters per token, times a factor.
    Characters {
        /// Characters per 1,000 tokens.
        milli_characters_per_token: u64,
        /// The same for single providers.
        milli_by_provider: Vec<(String, u64)>,
        /// 1,100 to be conservative, 1,000 not to be.
        factor_permille: u64,
    },
}

/// A request, what it is counted with, and its prefix digests.
#[derive(Debug)]
pub struct Reading<'d> {
    /// What was read.
    pub request: Request<'d>,
    /// Whose it is.
    pub tenant: Tenant,
    /// What it is counted with.
    pub profile: Cow<'d, Profile>,
    pub(crate) is_known_model: bool,
    pub(crate) prefixes: Vec<Digest>,
    /// One for each message.
    digests: Vec<Digest>,
    /// Identity of what counts depend on.
    family: u64,
    options: u64,
    /// Reasoning in messages that were left out behind the first one.
    left_out_reasoning: u64,
}

/// Billed tokens of a call. `reasoning` is part of `output`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Billed {
    /// All input, cached too.
    pub input_tokens: u64,
    /// All output, reasoning too; 0 if unknown.
    pub output_tokens: u64,
    /// Reasoning in the output.
    pub reasoning_tokens: u64,
}

/// The identity of an answer as it comes back in the next request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    digests: Vec<Digest>,
    strata: Vec<Stratum>,
    has_reasoning: bool,
}

/// What is known of a request before it is counted.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Its deepest known prefix.
    pub prefix: Option<KnownPrefix>,
    /// What was learned about its model.
    pub learner: Option<Learner>,
    /// Known conversations that it may be a branch or an edit of.
    pub near: Vec<Arc<Shape>>,
}

/// How an [`Engine`] counts.
pub struct Settings {
    /// How text is counted.
    pub method: Method,
    /// Count text where there is one for the model. If one cannot count a text, the request is
    /// counted as if it were not there, and `failed_vocabulary` is assumed.
    pub vocabularies: Vocabularies,
    /// Whether recorded calls teach; only with [`Method::Profile`].
    pub is_learning: bool,
    /// The profiles; none: those of the package.
    pub table: Option<Table>,
    /// Memory for the beginnings of recorded bodies.
    pub starts_bytes: usize,
    /// Memory for the shapes of recorded calls, by which edits are known.
    pub shapes_bytes: usize,
    /// How long shapes are kept.
    pub ttl_seconds: f64,
}

impl Default for Settings {
    /// By the profile of the model, without learning.
    fn default() -> Settings {
        Settings {
            method: Method::Profile,
            vocabularies: Vocabularies::default(),
            is_learning: false,
            table: None,
            starts_bytes: 1 << 20,
            shapes_bytes: 1 << 20,
            ttl_seconds: 86_400.0,
        }
    }
}

/// Estimates and records.
pub struct Engine {
    digester: Digester,
    sealer: Sealer,
    method: Method,
    vocabularies: Vocabularies,
    is_learning: bool,
    table: Cow<'static, Table>,
    store: PrefixStore,
    learners: Mutex<Learners>,
    starts: Mutex<Starts>,
    shapes: Mutex<Shapes>,
}

impl Engine {
    /// An engine that knows nothing; engines of equal `secret` make equal digests.
    pub fn new(secret: &[u8], settings: Settings, store: PrefixStore) -> Engine {
        Engine {
            digester: Digester::new(secret),
            sealer: Sealer::new(secret),
            is_learning: settings.is_learning && matches!(settings.method, Method::Profile),
            method: settings.method,
            vocabularies: settings.vocabularies,
            table: settings
                .table
                .map_or(Cow::Borrowed(Table::bundled()), Cow::Owned),
            store,
            learners: Mutex::default(),
            starts: Mutex::new(Starts::new(settings.starts_bytes)),
            shapes: Mutex::new(Shapes::new(settings.shapes_bytes, settings.ttl_seconds)),
        }
    }

    /// Packs known totals for elsewhere.
    pub fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    /// What is known.
    pub fn store(&self) -> &PrefixStore {
        &self.store
    }

    /// What is known as bytes; see [`export::export`].
    pub fn export(&self, now_seconds: f64, locked: impl Fn(&mut dyn FnMut())) -> Vec<u8> {
        export::export(&self.store, &self.digester, now_seconds, locked)
    }

    /// Takes over what another engine of the same secret has exported; see [`export::import`].
    pub fn import(
        &self,
        bytes: &[u8],
        now_seconds: f64,
        locked: impl Fn(&mut dyn FnMut()),
    ) -> Result<usize, ExportError> {
        export::import(&self.store, &self.digester, bytes, now_seconds, locked)
    }

    /// The tenant of this name; all who name none are one.
    pub fn tenant(&self, name: Option<&[u8]>) -> Tenant {
        Tenant::new(&self.digester, name)
    }

    /// Runs `action` on what was learned, alone.
    pub fn with_learners<T>(&self, action: impl FnOnce(&mut Learners) -> T) -> T {
        action(&mut self.learners.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs `action` on the beginnings of recorded bodies, alone.
    fn with_starts<T>(&self, action: impl FnOnce(&mut Starts) -> T) -> T {
        action(&mut self.starts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs `action` on the shapes of recorded calls, alone.
    pub fn with_shapes<T>(&self, action: impl FnOnce(&mut Shapes) -> T) -> T {
        action(&mut self.shapes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Beginnings of recorded bodies of `tenant` that `body` may share, the longest first.
    pub fn starts(&self, tenant: &Tenant, body: &[u8]) -> Vec<Start> {
        self.with_starts(|starts| starts.candidates(&tenant.digester, body))
    }

    /// `body` without known messages, if it begins as `start` of `tenant` says. Linear in `body`.
    pub fn short(&self, tenant: &Tenant, start: &Start, body: &[u8]) -> Option<Vec<u8>> {
        start.short(&tenant.digester, body)
    }

    /// The beginning of `body` that was read as `reading`; `None` if it is not clear. Linear.
    pub fn start(&self, body: &[u8], reading: &Reading<'_>) -> Option<Start> {
        let request = &reading.request;
        let has_later_tools = !request.deferred_tools.is_empty() || !request.added_tools.is_empty();
        if !request.assumptions.is_empty() || has_later_tools {
            return None;
        }
        let (messages, prefixes) = (&request.messages, &reading.prefixes);
        let new = |counter: &mut Counter<'_>| {
            let reasoning = |message: &Message<'_>| counter.reasoning(message);
            Start::new(
                &reading.tenant.digester,
                body,
                request.dialect,
                messages,
                prefixes,
                reasoning,
            )
        };
        self.counted(reading, new).0
    }

    /// Remembers the beginning of `body`, recorded by `tenant`.
    pub fn record_start(&self, tenant: &Tenant, body: &[u8], start: Start) {
        self.with_starts(|starts| starts.record(&tenant.digester, body, start));
    }

    /// Forgets all that is known and all that was learned.
    pub fn clear(&self) {
        self.with_starts(Starts::clear);
        self.with_shapes(Shapes::clear);
        self.store.clear();
        self.with_learners(Learners::clear);
    }

    /// The profile and prefix digests of `request` of `tenant`, asked of `provider` if that is known.
    /// Linear in the request.
    pub fn read<'d>(
        &'d self,
        request: Request<'d>,
        provider: Option<&str>,
        tenant: Tenant,
    ) -> Reading<'d> {
        let resolved = self
            .table
            .resolve(&request.model, request.dialect, provider);
        let is_known_model = resolved.is_known_model;
        let profile = self.profile(resolved.profile);
        let family = self.family(&request, &profile, is_known_model);
        let digester = &tenant.digester;
        let digests: Vec<_> = digester.messages(&request.messages).collect();
        let context = digester.context(&family, &request);
        let prefixes = digester.chain(context, digests.iter().copied());
        let options = digester.options(&request, profile.hides_tools(&request));
        let family = digester.bytes(family.as_bytes()).word();
        Reading {
            request,
            tenant,
            profile,
            is_known_model,
            prefixes,
            digests,
            family,
            options,
            left_out_reasoning: 0,
        }
    }

    /// As [`Engine::read`], for the request in what [`Engine::short`] gave; `None` if what stands
    /// around the messages is not the same.
    ///
    /// The digest of one message stands for all that were left out behind the first one.
    pub fn read_short<'d>(
        &'d self,
        request: Request<'d>,
        provider: Option<&str>,
        tenant: Tenant,
        start: &Start,
    ) -> Option<Reading<'d>> {
        let dialect = request.dialect;
        let mut reading = self.read(request, provider, tenant);
        let is_same = dialect == start.dialect && reading.prefixes[0] == start.context;
        let new = reading.digests.get(1..).filter(|_| is_same)?;
        let digester = &reading.tenant.digester;
        let rest = digester.chain(start.prefix, new.iter().copied());
        reading.left_out_reasoning = start.reasoning_tokens;
        reading.prefixes.truncate(1);
        reading.prefixes.extend(rest);
        Some(reading)
    }

    /// What is known of what was read.
    pub fn known(&self, reading: &Reading<'_>, now_seconds: f64) -> Known {
        let prefix = self.store.deepest(&reading.prefixes, now_seconds);
        self.known_from(reading, prefix, now_seconds)
    }

    /// As [`Engine::known`], in no statistics.
    pub fn known_uncounted(&self, reading: &Reading<'_>, now_seconds: f64) -> Known {
        let prefix = self.store.find(&reading.prefixes, now_seconds);
        self.known_from(reading, prefix, now_seconds)
    }

    fn known_from(
        &self,
        reading: &Reading<'_>,
        prefix: Option<KnownPrefix>,
        now_seconds: f64,
    ) -> Known {
        let model = self.model(reading);
        let start = prefix.map_or(0, |prefix| prefix.message_count);
        Known {
            prefix,
            learner: model.and_then(|model| self.with_learners(|learners| learners.get(&model))),
            near: self.near(reading, start, now_seconds),
        }
    }

    /// What is known of what was read before it is recorded: its prefix, and its shape so far.
    pub fn known_before(&self, reading: &Reading<'_>, now_seconds: f64) -> Known {
        let prefix = self.store.deepest(&reading.prefixes, now_seconds);
        let digests = prefix.map(|prefix| &reading.digests[..prefix.message_count]);
        let (family, context) = (reading.family, reading.prefixes[0]);
        let shape = digests.and_then(|digests| {
            self.with_shapes(|shapes| shapes.beginning(family, context, digests))
        });
        Known {
            prefix,
            learner: None,
            near: shape.into_iter().collect(),
        }
    }

    /// Remembers the shape of a recorded call.
    pub fn record_shape(&self, shape: Shape, now_seconds: f64) {
        self.with_shapes(|shapes| shapes.record(shape, now_seconds));
    }

    /// The estimate for what was read, `known` of it known already. Linear in what is not known.
    pub fn answer(&self, reading: &Reading<'_>, known: &Known) -> Estimate {
        let difference = self.difference(reading, known);
        let (count, counter) =
            difference.unwrap_or_else(|| self.count_beyond(reading, known.prefix));
        let is_learned = !counter.assumptions().contains(FAILED_VOCABULARY);
        let counted = match &known.learner {
            Some(learner) if is_learned => learner.corrected(&count.features, count.tokens),
            _ => count.tokens,
        };
        let is_known = count.new_message_count == 0 && !count.has_other_options;
        let is_exact = is_known && count.known.is_billed();
        let source = match (known.prefix, count.edit) {
            (_, Some(_)) => Source::Delta,
            (None, None) => Source::Estimated,
            (Some(_), None) if is_exact => Source::Exact,
            (Some(_), None) => Source::Delta,
        };
        let mut estimate = estimate::estimate(reading, &counter, source, &count, counted);
        if counted != count.tokens || count.edit.is_some_and(|edit| edit.is_learned) {
            estimate.assumptions.insert("learned_correction");
        }
        if count.edit.is_some_and(|edit| edit.has_other_history) {
            estimate.assumptions.insert("edited_history");
        }
        if count.edit.is_some_and(|edit| edit.has_other_context) {
            estimate.assumptions.insert("changed_context");
        }
        if count.has_other_options {
            estimate.assumptions.insert("changed_options");
        }
        estimate
    }

    /// What is beyond `prefix`, counted: all, if there is none. Linear in what it counts.
    fn count_beyond<'r>(
        &'r self,
        reading: &'r Reading<'_>,
        prefix: Option<KnownPrefix>,
    ) -> (Count, Counter<'r>) {
        let request = &reading.request;
        let start = prefix.map_or(0, |prefix| prefix.message_count);
        let without_rounds = prefix.and_then(|_| rounds::without_rounds(&request.messages, start));
        let ((context_tokens, messages, tally, dropped, new_tokens), counter) =
            self.counted(reading, |counter| {
                let context = match prefix {
                    None => counter.context(request),
                    Some(_) => 0,
                };
                let messages: Vec<u64> = counter.messages(&request.messages, start).collect();
                let tally = counter.tally();
                let dropped = dropped_reasoning(reading, counter, start);
                let new_tokens = match &without_rounds {
                    Some((all, start)) => counter.messages(all, *start).sum::<u64>(),
                    None => messages.iter().sum(),
                };
                (context, messages, tally, dropped, new_tokens)
            });
        let tokens = context_tokens + new_tokens;
        let mut known = prefix.map_or(KnownTotal::default(), |prefix| prefix.total);
        if let Some(prefix) = prefix.filter(|prefix| prefix.message_count < request.messages.len())
        {
            let unbilled = self.unbilled_tokens(reading, prefix);
            known.tokens = known.tokens.saturating_add(unbilled);
            known.derived_tokens = known.derived_tokens.saturating_add(unbilled);
        }
        known.tokens = known.tokens.saturating_sub(dropped);
        let mut has_other_options = false;
        if prefix.is_some() {
            (known, has_other_options) = self.with_options(reading, known);
        }
        let count = Count {
            known,
            tokens,
            context_tokens,
            messages,
            new_message_count: request.messages.len() - start,
            features: estimate::features(request, prefix.is_none(), start, tokens, tally),
            has_other_options,
            edit: None,
        };
        (count, counter)
    }

    /// `known` under the options of what was read, and whether they are others.
    fn with_options(&self, reading: &Reading<'_>, mut known: KnownTotal) -> (KnownTotal, bool) {
        let has_other_options = known.options.digest != reading.options;
        if has_other_options {
            let more = self.options_tokens(reading) - known.options.tokens;
            known.tokens = known.tokens.saturating_add_signed(more);
            known.derived_tokens = known
                .derived_tokens
                .saturating_add(more.unsigned_abs().max(1));
        }
        (known, has_other_options)
    }

    /// What tool choice, output schema and thinking add to the count of the context.
    fn options_tokens(&self, reading: &Reading<'_>) -> i64 {
        if reading.options == 0 {
            return 0;
        }
        let without = reading.request.context_without_options();
        let count = |request| self.counted(reading, |counter| counter.context(request)).0;
        let (with, without) = (count(&reading.request), count(&without));
        i64::try_from(with).unwrap_or(i64::MAX) - i64::try_from(without).unwrap_or(i64::MAX)
    }

    /// What was read, counted here without what is known.
    pub fn count(&self, reading: &Reading<'_>) -> RequestCount {
        let ((context_tokens, message_tokens), counter) = self.counted(reading, |counter| {
            let context = counter.context(&reading.request);
            let messages: Vec<u64> = counter.messages(&reading.request.messages, 0).collect();
            (context, messages)
        });
        let assumptions = estimate::assumptions(reading, &counter);
        RequestCount {
            tokens: context_tokens + message_tokens.iter().sum::<u64>(),
            context_tokens,
            message_tokens,
            encoding: counter.encoding().to_owned(),
            quality: estimate::quality(reading, &counter, &assumptions).to_owned(),
            assumptions,
        }
    }

    /// What `work` counts, and the counter that it used: with the user's vocabulary for the model
    /// if there is one that does not fail.
    fn counted<'r, T>(
        &'r self,
        reading: &'r Reading<'_>,
        work: impl Fn(&mut Counter<'r>) -> T,
    ) -> (T, Counter<'r>) {
        let (profile, request) = (&*reading.profile, &reading.request);
        let own = self.vocabularies.of(&request.model, profile);
        let mut counter = Counter::new(profile, request, own);
        let counted = work(&mut counter);
        if !counter.has_failed() {
            return (counted, counter);
        }
        let mut counter = Counter::new(profile, request, None);
        counter.assume(FAILED_VOCABULARY);
        (work(&mut counter), counter)
    }

    /// The identity of an answer by `tenant`. Linear in its size.
    pub fn read_reply(&self, tenant: &Tenant, messages: &[Message<'_>]) -> Reply {
        let is_reasoning = |part: &Part<'_>| match part {
            Part::ToolCall(call) => call.signature_bytes > 0,
            part => matches!(part, Part::Reasoning { .. }),
        };
        Reply {
            digests: tenant.digester.messages(messages).collect(),
            strata: messages.iter().map(Stratum::of_message).collect(),
            has_reasoning: messages
                .iter()
                .flat_map(|message| &message.parts)
                .any(is_reasoning),
        }
    }

    /// The boundaries that a billed call makes known: the request, and the request with its reply.
    ///
    /// None for an input of 0 tokens (a failed call) and for a request without messages.
    pub fn boundaries(
        &self,
        reading: &Reading<'_>,
        billed: Billed,
        reply: &Reply,
    ) -> Vec<Boundary> {
        let Some(&last) = reading.prefixes.get(1..).and_then(<[Digest]>::last) else {
            return Vec::new();
        };
        if billed.input_tokens == 0 {
            return Vec::new();
        }
        let options = KnownOptions {
            digest: reading.options,
            tokens: self.options_tokens(reading),
        };
        let request = Boundary {
            message_count: reading.prefixes.len() - 1,
            digest: last,
            total: KnownTotal {
                tokens: billed.input_tokens,
                derived_tokens: 0,
                options,
            },
        };
        if reply.digests.is_empty() || billed.output_tokens == 0 {
            return vec![request];
        }
        let link = |prefix, &digest| reading.tenant.digester.link(prefix, digest);
        let derived_tokens = reply_tokens(&reading.profile, billed, reply);
        let with_reply = Boundary {
            message_count: request.message_count + reply.digests.len(),
            digest: reply.digests.iter().fold(last, link),
            total: KnownTotal {
                tokens: billed.input_tokens.saturating_add(derived_tokens),
                derived_tokens,
                options,
            },
        };
        vec![request, with_reply]
    }

    /// Remembers what [`Engine::boundaries`] gave for what was read in whole.
    pub fn record(&self, reading: &Reading<'_>, boundaries: &[Boundary], now_seconds: f64) {
        let number = reading.tenant.number;
        self.store
            .record(number, &reading.prefixes, boundaries, now_seconds);
    }

    /// What shares its constants; `None` if nothing is learned.
    fn model(&self, reading: &Reading<'_>) -> Option<String> {
        let name = ModelName::read(&reading.request.model, Table::bundled()).own;
        let is_name = name.len() <= MAX_MODEL_BYTES;
        let own = self
            .vocabularies
            .of(&reading.request.model, &reading.profile);
        let own = own.map(|own| format!("/{}", own.name()));
        let own = own.unwrap_or_default();
        let suffix = &reading.tenant.suffix;
        let profile = &reading.profile.name;
        (self.is_learning && is_name).then(|| format!("{profile}/{name}{own}{suffix}"))
    }

    fn profile<'d>(&self, profile: &'d Profile) -> Cow<'d, Profile> {
        match &self.method {
            Method::Profile => Cow::Borrowed(profile),
            Method::Universal => Cow::Owned(profile.universal()),
            Method::Characters {
                milli_characters_per_token,
                milli_by_provider,
                factor_permille,
            } => {
                let mut overrides = milli_by_provider.iter();
                let found = overrides.find(|(provider, _)| *provider == profile.provider);
                let milli = found.map_or(*milli_characters_per_token, |(_, milli)| *milli);
                Cow::Owned(profile.characters(milli, *factor_permille))
            }
        }
    }

    /// What shares known totals: all models of a profile, or one model of unknown profile.
    fn family(&self, request: &Request<'_>, profile: &Profile, is_known_model: bool) -> String {
        let mut family = profile.name.clone();
        if !matches!((&self.method, is_known_model), (Method::Profile, true)) {
            family.push('/');
            family.push_str(&ModelName::read(&request.model, Table::bundled()).own);
        }
        if request.is_raw {
            family.push_str(" raw");
        }
        family
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}

/// Reasoning that the known total holds and that a new turn of the user drops.
fn dropped_reasoning(reading: &Reading<'_>, counter: &mut Counter<'_>, known: usize) -> u64 {
    let all = &reading.request.messages;
    let (then, now) = (last_user_index(&all[..known]), last_user_index(all));
    if !reading.profile.drops_reasoning() || now <= then {
        return 0;
    }
    let start = then.map_or(0, |turn| turn + 1);
    let left_out = match start {
        0 | 1 => reading.left_out_reasoning,
        _ => 0,
    };
    let kept = all[start..known].iter();
    left_out + kept.map(|message| counter.reasoning(message)).sum::<u64>()
}

fn signed(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}

/// What an answer costs as input: the output, less the reasoning that does not come back.
fn reply_tokens(profile: &Profile, billed: Billed, reply: &Reply) -> u64 {
    let hidden = match reply.has_reasoning {
        true => 0,
        false => billed.reasoning_tokens,
    };
    let output_tokens = billed.output_tokens.saturating_sub(hidden);
    output_tokens.saturating_add(profile.reply_tokens).max(1)
}
