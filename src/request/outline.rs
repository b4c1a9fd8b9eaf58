//! The outline of a request of any dialect: who says what, and which result answers which call.
//!
//! It is read by the shape of a part, not by dialect, since gateways mix them. The reader of requests forgets
//! what is not billed; here every message of the caller has one outline, at its own place.
//! Whoever changes messages in Python is handed the kinds and places of their parts.
use super::field::{array, has, is_truthy, object, string};
use super::part::{OutlineKind, call_fields, id_fields, outline_kind};
use crate::json::{Document, Kind, Value};
use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

const MESSAGE_LISTS: [&str; 4] = ["messages", "contents", "input", "prompt"];

/// Where a message has reasoning beside its content.
const REASONING_FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];

/// Where Gemini's dialects have a list of declarations, each of which is a tool.
const DECLARATIONS: [&str; 2] = ["functionDeclarations", "function_declarations"];

/// Fields whose text is not counted as text, beside those with ids.
const UNTEXTUAL: [&str; 18] = [
    "type",
    "id",
    "data",
    "url",
    "uri",
    "image_url",
    "file_url",
    "signature",
    "thoughtSignature",
    "cache_control",
    "providerOptions",
    "encrypted_content",
    "mimeType",
    "mime_type",
    "media_type",
    "mediaType",
    "bytes",
    "tool_call_id",
];

/// Who says a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    System,
    User,
    Assistant,
    Tool,
}

/// A part of a message, or what stands in its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutlinePart<'d> {
    pub(crate) kind: OutlineKind,
    /// The value that it was read from; none for a call that stands alone.
    content: Option<Value<'d>>,
    /// Where it stands in the list that is the message's content; none for what stands elsewhere.
    pub(crate) place: Option<usize>,
    /// Of a call or a result, where the dialect has one.
    pub(crate) call_id: Option<&'d str>,
    /// The tool; empty if it is not said.
    pub(crate) tool: &'d str,
}

/// Who says a message, and its parts.
#[derive(Debug)]
pub(crate) struct MessageOutline<'d> {
    pub(crate) speaker: Speaker,
    pub(crate) parts: Vec<OutlinePart<'d>>,
}

/// The outline of a request.
#[derive(Debug)]
pub(crate) struct Outline<'d> {
    /// The object that holds its fields; a list of messages has none.
    pub(crate) fields: Value<'d>,
    /// The field with the messages.
    pub(crate) list_field: &'static str,
    pub(crate) raw_messages: Vec<Value<'d>>,
    pub(crate) messages: Vec<MessageOutline<'d>>,
}

