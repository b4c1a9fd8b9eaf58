//! The engine: body -> request -> digests -> known prefix -> counts -> estimate.
//!
//! An [`Engine`] has no clock and no randomness: time and secret come from the caller. Its steps
//! are separate, so that a caller can do the long ones ([`Engine::read`], [`Engine::answer`])
//! without any lock and the short one ([`Engine::known`]) in between.
use crate::bounds::{Bounds, Scope, Stratum};
use crate::count::{Counter, last_user_index};
use crate::digest::{Digest, Digester};
use crate::prefix::{KnownPrefix, KnownTotal, PrefixStore};
use crate::profile::{Profile, ReasoningRule, plain_model_name, resolve};
use crate::request::{Assumptions, Message, Part, Request};
use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

/// Beginnings of the assumptions that make a count a guess.
const GUESSES: [&str; 4] = ["unknown_", "remote_", "unreadable_", "server_"];

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

/// Where an estimate comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The provider has billed exactly this request.
    Exact,
    /// A known prefix and the count of what follows it.
    Delta,
    /// A count of the whole request.
    Estimated,
}

impl Source {
    /// `"exact"`, `"delta"`, `"estimated"`.
    pub fn name(self) -> &'static str {
        match self {
            Source::Exact => "exact",
            Source::Delta => "delta",
            Source::Estimated => "estimated",
        }
    }
}

/// Input tokens that a request is expected to be billed for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Known and counted tokens.
    pub tokens: u64,
    /// Where they come from.
    pub source: Source,
    /// Billed by the provider for the known prefix.
    pub known_tokens: u64,
    /// Counted here.
    pub estimated_tokens: u64,
    /// Messages beyond the known prefix.
    pub new_message_count: usize,
    /// How the counted part was counted: `exact`, `calibrated`, `heuristic`.
    pub quality: String,
    /// Lower bound.
    pub low: u64,
    /// Upper bound.
    pub high: u64,
    /// What had to be guessed.
    pub assumptions: Assumptions,
}

/// A request counted here part by part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestCount {
    /// All tokens.
    pub tokens: u64,
    /// All but the messages.
    pub context_tokens: u64,
    /// One for each message.
    pub message_tokens: Vec<u64>,
    /// How it was counted.
    pub quality: String,
    /// What had to be guessed.
    pub assumptions: Assumptions,
}

/// A request, what it is counted with, and its prefix digests.
#[derive(Debug)]
pub struct Reading<'d> {
    /// What was read.
    pub request: Request<'d>,
    /// What it is counted with.
    pub profile: Cow<'static, Profile>,
    is_known_model: bool,
    prefixes: Vec<Digest>,
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
    has_reasoning: bool,
}

/// Estimates and records.
pub struct Engine {
    digester: Digester,
    method: Method,
    store: Mutex<PrefixStore>,
}

impl Engine {
    /// An engine that knows nothing; engines of equal `secret` make equal digests.
    pub fn new(secret: &[u8], method: Method, store: PrefixStore) -> Engine {
        Engine {
            digester: Digester::new(secret),
            method,
            store: Mutex::new(store),
        }
    }

    /// Runs `action` on the store, alone.
    pub fn with_store<T>(&self, action: impl FnOnce(&mut PrefixStore) -> T) -> T {
        action(&mut self.store.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Forgets all that is known.
    pub fn clear(&self) {
        self.with_store(PrefixStore::clear);
    }

    /// The profile and prefix digests of `request`. Linear in the request.
    pub fn read<'d>(&self, request: Request<'d>) -> Reading<'d> {
        let resolved = resolve(&request.model, request.dialect);
        let is_known_model = resolved.is_known_model;
        let profile = self.profile(resolved.profile);
        let family = self.family(&request, &profile, is_known_model);
        let prefixes = self.digester.prefixes(&family, &request);
        Reading {
            request,
            profile,
            is_known_model,
            prefixes,
        }
    }

    /// The deepest known prefix of what was read.
    pub fn known(&self, reading: &Reading<'_>, now_seconds: f64) -> Option<KnownPrefix> {
        self.with_store(|store| store.deepest(&reading.prefixes, now_seconds))
    }

    /// The estimate for what was read, `known` of it known already. Linear in what is not known.
    pub fn answer(&self, reading: &Reading<'_>, known: Option<KnownPrefix>) -> Estimate {
        let mut counter = Counter::new(&reading.profile, &reading.request);
        let message_count = reading.request.messages.len();
        let Some(known) = known else {
            let context = counter.context(&reading.request);
            let counted = context + counter.messages(&reading.request.messages, 0).sum::<u64>();
            let nothing = KnownTotal {
                tokens: 0,
                derived_tokens: 0,
            };
            return estimate(
                reading,
                &counter,
                Source::Estimated,
                nothing,
                counted,
                message_count,
            );
        };
        let counted = counter
            .messages(&reading.request.messages, known.message_count)
            .sum();
        let dropped = dropped_reasoning(reading, &mut counter, known.message_count);
        let tokens = known.total.tokens.saturating_sub(dropped);
        let total = KnownTotal {
            tokens,
            ..known.total
        };
        let new_count = message_count - known.message_count;
        let is_exact = new_count == 0 && total.is_billed();
        let source = if is_exact {
            Source::Exact
        } else {
            Source::Delta
        };
        estimate(reading, &counter, source, total, counted, new_count)
    }

