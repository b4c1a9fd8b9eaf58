//! Estimates by difference: the total of the nearest known conversation, minus the messages that were
//! removed, plus those that were added.
use crate::count::{Counter, has_results, last_user_index};
use crate::engine::bounds::{Scope, Stratum, Uncertain};
use crate::engine::estimate::{self, Count, Edit};
use crate::engine::learn::{Features, Learner};
use crate::engine::lookup::LEAST_GAIN_TOKENS;
use crate::engine::reading::{FAILED_VOCABULARY, Reading, signed};
use crate::engine::shape::{Overlap, Shape, Sum};
use crate::known::{KnownPrefix, KnownTotal};
use std::sync::Arc;

/// A known conversation that may be nearer to a request than its known prefix.
struct Near<'k> {
    shape: &'k Shape,
    overlap: Overlap,
    has_other_context: bool,
    /// Tokens that need no count, less those that were removed.
    gain: i64,
}

impl<'k> Near<'k> {
    /// `None` if part of the known prefix is not in `shape`, or if more was removed than needs no count.
    fn new(reading: &Reading<'_>, shape: &'k Shape, start: usize) -> Option<Near<'k>> {
        let messages = &reading.request.messages;
        let overlap = shape.overlap(&reading.digests, start, |index| {
            has_results(&messages[index])
        });
        let has_other_context = shape.context != reading.prefixes[0];
        let context = match (has_other_context, start) {
            (true, _) => -shape.context_tokens,
            (false, 0) => shape.context_tokens,
            (false, _) => 0,
        };
        let gain = signed(overlap.kept.tokens) - signed(overlap.removed.tokens) + context;
        let least = if start > 0 {
            signed(LEAST_GAIN_TOKENS)
        } else {
            0
        };
        let has_prefix = overlap.places[..start].iter().all(Option::is_some);
        (has_prefix && gain > least).then_some(Near {
            shape,
            overlap,
            has_other_context,
            gain,
        })
    }

    /// Scope, stratum and tokens that are not billed yet if all beyond `prefix` is counted.
    fn beyond(&self, counted: &Counted, prefix: Option<KnownPrefix>) -> (Scope, Stratum, u64) {
        let kept = self.overlap.kept;
        let tokens = counted.added.tokens + kept.tokens;
        let stratum = counted.added.stratum.max(kept.stratum);
        if let Some(prefix) = prefix {
            return (Scope::New, stratum, tokens + prefix.total.derived_tokens);
        }
        let context = counted.context_tokens.unwrap_or(self.shape.context_tokens);
        let stratum = stratum.max(counted.context_stratum);
        (Scope::Whole, stratum, tokens.saturating_add_signed(context))
    }

    /// The answer by difference; messages that were removed are corrected as text by what was learned.
    fn count(&self, counted: &Counted, learner: Option<&Learner>) -> (Edit, Count) {
        let (total, removed, added) = (self.shape.total, self.overlap.removed, counted.added);
        let features = |sum: Sum| Features {
            text_tokens: sum.tokens,
            messages: sum.messages,
            ..Features::default()
        };
        let removed_tokens = match learner {
            Some(learner) if removed.messages > 0 => {
                learner.corrected(&features(removed), removed.tokens)
            }
            _ => removed.tokens,
        };
        let then = self.shape.context_tokens;
        let now = counted.context_tokens.unwrap_or(then);
        let (new_context, context, uncertain) = match self.has_other_context {
            true => (now, -then, then.unsigned_abs()),
            false => (0, now - then, now.abs_diff(then)),
        };
        let reasoning = counted.reasoning_tokens;
        let known = KnownTotal {
            tokens: total
                .tokens
                .saturating_sub(removed_tokens)
                .saturating_add_signed(context.saturating_add(reasoning)),
            derived_tokens: total
                .derived_tokens
                .saturating_add(removed_tokens + uncertain + reasoning.unsigned_abs())
                .max(1),
            reasoning_tokens: 0,
            options: total.options,
        };
        let messages = added.stratum.max(removed.stratum);
        let edit = Edit {
            stratum: match self.has_other_context {
                true => messages.max(counted.context_stratum),
                false => messages,
            },
            has_other_history: self.has_other_history(),
            has_other_context: self.has_other_context,
            is_learned: removed_tokens != removed.tokens,
        };
        let count = Count {
            known,
            tokens: added.tokens.saturating_add_signed(new_context),
            new_message_count: usize::try_from(added.messages).unwrap_or(usize::MAX),
            features: features(added),
            ..Count::default()
        };
        (edit, count)
    }

    /// True if messages were removed or added between others.
    fn has_other_history(&self) -> bool {
        let places = self.overlap.places.iter().take(self.shape.messages.len());
        let in_place = places.zip(0..).all(|(place, index)| *place == Some(index));
        self.overlap.removed.messages > 0 || !in_place
    }
}

