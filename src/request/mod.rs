//! Reads a body of any dialect into one neutral request.
//!
//! Reading fails only where there is more than [`MAX_MESSAGES`], [`MAX_PARTS`] or [`MAX_TOOLS`]: what is
//! unknown counts as its JSON text and is named in the [`Assumptions`]. One reader serves all dialects, since gateways mix them: blocks are told apart
//! by type or by shape, and the [`Dialect`] only says which framing the provider adds. Texts are
//! borrowed from the document; they are copied only where adjacent text is merged or a file is
//! text. Linear in the document; recursion ends at [`MAX_NESTING`].
//!
//! ```
//! use tokenctx::json::{Document, Limits};
//! use tokenctx::request::{Part, read_request};
//!
//! let body = br#"{"model": "m", "messages": [{"role": "user", "content": "hello"}]}"#;
//! let document = Document::from_bytes(body, &Limits::default())?;
//! let request = read_request(&document, None, None)?;
//! assert_eq!(request.model, "m");
//! assert_eq!(request.messages[0].parts, [Part::Text("hello".into())]);
//! # Ok::<(), tokenctx::Error>(())
//! ```
mod bound;
mod cache;
mod clearing;
mod content;
mod data;
mod dialect;
mod edit;
mod field;
mod kind;
mod media;
mod message;
mod model;
mod option;
#[cfg(feature = "python")]
mod outline;
mod part;
mod place;
mod shape;
mod signature;
mod summary;
mod tool;
mod unread;
mod view;

pub use bound::{MAX_MESSAGES, MAX_PARTS, MAX_TOOLS};
pub(crate) use bound::{MIN_HASHED_BYTES, MediaHasher};
pub use cache::{CacheMark, CacheOptions, read_cache_options};
pub(crate) use cache::{MAX_LOOKBACK, has_marker};
pub use clearing::{clear_thinking, tool_uses};
pub use content::MAX_NESTING;
pub use data::Data;
use dialect::Asker;
pub(crate) use dialect::Clues;
#[cfg(feature = "python")]
pub(crate) use dialect::converted_dialect;
pub use edit::{ClearToolUses, ContextEdit, Inputs, Trigger};
pub use kind::{Dialect, MediaKind};
pub(crate) use model::first_pieces;
pub use model::{
    AddedTools, Assumptions, CallForm, Content, Media, Message, Part, Request, Text, Tool,
    ToolCall, ToolChoice, ToolResult,
};
#[cfg(feature = "python")]
pub(crate) use outline::{MessageOutline, Outline, OutlinePart, Speaker, ToolOutline};
#[cfg(feature = "python")]
pub(crate) use part::{OutlineKind, PartKind, converted_kind};
pub use signature::Signature;
pub(crate) use summary::{COMPACTED, is_opaque, stays};
pub(crate) use tool::{NAMESPACE, TOOL_SEARCH};
pub(crate) use unread::UNKNOWN_FIELD;
pub use view::{reply_view, request_view};

use crate::Error;
use crate::json::{Document, Kind, Value};
use bound::Notes;
use content::Reader;
use field::{array, first, has, is_truthy, object, present, string};
use message::{read_message, read_user_content};
use place::{message_value, request_fields, system_value, tool_list};
use unread::Owner;

/// Reads the tables of dialects and parts, once in a process.
pub(crate) fn read_tables() {
    dialect::read_table();
    part::parts();
    unread::read_table();
}

/// The neutral request in `document`: a body of any dialect, or its list of messages.
///
/// `model` and `dialect` override what the body says. Fails by a limit.
pub fn read_request<'d>(
    document: &'d Document<'_>,
    model: Option<&'d str>,
    dialect: Option<Dialect>,
) -> Result<Request<'d>, Error> {
    read(document, model, dialect, None)
}

/// As [`read_request`]; `media_hasher` hashes what is long and base64. What an estimate is wanted of has to be a request:
/// so this fails for JSON that is none, too.
pub(crate) fn read_hashed<'d>(
    document: &'d Document<'_>,
    model: Option<&'d str>,
    dialect: Option<Dialect>,
    media_hasher: Option<MediaHasher>,
) -> Result<Request<'d>, Error> {
    check_is_request(document.root())?;
    read(document, model, dialect, media_hasher)
}

