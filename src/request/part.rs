//! Types of parts: `parts.json`, shared with the Python package.
use super::kind::{Dialect, MediaKind};
use crate::json::{Document, Limits, Value};
#[cfg(feature = "python")]
use std::collections::HashMap;
use std::sync::OnceLock;

pub(super) const TABLE: &str = include_str!("../../python/tokenctx/data/parts.json");

/// The kind of a part for the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartKind {
    Text,
    Reasoning,
    Call,
    Result,
    /// It stands for what was said before it.
    Summary,
    Media(MediaKind),
    /// A JSON value.
    Data,
    /// It holds parts.
    Content,
    Other,
}

const KINDS: [(&str, PartKind); 11] = [
    ("text", PartKind::Text),
    ("reasoning", PartKind::Reasoning),
    ("call", PartKind::Call),
    ("result", PartKind::Result),
    ("summary", PartKind::Summary),
    ("image", PartKind::Media(MediaKind::Image)),
    ("file", PartKind::Media(MediaKind::File)),
    ("audio", PartKind::Media(MediaKind::Audio)),
    ("video", PartKind::Media(MediaKind::Video)),
    ("data", PartKind::Data),
    ("content", PartKind::Content),
];

impl PartKind {
    /// The kind that the table calls so.
    pub(super) fn named(name: &str) -> PartKind {
        let kind = KINDS.iter().find(|(known, _)| *known == name);
        kind.map_or(PartKind::Other, |(_, kind)| *kind)
    }
}

/// The kind of a part for an outline.
#[cfg(feature = "python")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutlineKind {
    Text,
    Call,
    Result,
    Reasoning,
    File,
}

#[cfg(feature = "python")]
impl OutlineKind {
    /// None of what is text there, whatever else it is.
    fn of(kind: PartKind) -> Option<OutlineKind> {
        match kind {
            PartKind::Call => Some(OutlineKind::Call),
            PartKind::Result => Some(OutlineKind::Result),
            PartKind::Reasoning => Some(OutlineKind::Reasoning),
            PartKind::Media(_) => Some(OutlineKind::File),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            OutlineKind::Text => "text",
            OutlineKind::Call => "call",
            OutlineKind::Result => "result",
            OutlineKind::Reasoning => "reasoning",
            OutlineKind::File => "file",
        }
    }
}

/// A row of the table, or several that differ in nothing that the reader of requests asks for.
#[derive(Debug)]
pub(super) struct PartType {
    pub(super) name: &'static str,
    pub(super) kind: PartKind,
    /// The first dialect with it; none for those that only the converter knows.
    pub(super) dialect: Option<Dialect>,
    pub(super) is_run_by_vendor: bool,
    /// Its text says where the bytes are, whatever it looks like.
    pub(super) is_place: bool,
    /// The fields that can have text or the content of a result.
    pub(super) content: Fields,
    /// Its place in the table: of two fields that name a part the earlier row counts.
    pub(super) rank: usize,
}

/// Types by name: a table of 256 slots, so that a look-up costs what a comparison does.
#[derive(Debug)]
struct Names {
    types: Vec<PartType>,
    slots: Box<[Slot; SLOTS]>,
}

/// At least twice as many as there are names at a place.
const SLOTS: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Empty where the slot is.
    name: Name,
    index: usize,
}

/// A name of the table that is compared without a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    text: &'static str,
    key: Key,
}

impl Name {
    pub(super) fn of(text: &'static str) -> Name {
        Name {
            text,
            key: Key::of(text),
        }
    }

    pub(super) fn text(&self) -> &'static str {
        self.text
    }

    /// True if it is `text`, whose key is `key`.
    #[inline]
    pub(super) fn is(&self, text: &str, key: Key) -> bool {
        self.key == key && (key.byte_count <= KEY_BYTES || self.text == text)
    }

    /// The slot to look at first in a table of at most 65,536.
    pub(super) fn slot(&self) -> usize {
        self.key.wide_slot()
    }

    /// What [`Name::is`] compares, and the slot to look at first.
    #[inline]
    pub(super) fn key_and_slot(text: &str) -> (Key, usize) {
        let key = Key::of(text);
        (key, key.wide_slot())
    }
}

