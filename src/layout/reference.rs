//! What several layouts read of a schema: its definitions, references to them, and values as text.
use crate::json::Value;
use std::collections::HashMap;

/// The JSON text of `value` with a space behind each comma and colon.
pub(super) fn spaced(value: Value<'_>) -> String {
    let mut text = String::new();
    value.write_spaced(&mut text);
    text
}

/// What a schema defines for its references.
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
