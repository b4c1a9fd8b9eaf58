//! Identities of the prefixes that the provider's cache may hold, for a forecast.
//!
//! A provider keeps a prefix for one model under one set of options, so the identity of a point is made of
//! a prefix digest and of these. Nothing here says what is cached: who keeps times and bills decides.
use crate::engine::lookup::Known;
use crate::engine::reading::Reading;
use crate::known::digest::Digest;
use crate::known::sealed::Entry;
use crate::known::{KnownOptions, KnownTotal};
use crate::profile::table::Table;
use crate::request::{CacheMark, Message, Part, Request, first_pieces};

/// Points of a request that are given, the deepest of all that there are.
const MAX_POINTS: usize = 24;

/// Text that is digested again to find where an earlier mark may have stood, in bytes: half of a millisecond.
const FORMER_BYTES: usize = 512 << 10;

/// A tool's result or a medium counts as so many there.
const LARGE_BYTES: usize = 16 << 10;

/// A prefix that the provider may have cached.
///
/// ```
/// use tokenctx::{CachePoint, Digest};
///
/// let point = CachePoint { digest: Digest([7; 16]), message_count: 3, blocks: 5 };
/// assert!(point.blocks >= point.message_count as u64);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachePoint {
    /// Identity of prefix, model and options.
    pub digest: Digest,
    /// Messages in it; 0: tools and system prompt alone. Of a body that is read from where a known one ends,
    /// messages in between are left out.
    pub message_count: usize,
    /// Blocks of content in it.
    pub blocks: u64,
}

/// The places in a request that matter to the provider's cache.
///
/// ```
/// use tokenctx::{Alone, Answer, Body, Call, Engine, Settings};
///
/// let engine = Engine::new(b"a secret of 16 bytes or more", Settings::default());
/// let body = Body::Bytes(br#"{"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}"#);
/// let call = Call { wants_cache_points: true, ..Call::default() };
/// let Answer::Estimate(estimate) = engine.estimate(&body, &call, 0, &Alone)? else { unreachable!() };
/// let points = estimate.cache_points.expect("the call wants them");
/// assert_eq!((points.model.as_str(), points.points.len()), ("gpt-4o", 2));
/// # Ok::<(), tokenctx::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CachePoints {
    /// Places where an earlier call may have ended, the deepest last.
    pub points: Vec<CachePoint>,
    /// Places up to which the request asks to be cached, with the blocks before each.
    pub marks: Vec<(CacheMark, u64)>,
    /// Counted behind the last mark; 0 if it is at the end, or if there is none.
    pub tokens_after_mark: u64,
    /// Identity and count of what stands before the messages up to each mark in it, without one of all of it; empty
    /// where something of the request is known.
    pub contexts: Vec<(Digest, u64)>,
    /// The model's own name.
    pub model: String,
    /// Who made the model; empty if unknown.
    pub vendor: String,
    /// Who answers, if the caller or the name says so.
    pub provider: String,
    /// True if the request points to a cache that was made before.
    pub has_cached_content: bool,
    /// For how long it asks to be cached where that is automatic, in seconds.
    pub retention_seconds: Option<u32>,
    /// The last message and its reply, for a record.
    pub reply: Option<Digest>,
}

/// The places in the request that was read that matter to the provider's cache.
pub(super) fn cache_points(
    reading: &Reading<'_>,
    provider: Option<&str>,
    known: &Known,
) -> CachePoints {
    let Some(options) = &reading.cache else {
        return CachePoints::default();
    };
    let prefixes: Vec<_> = options
        .marks
        .iter()
        .map(|it| MarkedPart::new(reading, it))
        .collect();
    let tokens_after_mark = match (options.marks.last(), prefixes.last()) {
        (Some(mark), Some(part)) => tokens_after(reading, mark, part.as_ref()),
        _ => 0,
    };
    let marks = options
        .marks
        .iter()
        .zip(&prefixes)
        .map(|(mark, part)| match part {
            Some(_) => (*mark, options.blocks_before_mark(mark)),
            None => (*mark, options.blocks_to(mark.message_count)),
        });
    let names = names(reading, provider);
    let points = points(reading, &names);
    let contexts = match known.prefix {
        None => contexts(reading, &names, &prefixes),
        Some(_) => Vec::new(),
    };
    let (model, provider) = names;
    CachePoints {
        points,
        marks: marks.collect(),
        tokens_after_mark,
        contexts,
        model,
        vendor: reading.profile.provider.clone(),
        provider,
        has_cached_content: options.has_cached_content,
        retention_seconds: options.retention_seconds,
        reply: None,
    }
}

