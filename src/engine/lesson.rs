//! What a billed call tells: known prefixes, the shape of the conversation, a lesson about its model.
use super::{Call, Engine, Known, Reading, SharedEntry};
use crate::count::{Counter, last_user_index};
use crate::engine::answer::{FAILED_VOCABULARY, signed, turn_reasoning};
use crate::engine::bounds::Stratum;
use crate::engine::drift::{Drift, Observation};
use crate::engine::estimate::{self, Count};
use crate::engine::learn::Lesson;
use crate::engine::shape::{Seen, Shape};
use crate::known::digest::Digest;
use crate::known::tenant::Tenant;
use crate::known::{Boundary, KnownOptions, KnownPrefix, KnownTotal};
use crate::profile::{Profile, Quality};
use crate::request::{Assumptions, Message, Part, Signature};
use std::sync::atomic::Ordering;

/// Beginnings of the assumptions about what the request does not hold.
const OUTSIDE_PREFIXES: [&str; 3] = ["remote_", "unreadable_", "server_"];

/// Billed tokens of a call. `reasoning` is part of `output`.
///
/// ```
/// use tokenctx::Billed;
///
/// // usage of OpenAI: {"prompt_tokens": 13, "completion_tokens": 9}
/// let billed = Billed { input_tokens: 13, output_tokens: 9, ..Billed::default() };
/// assert_eq!(billed.reasoning_tokens, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Billed {
    /// All input, cached too.
    pub input_tokens: u64,
    /// All output, reasoning too; 0 if unknown.
    pub output_tokens: u64,
    /// Reasoning in the output.
    pub reasoning_tokens: u64,
}

/// No vocabulary has tokens as long as this on the average of a text, but for runs of one character.
const MOST_TOKEN_BYTES: u64 = 16;

/// A few tokens may be longer.
const SLACK_BYTES: u64 = 128;

/// The identity of an answer as it comes back in the next request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reply {
    digests: Vec<Digest>,
    strata: Vec<Stratum>,
    has_reasoning: bool,
    /// Bytes of what it says and of the arguments of its calls.
    said_bytes: usize,
    signature: Signature,
    /// Something in it was read as an answer.
    pub is_understood: bool,
}

impl Reply {
    /// Whether so many tokens can be all of it. A client may have logged the number while the
    /// answer was still coming.
    fn is_billed_by(&self, output_tokens: u64) -> bool {
        let most_bytes = output_tokens.saturating_mul(MOST_TOKEN_BYTES);
        output_tokens > 0 && self.said_bytes as u64 <= most_bytes.saturating_add(SLACK_BYTES)
    }

    /// Whether it has reasoning that is billed when it comes back.
    fn returns_reasoning(&self, profile: &Profile) -> bool {
        self.has_reasoning || profile.signature_bytes(self.signature) > 0
    }
}

/// What a billed call tells.
#[derive(Debug, Default)]
pub(super) struct CallLesson {
    /// Known prefixes; none if nothing was billed.
    pub boundaries: Vec<Boundary>,
    /// What later edits of the conversation are compared with.
    pub shape: Option<Shape>,
    /// What the call teaches about its model.
    pub lesson: Option<Lesson>,
    /// What it says of how the provider counts, if nothing was known of the request.
    pub observation: Option<Observation>,
}

impl Engine {
    /// The identity of an answer by `tenant`. Linear in its size.
    pub(super) fn read_reply(&self, tenant: &Tenant, messages: &[Message<'_>]) -> Reply {
        let is_reasoning = |part: &Part<'_>| matches!(part, Part::Reasoning { .. });
        let said_bytes = |part: &Part<'_>| match part {
            Part::Text(text) => text.len(),
            Part::ToolCall(call) => call.arguments.compact().len(),
            _ => 0,
        };
        let mut signature = Signature::default();
        messages
            .iter()
            .for_each(|message| signature.join(message.signature));
        Reply {
            said_bytes: messages
                .iter()
                .flat_map(|message| &message.parts)
                .map(said_bytes)
                .sum(),
            digests: tenant.digester.messages(messages).collect(),
            is_understood: messages.iter().any(is_answer),
            strata: messages.iter().map(Stratum::of_message).collect(),
            has_reasoning: messages
                .iter()
                .flat_map(|message| &message.parts)
                .any(is_reasoning),
            signature,
        }
    }

