//! Bounds of a count: how far the bills of recorded calls were from their counts.
//!
//! The table is `bounds.json`: for each profile and stratum what billed over counted was for nine
//! of ten recorded calls, made by `benches/studies/bounds.py`. It is read on first use.
use crate::data::DataTable;
use crate::json::{Document, Limits, Value};
use crate::profile::Profile;
use crate::request::{Assumptions, MediaKind, Message, Part, Request};
use std::collections::HashMap;
use std::sync::OnceLock;

pub(super) static DATA: DataTable =
    DataTable::new(include_str!("../../python/tokenctx/data/bounds.json"));

/// Beginnings of the assumptions that make a count undetermined; an unknown model has a row.
const GUESSES: [&str; 5] = ["builtin_", "remote_", "server_", "unknown_", "unreadable_"];

/// Profiles of the methods that count every model alike.
const METHODS: [&str; 2] = ["universal", "characters"];

/// About what rounding and framing weigh.
const SLACK_TOKENS: u64 = 20;

/// Where nothing was measured.
const UNMEASURED: Bounds = Bounds {
    low_permille: 500,
    high_permille: 2000,
};

/// What is not billed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All of the request.
    Whole,
    /// The messages after a known prefix.
    New,
    /// A reply whose output tokens are known, and the messages after it.
    Reply,
    /// A reply of a long conversation that was not recorded, and the messages after it. What it
    /// held is not known, so its bounds are the same in every stratum.
    Answer,
}

/// From so many known tokens on a reply that was not recorded is an agent's: it may hold reasoning
/// that was not shown and notes that were added, which short conversations do not have.
const LONG_TOKENS: u64 = 8000;

impl Scope {
    /// That of the messages from `start` on, `known_tokens` of those before being billed.
    pub fn after(known_tokens: u64, new: &[Message<'_>]) -> Scope {
        match new.iter().any(|message| message.role == "assistant") {
            true if known_tokens >= LONG_TOKENS => Scope::Answer,
            _ => Scope::New,
        }
    }
}

/// What the counted messages have that text has not; the last that fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stratum {
    /// Nothing.
    #[default]
    Text,
    /// Tools, calls of them, or their results.
    Tools,
    /// A schema of the output.
    Schema,
    /// Files, audio, video.
    Files,
    /// Images.
    Images,
    /// Reasoning that is sent back.
    Reasoning,
    /// Something that had to be guessed.
    Undetermined,
}

impl Stratum {
    const ALL: [(Stratum, &'static str); 7] = [
        (Stratum::Text, "text"),
        (Stratum::Tools, "tools"),
        (Stratum::Schema, "structured output"),
        (Stratum::Files, "files"),
        (Stratum::Images, "images"),
        (Stratum::Reasoning, "reasoning replayed"),
        (Stratum::Undetermined, "undetermined"),
    ];

    /// The stratum of all of `request`, or of its messages from `start` on if that is above 0.
    pub fn of(request: &Request<'_>, start: usize, assumptions: &Assumptions) -> Stratum {
        if Stratum::is_guessed(assumptions) {
            return Stratum::Undetermined;
        }
        let messages = request.messages[start..].iter();
        let counted = messages.map(Stratum::of_message).max().unwrap_or_default();
        match start {
            0 => counted.max(Stratum::of_context(request)),
            _ => counted,
        }
    }

    /// Whether something had to be guessed that makes a count undetermined.
    pub fn is_guessed(assumptions: &Assumptions) -> bool {
        let is_guess = |name: &str| GUESSES.iter().any(|guess| name.starts_with(guess));
        let mut names = assumptions.iter();
        names.any(|name| is_guess(name) && *name != "unknown_model")
    }

    /// The stratum of one message.
    pub fn of_message(message: &Message<'_>) -> Stratum {
        let parts = message.parts.iter().map(Stratum::of_part);
        parts.max().unwrap_or_default()
    }

    /// The stratum of what stands around the messages.
    pub fn of_context(request: &Request<'_>) -> Stratum {
        let system = request.system.iter().map(Stratum::of_part).max();
        let context = match (&request.response_schema, request.tools.is_empty()) {
            (Some(_), _) => Stratum::Schema,
            (None, false) => Stratum::Tools,
            (None, true) => Stratum::Text,
        };
        context.max(system.unwrap_or_default())
    }

    /// The stratum of this number; text, if there is none.
    pub(crate) fn numbered(number: u64) -> Stratum {
        let mut all = Stratum::ALL.into_iter().map(|(stratum, _)| stratum);
        all.find(|it| *it as u64 == number).unwrap_or_default()
    }

    /// Recurses as deep as the reader nests results, which is bounded.
    fn of_part(part: &Part<'_>) -> Stratum {
        match part {
            Part::Text(_) | Part::Data(_) => Stratum::Text,
            Part::ToolCall(_) => Stratum::Tools,
            Part::ToolResult(result) => {
                let inner = result.parts.iter().map(Stratum::of_part).max();
                inner.unwrap_or(Stratum::Text).max(Stratum::Tools)
            }
            Part::Media(media) if media.kind == MediaKind::Image => Stratum::Images,
            Part::Media(_) => Stratum::Files,
            Part::Reasoning { .. } => Stratum::Reasoning,
        }
    }
}

/// Bounds in permille of the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    low_permille: u64,
    high_permille: u64,
}

