//! Bounds of a count: how far the bills of recorded calls were from their counts.
//!
//! The table is `bounds.json`: for each profile and stratum how far a part of a request may be off, made
//! by `benches/studies/bounds.py` so that the parts added up hold nine of ten recorded calls. It is
//! read on first use.
use crate::count::Tally;
use crate::json::{Document, Limits, Value};
use crate::profile::newer::DataTable;
use crate::profile::{Profile, Quality};
use crate::request::{Assumptions, MediaKind, Message, Part, Request, UNKNOWN_FIELD};
use std::collections::HashMap;
use std::sync::OnceLock;

pub(super) static DATA: DataTable =
    DataTable::new(include_str!("../../python/tokenctx/data/bounds.json"));

/// Of those the ones that do not: an unknown model has a row, an unknown field the tokens of its text.
const APART: [&str; 2] = ["unknown_model", UNKNOWN_FIELD];

/// Beginnings of the assumptions that make a count undetermined.
const GUESSES: [&str; 5] = ["builtin_", "remote_", "server_", "unknown_", "unreadable_"];

/// Profiles of the methods that count every model alike.
const METHODS: [&str; 2] = ["universal", "characters"];

/// Beginning of the assumptions of a file that is not counted by what is in it.
const FLAT: &str = "flat_";

/// Assumed if an encrypted blob is counted by its length.
const OPAQUE: &str = "opaque_reasoning";

/// The number of strata.
const STRATA: usize = Stratum::ALL.len();

/// Where nothing was measured.
const UNMEASURED: Bounds = Bounds {
    low_permille: 500,
    high_permille: 2000,
    slack_tokens: 20,
};

/// Of a profile that was not measured, where its provider's others are sure: to be sure takes a proof.
const UNPROVEN: Bounds = Bounds {
    low_permille: 900,
    high_permille: 1100,
    slack_tokens: 20,
};

/// The part of a request that is not billed yet.
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

/// From this number of known tokens on a reply that was not recorded is an agent's: it may hold reasoning
/// that was not shown and notes that were added, which short conversations do not have.
const LONG_TOKENS: u64 = 8000;

impl Scope {
    const ALL: [Scope; 4] = [Scope::Whole, Scope::New, Scope::Reply, Scope::Answer];

    fn name(self) -> &'static str {
        match self {
            Scope::Whole => "whole",
            Scope::New => "new",
            Scope::Reply => "reply",
            Scope::Answer => "answer",
        }
    }

    /// That of the messages from `start` on, `known_tokens` of those before being billed.
    pub fn after(known_tokens: u64, new: &[Message<'_>]) -> Scope {
        match new.iter().any(|message| message.role == "assistant") {
            true if known_tokens >= LONG_TOKENS => Scope::Answer,
            _ => Scope::New,
        }
    }
}

/// The kind of the counted messages by the hardest part in them; the last that fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stratum {
    /// Nothing.
    #[default]
    Text,
    /// Tools, calls of them, or their results.
    Tools,
    /// A schema of the output.
    Schema,
    /// Files, audio, video whose text, pages or seconds are known.
    Files,
    /// Files, audio, video that are counted by a flat price or by their length.
    FlatFiles,
    /// Images.
    Images,
    /// Reasoning that is sent back.
    Reasoning,
    /// Something that had to be guessed.
    Undetermined,
}

impl Stratum {
    const ALL: [(Stratum, &'static str); 8] = [
        (Stratum::Text, "text"),
        (Stratum::Tools, "tools"),
        (Stratum::Schema, "structured output"),
        (Stratum::Files, "files"),
        (Stratum::FlatFiles, "flat files"),
        (Stratum::Images, "images"),
        (Stratum::Reasoning, "reasoning replayed"),
        (Stratum::Undetermined, "undetermined"),
    ];

    /// The stratum of all of `request`, or of its messages from `start` on if that is above 0.
    pub fn of(request: &Request<'_>, start: usize, assumptions: &Assumptions) -> Stratum {
        Strata::of(request, start, assumptions).last()
    }

    /// True if something had to be guessed that makes a count undetermined.
    pub fn is_guessed(assumptions: &Assumptions) -> bool {
        let is_guess = |name: &str| GUESSES.iter().any(|guess| name.starts_with(guess));
        let mut names = assumptions.iter();
        names.any(|name| is_guess(name) && !APART.contains(name))
    }

    /// The stratum of one message.
    pub fn of_message(message: &Message<'_>) -> Stratum {
        Strata::default().with_parts(&message.parts).last()
    }

    /// The stratum of a message of a reply, whose summaries were billed with the request.
    pub fn of_reply(message: &Message<'_>) -> Stratum {
        let is_said = |part: &&Part<'_>| !matches!(part, Part::Summary { .. });
        let said = message.parts.iter().filter(is_said);
        said.fold(Strata::default(), |all, part| {
            all.with_parts(std::slice::from_ref(part))
        })
        .last()
    }

    /// The stratum of the parts around the messages.
    pub fn of_context(request: &Request<'_>) -> Stratum {
        Strata::default().with_context(request).last()
    }

    /// The stratum of this number; text, if there is none.
    pub(crate) fn numbered(number: u64) -> Stratum {
        let mut all = Stratum::ALL.into_iter().map(|(stratum, _)| stratum);
        all.find(|it| *it as u64 == number).unwrap_or_default()
    }
}

/// Strata that something has, a bit for each; text always is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Strata(u16);

impl Strata {
    /// Those of all of `request`, or of its messages from `start` on if that is above 0.
    fn of(request: &Request<'_>, start: usize, assumptions: &Assumptions) -> Strata {
        let messages = request.messages[start..].iter();
        let counted = messages.fold(Strata::default(), |all, it| all.with_parts(&it.parts));
        let mut all = match start {
            0 => counted.with_context(request),
            _ => counted,
        };
        if all.has(Stratum::Files) && assumptions.iter().any(|name| name.starts_with(FLAT)) {
            all = all.with(Stratum::FlatFiles);
        }
        if assumptions.contains(OPAQUE) {
            all = all.with(Stratum::Reasoning);
        }
        match Stratum::is_guessed(assumptions) {
            true => all.with(Stratum::Undetermined),
            false => all,
        }
    }

