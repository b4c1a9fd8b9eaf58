//! Messages of any dialect, and items of the Responses API.
use super::bound::Notes;
use super::content::Reader;
use super::data::Data;
use super::dialect::is_integer;
use super::field::{array, first_named, join, joined_text, object, present, string};
use super::kind::MediaKind;
use super::media::About;
use super::model::{CallForm, Message, Part, ToolResult};
use super::part::{PartKind, parts};
use super::signature::Signature;
use super::tool::added_list;
use super::unread::{Owner, is_unread, unread};
use crate::interrupt;
use crate::json::{Kind, Value};
use std::borrow::Cow;

/// Who speaks in a step of Gemini's Interactions API.
const INTERACTION_ROLES: [(&str, &str); 2] =
    [("user_input", "user"), ("model_output", "assistant")];

/// A message of any dialect, or an item of the Responses API.
pub(super) fn read_message<'d>(item: Value<'d>, assumptions: &mut Notes) -> Message<'d> {
    interrupt::poll();
    if item.kind() != Kind::Object {
        return read_bare_message(item, assumptions);
    }
    let fields = Fields::of(item);
    match fields.kind.and_then(Value::as_str) {
        Some(kind) if fields.role.is_none() && kind != "message" => {
            read_item(kind, item, assumptions)
        }
        _ if fields.is_spoken => read_spoken(item, &fields, assumptions),
        _ => {
            if item.is_empty() {
                assumptions.insert("unknown_message");
            }
            read_user_content(item, assumptions)
        }
    }
}

/// Words of the user without a message around them.
pub(super) fn read_user_content<'d>(content: Value<'d>, assumptions: &mut Notes) -> Message<'d> {
    let mut reader = Reader::new(assumptions);
    reader.content(Some(content));
    message("user", reader.parts).with_unread(reader.unread)
}

fn message<'d>(role: &'d str, parts: Vec<Part<'d>>) -> Message<'d> {
    Message {
        role: role.into(),
        name: Cow::Borrowed(""),
        parts,
        has_role: true,
        signature: Signature::default(),
        unread: Vec::new(),
        is_dropped: false,
    }
}

impl<'d> Message<'d> {
    fn with_unread(self, unread: Vec<Data<'d>>) -> Message<'d> {
        Message { unread, ..self }
    }
}

fn read_bare_message<'d>(item: Value<'d>, assumptions: &mut Notes) -> Message<'d> {
    let mut reader = Reader::new(assumptions);
    reader.assumptions.insert("unknown_message");
    match item.as_str() {
        Some(text) => reader.text(text),
        None if item.is_null() => {}
        None => reader.data(item),
    }
    message("user", reader.parts)
}

/// The members of a message that are read, found in one pass.
#[derive(Default)]
struct Fields<'d> {
    /// True if there is one beside the type and the name; else it is a content block.
    is_spoken: bool,
    /// True if there is one in which something can be said, be it empty.
    has_content: bool,
    /// True if something is said under a name that nobody reads.
    has_unread: bool,
    /// True if there is one that may add tokens which nobody counts.
    has_unknown: bool,
    kind: Option<Value<'d>>,
    role: Option<Value<'d>>,
    name: Option<Value<'d>>,
    content: Option<Value<'d>>,
    parts: Option<Value<'d>>,
    message: Option<Value<'d>>,
    reasoning_content: Option<Value<'d>>,
    reasoning: Option<Value<'d>>,
    thinking: Option<Value<'d>>,
    reasoning_details: Option<Value<'d>>,
    tool_calls: Option<Value<'d>>,
    function_call: Option<Value<'d>>,
    refusal: Option<Value<'d>>,
    images: Option<Value<'d>>,
    tool_call_id: Option<Value<'d>>,
}