    /// What a billed call tells; `known` is what was known of it before. It counts what is
    /// beyond the known prefix, once.
    pub(super) fn lesson_of(
        &self,
        reading: &Reading<'_>,
        known: &Known,
        billed: Billed,
        reply: &Reply,
    ) -> CallLesson {
        let boundaries = self.boundaries(reading, known.prefix, billed, reply);
        let is_shaped =
            !boundaries.is_empty() && (known.prefix.is_none() || !known.near.is_empty());
        // What was cleared, or may have been, teaches nothing about a count.
        let is_shaped = is_shaped
            && reading
                .edited
                .as_ref()
                .is_none_or(|it| it.uncertain_tokens == 0);
        let model = self.model(reading).filter(|_| reading.edited.is_none());
        if !is_shaped && model.is_none() {
            return CallLesson {
                boundaries,
                ..CallLesson::default()
            };
        }
        let (count, counter) = self.count_beyond(reading, known.prefix);
        let assumptions = estimate::assumptions(reading, &counter);
        let has_guess = Stratum::is_guessed(&assumptions);
        let total = boundaries.last().filter(|_| is_shaped).map(|it| it.total);
        let shape = total.and_then(|it| self.shape(reading, known, &count, has_guess, it, reply));
        let is_whole = known.prefix.is_none() && !has_guess && !boundaries.is_empty();
        let is_plain =
            is_whole && Stratum::of(&reading.request, 0, &assumptions) <= Stratum::Schema;
        let lesson = model.and_then(|it| model_lesson(it, reading, &count, &assumptions, billed));
        CallLesson {
            observation: is_plain.then(|| observation(reading, count.tokens, billed)),
            boundaries,
            shape,
            lesson,
        }
    }

