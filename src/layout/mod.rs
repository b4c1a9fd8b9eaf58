//! The OpenAI prompt layout: tools and output schema as the text that stands in the prompt.
//!
//! Functions are shown to the model as TypeScript types under `# Tools`, an output schema as
//! compact JSON under `# Response Formats`, calls made side by side as one call of a wrapper.
//! None of that is published by the provider; the rules reproduce what it bills, and what no rule
//! explains stands as a number in the profiles (`profile::ApiPrices`).
//!
//! Everything is linear in its input and recursion ends at a constant depth, whatever the schema:
//! what lies deeper, or what a reference repeats beyond a limit, is the type `any`.
mod form;
mod function;
mod gemini;
mod marker;
mod markup;
mod mistral;
mod python;
mod reference;
mod schema;
mod schema_2023;

pub use form::{CallText, GeminiForm, OpenAiForm};
pub(crate) use function::spaced_text;
pub use function::{ToolText, function_text};
pub use gemini::Marked;
pub(crate) use gemini::{answer_schema, call, result, tool};
pub(crate) use marker::with_markers;
pub use markup::{
    RESULTS, argument_text, calls_text, function_line, indented_schema, lone_result_text,
    named_result_text,
};
pub(crate) use mistral::{listed_call, listed_id, listed_result};
pub use reference::MAX_DEPTH;

use crate::json::{Document, Kind, Limits, Value, write_string};
use crate::request::{Data, Tool, ToolCall};
use std::fmt::Write;

/// Keywords of an output schema that are enforced and not shown to the model.
const UNSHOWN: [&str; 16] = [
    "additionalProperties",
    "required",
    "$schema",
    "default",
    "format",
    "pattern",
    "multipleOf",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
];

/// Keywords whose members are named by the client.
const NAMED: [&str; 3] = ["properties", "$defs", "definitions"];

/// The text of `tools`. Linear in them.
pub fn tools_text<'t, 'd: 't>(
    form: OpenAiForm,
    tools: impl IntoIterator<Item = &'t Tool<'d>>,
) -> String {
    let mut text = String::from("# Tools\n\n## functions\n\nnamespace functions {\n\n");
    for tool in tools {
        match form {
            OpenAiForm::Of2023 => schema_2023::write_function(tool, &mut text),
            OpenAiForm::Of2024 => schema::write_function(tool, &mut text),
        }
        text.push_str("\n\n");
    }
    text.push_str("} // namespace functions");
    text
}

/// The text of an output schema.
pub fn schema_text(name: &str, description: &str, schema: &Data<'_>) -> String {
    let mut text = format!("# Response Formats\n\n## {name}\n\n");
    if !description.is_empty() {
        text.push_str(&format!("// {description}\n"));
    }
    let mut json = String::new();
    match schema.node() {
        Some(node) => write_shown(node, 0, false, &mut json),
        None => {
            let compact = schema.compact();
            match Document::parse(&compact, &Limits::default()) {
                Ok(document) => write_shown(document.root(), 0, false, &mut json),
                Err(_) => json = compact,
            }
        }
    }
    push_ascii(&json, &mut text);
    text
}

