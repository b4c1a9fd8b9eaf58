//! Turns of Anthropic's prompt layout: which speaker a message belongs to, and the frame that it has.
use crate::profile::{Anthropic, Layout, Profile};
use crate::request::{Dialect, Message, Part, Request, ToolCall, ToolChoice};
use std::slice::Iter;

/// The tokens of a request in this layout besides its content.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prompt<'p> {
    /// The prices of the layout.
    pub(super) prices: &'p Anthropic,
    /// Around each message.
    message_tokens: u64,
    /// Between the blocks before the messages.
    pub(super) block_tokens: i64,
    /// Around the results of a turn.
    results_tokens: i64,
    /// For parallel calls switched off, to be added to the tools.
    pub(super) no_parallel_calls_tokens: i64,
    /// True if a system message behind others stays where it is.
    keeps_system: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaker {
    User,
    Assistant,
    System,
}

impl Speaker {
    /// Results come from the user.
    fn of(message: &Message<'_>) -> Speaker {
        match &*message.role {
            "assistant" => Speaker::Assistant,
            "system" | "developer" => Speaker::System,
            _ => Speaker::User,
        }
    }
}

impl<'p> Prompt<'p> {
    /// `None` in any other layout.
    pub(super) fn new(profile: &'p Profile, request: &Request<'_>) -> Option<Prompt<'p>> {
        let Layout::Anthropic(_, prices) = &profile.layout else {
            return None;
        };
        let is_forced = matches!(
            request.tool_choice,
            ToolChoice::Required | ToolChoice::Tool(_)
        );
        let keeps_system = request.dialect == Dialect::Anthropic;
        let no_parallel_calls_tokens = match is_forced {
            _ if !request.is_serial || request.tools.is_empty() => 0,
            true => prices.forced_no_parallel_calls_tokens,
            false => prices.no_parallel_calls_tokens,
        };
        let block_count = block_count(request, keeps_system);
        Some(Prompt {
            prices,
            message_tokens: profile.message_tokens,
            block_tokens: match block_count {
                0 => 0,
                count => ((count - 1) * prices.joined_tokens)
                    .saturating_add_unsigned(profile.system_tokens),
            },
            results_tokens: match is_forced {
                true => prices.forced_results_tokens,
                false => prices.results_tokens,
            },
            no_parallel_calls_tokens,
            keeps_system,
        })
    }
}

/// Blocks before the messages: tools, output schema, thinking, system.
fn block_count(request: &Request<'_>, keeps_system: bool) -> i64 {
    let leading = match keeps_system {
        true => 1.min(request.messages.len()),
        false => request.messages.len(),
    };
    let is_system = |message: &Message<'_>| Speaker::of(message) == Speaker::System;
    let has_system =
        !request.system.is_empty() || request.messages[..leading].iter().any(is_system);
    let blocks = [
        !request.tools.is_empty(),
        request.response_schema.is_some(),
        request.has_thinking,
        has_system,
    ];
    blocks.into_iter().map(i64::from).sum()
}

/// The state of the prompt before a message.
pub(super) struct Turn<'m, 'd> {
    speaker: Option<Speaker>,
    has_results: bool,
    is_leading: bool,
    /// Where the calls are that wait for results, if there were several.
    calls: Iter<'m, Part<'d>>,
    waiting: usize,
}

/// The framing of one message.
pub(super) struct Frame {
    /// May be negative: results stand in the turn of their calls, which has a frame already.
    pub(super) tokens: i64,
    /// True if it is part of the system prompt.
    pub(super) is_system: bool,
    /// True if its results are the first of several in their turn.
    pub(super) opens_results: bool,
}

impl<'m, 'd> Turn<'m, 'd> {
    /// The state before the first message.
    pub(super) fn new() -> Turn<'m, 'd> {
        Turn {
            speaker: None,
            has_results: false,
            is_leading: true,
            calls: [].iter(),
            waiting: 0,
        }
    }

    /// Passes over a message that is not counted.
    pub(super) fn skip(&mut self, prompt: Prompt<'_>, message: &'m Message<'d>) {
        if self.frame(prompt, message, false).is_system {
            return;
        }
        for _ in message.parts.iter().filter(|part| is_result(part)) {
            self.answered();
        }
        self.close(message);
    }

    /// The frame of the next message.
    pub(super) fn frame(
        &mut self,
        prompt: Prompt<'_>,
        message: &Message<'_>,
        is_last: bool,
    ) -> Frame {
        let prices = prompt.prices;
        let speaker = Speaker::of(message);
        self.is_leading &= speaker == Speaker::System;
        if self.is_leading || (speaker == Speaker::System && !prompt.keeps_system) {
            return Frame {
                tokens: 0,
                is_system: true,
                opens_results: false,
            };
        }
        let results = message.parts.iter().filter(|part| is_result(part)).count();
        let is_same = self.speaker == Some(speaker);
        let continues = self.has_results && is_same;
        let mut tokens = match (self.speaker, speaker) {
            (None, Speaker::Assistant) => prices.opening_tokens,
            _ => 0,
        };
        if results > 0 {
            tokens += if continues { 0 } else { prompt.results_tokens };
            let has_more = results < message.parts.len();
            tokens += if has_more {
                prices.after_results_tokens
            } else {
                0
            };
        } else if continues {
            tokens += prices.after_results_tokens;
        } else if is_same {
            tokens += prices.joined_tokens;
        } else if speaker != Speaker::Assistant || !is_last {
            tokens = tokens.saturating_add_unsigned(prompt.message_tokens);
        }
        let is_answer = speaker == Speaker::Assistant && calls(message).next().is_none();
        if self.has_results && is_answer {
            tokens += prices.answer_tokens;
        }
        Frame {
            tokens,
            is_system: false,
            opens_results: results > 0 && !continues && self.waiting > 0,
        }
    }

    /// The name of the call that the next result answers; none if it was the only one.
    pub(super) fn answered(&mut self) -> Option<&'m str> {
        self.waiting = self.waiting.checked_sub(1)?;
        self.calls.find_map(|part| match part {
            Part::ToolCall(call) => Some(&*call.name),
            _ => None,
        })
    }

    /// Takes note of a message whose results are named.
    pub(super) fn close(&mut self, message: &'m Message<'d>) {
        let speaker = Speaker::of(message);
        self.speaker = Some(speaker);
        self.has_results = message.parts.iter().any(is_result);
        if speaker == Speaker::Assistant {
            let count = calls(message).count();
            self.waiting = if count > 1 { count } else { 0 };
            self.calls = message.parts.iter();
        }
    }
}

pub(super) fn calls<'m, 'd>(message: &'m Message<'d>) -> impl Iterator<Item = &'m ToolCall<'d>> {
    message.parts.iter().filter_map(|part| match part {
        Part::ToolCall(call) => Some(call),
        _ => None,
    })
}

pub(super) fn is_result(part: &Part<'_>) -> bool {
    matches!(part, Part::ToolResult(_))
}
