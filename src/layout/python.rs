//! Functions as Python: how Gemini 2.5 is shown its tools and the calls it has made.
//!
//! An object with properties is a dataclass before its function, an enumeration is a `Literal`, and
//! what is not required may be `None`. Of the requests that only declare functions, 91 % are explained
//! to the token.
use super::reference::{
    MAX_DEPTH, definitions, list, properties, reference_name, required, spaced, string,
};
use crate::json::{Kind, Value};
use std::collections::{HashMap, HashSet};

/// Bytes of class names and repeated types of one tool; what would exceed it is `Any`.
const MAX_TYPE_BYTES: usize = 1 << 20;

/// The function `name`, with the classes that its parameters need; and the number of spaces before
/// a line end that are left out, each a token of Gemma's that other vocabularies join with it.
pub(super) fn function(
    (name, description): (&str, &str),
    schema: Option<Value<'_>>,
    response: Option<Value<'_>>,
) -> (String, u64) {
    let mut writer = Writer::new(schema);
    let mut signature = String::new();
    let mut arguments = String::new();
    if let Some(schema) = schema {
        for (key, item, field) in writer.fields(schema, &camel(name), 0) {
            signature.push_str(&format!("    {field},\n"));
            writer.describe(key, item, &mut arguments);
        }
    }
    let description = indented(description);
    let mut answer = Writer::new(response);
    let owner = camel(name);
    let result = response.map_or("dict".to_owned(), |schema| {
        let (owner, key) = (&*owner, "response");
        answer.kind(schema, ClassName { owner, key }, 0)
    });
    let text = format!(
        "{}{}def {name}(\n{signature}) -> {result}:\n  \"\"\"{description}\n\n  Args:\n{arguments}  \"\"\"\n",
        writer.classes, answer.classes
    );
    (text, writer.space_count.saturating_add(answer.space_count))
}

/// A call of the function `name`.
pub(super) fn call(name: &str, arguments: Option<Value<'_>>) -> String {
    let mut text = format!("print(default_api.{name}(");
    let members = arguments.into_iter().flat_map(Value::members);
    for (nth, (key, item)) in members.enumerate() {
        text.push_str(if nth == 0 { "" } else { ", " });
        text.push_str(&format!("{key} = {}", spaced(item)));
    }
    text.push_str("))\n");
    text
}

/// The name of a class: that of its owner and a key.
#[derive(Clone, Copy)]
struct ClassName<'n> {
    owner: &'n str,
    key: &'n str,
}

struct Writer<'d> {
    definitions: HashMap<&'d str, Value<'d>>,
    /// Types of definitions that were referred to; that of a cycle is known by its name.
    known: HashMap<&'d str, String>,
    classes: String,
    left_bytes: usize,
    /// Spaces that are left out.
    space_count: u64,
}

