//! Counts: tokens of a message, of all that stands around the messages, and what is assumed.
mod anthropic;
mod gemini;
mod media;
mod openai;
mod tools;
mod turn;
mod vocabulary;

pub use vocabulary::{TextCounter, Vocabularies};

use crate::bpe::MemoKey;
use crate::interrupt;
use crate::json::Kind;
use crate::layout::{self, CallText, GeminiForm};
use crate::profile::{ApiPrices, Layout, Profile, ReasoningRule};
use crate::request::{
    Assumptions, Data, MediaKind, Message, Part, Request, Text, ToolCall, ToolChoice, ToolResult,
};
use turn::{Prompt, Turn, calls, is_result};
use vocabulary::Vocabulary;

/// About how many bytes of reasoning are a token.
const REASONING_BYTES: u64 = 4;

/// Assumed if something encrypted is counted by its length.
const OPAQUE: &str = "opaque_reasoning";

/// What a vendor may say around a field that is not counted: of 45 recorded calls with one, 41 were billed no more.
const UNREAD_TOKENS: u64 = 96;

/// The tokens of a message without content where texts alone are billed.
const EMPTY_TOKENS: u64 = 1;

/// Counts with one profile and collects what it had to assume.
#[derive(Debug)]
pub struct Counter<'p> {
    profile: &'p Profile,
    vocabulary: Vocabulary<'p>,
    /// The additions of OpenAI's layout; `None` in any other.
    api: Option<&'p ApiPrices>,
    /// The additions of Anthropic's layout; `None` in any other.
    prompt: Option<Prompt<'p>>,
    /// The tokens that an output schema adds to the header of each answer.
    reply_schema_tokens: u64,
    /// Images and files in the messages that are counted.
    media_count: usize,
    /// True if the messages stand in no chat template.
    is_raw: bool,
    /// True if signatures of thoughts are billed in this message.
    counts_signatures: bool,
    /// True if the results that come next belong to calls in one wrapper.
    is_wrapped: bool,
    assumptions: Assumptions,
    counted_only_text: bool,
    tally: Tally,
}

/// Tokens among those that were counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Of tool definitions and tool choice; of the output schema too, where both are one text.
    pub tools: u64,
    /// Of the output schema.
    pub schema: u64,
    /// Of images.
    pub images: u64,
    /// Of files, audio and video.
    pub files: u64,
    /// Of documents that are text, with the text that they are joined to.
    pub documents: u64,
    /// Of messages with calls of tools or their results, besides media and reasoning.
    pub calls: u64,
    /// Of the text of fields that may add tokens and are not counted; they are in no sum.
    pub unread: u64,
    /// Of fields whose price is a guess.
    pub guessed: u64,
    /// How much less or more may be billed for what too few projects have shown; they are in no sum.
    pub doubt: u64,
    /// Of reasoning; what is not billed by the profile's rule is told by its length.
    pub reasoning: u64,
}

impl Tally {
    /// Of images and files.
    pub fn media(&self) -> u64 {
        self.images + self.files
    }

    /// Takes note of a message of so many tokens, `before` it was counted.
    fn note(&mut self, message: &Message<'_>, tokens: u64, before: Tally) {
        let is_call = |part: &Part<'_>| matches!(part, Part::ToolCall(_) | Part::ToolResult(_));
        if message.parts.iter().any(is_call) {
            let apart = |tally: &Tally| tally.media() + tally.documents + tally.reasoning;
            let apart = apart(self).saturating_sub(apart(&before));
            self.calls += tokens.saturating_sub(apart);
        }
    }
}

/// Text in tokens of the encoding, still to be scaled, and tokens of all else.
#[derive(Clone, Copy, Default)]
struct Sum {
    text: u64,
    other: i64,
}

impl Sum {
    fn add(&mut self, tokens: u64) {
        self.other = self.other.saturating_add_unsigned(tokens);
    }

    fn add_signed(&mut self, tokens: i64) {
        self.other = self.other.saturating_add(tokens);
    }
}