/// The call of the wrapper that calls made side by side become.
pub fn wrapper_text(calls: &[&ToolCall<'_>]) -> String {
    let mut text = String::from("{\"tool_uses\":[");
    for (nth, call) in calls.iter().enumerate() {
        if nth > 0 {
            text.push(',');
        }
        text.push_str("{\"recipient_name\":");
        write_string(&format!("functions.{}", call.name), &mut text);
        text.push_str(",\"parameters\":");
        call.arguments.write_compact(&mut text);
        text.push('}');
    }
    text.push_str("]}");
    text
}

/// A result of a wrapped call: the JSON value that it holds, else its text as a string.
pub fn result_text(text: &str) -> String {
    let mut json = String::new();
    let document = Document::parse(text, &Limits::default());
    match document {
        Ok(document) => document.root().write_spaced(&mut json),
        Err(_) => write_string(text, &mut json),
    }
    let mut ascii = String::new();
    push_ascii(&json, &mut ascii);
    ascii
}

/// Appends JSON text with every character outside of ASCII as an escape, like Python's default.
fn push_ascii(json: &str, out: &mut String) {
    out.reserve(json.len());
    for character in json.chars() {
        if character.is_ascii() {
            out.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
}

/// Appends the compact JSON of a schema without what is not shown.
fn write_shown(value: Value<'_>, depth: usize, is_named: bool, out: &mut String) {
    if depth > MAX_DEPTH {
        return value.write_compact(out);
    }
    match value.kind() {
        Kind::Object => {
            let shown = |key: &&str| is_named || !UNSHOWN.contains(key);
            let members = value.members().filter(|(key, _)| shown(key));
            for (nth, (key, item)) in members.enumerate() {
                out.push(if nth == 0 { '{' } else { ',' });
                write_string(key, out);
                out.push(':');
                let names = NAMED.contains(&key) && !is_named;
                write_shown(item, depth + 1, names, out);
            }
            if !value.members().any(|(key, _)| shown(&key)) {
                out.push('{');
            }
            out.push('}');
        }
        Kind::Array => {
            out.push('[');
            for (nth, item) in value.items().enumerate() {
                if nth > 0 {
                    out.push(',');
                }
                write_shown(item, depth + 1, false, out);
            }
            out.push(']');
        }
        _ => value.write_compact(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::read_request;

    fn text_of(schema: &str) -> String {
        let body = format!(
            r#"{{"tools":[{{"name":"f","description":"D.","parameters":{schema}}}],"messages":[]}}"#
        );
        let document = Document::parse(&body, &Limits::default()).expect("valid JSON");
        let request = read_request(&document, None, None).expect("a request");
        let text = tools_text(OpenAiForm::Of2024, &request.tools);
        let from = text.find("type f").expect("a function");
        let to = text.rfind("\n\n}").expect("the end");
        text[from..to].to_owned()
    }

    fn object(properties: &str) -> String {
        format!(r#"{{"type":"object","required":["a"],"properties":{properties}}}"#)
    }

    #[test]
    fn an_object_without_comments_is_one_line() {
        let schema = object(r#"{"a":{"type":"integer"},"b":{"type":"array","items":{}}}"#);
        assert_eq!(
            text_of(&schema),
            "type f = (_: { a: number, b?: any[] }) => any;"
        );
    }

    #[test]
    fn a_comment_or_a_default_needs_lines() {
        let schema = object(r#"{"a":{"description":" x\n\n y","title":"T","type":"string"}}"#);
        assert_eq!(
            text_of(&schema),
            "type f = (_: {\n// T\n//\n// x\n//\n// y\na: string,\n}) => any;"
        );
        let schema = object(r#"{"a":{"type":"boolean","default":false}}"#);
        assert_eq!(
            text_of(&schema),
            "type f = (_: {\na: boolean, // default: false\n}) => any;"
        );
    }

    #[test]
    fn references_are_resolved_and_cycles_end() {
        let schema = r##"{"properties":{"a":{"$ref":"#/$defs/A"}},
            "$defs":{"A":{"title":"A","properties":{"b":{"$ref":"#/$defs/A"}}}}}"##;
        let text = text_of(schema);
        assert!(
            text.starts_with("type f = (_: {\n// A\na?: {\n// A\nb?: {"),
            "{text}"
        );
        assert!(text.contains("b?: any,\n}"), "{text}");
    }

    #[test]
    fn references_cannot_blow_up() {
        let wide = (0..60).map(|nth| format!(r##""p{nth}":{{"$ref":"#/$defs/D"}}"##));
        let wide = wide.collect::<Vec<_>>().join(",");
        let long = "x".repeat(1000);
        let schema = format!(
            r##"{{"properties":{{{wide}}},"$defs":{{"D":{{"description":"{long}","properties":{{{wide}}}}}}}}}"##
        );
        assert!(text_of(&schema).len() < 8 << 20);
    }

    #[test]
    fn depth_is_bounded() {
        let mut schema = r#"{"type":"string"}"#.to_owned();
        for _ in 0..400 {
            schema = format!(r#"{{"type":"array","items":{schema}}}"#);
        }
        let text = text_of(&object(&format!(r#"{{"a":{schema}}}"#)));
        assert!(text.contains("a: any[]"), "{text}");
    }

    #[test]
    fn an_output_schema_is_shown_without_what_is_enforced() {
        let body = r#"{"input":"x","text":{"format":{"type":"json_schema","name":"n","description":"d",
            "schema":{"type":"object","properties":{"default":{"type":"string","default":"é"},
            "b":{"title":"é😀"}},"required":["b"],"additionalProperties":false}}}}"#;
        let document = Document::parse(body, &Limits::default()).expect("valid JSON");
        let request = read_request(&document, None, None).expect("a request");
        let schema = request.response_schema.expect("a schema");
        assert_eq!(
            schema_text(&request.schema_name, &request.schema_description, &schema),
            "# Response Formats\n\n## n\n\n// d\n{\"type\":\"object\",\"properties\":\
             {\"default\":{\"type\":\"string\"},\"b\":{\"title\":\"\\u00e9\\ud83d\\ude00\"}}}"
        );
    }

    #[test]
    fn a_wrapped_result_is_its_json_value_or_a_string() {
        assert_eq!(result_text(r#"{"a":[1,2]}"#), r#"{"a": [1, 2]}"#);
        assert_eq!(result_text("18.50"), "18.5");
        assert_eq!(result_text("72°F"), r#""72\u00b0F""#);
        assert_eq!(result_text(""), "\"\"");
    }
}
