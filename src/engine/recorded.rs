//! What is kept of a billed call: known prefixes, the shape of the conversation, a lesson.
use super::{Billed, Engine, FAILED_VOCABULARY, Known, Reading, Reply, UNTOLD, signed};
use crate::count::{Counter, last_user_index};
use crate::engine::bounds::Stratum;
use crate::engine::estimate::{self, Count};
use crate::engine::learn::Lesson;
use crate::engine::shape::{Seen, Shape};
use crate::known::{Boundary, KnownTotal};
use crate::request::Assumptions;

/// What a billed call makes known.
#[derive(Debug, Default)]
pub struct Recorded {
    /// Known prefixes; none if nothing was billed.
    pub boundaries: Vec<Boundary>,
    /// What later edits of the conversation are compared with.
    pub shape: Option<Shape>,
    /// What the call teaches about its model.
    pub lesson: Option<Lesson>,
}

impl Engine {
    /// What a billed call makes known; `known` is what was known of it before. It counts what is
    /// beyond the known prefix, once.
    pub fn recorded(
        &self,
        reading: &Reading<'_>,
        known: &Known,
        billed: Billed,
        reply: &Reply,
    ) -> Recorded {
        let boundaries = self.boundaries(reading, billed, reply);
        let is_shaped =
            !boundaries.is_empty() && (known.prefix.is_none() || !known.near.is_empty());
        let model = self.model(reading);
        if !is_shaped && model.is_none() {
            return Recorded {
                boundaries,
                ..Recorded::default()
            };
        }
        let (count, counter) = self.count_beyond(reading, known.prefix);
        let assumptions = estimate::assumptions(reading, &counter);
        let has_guess = Stratum::is_guessed(&assumptions);
        let total = boundaries.last().filter(|_| is_shaped).map(|it| it.total);
        let shape = total.and_then(|it| self.shape(reading, known, &count, has_guess, it, reply));
        let lesson = model.and_then(|it| lesson(it, reading, &count, &assumptions, billed));
        Recorded {
            boundaries,
            shape,
            lesson,
        }
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
}

/// What a billed call teaches about its model; `None` if nothing was counted, or if the request
/// does not tell what was billed.
fn lesson(
    model: String,
    reading: &Reading<'_>,
    count: &Count,
    assumptions: &Assumptions,
    billed: Billed,
) -> Option<Lesson> {
    let is_untold = |name: &&str| UNTOLD.iter().any(|untold| name.starts_with(untold));
    if count.tokens == 0
        || billed.input_tokens <= count.known.tokens
        || assumptions.contains(FAILED_VOCABULARY)
        || assumptions.iter().any(is_untold)
    {
        return None;
    }
    Some(Lesson {
        model,
        features: count.features,
        counted: count.tokens,
        billed: billed.input_tokens - count.known.tokens,
        derived: count.known.derived_tokens,
        handicap: match &*reading.profile.quality {
            "exact" => 4,
            _ => 0,
        },
    })
}