/// The length and both ends of a name: the whole of it up to `KEY_BYTES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    head: u64,
    tail: u64,
    byte_count: usize,
}

const KEY_BYTES: usize = 16;

impl Key {
    #[inline]
    fn of(name: &str) -> Key {
        let bytes = name.as_bytes();
        let (head, tail) = match (bytes.first_chunk(), bytes.last_chunk()) {
            (Some(head), Some(tail)) => (u64::from_le_bytes(*head), u64::from_le_bytes(*tail)),
            _ => match (bytes.first_chunk(), bytes.last_chunk()) {
                (Some(head), Some(tail)) => (
                    u32::from_le_bytes(*head).into(),
                    u32::from_le_bytes(*tail).into(),
                ),
                _ => {
                    let all = bytes
                        .iter()
                        .fold(0, |all, byte| (all << 8) | u64::from(*byte));
                    (all, 0)
                }
            },
        };
        Key {
            head,
            tail,
            byte_count: bytes.len(),
        }
    }

    /// The slot to look at first.
    #[inline]
    fn slot(self) -> usize {
        usize::from(self.mixed()[0])
    }

    #[inline]
    fn wide_slot(self) -> usize {
        let [high, low, ..] = self.mixed();
        usize::from(u16::from_be_bytes([high, low]))
    }

    #[inline]
    fn mixed(self) -> [u8; 8] {
        let mixed = (self.head ^ self.tail.rotate_left(29)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed.to_be_bytes()
    }
}

impl Default for Names {
    fn default() -> Names {
        let empty = Slot {
            name: Name::of(""),
            index: 0,
        };
        Names {
            types: Vec::new(),
            slots: Box::new([empty; SLOTS]),
        }
    }
}

impl Names {
    #[inline]
    fn get(&self, name: &str) -> Option<&PartType> {
        let key = Key::of(name);
        let mut at = key.slot();
        loop {
            let slot = &self.slots[at % SLOTS];
            if slot.name.text.is_empty() {
                return None;
            }
            if slot.name.is(name, key) {
                return self.types.get(slot.index);
            }
            at += 1;
        }
    }

    fn add(&mut self, row: Value<'static>, part: PartType) {
        if self.types.iter().any(|known| known.name == part.name) {
            return;
        }
        for name in [Some(part.name), text(row, "also")].into_iter().flatten() {
            let name = Name::of(name);
            let mut at = name.key.slot();
            while !self.slots[at % SLOTS].name.text.is_empty() {
                at += 1;
            }
            self.slots[at % SLOTS] = Slot {
                name,
                index: self.types.len(),
            };
        }
        self.types.push(part);
    }
}

/// Fields that can have the same thing, in the order of the table.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) names: Vec<Name>,
    /// A bit for each length that one of them has.
    lengths: u64,
}

impl Fields {
    /// Which of the first `count` fields is `text`.
    #[inline(always)]
    pub(super) fn position(&self, text: &str, count: usize) -> Option<usize> {
        if (self.lengths >> (text.len() % 64)) & 1 == 0 {
            return None;
        }
        let key = Key::of(text);
        let mut names = self.names.iter().take(count);
        names.position(|name| name.is(text, key))
    }

    pub(super) fn add(&mut self, text: &'static str) {
        let name = Name::of(text);
        if !self.names.contains(&name) {
            self.names.push(name);
            self.lengths |= 1 << (text.len() % 64);
        }
    }

    fn extend(&mut self, row: Value<'static>, column: &str) {
        texts(row, column).for_each(|text| self.add(text));
    }
}

/// The fields of parts of one kind.
#[derive(Debug, Default)]
pub(super) struct Columns {
    pub(super) name: Fields,
    pub(super) arguments: Fields,
    pub(super) content: Fields,
    pub(super) opaque: Fields,
}

impl Columns {
    fn add(&mut self, row: Value<'static>) {
        self.name.extend(row, "name");
        self.arguments.extend(row, "arguments");
        self.content.extend(row, "content");
        self.opaque.extend(row, "opaque");
    }
}