/// The counted difference of a request and a known conversation.
struct Counted {
    added: Sum,
    /// The context (all before the messages), if it may cost another number of tokens now.
    context_tokens: Option<i64>,
    /// Of the context, then and now.
    context_stratum: Stratum,
    /// Reasoning that is billed now and was not then, less that which was.
    reasoning_tokens: i64,
}

/// The count of the changes against the nearest known conversation; `None` if there is none, or if it is
/// not expected to be nearer to the bill than a count of all beyond the known prefix.
///
/// Two things must hold: fewer tokens are added and removed than would be counted, and the bounds of
/// the difference are no wider than those of the count.
pub(super) fn difference<'r>(
    reading: &'r Reading<'_>,
    prefix: Option<KnownPrefix>,
    near: &[Arc<Shape>],
    learner: Option<&Learner>,
) -> Option<(Count, Counter<'r>)> {
    let start = prefix.map_or(0, |prefix| prefix.message_count);
    let near = near
        .iter()
        .filter_map(|shape| Near::new(reading, shape, start));
    let near = near.reduce(|best, it| if it.gain > best.gain { it } else { best })?;
    let (mut counted, counter) = reading.counted(|counter| counted(reading, &near, counter));
    if let Some(tokens) = &mut counted.context_tokens {
        *tokens -= reading.options_tokens();
    }
    if Stratum::is_guessed(&estimate::assumptions(reading, &counter)) {
        counted.added.stratum = Stratum::Undetermined;
        counted.context_stratum = Stratum::Undetermined;
    }
    // What is not counted well may be what changed.
    if near.has_other_context && counted.context_stratum == Stratum::Undetermined {
        return None;
    }
    let is_learned = !counter.assumptions().contains(FAILED_VOCABULARY);
    let learner = learner.filter(|_| is_learned);
    let (edit, count) = near.count(&counted, learner);
    let width = |(scope, stratum, uncertain)| {
        let uncertain = Uncertain::lump(scope, stratum, uncertain);
        uncertain.width(&reading.profile, reading.is_known_model)
    };
    let uncertain = count.tokens.saturating_add(count.known.derived_tokens);
    let by_difference = width((edit.scope(), edit.stratum, uncertain));
    if by_difference > width(near.beyond(&counted, prefix)) {
        return None;
    }
    let (known, has_other_options) = reading.with_options(count.known);
    let edit = Some(edit);
    let count = Count {
        known,
        has_other_options,
        edit,
        ..count
    };
    Some((count, counter))
}

/// Counts what was added, and what else costs another number of tokens now.
fn counted(reading: &Reading<'_>, near: &Near<'_>, counter: &mut Counter<'_>) -> Counted {
    let (request, places) = (&reading.request, &near.overlap.places);
    let is_new = |index: usize| places[index].is_none();
    // Some contexts depend on whether a system message comes first.
    let is_recounted = near.has_other_context || places.first() != Some(&Some(0));
    let context = |counter: &mut Counter<'_>| counter.context(request) + reading.left_out.context;
    let context_tokens = is_recounted.then(|| signed(context(counter)));
    let mut added = Sum::default();
    for (index, message) in request.messages.iter().enumerate() {
        if is_new(index) {
            added.messages += 1;
            added.stratum = added.stratum.max(Stratum::of_message(message));
        }
    }
    added.tokens = counter.messages_where(&request.messages, is_new).sum();
    added.tokens += u64::from(places.first() == Some(&None)) * reading.left_out.first;
    let mut reasoning_tokens = 0;
    if reading.profile.drops_reasoning() {
        let now = last_user_index(&request.messages);
        for (index, place) in places.iter().enumerate() {
            let Some(place) = *place else { continue };
            let was_billed = near.shape.turn.is_none_or(|turn| place > turn);
            let is_billed = now.is_none_or(|turn| index > turn);
            if was_billed != is_billed {
                let tokens = signed(counter.reasoning(&request.messages[index]));
                reasoning_tokens += if is_billed { tokens } else { -tokens };
            }
        }
    }
    let own = Stratum::of_context(request);
    Counted {
        added,
        context_tokens,
        context_stratum: own.max(near.shape.context_stratum),
        reasoning_tokens,
    }
}
