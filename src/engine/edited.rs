//! What the provider does to a request before it bills it, done to what was read.
//!
//! Known prefixes are of what the model sees, so the messages are changed before they are hashed: a total
//! that was billed for a cleared conversation is never taken for one that was not. Whether a trigger is
//! reached is told by a count of the whole; where its bounds do not decide, both answers are within the
//! bounds of the estimate, and the bill is remembered as one that may be off by the difference.
use super::Engine;
use crate::bpe::MemoKey;
use crate::count::{Counter, TextCounter};
use crate::engine::bounds::{Scope, Uncertain};
use crate::profile::{ModelLimits, Profile};
use crate::request::{ContextEdit, Message, Request, Trigger, clear_thinking, tool_uses};

/// What a result that was cleared may cost more or less than what is assumed.
const PLACEHOLDER_SLACK_TOKENS: u64 = 12;

/// A trigger is close within the bounds and this part of a count more: the bounds hold for nine of ten.
const TRIGGER_MARGIN: u64 = 50;

/// What was done to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Edited {
    /// What is assumed.
    pub(super) assumptions: Vec<&'static str>,
    /// The bill may be so much lower than the bounds say.
    pub(super) below: u64,
    /// And so much higher.
    pub(super) above: u64,
    /// What the bill may be off by, if it was not known whether something was cleared.
    pub(super) uncertain_tokens: u64,
    /// The provider drops what is beyond this.
    pub(super) truncated_at: Option<u64>,
}

/// Tokens of a request, and the bounds of that.
#[derive(Clone, Copy)]
struct Size {
    tokens: u64,
    low: u64,
    high: u64,
}

impl Edited {
    /// Whether what is billed may be less or more than a count of what is left.
    pub(super) fn is_unsure(&self) -> bool {
        self.below > 0 || self.above > 0
    }
}

impl Engine {
    /// Does to `request` what its provider would do; `None` if it is asked for nothing. Counts the whole
    /// of the request for each thing that it is asked for.
    pub(super) fn edited(
        &self,
        request: &mut Request<'_>,
        resolved: (&Profile, bool, &ModelLimits),
        memo_key: MemoKey,
    ) -> Option<Edited> {
        let (profile, is_known_model, limits) = resolved;
        let edits = std::mem::take(&mut request.edits);
        if edits.is_empty() {
            return None;
        }
        let mut edited = Edited::default();
        for edit in &edits {
            let size = || self.size(request, profile, is_known_model, memo_key);
            match edit {
                ContextEdit::ClearToolUses(edit) => {
                    let before = size();
                    let mut messages = request.messages.clone();
                    let count = edit.clear(&mut messages);
                    let is_uncertain = match edit.trigger {
                        Trigger::Tokens(tokens) => before.low <= tokens && tokens < before.high,
                        Trigger::ToolUses(_) => false,
                    };
                    let is_reached = match edit.trigger {
                        Trigger::Tokens(tokens) => before.tokens > tokens,
                        Trigger::ToolUses(uses) => tool_uses(&messages) > uses,
                    };
                    if count == 0 || !(is_reached || is_uncertain) {
                        continue;
                    }
                    let kept = std::mem::replace(&mut request.messages, messages);
                    let after = self.size(request, profile, is_known_model, memo_key);
                    let saved = before.tokens.saturating_sub(after.tokens);
                    if is_uncertain {
                        edited.uncertain_tokens += saved;
                    }
                    if !is_reached || saved < edit.least_tokens {
                        request.messages = kept;
                        edited.below += if is_uncertain { saved } else { 0 };
                    } else {
                        edited.below += count * PLACEHOLDER_SLACK_TOKENS;
                        edited.above += count * PLACEHOLDER_SLACK_TOKENS;
                        edited.above += if is_uncertain { saved } else { 0 };
                    }
                    edited.assumptions.push("cleared_tool_uses");
                }
                ContextEdit::ClearThinking { kept_turns } => {
                    let kept = *kept_turns;
                    if kept.is_some_and(|kept| clear_thinking(&mut request.messages, kept)) {
                        edited.assumptions.push("cleared_thinking");
                    }
                    let more = self.kept_thinking(request, profile, memo_key);
                    if more > 0 && kept != Some(1) {
                        edited.assumptions.push("kept_thinking");
                        edited.above += more;
                    }
                }
                ContextEdit::Compact { trigger_tokens } if size().high > *trigger_tokens => {
                    edited.assumptions.push("server_compaction");
                    edited.below = u64::MAX;
                }
                ContextEdit::Compact { .. } => {}
                ContextEdit::Truncate => {
                    edited.truncated_at = limits.max_input_tokens.or(limits.window_tokens);
                }
            }
        }
        request.edits = edits;
        Some(edited)
    }

    fn size(
        &self,
        request: &Request<'_>,
        profile: &Profile,
        is_known_model: bool,
        key: MemoKey,
    ) -> Size {
        let mut counter = Counter::new(profile, request, self.custom(request, profile), key);
        let context = counter.context(request);
        let messages: u64 = counter.messages(&request.messages, 0).sum();
        let tokens = context.saturating_add(messages);
        let (assumptions, tally) = (counter.assumptions(), counter.tally());
        let uncertain = Uncertain::of(Scope::Whole, request, 0, assumptions, &tally, tokens);
        let (low, high) = uncertain.interval(profile, is_known_model, tokens);
        let more = tokens / TRIGGER_MARGIN;
        Size {
            tokens,
            low: low.saturating_sub(more),
            high: high.saturating_add(more),
        }
    }

    fn custom<'e>(
        &'e self,
        request: &Request<'_>,
        profile: &Profile,
    ) -> Option<&'e dyn TextCounter> {
        self.vocabularies.of(&request.model, profile)
    }

    /// Thinking that the profile takes for dropped at a new turn.
    fn kept_thinking(&self, request: &Request<'_>, profile: &Profile, key: MemoKey) -> u64 {
        let mut counter = Counter::new(profile, request, self.custom(request, profile), key);
        let reasoning = |message: &Message<'_>| counter.reasoning(message);
        request.messages.iter().map(reasoning).sum()
    }
}
