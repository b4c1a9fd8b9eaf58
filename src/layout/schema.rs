//! A JSON Schema as a TypeScript type, as OpenAI renders it since 2024.
use super::reference::{MAX_DEPTH, SPACE, enumeration, list, properties, required, scalar, string};
use crate::json::{Kind, Value};
use crate::request::{Data, Tool};
use std::collections::{BTreeMap, HashMap};

/// Definitions inside of definitions that are rendered; deeper is `any`, so cycles end.
const MAX_REFERENCES: usize = 4;

/// Bytes that the references of one tool add to its text; what would exceed it is `any`.
const MAX_REFERENCED_BYTES: usize = 1 << 20;

/// Keywords that are shown behind a number.
const BOUNDS: [&str; 4] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];

/// Appends the type of `tool`.
pub(super) fn write_function(tool: &Tool<'_>, out: &mut String) {
    if !tool.description.is_empty() {
        comment(&tool.description, out);
    }
    let root = tool.schema.as_ref().and_then(Data::node);
    let Some(root) = root.filter(|root| properties(*root).is_some()) else {
        out.push_str(&format!("type {} = () => any;", tool.name));
        return;
    };
    out.push_str(&format!("type {} = (_: ", tool.name));
    notes(string(root, "title"), string(root, "description"), out);
    let mut renderer = Renderer::new(root);
    out.push_str(&renderer.object(root, 0, 0).text);
    out.push_str(") => any;");
}

/// The text of a type, and whether it needs lines of its own.
#[derive(Clone, PartialEq, Eq)]
struct Rendered {
    text: String,
    is_long: bool,
}

impl Rendered {
    fn short(text: impl Into<String>) -> Rendered {
        Rendered {
            text: text.into(),
            is_long: false,
        }
    }

    fn any() -> Rendered {
        Rendered::short("any")
    }

    fn is_any(&self) -> bool {
        self.text == "any" && !self.is_long
    }
}

/// Renders the schema of one tool.
struct Renderer<'d> {
    definitions: HashMap<&'d str, Value<'d>>,
    /// Definitions as rendered on each level of references, each once.
    rendered: BTreeMap<(&'d str, usize), Rendered>,
    left_bytes: usize,
}

