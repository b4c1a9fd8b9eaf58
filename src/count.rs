//! Counts: tokens of a message, of all that stands around the messages, and what is assumed.
use crate::bpe::Encoding;
use crate::claude::ClaudeFamily;
use crate::layout::{self, Layout, LayoutRule};
use crate::media::{self, Detail, PixelSize};
use crate::profile::{Profile, ReasoningRule};
use crate::request::{
    Assumptions, CallForm, Content, Media, MediaKind, Message, Part, Request, Tool, ToolCall,
    ToolChoice, ToolResult,
};

/// What counts as the size of an image that cannot be read; the reason is in `image_rules.json`.
const DEFAULT_SIDE_PX: u32 = 1024;

/// Counts with one profile and collects what it had to assume.
#[derive(Debug)]
pub struct Counter<'p> {
    profile: &'p Profile,
    vocabulary: Vocabulary,
    /// `None`: tools, schema and calls cost what the profile's linear rules say.
    rule: Option<&'p LayoutRule>,
    /// What the header of each answer costs for an output schema.
    reply_schema_tokens: u64,
    /// Whether the results that come next belong to calls in one wrapper.
    is_wrapped: bool,
    assumptions: Assumptions,
    counted_only_text: bool,
}

/// What counts text.
#[derive(Clone, Copy, Debug)]
enum Vocabulary {
    Bpe(Encoding),
    Claude(ClaudeFamily),
    Characters,
}

impl Vocabulary {
    fn named(name: &str) -> Vocabulary {
        let claude = || ClaudeFamily::named(name).map(Vocabulary::Claude);
        let bpe = Encoding::named(name).map(Vocabulary::Bpe);
        bpe.or_else(claude).unwrap_or(Vocabulary::Characters)
    }

    fn count(self, text: &str) -> u64 {
        match self {
            Vocabulary::Bpe(encoding) => encoding.count(text),
            Vocabulary::Claude(family) => family.count(text),
            Vocabulary::Characters => text.chars().count() as u64,
        }
    }
}

/// Text in tokens of the encoding, still to be scaled, and tokens of all else.
#[derive(Clone, Copy, Default)]
struct Sum {
    text: u64,
    other: u64,
}

