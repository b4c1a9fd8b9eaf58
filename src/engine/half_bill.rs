//! Bills that lack half of the input.
//!
//! OpenAI and Azure now and then bill a short request to Responses half, rounded down. The same request is
//! billed in whole too, and so is the next turn: 12 recorded calls of 5 projects, 2026-11.
use crate::engine::estimate;
use crate::engine::reading::Reading;
use crate::known::KnownPrefix;
use crate::profile::Layout;
use crate::request::{Dialect, Message};

/// The longest half bill that is looked for; the longest recorded one has 71 tokens.
const MAX_HALF_TOKENS: u64 = 128;

/// Tokens that the bill of `prefix` lacks of a sure count of it, if it is exactly half; else 0. Linear in
/// the prefix, and nothing is counted if its bill is long.
pub(super) fn unbilled_tokens(reading: &Reading<'_>, prefix: KnownPrefix) -> u64 {
    let (request, total) = (&reading.request, prefix.total);
    let has_layout = matches!(reading.profile.layout, Layout::OpenAi(..));
    let is_responses = has_layout && request.dialect == Dialect::OpenAiResponses;
    if !is_responses || total.tokens.saturating_sub(total.derived_tokens) > 2 * MAX_HALF_TOKENS {
        return 0;
    }
    let plain = request.context_without_options();
    let known = &request.messages[..prefix.message_count];
    let messages = sent(known, total.is_billed());
    let answer = known.len() - messages.len();
    let derived = match total.is_counted() {
        true => {
            reading
                .counted(|it| it.messages(known, known.len() - answer).sum::<u64>())
                .0
        }
        false => total.derived_tokens,
    };
    let billed = total.tokens.saturating_sub(derived);
    if billed > MAX_HALF_TOKENS {
        return 0;
    }
    let (counted, counter) = reading.counted(|counter| {
        let messages = counter.messages(messages, 0).sum::<u64>();
        counter.context(&plain).saturating_add(messages)
    });
    let whole = counted.saturating_add_signed(total.options.tokens);
    let is_sure = estimate::assumptions(reading, &counter).is_empty();
    match is_sure && billed == whole / 2 {
        true => whole - billed,
        false => 0,
    }
}

/// Those of `known` messages that were sent: all, or those before the answer that is not billed yet.
fn sent<'m, 'd>(known: &'m [Message<'d>], is_billed: bool) -> &'m [Message<'d>] {
    let is_sent = |message: &Message<'_>| is_billed || message.role != "assistant";
    let count = known.iter().rposition(is_sent).map_or(0, |last| last + 1);
    &known[..count]
}