    /// What was read, counted here without what is known.
    pub fn count(&self, reading: &Reading<'_>) -> RequestCount {
        let mut counter = Counter::new(&reading.profile, &reading.request);
        let context_tokens = counter.context(&reading.request);
        let message_tokens: Vec<u64> = counter.messages(&reading.request.messages, 0).collect();
        let assumptions = assumptions(reading, &counter);
        RequestCount {
            tokens: context_tokens + message_tokens.iter().sum::<u64>(),
            context_tokens,
            message_tokens,
            quality: quality(reading, &counter, &assumptions).to_owned(),
            assumptions,
        }
    }

    /// The identity of an answer. Linear in its size.
    pub fn read_reply(&self, messages: &[Message<'_>]) -> Reply {
        let is_reasoning = |part: &Part<'_>| matches!(part, Part::Reasoning { .. });
        Reply {
            digests: self.digester.messages(messages).collect(),
            has_reasoning: messages
                .iter()
                .flat_map(|message| &message.parts)
                .any(is_reasoning),
        }
    }

    /// The prefixes that a billed call makes known: the request, and the request with its reply.
    ///
    /// None for an input of 0 tokens (a failed call) and for a request without messages.
    pub fn entries(
        &self,
        reading: &Reading<'_>,
        billed: Billed,
        reply: &Reply,
    ) -> Vec<(Digest, KnownTotal)> {
        let Some(&last) = reading.prefixes.get(1..).and_then(<[Digest]>::last) else {
            return Vec::new();
        };
        if billed.input_tokens == 0 {
            return Vec::new();
        }
        let total = KnownTotal {
            tokens: billed.input_tokens,
            derived_tokens: 0,
        };
        let mut entries = vec![(last, total)];
        if !reply.digests.is_empty() && billed.output_tokens > 0 {
            let link = |prefix, &digest| self.digester.link(prefix, digest);
            let derived_tokens = reply_tokens(&reading.profile, billed, reply);
            let tokens = billed.input_tokens.saturating_add(derived_tokens);
            let prefix = reply.digests.iter().fold(last, link);
            entries.push((
                prefix,
                KnownTotal {
                    tokens,
                    derived_tokens,
                },
            ));
        }
        entries
    }

    fn profile(&self, profile: &'static Profile) -> Cow<'static, Profile> {
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
        match (&self.method, is_known_model) {
            (Method::Profile, true) => profile.name.clone(),
            _ => format!("{}/{}", profile.name, plain_model_name(&request.model)),
        }
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
    if reading.profile.reasoning != ReasoningRule::Loop || now <= then {
        return 0;
    }
    let start = then.map_or(0, |turn| turn + 1);
    all[start..known]
        .iter()
        .map(|message| counter.reasoning(message))
        .sum()
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

fn estimate(
    reading: &Reading<'_>,
    counter: &Counter<'_>,
    source: Source,
    known: KnownTotal,
    estimated_tokens: u64,
    new_message_count: usize,
) -> Estimate {
    let mut assumptions = assumptions(reading, counter);
    let mut quality = quality(reading, counter, &assumptions);
    if source == Source::Exact {
        quality = "exact";
        assumptions.clear();
    }
    if quality == "exact" && !known.is_billed() {
        quality = "calibrated";
    }
    let scope = match source {
        Source::Estimated => Scope::Whole,
        _ if known.is_billed() => Scope::New,
        _ => Scope::Reply,
    };
    let start = reading.request.messages.len() - new_message_count;
    let stratum = Stratum::of(&reading.request, start, &assumptions);
    // What is not billed yet may be as wrong as a count.
    let uncertain = estimated_tokens.saturating_add(known.derived_tokens.min(known.tokens));
    let tokens = known.tokens.saturating_add(estimated_tokens);
    let bounds = Bounds::of(&reading.profile, reading.is_known_model, scope, stratum);
    let (low, high) = match source {
        Source::Exact => (tokens, tokens),
        _ => bounds.interval(tokens, uncertain),
    };
    Estimate {
        tokens,
        source,
        known_tokens: known.tokens,
        estimated_tokens,
        new_message_count,
        quality: quality.to_owned(),
        low,
        high,
        assumptions,
    }
}

fn assumptions(reading: &Reading<'_>, counter: &Counter<'_>) -> Assumptions {
    let mut all = reading.request.assumptions.clone();
    all.extend(counter.assumptions());
    if !reading.is_known_model {
        all.insert("unknown_model");
    }
    all
}

fn quality<'r>(
    reading: &'r Reading<'_>,
    counter: &Counter<'_>,
    assumptions: &Assumptions,
) -> &'r str {
    let is_guess = |name: &&str| GUESSES.iter().any(|guess| name.starts_with(guess));
    match &*reading.profile.quality {
        _ if assumptions.iter().any(is_guess) => "heuristic",
        "exact" if !counter.counted_only_text() => "calibrated",
        quality => quality,
    }
}