/// A definition of a tool, in the form in which it stands among the others.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ToolOutline<'d> {
    /// An item of a list.
    Item(Value<'d>),
    /// A member of an object of tools.
    Member(&'d str, Value<'d>),
    /// A declaration of an item that has several.
    Declared(Value<'d>),
}

impl<'d> Outline<'d> {
    /// The outline of `document`. Linear in the messages, but for texts, which are not read.
    pub(crate) fn read(document: &'d Document<'_>) -> Outline<'d> {
        let body = document.root();
        let inner = object(body.get("generateContentRequest"));
        let fields = inner.unwrap_or(body);
        let of = |name: &str| match body.kind() {
            Kind::Object => fields.get(name),
            _ => (name == MESSAGE_LISTS[0]).then_some(body),
        };
        let mut lists = MESSAGE_LISTS.into_iter();
        let list_field = lists.find(|name| of(name).is_some_and(is_truthy));
        let list_field = list_field.unwrap_or(MESSAGE_LISTS[0]);
        let raw_messages = match of(list_field) {
            Some(list) if list.kind() == Kind::Array => list.items().collect(),
            Some(one) if matches!(one.kind(), Kind::String | Kind::Object | Kind::Bytes) => {
                vec![one]
            }
            _ => Vec::new(),
        };
        let messages = raw_messages.iter().map(|it| message(*it)).collect();
        Outline {
            fields,
            list_field,
            raw_messages,
            messages,
        }
    }

    /// The definitions of tools with their names; in the dialect's own form.
    pub(crate) fn tools(&self) -> Vec<(&'d str, ToolOutline<'d>)> {
        let fields = self.fields;
        let config = ["toolConfig", "tool_config"];
        let config = config
            .into_iter()
            .find_map(|name| object(fields.get(name)))
            .and_then(|it| it.get("tools"));
        let tools = truthy(fields.get("tools")).or(config);
        let member = |(name, tool)| (name, ToolOutline::Member(name, tool));
        let mut found: Vec<_> = tools
            .into_iter()
            .flat_map(Value::members)
            .map(member)
            .collect();
        tools
            .into_iter()
            .flat_map(Value::items)
            .for_each(|tool| add_tool(tool, &mut found));
        found
    }

    /// The characters of each text that is sent, with tools as JSON and the fields `around` the messages,
    /// and the number of files.
    #[cfg(feature = "python")]
    pub(crate) fn text_lengths(&self, around: &[String]) -> (Vec<usize>, usize) {
        let mut lengths = Vec::new();
        let fields = around.iter().filter_map(|name| self.fields.get(name));
        let fields: Vec<_> = fields
            .map(|field| OutlinePart::new(OutlineKind::Text, field))
            .collect();
        let said = self.parts().map(|(_, part)| part);
        let texts = said.filter(|part| part.kind != OutlineKind::File);
        for part in texts.chain(&fields) {
            part.each_text(|text| lengths.push(text.chars().count()));
        }
        lengths.extend(self.tools().iter().map(|(_, tool)| tool.json_length()));
        let files = self.parts().filter(|(_, part)| part.has_file()).count();
        (lengths, files)
    }

    /// Names of tools that a message refers to, so that they are sent though deferred. Linear.
    pub(crate) fn loaded_tools(&self) -> Vec<&'d str> {
        let mut found = Vec::new();
        for message in &self.raw_messages {
            each_object(*message, |object| {
                if object.get("type").and_then(Value::as_str) == Some("tool_reference") {
                    found.extend(object.get("tool_name").and_then(Value::as_str));
                }
                true
            });
        }
        found
    }

    /// For each place before a message, and the end: whether a conversation may be cut there. No call before
    /// it has its result behind it, and no reasoning is parted from what it led to.
    pub(crate) fn safe_cuts(&self) -> Vec<bool> {
        let count = self.messages.len();
        let mut changes = vec![0_i64; count + 1];
        for (call, result) in self.pairs() {
            if call < result {
                changes[call + 1] += 1; // no cut behind the call up to the result
                changes[result + 1] -= 1;
            }
        }
        let mut open_pairs = 0;
        let is_safe = changes.into_iter().map(|change| {
            open_pairs += change;
            open_pairs == 0
        });
        let mut is_safe: Vec<bool> = is_safe.collect();
        for (index, message) in self.messages.iter().enumerate() {
            let is_reasoning = |part: &OutlinePart<'_>| part.kind == OutlineKind::Reasoning;
            if !message.parts.is_empty() && message.parts.iter().all(is_reasoning) {
                is_safe[index + 1] = index + 1 == count;
            }
        }
        is_safe
    }

    /// The places of calls and of the results that answer them: of each result, the nearest waiting call with its
    /// id, or the first with its name where it has none.
    fn pairs(&self) -> Vec<(usize, usize)> {
        let mut by_id: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut by_name: HashMap<&str, VecDeque<usize>> = HashMap::new();
        let mut pairs = Vec::new();
        for (index, part) in self.parts() {
            match (part.kind, part.call_id) {
                (OutlineKind::Call, id) => {
                    if let Some(id) = id {
                        by_id.entry(id).or_default().push(index);
                    }
                    by_name.entry(part.tool).or_default().push_back(index);
                }
                (OutlineKind::Result, id) => {
                    let call = match id {
                        Some(id) => by_id.get_mut(id).and_then(Vec::pop),
                        None => by_name.get_mut(part.tool).and_then(VecDeque::pop_front),
                    };
                    pairs.extend(call.map(|call| (call, index)));
                }
                _ => {}
            }
        }
        pairs
    }

    /// The tool of each result, in order: as it says itself, or as the call before it with its id does.
    pub(crate) fn tools_of_results(&self) -> Vec<&'d str> {
        let mut names: HashMap<&str, &str> = HashMap::new();
        let mut found = Vec::new();
        for (_, part) in self.parts() {
            match (part.kind, part.call_id) {
                (OutlineKind::Call, Some(id)) => {
                    names.insert(id, part.tool);
                }
                (OutlineKind::Result, id) => {
                    let of_call = id.and_then(|id| names.get(id).copied());
                    found.push(match part.tool {
                        "" => of_call.unwrap_or_default(),
                        own => own,
                    });
                }
                _ => {}
            }
        }
        found
    }

    fn parts(&self) -> impl Iterator<Item = (usize, &OutlinePart<'d>)> {
        let messages = self.messages.iter().enumerate();
        messages.flat_map(|(index, it)| it.parts.iter().map(move |part| (index, part)))
    }
}