/// The types at one place, and their fields by kind.
#[derive(Debug, Default)]
pub(super) struct Place {
    names: Names,
    pub(super) type_names: Fields,
    pub(super) text: Columns,
    pub(super) reasoning: Columns,
    pub(super) call: Columns,
    pub(super) result: Columns,
    pub(super) summary: Columns,
}

impl Place {
    /// The row of the type `name`.
    #[inline]
    pub(super) fn get(&self, name: &str) -> Option<&PartType> {
        self.names.get(name)
    }

    fn add(&mut self, row: Value<'static>, part: PartType) {
        let columns = match part.kind {
            PartKind::Text => Some(&mut self.text),
            PartKind::Reasoning => Some(&mut self.reasoning),
            PartKind::Call => Some(&mut self.call),
            PartKind::Result => Some(&mut self.result),
            PartKind::Summary => Some(&mut self.summary),
            _ => None,
        };
        if let Some(columns) = columns {
            columns.add(row);
        }
        self.type_names.add(part.name);
        self.names.add(row, part);
    }
}

/// All that the table says.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// Of the content, by their type.
    pub(super) typed: Place,
    /// Beside the messages, by their type.
    pub(super) items: Place,
    /// Of `tool_calls`, by the field that holds them.
    pub(super) calls: Place,
    /// Of the content, by the field that holds them.
    pub(super) named: Place,
    ids: Fields,
    #[cfg(feature = "python")]
    outline: HashMap<&'static str, Option<OutlineKind>>,
    /// Fields of `tool_calls` that hold a call of OpenAI's.
    #[cfg(feature = "python")]
    call_fields: Vec<&'static str>,
    #[cfg(feature = "python")]
    converted: Vec<Converted>,
}

/// A type as the converter takes it.
#[cfg(feature = "python")]
#[derive(Debug)]
struct Converted {
    dialect: &'static str,
    name: &'static str,
    kind: PartKind,
}

/// The table, read on first use.
#[inline]
pub(super) fn parts() -> &'static Parts {
    static CELL: OnceLock<Parts> = OnceLock::new();
    CELL.get_or_init(|| {
        let document = Document::parse(TABLE, &Limits::default());
        let document: &'static _ = Box::leak(Box::new(document.expect("the table is JSON")));
        read(document.root())
    })
}

/// The kind that the converter takes a part of this type and dialect for; none if it skips it,
/// or if the part belongs to a tool for free text.
#[cfg(feature = "python")]
pub(crate) fn converted_kind(dialect: &str, name: &str) -> Option<PartKind> {
    let mut rows = parts().converted.iter();
    let found = rows.find(|row| row.name == name && row.dialect == dialect);
    found.map(|row| row.kind)
}

/// The kind that an outline takes a part of this type, or in a field of this name, for; none for text.
#[cfg(feature = "python")]
#[inline]
pub(super) fn outline_kind(name: &str) -> Option<OutlineKind> {
    parts().outline.get(name).copied().flatten()
}

/// Fields that hold what a call of OpenAI's says, in the order of the table.
#[cfg(feature = "python")]
pub(super) fn call_fields() -> &'static [&'static str] {
    &parts().call_fields
}

/// Every field that can have the id of a call but `id`, in the order of the table.
#[cfg(feature = "python")]
pub(super) fn id_fields() -> impl Iterator<Item = &'static str> {
    let all = parts().ids.names.iter().map(|name| name.text);
    all.filter(|name| *name != "id")
}

impl Parts {
    /// True if a field has the id of a call.
    pub(super) fn is_id(&self, field: &str) -> bool {
        self.ids.position(field, usize::MAX).is_some()
    }
}

fn read(root: Value<'static>) -> Parts {
    let mut parts = Parts::default();
    let dialects = root.get("dialects").into_iter().flat_map(Value::members);
    for (dialect, about) in dialects {
        for row in about.get("parts").into_iter().flat_map(Value::items) {
            parts.add(dialect, row);
        }
    }
    parts
}

