//! The nodes of a document in document order.
//!
//! A container knows where it ends and a key where its value is. So the last of equal keys can
//! give its value to the first without anything being moved, however deep the two are.
use super::limits::Anomalies;
use std::ops::Range;

/// A text that stays as it is while this lives, so that a document needs no copy of it.
pub type HeldText = Box<dyn AsRef<str> + Send + Sync>;

/// All of a document but the text that spans outside of the arena point into.
#[derive(Default)]
pub(super) struct Tape {
    pub(super) nodes: Vec<Node>,
    /// Strings that are not a piece of the text.
    pub(super) arena: String,
    /// Strings that are not copied, and the bytes of all of them.
    pub(super) held: Vec<HeldText>,
    pub(super) held_bytes: usize,
    pub(super) blobs: Vec<u8>,
    pub(super) anomalies: Anomalies,
}

#[derive(Clone, Copy)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Number(Span),
    String(Span),
    Bytes(Span),
    /// `end` is the node behind the last one inside.
    Array {
        len: u32,
        end: u32,
    },
    Object {
        len: u32,
        end: u32,
    },
    /// `value` is where the value is, or `DROPPED`.
    Key {
        text: Span,
        value: u32,
    },
}

const _: () = assert!(size_of::<Node>() == 16);

/// The value of a key that an equal key before it stands for. No value has this index, since
/// the first node is never behind a key.
const DROPPED: u32 = 0;

/// A piece of the text; with the highest bit of `start` set, of the arena; with the next one set, a held text
/// by its place.
#[derive(Clone, Copy)]
pub(super) struct Span {
    start: u32,
    len: u32,
}

const IN_ARENA: u32 = 1 << 31;
const IS_HELD: u32 = 1 << 30;
const ELSEWHERE: u32 = IN_ARENA | IS_HELD;

#[expect(clippy::cast_possible_truncation)] // nothing is longer than `Span::MAX`
impl Span {
    /// Length of the longest text that spans can point into.
    pub(super) const MAX: usize = IS_HELD as usize - 1;

    pub(super) fn new(start: usize, len: usize) -> Span {
        debug_assert!(start + len <= Span::MAX);
        Span {
            start: start as u32,
            len: len as u32,
        }
    }

    pub(super) fn in_arena(start: usize, len: usize) -> Span {
        let span = Span::new(start, len);
        Span {
            start: span.start | IN_ARENA,
            ..span
        }
    }

    /// The held text at `index`.
    pub(super) fn held(index: usize, len: usize) -> Span {
        let span = Span::new(index, len);
        Span {
            start: span.start | IS_HELD,
            ..span
        }
    }

    /// Its place in the text, if that is where it is.
    pub(super) fn range_in_text(self) -> Option<Range<usize>> {
        (self.start & ELSEWHERE == 0).then(|| self.range())
    }

    pub(super) fn range(self) -> Range<usize> {
        let start = (self.start & !ELSEWHERE) as usize;
        start..start + self.len as usize
    }
}

impl Tape {
    pub(super) fn text<'t>(&'t self, text: &'t str, span: Span) -> &'t str {
        let source = match span.start & ELSEWHERE {
            0 => text,
            IN_ARENA => &self.arena,
            _ => return self.held[span.range().start].as_ref().as_ref(),
        };
        &source[span.range()]
    }

    /// Bytes of text that are not a piece of the text.
    pub(super) fn byte_count(&self) -> usize {
        self.arena.len() + self.held_bytes + self.blobs.len()
    }

    /// The node at `index`, null if there is none.
    pub(super) fn node(&self, index: u32) -> Node {
        let node = self.nodes.get(index as usize);
        node.copied().unwrap_or(Node::Null)
    }

    /// Where the node is that follows the value at `index` and all it contains.
    pub(super) fn after(&self, index: u32) -> u32 {
        match self.node(index) {
            Node::Array { end, .. } | Node::Object { end, .. } => end,
            _ => index + 1,
        }
    }

    /// Where the elements of an array are, or the keys of an object; none for other nodes.
    pub(super) fn children(&self, container: u32) -> Children<'_> {
        self.children_within(
            container + 1..match self.node(container) {
                Node::Array { end, .. } | Node::Object { end, .. } => end,
                _ => 0,
            },
        )
    }

    /// The same, for a container whose nodes are `nodes`.
    pub(super) fn children_within(&self, nodes: Range<u32>) -> Children<'_> {
        Children { tape: self, nodes }
    }

    /// Gives the value of the key `later` to the key `first`.
    pub(super) fn move_value(&mut self, first: u32, later: u32) {
        let moved = match &mut self.nodes[later as usize] {
            Node::Key { value, .. } => std::mem::replace(value, DROPPED),
            _ => return,
        };
        if let Node::Key { value, .. } = &mut self.nodes[first as usize] {
            *value = moved;
        }
    }
}

/// Iterator over the elements of an array or the keys of an object, less those dropped.
#[derive(Clone)]
pub(super) struct Children<'d> {
    tape: &'d Tape,
    nodes: Range<u32>,
}

impl Children<'_> {
    /// The next key of an object and where its value is.
    pub(super) fn next_member(&mut self) -> Option<(Span, u32)> {
        while !self.nodes.is_empty() {
            let Node::Key { text, value } = self.tape.node(self.nodes.start) else {
                return None;
            };
            self.nodes.start = self.tape.after(self.nodes.start + 1);
            if value != DROPPED {
                return Some((text, value));
            }
        }
        None
    }
}

impl Iterator for Children<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        while !self.nodes.is_empty() {
            let index = self.nodes.start;
            let Node::Key { value, .. } = self.tape.node(index) else {
                self.nodes.start = self.tape.after(index);
                return Some(index);
            };
            self.nodes.start = self.tape.after(index + 1);
            if value != DROPPED {
                return Some(index);
            }
        }
        None
    }
}
