//! The lesson of a billed call: known prefixes, the shape of the conversation, corrections of its model.
use crate::count::{Counter, last_user_index};
use crate::engine::answer::{count_beyond, turn_reasoning};
use crate::engine::bounds::Stratum;
use crate::engine::drift::{Drift, Observation};
use crate::engine::estimate::{self, Count};
use crate::engine::input::Call;
use crate::engine::learn::Lesson;
use crate::engine::lookup::Memory;
use crate::engine::reading::{FAILED_VOCABULARY, Reading, signed};
use crate::engine::shape::{Seen, Shape};
use crate::engine::shared::{SharedEntry, Sharing};
use crate::known::digest::{Digest, Digester};
use crate::known::{Boundary, COUNTED, KnownOptions, KnownPrefix, KnownTotal};
use crate::profile::{Profile, Quality};
use crate::request::{Assumptions, Message, Part, Signature, is_opaque, stays};

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

/// An answer and its calls are framed otherwise as input than as output: by this number of tokens at most, and
/// this share of the count.
const REPLY_SLACK_TOKENS: u64 = 8;
const CALL_SLACK_TOKENS: u64 = 12;
const REPLY_SHARE: u64 = 50;

/// The identity of an answer as it comes back in the next request.
#[derive(Clone, Debug, Default)]
pub(super) struct Reply<'m, 'd> {
    messages: &'m [Message<'d>],
    digests: Vec<Digest>,
    strata: Vec<Stratum>,
    has_reasoning: bool,
    /// Bytes of what it says and of the arguments of its calls.
    said_bytes: usize,
    signature: Signature,
    /// Something in it was read as an answer.
    pub is_understood: bool,
}

impl<'m, 'd> Reply<'m, 'd> {
    /// The answer that consists of `messages`. Linear in its size.
    pub(super) fn new(digester: &Digester, messages: &'m [Message<'d>]) -> Reply<'m, 'd> {
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
            messages,
            said_bytes: messages
                .iter()
                .flat_map(|message| &message.parts)
                .map(said_bytes)
                .sum(),
            digests: digester.messages(messages).collect(),
            is_understood: messages.iter().any(is_answer),
            strata: messages.iter().map(Stratum::of_reply).collect(),
            has_reasoning: messages
                .iter()
                .flat_map(|message| &message.parts)
                .any(is_reasoning),
            signature,
        }
    }

    /// Identity of what stands before it: of the whole request, which is `last`, or of what a summary in it leaves.
    fn prefix(&self, reading: &Reading<'_>, last: Digest) -> Digest {
        let parts = self.messages.iter().flat_map(|message| &message.parts);
        let mut summaries = parts.filter(|part| matches!(part, Part::Summary { .. }));
        let Some(summary) = summaries.next() else {
            return last;
        };
        let all = reading.request.messages.iter().zip(&reading.digests);
        let kept = all.filter(|(it, _)| !it.is_dropped && stays(it, is_opaque(summary)));
        let link =
            |prefix, (_, digest): (_, &Digest)| reading.tenant.digester.link(prefix, *digest);
        kept.fold(reading.prefixes[0], link)
    }

    /// True if `output_tokens` can be all of it. A client may have logged the number while the
    /// answer was still coming.
    fn is_billed_by(&self, output_tokens: u64) -> bool {
        let most_bytes = output_tokens.saturating_mul(MOST_TOKEN_BYTES);
        output_tokens > 0 && self.said_bytes as u64 <= most_bytes.saturating_add(SLACK_BYTES)
    }

    /// True if it has reasoning that is billed when it comes back.
    fn returns_reasoning(&self, profile: &Profile) -> bool {
        self.has_reasoning || profile.signature_bytes(self.signature) > 0
    }
}

/// The lesson of a billed call.
#[derive(Debug, Default)]
pub(super) struct CallLesson {
    /// Known prefixes; none if nothing was billed.
    pub boundaries: Vec<Boundary>,
    /// For the comparison with later edits of the conversation.
    pub shape: Option<Shape>,
    /// For the corrections of its model.
    pub lesson: Option<Lesson>,
    /// For the watch over its provider, if nothing was known of the request.
    pub observation: Option<Observation>,
}

