//! A request before anything of it is counted: its profile, and the digests of its prefixes.
use crate::Error;
use crate::count::{Counter, TextCounter, Vocabularies};
use crate::engine::edited::{Edited, Sizer, edited};
use crate::engine::input::Call;
use crate::engine::known_body::note::MessageDigest;
use crate::engine::known_body::tools::KnownTools;
use crate::engine::settings::{Method, Settings};
use crate::json::Document;
use crate::known::KnownTotal;
use crate::known::digest::{Digest, Digester};
use crate::known::tenant::Tenant;
use crate::profile::table::Table;
use crate::profile::{ModelLimits, Profile};
use crate::request::{
    COMPACTED, CacheOptions, MIN_HASHED_BYTES, NAMESPACE, Request, TOOL_SEARCH, read_cache_options,
    read_hashed,
};
use std::borrow::Cow;

/// Nothing is learned about a model whose name is longer.
const MAX_MODEL_BYTES: usize = 200;

/// Assumed if a tool of the vendor is among the tools.
const BUILTIN: &str = "builtin_tool";

/// Types of Claude's tools that the client runs: nothing of them is billed but their definition. A newer one is a guess.
const RUN_BY_CLIENT: [&str; 10] = [
    "bash_20241022",
    "bash_20250124",
    "computer_20241022",
    "computer_20250124",
    "computer_20251124",
    "memory_20250818",
    "text_editor_20241022",
    "text_editor_20250124",
    "text_editor_20250429",
    "text_editor_20250728",
];

/// Assumed if the user's vocabulary could not count.
pub(super) const FAILED_VOCABULARY: &str = "failed_vocabulary";

/// Reads requests: by the profiles, method and vocabularies of one engine, and under its secret.
pub(super) struct Reader {
    pub digester: Digester,
    pub method: Method,
    vocabularies: Vocabularies,
    table: Cow<'static, Table>,
    is_learning: bool,
}

/// A request, what it is counted with, and its prefix digests.
#[derive(Debug)]
pub(super) struct Reading<'d> {
    pub request: Request<'d>,
    /// The tenant that sends it.
    pub tenant: Tenant,
    /// The profile that it is counted with.
    pub profile: Cow<'d, Profile>,
    pub is_known_model: bool,
    /// The user's vocabulary for the model, if there is one.
    custom: Option<&'d dyn TextCounter>,
    /// The name under which is learned how the model is billed; `None` if nothing is learned.
    pub learned_name: Option<String>,
    /// Who answers; empty if that is not known.
    pub host: String,
    /// True if the caller names a provider of whom nothing is known.
    pub has_ignored_provider: bool,
    pub limits: ModelLimits,
    /// The edits that the provider makes, if it is asked to.
    pub edited: Option<Edited>,
    pub prefixes: Vec<Digest>,
    /// One for each message.
    pub digests: Vec<Digest>,
    /// The models that share known totals with this one: all of a profile, or one model of unknown profile.
    pub family_name: String,
    /// Identity of the family.
    pub family: u64,
    /// Identity of the options; 0 if there are none.
    pub options: u64,
    /// The cache markers and options, if the call wants to know.
    pub cache: Option<CacheOptions>,
    /// Reasoning in messages that were left out behind the first one.
    pub left_out_reasoning: u64,
    /// Tokens in a text that was left out.
    pub left_out: LeftOutTokens,
    /// Identity of the context (all before the messages) whatever the family, if tools of it were left out.
    pub known_context: Option<u64>,
}

/// Tokens in the middle of a text that was not read: of the context, or of the first message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeftOutTokens {
    pub context: u64,
    pub first: u64,
}

impl Reader {
    pub(super) fn new(secret: &[u8], settings: Settings) -> Reader {
        Reader {
            digester: Digester::new(secret),
            is_learning: settings.is_learning && matches!(settings.method, Method::Profile),
            method: settings.method,
            vocabularies: settings.vocabularies,
            table: settings.table,
        }
    }