impl<'d> Fields<'d> {
    fn of(item: Value<'d>) -> Fields<'d> {
        let mut fields = Fields::default();
        for (key, value) in item.members() {
            let field = match key {
                "type" => &mut fields.kind,
                "role" => &mut fields.role,
                "name" => &mut fields.name,
                "content" => &mut fields.content,
                "parts" => &mut fields.parts,
                "message" => &mut fields.message,
                "reasoning_content" => &mut fields.reasoning_content,
                "reasoning" => &mut fields.reasoning,
                "thinking" => &mut fields.thinking,
                "reasoning_details" => &mut fields.reasoning_details,
                "tool_calls" => &mut fields.tool_calls,
                "function_call" => &mut fields.function_call,
                "refusal" => &mut fields.refusal,
                "images" => &mut fields.images,
                "tool_call_id" => &mut fields.tool_call_id,
                _ => {
                    fields.has_unread |= is_said(value);
                    fields.has_unknown |= is_unread(Owner::Message, key, value);
                    continue;
                }
            };
            *field = Some(value);
            fields.has_content |= !matches!(key, "type" | "role" | "name" | "tool_call_id");
            fields.is_spoken |= !matches!(key, "type" | "name" | "tool_call_id");
        }
        fields
    }
}

/// True if `value` may be what a message says: a text, or a list or object with something in it.
fn is_said(value: Value<'_>) -> bool {
    match value.kind() {
        Kind::Array | Kind::Object => !value.is_empty(),
        _ => value.as_str().is_some_and(|text| !text.is_empty()),
    }
}

fn read_spoken<'d>(item: Value<'d>, fields: &Fields<'d>, assumptions: &mut Notes) -> Message<'d> {
    let role = read_role(fields.role, assumptions);
    let is_message = fields
        .kind
        .is_none_or(|kind| kind.as_str() == Some("message"));
    if is_message && fields.has_unread && !fields.has_content {
        assumptions.insert("unknown_message");
        let mut reader = Reader::new(assumptions);
        reader.data(item);
        return message(role, reader.parts);
    }
    if is_message && !fields.has_content {
        assumptions.insert("unknown_message"); // it says nothing
    } else if is_message && fields.role.is_none() && fields.parts.is_none() {
        assumptions.insert("unknown_role");
    }
    let content = present(fields.content).or(present(fields.parts));
    let content = content.or(present(fields.message));
    let mut reader = Reader::new(assumptions);
    if fields.has_unknown {
        reader.unread.extend(unread(Owner::Message, item));
    }
    if role == "tool" {
        reader.content(content);
        let (parts, unread) = (as_result(fields, reader.parts), reader.unread);
        return message("tool", parts).with_unread(unread);
    }
    read_reasoning(fields, &mut reader);
    reader.content(content);
    read_calls(fields, &mut reader);
    for image in array(fields.images).into_iter().flat_map(Value::items) {
        reader.media(Some(image), About::kind(MediaKind::Image));
    }
    let name = string(fields.name).into();
    Message {
        name,
        has_role: present(fields.role).is_some() || fields.parts.is_none(),
        signature: reader.signature,
        unread: reader.unread,
        ..message(role, reader.parts)
    }
}

/// `parts` as one tool result, unless one is among them.
fn as_result<'d>(fields: &Fields<'d>, parts: Vec<Part<'d>>) -> Vec<Part<'d>> {
    if parts.iter().any(|part| matches!(part, Part::ToolResult(_))) {
        return parts;
    }
    vec![Part::ToolResult(ToolResult {
        name: string(fields.name).into(),
        parts,
        is_error: false,
        call_id: string(fields.tool_call_id).into(),
        is_legacy: string(fields.role).eq_ignore_ascii_case("function"),
    })]
}

/// The role by its one name; an unknown one is kept as it is.
fn read_role<'d>(value: Option<Value<'d>>, assumptions: &mut Notes) -> &'d str {
    let Some(value) = present(value) else {
        return "user";
    };
    let found = match value.as_str() {
        Some(name) => role_of_name(name),
        None => value
            .as_u64()
            .filter(|_| is_integer(value))
            .and_then(role_of_number),
    };
    found.unwrap_or_else(|| {
        assumptions.insert("unknown_role");
        value
            .as_str()
            .filter(|name| !name.is_empty())
            .unwrap_or("user")
    })
}

fn role_of_name(name: &str) -> Option<&'static str> {
    const ROLES: [(&str, &str); 10] = [
        ("user", "user"),
        ("assistant", "assistant"),
        ("tool", "tool"),
        ("system", "system"),
        ("developer", "developer"),
        ("human", "user"),
        ("model", "assistant"),
        ("ai", "assistant"),
        ("chatbot", "assistant"),
        ("function", "tool"),
    ];
    let mut roles = ROLES.into_iter();
    roles.find_map(|(known, role)| known.eq_ignore_ascii_case(name).then_some(role))
}

/// `LanguageModelChatMessageRole` of VS Code.
fn role_of_number(number: u64) -> Option<&'static str> {
    match number {
        1 => Some("user"),
        2 => Some("assistant"),
        3 => Some("system"),
        _ => None,
    }
}

/// Reasoning beside the content, as OpenAI-compatible servers return it.
fn read_reasoning<'d>(fields: &Fields<'d>, reader: &mut Reader<'_, 'd>) {
    let text = present(fields.reasoning_content).or(present(fields.reasoning));
    let text = joined_text(text.or(present(fields.thinking)));
    if !text.is_empty() {
        return reader.reasoning(text, "");
    }
    let details = fields.reasoning_details;
    if let Some(list) = array(details).filter(|list| !list.is_empty()) {
        let opaque = join(list.items().map(|block| string(block.get("data"))));
        reader.reasoning(joined_text(details), opaque);
    }
}

