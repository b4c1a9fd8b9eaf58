//! Profiles: what a family of models is counted with, as dated data.
//!
//! The table is `profiles.json`, shared with the Python reference; its fields are described in
//! DESIGN.md. [`crate::resolve`] finds the profile of a model.
use crate::cut::Cuts;
use crate::json::Value;
use crate::layout::{Layout, LayoutRule};
use crate::request::Dialect;
use crate::resolve::Table;

/// What happens to reasoning that the client sends back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningRule {
    /// Billed while the model still works on the user's last turn.
    Loop,
    /// Always billed.
    All,
    /// Never billed.
    Never,
}

/// How the input tokens of a family of models are counted. Counts are in tokens.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each field is described once, in DESIGN.md")]
pub struct Profile {
    pub name: String,
    pub provider: String,
    /// The providers that it is for, by the name of who answers; empty: all.
    pub providers: Vec<String>,
    /// An encoding, or `characters`.
    pub encoding: String,
    /// How good a count of text is: `exact`, `calibrated` or `heuristic`.
    pub quality: String,
    pub text_numerator: u64,
    pub text_denominator: u64,
    pub text_cuts: Cuts,
    pub request_tokens: u64,
    pub message_tokens: u64,
    pub assistant_tokens: u64,
    pub name_tokens: i64,
    pub system_tokens: u64,
    pub tools_tokens: u64,
    pub tools_header_tokens: u64,
    pub tool_tokens: u64,
    pub tools_permille: u64,
    pub required_choice_tokens: u64,
    pub forced_choice_tokens: u64,
    pub schema_tokens: u64,
    pub schema_permille: u64,
    pub thinking_tokens: u64,
    pub call_tokens: u64,
    pub opening_tokens: i64,
    pub joined_tokens: i64,
    pub results_tokens: i64,
    pub forced_results_tokens: i64,
    pub after_results_tokens: i64,
    pub answer_tokens: i64,
    pub encloses_calls: bool,
    pub serial_tokens: i64,
    pub forced_serial_tokens: i64,
    pub call_name_count: u64,
    pub result_tokens: u64,
    pub layout: Layout,
    pub is_rerouted_by_gateways: bool,
    pub chat: LayoutRule,
    pub responses: LayoutRule,
    pub reasoning: ReasoningRule,
    pub reasoning_tokens: u64,
    pub opaque_permille: u64,
    pub opaque_offset_tokens: i64,
    pub image_rule: String,
    pub file_tokens: u64,
    pub audio_tokens: u64,
    pub video_tokens: u64,
    pub reply_tokens: u64,
    pub context_window_tokens: Option<u64>,
    pub max_output_tokens: Option<u64>,
}

impl Default for Profile {
    fn default() -> Profile {
        Profile {
            name: String::new(),
            provider: String::new(),
            providers: Vec::new(),
            encoding: String::new(),
            quality: String::new(),
            text_numerator: 1,
            text_denominator: 1,
            text_cuts: Cuts::default(),
            request_tokens: 0,
            message_tokens: 0,
            assistant_tokens: 0,
            name_tokens: 0,
            system_tokens: 0,
            tools_tokens: 0,
            tools_header_tokens: 0,
            tool_tokens: 0,
            tools_permille: 1000,
            required_choice_tokens: 0,
            forced_choice_tokens: 0,
            schema_tokens: 0,
            schema_permille: 1000,
            thinking_tokens: 0,
            call_tokens: 0,
            opening_tokens: 0,
            joined_tokens: 0,
            results_tokens: 0,
            forced_results_tokens: 0,
            after_results_tokens: 0,
            answer_tokens: 0,
            encloses_calls: true,
            serial_tokens: 0,
            forced_serial_tokens: 0,
            call_name_count: 1,
            result_tokens: 0,
            layout: Layout::Linear,
            is_rerouted_by_gateways: false,
            chat: LayoutRule::default(),
            responses: LayoutRule::default(),
            reasoning: ReasoningRule::Loop,
            reasoning_tokens: 0,
            opaque_permille: 0,
            opaque_offset_tokens: 0,
            image_rule: String::new(),
            file_tokens: 0,
            audio_tokens: 0,
            video_tokens: 0,
            reply_tokens: 0,
            context_window_tokens: None,
            max_output_tokens: None,
        }
    }
}

