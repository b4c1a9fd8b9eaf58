//! From a document to text, as Python's `json.dumps(..., ensure_ascii=False)` writes it.
use super::document::Value;
use super::tape::{Children, Node};
use std::fmt::Write;

/// The choices that make two texts of one value differ.
#[derive(Clone, Copy)]
pub(super) struct Style {
    comma: &'static str,
    colon: &'static str,
    sort_keys: bool,
}

impl Style {
    pub(super) const COMPACT: Style = Style {
        comma: ",",
        colon: ":",
        sort_keys: false,
    };
    pub(super) const CANONICAL: Style = Style {
        sort_keys: true,
        ..Style::COMPACT
    };
    pub(super) const SPACED: Style = Style {
        comma: ", ",
        colon: ": ",
        sort_keys: false,
    };
}

impl Value<'_> {
    /// Appends what Python's `json.dumps(value, ensure_ascii=False, separators=(",", ":"))`
    /// gives. Bytes become a padded base64 string.
    pub fn write_compact(self, out: &mut String) {
        write(self, Style::COMPACT, out);
    }

    /// Appends the compact form with the keys of each object in the order of their code points
    /// (`sort_keys=True`), so that equal values have equal texts.
    pub fn write_canonical(self, out: &mut String) {
        write(self, Style::CANONICAL, out);
    }

    /// Appends the value with Python's default separators, `", "` and `": "`.
    pub fn write_spaced(self, out: &mut String) {
        write(self, Style::SPACED, out);
    }
}

/// Appends `value` to `out`.
fn write(value: Value<'_>, style: Style, out: &mut String) {
    let mut writer = Writer {
        style,
        out,
        sorted: Vec::new(),
        open: Vec::new(),
    };
    writer.begin(value);
    while writer.step(value) {}
}

struct Writer<'o, 'd> {
    style: Style,
    out: &'o mut String,
    /// Keys of the sorted objects that are open, the next one last.
    sorted: Vec<u32>,
    open: Vec<Open<'d>>,
}

/// An array or object that has not been closed.
struct Open<'d> {
    /// Elements and keys still to write; none if they are sorted.
    children: Children<'d>,
    /// How many sorted keys there were when it was opened.
    base: usize,
    close: char,
    is_empty: bool,
}

impl<'d> Writer<'_, 'd> {
    /// Writes the next element or member, or closes a container; false when all is closed.
    fn step(&mut self, document: Value<'d>) -> bool {
        let Some(open) = self.open.last_mut() else {
            return false;
        };
        let next = match self.sorted.len() > open.base {
            true => self.sorted.pop(),
            false => open.children.next(),
        };
        let Some(index) = next else {
            self.out.push(open.close);
            self.open.pop();
            return true;
        };
        if !std::mem::take(&mut open.is_empty) {
            self.out.push_str(self.style.comma);
        }
        self.child(document.at(index));
        true
    }

    fn child(&mut self, child: Value<'d>) {
        let Node::Key { text, value } = child.node() else {
            return self.begin(child);
        };
        write_string(child.text(text), self.out);
        self.out.push_str(self.style.colon);
        self.begin(child.at(value));
    }

    /// Writes a value, of a container only the opening bracket.
    fn begin(&mut self, value: Value<'d>) {
        match value.node() {
            Node::Null | Node::Key { .. } => self.out.push_str("null"),
            Node::Bool(true) => self.out.push_str("true"),
            Node::Bool(false) => self.out.push_str("false"),
            Node::Number(span) => self.out.push_str(value.text(span)),
            Node::String(span) => write_string(value.text(span), self.out),
            Node::Bytes(_) => write_base64(value.as_bytes().unwrap_or_default(), self.out),
            Node::Array { .. } => self.open(value, '[', ']'),
            Node::Object { .. } => self.open(value, '{', '}'),
        }
    }

    fn open(&mut self, container: Value<'d>, open: char, close: char) {
        self.out.push(open);
        let base = self.sorted.len();
        let mut children = container.children();
        if self.style.sort_keys && close == '}' {
            self.sorted.extend(children.by_ref());
            // UTF-8 sorts as code points do.
            self.sorted[base..].sort_unstable_by(|&a, &b| key(container, b).cmp(key(container, a)));
        }
        self.open.push(Open {
            children,
            base,
            close,
            is_empty: true,
        });
    }
}

fn key(document: Value<'_>, index: u32) -> &str {
    match document.at(index).node() {
        Node::Key { text, .. } => document.text(text),
        _ => "",
    }
}

/// Bytes searched at once for what must be escaped.
const CHUNK: usize = 32;

/// Appends `text` as a JSON string.
pub(crate) fn write_string(text: &str, out: &mut String) {
    out.reserve(text.len() + 2);
    out.push('"');
    let mut rest = text;
    while let Some(place) = first_to_escape(rest.as_bytes()) {
        let (before, behind) = rest.split_at(place);
        out.push_str(before);
        write_escape(behind.as_bytes()[0], out);
        rest = &behind[1..];
    }
    out.push_str(rest);
    out.push('"');
}

/// Where the first byte is that must be escaped. It looks at whole chunks without a branch, so
/// that the compiler makes vector code of it.
fn first_to_escape(bytes: &[u8]) -> Option<usize> {
    let has_any = |chunk: &[u8]| chunk.iter().fold(false, |any, &b| any | must_escape(b));
    let nth = bytes.chunks(CHUNK).position(has_any)?;
    let start = nth * CHUNK;
    let place = bytes[start..].iter().position(|&b| must_escape(b))?;
    Some(start + place)
}

fn must_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

fn write_escape(byte: u8, out: &mut String) {
    match byte {
        b'"' => out.push_str("\\\""),
        b'\\' => out.push_str("\\\\"),
        b'\n' => out.push_str("\\n"),
        b'\r' => out.push_str("\\r"),
        b'\t' => out.push_str("\\t"),
        0x08 => out.push_str("\\b"),
        0x0c => out.push_str("\\f"),
        // Writing to a string cannot fail.
        _ => drop(write!(out, "\\u{byte:04x}")),
    }
}

/// RFC 4648, section 4: 6 bits a character, three bytes in four characters, padded.
fn write_base64(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    out.reserve(bytes.len().div_ceil(3) * 4 + 2);
    out.push('"');
    for chunk in bytes.chunks(3) {
        let byte = |nth| u32::from(chunk.get(nth).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for (nth, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let digit = DIGITS[(bits >> shift & 63) as usize];
            out.push(if nth <= chunk.len() {
                digit.into()
            } else {
                '='
            });
        }
    }
    out.push('"');
}
