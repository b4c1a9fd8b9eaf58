//! The tokens that Anthropic's prompt layout adds: blocks before the messages, turns, calls and results.
use super::turn::{Prompt, Turn, calls};
use super::{Counter, Sum};
use crate::layout;
use crate::request::{Message, Part, ToolResult};

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
        let frame = turn.frame(prompt, message, is_last);
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
