//! A request counted part by part: every message once, and the parts around them. For the context window.
use crate::Error;
use crate::bpe::MemoKey;
use crate::count::Counter;
use crate::encoding::Encoding;
use crate::engine::answer::count_whole;
use crate::engine::estimate::RequestCount;
use crate::engine::input::Call;
use crate::engine::reading::{Reader, Reading};
use crate::json::{Builder, Document, Limits, Value};
use crate::known::tenant::Tenant;
use crate::profile::ReasoningRule;
use crate::profile::table::Table;
use crate::request::{
    MessageOutline, Outline, OutlineKind, OutlinePart, Speaker, ToolOutline, read_tools,
};
use std::collections::HashSet;

/// Fields with a system prompt outside of the messages.
const SYSTEM_FIELDS: [&str; 4] = [
    "system",
    "instructions",
    "systemInstruction",
    "system_instruction",
];

/// The parts that are wanted beside the tokens of messages, which are always given.
#[derive(Clone, Copy, Debug, Default)]
pub struct WantedParts<'p> {
    /// The estimate too.
    pub estimate: bool,
    /// Tokens by category, and the parts around the messages.
    pub categories: bool,
    /// The tokens that clearing results of tools would save, with this text in the place of each.
    pub placeholder: Option<&'p str>,
}

/// A request counted part by part. The first four have one item for each message of the caller.
#[derive(Debug)]
pub struct CountedParts {
    /// Tokens.
    pub message_tokens: Vec<u64>,
    /// True for a message that the system says.
    pub is_system: Vec<bool>,
    /// True where a turn of the user begins.
    pub is_turn: Vec<bool>,
    /// True where a conversation may be cut before the message, and last, behind all of them.
    pub is_safe: Vec<bool>,
    /// Tokens of messages by category, of those that occur.
    pub categories: Vec<(&'static str, u64)>,
    /// Results of tools, from the oldest on.
    pub results: Vec<ResultTokens>,
    /// The parts around the messages.
    pub head: Option<Head>,
}

/// A result of a tool.
#[derive(Debug)]
pub struct ResultTokens {
    /// The place of its message.
    pub message: usize,
    /// Its place among the parts of the message.
    pub part: usize,
    /// The tool, as far as it is known.
    pub tool: String,
    /// Its share of the tokens of the message.
    pub tokens: u64,
    /// The tokens that a placeholder in its place would save.
    pub saved_tokens: u64,
}

/// The parts of a request around the messages.
#[derive(Debug, Default)]
pub struct Head {
    /// The system prompt outside of the messages.
    pub system_tokens: u64,
    /// All tools together.
    pub tools_tokens: u64,
    /// The rest.
    pub framing_tokens: u64,
    /// Each tool by itself.
    pub tools: Vec<ToolTokens>,
}

/// A definition of a tool.
#[derive(Debug)]
pub struct ToolTokens {
    /// Its name.
    pub name: String,
    /// The tokens that it adds.
    pub tokens: u64,
    /// The server that it says it is of; empty if it does not.
    pub server: String,
    /// True if it is defined but not sent yet.
    pub is_deferred: bool,
}

/// The parts of a request that was `read` from `document` and counted in whole as `count`. Linear in the request
/// and, for tools, in their number.
pub(super) fn count_parts<'d>(
    reader: &'d Reader,
    document: &'d Document<'_>,
    reading: &Reading<'d>,
    count: &RequestCount,
    call: &Call<'d>,
    wanted: WantedParts<'_>,
) -> Result<CountedParts, Error> {
    let outline = Outline::read(document);
    let mut parts = parts(&outline, count, wanted, reading.tenant.memo_key);
    if wanted.categories {
        parts.head = Some(HeadCounter::new(reader, &outline, count, call, reading).count()?);
    }
    Ok(parts)
}

/// The tokens around the messages of the conversation: of the context, and of what the system says.
pub(super) fn fixed_tokens(document: &Document<'_>, reading: &Reading<'_>) -> u64 {
    let outline = Outline::read(document);
    let messages = &reading.request.messages;
    // A request of odd shape, or a vocabulary that may fail on a message, is counted in whole.
    if outline.messages.len() == messages.len() && !reading.has_custom_vocabulary() {
        let is_system = |index: usize| outline.messages[index].speaker == Speaker::System;
        let fixed = |counter: &mut Counter<'_>| {
            let context = counter.context(&reading.request);
            context + counter.messages_where(messages, is_system).sum::<u64>()
        };
        return reading.counted(fixed).0;
    }
    let count = count_whole(reading);
    let wanted = WantedParts::default();
    let parts = parts(&outline, &count, wanted, reading.tenant.memo_key);
    let each = parts.message_tokens.iter().zip(parts.is_system);
    let system = each.filter(|it| it.1).map(|it| it.0);
    count.context_tokens + system.sum::<u64>()
}

