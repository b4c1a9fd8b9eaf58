//! The document, and its values.
use super::limits::Anomalies;
use super::tape::{Children, Node, Span, Tape};
use std::borrow::Cow;
use std::fmt;

/// A JSON value with all that it contains, as 16 bytes for each value and key.
///
/// Strings without escapes are borrowed from the body, held texts stay where they are, all others share one buffer.
pub struct Document<'a> {
    text: Cow<'a, str>,
    tape: Tape,
}

impl<'a> Document<'a> {
    pub(super) fn new(text: Cow<'a, str>, tape: Tape) -> Document<'a> {
        Document { text, tape }
    }

    /// The outermost value.
    pub fn root(&self) -> Value<'_> {
        self.value(0)
    }

    /// Oddities of the body that were accepted.
    pub fn anomalies(&self) -> Anomalies {
        self.tape.anomalies
    }

    /// Notes what was odd about the source, for a caller who decoded it.
    pub fn flag(&mut self, anomalies: Anomalies) {
        self.tape.anomalies |= anomalies;
    }

    /// How many values and keys there are.
    pub fn value_count(&self) -> usize {
        self.tape.nodes.len()
    }

    /// Bytes of text to read: the body, and what was unescaped, or copied or held of objects.
    pub fn byte_count(&self) -> usize {
        self.text.len() + self.tape.byte_count()
    }

    fn value(&self, index: u32) -> Value<'_> {
        Value {
            document: self,
            index,
        }
    }
}

impl fmt::Debug for Document<'_> {
    /// How much there is, and none of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document")
            .field("value_count", &self.value_count())
            .field("byte_count", &self.byte_count())
            .finish_non_exhaustive()
    }
}

/// The kind of a [`Value`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `null`, and whatever could not be read.
    Null,
    /// `true` or `false`.
    Bool,
    /// A number of any size, NaN and the infinities among them.
    Number,
    /// A string.
    String,
    /// Bytes of an object; JSON itself has none.
    Bytes,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// One value of a [`Document`]: a reference and a place, cheap to copy.
#[derive(Clone, Copy)]
pub struct Value<'d> {
    document: &'d Document<'d>,
    index: u32,
}

impl<'d> Value<'d> {
    /// Its kind.
    pub fn kind(self) -> Kind {
        match self.node() {
            Node::Null | Node::Key { .. } => Kind::Null,
            Node::Bool(_) => Kind::Bool,
            Node::Number(_) => Kind::Number,
            Node::String(_) => Kind::String,
            Node::Bytes(_) => Kind::Bytes,
            Node::Array { .. } => Kind::Array,
            Node::Object { .. } => Kind::Object,
        }
    }

    /// True if it is an object.
    pub fn is_object(self) -> bool {
        self.kind() == Kind::Object
    }

    /// True if it is null.
    pub fn is_null(self) -> bool {
        self.kind() == Kind::Null
    }