impl Parts {
    fn add(&mut self, dialect: &'static str, row: Value<'static>) {
        let name = text(row, "type").expect("each row has a type");
        let kind = PartKind::named(text(row, "kind").unwrap_or_default());
        self.ids.extend(row, "id");
        let is_unread = |reader| texts(row, "unread_by").any(|name| name == reader);
        #[cfg(feature = "python")]
        if !is_unread("conversion") && !flag(row, "is_custom") {
            self.converted.push(Converted {
                dialect,
                name,
                kind,
            });
        }
        #[cfg(feature = "python")]
        if !is_unread("outline") {
            self.add_to_outline(dialect, row, kind);
        }
        let place = match text(row, "place") {
            Some("part") => &mut self.typed,
            Some("item") => &mut self.items,
            Some("call") => &mut self.calls,
            Some("field") => &mut self.named,
            _ => return,
        };
        if is_unread("request") {
            return;
        }
        let dialect = Dialect::named(dialect);
        let mut content = Fields::default();
        content.extend(row, "content");
        let part = PartType {
            name,
            kind,
            dialect,
            is_run_by_vendor: flag(row, "by_vendor"),
            is_place: flag(row, "is_place"),
            content,
            rank: place.names.types.len(),
        };
        place.add(row, part);
    }
}

#[cfg(feature = "python")]
impl Parts {
    fn add_to_outline(&mut self, dialect: &str, row: Value<'static>, kind: PartKind) {
        let names = ["type", "also"].into_iter().filter_map(|it| text(row, it));
        match text(row, "place") {
            Some("part" | "item" | "field") => {
                let kind = OutlineKind::of(kind);
                self.outline.extend(names.map(|name| (name, kind)));
            }
            Some("call") if dialect == "openai-chat" => self.call_fields.extend(names),
            _ => {}
        }
    }
}

fn text(row: Value<'static>, column: &str) -> Option<&'static str> {
    row.get(column)?.as_str()
}

fn flag(row: Value<'static>, column: &str) -> bool {
    row.get(column).and_then(Value::as_bool) == Some(true)
}

/// One text, or a list of them.
fn texts(row: Value<'static>, column: &str) -> impl Iterator<Item = &'static str> + use<> {
    let value = row.get(column);
    let items = value.into_iter().flat_map(Value::items);
    value.into_iter().chain(items).filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn every_kind_and_place_of_the_table_is_known() {
        let document = Document::parse(TABLE, &Limits::default()).expect("the table is JSON");
        let dialects = document.root().get("dialects").expect("it is there");
        for (dialect, about) in dialects.members() {
            for row in about.get("parts").expect("it is there").items() {
                let column = |name| row.get(name).and_then(Value::as_str).unwrap_or_default();
                let kinds = KINDS.map(|(kind, _)| kind);
                let is_known = kinds.contains(&column("kind")) || column("kind") == "other";
                assert!(is_known, "{dialect}: {row:?}");
                let places = ["part", "item", "call", "field", "shape"];
                assert!(places.contains(&column("place")), "{dialect}: {row:?}");
            }
        }
    }

    #[test]
    fn a_type_is_one_thing_in_all_dialects() {
        let mut kinds = BTreeMap::new();
        let document = Document::parse(TABLE, &Limits::default()).expect("the table is JSON");
        let dialects = document.root().get("dialects").expect("it is there");
        for (dialect, about) in dialects.members() {
            for row in about.get("parts").expect("it is there").items() {
                let column = |name| row.get(name).and_then(Value::as_str).unwrap_or_default();
                let kind = column("kind").to_owned();
                let key = (column("place").to_owned(), column("type").to_owned());
                let known = kinds.entry(key).or_insert_with(|| kind.clone());
                assert_eq!(*known, kind, "{dialect}: {row:?}");
            }
        }
    }

    #[test]
    fn every_type_is_found_by_its_name_and_by_its_other_spelling() {
        for place in [
            &parts().typed,
            &parts().items,
            &parts().calls,
            &parts().named,
        ] {
            assert!(
                place.names.types.len() * 4 < SLOTS,
                "the table is too small"
            );
            for part in &place.names.types {
                assert_eq!(
                    place.get(part.name).map(|found| found.rank),
                    Some(part.rank)
                );
            }
        }
        let names = ["functionCall", "function_call"];
        assert!(names.map(|name| parts().named.get(name).is_some()) == [true; 2]);
    }
}
