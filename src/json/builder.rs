//! Makes a document, value by value.
use super::document::{Document, Kind, Value};
use super::limits::{Anomalies, Limits};
use super::number::write_float;
use super::tape::{HeldText, Node, Span, Tape};
use crate::Error;
use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Objects up to here find equal keys by comparing all pairs, larger ones by a keyed hash.
const FEW_KEYS: usize = 16;
/// Room from the start, so that a small document does not grow step by step.
const FIRST_NODES: usize = 64;

/// Makes a [`Document`] from calls in document order; strings are copied into it, unless they are held.
///
/// Each call costs what it copies; [`end`](Builder::end) also compares the keys of its object
/// and lets the last of equal keys win at the place of the first. A call fails only by a limit;
/// then there is nothing to do but drop the builder.
///
/// The calls must follow the grammar: in an object [`key`](Builder::key) before each value, an
/// `end` for each `begin`, one value at the top. Debug builds assert it; release builds make
/// a document of some other shape.
///
/// ```
/// use tokenctx::json::{Builder, Limits};
///
/// let mut builder = Builder::new(&Limits::default());
/// builder.begin_object()?;
/// builder.key("role")?;
/// builder.string("user")?;
/// builder.end();
/// let document = builder.finish();
/// assert_eq!(document.root().get("role").and_then(|v| v.as_str()), Some("user"));
/// # Ok::<(), tokenctx::Error>(())
/// ```
pub struct Builder<'t> {
    /// The text that spans outside of the arena point into: the body, or none.
    text: &'t str,
    tape: Tape,
    open: Vec<Open>,
    limits: Limits,
}

/// An array or object that has not ended.
#[derive(Clone, Copy)]
struct Open {
    node: u32,
    len: u32,
    is_object: bool,
    /// True if no two of its keys are equal.
    is_distinct: bool,
}

/// Of so many elements of an array it is guessed how much room they take: nodes, and bytes of text.
#[cfg(feature = "python")]
const MOST_GUESSED: usize = 512;
#[cfg(feature = "python")]
const GUESSED_NODES: usize = 8;
#[cfg(feature = "python")]
const GUESSED_BYTES: usize = 128;

/// Values of another document that are still to be copied.
enum Copied<'d> {
    Value(Value<'d>),
    Member(&'d str, Value<'d>),
    End,
}

impl Builder<'static> {
    /// An empty document to be, all of whose strings together stay below `limits.max_bytes`.
    pub fn new(limits: &Limits) -> Builder<'static> {
        Builder::over("", limits)
    }

    /// The document. Arrays and objects that are open end here; without a value it is null.
    pub fn finish(self) -> Document<'static> {
        Document::new(Cow::Borrowed(""), self.into_tape())
    }
}

impl<'t> Builder<'t> {
    /// A document whose strings may be spans of `text`, which do not count as bytes.
    pub(super) fn over(text: &'t str, limits: &Limits) -> Builder<'t> {
        let mut tape = Tape::default();
        tape.nodes.reserve(text.len().min(FIRST_NODES));
        Builder {
            text,
            tape,
            open: Vec::new(),
            limits: Limits {
                max_bytes: limits.max_bytes.min(Span::MAX),
                max_values: limits.max_values.min(Span::MAX),
                ..*limits
            },
        }
    }

    pub(super) fn into_tape(mut self) -> Tape {
        debug_assert!(self.open.is_empty(), "an array or object has not ended");
        while self.depth() > 0 {
            self.end();
        }
        if self.tape.nodes.is_empty() {
            self.tape.nodes.push(Node::Null);
        }
        self.tape
    }

    /// How many arrays and objects are open.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// How many values and keys there are so far.
    pub fn value_count(&self) -> usize {
        self.tape.nodes.len()
    }

    /// True if the innermost open container is an object.
    pub(super) fn in_object(&self) -> bool {
        self.open.last().is_some_and(|open| open.is_object)
    }

    /// Notes what was odd about the source.
    pub fn flag(&mut self, anomalies: Anomalies) {
        self.tape.anomalies |= anomalies;
    }

    /// Adds null.
    pub fn null(&mut self) -> Result<(), Error> {
        self.value(Node::Null)
    }

    /// Adds a truth value.
    pub fn bool(&mut self, value: bool) -> Result<(), Error> {
        self.value(Node::Bool(value))
    }

    /// Adds a number; `text` must be as Python writes it, so use [`float`](Builder::float) for
    /// anything but digits with or without a minus.
    pub fn number(&mut self, text: &str) -> Result<(), Error> {
        let span = self.copy(text)?;
        self.number_span(span)
    }

    /// Adds a number in the one text it has; flags it if it is not finite.
    pub fn float(&mut self, number: f64) -> Result<(), Error> {
        if !number.is_finite() {
            self.flag(Anomalies::NON_FINITE_NUMBER);
        }
        let start = self.tape.arena.len();
        write_float(number, &mut self.tape.arena);
        let span = self.copied_since(start)?;
        self.number_span(span)
    }

    /// Adds a string.
    pub fn string(&mut self, text: &str) -> Result<(), Error> {
        let span = self.copy(text)?;
        self.string_span(span)
    }

    /// Adds a string that is not copied: the document keeps `text` as long as it lives. The text that `text`
    /// gives must always be the same.
    pub fn held_string(&mut self, text: HeldText) -> Result<(), Error> {
        let len = (*text).as_ref().len();
        self.check_bytes(len)?;
        self.tape.held_bytes += len;
        let span = Span::held(self.tape.held.len(), len);
        self.tape.held.push(text);
        self.string_span(span)
    }

    /// Adds bytes, which JSON has not; they are written as a base64 string.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let start = self.tape.blobs.len();
        self.check_bytes(bytes.len())?;
        self.tape.blobs.extend_from_slice(bytes);
        self.value(Node::Bytes(Span::new(start, bytes.len())))
    }

