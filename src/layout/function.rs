//! Tools as the JSON objects that chat templates of open models show.
use super::schema;
use crate::json::{Kind, Value, write_string};
use crate::request::{Data, Tool};

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
    /// The same, all tools in one list; a description or schema that is missing is empty.
    List,
    /// OpenAI's JSON object as Ollama passes it on: without the keywords that it does not know.
    Ollama,
    /// A TypeScript type, as OpenAI's layout shows it.
    TypeScript,
}

/// `tool` as it is shown, in any form but in parts; fields that it lacks are left out. Linear in it.
pub fn function_text(tool: &Tool<'_>, form: ToolText) -> String {
    if form == ToolText::TypeScript {
        let mut text = String::new();
        schema::write_function(tool, &mut text);
        return text;
    }
    function_object(tool, form)
}

fn function_object(tool: &Tool<'_>, form: ToolText) -> String {
    let is_list = form == ToolText::List;
    let is_spaced = is_list || form == ToolText::Spaced;
    let (colon, comma) = if is_spaced { (": ", ", ") } else { (":", ",") };
    let mut text =
        format!("{{\"type\"{colon}\"function\"{comma}\"function\"{colon}{{\"name\"{colon}");
    write_string(&tool.name, &mut text);
    if is_list || !tool.description.is_empty() {
        text.push_str(&format!("{comma}\"description\"{colon}"));
        write_string(&tool.description, &mut text);
    }
    if let Some(schema) = tool.schema {
        text.push_str(&format!("{comma}\"parameters\"{colon}"));
        match (form, schema.node()) {
            (ToolText::Spaced | ToolText::List, _) => write_spaced(&schema, &mut text),
            (ToolText::Ollama, Some(schema)) => write_parameters(schema, &mut text),
            _ => schema.write_compact(&mut text),
        }
    } else if is_list {
        text.push_str(", \"parameters\": {}");
    }
    text.push_str("}}");
    text
}

/// `data` with Python's separators.
pub(crate) fn spaced_text(data: &Data<'_>) -> String {
    let mut text = String::new();
    write_spaced(data, &mut text);
    text
}

/// The fields of a schema that Ollama keeps: at the top, and of each property.
fn write_parameters(schema: Value<'_>, text: &mut String) {
    if schema.kind() != Kind::Object {
        return schema.write_compact(text);
    }
    text.push('{');
    write_known(schema, &["type", "$defs", "items", "required"], text);
    let properties = schema.get("properties");
    if let Some(properties) = properties.filter(|it| it.kind() == Kind::Object) {
        if !text.ends_with('{') {
            text.push(',');
        }
        text.push_str("\"properties\":{");
        for (nth, (name, property)) in properties.members().enumerate() {
            text.push_str(if nth == 0 { "" } else { "," });
            write_string(name, text);
            text.push_str(":{");
            write_known(
                property,
                &["anyOf", "type", "items", "description", "enum"],
                text,
            );
            text.push('}');
        }
        text.push('}');
    }
    text.push('}');
}

/// The members of `object` that have one of these names.
fn write_known(object: Value<'_>, names: &[&str], text: &mut String) {
    let found = names
        .iter()
        .filter_map(|name| Some((name, object.get(name)?)));
    for (nth, (name, value)) in found.enumerate() {
        text.push_str(if nth == 0 { "" } else { "," });
        write_string(name, text);
        text.push(':');
        value.write_compact(text);
    }
}

/// `data` with Python's default separators.
pub(super) fn write_spaced(data: &Data<'_>, text: &mut String) {
    data.read(|value| match value {
        Some(value) => value.write_spaced(text),
        None => data.write_compact(text),
    });
}
