//! Bodies of known messages, whatever else has changed in them: only what is new is read.
//!
//! A cache marker that moves, or another field before the messages, makes other bytes of a body, and
//! [`resume`](crate::engine::known_body::beginning) knows a body by its first bytes alone. So the JSON text of each recorded
//! message has a fingerprint, by which its digest is remembered. Of a body, the places of its messages are found
//! without reading them; those that are remembered are left out, the rest is read as ever, and an empty
//! message of the same role stands in for each that was left out. Digests, prefixes and places of all messages are
//! those of the whole body. What is counted is never a message that gave way: the known prefix must end beyond
//! them, else the body is read in whole.
//!
//! Left to be read are messages with what the whole request may depend on: reasoning, documents, files. The list
//! of messages must be valid JSON if its elements are, and what was remembered is.
use crate::engine::input::Body;
use crate::engine::known_body::beginning::{Begun, LISTS, MIN_BYTES};
use crate::engine::known_body::note::{MessageDigest, Note, first_looked_at};
use crate::engine::known_body::tools::KnownTools;
use crate::json::{array_elements, first_elements};
use crate::known::KnownPrefix;
use crate::known::digest::{Digest, Digester};
use crate::known::fingerprint::Kind;
use crate::known::memo::{remember, remembered};
use crate::request::{MAX_MESSAGES, Message, Request};
use std::ops::Range;
use std::sync::Arc;

/// In a longer body there might be more values than a document may have, though it has not as many here.
const MAX_BYTES: usize = 8 << 20;

/// Likewise more parts.
const MAX_STAND_INS: usize = 20_000;

/// A body is read at once unless one in three of its first messages is remembered. The very first does not tell: many
/// conversations begin with the same system prompt. One alone does not, for many have the same calls.
const SAMPLES: Range<usize> = 1..9;
const LEAST_SHARE: usize = 3;

/// With fewer messages it is as well read.
const LEAST_MESSAGES: usize = 4;

/// The bill of a shorter prefix may be looked at more closely.
const LEAST_KNOWN_TOKENS: u64 = 1024;

/// Where the messages of a long body stand, which is valid JSON; none if that is not clear.
pub(crate) fn message_ranges(body: &Body<'_>) -> Vec<Range<usize>> {
    let bytes = body.bytes().filter(|it| it.len() >= MIN_BYTES);
    let ranges = bytes.and_then(|it| array_elements(it, &LISTS, MAX_MESSAGES));
    ranges.unwrap_or_default()
}

/// A body in which messages stand in for those that are known.
pub(crate) struct StandIns {
    /// The body without these.
    pub text: Vec<u8>,
    /// Of each message, if it is known.
    digests: Vec<Option<MessageDigest>>,
    /// Whether another message stands in its place.
    has_left: Vec<bool>,
    /// Tools that were left out.
    tools: Option<Arc<KnownTools>>,
}

impl StandIns {
    /// For the messages of `body` at `ranges` that are remembered, or that it has `begun` with; `None` if it is as
    /// well read in whole. Linear.
    pub(crate) fn new(
        digester: &Digester,
        body: &[u8],
        ranges: &[Range<usize>],
        begun: Option<&Begun<'_>>,
    ) -> Option<StandIns> {
        if !is_long(body) || !(LEAST_MESSAGES..=MAX_STAND_INS).contains(&ranges.len()) {
            return None;
        }
        let find = |range: &Range<usize>| find(digester, &body[range.clone()]);
        let digests: Vec<_> = match begun.map_or(&[][..], |it| it.digests(ranges)) {
            [] => {
                if !has_known(digester, body, ranges) {
                    return None;
                }
                ranges.iter().map(find).collect()
            }
            known => {
                let new = ranges.len() - known.len();
                let known = known.iter().copied().map(Some);
                known.chain(std::iter::repeat_n(None, new)).collect()
            }
        };
        let has_left = leaving(&digests, ranges);
        let tools = begun.and_then(|it| it.prefix.tools_in(digester, body));
        let range = tools.as_ref().map_or(0..0, |(_, range)| range.clone());
        let text = without(body, ranges, &has_left, range)?;
        Some(StandIns {
            text,
            digests,
            has_left,
            tools: tools.map(|(tools, _)| Arc::clone(tools)),
        })
    }

    /// Whether the first messages of `body`, of which no more is read, say that it may be one.
    pub(crate) fn are_likely(digester: &Digester, body: &[u8]) -> bool {
        let ranges = is_long(body).then(|| first_elements(body, &LISTS, SAMPLES.end));
        has_known(digester, body, &ranges.flatten().unwrap_or_default())
    }

    /// Tools that were left out.
    pub(crate) fn tools(&self) -> Option<&KnownTools> {
        self.tools.as_deref()
    }

    /// How many messages there are.
    pub(crate) fn len(&self) -> usize {
        self.digests.len()
    }

    /// What was `read`, one of each message of the text, and between them what `stands_in` for the others;
    /// what was read alone, if it is another number.
    pub(crate) fn between<T>(&self, read: Vec<T>, stands_in: impl Fn(Note) -> T) -> Vec<T> {
        let left_count = self.has_left.iter().filter(|has_left| **has_left).count();
        if read.len() + left_count != self.len() {
            return read;
        }
        let mut read = read.into_iter();
        let note = |index: usize| self.digests[index].map_or(Note::NONE, |it| it.note);
        let message = |(index, has_left): (usize, &bool)| match has_left {
            true => Some(stands_in(note(index))),
            false => read.next(),
        };
        self.has_left
            .iter()
            .enumerate()
            .filter_map(message)
            .collect()
    }