fn read<'d>(
    document: &'d Document<'_>,
    model: Option<&'d str>,
    dialect: Option<Dialect>,
    media_hasher: Option<MediaHasher>,
) -> Result<Request<'d>, Error> {
    let body = document.root();
    let fields = request_fields(body);
    let messages = message_value(body, fields);
    bound::check_messages(messages)?;
    bound::check_messages(fields.get("chat_history"))?;
    bound::check_tools(tool::definition_count(tool_list(fields)) + tool::added_count(messages))?;
    let mut assumptions = Notes::new(document.anomalies().names().collect(), media_hasher);
    let state_tokens = unread::state_tokens(fields);
    if state_tokens.is_some() {
        assumptions.insert("server_state");
    }
    let detected = dialect::detect_dialect(body, Asker::Counter);
    if dialect.is_none() && detected.is_close {
        assumptions.insert("dialect_guessed");
    }
    let dialect = dialect.unwrap_or(detected.dialect());
    if option::has_personality(fields) {
        assumptions.insert("unknown_personality");
    }
    let (schema_name, schema_description) = option::read_output_format(fields);
    let named = model.unwrap_or_else(|| string(first(fields, &["model", "modelId"])));
    let is_message = has(fields, &["role", "parts"]);
    let mut unread: Vec<_> = match is_message {
        true => Vec::new(),
        false => unread::unread_of_request(fields).collect(),
    };
    unread.extend(tool::unread_fields(tool_list(fields)));
    let system = read_system(fields, &mut assumptions, &mut unread);
    let tools = tool::read_tools(tool_list(fields), fields, &mut assumptions);
    let mut messages = read_messages(body, fields, &mut assumptions);
    if assumptions.has(COMPACTED) {
        summary::drop_summarized(&mut messages);
    }
    let media_level = option::read_media_level(fields);
    if let Some(level) = media_level {
        messages
            .iter_mut()
            .for_each(|it| media::set_level(&mut it.parts, level));
    }
    let added_tools =
        tool::read_added_tools(message_value(body, fields), &mut assumptions, &mut unread);
    if !unread.is_empty() || messages.iter().any(|it| !it.unread.is_empty()) {
        assumptions.insert(UNKNOWN_FIELD);
    }
    let edits = clearing::read_edits(fields, &mut assumptions);
    Ok(Request {
        dialect,
        model: named.into(),
        system,
        is_raw: is_raw_prompt(fields),
        has_system_role: !system_value(fields).is_some_and(lacks_role),
        deferred_tools: tool::read_deferred_tools(tool_list(fields)),
        added_tools,
        messages,
        tool_choice: option::read_tool_choice(fields),
        response_schema: option::read_response_schema(fields),
        has_json_schema: option::has_json_schema(fields),
        schema_name: schema_name.into(),
        schema_description: schema_description.into(),
        has_thinking: option::read_thinking(fields),
        limits_thinking: option::limits_thinking(fields),
        has_thinking_off: option::has_thinking_off(fields),
        has_citations: option::has_citations(fields),
        is_serial: option::read_serial(fields),
        is_pro: option::read_pro(fields),
        window_tokens: option::read_window(fields),
        max_output_tokens: option::read_max_output(fields),
        price_words: option::read_price_words(fields, &tools),
        tools,
        edits,
        has_media_level: media_level.is_some(),
        state_tokens: state_tokens.unwrap_or_default(),
        unread,
        assumptions: assumptions.finish()?,
        evidence: detected.evidence,
    })
}

/// Fails for what cannot have been meant as a request, so that no number is made of a mistake.
fn check_is_request(body: Value<'_>) -> Result<(), Error> {
    let found = match body.kind() {
        Kind::Null => "the body is null",
        Kind::Object if body.is_empty() => "the body is an empty object",
        Kind::Object => match body.get("messages").map(Value::kind) {
            Some(Kind::String) => "`messages` is a text",
            _ => return Ok(()),
        },
        Kind::Array | Kind::String => return Ok(()),
        _ => "the body is a number or a boolean",
    };
    Err(Error::NoMessages { found })
}

/// The messages in a response, as they come back in the next request; empty when unclear.
///
/// Reads a response body of any dialect, a message, or a list of items, alone or as `items`. Fails only
/// by a limit.
pub fn read_reply<'d>(document: &'d Document<'_>) -> Result<Vec<Message<'d>>, Error> {
    let body = document.root();
    if body.get("error").is_some_and(is_truthy) {
        return Ok(Vec::new());
    }
    let Some(reply) = reply_value(body) else {
        return Ok(Vec::new());
    };
    bound::check_messages(Some(reply))?;
    let is_message = !has(body, &REPLY_KEYS);
    let mut assumptions = Notes::default();
    let items = object(Some(reply)).into_iter().chain(reply.items());
    let items = items.filter(|item| item.kind() == Kind::Object);
    let read = |item| {
        let mut message = read_message(item, &mut assumptions);
        if is_message {
            // The client sends back what is said, not the fields of the response around it.
            let around = unread::unread(Owner::Message, body).len();
            message.unread.drain(..around.min(message.unread.len()));
        }
        message
    };
    let mut messages: Vec<_> = items.map(read).collect();
    if assumptions.has(COMPACTED) {
        summary::drop_summarized(&mut messages);
    }
    assumptions.finish()?;
    Ok(messages)
}