    /// The text, if it is a string.
    pub fn as_str(self) -> Option<&'d str> {
        match self.node() {
            Node::String(span) => Some(self.text(span)),
            _ => None,
        }
    }

    /// The truth value, if it is one.
    pub fn as_bool(self) -> Option<bool> {
        match self.node() {
            Node::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// The number as Python's `json.dumps` writes it, if it is one: `1`, `100.0`, `NaN`.
    pub fn as_number_text(self) -> Option<&'d str> {
        match self.node() {
            Node::Number(span) => Some(self.text(span)),
            _ => None,
        }
    }

    /// The number, if it is written as an integer (not `1.0`) and fits.
    pub fn as_u64(self) -> Option<u64> {
        self.as_number_text()?.parse().ok()
    }

    /// Where in the text that was parsed the number stands, if it is written there as it reads.
    pub fn number_range(self) -> Option<std::ops::Range<usize>> {
        match self.node() {
            Node::Number(span) => span.range_in_text(),
            _ => None,
        }
    }

    /// The number as the nearest float, if it is one.
    pub fn as_f64(self) -> Option<f64> {
        self.as_number_text()?.parse().ok()
    }

    /// True if the document has bytes somewhere, which JSON text has not.
    pub(crate) fn is_beside_bytes(self) -> bool {
        !self.document.tape.blobs.is_empty()
    }

    /// The bytes, if it is bytes; a string that holds base64 is a string.
    pub fn as_bytes(self) -> Option<&'d [u8]> {
        match self.node() {
            Node::Bytes(span) => Some(&self.document.tape.blobs[span.range()]),
            _ => None,
        }
    }

    /// Number of elements of an array or of members of an object, else 0.
    pub fn len(self) -> usize {
        match self.node() {
            Node::Array { len, .. } | Node::Object { len, .. } => len as usize,
            _ => 0,
        }
    }

    /// True if it has no elements and no members; so too if it can have none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The elements of an array in order; none for any other kind.
    pub fn items(self) -> Items<'d> {
        Items {
            document: self.document,
            places: self.children_if(Kind::Array),
        }
    }

    /// The members of an object, each key once, in order; none for any other kind.
    pub fn members(self) -> Members<'d> {
        Members {
            document: self.document,
            places: self.children_if(Kind::Object),
        }
    }

    /// The value of `key`, if it is an object that has it. Linear in the number of members.
    pub fn get(self, key: &str) -> Option<Value<'d>> {
        self.members()
            .find(|(name, _)| *name == key)
            .map(|(_, value)| value)
    }

    /// Appends the nodes of the value as they stand in the document: of two that differ, other bytes. Linear, and
    /// quicker than text, but equal values may differ in the order of their keys.
    pub(crate) fn write_nodes(self, out: &mut Vec<u8>) {
        let tape = &self.document.tape;
        for index in self.index..tape.after(self.index) {
            let (tag, number, text) = match tape.node(index) {
                Node::Null => (b'n', 0, &[][..]),
                Node::Bool(value) => (b'b', u32::from(value), &[][..]),
                Node::Number(span) => (b'1', 0, self.text(span).as_bytes()),
                Node::String(span) => (b's', 0, self.text(span).as_bytes()),
                Node::Bytes(span) => (b'x', 0, &tape.blobs[span.range()]),
                Node::Array { end, .. } => (b'a', end - index, &[][..]),
                Node::Object { end, .. } => (b'o', end - index, &[][..]),
                Node::Key { text, value } => {
                    (b'k', value.wrapping_sub(index), self.text(text).as_bytes())
                }
            };
            out.push(tag);
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&(text.len() as u64).to_le_bytes());
            out.extend_from_slice(text);
        }
    }

    pub(super) fn node(self) -> Node {
        self.document.tape.node(self.index)
    }

    /// The value at another place of the same document.
    pub(super) fn at(self, index: u32) -> Value<'d> {
        self.document.value(index)
    }

    pub(super) fn text(self, span: Span) -> &'d str {
        self.document.tape.text(&self.document.text, span)
    }

    /// Where its elements are, or the keys of its members.
    pub(super) fn children(self) -> Children<'d> {
        self.document.tape.children(self.index)
    }

    fn children_if(self, kind: Kind) -> Children<'d> {
        match self.kind() == kind {
            true => self.children(),
            false => self.document.tape.children_within(0..0),
        }
    }
}

impl fmt::Debug for Value<'_> {
    /// Its kind and how much it contains, but no content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({:?}, len {})", self.kind(), self.len())
    }
}

/// Iterator over the elements of an array: [`Value::items`].
#[derive(Clone)]
pub struct Items<'d> {
    document: &'d Document<'d>,
    places: Children<'d>,
}

impl<'d> Iterator for Items<'d> {
    type Item = Value<'d>;

    fn next(&mut self) -> Option<Value<'d>> {
        let index = self.places.next()?;
        Some(self.document.value(index))
    }
}

/// Iterator over the members of an object: [`Value::members`].
#[derive(Clone)]
pub struct Members<'d> {
    document: &'d Document<'d>,
    places: Children<'d>,
}

impl<'d> Iterator for Members<'d> {
    type Item = (&'d str, Value<'d>);

    fn next(&mut self) -> Option<(&'d str, Value<'d>)> {
        let (text, value) = self.places.next_member()?;
        let value = self.document.value(value);
        Some((value.text(text), value))
    }
}