/// Tools and system prompt up to each mark in them; without one, all of them.
fn contexts(
    reading: &Reading<'_>,
    (model, provider): &(String, String),
    prefixes: &[Option<MarkedPart<'_>>],
) -> Vec<(Digest, u64)> {
    let [identity, _] = identities(reading, model, provider);
    let digester = &reading.tenant.digester;
    let marks = reading.cache.iter().flat_map(|it| &it.marks);
    let mut found: Vec<_> = marks
        .zip(prefixes)
        .filter(|(mark, _)| mark.message_count == 0)
        .map(|(mark, part)| match part {
            Some(MarkedPart::Context(context)) => (
                part.as_ref().expect("it is one").prefix(reading, mark),
                reading.counted(|it| it.context(context)).0,
            ),
            _ => whole_context(reading),
        })
        .collect();
    if found.is_empty() {
        found.push(whole_context(reading));
    }
    found
        .iter()
        .map(|(prefix, tokens)| (digester.link(*prefix, identity), *tokens))
        .collect()
}

fn whole_context(reading: &Reading<'_>) -> (Digest, u64) {
    let (tokens, _) = reading.counted(|it| it.context(&reading.request));
    (reading.prefixes[0], tokens)
}

/// The part of a request in which a mark stands, up to the mark.
enum MarkedPart<'d> {
    /// The context, whose tools or system prompt end at the mark.
    Context(Box<Request<'d>>),
    /// A message that ends there.
    Message(Message<'d>),
}

impl<'d> MarkedPart<'d> {
    /// `None` for a mark at the end, and where parts are other ones than blocks: then it counts as one at the end.
    fn new(reading: &Reading<'d>, mark: &CacheMark) -> Option<MarkedPart<'d>> {
        if mark.is_at_end {
            return None;
        }
        let request = &reading.request;
        let Some(index) = mark.message_count.checked_sub(1) else {
            let mut context = request.context_without_options();
            context.system = match mark.is_in_tools {
                true => Vec::new(),
                false => first_pieces(&request.system, mark.pieces)?,
            };
            if mark.is_in_tools {
                if context.tools.len() != mark.pieces.1 {
                    return None;
                }
                context.tools.truncate(mark.pieces.0);
            }
            return Some(MarkedPart::Context(Box::new(context)));
        };
        let message = request.messages.get(index)?;
        Some(MarkedPart::Message(Message {
            parts: first_pieces(&message.parts, mark.pieces)?,
            ..message.clone()
        }))
    }

    /// Bytes of its texts if it is in a message; other parts may be of any size and count as large ones.
    fn text_bytes(&self) -> usize {
        let parts = match self {
            MarkedPart::Context(_) => return 0,
            MarkedPart::Message(message) => &message.parts,
        };
        let bytes = |part: &Part<'_>| match part {
            Part::Text(text) => text.len(),
            _ => LARGE_BYTES,
        };
        parts.iter().map(bytes).sum()
    }

    /// The identity of the prefix that ends with it.
    fn prefix(&self, reading: &Reading<'_>, mark: &CacheMark) -> Digest {
        let digester = &reading.tenant.digester;
        match self {
            MarkedPart::Context(context) => digester.context(&reading.family_name, context),
            MarkedPart::Message(message) => {
                let digest = digester.messages(std::slice::from_ref(message)).next();
                let before = reading.prefixes[mark.message_count - 1];
                digester.link(before, digest.expect("as many as messages"))
            }
        }
    }
}

/// Tokens counted behind `mark`, which ends `part` if it is inside of one.
fn tokens_after(reading: &Reading<'_>, mark: &CacheMark, part: Option<&MarkedPart<'_>>) -> u64 {
    let messages = &reading.request.messages;
    let behind = match mark.message_count < messages.len() {
        true => {
            reading
                .counted(|it| it.messages(messages, mark.message_count).sum())
                .0
        }
        false => 0,
    };
    let (whole, until_mark) = match part {
        None => return behind,
        Some(MarkedPart::Context(context)) => (
            reading.counted(|it| it.context(&reading.request)).0,
            reading.counted(|it| it.context(context)).0,
        ),
        Some(MarkedPart::Message(message)) => {
            // A message is counted beside the one before it.
            let start = mark.message_count.saturating_sub(2);
            let whole = messages[start..mark.message_count].to_vec();
            let mut until_mark = whole.clone();
            *until_mark.last_mut().expect("the message of the mark") = message.clone();
            let last = whole.len() - 1;
            let count = |messages: &[Message<'_>]| {
                reading
                    .counted(|it| it.messages(messages, last).sum::<u64>())
                    .0
            };
            (count(&whole), count(&until_mark))
        }
    };
    behind + whole.saturating_sub(until_mark)
}

/// Prefixes at whose ends an earlier call may have ended, the deepest last. Linear in the messages.
pub(super) fn points(
    reading: &Reading<'_>,
    (model, provider): &(String, String),
) -> Vec<CachePoint> {
    let Some(options) = &reading.cache else {
        return Vec::new();
    };
    let [context, all] = identities(reading, model, provider);
    let messages = &reading.request.messages;
    let count = messages.len();
    let point = |end: usize| {
        let identity = if end == 0 { context } else { all };
        CachePoint {
            digest: reading
                .tenant
                .digester
                .link(reading.prefixes[end], identity),
            message_count: end,
            blocks: options.blocks_to(end),
        }
    };
    let is_answer = |index: usize| messages[index].role == "assistant";
    let is_marked = |end: usize| {
        options
            .marks
            .iter()
            .any(|it| it.message_count == end && it.is_at_end)
    };
    let is_border =
        |end: &usize| *end == count || is_answer(*end) != is_answer(*end - 1) || is_marked(*end);
    let ends = (1..=count).rev().filter(is_border);
    let mut points: Vec<_> = ends.take(MAX_POINTS).map(point).collect();
    points.push(point(0));
    points.reverse();
    let mut left = FORMER_BYTES;
    for (nth, mark) in options
        .marks
        .iter()
        .chain(&options.former_marks())
        .enumerate()
    {
        let Some(part) = MarkedPart::new(reading, mark) else {
            continue;
        };
        if nth >= options.marks.len() {
            let Some(rest) = left.checked_sub(part.text_bytes()) else {
                continue;
            };
            left = rest;
        }
        let identity = if mark.message_count == 0 {
            context
        } else {
            all
        };
        let point = CachePoint {
            digest: reading
                .tenant
                .digester
                .link(part.prefix(reading, mark), identity),
            message_count: mark.message_count.saturating_sub(1),
            blocks: options.blocks_before_mark(mark),
        };
        // Tools stand before a system prompt whose blocks nobody counts.
        points.insert(if mark.is_in_tools { 0 } else { points.len() }, point);
    }
    points.sort_by_key(|it| it.blocks);
    points
}

/// The identity of the prefix that ends with the reply, behind `prefix`.
pub(super) fn reply_point(reading: &Reading<'_>, points: &CachePoints, prefix: Digest) -> Digest {
    let [_, all] = identities(reading, &points.model, &points.provider);
    reading.tenant.digester.link(prefix, all)
}

/// The identities of what a cached prefix belongs to: for the context, and for all.
fn identities(reading: &Reading<'_>, model: &str, provider: &str) -> [Digest; 2] {
    let fixed = reading.cache.as_ref().map_or("", |it| &it.fixed);
    let digester = &reading.tenant.digester;
    let context = format!("cache\0{model}\0{provider}");
    let all = format!("{context}\0{:x}\0{fixed}", reading.options);
    [context, all].map(|it| digester.bytes(it.as_bytes()))
}

/// The model's own name, and who answers.
pub(super) fn names(reading: &Reading<'_>, provider: Option<&str>) -> (String, String) {
    let name = Table::bundled().model_name(&reading.request.model);
    let provider = provider.unwrap_or(&name.provider).to_ascii_lowercase();
    (name.own, provider)
}

/// A prefix that a provider has cached, as other processes get it.
///
/// ```
/// use tokenctx::{CachedPrefix, Digest, Engine, Settings};
///
/// let engine = Engine::new(b"a secret of 16 bytes or more", Settings::default());
/// let cached = CachedPrefix { tokens: 2048, tail_tokens: 4, lifetime_seconds: 300, used_seconds: 9 };
/// let sealed = engine.seal_cached(Digest([7; 16]), cached);
/// assert_eq!(engine.open_cached(Digest([7; 16]), &sealed), Some(cached));
/// assert_eq!(engine.open_cached(Digest([8; 16]), &sealed), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedPrefix {
    /// Tokens that are cached.
    pub tokens: u64,
    /// Tokens of the call behind them.
    pub tail_tokens: u64,
    /// How long it is kept.
    pub lifetime_seconds: u64,
    /// When it was last used, in seconds since 1970.
    pub used_seconds: u64,
}

/// In place of the digest of options, which has 40 bits: this is no known total.
const MARK_OF_CACHED: u64 = 1 << 63;

impl CachedPrefix {
    pub(super) fn entry(self) -> Entry {
        Entry {
            total: KnownTotal {
                tokens: self.tokens,
                derived_tokens: self.tail_tokens,
                reasoning_tokens: 0,
                options: KnownOptions {
                    digest: MARK_OF_CACHED | self.lifetime_seconds,
                    tokens: 0,
                },
            },
            recorded_seconds: self.used_seconds,
        }
    }

    pub(super) fn of_entry(entry: &Entry) -> Option<CachedPrefix> {
        let options = entry.total.options.digest;
        (options & MARK_OF_CACHED != 0).then_some(CachedPrefix {
            tokens: entry.total.tokens,
            tail_tokens: entry.total.derived_tokens,
            lifetime_seconds: options & !MARK_OF_CACHED,
            used_seconds: entry.recorded_seconds,
        })
    }
}
