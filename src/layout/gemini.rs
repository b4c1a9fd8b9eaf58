//! Gemini's prompt layouts: tools, calls and results as each generation of models is billed for them.
//!
//! Recovered from recorded calls with the public vocabulary of Gemma, which explains nearly all of
//! them to the token: 3.x declares functions as the published template of FunctionGemma does, 2.5 as
//! Python functions ([`python`](super::python)), and 2.0 and Vertex AI are billed for the names and
//! texts of a request alone, as the vendor's own local tokenizer counts them.
use super::form::GeminiForm;
use super::python;
use super::reference::{MAX_DEPTH, definitions, list, properties, reference_name, spaced, string};
use crate::json::{Document, Kind, Limits, Value};
use crate::request::{Data, Tool, ToolCall};
use std::collections::HashMap;

/// Bytes that references of one schema add to its text; what would exceed it is left out.
const MAX_REFERENCED_BYTES: usize = 1 << 20;

/// Tokens around a result in the Python layout.
const RESULT_MARKS: u64 = 3;

/// A stretch of a prompt: texts that no token joins, and markers that are one token each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marked {
    /// The texts, one behind the other: a value of two bytes may be one of them.
    joined: String,
    /// Where each begins.
    starts: Vec<usize>,
    /// Number of markers.
    pub marks: u64,
}

impl Marked {
    /// The texts.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let ends = self.starts.iter().skip(1).copied();
        let ends = ends.chain([self.joined.len()]);
        let spans = self.starts.iter().zip(ends);
        spans.map(|(start, end)| &self.joined[*start..end])
    }

    fn push(&mut self, text: &str) {
        if self.starts.is_empty() {
            self.starts.push(0);
        }
        self.joined.push_str(text);
    }

    fn mark(&mut self) {
        self.marks += 1;
        self.starts.push(self.joined.len());
    }

    fn quote(&mut self, text: &str) {
        self.mark();
        self.push(text);
        self.mark();
    }

    /// A text by itself.
    fn text(&mut self, text: &str) {
        self.starts.push(self.joined.len());
        self.joined.push_str(text);
    }
}

/// The definition of `tool`. Linear in it.
pub(crate) fn tool(form: GeminiForm, tool: &Tool<'_>) -> Marked {
    let mut out = Marked::default();
    let schema = tool.schema.as_ref().and_then(Data::node);
    let response = tool.response.as_ref().and_then(Data::node);
    match form {
        GeminiForm::Python => {
            let about = (&*tool.name, &*tool.description);
            let (text, space_count) = python::function(about, schema, response);
            out.push(&text);
            out.marks += space_count;
        }
        GeminiForm::Declarations => declare(tool, schema, response, &mut out),
        _ => {
            out.text(&tool.name);
            out.text(&tool.description);
            if let Some(schema) = schema.filter(|_| !tool.is_json_schema) {
                schema_texts(schema, 0, false, &mut out);
            }
            if let Some(response) = response.filter(|_| !tool.is_json_response) {
                schema_texts(response, 0, false, &mut out);
            }
        }
    }
    out
}

/// The schema of the answer, which only costs where texts alone are billed.
pub(crate) fn answer_schema(schema: &Data<'_>) -> Marked {
    let mut out = Marked::default();
    if let Some(schema) = schema.node() {
        schema_texts(schema, 0, true, &mut out);
    }
    out
}

/// A call. Linear in it.
pub(crate) fn call(form: GeminiForm, call: &ToolCall<'_>) -> Marked {
    let mut out = Marked::default();
    call.arguments.read(|arguments| match form {
        GeminiForm::Python => out.push(&python::call(&call.name, arguments)),
        GeminiForm::Declarations => framed("call", &call.name, arguments, &mut out),
        _ => {
            out.text(&call.name);
            value_texts(arguments, 0, &mut out);
        }
    });
    out
}

/// The result of a call of `name`: a JSON text. Linear in it.
pub(crate) fn result(form: GeminiForm, name: &str, json: &str) -> Marked {
    let mut out = Marked::default();
    let parsed = Document::parse(json, &Limits::default()).ok();
    let value = parsed.as_ref().map(Document::root);
    match form {
        GeminiForm::Declarations => framed("response", name, value, &mut out),
        GeminiForm::Python => {
            out.text(name);
            out.text(&value.map_or_else(String::new, spaced));
            out.marks += RESULT_MARKS;
        }
        _ => {
            out.text(name);
            value_texts(value, 0, &mut out);
        }
    }
    out
}

/// A call or response between markers.
fn framed(kind: &str, name: &str, value: Option<Value<'_>>, out: &mut Marked) {
    out.mark();
    out.push(kind);
    out.push(":");
    out.push(name);
    match value {
        Some(value) => write_value(value, 0, out),
        None => out.push("{}"),
    }
    out.mark();
}

/// A function between markers.
fn declare(
    tool: &Tool<'_>,
    schema: Option<Value<'_>>,
    response: Option<Value<'_>>,
    out: &mut Marked,
) {
    out.mark();
    // The word "declaration", a token of Gemma's that other vocabularies cut.
    out.mark();
    out.push(":");
    out.push(&tool.name);
    out.push("{");
    if !tool.description.is_empty() {
        out.push("description:");
        out.quote(&tool.description);
        out.push(",");
    }
    if let Some(root) = schema {
        out.push("parameters:");
        Declared::new(root).write(root, 0, out);
    }
    if let Some(root) = response {
        out.push(if schema.is_some() {
            ",response:"
        } else {
            "response:"
        });
        Declared::new(root).write(root, 0, out);
    }
    out.push("}");
    out.mark();
}

