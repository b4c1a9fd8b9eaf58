//! The table of rules, read on first use.
use super::rule::ImageRule;
use crate::json::{Document, Limits, Value};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The table of rules and the default size, as JSON text.
pub const IMAGE_RULES_JSON: &str = include_str!("../../python/tokenctx/data/image_rules.json");

/// The rule of this name in `image_rules.json`.
pub fn image_rule(name: &str) -> Option<&'static ImageRule> {
    rules().get(name)
}

/// Names of all rules, in order.
pub fn image_rule_names() -> impl Iterator<Item = &'static str> {
    rules().keys().map(String::as_str)
}

/// Reads the table, once in a process.
pub(crate) fn read_table() {
    rules();
}

fn rules() -> &'static BTreeMap<String, ImageRule> {
    static RULES: LazyLock<BTreeMap<String, ImageRule>> = LazyLock::new(read);
    &RULES
}

fn read() -> BTreeMap<String, ImageRule> {
    let Ok(document) = Document::parse(IMAGE_RULES_JSON, &Limits::default()) else {
        return BTreeMap::new();
    };
    let rules = document.root().get("rules").into_iter();
    rules
        .flat_map(Value::members)
        .filter_map(|(name, entry)| Some((name.to_owned(), rule(entry)?)))
        .collect()
}

fn rule(entry: Value<'_>) -> Option<ImageRule> {
    let kind = entry.get("kind")?.as_str()?;
    let number = |path: &str| {
        path.split('.')
            .try_fold(entry, |value, name| value.get(name))?
            .as_u64()
    };
    ImageRule::from_fields(kind, number).ok()
}