    /// The tenant of this name; all who name none are one.
    pub(super) fn tenant(&self, name: Option<&[u8]>) -> Tenant {
        Tenant::new(&self.digester, name)
    }

    /// The request in `document`, its profile and its prefix digests, of which `known` are known by the places of
    /// their messages. Linear in the request; fails only by a limit.
    pub(super) fn read<'d>(
        &'d self,
        document: &'d Document<'_>,
        call: &Call<'d>,
        tenant: &Tenant,
        known: &[Option<MessageDigest>],
    ) -> Result<Reading<'d>, Error> {
        let request = request_in(document, call, tenant)?;
        Ok(self.identify(document, request, call, tenant, known, None))
    }

    /// As [`Reader::read`], of the `request` in `document`. If `tools` were left out of it and its identity with
    /// them is known, it has that identity.
    pub(super) fn identify<'d>(
        &'d self,
        document: &'d Document<'_>,
        mut request: Request<'d>,
        call: &Call<'d>,
        tenant: &Tenant,
        known: &[Option<MessageDigest>],
        tools: Option<&KnownTools>,
    ) -> Reading<'d> {
        let tenant = tenant.clone();
        let resolved = self
            .table
            .resolve(&request.model, request.dialect, call.provider);
        let is_known_model = resolved.is_known_model;
        let limits = resolved.limits.within(request.window_tokens);
        let profile = self.profile(resolved.profile);
        if is_priced(&request, &profile) {
            request.assumptions.remove(BUILTIN);
        }
        let custom = self.vocabularies.of(&request.model, &profile);
        let sizer = Sizer {
            profile: &profile,
            is_known_model,
            custom,
            memo_key: tenant.memo_key,
        };
        let edited = edited(&mut request, sizer, &limits);
        let family_name = self.family(&request, &profile, is_known_model);
        let digester = &tenant.digester;
        let options = digester.options(&request, profile.hides_tools(&request));
        let context = digester.context(&family_name, &request);
        let tools = tools.filter(|it| it.is_all_but(context, &request, options));
        let context = tools.map_or(context, |it| it.context);
        // An edit or an assumption may have changed messages, whose texts no longer have the known digests.
        let is_plain = request.is_plain() && edited.is_none();
        let digests = match is_plain && request.messages.len() == known.len() {
            true => digester.messages_but(&request.messages, |it| Some(known[it]?.digest)),
            false => digester.messages(&request.messages).collect(),
        };
        let prefixes = match request.assumptions.contains(COMPACTED) {
            false => digester.chain(context, digests.iter().copied()),
            true => compacted_prefixes(digester, context, &request, &digests),
        };
        let model = self
            .is_learning
            .then(|| Table::bundled().model_name(&request.model).own);
        let model = model.filter(|it| it.len() <= MAX_MODEL_BYTES);
        let learned_name = model.map(|model| {
            let custom = custom.map_or_else(String::new, |it| format!("/{}", it.name()));
            let host = match &*resolved.host {
                "" => String::new(),
                host => format!(" at {host}"),
            };
            format!("{}/{model}{custom}{host}{}", profile.name, tenant.suffix)
        });
        Reading {
            family: digester.bytes(family_name.as_bytes()).word(),
            request,
            tenant,
            profile,
            is_known_model,
            custom,
            learned_name,
            host: resolved.host,
            has_ignored_provider: resolved.has_ignored_provider,
            limits,
            edited,
            prefixes,
            digests,
            family_name,
            options,
            cache: call
                .wants_cache_points
                .then(|| read_cache_options(document)),
            left_out_reasoning: 0,
            left_out: LeftOutTokens::default(),
            known_context: tools.map(|it| it.any_family),
        }
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

    fn family(&self, request: &Request<'_>, profile: &Profile, is_known_model: bool) -> String {
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

/// True if nothing is guessed of the vendor's tools: the client runs them, and the profile has their price; or they
/// only find or hold others.
fn is_priced(request: &Request<'_>, profile: &Profile) -> bool {
    let listed = &profile.tools().vendor_tools;
    let api = profile.api_prices(request.dialect, &request.model);
    let has_search = api.is_some_and(|it| it.tool_search_tokens > 0);
    let added = request.added_tools.iter().flat_map(|it| &it.tools);
    let mut tools = request
        .tools
        .iter()
        .chain(added)
        .chain(&request.deferred_tools);
    request.assumptions.contains(BUILTIN)
        && tools.all(|tool| match &*tool.name {
            _ if tool.builtin.is_none() => true,
            TOOL_SEARCH | NAMESPACE => has_search,
            name => RUN_BY_CLIENT.contains(&name) && listed.tokens(name).is_some(),
        })
}

/// As [`Digester::chain`]; a message that a summary stands for is in no prefix, so that it may be sent or not.
fn compacted_prefixes(
    digester: &Digester,
    context: Digest,
    request: &Request<'_>,
    digests: &[Digest],
) -> Vec<Digest> {
    let mut prefixes = vec![context];
    let mut last = context;
    for (message, digest) in request.messages.iter().zip(digests) {
        if !message.is_dropped {
            last = digester.link(last, *digest);
        }
        prefixes.push(last);
    }
    prefixes
}

/// The request in `document`, whose long media are hashed under the key of `tenant`.
pub(super) fn request_in<'d>(
    document: &'d Document<'_>,
    call: &Call<'d>,
    tenant: &Tenant,
) -> Result<Request<'d>, Error> {
    let has_long_texts = document.byte_count() >= MIN_HASHED_BYTES;
    let hasher = has_long_texts.then(|| tenant.digester.media_hasher());
    read_hashed(document, call.model, call.dialect, hasher)
}

