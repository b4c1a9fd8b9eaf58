//! Bodies of which a part was read before: the text that is left to read, and what is known of the rest.
//!
//! A [`KnownBody`] is made by two strategies. A body that begins with the bytes of a recorded one is read from
//! there on ([`beginning`]). Of another that has recorded messages, only the new ones are read ([`omitted`]). Both
//! may leave out [`tools`]. Of a body that is mostly one recorded [`text`], the rest is read. Either way the request that
//! is read has the digests and prefixes of the whole body.
//! If that does not work out, or what is known is not enough for an answer, the body is read in whole.
pub(super) mod beginning;
pub(super) mod layout;
pub(super) mod note;
mod omitted;
mod text;
pub(super) mod tools;

use crate::Error;
use crate::count::Counter;
use crate::engine::guarded::Guarded;
use crate::engine::input::{Body, Call, Host};
use crate::engine::lookup::Known;
use crate::engine::reading::{Reader, Reading, request_in};
use crate::json::{Document, Limits};
use crate::known::digest::Digester;
use crate::known::fingerprint::Kind;
use crate::known::tenant::Tenant;
use crate::request::{COMPACTED, Message, has_marker};
use beginning::{BodyPrefix, BodyPrefixes, MatchedPrefix, ToolsRange, ending, keys, likely_ends};
use layout::BodyLayout;
use note::MessageDigest;
use omitted::{OmittedMessages, message_digests};
use std::ops::Range;
use std::sync::Arc;
use text::{KnownTexts, LongText};
use tools::KnownTools;

pub(super) use text::KnownText;

/// Messages at the end of a body in which cache markers are looked for: clients mark the last few.
const MAX_MARKED_MESSAGES: usize = 8;

/// A body of which a part was read before.
pub(super) struct KnownBody {
    /// The part that is left to read.
    text: Vec<u8>,
    left_out: LeftOut,
    /// Tools that were left out too.
    tools: Option<Arc<KnownTools>>,
}

enum LeftOut {
    /// The messages of a recorded body that it begins with, but for the last few.
    Beginning(BodyPrefix),
    /// Single messages.
    Messages(OmittedMessages),
    /// The middle of a text.
    Text(KnownText),
}

impl KnownBody {
    /// `body` without the messages of the recorded one that it begins with, and without these tools.
    fn without_beginning(
        body: &[u8],
        prefix: BodyPrefix,
        tools: Option<ToolsRange<'_>>,
    ) -> KnownBody {
        KnownBody {
            text: prefix.shortened(body, tools.as_ref()),
            tools: tools.map(|(tools, _)| Arc::clone(tools)),
            left_out: LeftOut::Beginning(prefix),
        }
    }

    /// The body without its known messages; `None` if it is as quickly read in whole. Linear.
    pub(super) fn without_messages(
        digester: &Digester,
        layout: &BodyLayout<'_, '_>,
        wants_cache_points: bool,
    ) -> Option<KnownBody> {
        let omitted = OmittedMessages::new(digester, layout, wants_cache_points)?;
        // A mark may stand in the tools, and the points of marks before the messages are made of them.
        let tools = layout.tools(digester).filter(|_| !wants_cache_points);
        let range = tools.as_ref().map_or(0..0, |(_, range)| range.clone());
        Some(KnownBody {
            text: omitted.without(layout, range)?,
            tools: tools.map(|(tools, _)| Arc::clone(tools)),
            left_out: LeftOut::Messages(omitted),
        })
    }

