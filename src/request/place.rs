//! The fields of a body in which the dialects have system prompt, tools and messages.
use super::dialect::counted_request;
use super::field::{first, has, is_truthy, object};
use super::option::TOOL_CONFIG;
use crate::json::{Kind, Value};

/// The object that holds the fields of the request; of a body that is none, a value without any.
pub(super) fn request_fields(body: Value<'_>) -> Value<'_> {
    let inner = first(body, &["generateContentRequest"]);
    let inner = inner.filter(|inner| is_truthy(*inner));
    inner.or_else(|| counted_request(body)).unwrap_or(body)
}

/// The list of tools.
pub(super) fn tool_list(fields: Value<'_>) -> Option<Value<'_>> {
    let config = || object(first(fields, &TOOL_CONFIG));
    first(fields, &["tools", "functions"]).or_else(|| config()?.get("tools"))
}

/// The system prompt that stands outside of the messages, in whatever field it is.
pub(super) fn system_value(fields: Value<'_>) -> Option<Value<'_>> {
    let keys = [
        "system",
        "instructions",
        "systemInstruction",
        "system_instruction",
        "preamble",
    ];
    first(fields, &keys)
}

/// The field that holds the messages of a body.
pub(super) fn message_value<'d>(body: Value<'d>, fields: Value<'d>) -> Option<Value<'d>> {
    let keys = ["messages", "contents", "input", "prompt", "inputText"];
    match fields.kind() {
        // A prompt that is an object is one that the provider keeps.
        Kind::Object => first(fields, &keys).filter(|it| !is_stored(fields, *it)),
        _ => Some(body).filter(|body| !body.is_null()),
    }
}

/// True if `messages` is a prompt that the provider keeps.
fn is_stored(fields: Value<'_>, messages: Value<'_>) -> bool {
    messages.kind() == Kind::Object
        && has(messages, &["id"])
        && first(fields, &["messages", "contents", "input"]).is_none()
}