impl<'p> Counter<'p> {
    /// A counter for `request` that has counted nothing yet.
    pub fn new(profile: &'p Profile, request: &Request<'_>) -> Counter<'p> {
        let mut counter = Counter {
            profile,
            vocabulary: Vocabulary::named(&profile.encoding),
            rule: profile.layout_rule(request.dialect, &request.model),
            reply_schema_tokens: 0,
            is_wrapped: false,
            assumptions: Assumptions::new(),
            counted_only_text: true,
        };
        counter.reply_schema_tokens = counter.reply_schema(request);
        counter
    }

    /// The header of an answer names the output schema, unless the model may call tools.
    fn reply_schema(&self, request: &Request<'_>) -> u64 {
        let named = self.rule.map_or(0, |rule| rule.reply_schema_tokens);
        match named > 0 && request.response_schema.is_some() && request.tools.is_empty() {
            true => plus(self.scaled(self.text(&request.schema_name)), named),
            false => 0,
        }
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
        if let Some(rule) = self.rule {
            return plus(tokens, self.layout(rule, request));
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

    /// Tokens of `messages` from `start` on, one by one, each with its framing.
    ///
    /// Reasoning is billed by the profile's rule.
    pub fn messages<'a>(
        &'a mut self,
        messages: &'a [Message<'_>],
        start: usize,
    ) -> impl Iterator<Item = u64> + 'a {
        let turn = last_user_index(messages);
        let rule = self.profile.reasoning;
        let is_result = |message: &&Message<'_>| message.role == "tool";
        let before = messages[..start].iter().rev().find(|it| !is_result(it));
        self.is_wrapped = before.is_some_and(|message| self.wraps(message));
        (start..messages.len()).map(move |index| {
            let counts_reasoning = counts_reasoning(rule, index, turn);
            self.message(messages, index, counts_reasoning)
        })
    }

    /// Whether the calls of `message` stand in one wrapper.
    fn wraps(&self, message: &Message<'_>) -> bool {
        self.rule.is_some_and(|rule| rule.wrapper_tokens > 0) && calls(message).nth(1).is_some()
    }

    fn message(&mut self, all: &[Message<'_>], index: usize, counts_reasoning: bool) -> u64 {
        let message = &all[index];
        let mut sum = Sum::default();
        if message.role != "tool" {
            self.is_wrapped = self.wraps(message);
        }
        let has_frame = self.rule.is_none() || counts_reasoning || !is_only_reasoning(message);
        if has_frame && !(self.is_wrapped && is_tool(all.get(index.wrapping_sub(1)), message)) {
            sum.other += self.frame(message);
        }
        let mut results = message.parts.iter().filter(|part| is_result(part)).count();
        let is_first = !is_tool(all.get(index.wrapping_sub(1)), message);
        let is_last = !is_tool(all.get(index + 1), message);
        let mut nth = 0;
        for part in &message.parts {
            match (part, self.rule) {
                (Part::ToolCall(call), Some(rule)) if !self.is_wrapped => {
                    self.call(rule, call, all, index, &mut sum);
                }
                (Part::ToolCall(_), Some(_)) => self.counted_only_text = false,
                (Part::ToolResult(result), Some(_))
                    if self.is_wrapped && message.role == "tool" =>
                {
                    results -= 1;
                    let open = if is_first && nth == 0 { '[' } else { ' ' };
                    let close = if is_last && results == 0 { ']' } else { ',' };
                    nth += 1;
                    self.wrapped_result(result, open, close, &mut sum);
                }
                (Part::ToolCall(_), None) if self.has_markup() => {}
                _ => self.part(part, counts_reasoning, &mut sum),
            }
        }
        let mut more = 0;
        if self.has_markup() {
            more = self.markup(message, &mut sum);
        }
        if let (true, Some(rule)) = (self.is_wrapped && message.role != "tool", self.rule) {
            let calls: Vec<_> = calls(message).collect();
            sum.text += self.text(&layout::wrapper_text(&calls));
            sum.other = plus(sum.other, rule.wrapper_tokens);
        }
        plus(self.scaled(sum.text) + sum.other, more)
    }

    /// Tokens that stand around a message.
    fn frame(&self, message: &Message<'_>) -> u64 {
        let profile = self.profile;
        let mut tokens = profile.message_tokens;
        if message.role == "assistant" {
            tokens += profile.assistant_tokens + self.reply_schema_tokens;
        }
        if !message.name.is_empty() {
            let name = self.scaled(self.text(&message.name));
            tokens = plus(tokens + name, profile.name_tokens);
        }
        tokens
    }

    /// A call that stands by itself; its name is billed with it and with its result.
    fn call(
        &mut self,
        rule: &LayoutRule,
        call: &ToolCall<'_>,
        all: &[Message<'_>],
        index: usize,
        sum: &mut Sum,
    ) {
        self.counted_only_text = false;
        let is_call = |message: &Message<'_>| calls(message).next().is_some();
        let follows = index > 0 && is_call(&all[index - 1]);
        let is_alone = !follows && !all.get(index + 1).is_some_and(is_call);
        let mut tokens = match call.form {
            CallForm::Legacy => rule.legacy_call_tokens,
            CallForm::Item if is_alone => rule.call_tokens + rule.item_id_tokens,
            _ => rule.call_tokens,
        };
        if follows {
            tokens += rule.next_call_tokens;
        }
        sum.other = plus(sum.other, tokens);
        let dotted = rule.dotted_name_count.clamp(0, 2).unsigned_abs();
        sum.text += dotted * self.dotted(&call.name) + (2 - dotted) * self.text(&call.name);
        sum.text += self.text(&call.arguments.compact());
    }

    /// A result among those of a wrapper, which are one JSON array with a space after each comma.
    ///
    /// No token spans a space that follows something else, so the elements can be counted alone.
    fn wrapped_result(&mut self, result: &ToolResult<'_>, open: char, close: char, sum: &mut Sum) {
        self.counted_only_text = false;
        let mut text = String::new();
        for part in &result.parts {
            match part {
                Part::Text(more) => text.push_str(more),
                Part::Data(data) => data.write_compact(&mut text),
                _ => self.part(part, false, sum),
            }
        }
        let text = format!("{open}{}{close}", layout::result_text(&text));
        sum.text += self.text(&text);
    }

    /// Tokens of `name` as it stands behind a dot, as in `functions.name`.
    fn dotted(&self, name: &str) -> u64 {
        self.text(&format!(".{name}"))
    }

    /// Tokens of tools, output schema and options in the OpenAI layout.
    fn layout(&mut self, rule: &LayoutRule, request: &Request<'_>) -> i64 {
        let mut tokens = rule.request_tokens;
        if request.is_pro && rule.pro_tokens > 0 {
            self.counted_only_text = false;
            tokens += rule.pro_tokens;
        }
        let own = |tool: &&Tool<'_>| tool.builtin.is_none();
        let first = request.tools.iter().find(own);
        let system = leading_system(request);
        let mut blocks = Vec::new();
        if let Some(tool) = first {
            let layout = self.profile.layout;
            blocks.push(layout::tools_text(layout, request.tools.iter().filter(own)));
            tokens += match system {
                Some(_) => rule.tools_with_system_tokens,
                None => rule.tools_tokens,
            };
            if !tool.description.is_empty() {
                tokens += rule.described_tokens;
            }
            tokens += self.layout_choice(rule, request);
        }
        if let Some(schema) = &request.response_schema {
            let (name, description) = (&request.schema_name, &request.schema_description);
            blocks.push(layout::schema_text(name, description, schema));
            tokens += match (first, system) {
                (Some(_), _) => rule.schema_with_tools_tokens,
                (None, Some(_)) => rule.schema_with_system_tokens,
                (None, None) => rule.schema_tokens,
            };
            if rule.prompt_has_reply_schema {
                tokens = tokens.saturating_add_unsigned(self.reply_schema_tokens);
            }
        }
        let builtin = request.tools.iter().filter(|tool| !own(tool));
        let mut text: u64 = builtin.map(|tool| self.text(&tool.name)).sum();
        self.counted_only_text &= request.tools.is_empty() && blocks.is_empty();
        if !blocks.is_empty() {
            let block = blocks.join("\n\n");
            match system.filter(|_| rule.joins_system) {
                Some(system) => text += self.joined(system, &block),
                None => {
                    text += self.text(&block);
                    tokens = tokens.saturating_add_unsigned(self.profile.message_tokens);
                }
            }
        }
        tokens.saturating_add_unsigned(self.scaled(text))
    }

    fn layout_choice(&self, rule: &LayoutRule, request: &Request<'_>) -> i64 {
        let own = |tool: &&Tool<'_>| tool.builtin.is_none();
        let mut tools = request.tools.iter().filter(own);
        let forced = match (&request.tool_choice, tools.next(), tools.next()) {
            (ToolChoice::None, _, _) => return rule.none_choice_tokens,
            (ToolChoice::Tool(name), _, _) => name,
            (ToolChoice::Required, Some(tool), None) if rule.forces_lone_tool => &tool.name,
            _ => return 0,
        };
        match rule.forced_choice_tokens {
            0 => 0,
            tokens => tokens.saturating_add_unsigned(self.scaled(self.dotted(forced))),
        }
    }

    /// What `block` adds behind `system` and a blank line.
    ///
    /// Only the end of `system` can share a token with it: from a space that follows something
    /// else on, since no token spans such a place.
    fn joined(&self, system: &[Part<'_>], block: &str) -> u64 {
        let end = match system.last() {
            Some(Part::Text(text)) => end_of(text),
            _ => "",
        };
        let both = self.text(&format!("{end}\n\n{block}"));
        both.saturating_sub(self.text(end))
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
        self.vocabulary.count(text)
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
            tokens += profile.tool_tokens + self.scaled(self.tool(tool));
        }
        profile.tools_tokens + permille(tokens, profile.tools_permille)
    }

    /// Text of one tool definition.
    fn tool(&self, tool: &Tool<'_>) -> u64 {
        if self.has_markup() && tool.builtin.is_none() {
            return self.text(&layout::function_line(tool));
        }
        let schema = tool.schema.map(|schema| schema.compact());
        let schema = schema.unwrap_or_default();
        let texts = [&*tool.name, &*tool.description, &*schema];
        texts.into_iter().map(|text| self.text(text)).sum()
    }

    /// Whether calls and tools are markup.
    fn has_markup(&self) -> bool {
        self.profile.layout == Layout::Anthropic
    }

    /// Adds the calls of a message as markup behind its text; what is returned comes on top.
    fn markup(&mut self, message: &Message<'_>, sum: &mut Sum) -> i64 {
        let calls: Vec<_> = calls(message).collect();
        if calls.is_empty() {
            return 0;
        }
        self.counted_only_text = false;
        let has_text = message.parts.iter().any(|it| matches!(it, Part::Text(_)));
        let count = calls.len() as u64;
        sum.text += self.text(&layout::calls_text(calls.iter().copied(), has_text));
        if count > 1 {
            sum.other += self.profile.parallel_tokens + count * self.profile.parallel_call_tokens;
            sum.text += calls.iter().map(|call| self.text(&call.name)).sum::<u64>();
        }
        self.profile
            .invoke_tokens
            .saturating_mul(i64::try_from(count).unwrap_or(i64::MAX))
    }

    fn choice(&self, choice: &ToolChoice<'_>) -> u64 {
        match choice {
            ToolChoice::Free | ToolChoice::None => 0,
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
fn counts_reasoning(rule: ReasoningRule, index: usize, turn: Option<usize>) -> bool {
    match rule {
        ReasoningRule::All => true,
        ReasoningRule::Never => false,
        ReasoningRule::Loop => turn.is_none_or(|turn| index > turn),
    }
}

/// The system prompt or system message that the prompt begins with.
fn leading_system<'r, 'd>(request: &'r Request<'d>) -> Option<&'r [Part<'d>]> {
    if !request.system.is_empty() {
        return Some(&request.system);
    }
    let first = request.messages.first();
    let first = first.filter(|first| matches!(&*first.role, "system" | "developer"));
    first.map(|first| &*first.parts)
}

/// `text` from its last space on that follows something else than white space.
fn end_of(text: &str) -> &str {
    let bytes = text.as_bytes();
    let is_cut = |place: &usize| bytes[*place] == b' ' && bytes[place - 1].is_ascii_graphic();
    let place = (1..bytes.len()).rev().find(is_cut);
    &text[place.unwrap_or(0)..]
}

fn calls<'m, 'd>(message: &'m Message<'d>) -> impl Iterator<Item = &'m ToolCall<'d>> {
    message.parts.iter().filter_map(|part| match part {
        Part::ToolCall(call) => Some(call),
        _ => None,
    })
}

fn is_result(part: &Part<'_>) -> bool {
    matches!(part, Part::ToolResult(_))
}

fn is_only_reasoning(message: &Message<'_>) -> bool {
    let is_reasoning = |part: &Part<'_>| matches!(part, Part::Reasoning { .. });
    !message.parts.is_empty() && message.parts.iter().all(is_reasoning)
}

/// Whether both are messages of results.
fn is_tool(neighbor: Option<&Message<'_>>, message: &Message<'_>) -> bool {
    message.role == "tool" && neighbor.is_some_and(|neighbor| neighbor.role == "tool")
}

/// `tokens` and a number that may be negative, at least 0.
fn plus(tokens: u64, more: i64) -> u64 {
    tokens.saturating_add_signed(more)
}

fn permille(tokens: u64, permille: u64) -> u64 {
    (tokens * permille).div_ceil(1000)
}

/// The level of this name; one that no rule knows counts as `auto`.
fn detail(name: &str) -> Detail {
    Detail::from_name(name).unwrap_or(Detail::Auto)
}
