//! Bodies of known messages, whatever else has changed in them: only the new messages are read.
//!
//! A cache marker that moves, or another field before the messages, makes other bytes of a body, and
//! [`beginning`](super::beginning) knows a body by its first bytes alone. So the JSON text of each recorded
//! message has a fingerprint, by which its digest is remembered. Of a body, the places of its messages are found
//! without reading them; those that are remembered are left out, the rest is read as ever, and an empty
//! message of the same role stands in for each that was left out. Digests, prefixes and places of all messages are
//! those of the whole body. A message that was omitted is never counted: the known prefix must end beyond
//! all of them, else the body is read in whole.
//!
//! Messages on which the whole request may depend are always read: reasoning, documents, files. The list of
//! messages is valid JSON if its elements are, and a message that is remembered is.
use crate::engine::known_body::beginning::{LISTS, MIN_BYTES};
use crate::engine::known_body::layout::BodyLayout;
use crate::engine::known_body::note::{MessageDigest, Note, first_looked_at, stand_in};
use crate::engine::reading::Reading;
use crate::json::first_elements;
use crate::known::KnownPrefix;
use crate::known::digest::{Digest, Digester};
use crate::known::fingerprint::Kind;
use crate::known::memo::{remember, remembered};
use crate::request::{CacheOptions, Clues, MAX_LOOKBACK, Message, Request};
use std::collections::HashSet;
use std::ops::Range;

/// In a longer body there might be more values than a document may have, though it has not as many here.
const MAX_BYTES: usize = 8 << 20;

/// Likewise more parts.
const MAX_MESSAGES: usize = 20_000;

/// A body is read in whole unless one in three of its first messages is remembered. The very first does not count:
/// many conversations begin with the same system prompt. One alone is not enough, for many have the same calls.
const SAMPLES: Range<usize> = 1..9;
const MOST_SAMPLES_PER_KNOWN: usize = 3;

/// Below this, parsing all is as fast.
const LEAST_MESSAGES: usize = 4;

/// The bill of a shorter prefix may be a half bill, and then its messages are counted.
const LEAST_KNOWN_TOKENS: u64 = 1024;

/// The known messages of a body, and those of them that are not read again.
pub(crate) struct OmittedMessages {
    /// Of each message, if it is known.
    digests: Vec<Option<MessageDigest>>,
    is_omitted: Vec<bool>,
}

impl OmittedMessages {
    /// The messages of a body that are remembered, or that a recorded one has which it begins with; `None` if it is
    /// as quickly read in whole. Linear.
    ///
    /// If `wants_cache_points`, the blocks of each that is omitted are known.
    pub(crate) fn new(
        digester: &Digester,
        layout: &BodyLayout<'_, '_>,
        wants_cache_points: bool,
    ) -> Option<OmittedMessages> {
        let (body, ranges) = (layout.bytes, &layout.ranges);
        if !is_long(body) || !(LEAST_MESSAGES..=MAX_MESSAGES).contains(&ranges.len()) {
            return None;
        }
        let mut digests = layout.digests();
        if digests.is_empty() {
            if !has_known(digester, body, ranges) {
                return None;
            }
            let find = |range: &Range<usize>| find(digester, &body[range.clone()]);
            digests = ranges.iter().map(find).collect();
        }
        Some(OmittedMessages {
            is_omitted: omitted(&digests, ranges, wants_cache_points),
            digests,
        })
    }

    /// True if the first messages of `body`, of which no more is read, are known.
    pub(crate) fn are_likely(digester: &Digester, body: &[u8]) -> bool {
        let ranges = is_long(body).then(|| first_elements(body, &LISTS, SAMPLES.end));
        has_known(digester, body, &ranges.flatten().unwrap_or_default())
    }

