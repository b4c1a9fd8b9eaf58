//! Anthropic's prompt layout: tools as lines of JSON, calls as markup.
//!
//! Recovered from recorded calls, whose bill it reproduces within a token or two: a tool is its
//! description, name and parameters as one JSON object between `function` tags; the calls of a
//! message stand behind its text as one element each, with an element for each argument.
use super::function::write_spaced;
use crate::json::{Document, Kind, Limits, write_string};
use crate::request::{Tool, ToolCall};
use std::fmt::Write;

/// What the vendor puts before the names of the tags around calls.
const PREFIX: &str = "antml:";

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
        write_spaced(&schema.compact(), &mut line);
    }
    line.push_str("}</function>\n");
    line
}

/// The markup of `calls`, behind text or at the beginning of a message. Linear in them.
pub fn calls_text<'c, 'd: 'c>(
    calls: impl IntoIterator<Item = &'c ToolCall<'d>>,
    follows_text: bool,
) -> String {
    let mut text = String::from(if follows_text { "\n\n" } else { "" });
    open("function_calls", "", &mut text);
    text.push('\n');
    for call in calls {
        open("invoke", &call.name, &mut text);
        text.push('\n');
        write_arguments(&call.arguments.compact(), &mut text);
        close("invoke", &mut text);
        text.push('\n');
    }
    close("function_calls", &mut text);
    text
}

/// One element for each argument, strings as they are; what is no JSON object as it is.
fn write_arguments(arguments: &str, text: &mut String) {
    let parsed = Document::parse(arguments, &Limits::default());
    let Some(object) = parsed.as_ref().ok().map(Document::root) else {
        return text.push_str(arguments);
    };
    if object.kind() != Kind::Object {
        return text.push_str(arguments);
    }
    for (name, value) in object.members() {
        open("parameter", name, text);
        match value.as_str() {
            Some(string) => text.push_str(string),
            None => value.write_spaced(text),
        }
        close("parameter", text);
        text.push('\n');
    }
}

fn open(tag: &str, name: &str, text: &mut String) {
    let _ = match name {
        "" => write!(text, "<{PREFIX}{tag}>"),
        name => write!(text, "<{PREFIX}{tag} name=\"{name}\">"),
    };
}

fn close(tag: &str, text: &mut String) {
    let _ = write!(text, "</{PREFIX}{tag}>");
}
