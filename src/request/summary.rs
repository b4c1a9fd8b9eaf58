//! Summaries of what was said before them, which the provider made and takes in its place.
//!
//! Claude's compaction blocks stand for all before them, sent or not. OpenAI's compaction items do not stand for
//! what the user and the developer said: their four recorded calls are billed so, to 2 %.
use super::model::{Message, Part};
use super::signature::Signature;

/// Assumed if a summary is among the messages.
pub(crate) const COMPACTED: &str = "compacted_history";

/// Drops what the newest summary in `messages` stands for: messages before it stay in their places and say nothing.
pub(super) fn drop_summarized(messages: &mut [Message<'_>]) {
    let is_summary = |part: &Part<'_>| matches!(part, Part::Summary { .. });
    let mut newest = messages.iter().enumerate().rev();
    let newest =
        newest.find_map(|(index, it)| Some((index, it.parts.iter().rposition(is_summary)?)));
    let Some((index, nth)) = newest else { return };
    messages[index].parts.drain(..nth);
    let (before, rest) = messages.split_at_mut(index);
    let is_opaque = rest[0].parts.first().is_some_and(is_opaque);
    for message in before.iter_mut().filter(|it| !stays(it, is_opaque)) {
        message.parts.clear();
        message.unread.clear();
        message.signature = Signature::default();
        message.is_dropped = true;
    }
}

/// True if a message is billed though a summary is behind it.
pub(crate) fn stays(message: &Message<'_>, is_opaque: bool) -> bool {
    match &*message.role {
        "system" | "developer" => true,
        "user" => is_opaque,
        _ => false,
    }
}

/// True if nobody but the provider can read a summary.
pub(crate) fn is_opaque(part: &Part<'_>) -> bool {
    matches!(part, Part::Summary { text, .. } if text.is_empty())
}
