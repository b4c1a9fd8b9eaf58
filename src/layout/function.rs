//! Tools as the JSON objects that chat templates of open models show.
use crate::json::{Document, Limits, write_string};
use crate::request::Tool;

/// How a linear profile shows a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolText {
    /// Name, description and schema by themselves.
    #[default]
    Parts,
    /// OpenAI's JSON object without white space.
    Compact,
    /// OpenAI's JSON object with Python's separators.
    Spaced,
}

impl ToolText {
    /// The form of this name; `Parts` for any other.
    pub fn named(name: &str) -> ToolText {
        match name {
            "compact" => ToolText::Compact,
            "spaced" => ToolText::Spaced,
            _ => ToolText::Parts,
        }
    }
}

/// `tool` as a JSON object; fields that it lacks are left out. Linear in its definition.
pub fn function_object(tool: &Tool<'_>, is_spaced: bool) -> String {
    let (colon, comma) = if is_spaced { (": ", ", ") } else { (":", ",") };
    let mut text =
        format!("{{\"type\"{colon}\"function\"{comma}\"function\"{colon}{{\"name\"{colon}");
    write_string(&tool.name, &mut text);
    if !tool.description.is_empty() {
        text.push_str(&format!("{comma}\"description\"{colon}"));
        write_string(&tool.description, &mut text);
    }
    if let Some(schema) = tool.schema {
        text.push_str(&format!("{comma}\"parameters\"{colon}"));
        let json = schema.compact();
        match is_spaced {
            true => write_spaced(&json, &mut text),
            false => text.push_str(&json),
        }
    }
    text.push_str("}}");
    text
}

/// `json` with Python's default separators.
pub(super) fn write_spaced(json: &str, text: &mut String) {
    match Document::parse(json, &Limits::default()) {
        Ok(document) => document.root().write_spaced(text),
        Err(_) => text.push_str(json),
    }
}
