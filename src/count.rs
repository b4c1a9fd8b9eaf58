//! Counts: tokens of a message, of all that stands around the messages, and what is assumed.
use crate::bpe::Encoding;
use crate::media::{self, Detail, PixelSize};
use crate::profile::{Profile, ReasoningRule};
use crate::request::{
    Assumptions, Content, Media, MediaKind, Message, Part, Request, Tool, ToolChoice,
};

/// What counts as the size of an image that cannot be read; the reason is in `image_rules.json`.
const DEFAULT_SIDE_PX: u32 = 1024;

/// Counts with one profile and collects what it had to assume.
#[derive(Debug)]
pub struct Counter<'p> {
    profile: &'p Profile,
    /// `None`: text is counted in characters.
    encoding: Option<Encoding>,
    assumptions: Assumptions,
    counted_only_text: bool,
}

/// Text in tokens of the encoding, still to be scaled, and tokens of all else.
#[derive(Clone, Copy, Default)]
struct Sum {
    text: u64,
    other: u64,
}

impl<'p> Counter<'p> {
    /// A counter that has counted nothing yet.
    pub fn new(profile: &'p Profile) -> Counter<'p> {
        Counter {
            profile,
            encoding: Encoding::named(&profile.encoding),
            assumptions: Assumptions::new(),
            counted_only_text: true,
        }
    }

    /// Takes over what another counter had to assume.
    pub fn absorb(&mut self, other: &Counter<'_>) {
        self.assumptions.extend(&other.assumptions);
        self.counted_only_text &= other.counted_only_text;
    }

    /// Takes over that a message was counted elsewhere, without assumptions.
    pub fn note(&mut self, is_only_text: bool) {
        self.counted_only_text &= is_only_text;
    }

    /// What had to be assumed so far.
    pub fn assumptions(&self) -> &Assumptions {
        &self.assumptions
    }

    /// Whether nothing but text was counted so far.
    pub fn counted_only_text(&self) -> bool {
        self.counted_only_text
    }

    /// Tokens of all but the messages: request framing, system prompt, tools, options.
    pub fn context(&mut self, request: &Request<'_>) -> u64 {
        let profile = self.profile;
        let mut tokens = profile.request_tokens;
        if !request.system.is_empty() {
            tokens += profile.system_tokens + self.parts(&request.system, false);
        }
        if !request.tools.is_empty() {
            tokens += self.tools(&request.tools) + self.choice(&request.tool_choice);
        }
        if let Some(schema) = &request.response_schema {
            self.counted_only_text = false;
            let schema = self.scaled(self.text(&schema.compact()));
            tokens += profile.schema_tokens + permille(schema, profile.schema_permille);
        }
        if request.has_thinking {
            tokens += profile.thinking_tokens;
        }
        tokens
    }

    /// Tokens of one message with its framing.
    pub fn message(&mut self, message: &Message<'_>, counts_reasoning: bool) -> u64 {
        let profile = self.profile;
        let mut tokens = profile.message_tokens;
        if message.role == "assistant" {
            tokens += profile.assistant_tokens;
        }
        if !message.name.is_empty() {
            tokens += profile.name_tokens + self.scaled(self.text(&message.name));
        }
        tokens + self.parts(&message.parts, counts_reasoning)
    }

    /// Tokens of the reasoning in `message`.
    pub fn reasoning(&mut self, message: &Message<'_>) -> u64 {
        let mut sum = Sum::default();
        for part in &message.parts {
            if matches!(part, Part::Reasoning { .. }) {
                self.part(part, true, &mut sum);
            }
        }
        self.scaled(sum.text) + sum.other
    }

    fn parts(&mut self, parts: &[Part<'_>], counts_reasoning: bool) -> u64 {
        let mut sum = Sum::default();
        parts
            .iter()
            .for_each(|part| self.part(part, counts_reasoning, &mut sum));
        self.scaled(sum.text) + sum.other
    }

    fn part(&mut self, part: &Part<'_>, counts_reasoning: bool, sum: &mut Sum) {
        self.counted_only_text &= matches!(part, Part::Text(_));
        match part {
            Part::Text(text) => sum.text += self.text(text),
            Part::Data(data) => sum.text += self.text(&data.compact()),
            Part::ToolCall(call) => {
                sum.text += self.profile.call_name_count * self.text(&call.name);
                sum.text += self.text(&call.arguments.compact());
                sum.other += self.profile.call_tokens;
            }
            Part::ToolResult(result) => {
                sum.other += self.profile.result_tokens;
                for part in &result.parts {
                    self.part(part, counts_reasoning, sum);
                }
            }
            Part::Reasoning { text, opaque } if counts_reasoning => {
                sum.text += self.text(text);
                sum.other += self.opaque(opaque);
            }
            Part::Reasoning { .. } => {}
            Part::Media(media) => sum.other += self.media(media),
        }
    }

    /// Tokens of `text` before scaling.
    fn text(&self, text: &str) -> u64 {
        match self.encoding {
            Some(encoding) => encoding.count(text),
            None => text.chars().count() as u64,
        }
    }

    /// `tokens` of the encoding as tokens of the provider, rounded up.
    fn scaled(&self, tokens: u64) -> u64 {
        (tokens * self.profile.text_numerator).div_ceil(self.profile.text_denominator)
    }

    fn tools(&mut self, tools: &[Tool<'_>]) -> u64 {
        self.counted_only_text = false;
        let profile = self.profile;
        let mut tokens = profile.tools_header_tokens;
        for tool in tools {
            let schema = tool
                .schema
                .map(|schema| schema.compact())
                .unwrap_or_default();
            let texts = [&*tool.name, &*tool.description, &*schema];
            let text = texts.into_iter().map(|text| self.text(text)).sum();
            tokens += profile.tool_tokens + self.scaled(text);
        }
        profile.tools_tokens + permille(tokens, profile.tools_permille)
    }

    fn choice(&self, choice: &ToolChoice<'_>) -> u64 {
        match choice {
            ToolChoice::Free => 0,
            ToolChoice::Required => self.profile.required_choice_tokens,
            ToolChoice::Tool(name) => {
                self.profile.forced_choice_tokens + self.scaled(self.text(name))
            }
        }
    }

    fn opaque(&mut self, opaque: &str) -> u64 {
        if opaque.is_empty() {
            return 0;
        }
        self.assumptions.insert("opaque_reasoning");
        let scaled = opaque.len() as u64 * self.profile.opaque_permille / 1000;
        scaled.saturating_add_signed(self.profile.opaque_offset_tokens)
    }

    /// Tokens of an image by the profile's rule, of other media by its flat price.
    fn media(&mut self, media: &Media<'_>) -> u64 {
        let (assumption, price) = match media.kind {
            _ if self.profile.name == "universal" => {
                return self.text(&media.name) + self.text(&media.mime);
            }
            MediaKind::Image => return self.image(media),
            MediaKind::File => ("flat_file", self.profile.file_tokens),
            MediaKind::Audio => ("flat_audio", self.profile.audio_tokens),
            MediaKind::Video => ("flat_video", self.profile.video_tokens),
        };
        self.assumptions.insert(assumption);
        price
    }

    fn image(&mut self, media: &Media<'_>) -> u64 {
        let head = content_head(&media.content);
        let size = media::image_size(&head).map(|(size, _)| size);
        if size.is_none() && !matches!(media.content, Content::Remote(_)) {
            self.assumptions.insert("unreadable_image");
        }
        let size = size.or_else(|| PixelSize::new(DEFAULT_SIDE_PX, DEFAULT_SIDE_PX));
        let rule = media::image_rule(&self.profile.image_rule);
        match (rule, size) {
            (Some(rule), Some(size)) => rule.tokens(size, detail(&media.detail)),
            _ => 0,
        }
    }
}

/// The beginning of the bytes, as far as an image header can reach; empty if they are elsewhere.
fn content_head<'d>(content: &Content<'d>) -> std::borrow::Cow<'d, [u8]> {
    match content {
        Content::Bytes(bytes) => bytes[..bytes.len().min(media::HEAD_BYTES)].into(),
        Content::Base64(text) | Content::Malformed(text) => {
            media::decode_base64_head(text, media::HEAD_BYTES).into()
        }
        Content::Percent(text) => media::percent_decode_head(text, media::HEAD_BYTES).into(),
        Content::Remote(_) => Default::default(),
    }
}

/// Index of the last turn of the user among `messages`: a user message that answers no tool call.
pub fn last_user_index(messages: &[Message<'_>]) -> Option<usize> {
    let is_result = |part: &Part<'_>| matches!(part, Part::ToolResult(_));
    messages
        .iter()
        .rposition(|message| message.role == "user" && !message.parts.iter().any(is_result))
}

/// Whether `rule` bills the reasoning in message `index`, the user's last turn being `turn`.
pub fn counts_reasoning(rule: ReasoningRule, index: usize, turn: Option<usize>) -> bool {
    match rule {
        ReasoningRule::All => true,
        ReasoningRule::Never => false,
        ReasoningRule::Loop => turn.is_none_or(|turn| index > turn),
    }
}

fn permille(tokens: u64, permille: u64) -> u64 {
    (tokens * permille).div_ceil(1000)
}

/// The level of this name; one that no rule knows counts as `auto`.
fn detail(name: &str) -> Detail {
    Detail::from_name(name).unwrap_or(Detail::Auto)
}