fn parts(
    outline: &Outline<'_>,
    count: &RequestCount,
    wanted: WantedParts<'_>,
    key: MemoKey,
) -> CountedParts {
    let messages = &outline.messages;
    let texts = TextTokens {
        encoding: Encoding::named(&count.encoding),
        key,
    };
    let mut message_tokens = count.message_tokens.clone();
    if message_tokens.len() != messages.len() {
        // A request of odd shape was read as another number of messages.
        let length = |it: &MessageOutline<'_>| it.parts.iter().map(characters).sum();
        let lengths: Vec<u64> = messages.iter().map(length).collect();
        message_tokens = apportioned(message_tokens.iter().sum(), &lengths);
    }
    let mut parts = CountedParts {
        message_tokens,
        is_system: messages
            .iter()
            .map(|it| it.speaker == Speaker::System)
            .collect(),
        is_turn: messages.iter().map(MessageOutline::is_turn).collect(),
        is_safe: outline.safe_cuts(),
        categories: Vec::new(),
        results: Vec::new(),
        head: None,
    };
    if wanted.categories || wanted.placeholder.is_some() {
        let shares = part_tokens(outline, &count.about.profile, &parts.message_tokens, &texts);
        if wanted.categories {
            parts.categories = categories(messages, &parts.message_tokens, &shares);
        }
        if let Some(placeholder) = wanted.placeholder {
            parts.results = results(outline, &shares, placeholder, &texts);
        }
    }
    parts
}

/// Counts texts by themselves: by the encoding, or of one that we lack, a quarter of the letters.
struct TextTokens {
    encoding: Option<Encoding>,
    key: MemoKey,
}

impl TextTokens {
    fn of_text(&self, text: &str) -> u64 {
        match &self.encoding {
            Some(encoding) => encoding.count_in(self.key, text),
            None => text.chars().count() as u64 / 4,
        }
    }

    fn of(&self, part: &OutlinePart<'_>) -> u64 {
        let Some(encoding) = &self.encoding else {
            return characters(part) / 4;
        };
        let mut tokens = 0;
        part.each_text(|text| tokens += encoding.count_in(self.key, text));
        tokens
    }
}

fn characters(part: &OutlinePart<'_>) -> u64 {
    let mut count = 0;
    part.each_text(|text| count += text.chars().count() as u64);
    count
}

/// The tokens of each message shared among its parts.
///
/// A part of text weighs what its text counts; files share what is left. Only messages of several parts are
/// looked at again, and reasoning that the provider does not keep weighs nothing.
fn part_tokens(
    outline: &Outline<'_>,
    profile: &str,
    message_tokens: &[u64],
    texts: &TextTokens,
) -> Vec<Vec<u64>> {
    let kept_from = reasoning_kept_from(outline, profile);
    let share = |(index, (message, &tokens)): (usize, (&MessageOutline<'_>, &u64))| {
        let parts = &message.parts;
        if parts.len() < 2 {
            return vec![tokens; parts.len()];
        }
        let weight = |part: &OutlinePart<'_>| match part.kind {
            OutlineKind::Reasoning if index < kept_from => 0,
            OutlineKind::File => 0,
            _ => texts.of(part),
        };
        let mut weights: Vec<u64> = parts.iter().map(weight).collect();
        let files: Vec<u64> = parts.iter().map(|it| u64::from(it.has_file())).collect();
        if files.contains(&1) {
            let left = tokens.saturating_sub(weights.iter().sum());
            let shares = apportioned(left, &files);
            weights
                .iter_mut()
                .zip(shares)
                .for_each(|(it, more)| *it += more);
        }
        apportioned(tokens, &weights)
    };
    let messages = outline.messages.iter().zip(message_tokens);
    messages.enumerate().map(share).collect()
}

/// The first message whose reasoning is still billed.
fn reasoning_kept_from(outline: &Outline<'_>, profile: &str) -> usize {
    let found = Table::bundled().named(profile);
    match found.reasoning.reasoning {
        _ if found.name != profile => 0,
        ReasoningRule::All => 0,
        ReasoningRule::Never => outline.messages.len(),
        ReasoningRule::Loop => {
            let turn = outline.messages.iter().rposition(MessageOutline::is_turn);
            turn.unwrap_or(0)
        }
    }
}