    /// The body without the omitted messages, and without `tools` before or behind them; `None` if no message is
    /// omitted.
    pub(crate) fn without(
        &self,
        layout: &BodyLayout<'_, '_>,
        tools: Range<usize>,
    ) -> Option<Vec<u8>> {
        let (body, ranges) = (layout.bytes, &layout.ranges);
        let (first, last) = (ranges.first()?, ranges.last()?);
        if !self.is_omitted.contains(&true) {
            return None;
        }
        let (before, behind) = match tools.end <= first.start {
            true => (tools, last.end..last.end),
            false => (0..0, tools),
        };
        let mut text = [&body[..before.start], &body[before.end..first.start]].concat();
        let kept = ranges.iter().zip(&self.is_omitted);
        for (nth, (range, _)) in kept.filter(|(_, is_omitted)| !**is_omitted).enumerate() {
            if nth > 0 {
                text.push(b',');
            }
            text.extend_from_slice(&body[range.clone()]);
        }
        text.extend_from_slice(&body[last.end..behind.start]);
        text.extend_from_slice(&body[behind.end..]);
        Some(text)
    }

    /// Puts empty messages of the same role in the place of the omitted ones; the known digests of all messages.
    pub(crate) fn restore(&self, request: &mut Request<'_>) -> &[Option<MessageDigest>] {
        request.messages = self.between(std::mem::take(&mut request.messages), stand_in);
        let clues = &mut request.evidence.messages;
        *clues = self.between(std::mem::take(clues), |_| Clues::default());
        &self.digests
    }

    /// Puts the blocks of the omitted messages in their places among those that were read.
    pub(crate) fn restore_cache(&self, options: &mut CacheOptions) {
        let all = self.is_omitted.iter().zip(&self.digests);
        let omitted = all.map(|(is_omitted, known)| note(*known).blocks().filter(|_| *is_omitted));
        options.insert(&omitted.collect::<Vec<_>>());
    }

    /// Those that were `read`, one of each message of the text, and between them what `stands_in` for the others;
    /// those that were read alone, if their number is another.
    fn between<T>(&self, read: Vec<T>, stands_in: impl Fn(Note) -> T) -> Vec<T> {
        let omitted = self.is_omitted.iter().filter(|is_omitted| **is_omitted);
        if read.len() + omitted.count() != self.digests.len() {
            return read;
        }
        let mut read = read.into_iter();
        let all = self.is_omitted.iter().zip(&self.digests);
        all.filter_map(|(is_omitted, known)| match is_omitted {
            true => Some(stands_in(note(*known))),
            false => read.next(),
        })
        .collect()
    }

    /// True if `request` is the whole request, but for messages that no count looks at if `prefix` is known.
    pub(crate) fn are_needless(&self, reading: &Reading<'_>, prefix: KnownPrefix) -> bool {
        let request = &reading.request;
        let has_later_tools = !request.deferred_tools.is_empty() || !request.added_tools.is_empty();
        let is_guessed = request.assumptions.contains("dialect_guessed");
        let is_plain = request.edits.is_empty() && !has_later_tools && !is_guessed;
        let messages = &request.messages;
        // What is behind the last mark is counted, and its own message beside the one before it.
        let last_mark = reading.cache.as_ref().and_then(|it| it.marks.last());
        let to_mark = last_mark.map(|it| it.message_count.saturating_sub(2));
        let counted = prefix.message_count.min(to_mark.unwrap_or(usize::MAX));
        let first = first_looked_at(counted, |index| messages[index].role == "tool");
        let former_marks = reading.cache.iter().flat_map(CacheOptions::former_marks);
        let mut marked = former_marks.map(|it| it.message_count - 1);
        let is_read = self.is_omitted[first..].iter().all(|it| !it)
            && marked.all(|index| !self.is_omitted[index]);
        let is_same = |(is_omitted, known): (&bool, &Option<MessageDigest>)| {
            !is_omitted || note(*known).dialect() == Some(request.dialect)
        };
        let is_long = prefix.total.tokens >= LEAST_KNOWN_TOKENS;
        is_plain && is_read && is_long && self.is_omitted.iter().zip(&self.digests).all(is_same)
    }
}

fn note(known: Option<MessageDigest>) -> Note {
    known.map_or(Note::NONE, |it| it.note)
}

fn is_long(body: &[u8]) -> bool {
    (MIN_BYTES..=MAX_BYTES).contains(&body.len())
}