impl Reading<'_> {
    /// True if the user's own vocabulary counts it.
    pub(super) fn has_custom_vocabulary(&self) -> bool {
        self.custom.is_some()
    }

    /// Identity of the context (all before the messages), whatever the family. Linear in it.
    pub(super) fn any_family(&self) -> u64 {
        let read = || self.tenant.digester.context("", &self.request).word();
        self.known_context.unwrap_or_else(read)
    }

    /// The result of `work`, and the counter that it used: with the user's vocabulary for the model if there is
    /// one that does not fail.
    pub(super) fn counted<'r, T>(
        &'r self,
        work: impl Fn(&mut Counter<'r>) -> T,
    ) -> (T, Counter<'r>) {
        let (profile, request, key) = (&*self.profile, &self.request, self.tenant.memo_key);
        let mut counter = Counter::new(profile, request, self.custom, key);
        let counted = work(&mut counter);
        if !counter.has_failed() {
            return (counted, counter);
        }
        let mut counter = Counter::new(profile, request, None, key);
        counter.assume(FAILED_VOCABULARY);
        (work(&mut counter), counter)
    }

    /// The tokens that tool choice, output schema and thinking add to the count of the context.
    pub(super) fn options_tokens(&self) -> i64 {
        if self.options == 0 {
            return 0;
        }
        let without = self.request.context_without_options();
        let count = |request| signed(self.counted(|counter| counter.context(request)).0);
        count(&self.request) - count(&without)
    }

    /// `known` under the options of this request, and whether they are others.
    pub(super) fn with_options(&self, mut known: KnownTotal) -> (KnownTotal, bool) {
        let has_other_options = known.options.digest != self.options;
        if has_other_options {
            let more = self.options_tokens() - known.options.tokens;
            known.tokens = known.tokens.saturating_add_signed(more);
            known.derived_tokens = known
                .derived_tokens
                .saturating_add(more.unsigned_abs().max(1));
        }
        (known, has_other_options)
    }

    /// The prefix that all requests of a conversation share, and few others: it ends with the user's first
    /// message. Without messages, the context.
    pub(super) fn root(&self) -> Digest {
        let messages = &self.request.messages;
        let first = messages.iter().position(|message| message.role == "user");
        let end = first.map_or(messages.len().min(1), |index| index + 1);
        self.prefixes[end]
    }
}

/// `tokens` as a number that may be subtracted from.
pub(super) fn signed(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}