/// The lesson of a billed call; of its request `prefix` was known, and `before` is the shape of the call that it
/// goes on from. All beyond the prefix is counted, once.
pub(super) fn lesson_of(
    reading: &Reading<'_>,
    prefix: Option<KnownPrefix>,
    before: Option<&Shape>,
    billed: Billed,
    reply: &Reply<'_, '_>,
) -> CallLesson {
    let boundaries = boundaries(reading, prefix, billed, reply);
    let is_shaped = !boundaries.is_empty() && (prefix.is_none() || before.is_some());
    // A bill of messages that were cleared, or may have been, teaches nothing about a count.
    let is_shaped = is_shaped
        && reading
            .edited
            .as_ref()
            .is_none_or(|it| it.uncertain_tokens == 0);
    let model = reading.learned_name.clone();
    let model = model.filter(|_| reading.edited.is_none());
    if !is_shaped && model.is_none() {
        return CallLesson {
            boundaries,
            ..CallLesson::default()
        };
    }
    let (count, counter) = count_beyond(reading, prefix);
    let assumptions = estimate::assumptions(reading, &counter);
    let has_guess = Stratum::is_guessed(&assumptions);
    let total = boundaries.last().filter(|_| is_shaped).map(|it| it.total);
    let shape = total.and_then(|it| shape(reading, before, &count, has_guess, (it, billed), reply));
    let is_whole = prefix.is_none() && !has_guess && !boundaries.is_empty();
    let is_plain = is_whole && Stratum::of(&reading.request, 0, &assumptions) <= Stratum::Schema;
    let lesson = model.and_then(|it| model_lesson(it, reading, &count, &assumptions, billed));
    CallLesson {
        observation: is_plain.then(|| observation(reading, count.tokens, billed)),
        boundaries,
        shape,
        lesson,
    }
}

impl CallLesson {
    /// The change of its provider that a call shows whose bill is not believed.
    pub(super) fn watch(self, memory: &Memory, call: &Call<'_>) -> Option<Drift> {
        let change = memory.watch.observe(&self.observation?, call.unix_seconds);
        change.map(|(drift, _)| drift)
    }

    /// The same for a bill that may be another one: nothing about the model follows from it.
    pub(super) fn untaught(self) -> CallLesson {
        CallLesson {
            lesson: None,
            ..self
        }
    }

    /// Remembers the shape of a call, and learns from it: the change of its provider that it shows, and the
    /// corrections of its model that other processes should have.
    pub(super) fn keep(
        self,
        memory: &Memory,
        sharing: &Sharing,
        call: &Call<'_>,
    ) -> (Option<Drift>, Option<SharedEntry>) {
        if let Some(shape) = self.shape {
            memory
                .shapes
                .with(|shapes| shapes.record(shape, call.now_seconds));
        }
        let observation = self.observation;
        let change = observation.and_then(|it| memory.watch.observe(&it, call.unix_seconds));
        let learned = self.lesson.and_then(|lesson| {
            memory.learners.with(|learners| {
                // The provider counts otherwise now, so what was learned before may be wrong.
                if let Some((drift, tenants)) = &change {
                    learners.reopen(&drift.profile, tenants);
                }
                let learner = learners.learn(&lesson);
                let is_shared = call.wants_entries && learner.is_to_be_shared();
                is_shared.then(|| sharing.learned_entry(&lesson.model, learner))
            })
        });
        (change.map(|(drift, _)| drift), learned)
    }
}