/// True if enough of the first messages of `body`, at `ranges`, are remembered.
fn has_known(digester: &Digester, body: &[u8], ranges: &[Range<usize>]) -> bool {
    let first = &ranges[SAMPLES.start.min(ranges.len())..SAMPLES.end.min(ranges.len())];
    let texts = first.iter().map(|range| &body[range.clone()]);
    let known = texts.filter(|text| find(digester, text).is_some()).count();
    known > 0 && known * MOST_SAMPLES_PER_KNOWN >= first.len()
}

fn find(digester: &Digester, text: &[u8]) -> Option<MessageDigest> {
    let fingerprint = digester.fingerprint(Kind::MessageText, text);
    let (digest, note) = remembered(fingerprint)?;
    Some(MessageDigest {
        digest,
        note: Note(note),
    })
}

/// For each message whether it is omitted: the known ones before those that a count may look at.
fn omitted(
    digests: &[Option<MessageDigest>],
    ranges: &[Range<usize>],
    wants_cache_points: bool,
) -> Vec<bool> {
    let note = |index: usize| note(digests[index]);
    let known = digests.iter().rposition(Option::is_some);
    let known = last_of_prefix(digests).or(known).map_or(0, |last| last + 1);
    let first = first_looked_at(known, |index| note(index).is_tool());
    let is_replaceable = |index: usize| match index {
        0 => note(0).is_long_first(ranges[0].len()),
        _ => note(index) != Note::NONE,
    };
    // An earlier mark may have stood inside of a message of more blocks, if it is near enough to the last one.
    let mut blocks_behind = 0;
    let mut has_points = |index: usize| {
        let blocks = note(index).blocks();
        let is_far = blocks_behind > MAX_LOOKBACK;
        blocks_behind += if index < known {
            blocks.unwrap_or(1)
        } else {
            0
        };
        !wants_cache_points || blocks.is_some_and(|blocks| blocks == 1 || is_far)
    };
    let mut omitted: Vec<_> = (0..digests.len())
        .rev()
        .map(|index| has_points(index) && index < first && is_replaceable(index))
        .collect();
    omitted.reverse();
    omitted
}

/// The last message that is taken for one of the known prefix. A new one may say what was said before ("continue"), so it
/// is said here for the first time, and the one before it is remembered, too.
fn last_of_prefix(digests: &[Option<MessageDigest>]) -> Option<usize> {
    let mut said = HashSet::with_capacity(digests.len());
    let mut last = None;
    let mut is_known_before = false;
    for (index, known) in digests.iter().enumerate() {
        let is_new = known.is_some_and(|it| said.insert(it.digest));
        if is_new && is_known_before {
            last = Some(index);
        }
        is_known_before = known.is_some();
    }
    last
}

/// Digests and notes of the messages of a recorded body, which was read as `reading`. They are remembered, but for messages that no other may stand in for.
pub(crate) fn message_digests(
    digester: &Digester,
    layout: &BodyLayout<'_, '_>,
    reading: &Reading<'_>,
    omitted: Option<&OmittedMessages>,
) -> Vec<MessageDigest> {
    let (request, digests) = (&reading.request, &reading.digests);
    let clues = |index| request.evidence.messages.get(index).copied();
    let blocks = |index| reading.cache.as_ref()?.unmarked_blocks(index);
    let new = |index, message: &Message<'_>, digest: Digest, text: &[u8]| {
        let clues = clues(index).unwrap_or_default();
        let note = Note::of(message, clues, request.dialect, text.len());
        let note = note.with_blocks(blocks(index).unwrap_or_default());
        if note != Note::NONE {
            let fingerprint = digester.fingerprint(Kind::MessageText, text);
            remember(fingerprint, digest, note.0);
        }
        MessageDigest { digest, note }
    };
    let all = request.messages.iter().zip(digests).zip(&layout.ranges);
    all.enumerate()
        .map(|(index, ((message, digest), range))| {
            let known = omitted.and_then(|it| it.digests[index]);
            let known = known.filter(|it| it.note.dialect() == Some(request.dialect));
            known.unwrap_or_else(|| new(index, message, *digest, &layout.bytes[range.clone()]))
        })
        .collect()
}