fn categories(
    messages: &[MessageOutline<'_>],
    message_tokens: &[u64],
    shares: &[Vec<u64>],
) -> Vec<(&'static str, u64)> {
    let mut found: Vec<(&'static str, u64)> = Vec::new();
    let mut add = |name, tokens: u64| match found.iter_mut().find(|it| it.0 == name) {
        Some(it) => it.1 += tokens,
        None => found.push((name, tokens)),
    };
    for ((message, &tokens), shares) in messages.iter().zip(message_tokens).zip(shares) {
        if message.parts.is_empty() {
            add("user", tokens);
        }
        for (part, &tokens) in message.parts.iter().zip(shares) {
            add(category(message.speaker, part.kind), tokens);
        }
    }
    found
}

fn category(speaker: Speaker, kind: OutlineKind) -> &'static str {
    match (speaker, kind) {
        (Speaker::System, _) => "system",
        (_, OutlineKind::Result) => "tool_results",
        (_, OutlineKind::File) => "files",
        (_, OutlineKind::Reasoning) => "reasoning",
        (Speaker::Assistant, _) => "assistant",
        _ => "user",
    }
}

fn results(
    outline: &Outline<'_>,
    shares: &[Vec<u64>],
    placeholder: &str,
    texts: &TextTokens,
) -> Vec<ResultTokens> {
    let placeholder_tokens = texts.of_text(placeholder);
    let mut tools = outline.tools_of_results().into_iter();
    let mut found = Vec::new();
    for (index, (message, shares)) in outline.messages.iter().zip(shares).enumerate() {
        let parts = message.parts.iter().zip(shares).enumerate();
        for (at, (part, &tokens)) in parts.filter(|it| it.1.0.kind == OutlineKind::Result) {
            let mut is_cleared = false;
            part.each_text(|text| is_cleared |= text == placeholder);
            let tokens = match part.has_file() {
                true => tokens,
                false => tokens.min(texts.of(part)),
            };
            let saved = tokens.saturating_sub(placeholder_tokens);
            found.push(ResultTokens {
                message: index,
                part: at,
                tool: tools.next().unwrap_or_default().to_owned(),
                tokens,
                saved_tokens: if is_cleared { 0 } else { saved },
            });
        }
    }
    found
}

/// Counts the parts around the messages, each by the difference of a count with it and one without.
struct HeadCounter<'r> {
    reader: &'r Reader,
    outline: &'r Outline<'r>,
    context_tokens: u64,
    call: Call<'r>,
    tenant: &'r Tenant,
}

impl<'r> HeadCounter<'r> {
    fn new(
        reader: &'r Reader,
        outline: &'r Outline<'r>,
        count: &RequestCount,
        call: &Call<'r>,
        reading: &'r Reading<'_>,
    ) -> HeadCounter<'r> {
        let dialect = call.dialect.unwrap_or(count.about.dialect);
        HeadCounter {
            reader,
            outline,
            context_tokens: count.context_tokens,
            call: Call {
                dialect: Some(dialect),
                ..*call
            },
            tenant: &reading.tenant,
        }
    }

    fn count(&self) -> Result<Head, Error> {
        let tools = self.outline.tools();
        let documents = tools.iter().map(|(_, tool)| tool_document(*tool));
        let documents: Vec<Option<Document<'_>>> = documents.collect::<Result<_, _>>()?;
        let document = self.document(false)?;
        let mut bare = self.reader.read(&document, &self.call, self.tenant, &[])?;
        let bare_tokens = self.context(&bare);
        let whole = self.context_tokens;
        let without_tools = match tools.is_empty() {
            true => whole,
            false => whole.min(bare_tokens),
        };
        let mut fields = self.outline.fields.members();
        let mut framing_tokens = without_tools;
        if fields.any(|(name, _)| SYSTEM_FIELDS.contains(&name)) {
            let document = self.document(true)?;
            let bare = self.reader.read(&document, &self.call, self.tenant, &[])?;
            framing_tokens = framing_tokens.min(self.context(&bare));
        }
        let deferred = self.deferred(&tools);
        let mut counted = Vec::with_capacity(tools.len());
        for ((name, tool), document) in tools.iter().zip(&documents) {
            let list = document.as_ref().map(Document::root);
            bare.request.tools = read_tools(list.or(tool.item()));
            counted.push(ToolTokens {
                name: (*name).to_owned(),
                tokens: self.context(&bare).saturating_sub(bare_tokens),
                server: tool.server().to_owned(),
                is_deferred: deferred.contains(name),
            });
        }
        Ok(Head {
            system_tokens: without_tools - framing_tokens,
            tools_tokens: whole - without_tools,
            framing_tokens,
            tools: counted,
        })
    }

    /// Names of tools that are not sent yet: any of that name is deferred, and no message refers to it.
    fn deferred(&self, tools: &[(&'r str, ToolOutline<'r>)]) -> HashSet<&'r str> {
        let deferred = tools.iter().filter(|(_, tool)| tool.is_deferred());
        let mut deferred: HashSet<_> = deferred.map(|(name, _)| *name).collect();
        if !deferred.is_empty() {
            let loaded = self.outline.loaded_tools();
            loaded.into_iter().for_each(|name| {
                deferred.remove(name);
            });
        }
        deferred
    }

    /// Tokens of all but the messages.
    fn context(&self, reading: &Reading<'_>) -> u64 {
        let (context_tokens, _) = reading.counted(|counter| {
            let context = counter.context(&reading.request);
            // Without what follows a vocabulary that fails on a message would not have failed here.
            let messages = counter.messages(&reading.request.messages, 0);
            messages.for_each(drop);
            context
        });
        context_tokens
    }

    /// The request with messages of the system alone, and without tools.
    fn document(&self, is_without_system: bool) -> Result<Document<'static>, Error> {
        let (outline, fields) = (self.outline, self.outline.fields);
        let mut configs = ["toolConfig", "tool_config"].into_iter();
        let has_tools = |name: &&str| fields.get(name).is_some_and(|it| it.get("tools").is_some());
        let replaced = configs.find(has_tools);
        let is_kept = |name: &str| {
            let is_system = is_without_system && SYSTEM_FIELDS.contains(&name);
            name != replaced.unwrap_or("tools") && name != outline.list_field && !is_system
        };
        let mut builder = Builder::new(&Limits::default());
        builder.begin_object()?;
        copy_members(&mut builder, fields, is_kept)?;
        builder.key(outline.list_field)?;
        builder.begin_array()?;
        let messages = outline.raw_messages.iter().zip(&outline.messages);
        for (raw, _) in messages.filter(|(_, it)| it.speaker == Speaker::System) {
            builder.copy_of(*raw)?;
        }
        builder.end();
        if let Some(config) = replaced {
            builder.key(config)?;
            builder.begin_object()?;
            if let Some(about) = fields.get(config) {
                copy_members(&mut builder, about, |name| name != "tools")?;
            }
        }
        builder.key("tools")?;
        builder.begin_array()?;
        builder.end();
        if replaced.is_some() {
            builder.end();
        }
        builder.end();
        Ok(builder.finish())
    }
}

