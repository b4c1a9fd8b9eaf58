//! Prices of parts of a request in any layout of the prompt. Counts are in tokens.
use crate::json::{Kind, Value, write_string};
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

/// What tools of the vendor cost, in place of their text, by the beginning of their type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VendorTools(Vec<(String, u64)>);

impl VendorTools {
    /// Tokens of the tool of this type; `None` if it is not listed.
    pub fn tokens(&self, tool_type: &str) -> Option<u64> {
        let listed = self
            .0
            .iter()
            .filter(|(name, _)| tool_type.starts_with(name.as_str()));
        listed
            .max_by_key(|(name, _)| name.len())
            .map(|(_, tokens)| *tokens)
    }
}

impl FieldValue for VendorTools {
    fn assign(&mut self, value: Value<'_>) -> Result<(), Fault> {
        if value.kind() != Kind::Object {
            return Err(Fault::of_type(value, "an object of types and tokens"));
        }
        let read = |(name, tokens): (&str, Value<'_>)| {
            let mut number = 0_u64;
            number.assign(tokens).map_err(|fault| fault.below(name))?;
            Ok((name.to_owned(), number))
        };
        self.0 = value.members().map(read).collect::<Result<_, _>>()?;
        Ok(())
    }

    fn write(&self, json: &mut String) {
        json.push('{');
        for (nth, (name, tokens)) in self.0.iter().enumerate() {
            if nth > 0 {
                json.push(',');
            }
            write_string(name, json);
            json.push(':');
            tokens.write(json);
        }
        json.push('}');
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
        /// Tools of the vendor, by the beginning of their type.
        pub vendor_tools: VendorTools = VendorTools::default(),
        /// For thinking: with a budget, or the most there is where the models think by themselves.
        pub thinking_tokens: u64 = 0,
    }
}
