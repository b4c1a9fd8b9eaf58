//! A JSON value of a request, written out only where its text is needed.
use super::part::parts;
use crate::json::{Document, Kind, Limits, Value, write_string};
use std::borrow::Cow;
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

    /// The text that it is written in, if it is JSON inside of a string.
    pub(crate) fn as_text(&self) -> Option<&'d str> {
        match self.0 {
            Source::Text(text) => Some(text),
            _ => None,
        }
    }

    /// True if there is a value: not for text that is not JSON.
    pub(super) fn is_json(&self) -> bool {
        match self.0 {
            Source::Text(text) if !text.trim_matches(is_json_space).is_empty() => {
                Document::parse(text, &Limits::default()).is_ok()
            }
            _ => true,
        }
    }

    /// The name of the member that it is, if it is an object of one.
    pub(crate) fn member_name(&self) -> Option<&'d str> {
        match self.0 {
            Source::Member(name, _) => Some(name),
            _ => None,
        }
    }

    /// The value in the body that it is, if it is one as a whole.
    pub(crate) fn node(&self) -> Option<Value<'d>> {
        match self.0 {
            Source::Value(value) => Some(value),
            _ => None,
        }
    }

    /// Runs `work` on the value as JSON text has it; on none, if it is text that is not JSON.
    ///
    /// What stands in the body as a value is not written and parsed once more.
    pub(crate) fn read<T>(&self, work: impl FnOnce(Option<Value<'_>>) -> T) -> T {
        if let Some(value) = self.node().filter(|value| !value.is_beside_bytes()) {
            return work(Some(value));
        }
        let json = self.compact();
        let document = Document::parse(&json, &Limits::default());
        work(document.as_ref().ok().map(Document::root))
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

    /// The text as it is written in the body; the compact one of a value that is no text there.
    pub fn written(&self) -> Cow<'d, str> {
        match self.0 {
            Source::Text(text) => Cow::Borrowed(text),
            _ => self.compact().into(),
        }
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
                order.write_members(billed, out);
            }
            Source::Member(key, value) => order.write_members([(key, value)].into_iter(), out),
            Source::Text(text) if text.trim_matches(is_json_space).is_empty() => out.push_str("{}"),
            Source::Text(text) => match Document::parse(text, &Limits::default()) {
                Ok(document) => order.write(document.root(), out),
                Err(_) => out.push_str(text),
            },
        }
    }
}

impl PartialEq for Data<'_> {
    /// True if both have the same text.
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

    fn write_members<'d>(
        self,
        members: impl Iterator<Item = (&'d str, Value<'d>)>,
        out: &mut String,
    ) {
        match self {
            Order::Given => self.write_in_order(members, out),
            Order::Sorted => {
                let mut members: Vec<_> = members.collect();
                members.sort_unstable_by_key(|(key, _)| *key);
                self.write_in_order(members.into_iter(), out);
            }
        }
    }

    fn write_in_order<'d>(
        self,
        members: impl Iterator<Item = (&'d str, Value<'d>)>,
        out: &mut String,
    ) {
        out.push('{');
        for (nth, (key, value)) in members.enumerate() {
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

/// True if the model never sees this key of a block: it changes neither count nor identity.
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
