//! What an engine reads of a request before anything is counted: what it is counted with, and who it is.
use super::{Call, Engine};
use crate::Error;
use crate::engine::edited::Edited;
use crate::engine::known_body::beginning::{Begun, BodyPrefix};
use crate::engine::known_body::note::stand_in;
use crate::engine::known_body::omitted::StandIns;
use crate::engine::known_body::tools::KnownTools;
use crate::engine::settings::Method;
use crate::json::Document;
use crate::known::digest::Digest;
use crate::known::tenant::Tenant;
use crate::profile::table::Table;
use crate::profile::{ModelLimits, Profile};
use crate::request::{
    CacheOptions, Clues, MIN_HASHED_BYTES, Request, read_cache_options, read_hashed,
};
use std::borrow::Cow;
use std::ops::Range;

/// Nothing is learned about a model whose name is longer.
const MAX_MODEL_BYTES: usize = 200;

/// A request, what it is counted with, and its prefix digests.
#[derive(Debug)]
pub(super) struct Reading<'d> {
    /// What was read.
    pub(super) request: Request<'d>,
    /// The tenant that sends it.
    pub(super) tenant: Tenant,
    /// What it is counted with.
    pub(super) profile: Cow<'d, Profile>,
    pub(super) is_known_model: bool,
    /// Who answers; empty if that is not known.
    pub(super) host: String,
    /// Whether the caller names a provider of whom nothing is known.
    pub(super) has_ignored_provider: bool,
    pub(super) limits: ModelLimits,
    /// What the provider does to the request, if it is asked to.
    pub(super) edited: Option<Edited>,
    pub(super) prefixes: Vec<Digest>,
    /// One for each message.
    pub(super) digests: Vec<Digest>,
    /// Identity of what counts depend on.
    pub(super) family: u64,
    pub(super) options: u64,
    /// What it says about caching, if the call wants to know.
    pub(super) cache: Option<CacheOptions>,
    /// Reasoning in messages that were left out behind the first one.
    pub(super) left_out_reasoning: u64,
    /// Identity of what stands before the messages whatever the family, if tools of it were left out.
    known_context: Option<u64>,
}