    fn with(self, stratum: Stratum) -> Strata {
        Strata(self.0 | 1 << stratum as u8)
    }

    fn has(self, stratum: Stratum) -> bool {
        self.with(stratum) == self
    }

    fn last(self) -> Stratum {
        let mut all = Stratum::ALL.into_iter().rev().map(|(stratum, _)| stratum);
        all.find(|it| self.has(*it)).unwrap_or_default()
    }

    fn with_context(self, request: &Request<'_>) -> Strata {
        let all = self.with_parts(&request.system);
        let all = match request.tools.is_empty() {
            true => all,
            false => all.with(Stratum::Tools),
        };
        match &request.response_schema {
            Some(_) => all.with(Stratum::Schema),
            None => all,
        }
    }

    /// Recurses as deep as the reader nests results, which is bounded.
    fn with_parts(self, parts: &[Part<'_>]) -> Strata {
        parts.iter().fold(self, |all, part| match part {
            Part::Text(text) if !text.documents().is_empty() => all.with(Stratum::Files),
            Part::Text(_) | Part::Data(_) => all,
            Part::ToolCall(_) => all.with(Stratum::Tools),
            Part::ToolResult(result) => all.with(Stratum::Tools).with_parts(&result.parts),
            Part::Media(media) if media.kind == MediaKind::Image => all.with(Stratum::Images),
            Part::Media(_) => all.with(Stratum::Files),
            Part::Reasoning { .. } | Part::Summary { .. } => all.with(Stratum::Reasoning),
        })
    }
}

/// Tokens that are not billed yet, by stratum: `None` where there is nothing of one.
///
/// ```
/// # use tokenctx::{Alone, Answer, Body, Call, Engine, Settings};
/// # let engine = Engine::new(b"a secret of 16 bytes or more", Settings::default());
/// # let body = Body::Bytes(br#"{"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}"#);
/// let Answer::Estimate(estimate) = engine.estimate(&body, &Call::default(), 0, &Alone)? else {
///     unreachable!("no store is asked")
/// };
/// let parts: Vec<_> = estimate.uncertain.parts().collect();
/// assert_eq!((estimate.uncertain.scope(), parts), ("whole", vec![("text", estimate.tokens)]));
/// # Ok::<(), tokenctx::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uncertain {
    scope: Scope,
    tokens: [Option<u64>; STRATA],
}

impl Uncertain {
    /// `tokens` of which only the last stratum is known: they may be all text or all of that one.
    pub(super) fn lump(scope: Scope, stratum: Stratum, tokens: u64) -> Uncertain {
        let mut all = Uncertain {
            scope,
            tokens: [None; STRATA],
        };
        let stratum = match scope {
            Scope::Answer => Stratum::Text,
            _ => stratum,
        };
        if matches!(scope, Scope::Whole | Scope::New) && stratum < Stratum::Undetermined {
            all.tokens[Stratum::Text as usize] = Some(tokens);
        }
        all.tokens[stratum as usize] = Some(tokens);
        all
    }

    /// `tokens` of `request`, or of its messages from `start` on if that is above 0, by what was
    /// counted of them. Of a guess, and of a reply, it is not known which part is wrong.
    pub(super) fn of(
        scope: Scope,
        request: &Request<'_>,
        start: usize,
        assumptions: &Assumptions,
        tally: &Tally,
        tokens: u64,
    ) -> Uncertain {
        let strata = Strata::of(request, start, assumptions);
        let last = strata.last();
        if matches!(scope, Scope::Reply | Scope::Answer) || last == Stratum::Undetermined {
            return Uncertain::lump(scope, last, tokens);
        }
        let files = match strata.has(Stratum::FlatFiles) {
            true => Stratum::FlatFiles,
            false => Stratum::Files,
        };
        let parts = [
            (Stratum::Tools, tally.tools + tally.calls),
            (Stratum::Schema, tally.schema),
            (files, tally.files + tally.documents),
            (Stratum::Images, tally.images),
            (Stratum::Reasoning, tally.reasoning),
        ];
        let mut all = [None; STRATA];
        let mut rest = tokens;
        for (stratum, tokens) in parts.into_iter().filter(|part| strata.has(part.0)) {
            all[stratum as usize] = Some(tokens);
            rest = rest.saturating_sub(tokens);
        }
        all[Stratum::Text as usize] = Some(rest);
        Uncertain { scope, tokens: all }
    }

