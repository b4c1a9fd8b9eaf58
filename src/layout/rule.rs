//! What no rendering explains: tokens per profile and API, as dated data.
use crate::json::Value;

/// How the prompt of a family of models is laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// Unknown: the profile's linear rules.
    #[default]
    Linear,
    /// OpenAI's, as of 2024 and later.
    OpenAi,
    /// OpenAI's, as of 2023.
    OpenAi2023,
    /// Anthropic's.
    Anthropic,
    /// Gemini's on Vertex AI, and that of 2.0: names and texts alone.
    GeminiNames,
    /// Gemini's of 2.5: functions in Python.
    GeminiPython,
    /// Gemini's of 3: declarations between markers.
    GeminiDeclarations,
}

impl Layout {
    /// The layout of this name; `linear` for any other.
    pub fn named(name: &str) -> Layout {
        match name {
            "openai" => Layout::OpenAi,
            "openai-2023" => Layout::OpenAi2023,
            "anthropic" => Layout::Anthropic,
            "gemini-names" => Layout::GeminiNames,
            "gemini-python" => Layout::GeminiPython,
            "gemini-declarations" => Layout::GeminiDeclarations,
            _ => Layout::Linear,
        }
    }

    /// Whether it is one of Gemini's.
    pub fn is_gemini(self) -> bool {
        use Layout::{GeminiDeclarations, GeminiNames, GeminiPython};
        matches!(self, GeminiNames | GeminiPython | GeminiDeclarations)
    }
}

/// Tokens of one API beside the rendered text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each field is described once, in DESIGN.md")]
pub struct LayoutRule {
    pub joins_system: bool,
    pub request_tokens: i64,
    pub tools_tokens: i64,
    pub tools_with_system_tokens: i64,
    pub described_tokens: i64,
    pub schema_tokens: i64,
    pub schema_with_system_tokens: i64,
    pub schema_with_tools_tokens: i64,
    pub reply_schema_tokens: i64,
    pub prompt_has_reply_schema: bool,
    pub none_choice_tokens: i64,
    pub forced_choice_tokens: i64,
    pub forces_lone_tool: bool,
    pub call_tokens: i64,
    pub legacy_call_tokens: i64,
    pub dotted_name_count: i64,
    pub item_id_tokens: i64,
    pub next_call_tokens: i64,
    pub wrapper_tokens: i64,
    pub pro_tokens: i64,
    /// Around tools that an item adds.
    pub added_tools_tokens: i64,
    pub page_tokens: i64,
}

impl LayoutRule {
    /// Sets the field that the table calls `key`.
    pub(crate) fn set(&mut self, key: &str, value: Value<'_>) {
        let is_set = value.as_bool() == Some(true);
        let number = value.as_number_text().and_then(|text| text.parse().ok());
        let number: i64 = number.unwrap_or_default();
        match key {
            "joins_system" => self.joins_system = is_set,
            "request_tokens" => self.request_tokens = number,
            "tools_tokens" => self.tools_tokens = number,
            "tools_with_system_tokens" => self.tools_with_system_tokens = number,
            "described_tokens" => self.described_tokens = number,
            "schema_tokens" => self.schema_tokens = number,
            "schema_with_system_tokens" => self.schema_with_system_tokens = number,
            "schema_with_tools_tokens" => self.schema_with_tools_tokens = number,
            "reply_schema_tokens" => self.reply_schema_tokens = number,
            "prompt_has_reply_schema" => self.prompt_has_reply_schema = is_set,
            "none_choice_tokens" => self.none_choice_tokens = number,
            "forced_choice_tokens" => self.forced_choice_tokens = number,
            "forces_lone_tool" => self.forces_lone_tool = is_set,
            "call_tokens" => self.call_tokens = number,
            "legacy_call_tokens" => self.legacy_call_tokens = number,
            "dotted_name_count" => self.dotted_name_count = number,
            "item_id_tokens" => self.item_id_tokens = number,
            "next_call_tokens" => self.next_call_tokens = number,
            "wrapper_tokens" => self.wrapper_tokens = number,
            "page_tokens" => self.page_tokens = number,
            "pro_tokens" => self.pro_tokens = number,
            "added_tools_tokens" => self.added_tools_tokens = number,
            _ => {}
        }
    }
}
