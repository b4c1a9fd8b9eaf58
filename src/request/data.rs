//! A JSON value of a request, written out only where its text is needed.
use super::part::parts;
use crate::json::{Document, Kind, Limits, Value, write_string};
use std::fmt;

/// A JSON value that the model sees as its text: arguments, a schema, a part of unknown meaning.
///
/// It costs nothing to read. Writing is linear, and parses the text of arguments first.
#[derive(Clone, Copy)]
pub struct Data<'d>(Source<'d>);

#[derive(Clone, Copy)]
enum Source<'d> {
    /// A value of the body.
    Value(Value<'d>),
    /// An object of the body without the keys that the model never sees.
    Billed(Value<'d>),
    /// An object of one member.
    Member(&'d str, Value<'d>),
    /// JSON inside of a string.
    Text(&'d str),
}

impl<'d> Data<'d> {
    /// `value` as it is.
    pub(super) fn value(value: Value<'d>) -> Data<'d> {
        Data(Source::Value(value))
    }

    /// `value`, unbilled keys at its top left out.
    pub(super) fn billed(value: Value<'d>) -> Data<'d> {
        match value.kind() {
            Kind::Object => Data(Source::Billed(value)),
            _ => Data(Source::Value(value)),
        }
    }

    /// The object `{key: value}`.
    pub(super) fn member(key: &'d str, value: Value<'d>) -> Data<'d> {
        Data(Source::Member(key, value))
    }

    /// The value that `text` holds: blank text is `{}`, text that is not JSON stays as it is.
    pub(super) fn text(text: &'d str) -> Data<'d> {
        Data(Source::Text(text))
    }

    /// Whether there is a value: not for text that is not JSON.
    pub(super) fn is_json(&self) -> bool {
        match self.0 {
            Source::Text(text) if !text.trim_matches(is_json_space).is_empty() => {
                Document::parse(text, &Limits::default()).is_ok()
            }
            _ => true,
        }
    }

    /// The value in the body that it is, if it is one as a whole.
    pub(crate) fn node(&self) -> Option<Value<'d>> {
        match self.0 {
            Source::Value(value) => Some(value),
            _ => None,
        }
    }

    /// Appends the compact JSON text, keys in the given order.
    pub fn write_compact(&self, out: &mut String) {
        self.write(Order::Given, out);
    }

    /// Appends the compact JSON text, keys in the order of their code points.
    pub fn write_canonical(&self, out: &mut String) {
        self.write(Order::Sorted, out);
    }

    /// The compact JSON text, keys in the given order.
    pub fn compact(&self) -> String {
        let mut out = String::new();
        self.write_compact(&mut out);
        out
    }

    /// The compact JSON text, keys in the order of their code points: equal values, equal texts.
    pub fn canonical(&self) -> String {
        let mut out = String::new();
        self.write_canonical(&mut out);
        out
    }

    fn write(&self, order: Order, out: &mut String) {
        match self.0 {
            Source::Value(value) => order.write(value, out),
            Source::Billed(object) => {
                let billed = object.members().filter(|(key, _)| !is_unbilled(key));
                order.write_members(billed.collect(), out);
            }
            Source::Member(key, value) => order.write_members(vec![(key, value)], out),
            Source::Text(text) if text.trim_matches(is_json_space).is_empty() => out.push_str("{}"),
            Source::Text(text) => match Document::parse(text, &Limits::default()) {
                Ok(document) => order.write(document.root(), out),
                Err(_) => out.push_str(text),
            },
        }
    }
}

impl PartialEq for Data<'_> {
    /// Whether both have the same text.
    fn eq(&self, other: &Self) -> bool {
        self.compact() == other.compact()
    }
}

impl Eq for Data<'_> {}

impl fmt::Debug for Data<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.compact())
    }
}

#[derive(Clone, Copy)]
enum Order {
    Given,
    Sorted,
}

impl Order {
    fn write(self, value: Value<'_>, out: &mut String) {
        match self {
            Order::Given => value.write_compact(out),
            Order::Sorted => value.write_canonical(out),
        }
    }

    fn write_members(self, mut members: Vec<(&str, Value<'_>)>, out: &mut String) {
        if let Order::Sorted = self {
            members.sort_unstable_by_key(|(key, _)| *key);
        }
        out.push('{');
        for (nth, (key, value)) in members.into_iter().enumerate() {
            if nth > 0 {
                out.push(',');
            }
            write_string(key, out);
            out.push(':');
            self.write(value, out);
        }
        out.push('}');
    }
}

/// Whether the model never sees this key of a block: it changes neither count nor identity.
pub(super) fn is_unbilled(key: &str) -> bool {
    matches!(
        key,
        "cache_control"
            | "cachePoint"
            | "prompt_cache_breakpoint"
            | "tool_call_id"
            | "status"
            | "caller"
            | "$mid"
    ) || parts().is_id(key)
}

fn is_json_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r')
}
