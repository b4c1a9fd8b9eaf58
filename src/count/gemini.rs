//! The tokens that Gemini's prompt layouts add: tools, calls, results, the schema of the answer.
use super::{Counter, Sum};
use crate::json::{Document, Limits, write_string};
use crate::layout::{self, GeminiForm, Marked};
use crate::profile::Gemini;
use crate::request::{Message, Part, Request, Tool, ToolCall, ToolResult};

impl Counter<'_> {
    /// Tokens of tools and of the schema of the answer.
    ///
    /// Tool choice is free; so is a schema, but where texts alone are billed.
    pub(super) fn gemini_context(&mut self, form: GeminiForm, request: &Request<'_>) -> u64 {
        let own = |tool: &&Tool<'_>| tool.builtin.is_none();
        let tools = request.tools.iter().filter(own);
        let tools = tools.map(|tool| self.marked(&layout::tool(form, tool)));
        self.tally.tools = tools.sum();
        if let (GeminiForm::Names, false, Some(schema)) =
            (form, request.has_json_schema, &request.response_schema)
        {
            self.tally.schema = self.marked(&layout::answer_schema(schema));
        }
        let has_text_alone = request.tools.is_empty() && request.response_schema.is_none();
        self.counted_only_text &= has_text_alone;
        self.tally.tools + self.tally.schema
    }

    /// Adds a call.
    pub(super) fn gemini_call(&mut self, form: GeminiForm, call: &ToolCall<'_>, sum: &mut Sum) {
        sum.add(self.marked(&layout::call(form, call)));
    }

    /// Tokens of the signatures of thoughts in a message.
    pub(super) fn signature(&mut self, message: &Message<'_>) -> u64 {
        self.opaque(self.profile.signature_bytes(message.signature))
    }

    /// Adds a result: what is text or data in one frame, media by themselves.
    pub(super) fn gemini_result(
        &mut self,
        (form, prices): (GeminiForm, &Gemini),
        result: &ToolResult<'_>,
        sum: &mut Sum,
    ) {
        let is_by_id = prices.names_results_by_id;
        let mut json = String::new();
        for part in &result.parts {
            match part {
                Part::Data(data) => data.write_compact(&mut json),
                Part::Text(text) if is_by_id && is_json(text) => json.push_str(text),
                Part::Text(text) => write_string(text, &mut json),
                _ => self.part(part, true, sum),
            }
        }
        let name = match is_by_id && !result.call_id.is_empty() {
            true => &result.call_id,
            false => &result.name,
        };
        sum.add(self.marked(&layout::result(form, name, &json)));
    }

    fn marked(&self, marked: &Marked) -> u64 {
        let texts = marked.texts().map(|text| self.text(text));
        marked.marks + self.scaled(texts.sum())
    }
}

fn is_json(text: &str) -> bool {
    Document::parse(text, &Limits::default()).is_ok()
}