#[cfg(feature = "python")]
impl Speaker {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Speaker::System => "system",
            Speaker::User => "user",
            Speaker::Assistant => "assistant",
            Speaker::Tool => "tool",
        }
    }
}

impl MessageOutline<'_> {
    /// True if a turn begins here: the user says something, not only a tool.
    pub(crate) fn is_turn(&self) -> bool {
        let mut parts = self.parts.iter();
        self.speaker == Speaker::User && parts.any(|part| part.kind != OutlineKind::Result)
    }
}

impl<'d> OutlinePart<'d> {
    fn new(kind: OutlineKind, content: Value<'d>) -> OutlinePart<'d> {
        OutlinePart {
            kind,
            content: Some(content),
            place: None,
            call_id: None,
            tool: "",
        }
    }

    /// A call or a result of what `about` says, whose tool `named` names.
    fn paired(kind: OutlineKind, about: Option<Value<'d>>, named: Value<'d>) -> OutlinePart<'d> {
        let name = truthy(named.get("name")).or_else(|| named.get("toolName"));
        OutlinePart {
            kind,
            content: about,
            place: None,
            call_id: about.and_then(id_of),
            tool: string(name),
        }
    }

    /// True if it is a file, or the result of a tool with one in it.
    pub(crate) fn has_file(&self) -> bool {
        if self.kind != OutlineKind::Result {
            return self.kind == OutlineKind::File;
        }
        let mut has_file = false;
        if let Some(content) = self.content {
            each_object(content, |object| {
                has_file = kind_of(object) == OutlineKind::File;
                !has_file
            });
        }
        has_file
    }

    /// Every text in it, without those of files and ids. No recursion.
    pub(crate) fn each_text(&self, mut work: impl FnMut(&str)) {
        let mut pending: Vec<Value<'_>> = self.content.into_iter().collect();
        while let Some(value) = pending.pop() {
            match value.kind() {
                Kind::String => work(value.as_str().unwrap_or_default()),
                Kind::Bytes => work(&base64_of(value)),
                Kind::Array => pending.extend(value.items()),
                Kind::Object => {
                    let textual = value.members().filter(|(name, _)| !is_untextual(name));
                    pending.extend(textual.map(|(_, value)| value));
                }
                _ => {}
            }
        }
    }
}

impl<'d> ToolOutline<'d> {
    /// The item of the list that it is.
    pub(crate) fn item(self) -> Option<Value<'d>> {
        match self {
            ToolOutline::Item(tool) => Some(tool),
            _ => None,
        }
    }

    /// The characters of its compact JSON text.
    #[cfg(feature = "python")]
    fn json_length(self) -> usize {
        let (around, tool) = match self {
            ToolOutline::Item(tool) => (0, tool),
            ToolOutline::Member(name, tool) => (name.chars().count() + r#"{"":}"#.len(), tool),
            ToolOutline::Declared(tool) => (r#"{"functionDeclarations":[]}"#.len(), tool),
        };
        let mut text = String::new();
        tool.write_compact(&mut text);
        around + text.chars().count()
    }

    /// True if it is defined but not shown to the model before it is searched for.
    pub(crate) fn is_deferred(self) -> bool {
        let flag = self.item().and_then(|it| it.get("defer_loading"));
        flag.and_then(Value::as_bool) == Some(true)
    }

    /// The server that it says it is of; empty if it does not.
    pub(crate) fn server(self) -> &'d str {
        let fields = ["server_label", "mcp_server_name", "serverLabel"];
        let text = |name| self.item()?.get(name)?.as_str();
        fields.into_iter().find_map(text).unwrap_or_default()
    }
}

