//! Anthropic's prompt layout: tools as lines of JSON, calls as markup.
//!
//! Recovered from recorded calls, whose bill it reproduces: a tool is its description, name and
//! parameters as one JSON object between `function` tags; the calls of a message stand behind its
//! text as one element each, with an element for each argument; a result stands in an element,
//! several as a list of names and outputs; an output schema is indented JSON.
use super::function::write_spaced;
use super::reference::{MAX_DEPTH, spaced};
use crate::json::{Kind, Value, write_string};
use crate::request::{Data, Tool, ToolCall};
use std::borrow::Cow;
use std::fmt::Write;

/// The tag around all calls of a message, that of a call, that of an argument.
const CALLS: &str = "antml:function_calls";
const CALL: &str = "antml:invoke";
const ARGUMENT: &str = "antml:parameter";

/// The text around the results of calls made side by side.
pub const RESULTS: &str = "<function_results>\n</function_results>";

/// The text that stands for an empty result.
const NO_RESULT: &str = "<system>Tool ran without output or errors</system>";

/// The line of `tool`. Linear in its definition.
pub fn function_line(tool: &Tool<'_>) -> String {
    let mut line = String::from("<function>{");
    if !tool.description.is_empty() {
        line.push_str("\"description\": ");
        write_string(&tool.description, &mut line);
        line.push_str(", ");
    }
    line.push_str("\"name\": ");
    write_string(&tool.name, &mut line);
    if let Some(schema) = tool.schema {
        line.push_str(", \"parameters\": ");
        write_spaced(&schema, &mut line);
    }
    line.push_str("}</function>\n");
    line
}

/// The markup of `calls`, which may be enclosed in an element. Linear in them.
pub fn calls_text<'c, 'd: 'c>(
    calls: impl IntoIterator<Item = &'c ToolCall<'d>>,
    are_enclosed: bool,
) -> String {
    let mut text = String::new();
    if are_enclosed {
        open(CALLS, "", &mut text);
        text.push('\n');
    }
    for (nth, call) in calls.into_iter().enumerate() {
        if nth > 0 {
            text.push('\n');
        }
        write_call([CALL, ARGUMENT], call, &mut text);
    }
    if are_enclosed {
        text.push('\n');
        close(CALLS, &mut text);
    }
    text
}

/// The only result of a turn.
pub fn lone_result_text(text: &str, is_error: bool) -> String {
    let inner = match text {
        _ if is_error => format!("\n<error>{text}</error>\n"),
        "" => format!("\n{NO_RESULT}\n"),
        _ => text.to_owned(),
    };
    format!("<function_results>{inner}</function_results>")
}

/// One of several results of a turn; they stand in [`RESULTS`].
pub fn named_result_text(name: &str, text: &str) -> String {
    let text = if text.is_empty() { NO_RESULT } else { text };
    format!("<result>\n<name>{name}</name>\n<output>{text}</output>\n</result>\n")
}

/// JSON text of an output schema, a line for each member, indented by two spaces.
pub fn indented_schema(schema: &Data<'_>) -> String {
    let mut text = String::new();
    schema.read(|value| match value {
        Some(value) => write_indented(value, 0, &mut text),
        None => schema.write_compact(&mut text),
    });
    text
}

/// A longer schema goes on without indentation, which may be many times as long as what is indented.
const MAX_INDENTED_BYTES: usize = 1 << 20;

fn write_indented(value: Value<'_>, depth: usize, text: &mut String) {
    let brackets = match value.kind() {
        Kind::Object => ['{', '}'],
        Kind::Array => ['[', ']'],
        _ => return value.write_spaced(text),
    };
    if depth >= MAX_DEPTH || value.is_empty() || text.len() > MAX_INDENTED_BYTES {
        return value.write_spaced(text);
    }
    let lead = |first: char, depth: usize, text: &mut String| {
        text.push(first);
        text.push('\n');
        text.push_str(&"  ".repeat(depth));
    };
    let mut before = brackets[0];
    for (key, member) in value.members() {
        lead(std::mem::replace(&mut before, ','), depth + 1, text);
        write_string(key, text);
        text.push_str(": ");
        write_indented(member, depth + 1, text);
    }
    for item in value.items() {
        if text.len() > MAX_INDENTED_BYTES {
            text.push_str(", ");
            item.write_spaced(text);
            continue;
        }
        lead(std::mem::replace(&mut before, ','), depth + 1, text);
        write_indented(item, depth + 1, text);
    }
    text.push('\n');
    text.push_str(&"  ".repeat(depth));
    text.push(brackets[1]);
}

fn write_call(tags: [&str; 2], call: &ToolCall<'_>, text: &mut String) {
    open(tags[0], &call.name, text);
    text.push('\n');
    write_arguments(tags[1], &call.arguments, text);
    close(tags[0], text);
}

/// One element for each argument, strings as they are; what is no JSON object as it is.
fn write_arguments(tag: &str, arguments: &Data<'_>, text: &mut String) {
    arguments.read(|value| {
        let object = value.filter(|value| value.kind() == Kind::Object);
        let Some(object) = object else {
            return arguments.write_compact(text);
        };
        for (name, value) in object.members() {
            open(tag, name, text);
            text.push_str(&argument_text(value));
            close(tag, text);
            text.push('\n');
        }
    });
}

/// The value of an argument in its element: a text as it is, the rest with Python's separators.
pub fn argument_text(value: Value<'_>) -> Cow<'_, str> {
    match value.as_str() {
        Some(string) => Cow::Borrowed(string),
        None => spaced(value).into(),
    }
}

fn open(tag: &str, name: &str, text: &mut String) {
    let _ = match name {
        "" => write!(text, "<{tag}>"),
        name => write!(text, "<{tag} name=\"{name}\">"),
    };
}

fn close(tag: &str, text: &mut String) {
    let _ = write!(text, "</{tag}>");
}
