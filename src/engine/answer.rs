//! The estimate for a request that was read: the known total, and a count of all beyond it.
use crate::count::{Counter, last_user_index};
use crate::engine::bounds::Stratum;
use crate::engine::cache_points::cache_points;
use crate::engine::difference::difference;
use crate::engine::edited::Edited;
use crate::engine::estimate::{self, About, Count, Estimate, RequestCount, Source};
use crate::engine::half_bill::unbilled_tokens;
use crate::engine::input::Call;
use crate::engine::learn::Learner;
use crate::engine::lookup::Known;
use crate::engine::reading::{FAILED_VOCABULARY, Reading};
use crate::engine::rounds;
use crate::known::{KnownPrefix, KnownTotal};
use crate::profile::Quality;

/// The estimate for a request, `known` of it known already. Linear in the part that is not known.
pub(super) fn estimate_from(reading: &Reading<'_>, known: &Known) -> Estimate {
    counted_estimate(reading, known).0
}

/// As [`estimate_from`], with the places that the provider may have cached if `call` wants them.
pub(super) fn estimate_with_cache_points(
    reading: &Reading<'_>,
    known: &Known,
    call: &Call<'_>,
) -> Estimate {
    let mut estimate = estimate_from(reading, known);
    if call.wants_cache_points {
        estimate.cache_points = Some(Box::new(cache_points(reading, call.provider, known)));
    }
    estimate
}

/// As [`estimate_from`], with the count of the whole: at once if nothing is known.
pub(super) fn estimate_and_count(reading: &Reading<'_>, known: &Known) -> (Estimate, RequestCount) {
    let (estimate, count, counter) = counted_estimate(reading, known);
    let request_count = match known.prefix.is_none() && count.edit.is_none() {
        true => request_count(reading, &counter, count.context_tokens, count.messages),
        false => count_whole(reading),
    };
    (estimate, request_count)
}

fn counted_estimate<'r>(reading: &'r Reading<'_>, known: &Known) -> (Estimate, Count, Counter<'r>) {
    let (count, counter) = difference(reading, known.prefix, &known.near, known.learner.as_ref())
        .unwrap_or_else(|| count_beyond(reading, known.prefix));
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
    if let Some(tokens) = by_other_model(known, &count, &estimate) {
        let own = estimate;
        estimate = estimate::estimate(reading, &counter, source, &count, tokens);
        estimate.low = estimate.low.min(own.low);
        estimate.high = estimate.high.max(own.high);
        estimate.assumptions.insert("other_model_bill");
    }
    // Bills that contradict each other are not all true, so both counts may be right.
    let is_disputed = known.learner.as_ref().is_some_and(Learner::is_disputed);
    if counted != count.tokens && is_disputed && source != Source::Exact {
        let plain = estimate::estimate(reading, &counter, source, &count, count.tokens);
        estimate.low = estimate.low.min(plain.low);
        estimate.high = estimate.high.max(plain.high);
    }
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
    if source != Source::Exact {
        widen_unsettled(known, &mut estimate);
    }
    if let Some(edited) = reading.edited.as_ref().filter(|_| source != Source::Exact) {
        widen(edited, &mut estimate);
    }
    (estimate, count, counter)
}

/// Widens the bounds of `estimate` if its provider has lately begun to count otherwise.
fn widen_unsettled(known: &Known, estimate: &mut Estimate) {
    let change = known.unsettled;
    let tokens = change.map_or(0, |it| it.of(estimate.estimated_tokens));
    if tokens > 0 {
        estimate.assumptions.insert("changed_provider");
        estimate.low = estimate.low.saturating_sub(tokens);
        estimate.high = estimate.high.saturating_add(tokens);
    }
}

/// The count of all beyond `prefix`: of the whole, if there is none. Linear in the part that it counts.
pub(super) fn count_beyond<'r>(
    reading: &'r Reading<'_>,
    prefix: Option<KnownPrefix>,
) -> (Count, Counter<'r>) {
    let request = &reading.request;
    let start = prefix.map_or(0, |prefix| prefix.message_count);
    let without_rounds = prefix.and_then(|_| rounds::without_rounds(&request.messages, start));
    let ((context_tokens, messages, tally, dropped, new_tokens), counter) =
        reading.counted(|counter| {
            let context = match prefix {
                None => counter.context(request) + reading.left_out.context,
                Some(_) => 0,
            };
            let messages = counted_messages(reading, counter, start);
            let tally = counter.tally();
            let dropped = dropped_reasoning(reading, counter, prefix);
            let new_tokens = match &without_rounds {
                Some((all, start)) => counter.messages(all, *start).sum::<u64>(),
                None => messages.iter().sum(),
            };
            (context, messages, tally, dropped, new_tokens)
        });
    let tokens = context_tokens + new_tokens;
    let mut known = prefix.map_or(KnownTotal::default(), |prefix| prefix.total);
    if let Some(prefix) = prefix.filter(|prefix| prefix.message_count < request.messages.len()) {
        let unbilled = unbilled_tokens(reading, prefix);
        known.tokens = known.tokens.saturating_add(unbilled);
        known.derived_tokens = known.derived_tokens.saturating_add(unbilled);
    }
    known.tokens = known.tokens.saturating_sub(dropped);
    let mut has_other_options = false;
    if prefix.is_some() {
        (known, has_other_options) = reading.with_options(known);
    }
    let count = Count {
        known,
        tokens,
        context_tokens,
        messages,
        new_message_count: request.messages.len() - start,
        features: estimate::features(request, prefix.is_none(), start, tokens, tally),
        tally,
        dropped_tokens: dropped,
        has_other_options,
        edit: None,
    };
    (count, counter)
}

