//! The estimate for what was read: the known total, and a count of what is beyond it.
use super::{Engine, Known, Reading};
use crate::count::{Counter, last_user_index};
use crate::engine::bounds::Stratum;
use crate::engine::edited::Edited;
use crate::engine::estimate::{self, About, Count, Estimate, RequestCount, Source};
use crate::engine::rounds;
use crate::known::{KnownPrefix, KnownTotal};
use crate::profile::Quality;

/// Assumed if the user's vocabulary could not count.
pub(super) const FAILED_VOCABULARY: &str = "failed_vocabulary";

impl Engine {
    /// The estimate for what was read, `known` of it known already. Linear in what is not known.
    pub(super) fn answer(&self, reading: &Reading<'_>, known: &Known) -> Estimate {
        self.counted_answer(reading, known).0
    }

    /// As [`Engine::answer`], with what is counted by [`Engine::count_read`]: at once if nothing is known.
    pub(super) fn answer_and_count(
        &self,
        reading: &Reading<'_>,
        known: &Known,
    ) -> (Estimate, RequestCount) {
        let (estimate, count, counter) = self.counted_answer(reading, known);
        let request_count = match known.prefix.is_none() && count.edit.is_none() {
            true => request_count(reading, &counter, count.context_tokens, count.messages),
            false => self.count_read(reading),
        };
        (estimate, request_count)
    }

    fn counted_answer<'r>(
        &'r self,
        reading: &'r Reading<'_>,
        known: &Known,
    ) -> (Estimate, Count, Counter<'r>) {
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
        if let Some(tokens) = by_other_model(known, &count, &estimate) {
            let own = estimate;
            estimate = estimate::estimate(reading, &counter, source, &count, tokens);
            estimate.low = estimate.low.min(own.low);
            estimate.high = estimate.high.max(own.high);
            estimate.assumptions.insert("other_model_bill");
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
            self.widen_unsettled(reading, &mut estimate);
        }
        if let Some(edited) = reading.edited.as_ref().filter(|_| source != Source::Exact) {
            widen(edited, &mut estimate);
        }
        (estimate, count, counter)
    }

    /// Tells by `estimate` that its provider has lately begun to count otherwise.
    fn widen_unsettled(&self, reading: &Reading<'_>, estimate: &mut Estimate) {
        let tokens = self.unsettled_tokens(reading, estimate.estimated_tokens);
        if tokens > 0 {
            estimate.assumptions.insert("changed_provider");
            estimate.low = estimate.low.saturating_sub(tokens);
            estimate.high = estimate.high.saturating_add(tokens);
        }
    }

    /// What is beyond `prefix`, counted: all, if there is none. Linear in what it counts.
    pub(super) fn count_beyond<'r>(
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
                let dropped = dropped_reasoning(reading, counter, prefix);
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
            tally,
            dropped_tokens: dropped,
            has_other_options,
            edit: None,
        };
        (count, counter)
    }

    /// `known` under the options of what was read, and whether they are others.
    pub(super) fn with_options(
        &self,
        reading: &Reading<'_>,
        mut known: KnownTotal,
    ) -> (KnownTotal, bool) {
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
    pub(super) fn options_tokens(&self, reading: &Reading<'_>) -> i64 {
        if reading.options == 0 {
            return 0;
        }
        let without = reading.request.context_without_options();
        let count = |request| self.counted(reading, |counter| counter.context(request)).0;
        let (with, without) = (count(&reading.request), count(&without));
        i64::try_from(with).unwrap_or(i64::MAX) - i64::try_from(without).unwrap_or(i64::MAX)
    }

    /// What was read, counted here without what is known.
    pub(super) fn count_read(&self, reading: &Reading<'_>) -> RequestCount {
        let ((context_tokens, message_tokens), counter) = self.counted(reading, |counter| {
            let context = counter.context(&reading.request);
            let messages: Vec<u64> = counter.messages(&reading.request.messages, 0).collect();
            (context, messages)
        });
        request_count(reading, &counter, context_tokens, message_tokens)
    }

    /// What `work` counts, and the counter that it used: with the user's vocabulary for the model
    /// if there is one that does not fail.
    pub(super) fn counted<'r, T>(
        &'r self,
        reading: &'r Reading<'_>,
        work: impl Fn(&mut Counter<'r>) -> T,
    ) -> (T, Counter<'r>) {
        let (profile, request) = (&*reading.profile, &reading.request);
        let custom = self.vocabularies.of(&request.model, profile);
        let key = reading.tenant.memo_key;
        let mut counter = Counter::new(profile, request, custom, key);
        let counted = work(&mut counter);
        if !counter.has_failed() {
            return (counted, counter);
        }
        let mut counter = Counter::new(profile, request, None, key);
        counter.assume(FAILED_VOCABULARY);
        (work(&mut counter), counter)
    }
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

/// What another model was billed for the request so far, and the count of what is new, if the request does
/// not tell its size: then that bill is nearer than a count. Where it does tell, the count is.
fn by_other_model(known: &Known, count: &Count, own: &Estimate) -> Option<u64> {
    let shape = known.other.as_ref().filter(|_| count.edit.is_none())?;
    let new = &count.messages[shape.messages.len()..];
    let tokens = shape.total.tokens.saturating_add(new.iter().sum());
    Stratum::is_guessed(&own.assumptions).then_some(tokens)
}

/// Tells by `estimate` what the provider does to the request.
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

pub(super) fn signed(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}