impl Bounds {
    /// The bounds that were measured for a profile, or for its provider, or for all.
    pub fn of(profile: &Profile, is_known_model: bool, scope: Scope, stratum: Stratum) -> Bounds {
        let has_own_row = is_known_model || METHODS.contains(&&*profile.name);
        let own = if has_own_row {
            &profile.name
        } else {
            "unknown model"
        };
        let stratum = match scope {
            Scope::Answer => Stratum::Text,
            _ => stratum,
        };
        let rows = rows();
        let found = |name: &str| rows.get(name)?[scope as usize][stratum as usize];
        found(own)
            .or_else(|| found(&format!("provider {}", profile.provider)))
            .or_else(|| found("all"))
            .unwrap_or(UNMEASURED)
    }

    /// How far apart the bounds are if `uncertain` tokens are not billed yet.
    pub fn width(self, uncertain: u64) -> u64 {
        let (low, high) = self.interval(u64::MAX / 2, uncertain);
        high - low
    }

    /// Lower and upper bound of `tokens`, of which `uncertain` are not billed yet.
    ///
    /// A share of a few tokens says little, so the bounds are shares of [`SLACK_TOKENS`] more,
    /// rounded down: a bill is a whole number, so one within the share is within the bounds.
    pub fn interval(self, tokens: u64, uncertain: u64) -> (u64, u64) {
        let scale = uncertain.saturating_add(SLACK_TOKENS);
        let share = |permille: u64| scale.saturating_mul(permille) / 1000;
        let below = share(1000 - self.low_permille.min(1000));
        let above = share(self.high_permille.max(1000) - 1000);
        (tokens.saturating_sub(below), tokens.saturating_add(above))
    }
}

/// For each scope, for each stratum.
type Row = [[Option<Bounds>; Stratum::ALL.len()]; 4];

fn rows() -> &'static HashMap<String, Row> {
    static ROWS: OnceLock<HashMap<String, Row>> = OnceLock::new();
    ROWS.get_or_init(|| {
        let document = Document::parse(DATA.text(), &Limits::default());
        document.map_or_else(|_| HashMap::new(), |it| read(it.root()))
    })
}

/// Why `text` is no table of bounds; `None` if it is one.
pub(super) fn fault(text: &str) -> Option<String> {
    let document = Document::parse(text, &Limits::default());
    let is_table = document.is_ok_and(|it| !read(it.root()).is_empty());
    (!is_table).then(|| "it has no rows".to_owned())
}

fn read(root: Value<'_>) -> HashMap<String, Row> {
    let mut rows: HashMap<String, Row> = HashMap::new();
    let scopes = [
        (Scope::Whole, "whole"),
        (Scope::New, "new"),
        (Scope::Reply, "reply"),
        (Scope::Answer, "answer"),
    ];
    for (scope, key) in scopes {
        for (name, row) in root.get(key).into_iter().flat_map(Value::members) {
            let own = rows.entry(name.to_owned()).or_default();
            for (stratum, stratum_name) in Stratum::ALL {
                own[scope as usize][stratum as usize] = row.get(stratum_name).map(bounds);
            }
        }
    }
    rows
}

fn bounds(row: Value<'_>) -> Bounds {
    let mut items = row.items();
    Bounds {
        low_permille: number(items.next()),
        high_permille: number(items.next()),
    }
}

fn number(value: Option<Value<'_>>) -> u64 {
    value.and_then(|value| value.as_u64()).unwrap_or_default()
}
