//! Which dialect a body is written in, told by its shape.
use super::field::{array, has, object};
use super::kind::Dialect;
use super::part::parts;
use crate::json::{Kind, Value};

/// The dialect that the shape of `body` tells; OpenAI Chat when nothing speaks against it.
pub(super) fn detect_dialect(body: Value<'_>) -> Dialect {
    if body.kind() != Kind::Object {
        return dialect_of_messages(body).unwrap_or(Dialect::OpenAiChat);
    }
    if has(body, &["contents", "generateContentRequest"]) {
        return Dialect::Gemini;
    }
    if counted_request(body).is_some() {
        return Dialect::BedrockConverse;
    }
    let Some(messages) = array(body.get("messages")) else {
        return match has(body, &["input", "previous_response_id"]) {
            true => Dialect::OpenAiResponses,
            false => Dialect::OpenAiChat,
        };
    };
    if has(body, &["toolConfig", "inferenceConfig"]) {
        return Dialect::BedrockConverse;
    }
    dialect_of_messages(messages).unwrap_or_else(|| dialect_of_options(body))
}

/// The Converse request in a body of Bedrock's endpoint that counts.
pub(super) fn counted_request(body: Value<'_>) -> Option<Value<'_>> {
    object(object(body.get("input"))?.get("converse"))
}

fn dialect_of_options(body: Value<'_>) -> Dialect {
    let tools = array(body.get("tools"));
    let mut tools = tools.into_iter().flat_map(Value::items);
    match has(body, &["system", "anthropic_version"])
        || tools.any(|tool| has(tool, &["input_schema"]))
    {
        true => Dialect::Anthropic,
        false => Dialect::OpenAiChat,
    }
}

/// The dialect of the first message that only one dialect writes so.
fn dialect_of_messages(messages: Value<'_>) -> Option<Dialect> {
    let mut messages = messages.items();
    messages.find_map(dialect_of_message)
}

fn dialect_of_message(message: Value<'_>) -> Option<Dialect> {
    let (mut role, mut parts, mut content, mut kind) = (None, None, None, None);
    for (key, value) in message.members() {
        match key {
            "role" => role = Some(value),
            "parts" => parts = Some(value),
            "content" => content = Some(value),
            "type" => kind = value.as_str(),
            _ => {}
        }
    }
    if role.is_some_and(is_integer) {
        return Some(Dialect::VsCode);
    }
    if let Some(parts) = parts {
        let is_store = parts.items().any(|part| has(part, &["kind"]));
        return Some(if is_store {
            Dialect::VsCode
        } else {
            Dialect::Gemini
        });
    }
    if role.is_none_or(Value::is_null) && kind.is_some() {
        return Some(Dialect::OpenAiResponses);
    }
    content?.items().find_map(dialect_of_block)
}

/// Whether `value` is a number that is written without fraction and exponent.
pub(super) fn is_integer(value: Value<'_>) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || byte == b'-';
    value
        .as_number_text()
        .is_some_and(|text| text.bytes().all(is_digit))
}

fn dialect_of_block(block: Value<'_>) -> Option<Dialect> {
    if block.kind() != Kind::Object {
        return None;
    }
    let Some(kind) = block.get("type").and_then(Value::as_str) else {
        return dialect_of_untyped(block);
    };
    if let Some(dialect) = parts().typed.get(kind).and_then(|part| part.marks) {
        return Some(dialect);
    }
    // Mistral and Cohere have a list there.
    let has_thinking = || kind == "thinking" && block.get("thinking").is_some_and(is_string);
    if has_thinking() || object(block.get("source")).is_some() {
        return Some(Dialect::Anthropic);
    }
    let is_responses = kind.starts_with("input_") && kind != "input_audio";
    is_responses.then_some(Dialect::OpenAiResponses)
}

fn is_string(value: Value<'_>) -> bool {
    value.kind() == Kind::String
}

fn dialect_of_untyped(block: Value<'_>) -> Option<Dialect> {
    if has(block, &["value", "callId", "mimeType"]) {
        return Some(Dialect::VsCode);
    }
    if has(block, &["cachePoint"]) {
        return Some(Dialect::BedrockConverse);
    }
    let mut fields = block.members();
    fields.find_map(|(field, _)| parts().named.get(field)?.marks)
}