    /// The boundaries that a billed call makes known: the request, and the request with its reply.
    ///
    /// None for an input of 0 tokens (a failed call) and for a request without messages.
    fn boundaries(
        &self,
        reading: &Reading<'_>,
        known: Option<KnownPrefix>,
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
                derived_tokens: reading.edited.as_ref().map_or(0, |it| it.uncertain_tokens),
                reasoning_tokens: self.held_reasoning(reading, known),
                options,
            },
        };
        if reply.digests.is_empty() || !reply.is_billed_by(billed.output_tokens) {
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
                reasoning_tokens: reply_reasoning(&reading.profile, billed, reply)
                    .map_or(0, |own| own.saturating_add(request.total.reasoning_tokens)),
                options,
            },
        };
        vec![request, with_reply]
    }

    /// Reasoning in the bill of a request that the next turn of the user drops: what was billed
    /// of it as output, and what is beyond the known prefix as it is counted.
    fn held_reasoning(&self, reading: &Reading<'_>, known: Option<KnownPrefix>) -> u64 {
        let all = &reading.request.messages;
        if !reading.profile.drops_reasoning() {
            return 0;
        }
        let is_of_this_turn = |prefix: &KnownPrefix| {
            prefix.total.reasoning_tokens > 0
                && last_user_index(&all[..prefix.message_count]) >= last_user_index(all)
        };
        let work = |counter: &mut Counter<'_>| match known.filter(is_of_this_turn) {
            Some(prefix) => {
                let new = all[prefix.message_count..].iter();
                let new = new.map(|message| counter.reasoning(message)).sum();
                prefix.total.reasoning_tokens.saturating_add(new)
            }
            None => turn_reasoning(reading, counter, all.len()),
        };
        self.counted(reading, work).0
    }

    /// The shape of a call: up to the known prefix that of the call before, then what was
    /// counted. `None` if a message has too many tokens.
    fn shape(
        &self,
        reading: &Reading<'_>,
        known: &Known,
        count: &Count,
        has_guess: bool,
        total: KnownTotal,
        reply: &Reply,
    ) -> Option<Shape> {
        let messages = &reading.request.messages;
        let start = messages.len() - count.new_message_count;
        let base = known.near.first();
        let guess = |stratum: Stratum| match has_guess && stratum > Stratum::Tools {
            true => Stratum::Undetermined,
            false => stratum,
        };
        let mut seen = Vec::with_capacity(messages.len() + reply.digests.len());
        let dropped = self.dropped_by_message(reading, start);
        let before = base.iter().flat_map(|it| it.messages.iter()).take(start);
        for ((index, old), digest) in before.enumerate().zip(&reading.digests) {
            let nth = (index + dropped.len()).checked_sub(start);
            let less = nth.map_or(0, |nth| dropped[nth]);
            let tokens = old.tokens().saturating_sub(less);
            seen.push(Seen::new(*digest, old.stratum(), tokens)?);
        }
        let new = messages.iter().zip(&reading.digests).skip(start);
        for ((message, digest), tokens) in new.zip(&count.messages) {
            seen.push(Seen::new(
                *digest,
                guess(Stratum::of_message(message)),
                *tokens,
            )?);
        }
        let mut rest = total.derived_tokens;
        for (nth, (digest, stratum)) in reply.digests.iter().zip(&reply.strata).enumerate() {
            let tokens = rest / (reply.digests.len() - nth) as u64;
            rest -= tokens;
            if total.derived_tokens > 0 {
                seen.push(Seen::new(*digest, *stratum, tokens)?);
            }
        }
        let own_context = || {
            let tokens = signed(count.context_tokens) - total.options.tokens;
            let stratum = match has_guess {
                true => Stratum::Undetermined,
                false => Stratum::of_context(&reading.request),
            };
            (tokens, stratum)
        };
        let before = base.map(|it| (it.context_tokens, it.context_stratum));
        let (context_tokens, context_stratum) = before.unwrap_or_else(own_context);
        Some(Shape {
            family: reading.family,
            any_family: reading.any_family(),
            context: reading.prefixes[0],
            context_tokens,
            context_stratum,
            total,
            turn: last_user_index(messages),
            request_len: messages.len(),
            messages: seen.into(),
        })
    }

    /// Reasoning that the last known messages have and that a new turn of the user drops, message
    /// by message.
    fn dropped_by_message(&self, reading: &Reading<'_>, start: usize) -> Vec<u64> {
        let all = &reading.request.messages;
        let (then, now) = (last_user_index(&all[..start]), last_user_index(all));
        if !reading.profile.drops_reasoning() || now <= then {
            return Vec::new();
        }
        let from = then.map_or(0, |turn| turn + 1);
        let work = |counter: &mut Counter<'_>| {
            let messages = all[from..start].iter();
            messages.map(|message| counter.reasoning(message)).collect()
        };
        self.counted(reading, work).0
    }

    /// Remembers the shape of a call, and what it teaches about its model; the change of its provider that
    /// it shows, and what other processes should know of its model.
    pub(super) fn learn_from(
        &self,
        lesson: CallLesson,
        call: &Call<'_>,
    ) -> (Option<Drift>, Option<SharedEntry>) {
        if let Some(shape) = lesson.shape {
            self.with_shapes(|shapes| shapes.record(shape, call.now_seconds));
        }
        let told = lesson.observation.and_then(|it| self.observe(&it, call));
        let learned = lesson.lesson.and_then(|lesson| {
            self.with_learners(|learners| {
                if let Some((drift, tenants)) = &told {
                    learners.reopen(&drift.profile, tenants);
                }
                let learner = learners.learn(&lesson);
                let is_shared = call.wants_entries && learner.is_to_be_shared();
                is_shared.then(|| self.learned_entry(&lesson.model, learner))
            })
        });
        (told.map(|(drift, _)| drift), learned)
    }

    fn observe(&self, observation: &Observation, call: &Call<'_>) -> Option<(Drift, Vec<String>)> {
        self.with_watch(|watch| {
            let told = watch.observe(observation, call.unix_seconds);
            self.is_unsettled
                .store(watch.is_unsettled(), Ordering::Relaxed);
            told
        })
    }

    /// How many tokens a provider has lately begun to bill more or less for what was read, of which `counted`
    /// tokens are counted; 0 if the bills of its tenant have shown no such thing.
    pub(super) fn unsettled_tokens(&self, reading: &Reading<'_>, counted: u64) -> u64 {
        if !self.is_unsettled.load(Ordering::Relaxed) {
            return 0;
        }
        let provider = (&*reading.profile.name, &*reading.host);
        let tenant = &reading.tenant.suffix;
        self.with_watch(|watch| watch.unsettled_tokens(provider, tenant, counted))
    }

    /// The last change in how it counts of each provider that has shown one.
    pub fn drifts(&self) -> Vec<Drift> {
        self.with_watch(|watch| watch.drifts().cloned().collect())
    }
}

