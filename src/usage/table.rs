//! Which name means which number: `usage_fields.json`, shared with the Python package.
use crate::json::{Document, Limits, Value};
use std::collections::BTreeMap;
use std::sync::OnceLock;

const TABLE: &str = include_str!("../../python/tokenctx/data/usage_fields.json");

/// The meaning of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Field {
    Input,
    CacheRead,
    CacheReadBeside,
    CacheWrite,
    CacheWriteBeside,
    CacheWrite5m,
    CacheWrite1h,
    CacheWrite30m,
    CacheWrite12h,
    Uncached,
    InputText,
    InputAudio,
    InputImage,
    InputVideo,
    ToolUsePrompt,
    Output,
    Reasoning,
    ReasoningBeside,
    OutputWithoutReasoning,
    OutputText,
    OutputAudio,
    OutputImage,
    OutputPart,
    Total,
}

pub(super) const FIELD_COUNT: usize = 24;

const FIELDS: [(&str, Field); FIELD_COUNT] = [
    ("input", Field::Input),
    ("cache_read", Field::CacheRead),
    ("cache_read_beside", Field::CacheReadBeside),
    ("cache_write", Field::CacheWrite),
    ("cache_write_beside", Field::CacheWriteBeside),
    ("cache_write_5m", Field::CacheWrite5m),
    ("cache_write_1h", Field::CacheWrite1h),
    ("cache_write_30m", Field::CacheWrite30m),
    ("cache_write_12h", Field::CacheWrite12h),
    ("uncached", Field::Uncached),
    ("input_text", Field::InputText),
    ("input_audio", Field::InputAudio),
    ("input_image", Field::InputImage),
    ("input_video", Field::InputVideo),
    ("tool_use_prompt", Field::ToolUsePrompt),
    ("output", Field::Output),
    ("reasoning", Field::Reasoning),
    ("reasoning_beside", Field::ReasoningBeside),
    ("output_without_reasoning", Field::OutputWithoutReasoning),
    ("output_text", Field::OutputText),
    ("output_audio", Field::OutputAudio),
    ("output_image", Field::OutputImage),
    ("output_part", Field::OutputPart),
    ("total", Field::Total),
];

/// The meaning of the elements of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    InputByModality,
    CacheByModality,
    ToolUseByModality,
    OutputByModality,
    CacheWriteByTtl,
    Usages,
}

const LISTS: [(&str, List); 6] = [
    ("input_by_modality", List::InputByModality),
    ("cache_by_modality", List::CacheByModality),
    ("tool_use_by_modality", List::ToolUseByModality),
    ("output_by_modality", List::OutputByModality),
    ("cache_write_by_ttl", List::CacheWriteByTtl),
    ("usages", List::Usages),
];

/// The value of a name: a number, a list, or an object with more names.
#[derive(Debug, Default)]
pub(super) struct Name {
    /// The meaning of the number, the number of paths of the field before this one, and the path.
    pub(super) field: Option<(Field, usize, &'static str)>,
    pub(super) list: Option<List>,
    /// Usage may be here.
    pub(super) is_place: bool,
    pub(super) members: BTreeMap<&'static str, Name>,
}

/// All that the table says.
pub(super) struct Table {
    /// Where in a response usage may be.
    pub(super) places: Name,
    /// The names in a usage object.
    pub(super) names: Name,
}

/// The table, read on first use.
pub(super) fn table() -> &'static Table {
    static CELL: OnceLock<Table> = OnceLock::new();
    CELL.get_or_init(|| {
        let document = Document::parse(TABLE, &Limits::default());
        let document: &'static _ = Box::leak(Box::new(document.expect("the table is JSON")));
        read(document.root())
    })
}

fn read(root: Value<'static>) -> Table {
    let mut names = Name::default();
    for (name, field) in FIELDS {
        for (rank, path) in paths(root, "fields", name).enumerate() {
            let place = names.at(path);
            place.field = Some((field, rank, path));
        }
    }
    for (name, list) in LISTS {
        for path in paths(root, "lists", name) {
            names.at(path).list = Some(list);
        }
    }
    let mut places = Name::default();
    let paths = root.get("places").into_iter().flat_map(Value::items);
    for path in paths.filter_map(Value::as_str) {
        places.at(path).is_place = true;
    }
    Table { places, names }
}

fn paths(
    root: Value<'static>,
    part: &str,
    name: &str,
) -> impl Iterator<Item = &'static str> + use<> {
    let list = root.get(part).and_then(|part| part.get(name));
    let items = list.into_iter().flat_map(Value::items);
    items.filter_map(Value::as_str)
}

impl Name {
    /// The name at the end of `path`, made if it is new.
    fn at(&mut self, path: &'static str) -> &mut Name {
        path.split('.')
            .fold(self, |name, step| name.members.entry(step).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_and_list_of_the_table_is_known() {
        let document = Document::parse(TABLE, &Limits::default()).expect("the table is JSON");
        let names = |part| {
            let members = document.root().get(part).expect("it is there").members();
            members.map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(names("fields"), FIELDS.map(|(name, _)| name));
        let lists = names("lists").into_iter();
        let of_tokens: Vec<_> = lists.filter(|name| *name != "tool_counts").collect();
        assert_eq!(of_tokens, LISTS.map(|(name, _)| name));
    }
}