/// The tools in `list`, or in what stands in place of one, of which none is deferred.
#[cfg(feature = "python")]
pub(crate) fn read_tools(list: Option<Value<'_>>) -> Vec<Tool<'_>> {
    let read = |list| tool::read_tools(Some(list), list, &mut Notes::default());
    list.map(read).unwrap_or_default()
}

/// Parts of the system prompt that stands outside of the messages, and Cohere's documents.
fn read_system<'d>(
    fields: Value<'d>,
    assumptions: &mut Notes,
    unread: &mut Vec<Data<'d>>,
) -> Vec<Part<'d>> {
    let value = system_value(fields);
    let parts = value.and_then(|value| value.get("parts"));
    if let Some(content) = value.filter(|_| parts.is_some()) {
        unread.extend(unread::unread(Owner::Message, content));
    }
    let mut reader = Reader::new(assumptions);
    match array(parts.or(value)) {
        Some(blocks) => blocks
            .items()
            .filter(|block| !is_client_header(*block))
            .for_each(|block| reader.element(block)),
        None => reader.content(parts.or(value).filter(|block| !is_client_header(*block))),
    }
    let documents = array(fields.get("documents"));
    for document in documents.into_iter().flat_map(Value::items) {
        reader.cohere_document(document);
    }
    unread.append(&mut reader.unread);
    reader.parts
}

/// True if a body is for completions; Ollama, which has options, lays a template around unless told not to.
fn is_raw_prompt(fields: Value<'_>) -> bool {
    let is_raw = fields.get("raw").is_some_and(is_truthy);
    let is_chat = first(fields, &["messages", "contents", "input"]).is_some()
        || (present(fields.get("options")).is_some() && !is_raw);
    !is_chat && present(fields.get("prompt")).is_some()
}

/// True if a value is Gemini's content without a role.
fn lacks_role(value: Value<'_>) -> bool {
    has(value, &["parts"]) && present(value.get("role")).is_none()
}

/// True if a block of the system prompt is a coding agent's header, which nobody bills.
fn is_client_header(block: Value<'_>) -> bool {
    block.kind() == Kind::Object
        && string(block.get("text")).starts_with("x-anthropic-billing-header:")
}

/// The messages of a body, in whatever field they are.
fn read_messages<'d>(
    body: Value<'d>,
    fields: Value<'d>,
    assumptions: &mut Notes,
) -> Vec<Message<'d>> {
    let Some(found) = message_value(body, fields) else {
        return read_lone_message(fields, assumptions);
    };
    match found.kind() {
        Kind::Array => {
            let mut messages = Vec::with_capacity(found.len());
            messages.extend(found.items().map(|item| read_message(item, assumptions)));
            return messages;
        }
        Kind::Object if has(found, &["role", "parts"]) => {
            return vec![read_message(found, assumptions)];
        }
        Kind::Object | Kind::String => {}
        _ => assumptions.insert("unknown_request"),
    }
    vec![read_user_content(found, assumptions)]
}

/// The messages of a body without a list of them: one message, or Cohere's text and history.
fn read_lone_message<'d>(fields: Value<'d>, assumptions: &mut Notes) -> Vec<Message<'d>> {
    if has(fields, &["role", "parts"]) {
        return vec![read_message(fields, assumptions)];
    }
    let Some(text) = fields
        .get("message")
        .filter(|text| text.kind() == Kind::String)
    else {
        assumptions.insert("unknown_request");
        return Vec::new();
    };
    let history = array(fields.get("chat_history"));
    let history = history.into_iter().flat_map(Value::items);
    let mut messages: Vec<_> = history
        .map(|item| read_message(item, assumptions))
        .collect();
    messages.push(read_user_content(text, assumptions));
    messages
}

/// Where responses have their messages, unless they are one.
const REPLY_KEYS: [&str; 6] = [
    "choices",
    "candidates",
    "output",
    "steps",
    "message",
    "items",
];

/// Where a response has its message or items; `None` when it has several answers or none.
fn reply_value(body: Value<'_>) -> Option<Value<'_>> {
    if let Some(choices) = array(body.get("choices")) {
        return only_item(choices)?.get("message");
    }
    if let Some(candidates) = array(body.get("candidates")) {
        return only_item(candidates)?.get("content");
    }
    match body.get("output") {
        Some(output) if output.kind() == Kind::Object => output.get("message"),
        Some(output) if output.kind() == Kind::Array => Some(output),
        _ => object(body.get("message"))
            .or(array(first(body, &["items", "steps"])))
            .or(Some(body)),
    }
}

fn only_item(list: Value<'_>) -> Option<Value<'_>> {
    list.items().next().filter(|_| list.len() == 1)
}
