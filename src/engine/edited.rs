//! Edits that the provider makes to a request before it bills it, made to the request that was read.
//!
//! Known prefixes are of what the model sees, so the messages are changed before they are hashed: a total
//! that was billed for a cleared conversation is never taken for one that was not. A count of the whole says
//! whether a trigger is reached; where its bounds do not decide, both answers are within the
//! bounds of the estimate, and the bill is remembered as one that may be off by the difference.
use crate::bpe::MemoKey;
use crate::count::{Counter, TextCounter};
use crate::engine::bounds::{Scope, Uncertain};
use crate::profile::{ModelLimits, Profile};
use crate::request::{
    ClearToolUses, ContextEdit, Message, Request, Trigger, clear_thinking, tool_uses,
};

/// The placeholder of a cleared result may cost so many tokens more or less than is assumed.
const PLACEHOLDER_SLACK_TOKENS: u64 = 12;

/// A trigger is close within the bounds and this share of a count more: the bounds hold for nine of ten.
const TRIGGER_MARGIN_PERCENT: u64 = 2;

/// The edits of one request, and what they make uncertain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Edited {
    pub(super) assumptions: Vec<&'static str>,
    /// The bill may be lower than the bounds by this.
    pub(super) below: u64,
    /// The bill may be higher than the bounds by this.
    pub(super) above: u64,
    /// Tokens that the bill may be off by, if it was not known whether something was cleared.
    pub(super) uncertain_tokens: u64,
    /// The provider drops all beyond this many tokens.
    pub(super) truncated_at: Option<u64>,
}

/// Tokens of a request, and the bounds of that.
#[derive(Clone, Copy)]
struct Size {
    tokens: u64,
    low: u64,
    high: u64,
}

/// Does to `request` what its provider would do; `None` if it is asked for nothing. Counts the whole of the
/// request for each thing that it is asked for.
pub(super) fn edited(
    request: &mut Request<'_>,
    sizer: Sizer<'_>,
    limits: &ModelLimits,
) -> Option<Edited> {
    let edits = std::mem::take(&mut request.edits);
    if edits.is_empty() {
        return None;
    }
    let mut edited = Edited::default();
    for edit in &edits {
        match edit {
            ContextEdit::ClearToolUses(edit) => edited.clear_tool_uses(request, edit, &sizer),
            ContextEdit::ClearThinking { kept_turns } => {
                edited.clear_thinking(request, *kept_turns, &sizer);
            }
            // The summary is not known, so the bill may be anything below the count.
            ContextEdit::Compact { trigger_tokens }
                if sizer.size(request).high > *trigger_tokens =>
            {
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

impl Edited {
    /// True if the bill may be less or more than a count of the messages that are left.
    pub(super) fn is_unsure(&self) -> bool {
        self.below > 0 || self.above > 0
    }

    /// Clears results of tools if the trigger is reached by the count. Where the bounds of the count do not
    /// decide it, the bill may be that of the other case, so the bounds are widened to hold both.
    fn clear_tool_uses<'d>(
        &mut self,
        request: &mut Request<'d>,
        edit: &ClearToolUses<'d>,
        sizer: &Sizer<'_>,
    ) {
        let before = sizer.size(request);
        let mut messages = request.messages.clone();
        let count = edit.clear(&mut messages);
        let (is_reached, is_uncertain) = match edit.trigger {
            Trigger::Tokens(tokens) => (
                before.tokens > tokens,
                before.low <= tokens && tokens < before.high,
            ),
            Trigger::ToolUses(uses) => (tool_uses(&messages) > uses, false),
        };
        if count == 0 || !(is_reached || is_uncertain) {
            return;
        }
        let kept = std::mem::replace(&mut request.messages, messages);
        let saved = before.tokens.saturating_sub(sizer.size(request).tokens);
        let doubtful = if is_uncertain { saved } else { 0 };
        self.uncertain_tokens += doubtful;
        if !is_reached || saved < edit.least_tokens {
            request.messages = kept;
            self.below += doubtful;
        } else {
            self.below += count * PLACEHOLDER_SLACK_TOKENS;
            self.above += count * PLACEHOLDER_SLACK_TOKENS + doubtful;
        }
        self.assumptions.push("cleared_tool_uses");
    }

    /// Clears thinking of all but the last `kept` turns. The thinking that is left may be billed, although the
    /// profile takes it for dropped at a new turn.
    fn clear_thinking(&mut self, request: &mut Request<'_>, kept: Option<u64>, sizer: &Sizer<'_>) {
        if kept.is_some_and(|kept| clear_thinking(&mut request.messages, kept)) {
            self.assumptions.push("cleared_thinking");
        }
        let more = sizer.thinking(request);
        if more > 0 && kept != Some(1) {
            self.assumptions.push("kept_thinking");
            self.above += more;
        }
    }
}

/// Counts whole requests for the triggers of edits.
pub(super) struct Sizer<'p> {
    pub profile: &'p Profile,
    pub is_known_model: bool,
    /// The user's vocabulary for the model.
    pub custom: Option<&'p dyn TextCounter>,
    pub memo_key: MemoKey,
}

impl Sizer<'_> {
    fn size(&self, request: &Request<'_>) -> Size {
        let mut counter = self.counter(request);
        let context = counter.context(request);
        let messages: u64 = counter.messages(&request.messages, 0).sum();
        let tokens = context.saturating_add(messages);
        let (assumptions, tally) = (counter.assumptions(), counter.tally());
        let uncertain = Uncertain::of(Scope::Whole, request, 0, assumptions, &tally, tokens);
        let (low, high) = uncertain.interval(self.profile, self.is_known_model, tokens);
        let margin = tokens / (100 / TRIGGER_MARGIN_PERCENT);
        Size {
            tokens,
            low: low.saturating_sub(margin),
            high: high.saturating_add(margin),
        }
    }

    /// Tokens of all thinking.
    fn thinking(&self, request: &Request<'_>) -> u64 {
        let mut counter = self.counter(request);
        let reasoning = |message: &Message<'_>| counter.reasoning(message);
        request.messages.iter().map(reasoning).sum()
    }

    fn counter(&self, request: &Request<'_>) -> Counter<'_> {
        Counter::new(self.profile, request, self.custom, self.memo_key)
    }
}