impl<'p> Counter<'p> {
    /// A counter for `request` that has counted nothing yet; `custom` counts text if there is
    /// one. What is remembered of texts is found under the same `key` alone.
    pub fn new(
        profile: &'p Profile,
        request: &Request<'_>,
        custom: Option<&'p dyn TextCounter>,
        key: MemoKey,
    ) -> Counter<'p> {
        let mut counter = Counter {
            profile,
            vocabulary: Vocabulary::new(profile.encoding.as_str(), custom, key),
            api: profile.api_prices(request.dialect, &request.model),
            prompt: Prompt::new(profile, request),
            reply_schema_tokens: 0,
            media_count: 0,
            is_raw: request.is_raw,
            counts_signatures: false,
            is_wrapped: false,
            assumptions: Assumptions::new(),
            counted_only_text: true,
            tally: Tally::default(),
        };
        counter.reply_schema_tokens = counter.reply_schema(request);
        counter
    }

    /// The assumptions so far.
    pub fn assumptions(&self) -> &Assumptions {
        &self.assumptions
    }

    /// True if nothing but text was counted so far.
    pub fn counted_only_text(&self) -> bool {
        self.counted_only_text
    }

    /// The shares of tools, schema, media and reasoning in the count so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Records that `name` had to be assumed.
    pub fn assume(&mut self, name: &'static str) {
        self.assumptions.insert(name);
    }

    /// Name of what counts text.
    pub fn encoding(&self) -> &str {
        self.vocabulary.name()
    }

    /// True if the user's vocabulary counts text.
    pub fn has_custom_vocabulary(&self) -> bool {
        self.vocabulary.is_custom()
    }

    /// True if the user's vocabulary could not count a text: then what was counted is no answer.
    pub fn has_failed(&self) -> bool {
        self.vocabulary.has_failed()
    }

    /// True if the user's vocabulary has estimated a text from samples of it.
    pub fn has_sampled(&self) -> bool {
        self.vocabulary.has_sampled()
    }

    /// Tokens of all but the messages: request framing, system prompt, tools, options.
    pub fn context(&mut self, request: &Request<'_>) -> u64 {
        let profile = self.profile;
        let mut tokens = u64::from(!request.is_raw) * profile.request_tokens;
        self.unread(&request.unread);
        tokens += self.guessed(&request.unread);
        let prompt = Prompt::new(profile, request);
        if let Some(prompt) = prompt {
            tokens = plus(tokens, self.blocks(prompt, &request.system));
        } else if !request.system.is_empty() {
            let is_framed = request.has_system_role || !profile.is_gemini();
            tokens += u64::from(is_framed) * profile.system_tokens;
            tokens += self.parts(&request.system, false);
        }
        if let (true, Layout::Anthropic(_, prices)) = (request.has_citations, &profile.layout) {
            tokens += prices.citations_tokens;
        }
        // These two layouts write tools, schema and options in forms of their own; what follows is for all others,
        // whose prices are so much for each.
        if let Some(api) = self.api {
            let with = plus(tokens, self.layout(api, request));
            match request.tools.is_empty() {
                true => self.tally.schema = with.saturating_sub(tokens),
                false => self.tally.tools = with.saturating_sub(tokens),
            }
            return with;
        }
        if let Layout::Gemini(form, _) = profile.layout {
            return tokens + self.gemini_context(form, request);
        }
        let (linear, prices) = (profile.linear(), profile.tools());
        let has_system = openai::leading_system(request).is_some();
        if !has_system && !request.is_raw {
            tokens = plus(tokens, linear.no_system_tokens);
        }
        if profile.hides_tools(request) {
            let after = linear.tools_after_result_tokens.unwrap_or(0);
            self.counted_only_text = false;
            self.tally.tools = after;
            tokens += after;
        } else if !request.tools.is_empty() && !self.drops_tools(request) {
            let tools = self.tools(request) + self.choice(&request.tool_choice);
            let more = i64::from(!has_system) * linear.tools_without_system_tokens;
            let not_parallel = prompt.map_or(0, |it| it.no_parallel_calls_tokens);
            self.tally.tools = plus(tools, not_parallel.saturating_add(more));
            tokens += self.tally.tools;
        }
        if let Some(schema) = &request.response_schema {
            self.counted_only_text = false;
            let text = match self.prompt {
                Some(_) => layout::indented_schema(schema),
                None => schema.compact(),
            };
            let schema = self.scaled(self.text(&text));
            let with = plus(
                tokens + permille(schema, prices.schema_permille),
                prices.schema_tokens,
            );
            self.tally.schema = with.saturating_sub(tokens);
            tokens = with;
        }
        let has_thinking = match profile.reasoning.thinks {
            true => !request.limits_thinking && !request.is_raw,
            false => request.has_thinking,
        };
        if has_thinking {
            tokens += prices.thinking_tokens;
        }
        if request.has_thinking_off && !request.is_raw {
            tokens += profile.reasoning.thinking_off_tokens;
        }
        tokens
    }

    /// Tokens of fields around the messages whose price the calls of one project show; `low` is without them.
    fn guessed(&mut self, fields: &[Data<'_>]) -> u64 {
        let Layout::Anthropic(_, prices) = &self.profile.layout else {
            return 0;
        };
        let price = |data: &Data<'_>| match data.member_name() {
            Some("task_budget") => prices.task_budget_tokens,
            Some("input_examples") => {
                prices.examples_tokens + self.scaled(self.text(&data.compact()))
            }
            _ => 0,
        };
        let tokens = fields.iter().map(price).sum();
        self.tally.guessed = tokens;
        tokens
    }

    /// Takes note of something that may cost so much less or more.
    fn doubt(&mut self, tokens: u64) {
        self.tally.doubt += tokens;
    }

    /// Takes note of fields that are not counted.
    fn unread(&mut self, fields: &[Data<'_>]) {
        for data in fields {
            let tokens = self.scaled(self.text(&data.compact()));
            let tokens = tokens.saturating_add(UNREAD_TOKENS);
            self.tally.unread = self.tally.unread.saturating_add(tokens);
        }
    }

    /// True if the tool choice takes the tools out of the prompt.
    fn drops_tools(&self, request: &Request<'_>) -> bool {
        self.profile.linear().none_choice_drops_tools && request.tool_choice == ToolChoice::None
    }

    /// Tokens of `messages` from `start` on, one by one, each with its framing.
    ///
    /// Reasoning is billed by the profile's rule.
    pub fn messages<'a>(
        &'a mut self,
        messages: &'a [Message<'_>],
        start: usize,
    ) -> impl Iterator<Item = u64> + 'a {
        self.messages_where(messages, move |index| index >= start)
    }

    /// Tokens of those of `messages` that `is_counted` names by index, as they stand among all.
    pub fn messages_where<'a>(
        &'a mut self,
        messages: &'a [Message<'_>],
        is_counted: impl Fn(usize) -> bool + 'a,
    ) -> impl Iterator<Item = u64> + 'a {
        let turn = last_user_index(messages);
        let rule = self.profile.reasoning.reasoning;
        let indexed = messages.iter().enumerate();
        self.media_count = media_count(indexed.filter(|it| is_counted(it.0)).map(|it| it.1));
        self.is_wrapped = false;
        let signatures = self.profile.signatures();
        let prompt = self.prompt;
        let mut said = Turn::new();
        (0..messages.len()).filter_map(move |index| {
            interrupt::poll();
            let message = &messages[index];
            if !is_counted(index) {
                match prompt {
                    Some(prompt) => said.skip(prompt, message),
                    None if message.role != "tool" => self.is_wrapped = self.wraps(message),
                    None => {}
                }
                return None;
            }
            if message.is_dropped {
                return Some(0);
            }
            self.counts_signatures = signatures.is_some_and(|it| counts_reasoning(it, index, turn));
            let counts_reasoning = counts_reasoning(rule, index, turn);
            let before = self.tally;
            let is_last = index + 1 == messages.len();
            let tokens = match prompt {
                None => self.message(messages, index, counts_reasoning),
                Some(prompt) => {
                    self.marked_up(prompt, &mut said, message, is_last, counts_reasoning)
                }
            };
            self.tally.note(message, tokens, before);
            self.unread(&message.unread);
            Some(tokens)
        })
    }

    fn message(&mut self, all: &[Message<'_>], index: usize, counts_reasoning: bool) -> u64 {
        let message = &all[index];
        let mut sum = Sum::default();
        if message.role != "tool" {
            self.is_wrapped = self.wraps(message);
        }
        // A message of nothing but reasoning that is not counted again leaves the prompt with its frame.
        let has_frame = self.api.is_none() || counts_reasoning || !is_only_reasoning(message);
        if has_frame && !(self.is_wrapped && is_tool(all.get(index.wrapping_sub(1)), message)) {
            sum.add_signed(self.frame(message));
        }
        // Wrapped results are the elements of one list, over all messages of results that follow each other: the
        // bracket or comma beside each is counted with its text, with which it may be one token.
        let mut results = message.parts.iter().filter(|part| is_result(part)).count();
        let is_first = !is_tool(all.get(index.wrapping_sub(1)), message);
        let is_last = !is_tool(all.get(index + 1), message);
        let mut nth = 0;
        for part in &message.parts {
            match (part, self.api) {
                (Part::ToolCall(call), Some(api)) if !self.is_wrapped => {
                    self.call(api, call, all, index, &mut sum);
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
                (Part::ToolResult(result), Some(api)) if result.is_legacy => {
                    self.legacy_result(api, result, &mut sum);
                    self.part(part, counts_reasoning, &mut sum);
                }
                (Part::Text(text), _)
                    if self.profile.reasoning.has_think_tags
                        && message.role == "assistant"
                        && !counts_reasoning =>
                {
                    sum.text += self.text(self.without_thought(text));
                }
                _ => self.part(part, counts_reasoning, &mut sum),
            }
        }
        if let (true, Some(api)) = (self.is_wrapped && message.role != "tool", self.api) {
            let calls: Vec<_> = calls(message).collect();
            sum.text += self.text(&layout::wrapper_text(&calls));
            sum.add_signed(api.wrapper_tokens);
        }
        if self.counts_signatures {
            let tokens = self.signature(message);
            self.tally.reasoning += tokens;
            sum.add(tokens);
        }
        self.total(sum)
    }

    /// Tokens that stand around a message.
    fn frame(&self, message: &Message<'_>) -> i64 {
        if self.is_raw {
            return 0;
        }
        let profile = self.profile;
        let is_framed = message.has_role || !profile.is_gemini();
        let (mut tokens, mut more) = (u64::from(is_framed) * profile.message_tokens, 0);
        if matches!(profile.layout, Layout::Gemini(GeminiForm::Names, _))
            && message.parts.is_empty()
        {
            tokens += EMPTY_TOKENS;
        }
        if calls(message).next().is_some() {
            tokens += profile.linear().calls_tokens;
        }
        if message.role == "assistant" {
            tokens += self.reply_schema_tokens;
            more += profile.assistant_tokens;
        }
        if !message.name.is_empty() {
            tokens += self.scaled(self.text(&message.name));
            more += profile.name_tokens;
        }
        more.saturating_add_unsigned(tokens)
    }

    /// All of `sum`, at least 0.
    fn total(&self, sum: Sum) -> u64 {
        plus(self.scaled(sum.text), sum.other)
    }

    /// Tokens of the reasoning in `message` that the next turn of the user drops.
    pub fn reasoning(&mut self, message: &Message<'_>) -> u64 {
        let mut sum = Sum::default();
        for part in &message.parts {
            match part {
                Part::Reasoning { .. }
                    if self.profile.reasoning.reasoning == ReasoningRule::Loop =>
                {
                    self.part(part, true, &mut sum);
                }
                Part::Text(text)
                    if message.role == "assistant" && self.profile.reasoning.has_think_tags =>
                {
                    let said = self.text(self.without_thought(text));
                    sum.text += self.text(text).saturating_sub(said);
                }
                _ => {}
            }
        }
        if self.profile.signatures() == Some(ReasoningRule::Loop) {
            sum.add(self.signature(message));
        }
        self.total(sum)
    }

    fn parts(&mut self, parts: &[Part<'_>], counts_reasoning: bool) -> u64 {
        let mut sum = Sum::default();
        parts
            .iter()
            .for_each(|part| self.part(part, counts_reasoning, &mut sum));
        self.total(sum)
    }

    fn part(&mut self, part: &Part<'_>, counts_reasoning: bool, sum: &mut Sum) {
        self.counted_only_text &= matches!(part, Part::Text(_));
        if let Layout::Gemini(form, prices) = &self.profile.layout {
            match part {
                Part::ToolCall(call) => return self.gemini_call(*form, call, sum),
                Part::ToolResult(result) => {
                    return self.gemini_result((*form, prices), result, sum);
                }
                _ => {}
            }
        }
        match part {
            Part::Text(text) if self.profile.is_gemini() => {
                sum.text += text.blocks().map(|block| self.text(block)).sum::<u64>();
            }
            Part::Text(text) => {
                let tokens = self.text(text);
                self.note_documents(text, tokens);
                sum.text += tokens;
                if let Some(prompt) = self.prompt {
                    self.documents(prompt, text.documents(), sum);
                }
            }
            Part::Data(data) => sum.text += self.text(&data.compact()),
            Part::ToolCall(call) => self.linear_call(call, sum),
            Part::ToolResult(result) => {
                sum.add(self.profile.linear().result_tokens);
                if self.profile.linear().call_text == CallText::MistralList {
                    return self.listed_result(result, sum);
                }
                for part in &result.parts {
                    self.part(part, counts_reasoning, sum);
                }
            }
            Part::Reasoning { text, opaque } if counts_reasoning => {
                let text = self.text(text);
                let opaque = self.opaque(opaque.len()) + self.profile.reasoning.reasoning_tokens;
                self.tally.reasoning += text + opaque;
                sum.text += text;
                sum.add(opaque);
            }
            Part::Reasoning { text, opaque } => {
                let bytes = text.len() + opaque.len();
                self.tally.reasoning += bytes as u64 / REASONING_BYTES;
            }
            Part::Summary { text, opaque } => {
                let (text, prices) = (self.text(text), &self.profile.reasoning);
                let mut other = prices.summary_tokens;
                if !opaque.is_empty() {
                    self.assumptions.insert(OPAQUE);
                    other = opaque.len() as u64 * prices.opaque_summary_permille / 1000;
                }
                self.tally.reasoning += text + other;
                sum.text += text;
                sum.add(other);
            }
            Part::Media(media) => {
                let tokens = self.media(media);
                match media.kind {
                    MediaKind::Image => self.tally.images += tokens,
                    _ => self.tally.files += tokens,
                }
                sum.add(tokens);
            }
        }
    }

    /// Takes note of the documents in a text of so many tokens.
    fn note_documents(&mut self, text: &Text<'_>, tokens: u64) {
        if !text.documents().is_empty() {
            self.tally.documents += tokens;
        }
    }

    /// A call where no layout renders it.
    fn linear_call(&self, call: &ToolCall<'_>, sum: &mut Sum) {
        let linear = self.profile.linear();
        let name = self.text(&call.name);
        match linear.call_text {
            CallText::Json => sum.text += name + self.text(&call.arguments.compact()),
            CallText::JsonTwice => sum.text += 2 * name + self.text(&call.arguments.compact()),
            CallText::Elements => {
                sum.text += name;
                self.arguments(&call.arguments, linear.argument_tokens, sum);
            }
            CallText::Spaced => {
                sum.text += name + self.text(&layout::spaced_text(&call.arguments));
            }
            CallText::MistralList => sum.text += self.text(&layout::listed_call(call)),
            CallText::Free => return,
        }
        sum.add(self.profile.call_tokens);
    }

    /// A result in a list of objects, with what its id costs in the list of calls.
    fn listed_result(&mut self, result: &ToolResult<'_>, sum: &mut Sum) {
        let text = self.text_of(result, sum);
        let texts = [
            layout::listed_result(&text, &result.call_id),
            layout::listed_id(&result.call_id),
        ];
        sum.text += texts.iter().map(|text| self.text(text)).sum::<u64>();
    }

    /// Texts and data of a result as one text; its media are added to `sum`.
    fn text_of(&mut self, result: &ToolResult<'_>, sum: &mut Sum) -> String {
        let mut text = String::new();
        for part in &result.parts {
            match part {
                Part::Text(more) => text.push_str(more),
                Part::Data(data) => data.write_compact(&mut text),
                _ => self.part(part, false, sum),
            }
        }
        text
    }

    /// Arguments as elements of so many tokens each; what is no JSON object as it is.
    fn arguments(&self, arguments: &Data<'_>, tokens: u64, sum: &mut Sum) {
        arguments.read(|value| {
            let object = value.filter(|value| value.kind() == Kind::Object);
            let Some(object) = object else {
                sum.text += self.text(&arguments.compact());
                return;
            };
            for (name, value) in object.members() {
                sum.text += self.text(name) + self.text(&layout::argument_text(value));
                sum.add(tokens);
            }
        });
    }

    /// The text of an answer after its thought, if the profile's models think between tags.
    fn without_thought<'t>(&self, text: &'t str) -> &'t str {
        match text.rsplit_once("</think>") {
            Some((_, said)) if self.profile.reasoning.has_think_tags => {
                said.trim_start_matches('\n')
            }
            _ => text,
        }
    }

    /// Tokens of `text` before scaling.
    fn text(&self, text: &str) -> u64 {
        if self.is_raw {
            return layout::with_markers(text, |stretch| self.plain_text(stretch));
        }
        self.plain_text(text)
    }

    fn plain_text(&self, text: &str) -> u64 {
        self.vocabulary.count(text)
    }

    /// `tokens` of the encoding as tokens of the provider, rounded up.
    fn scaled(&self, tokens: u64) -> u64 {
        if self.vocabulary.is_custom() {
            return tokens;
        }
        (tokens * self.profile.text_numerator).div_ceil(self.profile.text_denominator.get())
    }

    /// Tokens of an encrypted blob of this length.
    fn opaque(&mut self, byte_count: usize) -> u64 {
        if byte_count == 0 {
            return 0;
        }
        self.assumptions.insert(OPAQUE);
        let prices = &self.profile.reasoning;
        let scaled = byte_count as u64 * prices.opaque_permille / 1000;
        scaled.saturating_add_signed(prices.opaque_offset_tokens)
    }
}

