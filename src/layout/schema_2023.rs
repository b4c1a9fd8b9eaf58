//! A JSON Schema as a TypeScript type, as OpenAI rendered it until the end of 2023: indented, never
//! on one line, comments at the top level only.
use super::reference::{MAX_DEPTH, SPACE, enumeration, list, properties, required, scalar, string};
use crate::json::{Kind, Value};
use crate::request::{Data, Tool};

/// Appends the type of `tool`.
pub(super) fn write_function(tool: &Tool<'_>, out: &mut String) {
    comment(&tool.description, out);
    let root = tool.schema.as_ref().and_then(Data::node);
    let Some(root) = root.filter(|root| properties(*root).is_some()) else {
        out.push_str(&format!("type {} = () => any;", tool.name));
        return;
    };
    out.push_str(&format!("type {} = (_: {{\n", tool.name));
    write_properties(root, 0, 0, out);
    out.push_str("\n}) => any;");
}

fn comment(text: &str, out: &mut String) {
    if !text.is_empty() {
        out.push_str(&format!("// {}\n", text.trim_matches(SPACE)));
    }
}

/// Appends the properties of `schema`; an object of unknown properties is left out.
fn write_properties(schema: Value<'_>, indent: usize, depth: usize, out: &mut String) {
    let required = required(schema);
    let is_shown =
        |item: &Value<'_>| string(*item, "type") != "object" || properties(*item).is_some();
    let members = properties(schema).into_iter().flat_map(Value::members);
    let members = members.filter(|(_, item)| is_shown(item));
    for (nth, (key, item)) in members.enumerate() {
        if nth > 0 {
            out.push('\n');
        }
        if indent == 0 {
            comment(string(item, "description"), out);
        }
        let optional = if required.contains(key) { "" } else { "?" };
        indentation(indent, out);
        out.push_str(&format!("{key}{optional}: "));
        write_type(item, indent, depth, out);
        out.push(',');
    }
}

fn write_type(schema: Value<'_>, indent: usize, depth: usize, out: &mut String) {
    if schema.kind() != Kind::Object || depth > MAX_DEPTH {
        return out.push_str("any");
    }
    let variants = list(schema, "anyOf").or_else(|| list(schema, "oneOf"));
    if let Some(variants) = variants {
        let types = variants.items().map(|item| {
            let mut text = String::new();
            write_type(item, indent, depth + 1, &mut text);
            text
        });
        let types: Vec<_> = types.collect();
        let has_any = types.iter().any(|text| text == "any");
        return out.push_str(&if has_any {
            "any".to_owned()
        } else {
            types.join(" | ")
        });
    }
    let name = schema.get("type").and_then(Value::as_str);
    if let Some(text) = enumeration(schema) {
        return out.push_str(&text);
    }
    if let Some(text) = scalar(name) {
        return out.push_str(text);
    }
    if name == Some("array") {
        match schema.get("items") {
            Some(items) => write_type(items, indent, depth + 1, out),
            None => out.push_str("any"),
        }
        return out.push_str("[]");
    }
    if properties(schema).is_none() {
        return out.push_str("any");
    }
    out.push_str("{\n");
    write_properties(schema, indent + 1, depth + 1, out);
    out.push('\n');
    indentation(indent, out);
    out.push('}');
}

fn indentation(indent: usize, out: &mut String) {
    (0..indent).for_each(|_| out.push_str("  "));
}
