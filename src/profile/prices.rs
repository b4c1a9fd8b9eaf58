//! Prices of parts of a request in any layout of the prompt. Counts are in tokens.
use crate::json::Value;
use crate::media::image_rule_names;
use crate::profile::field::{Fault, FieldValue, fields, named, none_of, text};

/// How reasoning that the client sends back is billed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningRule {
    /// Billed while the model still works on the user's last turn.
    Loop,
    /// Always billed.
    All,
    /// Never billed.
    Never,
}

named!(ReasoningRule {
    Loop = "loop",
    All = "all",
    Never = "never",
});

/// The name of a rule of `image_rules.json`; empty: images cost nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageRuleName(String);

impl ImageRuleName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FieldValue for ImageRuleName {
    fn assign(&mut self, value: Value<'_>) -> Result<(), Fault> {
        let name = text(value)?;
        if !name.is_empty() && image_rule_names().all(|known| known != name) {
            return Err(none_of(value, image_rule_names()));
        }
        self.0 = name.to_owned();
        Ok(())
    }

    fn write(&self, json: &mut String) {
        self.0.write(json);
    }
}

fields! {
    /// Reasoning that is sent back.
    pub struct ReasoningPrices {
        /// How it is billed.
        pub reasoning: ReasoningRule = ReasoningRule::Loop,
        /// True if what an answer says before `</think>` is reasoning.
        pub has_think_tags: bool = false,
        /// True if the models think as much as they can unless the request asks for less.
        pub thinks: bool = false,
        /// More behind the messages where the chat template is told that the model does not think.
        pub thinking_off_tokens: u64 = 0,
        /// Per block of reasoning.
        pub reasoning_tokens: u64 = 0,
        /// Tokens for 1,000 bytes of encrypted reasoning.
        pub opaque_permille: u64 = 0,
        /// More for each piece of encrypted reasoning.
        pub opaque_offset_tokens: i64 = 0,
        /// For a summary of the conversation, besides its text.
        pub summary_tokens: u64 = 0,
        /// Tokens for 1,000 bytes of an encrypted one. Four recorded calls of OpenAI, 2026: 85 to 99.
        pub opaque_summary_permille: u64 = 96,
    }
}

fields! {
    /// Images, files, sound and video.
    pub struct MediaPrices {
        /// A rule of `image_rules.json`.
        pub image_rule: ImageRuleName = ImageRuleName::default(),
        /// A file.
        pub file_tokens: u64 = 0,
        /// An audio.
        pub audio_tokens: u64 = 0,
        /// A video.
        pub video_tokens: u64 = 0,
        /// A page of a PDF.
        pub page_tokens: u64 = 0,
        /// Tokens for 1,000 characters on the pages of a PDF.
        pub page_text_permille: u64 = 0,
        /// An image or a page where several are counted; 0: as one alone.
        pub shared_media_tokens: u64 = 0,
        /// A second of sound.
        pub audio_second_tokens: u64 = 0,
        /// More for each sound.
        pub audio_start_tokens: u64 = 0,
        /// A second of video.
        pub video_second_tokens: u64 = 0,
    }
}

fields! {
    /// Tools, the choice among them, an output schema and thinking, where a prompt layout does not
    /// render them.
    pub struct ToolPrices {
        /// For having tools.
        pub tools_tokens: u64 = 0,
        /// Per tool, besides its text.
        pub tool_tokens: i64 = 0,
        /// Scale of both, in thousandths.
        pub tools_permille: u64 = 1000,
        /// For the tool choice `any`.
        pub required_choice_tokens: u64 = 0,
        /// For a tool choice that names a tool, besides the name.
        pub forced_choice_tokens: u64 = 0,
        /// For an output schema, besides its text.
        pub schema_tokens: i64 = 0,
        /// Scale of the text of an output schema, in thousandths.
        pub schema_permille: u64 = 1000,
        /// For thinking: with a budget, or the most there is where the models think by themselves.
        pub thinking_tokens: u64 = 0,
    }
}