/// The tokens of each message from `start` on.
fn counted_messages(reading: &Reading<'_>, counter: &mut Counter<'_>, start: usize) -> Vec<u64> {
    let mut tokens: Vec<u64> = counter.messages(&reading.request.messages, start).collect();
    if let (0, Some(first)) = (start, tokens.first_mut()) {
        *first += reading.left_out.first;
    }
    tokens
}

/// The whole request counted here, without what is known.
pub(super) fn count_whole(reading: &Reading<'_>) -> RequestCount {
    let ((context_tokens, message_tokens), counter) = reading.counted(|counter| {
        let context = counter.context(&reading.request) + reading.left_out.context;
        (context, counted_messages(reading, counter, 0))
    });
    request_count(reading, &counter, context_tokens, message_tokens)
}

fn request_count(
    reading: &Reading<'_>,
    counter: &Counter<'_>,
    context_tokens: u64,
    message_tokens: Vec<u64>,
) -> RequestCount {
    let mut assumptions = estimate::assumptions(reading, counter);
    let mut quality = estimate::quality(reading, counter, &assumptions);
    if let Some(edited) = &reading.edited {
        assumptions.extend(&edited.assumptions);
        if edited.is_unsure() {
            quality = Quality::Heuristic;
        }
    }
    RequestCount {
        tokens: context_tokens + message_tokens.iter().sum::<u64>(),
        context_tokens,
        message_tokens,
        encoding: counter.encoding().to_owned(),
        quality,
        assumptions,
        about: About::of(reading),
    }
}

/// The bill of another model for the request so far, and the count of the new messages, if the size of the
/// request had to be guessed: then that bill is nearer than a count, else it is not.
fn by_other_model(known: &Known, count: &Count, own: &Estimate) -> Option<u64> {
    let shape = known.other.as_ref().filter(|_| count.edit.is_none())?;
    let new = &count.messages[shape.messages.len()..];
    let tokens = shape.total.tokens.saturating_add(new.iter().sum());
    Stratum::is_guessed(&own.assumptions).then_some(tokens)
}

/// Applies to `estimate` the edits that the provider makes to the request.
fn widen(edited: &Edited, estimate: &mut Estimate) {
    estimate.assumptions.extend(&edited.assumptions);
    estimate.low = estimate.low.saturating_sub(edited.below);
    estimate.high = estimate.high.saturating_add(edited.above);
    if edited.is_unsure() {
        estimate.quality = Quality::Heuristic;
    }
    let Some(most) = edited.truncated_at else {
        return;
    };
    estimate.high = estimate.high.min(most);
    if estimate.tokens <= most {
        return;
    }
    estimate.assumptions.insert("server_truncation");
    estimate.quality = Quality::Heuristic;
    // What is dropped is dropped by whole items, as large as they may be.
    estimate.low = 0;
    estimate.known_tokens = estimate.known_tokens.min(most);
    estimate.tokens = most;
    estimate.estimated_tokens = estimate.tokens - estimate.known_tokens;
}

/// Reasoning that the total at `prefix` holds and that a new turn of the user drops: as it was
/// billed if that is known, else as it is counted.
fn dropped_reasoning(
    reading: &Reading<'_>,
    counter: &mut Counter<'_>,
    prefix: Option<KnownPrefix>,
) -> u64 {
    let all = &reading.request.messages;
    let Some(prefix) = prefix else { return 0 };
    let then = last_user_index(&all[..prefix.message_count]);
    if !reading.profile.drops_reasoning() || last_user_index(all) <= then {
        return 0;
    }
    match prefix.total.reasoning_tokens {
        0 => turn_reasoning(reading, counter, prefix.message_count),
        known => known,
    }
}

/// Reasoning behind the user's last turn in the first `until` messages, counted.
pub(super) fn turn_reasoning(
    reading: &Reading<'_>,
    counter: &mut Counter<'_>,
    until: usize,
) -> u64 {
    let all = &reading.request.messages[..until];
    let start = last_user_index(all).map_or(0, |turn| turn + 1);
    let left_out = match start {
        0 | 1 => reading.left_out_reasoning,
        _ => 0,
    };
    let kept = all[start..].iter();
    left_out + kept.map(|message| counter.reasoning(message)).sum::<u64>()
}