/// The boundaries that a billed call makes known: the request, and the request with its reply.
///
/// None for an input of 0 tokens (a failed call) and for a request without messages.
fn boundaries(
    reading: &Reading<'_>,
    known: Option<KnownPrefix>,
    billed: Billed,
    reply: &Reply<'_, '_>,
) -> Vec<Boundary> {
    let Some(&last) = reading.prefixes.get(1..).and_then(<[Digest]>::last) else {
        return Vec::new();
    };
    if billed.input_tokens == 0 {
        return Vec::new();
    }
    let options = KnownOptions {
        digest: reading.options,
        tokens: reading.options_tokens(),
    };
    let request = Boundary {
        message_count: reading.prefixes.len() - 1,
        digest: last,
        total: KnownTotal {
            tokens: billed.input_tokens,
            derived_tokens: reading.edited.as_ref().map_or(0, |it| it.uncertain_tokens),
            reasoning_tokens: held_reasoning(reading, known),
            options,
        },
    };
    if reply.digests.is_empty() || !reply.is_billed_by(billed.output_tokens) {
        return vec![request];
    }
    let link = |prefix, &digest| reading.tenant.digester.link(prefix, digest);
    let output_tokens = reply_tokens(&reading.profile, billed, reply);
    let (reply_tokens, derived_tokens) = match counted_reply(reading, reply) {
        Some(it) if it.is_confirmed_by(output_tokens) => (it.tokens, COUNTED),
        _ => (output_tokens, output_tokens),
    };
    let with_reply = Boundary {
        message_count: request.message_count + reply.digests.len(),
        digest: reply.digests.iter().fold(reply.prefix(reading, last), link),
        total: KnownTotal {
            tokens: billed.input_tokens.saturating_add(reply_tokens),
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
fn held_reasoning(reading: &Reading<'_>, known: Option<KnownPrefix>) -> u64 {
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
    reading.counted(work).0
}

/// The shape of a call: up to the known prefix that of the call before, then what was
/// counted. `None` if a message has too many tokens.
fn shape(
    reading: &Reading<'_>,
    base: Option<&Shape>,
    count: &Count,
    has_guess: bool,
    (total, billed): (KnownTotal, Billed),
    reply: &Reply<'_, '_>,
) -> Option<Shape> {
    let messages = &reading.request.messages;
    let start = messages.len() - count.new_message_count;
    let guess = |stratum: Stratum| match has_guess && stratum > Stratum::Tools {
        true => Stratum::Undetermined,
        false => stratum,
    };
    let mut seen = Vec::with_capacity(messages.len() + reply.digests.len());
    let dropped = dropped_by_message(reading, start);
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
    let of_reply = total.tokens.saturating_sub(billed.input_tokens);
    let mut rest = of_reply;
    for (nth, (digest, stratum)) in reply.digests.iter().zip(&reply.strata).enumerate() {
        let tokens = rest / (reply.digests.len() - nth) as u64;
        rest -= tokens;
        if of_reply > 0 {
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
fn dropped_by_message(reading: &Reading<'_>, start: usize) -> Vec<u64> {
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
    reading.counted(work).0
}

/// True if a message of a reply is one. A value that is no message is read as data of the user, or as nothing.
fn is_answer(message: &Message<'_>) -> bool {
    let is_read = |part: &Part<'_>| !matches!(part, Part::Data(_));
    message.role != "user" || message.parts.iter().any(is_read)
}

/// The lesson of a billed call about its model; `None` if nothing was counted, or if the request
/// does not hold all that was billed.
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

/// The bill of a request of which nothing was known, for the watch over its provider.
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

/// Tokens that an answer costs as input: the output, less the reasoning that does not come back.
fn reply_tokens(profile: &Profile, billed: Billed, reply: &Reply<'_, '_>) -> u64 {
    let hidden = match reply.returns_reasoning(profile) {
        true => 0,
        false => billed.reasoning_tokens,
    };
    let output_tokens = billed.output_tokens.saturating_sub(hidden);
    output_tokens
        .saturating_add(profile.reply_tokens)
        .max(COUNTED + 1)
}

/// The count of an answer of texts and calls; `None` for others, and where something is assumed.
fn counted_reply(reading: &Reading<'_>, reply: &Reply<'_, '_>) -> Option<CountedReply> {
    let parts = || reply.messages.iter().flat_map(|message| &message.parts);
    let is_call = |part: &&Part<'_>| matches!(part, Part::ToolCall(_));
    let is_summary = |part: &Part<'_>| matches!(part, Part::Summary { .. });
    let is_plain = |part: &Part<'_>| matches!(part, Part::Text(_) | Part::ToolCall(_));
    let mut said = parts().filter(|part| !is_summary(part)); // that was billed with the request
    if reply.signature != Signature::default() || !said.all(is_plain) {
        return None;
    }
    // A turn of the user follows, as it will: the first and last message of a request have other frames.
    let before = reading.request.messages.last().cloned();
    let mut answer = reply.messages.to_vec();
    answer.retain(|it| it.parts.is_empty() || !it.parts.iter().all(is_summary));
    answer
        .iter_mut()
        .for_each(|message| message.parts.retain(|part| !is_summary(part)));
    let range = 1..1 + answer.len();
    let messages = before.into_iter().chain(answer).chain([Message::of_user()]);
    let messages: Vec<_> = messages.collect();
    let count = |counter: &mut Counter<'_>| {
        let counted = counter.messages_where(&messages, |index| range.contains(&index));
        counted.sum::<u64>()
    };
    let (tokens, counter) = reading.counted(count);
    counter.assumptions().is_empty().then(|| CountedReply {
        tokens,
        call_count: parts().filter(is_call).count() as u64,
    })
}

/// An answer as it was counted.
struct CountedReply {
    tokens: u64,
    call_count: u64,
}

impl CountedReply {
    /// True if it is all of the output: it is what the next request sends, and nothing was hidden behind it.
    fn is_confirmed_by(&self, output_tokens: u64) -> bool {
        let slack = REPLY_SLACK_TOKENS + CALL_SLACK_TOKENS * self.call_count;
        self.tokens.abs_diff(output_tokens) <= slack + self.tokens / REPLY_SHARE
    }
}

/// Reasoning that comes back with an answer; none if the bill does not say how much.
fn reply_reasoning(profile: &Profile, billed: Billed, reply: &Reply<'_, '_>) -> Option<u64> {
    match reply.returns_reasoning(profile) {
        true => Some(billed.reasoning_tokens).filter(|tokens| *tokens > 0),
        false => Some(0),
    }
}