    /// With these tokens more of the last of its strata.
    pub(super) fn and(mut self, tokens: u64) -> Uncertain {
        if let Some(last) = self.tokens.iter_mut().rev().flatten().next() {
            *last = last.saturating_add(tokens);
        }
        self
    }

    /// With the tokens of reasoning that a turn of the user has dropped.
    pub(super) fn without_reasoning(mut self, dropped_tokens: u64) -> Uncertain {
        let is_by_part =
            self.scope == Scope::New && self.tokens[Stratum::Undetermined as usize].is_none();
        if dropped_tokens > 0 && is_by_part {
            let reasoning = &mut self.tokens[Stratum::Reasoning as usize];
            *reasoning = Some(reasoning.unwrap_or_default().saturating_add(dropped_tokens));
        }
        self
    }

    /// The same tokens, as those of a reply.
    pub(super) fn as_reply(&self) -> Uncertain {
        let mut all = Stratum::ALL.into_iter().zip(self.tokens).rev();
        let last = all.find_map(|((stratum, _), tokens)| Some((stratum, tokens?)));
        let (stratum, tokens) = last.unwrap_or_default();
        Uncertain::lump(Scope::Reply, stratum, tokens)
    }

    /// `whole`, `new`, `reply` or `answer`: what is not billed yet.
    pub fn scope(&self) -> &'static str {
        self.scope.name()
    }

    /// Strata that there are, and tokens of each.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = Stratum::ALL.into_iter().zip(self.tokens);
        all.filter_map(|((_, name), tokens)| Some((name, tokens?)))
    }

    /// Lower and upper bound of `tokens`, of which these are not billed yet: what each part may be
    /// off by, added up and rounded down. A bill is a whole number, so one within the share is within the
    /// bounds.
    pub(super) fn interval(
        &self,
        profile: &Profile,
        is_known_model: bool,
        tokens: u64,
    ) -> (u64, u64) {
        let rows = Rows::of(profile, is_known_model);
        let (mut below, mut above) = (0_u64, 0_u64);
        for (stratum, part) in self.tokens.into_iter().enumerate() {
            let Some(part) = part else { continue };
            let bounds = rows.bounds(self.scope, stratum);
            let scale = part.saturating_add(bounds.slack_tokens);
            let share = |permille: u64| scale.saturating_mul(permille);
            below = below.saturating_add(share(1000 - bounds.low_permille.min(1000)));
            above = above.saturating_add(share(bounds.high_permille.max(1000) - 1000));
        }
        (
            tokens.saturating_sub(below / 1000),
            tokens.saturating_add(above / 1000),
        )
    }

    /// How far apart the bounds are.
    pub(super) fn width(&self, profile: &Profile, is_known_model: bool) -> u64 {
        let (low, high) = self.interval(profile, is_known_model, u64::MAX / 2);
        high - low
    }
}

/// How far a part may be off: permille of its tokens and of some more, since a share of a few tokens
/// says little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    low_permille: u64,
    high_permille: u64,
    slack_tokens: u64,
}

impl Bounds {
    fn has_width(self) -> bool {
        self.low_permille < 1000 || self.high_permille > 1000
    }
}

/// The rows that may hold the bounds of a profile, the best first: its own, its provider's, that of all.
struct Rows {
    rows: [Option<&'static Row>; 3],
    /// True if the profile was measured, so that what others are sure of holds for it too.
    is_sure: bool,
}

impl Rows {
    fn of(profile: &Profile, is_known_model: bool) -> Rows {
        let has_own_row = is_known_model || METHODS.contains(&&*profile.name);
        let own = if has_own_row {
            &profile.name
        } else {
            "unknown model"
        };
        let rows = rows();
        let provider = format!("provider {}", profile.provider);
        let rows = [own, &*provider, "all"].map(|name| rows.get(name));
        Rows {
            rows,
            is_sure: rows[0].is_some() || profile.quality == Quality::Exact,
        }
    }

    fn bounds(&self, scope: Scope, stratum: usize) -> Bounds {
        let mut rows = self.rows.iter().flatten();
        let found = rows.find_map(|row| row[scope as usize][stratum]);
        found.map_or(UNMEASURED, |it| {
            if self.is_sure || it.has_width() {
                it
            } else {
                UNPROVEN
            }
        })
    }
}

/// For each scope, for each stratum.
type Row = [[Option<Bounds>; STRATA]; 4];

/// Reads the table, once in a process.
pub(super) fn read_table() {
    rows();
}

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
    for scope in Scope::ALL {
        for (name, row) in root.get(scope.name()).into_iter().flat_map(Value::members) {
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
        slack_tokens: number(items.next()),
    }
}

fn number(value: Option<Value<'_>>) -> u64 {
    value.and_then(|value| value.as_u64()).unwrap_or_default()
}
