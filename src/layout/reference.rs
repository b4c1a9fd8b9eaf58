//! Parts of a schema that several layouts read: definitions, references to them, values as text.
use crate::json::{Kind, Value};
use std::collections::HashMap;

/// Levels of a schema, or of one referenced definition, that are rendered; deeper is `any`.
pub const MAX_DEPTH: usize = 24;

/// White space that is stripped around lines of a description.
pub(super) const SPACE: [char; 6] = [' ', '\t', '\n', '\r', '\x0b', '\x0c'];

/// The JSON text of `value` with a space behind each comma and colon.
pub(super) fn spaced(value: Value<'_>) -> String {
    let mut text = String::new();
    value.write_spaced(&mut text);
    text
}

/// The definitions of a schema, for its references.
pub(super) fn definitions(root: Value<'_>) -> HashMap<&str, Value<'_>> {
    let mut found = HashMap::new();
    for key in ["$defs", "definitions"] {
        for (name, item) in root.get(key).into_iter().flat_map(Value::members) {
            found.entry(name).or_insert(item);
        }
    }
    found
}

/// The name of the definition that `schema` refers to.
pub(super) fn reference_name(schema: Value<'_>) -> Option<&str> {
    let target = schema.get("$ref").and_then(Value::as_str)?;
    target.rsplit('/').next()
}

/// The text of member `key`, empty if there is none.
pub(super) fn string<'d>(schema: Value<'d>, key: &str) -> &'d str {
    schema.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The array at `key`.
pub(super) fn list<'d>(schema: Value<'d>, key: &str) -> Option<Value<'d>> {
    schema.get(key).filter(|value| value.kind() == Kind::Array)
}

/// The properties, if there is at least one.
pub(super) fn properties(schema: Value<'_>) -> Option<Value<'_>> {
    let found = schema.get("properties")?;
    (found.kind() == Kind::Object && !found.is_empty()).then_some(found)
}

/// Names of the properties that must be there.
pub(super) fn required(schema: Value<'_>) -> std::collections::BTreeSet<&str> {
    let listed = list(schema, "required").into_iter().flat_map(Value::items);
    listed.filter_map(Value::as_str).collect()
}

/// The name of a scalar type as TypeScript has it.
pub(super) fn scalar(name: Option<&str>) -> Option<&'static str> {
    match name? {
        "string" => Some("string"),
        "boolean" => Some("boolean"),
        "null" => Some("null"),
        "number" | "integer" => Some("number"),
        _ => None,
    }
}

/// The values of an enumeration, ` | ` between them; none if there is no value.
pub(super) fn enumeration(schema: Value<'_>) -> Option<String> {
    let values = list(schema, "enum").filter(|values| !values.is_empty())?;
    let mut text = String::new();
    for (nth, value) in values.items().enumerate() {
        if nth > 0 {
            text.push_str(" | ");
        }
        value.write_spaced(&mut text);
    }
    Some(text)
}
