//! Profiles: what a family of models is counted with, as dated data.
//!
//! The table is `profiles.json`, shared with the Python reference. [`table`] finds the profile
//! of a model.
pub mod cut;
pub mod model_name;
pub mod table;

use crate::json::Value;
use crate::layout::{Layout, LayoutRule, ToolText};
use crate::profile::cut::Cuts;
use crate::profile::table::{Table, texts};
use crate::request::{Dialect, Request};

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
pub struct Profile {
    /// What it is called.
    pub name: String,
    /// The vendor of the family.
    pub provider: String,
    /// The providers that it is for, by the name of who answers; empty: all.
    pub providers: Vec<String>,
    /// The dialects that it is for; empty: all.
    pub dialects: Vec<String>,
    /// An encoding, or `characters`.
    pub encoding: String,
    /// How good a count of text is: `exact`, `calibrated` or `heuristic`.
    pub quality: String,
    /// Tokens of the provider for `text_denominator` tokens of the encoding.
    pub text_numerator: u64,
    /// See `text_numerator`; rounded up per message.
    pub text_denominator: u64,
    /// Where a text is cut before it is counted.
    pub text_cuts: Cuts,
    /// Framing of a request.
    pub request_tokens: u64,
    /// Framing of a message.
    pub message_tokens: u64,
    /// More for a message of the assistant.
    pub assistant_tokens: i64,
    /// More for a name of a message, besides its text.
    pub name_tokens: i64,
    /// Framing of a system prompt outside of the messages.
    pub system_tokens: u64,
    /// More if no system prompt leads: many templates bring their own.
    pub no_system_tokens: i64,
    /// For having tools.
    pub tools_tokens: u64,
    /// The same, but scaled by `tools_permille`.
    pub tools_header_tokens: u64,
    /// Per tool, besides its text.
    pub tool_tokens: i64,
    /// How a tool is shown.
    pub tool_text: ToolText,
    /// More for having tools if no system prompt leads.
    pub tools_without_system_tokens: i64,
    /// Whether the tool choice `none` takes the tools out of the prompt.
    pub none_choice_drops_tools: bool,
    /// Whether deferred tools are shown in the list of tools, and again once they are loaded.
    pub lists_deferred_tools: bool,
    /// What tools cost where a result at the end takes them out of the prompt.
    pub tools_after_result_tokens: Option<u64>,
    /// Scale of header and tools, in thousandths.
    pub tools_permille: u64,
    /// For the tool choice `any`.
    pub required_choice_tokens: u64,
    /// For a tool choice that names a tool, besides the name.
    pub forced_choice_tokens: u64,
    /// For an output schema, besides its text.
    pub schema_tokens: u64,
    /// Scale of the text of an output schema, in thousandths.
    pub schema_permille: u64,
    /// For thinking with a budget.
    pub thinking_tokens: u64,
    /// Per tool call, besides its name and arguments.
    pub call_tokens: u64,
    /// Whether a call is the element that xAI shows instead of its name and arguments.
    pub has_call_elements: bool,
    /// Layout `anthropic`: a conversation that begins with the assistant.
    pub opening_tokens: i64,
    /// Layout `anthropic`: before each further block, and before a message of the same speaker.
    pub joined_tokens: i64,
    /// Layout `anthropic`: around the results of a turn, in place of `message_tokens`.
    pub results_tokens: i64,
    /// The same if the request forces a call.
    pub forced_results_tokens: i64,
    /// Layout `anthropic`: what the user says behind results, in place of `message_tokens`.
    pub after_results_tokens: i64,
    /// Layout `anthropic`: more for an answer in text right behind results.
    pub answer_tokens: i64,
    /// Layout `anthropic`: whether an element stands around the calls of a message.
    pub encloses_calls: bool,
    /// One call at a time, with a free choice.
    pub serial_tokens: i64,
    /// One call at a time, with a forced choice.
    pub forced_serial_tokens: i64,
    /// How often the name of a called tool is billed.
    pub call_name_count: u64,
    /// Per tool result.
    pub result_tokens: u64,
    /// Gemini's layouts: whether a result has the id of its call for a name, and is read as JSON.
    pub names_results_by_id: bool,
    /// How tools, output schema and calls are rendered.
    pub layout: Layout,
    /// Whether gateways that name it by a vendor path call Responses for Chat.
    pub is_rerouted_by_gateways: bool,
    /// Layout `openai`: the numbers of Chat Completions.
    pub chat: LayoutRule,
    /// Layout `openai`: the numbers of Responses.
    pub responses: LayoutRule,
    /// What happens to reasoning that is sent back.
    pub reasoning: ReasoningRule,
    /// What happens to signatures of thoughts on calls that are sent back.
    pub signatures: ReasoningRule,
    /// Whether what an answer says before `</think>` is reasoning.
    pub has_think_tags: bool,
    /// Per block of reasoning.
    pub reasoning_tokens: u64,
    /// Tokens for 1,000 bytes of encrypted reasoning.
    pub opaque_permille: u64,
    /// More for each piece of encrypted reasoning.
    pub opaque_offset_tokens: i64,
    /// Whether the vendor runs tools of its own, whose results are billed too.
    pub runs_tools: bool,
    /// A rule of `image_rules.json`.
    pub image_rule: String,
    /// A file.
    pub file_tokens: u64,
    /// An audio.
    pub audio_tokens: u64,
    /// A video.
    pub video_tokens: u64,
    /// A page of a PDF.
    pub page_tokens: u64,
    /// Tokens for 1,000 characters on the pages of a PDF.
    pub page_text_permille: u64,
    /// An image or a page where several are counted; 0: as one alone.
    pub shared_media_tokens: u64,
    /// A second of sound.
    pub audio_second_tokens: u64,
    /// More for each sound.
    pub audio_start_tokens: u64,
    /// A second of video.
    pub video_second_tokens: u64,
    /// Citations of a document.
    pub citations_tokens: u64,
    /// Layout `anthropic`: around a document that is text, besides its name.
    pub document_tokens: u64,
    /// Framing of an answer that comes back.
    pub reply_tokens: u64,
    /// Largest input and output of the model, if known.
    pub context_window_tokens: Option<u64>,
    /// Largest output of the model, if known.
    pub max_output_tokens: Option<u64>,
}

