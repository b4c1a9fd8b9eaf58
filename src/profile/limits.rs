//! Limits of models: how long a context, an input and an output may be.
//!
//! The table is `limits.json`, made by `benches/studies/model_limits.py`; it is read on first use.
use crate::json::{Document, Limits, Value};
use crate::profile::model_name::ModelName;
use crate::profile::newer::DataTable;
use std::borrow::Cow;
use std::sync::OnceLock;

pub(crate) static DATA: DataTable =
    DataTable::new(include_str!("../../python/tokenctx/data/limits.json"));

/// A longer name is no model's.
const MAX_NAME_BYTES: usize = 500;

/// Behind the sources of a row whose sources contradict each other.
const DOUBTFUL: char = '?';

/// The most tokens that a model takes and gives; `None` is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelLimits {
    /// Input and output together.
    pub window_tokens: Option<u64>,
    /// The most input, where it is less than the window.
    pub max_input_tokens: Option<u64>,
    /// The most output.
    pub max_output_tokens: Option<u64>,
    /// Where the numbers are from.
    pub source: Cow<'static, str>,
    /// True if the sources contradict each other about the window.
    pub is_doubtful: bool,
}

impl ModelLimits {
    /// Nothing is known.
    pub const UNKNOWN: ModelLimits = ModelLimits {
        window_tokens: None,
        max_input_tokens: None,
        max_output_tokens: None,
        source: Cow::Borrowed("unknown"),
        is_doubtful: false,
    };

    /// The row of `name` with its tag, else of the longest name in the table that is `name` or goes on with a `-` in it.
    pub(crate) fn of(name: &ModelName) -> Option<ModelLimits> {
        if name.own.len() > MAX_NAME_BYTES {
            return None;
        }
        let rows = table();
        let at = |name: &str| rows.binary_search_by(|(row, _)| row.as_str().cmp(name));
        // A tag of Ollama's is a model of its own, whose window it says.
        let tagged = name.text.rsplit('/').next().filter(|it| it.contains(':'));
        if let Some(index) = tagged.and_then(|it| at(it).ok()) {
            return Some(rows[index].1.clone());
        }
        let plain = name.plain();
        let mut rest = Some(plain.as_str());
        while let Some(start) = rest {
            if let Ok(index) = at(start) {
                return Some(rows[index].1.clone());
            }
            rest = start.rsplit_once('-').map(|(start, _)| start);
        }
        None
    }
}

impl ModelLimits {
    /// These limits where the request tells the server to have a window of `asked` tokens: a smaller one, for a server
    /// has no larger one than its model, and no field of a request may lift a limit.
    pub(crate) fn within(self, asked: Option<u64>) -> ModelLimits {
        let is_smaller = |window: &u64| self.window_tokens.is_none_or(|known| *window < known);
        match asked.filter(is_smaller) {
            None => self,
            Some(window) => ModelLimits {
                window_tokens: Some(window),
                max_input_tokens: self.max_input_tokens.map(|it| it.min(window)),
                source: Cow::Borrowed("request"),
                ..self
            },
        }
    }
}

/// Names and limits, by name; read on first use.
pub(crate) fn table() -> &'static [(String, ModelLimits)] {
    static ROWS: OnceLock<Vec<(String, ModelLimits)>> = OnceLock::new();
    ROWS.get_or_init(|| rows(DATA.text()))
}

/// Why `text` is no table of limits; `None` if it is one.
pub(crate) fn fault(text: &str) -> Option<String> {
    rows(text).is_empty().then(|| "it has no rows".to_owned())
}

fn rows(table: &str) -> Vec<(String, ModelLimits)> {
    let Ok(document) = Document::parse(table, &Limits::default()) else {
        return Vec::new(); // a test reads it
    };
    let members = |key| {
        let object = document.root().get(key);
        object.into_iter().flat_map(Value::members)
    };
    let sources: Vec<&str> = members("sources").map(|(source, _)| source).collect();
    let row = |(name, row): (&str, Value<'_>)| {
        let mut cells = row.items();
        let mut number = || cells.next().and_then(Value::as_u64);
        let (window_tokens, max_input_tokens, max_output_tokens) = (number(), number(), number());
        let letters = cells.next().and_then(Value::as_str).unwrap_or_default();
        let named = sources
            .iter()
            .filter(|it| it.starts_with(|letter| letters.contains(letter)));
        let limits = ModelLimits {
            window_tokens,
            max_input_tokens,
            max_output_tokens,
            source: named.copied().collect::<Vec<_>>().join(", ").into(),
            is_doubtful: letters.ends_with(DOUBTFUL),
        };
        (name.to_owned(), limits)
    };
    let mut rows: Vec<_> = members("models").map(row).collect();
    rows.sort_by(|one, other| one.0.cmp(&other.0));
    rows
}