impl Profile {
    /// Sets the field that the table calls `key`; other keys are notes and sources.
    pub(crate) fn set(&mut self, key: &str, value: Value<'_>) {
        let text = || value.as_str().unwrap_or_default().to_owned();
        let number = || value.as_u64().unwrap_or_default();
        match key {
            "name" => self.name = text(),
            "provider" => self.provider = text(),
            "encoding" => self.encoding = text(),
            "quality" => self.quality = text(),
            "text_numerator" => self.text_numerator = number(),
            "text_denominator" => self.text_denominator = number().max(1),
            "text_cuts" => self.text_cuts = Cuts::read(value),
            "request_tokens" => self.request_tokens = number(),
            "message_tokens" => self.message_tokens = number(),
            "assistant_tokens" => self.assistant_tokens = number(),
            "name_tokens" => self.name_tokens = signed(value),
            "system_tokens" => self.system_tokens = number(),
            "tools_tokens" => self.tools_tokens = number(),
            "tools_header_tokens" => self.tools_header_tokens = number(),
            "tool_tokens" => self.tool_tokens = number(),
            "tools_permille" => self.tools_permille = number(),
            "required_choice_tokens" => self.required_choice_tokens = number(),
            "forced_choice_tokens" => self.forced_choice_tokens = number(),
            "schema_tokens" => self.schema_tokens = number(),
            "schema_permille" => self.schema_permille = number(),
            "thinking_tokens" => self.thinking_tokens = number(),
            "call_tokens" => self.call_tokens = number(),
            "opening_tokens" => self.opening_tokens = signed(value),
            "joined_tokens" => self.joined_tokens = signed(value),
            "results_tokens" => self.results_tokens = signed(value),
            "forced_results_tokens" => self.forced_results_tokens = signed(value),
            "after_results_tokens" => self.after_results_tokens = signed(value),
            "answer_tokens" => self.answer_tokens = signed(value),
            "encloses_calls" => self.encloses_calls = value.as_bool() == Some(true),
            "serial_tokens" => self.serial_tokens = signed(value),
            "forced_serial_tokens" => self.forced_serial_tokens = signed(value),
            "call_name_count" => self.call_name_count = number(),
            "result_tokens" => self.result_tokens = number(),
            "layout" => self.layout = Layout::named(&text()),
            "is_rerouted_by_gateways" => {
                self.is_rerouted_by_gateways = value.as_bool() == Some(true);
            }
            "chat" => set_rule(&mut self.chat, value),
            "responses" => set_rule(&mut self.responses, value),
            "reasoning_tokens" => self.reasoning_tokens = number(),
            "reasoning" => self.reasoning = reasoning_rule(&text()),
            "opaque_permille" => self.opaque_permille = number(),
            "opaque_offset_tokens" => self.opaque_offset_tokens = signed(value),
            "image_rule" => self.image_rule = text(),
            "file_tokens" => self.file_tokens = number(),
            "audio_tokens" => self.audio_tokens = number(),
            "video_tokens" => self.video_tokens = number(),
            "reply_tokens" => self.reply_tokens = number(),
            "context_window_tokens" => self.context_window_tokens = value.as_u64(),
            "max_output_tokens" => self.max_output_tokens = value.as_u64(),
            _ => {}
        }
    }

    /// Whether it is for requests that `provider` answers; empty if that is not known.
    pub fn is_for(&self, provider: &str) -> bool {
        self.providers.is_empty() || self.providers.iter().any(|name| name == provider)
    }

    /// The numbers of the prompt layout for an API; none if the layout is not known.
    ///
    /// A `model` with a vendor path is a gateway's, which may call another API than the one it
    /// offers.
    pub fn layout_rule(&self, dialect: Dialect, model: &str) -> Option<&LayoutRule> {
        let is_rerouted = self.is_rerouted_by_gateways && model.contains('/');
        if !matches!(self.layout, Layout::OpenAi | Layout::OpenAi2023) {
            return None;
        }
        match dialect {
            Dialect::OpenAiResponses => Some(&self.responses),
            _ if is_rerouted => Some(&self.responses),
            _ => Some(&self.chat),
        }
    }

    /// The token counting strategy: o200k_base for all, 4 per message, attachments as metadata.
    pub fn universal(&self) -> Profile {
        Profile {
            provider: self.provider.clone(),
            context_window_tokens: self.context_window_tokens,
            max_output_tokens: self.max_output_tokens,
            ..Table::bundled().named("universal").clone()
        }
    }

    /// RFC 006: characters over characters per token, times a factor, and 4 per message.
    pub fn characters(&self, milli_characters_per_token: u64, factor_permille: u64) -> Profile {
        Profile {
            name: "characters".to_owned(),
            encoding: "characters".to_owned(),
            text_numerator: factor_permille,
            text_denominator: milli_characters_per_token.max(1),
            image_rule: self.image_rule.clone(),
            file_tokens: self.file_tokens,
            audio_tokens: self.audio_tokens,
            video_tokens: self.video_tokens,
            ..self.universal()
        }
    }
}

fn set_rule(rule: &mut LayoutRule, members: Value<'_>) {
    members
        .members()
        .for_each(|(key, value)| rule.set(key, value));
}

fn reasoning_rule(name: &str) -> ReasoningRule {
    match name {
        "all" => ReasoningRule::All,
        "never" => ReasoningRule::Never,
        _ => ReasoningRule::Loop,
    }
}

fn signed(value: Value<'_>) -> i64 {
    value
        .as_number_text()
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}
