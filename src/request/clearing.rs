//! Reads what a body asks its provider to do to the request, and does what has a public rule.
use super::bound::Notes;
use super::data::Data;
use super::edit::{ClearToolUses, ContextEdit, Inputs, Trigger};
use super::field::{array, first, is_truthy, object, string};
use super::model::{Message, Part, ToolResult};
use crate::json::{Kind, Value};
use std::collections::VecDeque;

/// The text in place of a result that was cleared. Anthropic does not say its words; these are some
/// eight tokens.
const PLACEHOLDER: &str = "[Old tool result content cleared]";

/// Where Anthropic's documentation says what counts if a request does not: Context editing, 2026-10.
const CLEARING_TRIGGER_TOKENS: u64 = 100_000;
const KEPT_TOOL_USES: u64 = 3;
const KEPT_THINKING_TURNS: u64 = 1;
/// Edits that are applied; each may take a count of the whole request.
const MAX_EDITS: usize = 8;
const COMPACTION_TRIGGER_TOKENS: u64 = 150_000;

/// The edits that the body asks for, in order.
pub(super) fn read_edits<'d>(fields: Value<'d>, assumptions: &mut Notes) -> Vec<ContextEdit<'d>> {
    let asked = first(fields, &["context_management", "contextManagement"]);
    let list = array(asked).or_else(|| array(object(asked)?.get("edits")));
    let mut edits = list.into_iter().flat_map(Value::items);
    let counted = edits.by_ref().take(MAX_EDITS);
    let mut known_edits: Vec<_> = counted
        .filter_map(|edit| {
            let known = read_edit(edit);
            if known.is_none() {
                assumptions.insert("unknown_context_edit");
            }
            known
        })
        .collect();
    if edits.next().is_some() {
        assumptions.insert("unknown_context_edit");
    }
    if string(fields.get("truncation")) == "auto" {
        known_edits.push(ContextEdit::Truncate);
    }
    known_edits
}

fn read_edit(edit: Value<'_>) -> Option<ContextEdit<'_>> {
    let amount = |name| {
        let object = object(edit.get(name))?;
        Some((string(object.get("type")), object.get("value")?.as_u64()?))
    };
    let kind = string(edit.get("type"));
    if kind.starts_with("clear_tool_uses") {
        let trigger = match amount("trigger") {
            Some(("tool_uses", value)) => Trigger::ToolUses(value),
            Some((_, value)) => Trigger::Tokens(value),
            None => Trigger::Tokens(CLEARING_TRIGGER_TOKENS),
        };
        let inputs = match edit.get("clear_tool_inputs") {
            Some(names) if names.kind() == Kind::Array => Inputs::Of(texts(Some(names))),
            Some(value) if is_truthy(value) => Inputs::All,
            _ => Inputs::None,
        };
        return Some(ContextEdit::ClearToolUses(ClearToolUses {
            trigger,
            kept_tool_uses: amount("keep").map_or(KEPT_TOOL_USES, |(_, value)| value),
            least_tokens: amount("clear_at_least").map_or(0, |(_, value)| value),
            excluded_tools: texts(edit.get("exclude_tools")),
            inputs,
        }));
    }
    if kind.starts_with("clear_thinking") {
        let keeps_all = string(edit.get("keep")) == "all"
            || object(edit.get("keep")).is_some_and(|keep| string(keep.get("type")) == "all");
        let kept_turns = amount("keep").map_or(KEPT_THINKING_TURNS, |(_, value)| value);
        return Some(ContextEdit::ClearThinking {
            kept_turns: (!keeps_all).then_some(kept_turns),
        });
    }
    let is_compaction = kind.starts_with("compact");
    is_compaction.then(|| ContextEdit::Compact {
        trigger_tokens: amount("trigger")
            .map(|(_, value)| value)
            .or_else(|| edit.get("compact_threshold")?.as_u64())
            .unwrap_or(COMPACTION_TRIGGER_TOKENS),
    })
}

fn texts(list: Option<Value<'_>>) -> Vec<&str> {
    let items = array(list).into_iter().flat_map(Value::items);
    items.filter_map(Value::as_str).collect()
}

/// Number of calls of tools in `messages` that a client runs.
pub fn tool_uses(messages: &[Message<'_>]) -> u64 {
    let parts = messages.iter().flat_map(|message| &message.parts);
    parts
        .filter(|part| matches!(part, Part::ToolResult(_)))
        .count() as u64
}

impl<'d> ClearToolUses<'d> {
    /// Clears the results in `messages` but the last ones; how many. Linear.
    pub fn clear(&self, messages: &mut [Message<'d>]) -> u64 {
        let results = tool_uses(messages);
        let mut left = results.saturating_sub(self.kept_tool_uses);
        let mut cleared = 0;
        // A result answers the first call that has none yet; the neutral form has no ids.
        let mut open: VecDeque<(usize, usize)> = VecDeque::new();
        for index in 0..messages.len() {
            for nth in 0..messages[index].parts.len() {
                match &messages[index].parts[nth] {
                    Part::ToolCall(call) if !call.is_run_by_vendor => open.push_back((index, nth)),
                    Part::ToolResult(_) if left > 0 => {
                        left -= 1;
                        let call = open.pop_front();
                        cleared += u64::from(self.clear_pair(messages, (index, nth), call));
                    }
                    _ => {}
                }
            }
        }
        cleared
    }

    fn clear_pair(
        &self,
        messages: &mut [Message<'d>],
        (index, nth): (usize, usize),
        call: Option<(usize, usize)>,
    ) -> bool {
        if let Some(call) = call
            && let Some(Part::ToolCall(call)) = messages[call.0].parts.get_mut(call.1)
        {
            if self.excluded_tools.contains(&&*call.name) {
                return false;
            }
            let clears_input = match &self.inputs {
                Inputs::None => false,
                Inputs::All => true,
                Inputs::Of(names) => names.contains(&&*call.name),
            };
            if clears_input {
                call.arguments = Data::text("{}");
            }
        }
        match messages[index].parts.get_mut(nth) {
            Some(Part::ToolResult(ToolResult { parts, .. })) => {
                *parts = vec![Part::Text(PLACEHOLDER.into())];
                true
            }
            _ => false,
        }
    }
}

/// Drops the thinking in `messages` but that of the last turns of the assistant; whether there was any.
pub fn clear_thinking(messages: &mut [Message<'_>], kept_turns: u64) -> bool {
    let is_turn = |message: &Message<'_>| {
        let is_result = |part: &Part<'_>| matches!(part, Part::ToolResult(_));
        message.role == "user" && !message.parts.iter().any(is_result)
    };
    let mut turns = 0;
    let mut cleared = false;
    for message in messages.iter_mut().rev() {
        if turns >= kept_turns {
            let before = message.parts.len();
            let is_thinking = |part: &Part<'_>| matches!(part, Part::Reasoning { .. });
            message.parts.retain(|part| !is_thinking(part));
            cleared |= message.parts.len() < before;
        }
        turns += u64::from(is_turn(message));
    }
    cleared
}