fn copy_members(
    builder: &mut Builder<'_>,
    object: Value<'_>,
    is_kept: impl Fn(&str) -> bool,
) -> Result<(), Error> {
    for (name, value) in object.members().filter(|(name, _)| is_kept(name)) {
        builder.key(name)?;
        builder.copy_of(value)?;
    }
    Ok(())
}

/// A list of one tool as it is when it is shown to the model; `None` if it is an item that stands so already.
fn tool_document(tool: ToolOutline<'_>) -> Result<Option<Document<'static>>, Error> {
    if tool.item().is_some_and(Value::is_object) && !tool.is_deferred() {
        return Ok(None);
    }
    let mut builder = Builder::new(&Limits::default());
    match tool {
        ToolOutline::Item(item) if item.is_object() => {
            builder.begin_array()?;
            builder.begin_object()?;
            let is_shown = |name: &str| name != "defer_loading" || !tool.is_deferred();
            copy_members(&mut builder, item, is_shown)?;
            builder.end();
        }
        ToolOutline::Item(item) => {
            builder.begin_array()?;
            builder.copy_of(item)?;
        }
        ToolOutline::Member(name, value) => {
            builder.begin_object()?;
            builder.key(name)?;
            builder.copy_of(value)?;
        }
        ToolOutline::Declared(declaration) => {
            builder.begin_array()?;
            builder.begin_object()?;
            builder.key("functionDeclarations")?;
            builder.begin_array()?;
            builder.copy_of(declaration)?;
            builder.end();
            builder.end();
        }
    }
    builder.end();
    Ok(Some(builder.finish()))
}

/// Whole numbers in the proportions of `weights` that sum to `total`, by largest remainder.
///
/// Without any weight the first one takes all. Weights that sum to `total` come back as they are.
pub(crate) fn apportioned(total: u64, weights: &[u64]) -> Vec<u64> {
    let whole: u128 = weights.iter().map(|it| u128::from(*it)).sum();
    if whole == u128::from(total) {
        return weights.to_vec();
    }
    if whole == 0 {
        let first = |index| if index == 0 { total } else { 0 };
        return (0..weights.len()).map(first).collect();
    }
    let product = |weight: &u64| u128::from(total) * u128::from(*weight);
    #[expect(clippy::cast_possible_truncation)] // a share is no more than `total`
    let share = |weight| (product(weight) / whole) as u64;
    let mut shares: Vec<u64> = weights.iter().map(share).collect();
    let left = total - shares.iter().sum::<u64>();
    let mut by_remainder: Vec<usize> = (0..weights.len()).collect();
    by_remainder.sort_by_key(|&at| std::cmp::Reverse(product(&weights[at]) % whole));
    let last = usize::try_from(left).unwrap_or(usize::MAX);
    by_remainder
        .iter()
        .take(last)
        .for_each(|&at| shares[at] += 1);
    shares
}