/// Whether a message of a reply is one. What is no message is read as data of the user, or as nothing.
fn is_answer(message: &Message<'_>) -> bool {
    let is_read = |part: &Part<'_>| !matches!(part, Part::Data(_));
    message.role != "user" || message.parts.iter().any(is_read)
}

/// What a billed call teaches about its model; `None` if nothing was counted, or if the request
/// does not tell what was billed.
fn model_lesson(
    model: String,
    reading: &Reading<'_>,
    count: &Count,
    assumptions: &Assumptions,
    billed: Billed,
) -> Option<Lesson> {
    let is_outside = |name: &&str| OUTSIDE_PREFIXES.iter().any(|it| name.starts_with(it));
    if count.tokens == 0
        || billed.input_tokens <= count.known.tokens
        || assumptions.contains(FAILED_VOCABULARY)
        || assumptions.iter().any(is_outside)
    {
        return None;
    }
    Some(Lesson {
        model,
        features: count.features,
        counted: count.tokens,
        billed: billed.input_tokens - count.known.tokens,
        derived: count.known.derived_tokens,
        prior_losses: match reading.profile.quality {
            Quality::Exact => 4,
            _ => 0,
        },
    })
}

/// What the bill of a request of which nothing was known says of its provider.
fn observation(reading: &Reading<'_>, counted: u64, billed: Billed) -> Observation {
    let request = &reading.request;
    let context = reading.prefixes[0].word();
    let names = request.tools.iter().flat_map(|tool| [&*tool.name, "\n"]);
    let tools = match request.tools.is_empty() {
        true => context,
        false => {
            let names: String = names.collect();
            reading.tenant.digester.bytes(names.as_bytes()).word()
        }
    };
    Observation {
        profile: reading.profile.name.clone(),
        host: reading.host.clone(),
        tenant: reading.tenant.suffix.clone(),
        contexts: [context, tools],
        counted,
        billed: billed.input_tokens,
    }
}

/// What an answer costs as input: the output, less the reasoning that does not come back.
fn reply_tokens(profile: &Profile, billed: Billed, reply: &Reply) -> u64 {
    let hidden = match reply.returns_reasoning(profile) {
        true => 0,
        false => billed.reasoning_tokens,
    };
    let output_tokens = billed.output_tokens.saturating_sub(hidden);
    output_tokens.saturating_add(profile.reply_tokens).max(1)
}

/// Reasoning that comes back with an answer; none if the bill does not say how much.
fn reply_reasoning(profile: &Profile, billed: Billed, reply: &Reply) -> Option<u64> {
    match reply.returns_reasoning(profile) {
        true => Some(billed.reasoning_tokens).filter(|tokens| *tokens > 0),
        false => Some(0),
    }
}