impl<'d> Renderer<'d> {
    fn new(root: Value<'d>) -> Renderer<'d> {
        let mut definitions = HashMap::new();
        for key in ["$defs", "definitions"] {
            for (name, item) in root.get(key).into_iter().flat_map(Value::members) {
                definitions.entry(name).or_insert(item);
            }
        }
        Renderer {
            definitions,
            rendered: BTreeMap::new(),
            left_bytes: MAX_REFERENCED_BYTES,
        }
    }

    /// The schema that a reference points to; `schema` itself if it is no reference.
    fn target(&self, schema: Value<'d>) -> Option<Value<'d>> {
        match reference_name(schema) {
            Some(name) => self.definitions.get(name).copied(),
            None => Some(schema),
        }
    }

    /// Appends the comment above a property or an element.
    fn notes(&self, schema: Value<'d>, out: &mut String) {
        let told = |key| match string(schema, key) {
            "" => self.target(schema).map_or("", |found| string(found, key)),
            text => text,
        };
        notes(told("title"), told("description"), out);
    }

    fn reference(&mut self, name: &'d str, references: usize) -> Rendered {
        let Some(&target) = self.definitions.get(name) else {
            return Rendered::any();
        };
        if references == MAX_REFERENCES {
            return Rendered::any();
        }
        let key = (name, references);
        let found = match self.rendered.get(&key) {
            Some(found) => found.clone(),
            None => {
                let found = self.schema(target, 0, references + 1);
                self.rendered.insert(key, found.clone());
                found
            }
        };
        match self.left_bytes.checked_sub(found.text.len()) {
            Some(left_bytes) => self.left_bytes = left_bytes,
            None => return Rendered::any(),
        }
        found
    }

    /// The type of any schema.
    fn schema(&mut self, schema: Value<'d>, depth: usize, references: usize) -> Rendered {
        if schema.kind() != Kind::Object || depth > MAX_DEPTH {
            return Rendered::any();
        }
        if let Some(name) = reference_name(schema) {
            return self.reference(name, references);
        }
        let variants = list(schema, "anyOf").or_else(|| list(schema, "oneOf"));
        if let Some(variants) = variants {
            let mut types = Vec::new();
            for item in variants.items() {
                let found = self.schema(item, depth + 1, references);
                if found.is_any() {
                    return found;
                }
                types.push(found);
            }
            let asides = variants.items().map(|item| self.aside(item)).collect();
            return union(types, asides);
        }
        if let Some(whole) = list(schema, "allOf").filter(|whole| whole.len() == 1) {
            let only = whole.items().next().unwrap_or(whole);
            return self.schema(only, depth + 1, references);
        }
        if let Some(value) = schema.get("const") {
            return Rendered::short(spaced(value));
        }
        if let Some(names) = list(schema, "type") {
            let types = names.items();
            let types = types.map(|name| self.named(schema, name.as_str(), depth, references));
            let types: Vec<_> = types.collect();
            let asides = names.items().map(|name| aside(schema, name.as_str()));
            return union(types, asides.collect());
        }
        let name = schema.get("type").and_then(Value::as_str);
        self.named(schema, name, depth, references)
    }

    /// The text about one variant of a union.
    fn aside(&self, variant: Value<'d>) -> String {
        let found = self.target(variant);
        let found = found.filter(|found| found.kind() == Kind::Object);
        let name = |found: Value<'d>| found.get("type").and_then(Value::as_str);
        found.map_or_else(String::new, |found| aside(found, name(found)))
    }

    /// The type of a schema whose type has this name.
    fn named(
        &mut self,
        schema: Value<'d>,
        name: Option<&str>,
        depth: usize,
        references: usize,
    ) -> Rendered {
        if let Some(text) = enumeration(schema) {
            return Rendered::short(text);
        }
        if let Some(text) = scalar(name) {
            return Rendered::short(text);
        }
        if name == Some("array") {
            return self.array(schema.get("items"), depth, references);
        }
        match properties(schema) {
            Some(_) => self.object(schema, depth, references),
            None => Rendered::any(),
        }
    }

    fn array(&mut self, items: Option<Value<'d>>, depth: usize, references: usize) -> Rendered {
        let Some(items) = items else {
            return Rendered::short("any[]");
        };
        let item = self.schema(items, depth + 1, references);
        let mut comment = String::new();
        self.notes(items, &mut comment);
        if item.is_long || !comment.is_empty() {
            return Rendered {
                text: format!("Array<\n{comment}{}\n>", item.text),
                is_long: true,
            };
        }
        match item.text.contains(" | ") && !item.text.starts_with('{') {
            true => Rendered::short(format!("({})[]", item.text)),
            false => Rendered::short(item.text + "[]"),
        }
    }

    /// The type of an object with properties: one line, or a line each if one is commented.
    fn object(&mut self, schema: Value<'d>, depth: usize, references: usize) -> Rendered {
        let required = required(schema);
        // Both forms are written side by side: which of them it is shows only in the end.
        let (mut line, mut lines) = (String::from("{"), String::from("{\n"));
        let mut is_long = false;
        for (key, item) in properties(schema).into_iter().flat_map(Value::members) {
            let found = self.schema(item, depth + 1, references);
            let mut above = String::new();
            self.notes(item, &mut above);
            let behind = self.trailing(item);
            is_long |= found.is_long || !above.is_empty() || !behind.is_empty();
            let optional = if required.contains(key) { "" } else { "?" };
            let space = if found.text.starts_with('\n') {
                ""
            } else {
                " "
            };
            let text = format!("{key}{optional}:{space}{}", found.text);
            if !is_long {
                line.push_str(if line.len() > 1 { ", " } else { " " });
                line.push_str(&text);
            }
            for part in [&*above, &*text, ",", &*behind, "\n"] {
                lines.push_str(part);
            }
        }
        match is_long {
            true => Rendered {
                text: lines + "}",
                is_long,
            },
            false if line.len() == 1 => Rendered::short("{  }"),
            false => Rendered::short(line + " }"),
        }
    }

    /// The comment behind a property: its default and its bounds.
    fn trailing(&self, schema: Value<'d>) -> String {
        let mut said = Vec::new();
        let found = self.target(schema);
        let default = |schema: Value<'d>| schema.get("default");
        if let Some(value) = default(schema).or_else(|| found.and_then(default)) {
            said.push(format!("default: {}", spaced(value)));
        }
        let is_union = |found: Value<'d>| {
            let keys = ["anyOf", "oneOf", "type"];
            keys.into_iter().any(|key| list(found, key).is_some())
        };
        if let Some(found) = found.filter(|found| !is_union(*found)) {
            bounds(found, found.get("type").and_then(Value::as_str), &mut said);
        }
        match said.is_empty() {
            true => String::new(),
            false => format!(" // {}", said.join(", ")),
        }
    }
}

/// The name of the definition that a reference points to.
fn reference_name(schema: Value<'_>) -> Option<&str> {
    let reference = Some(string(schema, "$ref")).filter(|reference| !reference.is_empty());
    reference.and_then(|reference| reference.rsplit('/').next())
}

/// Variants on one line, or on a line each if something is said of one; `any` absorbs all.
fn union(types: Vec<Rendered>, asides: Vec<String>) -> Rendered {
    if types.iter().any(Rendered::is_any) {
        return Rendered::any();
    }
    if asides.iter().all(String::is_empty) {
        let texts: Vec<_> = types.iter().map(|item| item.text.as_str()).collect();
        return Rendered {
            text: texts.join(" | "),
            is_long: types.iter().any(|item| item.is_long),
        };
    }
    let mut text = String::from("\n");
    for (item, aside) in types.iter().zip(&asides) {
        text.push_str(" | ");
        text.push_str(&item.text);
        if !aside.is_empty() {
            text.push_str(" // ");
            text.push_str(aside);
        }
        text.push('\n');
    }
    Rendered {
        text,
        is_long: true,
    }
}

/// The notes on a variant: its description in one line, and its bounds.
fn aside(schema: Value<'_>, name: Option<&str>) -> String {
    let lines = lines(string(schema, "description"));
    let words: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    let mut said = Vec::new();
    if !words.is_empty() {
        said.push(words.join(" "));
    }
    bounds(schema, name, &mut said);
    said.join(", ")
}

/// Appends limits of a number and the format of a string, in the order of the schema.
fn bounds(schema: Value<'_>, name: Option<&str>, said: &mut Vec<String>) {
    let keys: &[&str] = match name {
        Some("integer" | "number") => &BOUNDS,
        Some("string") => &["format"],
        _ => return,
    };
    let members = schema.members().filter(|(key, _)| keys.contains(key));
    said.extend(members.map(|(key, value)| format!("{key}: {}", spaced(value))));
}

fn spaced(value: Value<'_>) -> String {
    let mut text = String::new();
    value.write_spaced(&mut text);
    text
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.trim_matches(SPACE).split('\n');
    lines.map(|line| line.trim_matches(SPACE))
}

/// Appends `text` as comment lines.
fn comment(text: &str, out: &mut String) {
    for line in lines(text) {
        out.push_str(if line.is_empty() { "//" } else { "// " });
        out.push_str(line);
        out.push('\n');
    }
}

/// Appends a title, an empty comment line and a description, as far as there are any.
fn notes(title: &str, description: &str, out: &mut String) {
    if !title.is_empty() {
        out.push_str(&format!("// {title}\n"));
    }
    if !title.is_empty() && !description.is_empty() {
        out.push_str("//\n");
    }
    if !description.is_empty() {
        comment(description, out);
    }
}