    /// The result of `work` on the request in what is left to read; `None` if it may not be read so.
    pub(super) fn read<T>(
        &self,
        reader: &Reader,
        call: &Call<'_>,
        tenant: &Tenant,
        work: impl FnOnce(&Reading<'_>) -> T,
    ) -> Option<T> {
        let document = Document::from_bytes(&self.text, &Limits::default()).ok()?;
        let mut request = request_in(&document, call, tenant).ok()?;
        if request.assumptions.contains(COMPACTED) {
            return None; // what was left out may be dropped
        }
        let known = match &self.left_out {
            LeftOut::Beginning(_) | LeftOut::Text(_) => &[][..],
            LeftOut::Messages(omitted) => omitted.restore(&mut request),
        };
        let tools = self.tools.as_deref();
        let mut reading = reader.identify(&document, request, call, tenant, known, tools);
        if reading.request.has_media_level {
            return None; // what was left out was read at another
        }
        let has_tools = tools.is_none() || reading.known_context.is_some();
        let is_same = has_tools
            && reading.edited.is_none()
            && match &self.left_out {
                LeftOut::Beginning(prefix) => prefix.complete(&mut reading, call.dialect),
                LeftOut::Text(text) => text.complete(&mut reading),
                LeftOut::Messages(omitted) => {
                    if let Some(options) = &mut reading.cache {
                        omitted.restore_cache(options);
                    }
                    reading.request.messages.len() == known.len()
                }
            };
        is_same.then(|| work(&reading))
    }

    /// True if the answer for `reading` is that for the whole body, since nothing that was left out is looked at.
    pub(super) fn is_enough(&self, reading: &Reading<'_>, known: &Known) -> bool {
        let prefix = known.prefix.filter(|_| known.near.is_empty());
        match &self.left_out {
            LeftOut::Beginning(_) => prefix.is_some(),
            LeftOut::Messages(omitted) => {
                prefix.is_some_and(|it| omitted.are_needless(reading, it))
            }
            LeftOut::Text(_) => true,
        }
    }
}

/// The share of the memory for recorded bodies that their long texts may take.
const TEXT_SHARE: usize = 16;

/// The beginnings of recorded bodies and their long texts, shared by threads.
pub(super) struct RecordedBodies {
    prefixes: Guarded<BodyPrefixes>,
    texts: Guarded<KnownTexts>,
}

impl RecordedBodies {
    /// Room for `capacity_bytes`, at least one body.
    pub(super) fn new(capacity_bytes: usize) -> RecordedBodies {
        let text_bytes = capacity_bytes / TEXT_SHARE;
        RecordedBodies {
            prefixes: Guarded::new(BodyPrefixes::new(capacity_bytes - text_bytes)),
            texts: Guarded::new(KnownTexts::new(text_bytes)),
        }
    }

    /// Remembers `prefix` of `body`.
    pub(super) fn record(&self, digester: &Digester, body: &[u8], prefix: BodyPrefix) {
        self.prefixes.with(|all| all.record(digester, body, prefix));
    }

    /// Remembers a long `text` of a recorded body.
    pub(super) fn record_text(&self, text: KnownText) {
        self.texts.with(|all| all.record(text));
    }

    /// Forgets all.
    pub(super) fn clear(&self) {
        self.prefixes.with(BodyPrefixes::clear);
        self.texts.with(KnownTexts::clear);
    }

    /// `body` without the middle of the known text that most of it is; `None` if it is none.
    pub(super) fn without_text<H: Host>(
        &self,
        digester: &Digester,
        body: &[u8],
    ) -> Option<KnownBody> {
        let text = LongText::of(body)?;
        let fingerprint = text.fingerprint(digester, body);
        let known = H::locked(|| self.texts.with(|all| all.find(fingerprint)))?;
        Some(KnownBody {
            text: text.without(body),
            tools: None,
            left_out: LeftOut::Text(known),
        })
    }

    /// The recorded beginnings that `body` may have, the longest first.
    pub(super) fn candidates<H: Host>(&self, digester: &Digester, body: &[u8]) -> Vec<BodyPrefix> {
        let find = |ends: Range<usize>| {
            let keys = keys(digester, body, ends);
            H::locked(|| self.prefixes.with(|all| all.candidates(&keys, body)))
        };
        let mut found = likely_ends(body).map(find);
        found.find(|it| !it.is_empty()).unwrap_or_default()
    }

    /// The recorded beginning that `body` has.
    pub(super) fn match_prefix<'k, H: Host>(
        &self,
        digester: &'k Digester,
        body: &[u8],
    ) -> Option<MatchedPrefix<'k>> {
        let mut all = self.candidates::<H>(digester, body).into_iter();
        all.find_map(|prefix| prefix.matched(digester, body))
    }
}

/// The ways to read `body`, of which one of `prefixes` may be the beginning, that may spare reading it in whole,
/// the quickest first.
pub(super) fn known_bodies<'b>(
    body: &'b Body<'_>,
    prefixes: Vec<BodyPrefix>,
    digester: &'b Digester,
    wants_cache_points: bool,
    without_text: impl FnOnce() -> Option<KnownBody> + 'b,
) -> impl Iterator<Item = KnownBody> + 'b {
    let bytes = body.bytes().unwrap_or_default();
    let begun = prefixes.into_iter();
    let begun = begun.filter(move |it| it.is_beginning(digester, bytes));
    let begun = begun.flat_map(move |prefix| {
        let without = prefix.clone();
        let tools = prefix.tools_in(digester, bytes);
        let tools = tools.filter(|_| !wants_cache_points);
        let short = tools.map(|it| KnownBody::without_beginning(bytes, prefix.clone(), Some(it)));
        let long = move || KnownBody::without_beginning(bytes, without, None);
        short.into_iter().chain(std::iter::once_with(long))
    });
    let omitting = move || {
        if !OmittedMessages::are_likely(digester, bytes) {
            return None;
        }
        let layout = BodyLayout::new(digester, bytes, None);
        KnownBody::without_messages(digester, &layout, wants_cache_points)
    };
    let mostly_text = std::iter::once_with(without_text).flatten();
    begun
        .chain(mostly_text)
        .chain(std::iter::once_with(omitting).flatten())
}