fn message(message: Value<'_>) -> MessageOutline<'_> {
    if message.kind() != Kind::Object {
        return MessageOutline {
            speaker: Speaker::User,
            parts: vec![OutlinePart::new(OutlineKind::Text, message)],
        };
    }
    let speaker = message.get("role").and_then(speaker_of);
    let kind = message.get("type").and_then(Value::as_str);
    let speaker = speaker.or_else(|| kind.and_then(speaker_of_step));
    if let (Some(kind), None) = (kind.filter(|it| *it != "message"), speaker) {
        let part = item(kind, message);
        let speaker = match part.kind {
            OutlineKind::Result => Speaker::Tool,
            OutlineKind::File => Speaker::User,
            OutlineKind::Text if kind == "text" => Speaker::User,
            _ => Speaker::Assistant,
        };
        return MessageOutline {
            speaker,
            parts: vec![part],
        };
    }
    let speaker = speaker.unwrap_or(Speaker::User);
    MessageOutline {
        speaker,
        parts: parts_of(message, speaker),
    }
}

/// Who speaks in a step of Gemini's Interactions that holds parts.
fn speaker_of_step(kind: &str) -> Option<Speaker> {
    match kind {
        "user_input" => Some(Speaker::User),
        "model_output" => Some(Speaker::Assistant),
        _ => None,
    }
}

fn speaker_of(role: Value<'_>) -> Option<Speaker> {
    if let Some(name) = role.as_str() {
        return match name {
            "system" | "developer" => Some(Speaker::System),
            "user" => Some(Speaker::User),
            "assistant" | "model" => Some(Speaker::Assistant),
            "tool" | "function" => Some(Speaker::Tool),
            _ => None,
        };
    }
    match role.as_u64().or(role.as_bool().map(u64::from)) {
        Some(1) => Some(Speaker::User),
        Some(2) => Some(Speaker::Assistant),
        Some(3) => Some(Speaker::System),
        _ => None,
    }
}

/// An item of OpenAI's Responses, or a step of Gemini's Interactions, that is no message.
fn item<'d>(kind: &str, item: Value<'d>) -> OutlinePart<'d> {
    match outline_kind(kind) {
        Some(kind @ (OutlineKind::Call | OutlineKind::Result)) => {
            OutlinePart::paired(kind, Some(item), item)
        }
        Some(OutlineKind::Reasoning) => OutlinePart::new(OutlineKind::Reasoning, item),
        _ => OutlinePart::new(OutlineKind::Text, item),
    }
}