impl<'d> Writer<'d> {
    fn new(root: Option<Value<'d>>) -> Writer<'d> {
        Writer {
            definitions: root.map(definitions).unwrap_or_default(),
            known: HashMap::new(),
            classes: String::new(),
            left_bytes: MAX_TYPE_BYTES,
            space_count: 0,
        }
    }

    /// Key, schema and declaration of each property of `schema`.
    fn fields(
        &mut self,
        schema: Value<'d>,
        owner: &str,
        depth: usize,
    ) -> Vec<(&'d str, Value<'d>, String)> {
        let needed = required(schema);
        let members = properties(schema).into_iter().flat_map(Value::members);
        members
            .map(|(key, item)| {
                let mut kind = self.kind(item, ClassName { owner, key }, depth + 1);
                if !needed.contains(key) {
                    let none = if kind.ends_with("None") {
                        ""
                    } else {
                        " | None"
                    };
                    kind.push_str(none);
                    kind.push_str(" = None");
                }
                (key, item, format!("{key}: {kind}"))
            })
            .collect()
    }

    /// Appends the line of documentation of a property.
    fn describe(&mut self, key: &str, item: Value<'d>, out: &mut String) {
        match string(item, "description") {
            "" => {
                out.push_str(&format!("    {key}:\n"));
                self.space_count += 1;
            }
            text => out.push_str(&format!("    {key}: {text}\n")),
        }
    }

    /// The type of a value, `name` if it needs a class.
    fn kind(&mut self, schema: Value<'d>, name: ClassName<'_>, depth: usize) -> String {
        if schema.kind() != Kind::Object || depth > MAX_DEPTH {
            return "Any".to_owned();
        }
        if let Some(target) = reference_name(schema) {
            return self.referred(target, name, depth);
        }
        if let Some(values) = list(schema, "enum").filter(|values| !values.is_empty()) {
            return format!("Literal{}", spaced(values));
        }
        let variants = ["anyOf", "any_of", "oneOf"];
        if let Some(variants) = variants.into_iter().find_map(|key| list(schema, key)) {
            let kinds = variants.items();
            return union(kinds.map(|item| self.kind(item, name, depth + 1)));
        }
        if let Some(names) = list(schema, "type") {
            let kinds = names.items().filter_map(Value::as_str);
            return union(kinds.map(|kind| self.named(kind, schema, name, depth)));
        }
        self.named(string(schema, "type"), schema, name, depth)
    }

    fn referred(&mut self, target: &'d str, name: ClassName<'_>, depth: usize) -> String {
        if let Some(known) = self.known.get(target) {
            let left_bytes = self.left_bytes.checked_sub(known.len());
            self.left_bytes = left_bytes.unwrap_or_default();
            return left_bytes.map_or_else(|| "Any".to_owned(), |_| known.clone());
        }
        let Some(&schema) = self.definitions.get(target) else {
            return "Any".to_owned();
        };
        let Some(whole) = self.whole(name) else {
            return "Any".to_owned();
        };
        self.known.insert(target, whole);
        let kind = self.kind(schema, name, depth + 1);
        self.known.insert(target, kind.clone());
        kind
    }

    /// The type of a value whose JSON type is `kind`.
    fn named(
        &mut self,
        kind: &str,
        schema: Value<'d>,
        name: ClassName<'_>,
        depth: usize,
    ) -> String {
        let kind = kind.to_ascii_lowercase();
        let scalar = match kind.as_str() {
            "string" => "str",
            "integer" => "int",
            "number" => "float",
            "boolean" => "bool",
            "null" => "None",
            "array" => {
                let items = schema.get("items");
                let items = items.map_or("Any".to_owned(), |it| self.kind(it, name, depth + 1));
                return format!("list[{items}]");
            }
            "object" if properties(schema).is_none() => "dict",
            _ if properties(schema).is_some() => return self.class(schema, name, depth),
            _ => "Any",
        };
        scalar.to_owned()
    }

    /// `name` in one word; none if there is no room left for it.
    fn whole(&mut self, name: ClassName<'_>) -> Option<String> {
        let byte_count = name.owner.len() + name.key.len();
        self.left_bytes = self.left_bytes.checked_sub(byte_count)?;
        Some(format!("{}{}", name.owner, camel(name.key)))
    }

    /// Writes the class `name`; its name.
    fn class(&mut self, schema: Value<'d>, name: ClassName<'_>, depth: usize) -> String {
        let Some(name) = self.whole(name) else {
            return "Any".to_owned();
        };
        let (mut attributes, mut declared) = (String::new(), String::new());
        for (key, item, field) in self.fields(schema, &name, depth) {
            self.describe(key, item, &mut attributes);
            declared.push_str(&format!("  {field}\n"));
        }
        let description = string(schema, "description");
        self.classes.push_str(&format!(
            "@dataclasses.dataclass(kw_only=True)\nclass {name}:\n  \"\"\"{description}\n\n  \
             Attributes:\n{attributes}  \"\"\"\n{declared}\n\n"
        ));
        name
    }
}

/// Types with `|` between them, each once.
fn union(kinds: impl Iterator<Item = String>) -> String {
    let mut seen = HashSet::new();
    let kinds: Vec<_> = kinds.filter(|kind| seen.insert(kind.clone())).collect();
    kinds.join(" | ")
}

/// A key as part of the name of a class.
fn camel(key: &str) -> String {
    let mut name = String::with_capacity(key.len());
    for word in key.split('_') {
        let mut letters = word.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name
}

/// `text` with two spaces before each line but the first and blank ones.
fn indented(text: &str) -> String {
    let mut lines = text.split('\n');
    let mut out = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        out.push('\n');
        if !line
            .trim_matches([' ', '\t', '\r', '\x0b', '\x0c'])
            .is_empty()
        {
            out.push_str("  ");
        }
        out.push_str(line);
    }
    out
}