impl Engine {
    /// The request in `document`, its profile and its prefix digests. Linear in the request; fails
    /// only by a limit.
    pub(super) fn read<'d>(
        &'d self,
        document: &'d Document<'_>,
        call: &Call<'d>,
        tenant: &Tenant,
    ) -> Result<Reading<'d>, Error> {
        let request = request_in(document, call, tenant)?;
        Ok(self.read_known(document, request, call, tenant, (0, |_| None), None))
    }

    /// As [`Engine::read`], of a body with messages at `ranges` that has `begun` as a recorded one: the
    /// digests of those messages are known.
    pub(super) fn read_begun<'d>(
        &'d self,
        document: &'d Document<'_>,
        call: &Call<'d>,
        tenant: &Tenant,
        begun: Option<&Begun<'_>>,
        ranges: &[Range<usize>],
    ) -> Result<Reading<'d>, Error> {
        let known = begun.map_or(&[][..], |it| it.digests(ranges));
        let digest = |index: usize| Some(known.get(index)?.digest);
        let request = request_in(document, call, tenant)?;
        let known = (ranges.len(), digest);
        Ok(self.read_known(document, request, call, tenant, known, None))
    }

    /// As [`Engine::read`], of a body in which messages stand in for those that are known.
    pub(super) fn read_stand_ins<'d>(
        &'d self,
        document: &'d Document<'_>,
        call: &Call<'d>,
        tenant: &Tenant,
        stand_ins: &StandIns,
    ) -> Option<Reading<'d>> {
        let mut request = request_in(document, call, tenant).ok()?;
        request.messages = stand_ins.between(request.messages, stand_in);
        let clues = &mut request.evidence.messages;
        *clues = stand_ins.between(std::mem::take(clues), |_| Clues::default());
        let known = (stand_ins.len(), |index| stand_ins.digest(index));
        let tools = stand_ins.tools();
        let reading = self.read_known(document, request, call, tenant, known, tools);
        let is_all = reading.request.messages.len() == stand_ins.len();
        let is_known = tools.is_none() || reading.known_context.is_some();
        (is_all && is_known && reading.edited.is_none()).then_some(reading)
    }

    /// As [`Engine::read`], of the `request` in `document`, if `digest` knows those of some of so many messages,
    /// by their places. If `tools` were left out and it is known who it is with them, it has that identity.
    fn read_known<'d>(
        &'d self,
        document: &'d Document<'_>,
        mut request: Request<'d>,
        call: &Call<'d>,
        tenant: &Tenant,
        (message_count, digest): (usize, impl Fn(usize) -> Option<Digest>),
        tools: Option<&KnownTools>,
    ) -> Reading<'d> {
        let tenant = tenant.clone();
        let resolved = self
            .table
            .resolve(&request.model, request.dialect, call.provider);
        let is_known_model = resolved.is_known_model;
        let profile = self.profile(resolved.profile);
        let edited = self.edited(
            &mut request,
            (&profile, is_known_model, &resolved.limits),
            tenant.memo_key,
        );
        let family = self.family(&request, &profile, is_known_model);
        let digester = &tenant.digester;
        let options = digester.options(&request, profile.hides_tools(&request));
        let context = digester.context(&family, &request);
        let tools = tools.filter(|it| it.is_all_but(context, &request, options));
        let context = tools.map_or(context, |it| it.context);
        let is_plain = request.assumptions.is_empty() && edited.is_none();
        let digests = match is_plain && request.messages.len() == message_count {
            true => digester.messages_but(&request.messages, digest),
            false => digester.messages(&request.messages).collect(),
        };
        let prefixes = digester.chain(context, digests.iter().copied());
        let family = digester.bytes(family.as_bytes()).word();
        Reading {
            request,
            tenant,
            profile,
            is_known_model,
            host: resolved.host,
            has_ignored_provider: resolved.has_ignored_provider,
            limits: resolved.limits,
            edited,
            prefixes,
            digests,
            family,
            options,
            cache: call
                .wants_cache_points
                .then(|| read_cache_options(document)),
            left_out_reasoning: 0,
            known_context: tools.map(|it| it.any_family),
        }
    }

    /// As [`Engine::read`], of a body that was shortened by `prefix`, and by `tools`; `None` if what stands
    /// around the messages is not the same.
    ///
    /// The digest of one message stands for all that were left out behind the first one.
    pub(super) fn read_shortened<'d>(
        &'d self,
        document: &'d Document<'_>,
        call: &Call<'d>,
        tenant: &Tenant,
        prefix: &BodyPrefix,
        tools: Option<&KnownTools>,
    ) -> Option<Reading<'d>> {
        let request = request_in(document, call, tenant).ok()?;
        let mut reading = self.read_known(document, request, call, tenant, (0, |_| None), tools);
        if tools.is_some() && reading.known_context.is_none() {
            return None;
        }
        let is_same_dialect = prefix.is_told(&reading.request, call.dialect);
        let is_plain =
            reading.edited.is_none() && !reading.request.assumptions.contains("dialect_guessed");
        let is_same = is_plain && is_same_dialect && reading.prefixes[0] == prefix.context;
        let new = reading.digests.get(1..).filter(|_| is_same)?;
        let digester = &reading.tenant.digester;
        let rest = digester.chain(prefix.digest, new.iter().copied());
        reading.left_out_reasoning = prefix.reasoning_tokens;
        reading.prefixes.truncate(1);
        reading.prefixes.extend(rest);
        Some(reading)
    }

    /// What shares its constants; `None` if nothing is learned.
    pub(super) fn model(&self, reading: &Reading<'_>) -> Option<String> {
        let name = Table::bundled().model_name(&reading.request.model).own;
        let is_name = name.len() <= MAX_MODEL_BYTES;
        let custom = self
            .vocabularies
            .of(&reading.request.model, &reading.profile);
        let custom = custom.map(|it| format!("/{}", it.name()));
        let custom = custom.unwrap_or_default();
        let suffix = &reading.tenant.suffix;
        let profile = &reading.profile.name;
        let host = match &*reading.host {
            "" => String::new(),
            host => format!(" at {host}"),
        };
        (self.is_learning && is_name).then(|| format!("{profile}/{name}{custom}{host}{suffix}"))
    }

    fn profile<'d>(&self, profile: &'d Profile) -> Cow<'d, Profile> {
        let universal = || Table::bundled().named("universal");
        match &self.method {
            Method::Profile => Cow::Borrowed(profile),
            Method::Universal => Cow::Owned(profile.universal(universal())),
            Method::Characters {
                milli_characters_per_token,
                milli_by_provider,
                factor_permille,
            } => {
                let mut overrides = milli_by_provider.iter();
                let found = overrides.find(|(provider, _)| *provider == profile.provider);
                let milli = found.map_or(*milli_characters_per_token, |(_, milli)| *milli);
                Cow::Owned(profile.characters(universal(), milli, *factor_permille))
            }
        }
    }

    /// What shares known totals: all models of a profile, or one model of unknown profile.
    pub(super) fn family(
        &self,
        request: &Request<'_>,
        profile: &Profile,
        is_known_model: bool,
    ) -> String {
        let mut family = profile.name.clone();
        if !matches!((&self.method, is_known_model), (Method::Profile, true)) {
            family.push('/');
            family.push_str(&Table::bundled().model_name(&request.model).own);
        }
        if request.is_raw {
            family.push_str(" raw");
        }
        family
    }
}

/// The request in `document`, whose long media are hashed by what `tenant` knows.
fn request_in<'d>(
    document: &'d Document<'_>,
    call: &Call<'d>,
    tenant: &Tenant,
) -> Result<Request<'d>, Error> {
    let has_long_texts = document.byte_count() >= MIN_HASHED_BYTES;
    let hasher = has_long_texts.then(|| tenant.digester.media_hasher());
    read_hashed(document, call.model, call.dialect, hasher)
}

impl Reading<'_> {
    /// Identity of what stands before the messages, whatever the family. Linear in it.
    pub(super) fn any_family(&self) -> u64 {
        let read = || self.tenant.digester.context("", &self.request).word();
        self.known_context.unwrap_or_else(read)
    }
}