/// Tool calls beside the content, as OpenAI Chat has them.
fn read_calls<'d>(fields: &Fields<'d>, reader: &mut Reader<'_, 'd>) {
    let known = &parts().calls;
    for call in array(fields.tool_calls).into_iter().flat_map(Value::items) {
        let inner = object(first_named(call, &known.type_names)).or(object(Some(call)));
        match inner {
            Some(inner) => {
                reader.unread.extend(unread(Owner::Part, call));
                let arguments = first_named(inner, &known.call.arguments);
                reader.call(string(first_named(inner, &known.call.name)), arguments);
            }
            None => reader.unknown(call),
        }
    }
    if let Some(legacy) = object(fields.function_call) {
        reader.call(string(legacy.get("name")), legacy.get("arguments"));
        reader.form(CallForm::Legacy);
        reader.unread.extend(unread(Owner::Part, legacy));
    }
    reader.text(string(fields.refusal));
}

/// An item of the Responses API that is not a message, or one of Gemini's Interactions.
fn read_item<'d>(kind: &'d str, item: Value<'d>, assumptions: &mut Notes) -> Message<'d> {
    let mut reader = Reader::new(assumptions);
    let part = parts().items.get(kind);
    let role = match part.map_or_else(|| kind_by_ending(kind), |part| part.kind) {
        PartKind::Call => {
            read_call_item(kind, item, &mut reader);
            if part.is_some_and(|part| part.is_run_by_vendor) {
                reader.run_by_vendor();
            }
            "assistant"
        }
        PartKind::Result => {
            let fields = &parts().items.result;
            let name = string(first_named(item, &fields.name));
            let is_error = item.get("is_error").and_then(Value::as_bool) == Some(true);
            let content = first_named(item, &fields.content);
            // Tools that a search has found are definitions.
            let content = content.filter(|_| added_list(item).is_none());
            reader.result(name, content, is_error);
            "tool"
        }
        PartKind::Reasoning => {
            read_reasoning_item(item, &mut reader);
            "assistant"
        }
        PartKind::Summary => {
            reader.summary(item, &parts().items.summary);
            "assistant"
        }
        _ => {
            let role = read_other_item(kind, item, &mut reader);
            return message(role, reader.parts).with_unread(reader.unread);
        }
    };
    reader.signature.add(string(item.get("signature")));
    reader.unread.extend(unread(Owner::Part, item));
    Message {
        signature: reader.signature,
        ..message(role, reader.parts).with_unread(reader.unread)
    }
}

/// The kind of an item whose type is in no row.
fn kind_by_ending(kind: &str) -> PartKind {
    match kind {
        _ if INTERACTION_ROLES.iter().any(|(known, _)| *known == kind) => PartKind::Other,
        _ if kind.ends_with("_output") || kind.ends_with("_result") => PartKind::Result,
        _ if kind.ends_with("_call") => PartKind::Call,
        _ => PartKind::Other,
    }
}

fn read_call_item<'d>(kind: &'d str, item: Value<'d>, reader: &mut Reader<'_, 'd>) {
    let fields = &parts().items.call;
    let name = Some(string(first_named(item, &fields.name))).filter(|name| !name.is_empty());
    let builtin = kind.strip_suffix("_call").unwrap_or(kind);
    reader.call(
        name.unwrap_or(builtin),
        first_named(item, &fields.arguments),
    );
    reader.namespace(string(item.get("namespace")));
    if !string(item.get("id")).is_empty() {
        reader.form(CallForm::Item);
    }
}

fn read_reasoning_item<'d>(item: Value<'d>, reader: &mut Reader<'_, 'd>) {
    let fields = &parts().items.reasoning;
    let pieces = fields
        .content
        .names
        .iter()
        .filter_map(|name| item.get(name.text()));
    for piece in pieces.flat_map(Value::items) {
        reader.unread.extend(unread(Owner::Part, piece));
    }
    let opaque = string(first_named(item, &fields.opaque));
    let text = match opaque.is_empty() {
        true => joined_text(first_named(item, &fields.content)),
        false => Cow::Borrowed(""),
    };
    reader.reasoning(text, opaque);
}

/// Appends what no part of a dialect is; the role of who says it.
fn read_other_item<'d>(kind: &str, item: Value<'d>, reader: &mut Reader<'_, 'd>) -> &'static str {
    if let Some((_, role)) = INTERACTION_ROLES.iter().find(|(known, _)| *known == kind) {
        reader.content(item.get("content"));
        reader.unread.extend(unread(Owner::Message, item));
        return role;
    }
    if kind == "item_reference" {
        reader.assumptions.insert("server_state");
        reader.data(item);
        return "assistant";
    }
    reader.content(Some(item));
    "user"
}