/// The result of `partly` on the request in the first of `parts` that can be read, if it has one; else that of
/// `whole` on the request in all of the body, whose messages have these digests where they are known.
pub(super) fn read<T>(
    reader: &Reader,
    (body, call, tenant): (&Body<'_>, &Call<'_>, &Tenant),
    mut parts: impl Iterator<Item = KnownBody>,
    digests: &[Option<MessageDigest>],
    partly: impl Fn(&KnownBody, &Reading<'_>) -> Option<T>,
    whole: impl FnOnce(&Reading<'_>) -> T,
) -> Result<T, Error> {
    let read = |part: KnownBody| part.read(reader, call, tenant, |it| partly(&part, it));
    // What is known of a request does not depend on the part that is read: another part is no better.
    match parts.find_map(read).flatten() {
        Some(done) => Ok(done),
        None => body.read(|document| Ok(whole(&reader.read(document, call, tenant, digests)?))),
    }
}

/// The beginning of a body that was read as `reading`, from `known` if not in whole; `None` if it is not clear.
/// Linear.
pub(super) fn body_prefix(
    layout: &BodyLayout<'_, '_>,
    known: Option<&KnownBody>,
    reading: &Reading<'_>,
) -> Option<BodyPrefix> {
    let (request, ranges) = (&reading.request, &layout.ranges[..]);
    let has_later_tools = !request.deferred_tools.is_empty() || !request.added_tools.is_empty();
    let is_clear = ranges.len() == request.messages.len() && reading.edited.is_none();
    let is_plain = request.is_plain() && request.edits.is_empty();
    if !is_clear || !is_plain || has_later_tools {
        return None;
    }
    let digester = &reading.tenant.digester;
    let matched = layout.matched.as_ref();
    let omitted = known.and_then(|it| match &it.left_out {
        LeftOut::Messages(omitted) => Some(omitted),
        LeftOut::Beginning(_) | LeftOut::Text(_) => None,
    });
    let digests = message_digests(digester, layout, reading, omitted);
    let tools = known_tools(layout, reading);
    let marks = |end: usize| {
        let beginning = &layout.bytes[..end];
        let whole = || digester.fingerprint(Kind::Body, beginning);
        let fingerprint = matched.and_then(|it| it.fingerprint(beginning));
        (
            fingerprint.unwrap_or_else(whole),
            ending(digester, beginning),
        )
    };
    let new = |count: usize, counter: &mut Counter<'_>| {
        BodyPrefix::new(
            marks,
            &ranges[..count],
            request,
            (&reading.prefixes, &digests[..count]),
            tools.clone(),
            |message: &Message<'_>| counter.reasoning(message),
        )
    };
    let counts = [steady_count(layout.bytes, ranges), ranges.len()];
    let first = |counter: &mut Counter<'_>| counts.iter().find_map(|count| new(*count, counter));
    Some(reading.counted(first).0?.after(matched))
}

/// The number of messages that the next turn has as they stand: those before a cache marker near the end, which it
/// moves. Linear in the last messages.
fn steady_count(body: &[u8], ranges: &[Range<usize>]) -> usize {
    let near = ranges.len().saturating_sub(MAX_MARKED_MESSAGES);
    let is_marked = |range: &Range<usize>| has_marker(&body[range.clone()]);
    let marked = ranges[near..].iter().position(is_marked);
    marked.map_or(ranges.len(), |nth| near + nth)
}

/// The tools of a body that was read as `reading`: those of the recorded one that it begins with, if they are the
/// same.
fn known_tools(layout: &BodyLayout<'_, '_>, reading: &Reading<'_>) -> Option<Arc<KnownTools>> {
    let digester = &reading.tenant.digester;
    let context = reading.prefixes[0];
    match layout.tools(digester) {
        Some((tools, _)) if tools.context == context => Some(Arc::clone(tools)),
        _ if reading.options != 0 => None,
        _ => {
            let context = (&*reading.family_name, context, reading.any_family());
            let (bytes, ranges) = (layout.bytes, &layout.ranges[..]);
            KnownTools::new(digester, bytes, ranges, &reading.request, context).map(Arc::new)
        }
    }
}
