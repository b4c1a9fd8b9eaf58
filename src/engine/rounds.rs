//! Answers on whose way the vendor ran tools.
//!
//! There the vendor asks its model again with what a tool returned, and bills these rounds as input of
//! the one call. What the answer holds of them is in the total of that call; only what the last
//! round said is new to the next.
use crate::request::{Message, Part};

/// `messages` without the earlier rounds of the answer that begins at `start`, and where what is new
/// begins; `None` if the vendor ran no tool in it. Linear in the messages.
///
/// Reasoning belongs to the earlier rounds: some vendors return what their tools found as such, and the
/// last thought is seldom billed again.
pub(super) fn without_rounds<'d>(
    messages: &[Message<'d>],
    start: usize,
) -> Option<(Vec<Message<'d>>, usize)> {
    let (mut has_run, mut end) = (false, None);
    let answer = messages.iter().enumerate().skip(start);
    for (index, message) in answer.take_while(|(_, message)| message.role == "assistant") {
        for (nth, part) in message.parts.iter().enumerate() {
            let is_run = matches!(part, Part::ToolCall(call) if call.is_run_by_vendor);
            if is_run || matches!(part, Part::ToolResult(_) | Part::Reasoning { .. }) {
                end = Some((index, nth + 1));
            }
            has_run |= is_run;
        }
    }
    let (index, part_count) = end.filter(|_| has_run)?;
    let mut messages = messages.to_vec();
    messages[index].parts.drain(..part_count);
    let is_gone = messages[index].parts.is_empty();
    Some((messages, index + usize::from(is_gone)))
}
