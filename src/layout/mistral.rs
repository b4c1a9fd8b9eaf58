//! Calls and results as Mistral's tokenizer v3 shows them: JSON objects in lists, with ids.
//!
//! Facts of mistral-common 1.13 (2026-11-24). Objects of a list are parted by a space, which no token spans.
use super::function::spaced_text;
use crate::json::{Document, Limits, write_string};
use crate::request::ToolCall;

/// A call without the characters of its id.
pub(crate) fn listed_call(call: &ToolCall<'_>) -> String {
    let mut text = String::from("[{\"name\": ");
    write_string(&call.name, &mut text);
    let arguments = spaced_text(&call.arguments);
    text.push_str(&format!(", \"arguments\": {arguments}, \"id\":"));
    text
}

/// The id of a call as it ends its object.
pub(crate) fn listed_id(id: &str) -> String {
    format!(" \"{id}\"}}]")
}

/// A result: the JSON value that it holds, else its text as a string, and the id of the call.
pub(crate) fn listed_result(result: &str, id: &str) -> String {
    let mut text = String::from("{\"content\": ");
    match Document::parse(result, &Limits::default()) {
        Ok(document) => document.root().write_spaced(&mut text),
        Err(_) => write_string(result, &mut text),
    }
    text.push_str(", \"call_id\": ");
    write_string(id, &mut text);
    text.push('}');
    text
}