impl Default for Profile {
    fn default() -> Profile {
        Profile {
            name: String::new(),
            provider: String::new(),
            providers: Vec::new(),
            dialects: Vec::new(),
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
            no_system_tokens: 0,
            tools_tokens: 0,
            tools_header_tokens: 0,
            tool_tokens: 0,
            tool_text: ToolText::Parts,
            tools_without_system_tokens: 0,
            none_choice_drops_tools: false,
            lists_deferred_tools: false,
            tools_after_result_tokens: None,
            tools_permille: 1000,
            required_choice_tokens: 0,
            forced_choice_tokens: 0,
            schema_tokens: 0,
            schema_permille: 1000,
            thinking_tokens: 0,
            call_tokens: 0,
            has_call_elements: false,
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
            names_results_by_id: false,
            layout: Layout::Linear,
            is_rerouted_by_gateways: false,
            chat: LayoutRule::default(),
            responses: LayoutRule::default(),
            reasoning: ReasoningRule::Loop,
            signatures: ReasoningRule::Loop,
            has_think_tags: false,
            reasoning_tokens: 0,
            opaque_permille: 0,
            opaque_offset_tokens: 0,
            runs_tools: false,
            image_rule: String::new(),
            file_tokens: 0,
            audio_tokens: 0,
            video_tokens: 0,
            page_tokens: 0,
            page_text_permille: 0,
            shared_media_tokens: 0,
            audio_second_tokens: 0,
            audio_start_tokens: 0,
            video_second_tokens: 0,
            citations_tokens: 0,
            document_tokens: 0,
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
        let is_true = || value.as_bool() == Some(true);
        match key {
            "name" => self.name = text(),
            "provider" => self.provider = text(),
            "providers" => self.providers = texts(Some(value)).collect(),
            "dialects" => self.dialects = texts(Some(value)).collect(),
            "encoding" => self.encoding = text(),
            "quality" => self.quality = text(),
            "text_numerator" => self.text_numerator = number(),
            "text_denominator" => self.text_denominator = number().max(1),
            "text_cuts" => self.text_cuts = Cuts::read(value),
            "request_tokens" => self.request_tokens = number(),
            "message_tokens" => self.message_tokens = number(),
            "assistant_tokens" => self.assistant_tokens = signed(value),
            "name_tokens" => self.name_tokens = signed(value),
            "system_tokens" => self.system_tokens = number(),
            "no_system_tokens" => self.no_system_tokens = signed(value),
            "tools_tokens" => self.tools_tokens = number(),
            "tools_header_tokens" => self.tools_header_tokens = number(),
            "tool_tokens" => self.tool_tokens = signed(value),
            "tool_text" => self.tool_text = ToolText::named(&text()),
            "tools_without_system_tokens" => self.tools_without_system_tokens = signed(value),
            "none_choice_drops_tools" => self.none_choice_drops_tools = is_true(),
            "lists_deferred_tools" => self.lists_deferred_tools = is_true(),
            "tools_after_result_tokens" => self.tools_after_result_tokens = value.as_u64(),
            "tools_permille" => self.tools_permille = number(),
            "required_choice_tokens" => self.required_choice_tokens = number(),
            "forced_choice_tokens" => self.forced_choice_tokens = number(),
            "schema_tokens" => self.schema_tokens = number(),
            "schema_permille" => self.schema_permille = number(),
            "thinking_tokens" => self.thinking_tokens = number(),
            "call_tokens" => self.call_tokens = number(),
            "has_call_elements" => self.has_call_elements = is_true(),
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
            "names_results_by_id" => self.names_results_by_id = is_true(),
            "layout" => self.layout = Layout::named(&text()),
            "is_rerouted_by_gateways" => self.is_rerouted_by_gateways = is_true(),
            "chat" => set_rule(&mut self.chat, value),
            "responses" => set_rule(&mut self.responses, value),
            "reasoning_tokens" => self.reasoning_tokens = number(),
            "reasoning" => self.reasoning = reasoning_rule(&text()),
            "signatures" => self.signatures = reasoning_rule(&text()),
            "has_think_tags" => self.has_think_tags = is_true(),
            "opaque_permille" => self.opaque_permille = number(),
            "opaque_offset_tokens" => self.opaque_offset_tokens = signed(value),
            "runs_tools" => self.runs_tools = is_true(),
            "image_rule" => self.image_rule = text(),
            "file_tokens" => self.file_tokens = number(),
            "audio_tokens" => self.audio_tokens = number(),
            "video_tokens" => self.video_tokens = number(),
            "page_tokens" => self.page_tokens = number(),
            "page_text_permille" => self.page_text_permille = number(),
            "shared_media_tokens" => self.shared_media_tokens = number(),
            "audio_second_tokens" => self.audio_second_tokens = number(),
            "audio_start_tokens" => self.audio_start_tokens = number(),
            "video_second_tokens" => self.video_second_tokens = number(),
            "citations_tokens" => self.citations_tokens = number(),
            "document_tokens" => self.document_tokens = number(),
            "reply_tokens" => self.reply_tokens = number(),
            "context_window_tokens" => self.context_window_tokens = value.as_u64(),
            "max_output_tokens" => self.max_output_tokens = value.as_u64(),
            _ => {}
        }
    }

    /// Whether it is made for a provider or a dialect.
    pub(crate) fn is_special(&self) -> bool {
        !self.providers.is_empty() || !self.dialects.is_empty()
    }

    /// Whether it is for requests in `dialect` that `provider` answers; empty if not known.
    pub(crate) fn is_for(&self, provider: &str, dialect: Dialect) -> bool {
        let has = |list: &[String], name| list.is_empty() || list.iter().any(|it| it == name);
        has(&self.providers, provider) && has(&self.dialects, dialect.name())
    }

    /// Whether a result at the end takes the tools of `request` out of the prompt.
    pub fn hides_tools(&self, request: &Request<'_>) -> bool {
        let ends_with_result = request.messages.last().is_some_and(|it| it.role == "tool");
        self.tools_after_result_tokens.is_some() && !request.tools.is_empty() && ends_with_result
    }

    /// Whether a new turn of the user drops reasoning that was billed.
    pub fn drops_reasoning(&self) -> bool {
        let has_signatures = self.layout == Layout::GeminiDeclarations;
        self.reasoning == ReasoningRule::Loop
            || has_signatures && self.signatures == ReasoningRule::Loop
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