    /// The digest of a message, if it is known.
    pub(crate) fn digest(&self, index: usize) -> Option<Digest> {
        self.digests[index].map(|it| it.digest)
    }

    /// What is known of the message at `index`.
    pub(crate) fn known(&self, index: usize) -> Option<MessageDigest> {
        self.digests[index]
    }

    /// Whether `request` is what the whole body would be read as, but for messages that nobody looks at if
    /// `prefix` is known.
    pub(crate) fn stands_for(&self, request: &Request<'_>, prefix: KnownPrefix) -> bool {
        let has_later_tools = !request.deferred_tools.is_empty() || !request.added_tools.is_empty();
        let is_guessed = request.assumptions.contains("dialect_guessed");
        let is_plain = request.edits.is_empty() && !has_later_tools && !is_guessed;
        let messages = &request.messages;
        let first = first_looked_at(prefix.message_count, |index| messages[index].role == "tool");
        let is_read = self.has_left[first..].iter().all(|has_left| !has_left);
        let is_same = |(has_left, known): (&bool, &Option<MessageDigest>)| {
            !has_left || known.and_then(|it| it.note.dialect()) == Some(request.dialect)
        };
        let is_long = prefix.total.tokens >= LEAST_KNOWN_TOKENS;
        is_plain && is_read && is_long && self.has_left.iter().zip(&self.digests).all(is_same)
    }
}

fn is_long(body: &[u8]) -> bool {
    (MIN_BYTES..=MAX_BYTES).contains(&body.len())
}

/// Whether enough of the first messages of `body`, at `ranges`, are remembered.
fn has_known(digester: &Digester, body: &[u8], ranges: &[Range<usize>]) -> bool {
    let first = &ranges[SAMPLES.start.min(ranges.len())..SAMPLES.end.min(ranges.len())];
    let texts = first.iter().map(|range| &body[range.clone()]);
    let known = texts.filter(|text| find(digester, text).is_some()).count();
    known > 0 && known * LEAST_SHARE >= first.len()
}

fn find(digester: &Digester, text: &[u8]) -> Option<MessageDigest> {
    let fingerprint = digester.fingerprint(Kind::MessageText, text);
    let (digest, note) = remembered(fingerprint)?;
    Some(MessageDigest {
        digest,
        note: Note(note),
    })
}

/// Which messages give way: known ones up to those that may be looked at.
fn leaving(digests: &[Option<MessageDigest>], ranges: &[Range<usize>]) -> Vec<bool> {
    let note = |index: usize| digests[index].map_or(Note::NONE, |it| it.note);
    let known = digests
        .iter()
        .rposition(Option::is_some)
        .map_or(0, |last| last + 1);
    let first = first_looked_at(known, |index| note(index).is_tool());
    let leaves = |index: usize| match index {
        0 => note(0).is_long_first(ranges[0].len()),
        _ => note(index) != Note::NONE,
    };
    (0..digests.len())
        .map(|index| index < first && leaves(index))
        .collect()
}

/// `body` without the messages that give way, and without `tools` before or behind them; `None` if no message does.
fn without(
    body: &[u8],
    ranges: &[Range<usize>],
    has_left: &[bool],
    tools: Range<usize>,
) -> Option<Vec<u8>> {
    let (first, last) = (ranges.first()?, ranges.last()?);
    if !has_left.contains(&true) {
        return None;
    }
    let (before, behind) = match tools.end <= first.start {
        true => (tools, last.end..last.end),
        false => (0..0, tools),
    };
    let mut text = [&body[..before.start], &body[before.end..first.start]].concat();
    let kept = ranges
        .iter()
        .zip(has_left)
        .filter(|(_, has_left)| !**has_left);
    for (nth, (range, _)) in kept.enumerate() {
        if nth > 0 {
            text.push(b',');
        }
        text.extend_from_slice(&body[range.clone()]);
    }
    text.extend_from_slice(&body[last.end..behind.start]);
    text.extend_from_slice(&body[behind.end..]);
    Some(text)
}

/// What a recorded body, which was read as `request` with these `digests`, tells of its messages at `ranges`. It is
/// remembered, but for messages that no other may stand in for.
pub(crate) fn message_digests(
    digester: &Digester,
    body: &[u8],
    ranges: &[Range<usize>],
    (request, digests): (&Request<'_>, &[Digest]),
    stand_ins: Option<&StandIns>,
) -> Vec<MessageDigest> {
    let clues = |index| request.evidence.messages.get(index).copied();
    let new = |index, message: &Message<'_>, digest: Digest, text: &[u8]| {
        let clues = clues(index).unwrap_or_default();
        let note = Note::of(message, clues, request.dialect, text.len());
        if note != Note::NONE {
            let fingerprint = digester.fingerprint(Kind::MessageText, text);
            remember(fingerprint, digest, note.0);
        }
        MessageDigest { digest, note }
    };
    let all = request.messages.iter().zip(digests).zip(ranges);
    all.enumerate()
        .map(|(index, ((message, digest), range))| {
            let known = stand_ins.and_then(|it| it.known(index));
            let known = known.filter(|it| it.note.dialect() == Some(request.dialect));
            known.unwrap_or_else(|| new(index, message, *digest, &body[range.clone()]))
        })
        .collect()
}