    /// Begins an array.
    pub fn begin_array(&mut self) -> Result<(), Error> {
        self.begin(Node::Array { len: 0, end: 0 }, false)
    }

    /// Begins an object.
    pub fn begin_object(&mut self) -> Result<(), Error> {
        self.begin(Node::Object { len: 0, end: 0 }, true)
    }

    /// Begins an object no two of whose keys are equal, so that they are not compared, unless the caller
    /// finds that they must be ([`compare_keys`](Builder::compare_keys)).
    #[cfg(feature = "python")]
    pub(crate) fn begin_distinct_object(&mut self) -> Result<(), Error> {
        self.begin_object()?;
        self.set_distinct(true);
        Ok(())
    }

    /// Makes room for so many messages or the like, as a guess.
    #[cfg(feature = "python")]
    pub(crate) fn reserve(&mut self, count: usize) {
        let count = count.min(MOST_GUESSED);
        self.tape.nodes.reserve(count * GUESSED_NODES);
        self.tape.arena.reserve(count * GUESSED_BYTES);
    }

    /// Compares the keys of the innermost object when it ends.
    #[cfg(feature = "python")]
    pub(crate) fn compare_keys(&mut self) {
        self.set_distinct(false);
    }

    #[cfg(feature = "python")]
    fn set_distinct(&mut self, is_distinct: bool) {
        if let Some(open) = self.open.last_mut() {
            open.is_distinct = is_distinct;
        }
    }

    /// Adds a value of another document, with all that it contains. No recursion.
    pub fn copy_of(&mut self, value: Value<'_>) -> Result<(), Error> {
        let mut pending = vec![Copied::Value(value)];
        while let Some(next) = pending.pop() {
            let value = match next {
                Copied::End => {
                    self.end();
                    continue;
                }
                Copied::Member(key, value) => {
                    self.key(key)?;
                    value
                }
                Copied::Value(value) => value,
            };
            match value.kind() {
                Kind::Null => self.null()?,
                Kind::Bool => self.bool(value.as_bool() == Some(true))?,
                Kind::Number => self.number(value.as_number_text().unwrap_or_default())?,
                Kind::String => self.string(value.as_str().unwrap_or_default())?,
                Kind::Bytes => self.bytes(value.as_bytes().unwrap_or_default())?,
                Kind::Array | Kind::Object => {
                    match value.kind() {
                        Kind::Array => self.begin_array()?,
                        _ => self.begin_object()?,
                    }
                    pending.push(Copied::End);
                    let start = pending.len();
                    pending.extend(value.items().map(Copied::Value));
                    pending.extend(value.members().map(|(key, it)| Copied::Member(key, it)));
                    pending[start..].reverse();
                }
            }
        }
        Ok(())
    }

    /// Adds a key, whose value is what is added next.
    pub fn key(&mut self, text: &str) -> Result<(), Error> {
        let span = self.copy(text)?;
        self.key_span(span)
    }

    /// Ends the innermost array or object; without one it does nothing.
    pub fn end(&mut self) {
        debug_assert!(!self.open.is_empty(), "nothing to end");
        debug_assert!(!self.key_waits(), "a key without a value");
        let Some(open) = self.open.pop() else { return };
        let end = self.next_index();
        let mut len = open.len;
        if open.is_object && !open.is_distinct && len > 1 {
            len -= self.merge_equal_keys(open);
        }
        self.tape.nodes[open.node as usize] = match open.is_object {
            true => Node::Object { len, end },
            false => Node::Array { len, end },
        };
    }

    pub(super) fn number_span(&mut self, span: Span) -> Result<(), Error> {
        self.value(Node::Number(span))
    }

    pub(super) fn string_span(&mut self, span: Span) -> Result<(), Error> {
        self.value(Node::String(span))
    }