/// True if `message` has results of calls.
pub(crate) fn has_results(message: &Message<'_>) -> bool {
    message.role == "tool" || message.parts.iter().any(is_result)
}

/// Index of the last turn of the user among `messages`: a user message that answers no tool call.
pub fn last_user_index(messages: &[Message<'_>]) -> Option<usize> {
    let is_result = |part: &Part<'_>| matches!(part, Part::ToolResult(_));
    messages
        .iter()
        .rposition(|message| message.role == "user" && !message.parts.iter().any(is_result))
}

/// True if `rule` bills the reasoning in message `index`, the user's last turn being `turn`.
fn counts_reasoning(rule: ReasoningRule, index: usize, turn: Option<usize>) -> bool {
    match rule {
        ReasoningRule::All => true,
        ReasoningRule::Never => false,
        ReasoningRule::Loop => turn.is_none_or(|turn| index > turn),
    }
}

/// Images and files in `messages`.
fn media_count<'m, 'd: 'm>(messages: impl Iterator<Item = &'m Message<'d>>) -> usize {
    let of_part = |part: &Part<'_>| match part {
        Part::Media(_) => 1,
        Part::ToolResult(result) => {
            let is_media = |part: &&Part<'_>| matches!(part, Part::Media(_));
            result.parts.iter().filter(is_media).count()
        }
        _ => 0,
    };
    messages.flat_map(|it| &it.parts).map(of_part).sum()
}

fn is_only_reasoning(message: &Message<'_>) -> bool {
    let is_reasoning = |part: &Part<'_>| matches!(part, Part::Reasoning { .. });
    !message.parts.is_empty() && message.parts.iter().all(is_reasoning)
}

/// True if both are messages of results.
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
