//! What a type of part is: `parts.json`, shared with the Python package.
use super::model::{Dialect, MediaKind};
use crate::json::{Document, Limits, Value};
use std::sync::OnceLock;

const TABLE: &str = include_str!("../../python/tokenctx/data/parts.json");

/// What a part is for the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartKind {
    Text,
    Reasoning,
    Call,
    Result,
    Media(MediaKind),
    /// A JSON value.
    Data,
    /// It holds parts.
    Content,
    Other,
}

const KINDS: [(&str, PartKind); 10] = [
    ("text", PartKind::Text),
    ("reasoning", PartKind::Reasoning),
    ("call", PartKind::Call),
    ("result", PartKind::Result),
    ("image", PartKind::Media(MediaKind::Image)),
    ("file", PartKind::Media(MediaKind::File)),
    ("audio", PartKind::Media(MediaKind::Audio)),
    ("video", PartKind::Media(MediaKind::Video)),
    ("data", PartKind::Data),
    ("content", PartKind::Content),
];

/// A row of the table, or several that differ in nothing that the reader of requests asks for.
#[derive(Debug)]
pub(super) struct PartType {
    pub(super) name: &'static str,
    pub(super) kind: PartKind,
    /// The first dialect with it; none for those that only the converter knows.
    pub(super) dialect: Option<Dialect>,
    /// The dialect that a part of this type tells.
    pub(super) marks: Option<Dialect>,
    pub(super) is_run_by_vendor: bool,
    /// Its text says where the bytes are, whatever it looks like.
    pub(super) is_place: bool,
    /// The fields that can have text or the content of a result.
    pub(super) content: Vec<&'static str>,
    /// Its place in the table: of two fields that name a part the earlier row counts.
    pub(super) rank: usize,
}

/// Types by name. A look-up compares with the few that share length and first and last letter.
#[derive(Debug, Default)]
struct Names {
    types: Vec<PartType>,
    buckets: Vec<Vec<(&'static str, usize)>>,
}

const BUCKETS: usize = 128;

fn bucket(name: &str) -> usize {
    let bytes = name.as_bytes();
    let letter = |byte: Option<&u8>| byte.map_or(0, |byte| usize::from(*byte));
    (bytes.len() ^ (letter(bytes.first()) << 2) ^ (letter(bytes.last()) << 1)) % BUCKETS
}

impl Names {
    #[inline]
    fn get(&self, name: &str) -> Option<&PartType> {
        let mut found = self.buckets.get(bucket(name))?.iter();
        let (_, index) = found.find(|(known, _)| *known == name)?;
        self.types.get(*index)
    }

    fn add(&mut self, row: Value<'static>, part: PartType) {
        self.buckets.resize(BUCKETS, Vec::new());
        if let Some(known) = self.types.iter_mut().find(|known| known.name == part.name) {
            known.marks = known.marks.or(part.marks);
            return;
        }
        for name in [Some(part.name), text(row, "also")].into_iter().flatten() {
            self.buckets[bucket(name)].push((name, self.types.len()));
        }
        self.types.push(part);
    }
}

/// Fields that can have the same thing, in the order of the table.
#[derive(Debug, Default)]
pub(super) struct Columns {
    pub(super) name: Vec<&'static str>,
    pub(super) arguments: Vec<&'static str>,
    pub(super) content: Vec<&'static str>,
    pub(super) opaque: Vec<&'static str>,
}

impl Columns {
    fn add(&mut self, row: Value<'static>) {
        add_texts(row, "name", &mut self.name);
        add_texts(row, "arguments", &mut self.arguments);
        add_texts(row, "content", &mut self.content);
        add_texts(row, "opaque", &mut self.opaque);
    }
}

/// The types at one place, and their fields by kind.
#[derive(Debug, Default)]
pub(super) struct Place {
    names: Names,
    pub(super) type_names: Vec<&'static str>,
    pub(super) text: Columns,
    pub(super) reasoning: Columns,
    pub(super) call: Columns,
    pub(super) result: Columns,
}

impl Place {
    /// What the type `name` is.
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
            _ => None,
        };
        if let Some(columns) = columns {
            columns.add(row);
        }
        self.type_names.push(part.name);
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
    ids: Vec<&'static str>,
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

/// What the converter takes a part of this type and dialect for; none if it takes it for nothing,
/// or if the part belongs to a tool for free text.
#[cfg(feature = "python")]
pub(crate) fn converted_kind(dialect: &str, name: &str) -> Option<PartKind> {
    let mut rows = parts().converted.iter();
    let found = rows.find(|row| row.name == name && row.dialect == dialect);
    found.map(|row| row.kind)
}

impl Parts {
    /// Whether a field has the id of a call.
    pub(super) fn is_id(&self, field: &str) -> bool {
        self.ids.contains(&field)
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
        let kind =
            text(row, "kind").and_then(|kind| KINDS.iter().find(|(known, _)| *known == kind));
        let kind = kind.map_or(PartKind::Other, |(_, kind)| *kind);
        add_texts(row, "id", &mut self.ids);
        let is_unread = |reader| texts(row, "unread_by").any(|name| name == reader);
        #[cfg(feature = "python")]
        if !is_unread("conversion") && !flag(row, "is_custom") {
            self.converted.push(Converted {
                dialect,
                name,
                kind,
            });
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
        let is_mark = texts(row, "marks").any(|reader| reader == "request");
        let part = PartType {
            name,
            kind,
            dialect,
            marks: dialect.filter(|_| is_mark),
            is_run_by_vendor: flag(row, "by_vendor"),
            is_place: flag(row, "is_place"),
            content: texts(row, "content").collect(),
            rank: place.names.types.len(),
        };
        place.add(row, part);
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

fn add_texts(row: Value<'static>, column: &str, found: &mut Vec<&'static str>) {
    for text in texts(row, column) {
        if !found.contains(&text) {
            found.push(text);
        }
    }
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
