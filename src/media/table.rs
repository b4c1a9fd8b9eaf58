//! The table of rules, read on first use.
use super::{IMAGE_RULES_JSON, ImageRule};
use crate::json::{Document, Limits, Value};
use std::collections::HashMap;
use std::sync::OnceLock;

/// The rule of this name in `image_rules.json`.
pub fn image_rule(name: &str) -> Option<&'static ImageRule> {
    static RULES: OnceLock<HashMap<String, ImageRule>> = OnceLock::new();
    RULES.get_or_init(read).get(name)
}

fn read() -> HashMap<String, ImageRule> {
    let Ok(document) = Document::parse(IMAGE_RULES_JSON, &Limits::default()) else {
        return HashMap::new();
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
