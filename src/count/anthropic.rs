//! What Anthropic's prompt layout adds: blocks before the messages, turns, calls and results.
use super::{Counter, Sum, calls, is_result};
use crate::layout;
use crate::profile::{Anthropic, Layout, Profile};
use crate::request::{Dialect, Message, Part, Request, ToolChoice, ToolResult};
use std::slice::Iter;

/// What a request costs in this layout besides its content.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prompt<'p> {
    /// What the layout costs.
    prices: &'p Anthropic,
    /// Between the blocks before the messages.
    block_tokens: i64,
    /// Around the results of a turn.
    results_tokens: i64,
    /// For parallel calls switched off, to be added to the tools.
    pub(super) no_parallel_calls_tokens: i64,
    /// Whether a system message behind others stays where it is.
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

/// What has been said before a message.
pub(super) struct Turn<'m, 'd> {
    speaker: Option<Speaker>,
    has_results: bool,
    is_leading: bool,
    /// Where the calls are that wait for results, if there were several.
    calls: Iter<'m, Part<'d>>,
    waiting: usize,
}

/// What stands around one message.
struct Frame {
    /// May be negative: results stand in the turn of their calls, which has a frame already.
    tokens: i64,
    /// Whether it is part of the system prompt.
    is_system: bool,
    /// Whether its results are the first of several in their turn.
    opens_results: bool,
}

impl<'m, 'd> Turn<'m, 'd> {
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
    pub(super) fn skip(
        &mut self,
        counter: &Counter<'_>,
        prompt: Prompt<'_>,
        message: &'m Message<'d>,
    ) {
        if self.frame(counter, prompt, message, false).is_system {
            return;
        }
        for _ in message.parts.iter().filter(|part| is_result(part)) {
            self.answered();
        }
        self.close(message);
    }

    /// The frame of the next message.
    fn frame(
        &mut self,
        counter: &Counter<'_>,
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
            tokens = tokens.saturating_add_unsigned(counter.profile.message_tokens);
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
    fn answered(&mut self) -> Option<&'m str> {
        self.waiting = self.waiting.checked_sub(1)?;
        self.calls.find_map(|part| match part {
            Part::ToolCall(call) => Some(&*call.name),
            _ => None,
        })
    }

    /// Takes note of a message whose results are named.
    fn close(&mut self, message: &'m Message<'d>) {
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

impl Counter<'_> {
    /// Tokens of the system prompt and between the blocks before the messages.
    pub(super) fn blocks(&mut self, prompt: Prompt<'_>, system: &[Part<'_>]) -> i64 {
        let tokens = self.system(prompt, system);
        prompt.block_tokens.saturating_add_unsigned(tokens)
    }

    /// Tokens of a system prompt; line feeds before it join the one of its frame.
    fn system(&mut self, prompt: Prompt<'_>, parts: &[Part<'_>]) -> u64 {
        let Some((Part::Text(text), rest)) = parts.split_first() else {
            return self.parts(parts, false);
        };
        let trimmed = text.trim_start_matches('\n');
        let joined = trimmed.len() < text.len() && prompt.block_tokens == 0;
        let tokens = self.text(trimmed);
        self.note_documents(text, tokens);
        let mut sum = Sum {
            text: tokens,
            other: i64::from(joined),
        };
        self.documents(prompt, text.documents(), &mut sum);
        rest.iter()
            .for_each(|part| self.part(part, false, &mut sum));
        self.total(sum)
    }

    /// Tokens of a message.
    pub(super) fn marked_up<'m, 'd>(
        &mut self,
        prompt: Prompt<'_>,
        turn: &mut Turn<'m, 'd>,
        message: &'m Message<'d>,
        is_last: bool,
        counts_reasoning: bool,
    ) -> u64 {
        let frame = turn.frame(self, prompt, message, is_last);
        if frame.is_system {
            return self.system(prompt, &message.parts);
        }
        let mut sum = Sum::default();
        if frame.opens_results {
            sum.text += self.text(layout::RESULTS);
        }
        for part in &message.parts {
            match part {
                Part::ToolCall(_) => self.counted_only_text = false,
                Part::ToolResult(result) => {
                    self.marked_up_result(prompt, result, turn.answered(), &mut sum);
                }
                _ => self.part(part, counts_reasoning, &mut sum),
            }
        }
        if calls(message).next().is_some() {
            let text = layout::calls_text(calls(message), prompt.prices.encloses_calls);
            sum.text += self.text(&text);
        }
        turn.close(message);
        sum.add_signed(frame.tokens);
        self.total(sum)
    }

    /// Adds what stands around documents that are text.
    pub(super) fn documents(&self, prompt: Prompt<'_>, names: &[String], sum: &mut Sum) {
        for name in names {
            if !name.is_empty() {
                sum.text += self.text(name);
            }
            sum.add(prompt.prices.document_tokens);
        }
    }

    /// A result, with the name of its call if it is one of several.
    fn marked_up_result(
        &mut self,
        prompt: Prompt<'_>,
        result: &ToolResult<'_>,
        name: Option<&str>,
        sum: &mut Sum,
    ) {
        self.counted_only_text = false;
        let mut text = String::new();
        for part in &result.parts {
            match part {
                Part::Text(more) => {
                    text.push_str(more);
                    self.documents(prompt, more.documents(), sum);
                }
                Part::Data(data) => data.write_compact(&mut text),
                _ => self.part(part, false, sum),
            }
        }
        // Between two results of a list stands one token more than each has alone.
        sum.text += match name {
            Some(name) => 1 + self.text(&layout::named_result_text(name, &text)),
            None => self.text(&layout::lone_result_text(&text, result.is_error)),
        };
    }
}