/// Appends a JSON value whose strings stand between markers and whose keys are bare.
fn write_value(value: Value<'_>, depth: usize, out: &mut Marked) {
    if depth > MAX_DEPTH {
        return out.push(&compact(value));
    }
    match value.kind() {
        Kind::Object => {
            out.push("{");
            for (nth, (key, item)) in value.members().enumerate() {
                out.push(if nth == 0 { "" } else { "," });
                out.push(key);
                out.push(":");
                write_value(item, depth + 1, out);
            }
            out.push("}");
        }
        Kind::Array => {
            out.push("[");
            for (nth, item) in value.items().enumerate() {
                out.push(if nth == 0 { "" } else { "," });
                write_value(item, depth + 1, out);
            }
            out.push("]");
        }
        Kind::String => out.quote(value.as_str().unwrap_or_default()),
        _ => out.push(&compact(value)),
    }
}

/// Writes the schema of a declaration; references are resolved.
struct Declared<'d> {
    definitions: HashMap<&'d str, Value<'d>>,
    left_bytes: usize,
}

impl<'d> Declared<'d> {
    fn new(root: Value<'d>) -> Declared<'d> {
        Declared {
            definitions: definitions(root),
            left_bytes: MAX_REFERENCED_BYTES,
        }
    }

    fn write(&mut self, schema: Value<'d>, depth: usize, out: &mut Marked) {
        if depth > MAX_DEPTH {
            return out.push("{}");
        }
        let Some(name) = reference_name(schema) else {
            return self.write_keywords(schema, depth, out);
        };
        match self.definitions.get(name).copied() {
            Some(target) if self.left_bytes > 0 => {
                let before = out.joined.len();
                self.write_keywords(target, depth, out);
                let added = out.joined.len() - before;
                self.left_bytes = self.left_bytes.saturating_sub(added);
            }
            _ => out.push("{}"),
        }
    }

    /// Appends the keywords that are shown, in the order of their names.
    fn write_keywords(&mut self, schema: Value<'d>, depth: usize, out: &mut Marked) {
        out.push("{");
        let mut is_first = true;
        let mut key = |key: &str, out: &mut Marked| {
            out.push(if std::mem::take(&mut is_first) {
                ""
            } else {
                ","
            });
            out.push(key);
            out.push(":");
        };
        let description = string(schema, "description");
        if !description.is_empty() {
            key("description", out);
            out.quote(description);
        }
        if let Some(values) = list(schema, "enum") {
            key("enum", out);
            write_value(values, depth, out);
        }
        if let Some(items) = schema.get("items").filter(|it| it.kind() == Kind::Object) {
            key("items", out);
            self.write(items, depth + 1, out);
        }
        if let Some(properties) = properties(schema) {
            key("properties", out);
            out.push("{");
            for (nth, (name, item)) in properties.members().enumerate() {
                out.push(if nth == 0 { "" } else { "," });
                out.push(name);
                out.push(":");
                self.write(item, depth + 1, out);
            }
            out.push("}");
        }
        if let Some(names) = list(schema, "required").filter(|names| !names.is_empty()) {
            key("required", out);
            write_value(names, depth, out);
        }
        let kind = string(schema, "type");
        if !kind.is_empty() {
            key("type", out);
            out.quote(&kind.to_ascii_uppercase());
        }
        out.push("}");
    }
}

/// Appends the texts that are billed of a schema; of that of an answer a few more.
fn schema_texts(schema: Value<'_>, depth: usize, is_answer: bool, out: &mut Marked) {
    if depth > MAX_DEPTH {
        return;
    }
    out.text(&string(schema, "type").to_ascii_uppercase());
    for key in ["format", "description"] {
        out.text(string(schema, key));
    }
    for key in ["enum", "required"] {
        strings(schema, key, out);
    }
    if is_answer {
        out.text(string(schema, "title"));
        for key in ["propertyOrdering", "property_ordering"] {
            strings(schema, key, out);
        }
        for key in ["anyOf", "any_of"] {
            for item in list(schema, key).into_iter().flat_map(Value::items) {
                schema_texts(item, depth + 1, is_answer, out);
            }
        }
    }
    if let Some(items) = schema.get("items") {
        schema_texts(items, depth + 1, is_answer, out);
    }
    for (name, item) in properties(schema).into_iter().flat_map(Value::members) {
        out.text(name);
        schema_texts(item, depth + 1, is_answer, out);
    }
}

/// Appends each text of the list at `key`.
fn strings(schema: Value<'_>, key: &str, out: &mut Marked) {
    for item in list(schema, key).into_iter().flat_map(Value::items) {
        out.text(item.as_str().unwrap_or_default());
    }
}

/// Appends the keys and the texts of a JSON value, and a token for each number.
fn value_texts(value: Option<Value<'_>>, depth: usize, out: &mut Marked) {
    let Some(value) = value.filter(|_| depth <= MAX_DEPTH) else {
        return;
    };
    out.marks += u64::from(value.kind() == Kind::Number);
    out.text(value.as_str().unwrap_or_default());
    for (key, item) in value.members() {
        out.text(key);
        value_texts(Some(item), depth + 1, out);
    }
    for item in value.items() {
        value_texts(Some(item), depth + 1, out);
    }
}

fn compact(value: Value<'_>) -> String {
    let mut text = String::new();
    value.write_compact(&mut text);
    text
}