fn parts_of(message: Value<'_>, speaker: Speaker) -> Vec<OutlinePart<'_>> {
    let mut parts = Vec::new();
    for name in REASONING_FIELDS {
        let text = message.get(name).filter(|it| it.kind() == Kind::String);
        let text = text.filter(|it| is_truthy(*it));
        parts.extend(text.map(|it| OutlinePart::new(OutlineKind::Reasoning, it)));
    }
    let content = match has(message, &["content"]) {
        true => message.get("content"),
        false => message.get("parts"),
    };
    let items = array(content);
    let is_result = |it: Value<'_>| it.kind() == Kind::Object && kind_of(it) == OutlineKind::Result;
    if speaker == Speaker::Tool && !items.is_some_and(|it| it.items().any(is_result)) {
        parts.push(OutlinePart {
            kind: OutlineKind::Result,
            content,
            place: None,
            call_id: id_of(message),
            tool: string(message.get("name")),
        });
    } else if let Some(items) = items {
        let said = items.items().enumerate().filter(|(_, it)| !it.is_null());
        parts.extend(said.map(|(place, it)| OutlinePart {
            place: Some(place),
            ..part(it)
        }));
    } else {
        parts.extend(content.filter(|it| !it.is_null()).map(part));
    }
    let calls = array(message.get("tool_calls"));
    for call in calls.into_iter().flat_map(Value::items) {
        if call.kind() == Kind::Object {
            let mut held = call_fields()
                .iter()
                .filter_map(|name| truthy(call.get(name)));
            let named = held.next().unwrap_or(call);
            parts.push(OutlinePart::paired(OutlineKind::Call, Some(call), named));
        }
    }
    let legacy = object(message.get("function_call"));
    parts.extend(legacy.map(|it| OutlinePart::paired(OutlineKind::Call, None, it)));
    parts
}

fn part(part: Value<'_>) -> OutlinePart<'_> {
    if part.kind() != Kind::Object {
        return OutlinePart::new(OutlineKind::Text, part);
    }
    let kind = kind_of(part);
    if !matches!(kind, OutlineKind::Call | OutlineKind::Result) {
        return OutlinePart::new(kind, part);
    }
    let is_paired = |name: &str| {
        matches!(
            outline_kind(name),
            Some(OutlineKind::Call | OutlineKind::Result)
        )
    };
    let inner = part.members().find(|(name, _)| is_paired(name));
    let about = object(inner.map(|(_, value)| value)).unwrap_or(part);
    OutlinePart::paired(kind, Some(about), about)
}

/// By the type of the part, by the field that it is in, or by its shape, as in VS Code.
fn kind_of(part: Value<'_>) -> OutlineKind {
    let named = match part.get("type").and_then(Value::as_str) {
        Some(name) => outline_kind(name),
        None => part.members().find_map(|(name, _)| outline_kind(name)),
    };
    if let Some(kind) = named {
        return kind;
    }
    if part.get("thought").and_then(Value::as_bool) == Some(true) {
        return OutlineKind::Reasoning;
    }
    if has(part, &["callId"]) {
        return match has(part, &["input"]) {
            true => OutlineKind::Call,
            false => OutlineKind::Result,
        };
    }
    match has(part, &["mimeType"]) && has(part, &["data"]) {
        true => OutlineKind::File,
        false => OutlineKind::Text,
    }
}

/// The id of a call; `id` is the last, since an item has one of its own too.
fn id_of(about: Value<'_>) -> Option<&str> {
    let mut fields = std::iter::once("tool_call_id").chain(id_fields());
    let found = fields.find_map(|name| about.get(name)?.as_str());
    found.or_else(|| about.get("id")?.as_str())
}

fn add_tool<'d>(tool: Value<'d>, found: &mut Vec<(&'d str, ToolOutline<'d>)>) {
    let [camel, snake] = DECLARATIONS;
    let declared = truthy(tool.get(camel)).or_else(|| tool.get(snake));
    if let Some(declared) = array(declared) {
        for one in declared.items() {
            let name = one.get("name").and_then(Value::as_str).unwrap_or("tool");
            found.push((name, ToolOutline::Declared(one)));
        }
        return;
    }
    let mut inner = ["function", "custom", "toolSpec"].into_iter();
    let inner = inner.find_map(|name| tool.get(name));
    let name = truthy(tool.get("name")).or_else(|| inner?.get("name"));
    let mut names = [name, tool.get("server_label"), tool.get("type")].into_iter();
    let name = names.find_map(|it| it?.as_str().filter(|it| !it.is_empty()));
    found.push((name.unwrap_or("tool"), ToolOutline::Item(tool)));
}

/// Calls `work` with every object in `value`, itself too, until it says false. No recursion.
fn each_object<'d>(value: Value<'d>, mut work: impl FnMut(Value<'d>) -> bool) {
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        if value.kind() == Kind::Object {
            if !work(value) {
                return;
            }
            pending.extend(value.members().map(|(_, value)| value));
        } else {
            pending.extend(value.items());
        }
    }
}

fn truthy(value: Option<Value<'_>>) -> Option<Value<'_>> {
    value.filter(|value| is_truthy(*value))
}

fn is_untextual(name: &str) -> bool {
    UNTEXTUAL.contains(&name) || id_fields().any(|field| field == name)
}

/// Bytes as the text that stands for them in JSON.
fn base64_of(value: Value<'_>) -> Cow<'static, str> {
    let mut text = String::new();
    value.write_compact(&mut text);
    Cow::Owned(text.trim_matches('"').to_owned())
}