    pub(super) fn key_span(&mut self, text: Span) -> Result<(), Error> {
        debug_assert!(self.in_object(), "a key outside of an object");
        debug_assert!(!self.key_waits(), "two keys and no value between");
        self.count_in_parent();
        let value = self.next_index() + 1;
        self.push(Node::Key { text, value })
    }

    /// The text that strings with escapes are unescaped into.
    pub(super) fn arena(&mut self) -> &mut String {
        &mut self.tape.arena
    }

    /// The span of the arena from `start` on.
    pub(super) fn copied_since(&self, start: usize) -> Result<Span, Error> {
        self.check_bytes(0)?;
        Ok(Span::in_arena(start, self.tape.arena.len() - start))
    }

    fn copy(&mut self, text: &str) -> Result<Span, Error> {
        let start = self.tape.arena.len();
        self.check_bytes(text.len())?;
        self.tape.arena.push_str(text);
        Ok(Span::in_arena(start, text.len()))
    }

    /// Fails if there are too many bytes with so many `more`.
    fn check_bytes(&self, more: usize) -> Result<(), Error> {
        let (bytes, limit) = (self.tape.byte_count() + more, self.limits.max_bytes);
        match bytes > limit {
            true => Err(Error::TooLarge { bytes, limit }),
            false => Ok(()),
        }
    }

    fn begin(&mut self, node: Node, is_object: bool) -> Result<(), Error> {
        let limit = self.limits.max_depth;
        if self.open.len() >= limit {
            let offset = None;
            return Err(Error::TooDeep { offset, limit });
        }
        let open = Open {
            node: self.next_index(),
            len: 0,
            is_object,
            is_distinct: false,
        };
        self.value(node)?;
        self.open.push(open);
        Ok(())
    }

    fn value(&mut self, node: Node) -> Result<(), Error> {
        debug_assert!(
            !self.in_object() || self.key_waits(),
            "a value without a key"
        );
        if !self.in_object() {
            self.count_in_parent();
        }
        self.push(node)
    }

    fn push(&mut self, node: Node) -> Result<(), Error> {
        let limit = self.limits.max_values;
        if self.tape.nodes.len() >= limit {
            let offset = None;
            return Err(Error::TooManyValues { offset, limit });
        }
        self.tape.nodes.push(node);
        Ok(())
    }

    fn count_in_parent(&mut self) {
        if let Some(open) = self.open.last_mut() {
            open.len += 1;
        }
    }

    fn key_waits(&self) -> bool {
        matches!(self.tape.nodes.last(), Some(Node::Key { .. }))
    }

    /// Fits: `push` keeps the list below `Span::MAX`.
    #[expect(clippy::cast_possible_truncation)]
    fn next_index(&self) -> u32 {
        self.tape.nodes.len() as u32
    }

    /// Lets the last of equal keys win at the place of the first; the number of keys dropped.
    fn merge_equal_keys(&mut self, object: Open) -> u32 {
        let equal = match object.len as usize <= FEW_KEYS {
            true => self.equal_keys_by_pairs(object),
            false => self.equal_keys_by_hash(object),
        };
        for &(first, later) in &equal {
            self.tape.move_value(first, later);
            self.flag(Anomalies::DUPLICATE_KEY);
        }
        u32::try_from(equal.len()).unwrap_or(u32::MAX)
    }

    /// The keys of the object that is ending, each with its node.
    fn keys(&self, object: Open) -> impl Iterator<Item = (u32, &str)> {
        let nodes = object.node + 1..self.next_index();
        let places = self.tape.children_within(nodes);
        places.filter_map(|index| match self.tape.node(index) {
            Node::Key { text, .. } => Some((index, self.tape.text(self.text, text))),
            _ => None,
        })
    }

    /// Pairs of (first, later) key nodes that are equal, in document order.
    fn equal_keys_by_pairs(&self, object: Open) -> Vec<(u32, u32)> {
        let mut seen = [(0, ""); FEW_KEYS];
        let mut len = 0;
        let mut equal = Vec::new();
        for (node, key) in self.keys(object).take(FEW_KEYS) {
            match seen[..len].iter().find(|(_, other)| *other == key) {
                Some(&(first, _)) => equal.push((first, node)),
                None => {
                    seen[len] = (node, key);
                    len += 1;
                }
            }
        }
        equal
    }

    fn equal_keys_by_hash(&self, object: Open) -> Vec<(u32, u32)> {
        let mut seen = HashMap::with_capacity(object.len as usize);
        let mut equal = Vec::new();
        for (node, key) in self.keys(object) {
            match seen.entry(key) {
                Entry::Occupied(first) => equal.push((*first.get(), node)),
                Entry::Vacant(place) => {
                    place.insert(node);
                }
            }
        }
        equal
    }
}
