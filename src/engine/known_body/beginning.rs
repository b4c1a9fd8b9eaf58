//! Bodies that begin with a recorded body: only the part behind it is read.
//!
//! A client that sends a conversation again usually writes the same bytes again and more behind
//! them. For each recorded body a [`BodyPrefix`] keeps where its messages end and a keyed hash of all
//! bytes up to there. A body that begins with the same bytes is cut short: its first message, a few
//! before the new ones, the new ones, and all other members stay; the known messages in between
//! are left out ([`BodyPrefix::shortened`]). Reading that text gives what reading the whole would give,
//! because a message is read by itself. So one pass of BLAKE3 over the bytes takes the place of
//! parsing and of one digest per message.
//!
//! Which prefix may fit is looked up by the first kilobyte and by samples of the body, four in each
//! octave, so no length has to be known. The hash decides; the samples only choose what to try. Bodies
//! of many conversations begin alike, with the same system prompt and tools: what is looked at must
//! reach beyond that.
//!
//! A record takes the digests of the known messages from the prefix; see [`omitted`](super::omitted).
use crate::count::last_user_index;
use crate::engine::known_body::note::MessageDigest;
use crate::engine::known_body::tools::KnownTools;
use crate::engine::reading::Reading;
use crate::json::more_elements;
use crate::known::digest::{Digest, Digester};
use crate::known::fingerprint::{Kind, Pieces};
use crate::request::{Clues, Dialect, MAX_MESSAGES, Message, Part, Request};
use lru::LruCache;
use std::ops::Range;
use std::sync::Arc;

/// Shorter bodies are read in whole: it takes less than a twentieth of a millisecond.
pub(crate) const MIN_BYTES: usize = 16 << 10;

/// This part of the beginning is looked at in full.
const HEAD_BYTES: usize = 1 << 10;

/// Places from a power of two to the next at which samples end.
const SAMPLES_PER_OCTAVE: usize = 4;

/// A recorded body whose messages end before a quarter of the new one is looked for last: its tools stand
/// behind them, or it has grown much.
const MAX_GROWTH: usize = 4;

/// Bytes of a sample.
const SAMPLE_BYTES: usize = 32;

/// The last bytes of a beginning that are looked at before all of it.
const ENDING_BYTES: usize = 256;

/// Prefixes with the same samples that are kept: later turns and branches of one conversation.
const PREFIXES_PER_KEY: usize = 4;

/// The stand-in for a first message that is long.
const FIRST: &[u8] = br#"{"role":"user","content":""}"#;

/// Memory that one key with its prefixes, and their tools, is charged with.
pub(crate) const KEY_BYTES: usize = 896;

/// Members that may hold the messages.
pub(crate) const LISTS: [&[u8]; 4] = [b"messages", b"contents", b"input", b"prompt"];

/// The beginning of a recorded body, up to the end of its messages.
#[derive(Clone, Debug)]
pub(crate) struct BodyPrefix {
    /// Where its last message ends.
    end: usize,
    /// The part that is left out: from the end of its first message, or from its beginning if another stands in
    /// for it, to the messages before the new ones that stay.
    left_out: (usize, usize),
    /// A message of the user, if one stands in for the first.
    first: &'static [u8],
    fingerprint: Digest,
    /// Identity of the context: of all before the messages.
    context: Digest,
    /// Identity of the messages up to those that stay.
    digest: Digest,
    /// The dialect of the whole body, and the evidence for it.
    dialect: Dialect,
    clues: Clues,
    /// Reasoning after the user's last turn, in the messages that are left out.
    reasoning_tokens: u64,
    message_count: usize,
    /// Of its messages, and of those of the body that went on from it last; none if none has gone on lately.
    digests: Arc<[MessageDigest]>,
    /// Where they begin and end, likewise.
    places: Arc<[Place]>,
    /// Of its last bytes: another branch seldom ends alike.
    ending: Digest,
    /// Fingerprint of the beginning that it goes on from.
    before: Option<Digest>,
    /// Tools that need not be read again; later turns share them.
    pub tools: Option<Arc<KnownTools>>,
}

/// Known tools of a body, and where they stand in it.
pub(crate) type ToolsRange<'p> = (&'p Arc<KnownTools>, Range<usize>);

/// Where a message begins and ends.
type Place = (u32, u32);

/// The recorded beginning of a body, found by its bytes.
pub(crate) struct MatchedPrefix<'k> {
    pub prefix: BodyPrefix,
    /// Of what it begins with.
    bytes: Pieces<'k>,
}

impl MatchedPrefix<'_> {
    /// Digests of the first messages of a body with messages at `ranges`.
    pub(crate) fn digests(&self, ranges: &[Range<usize>]) -> &[MessageDigest] {
        let digests = first(&self.prefix.digests, self.prefix.message_count);
        let last = digests.len().checked_sub(1).and_then(|it| ranges.get(it));
        match last.is_some_and(|range| range.end == self.prefix.end) {
            true => digests,
            false => &[],
        }
    }

    /// Where the messages of `body` are, of which those that it begins with are not looked for; `None` if that
    /// is not clear.
    pub(crate) fn ranges(&self, digester: &Digester, body: &[u8]) -> Option<Vec<Range<usize>>> {
        let BodyPrefix { places, tools, .. } = &self.prefix;
        let places = first(places, self.prefix.message_count);
        let place =
            |(start, end): &Place| Some(usize::try_from(*start).ok()?..usize::try_from(*end).ok()?);
        let known = places.iter().map(place).collect::<Option<Vec<_>>>()?;
        let is_tail = |at: usize| {
            let tools = tools.as_ref();
            tools.is_some_and(|it| it.is_tail(digester, &body[at..]))
        };
        more_elements(body, &LISTS, known, MAX_MESSAGES, is_tail)
    }

    /// The fingerprint of a longer `beginning` of the same body, of which only what is new is read.
    pub(crate) fn fingerprint(&self, beginning: &[u8]) -> Option<Digest> {
        let mut bytes = self.bytes.clone();
        bytes.push(beginning.get(self.prefix.end..)?);
        Some(bytes.finish())
    }
}

impl BodyPrefix {
    /// The beginning of a body, read as `request`, up to the last of its messages at `ranges`; `None` if what comes
    /// later could depend on what is left out.
    ///
    /// `marks` has the fingerprint of the body up to a place, and that of its last bytes; `digests` are those of these
    /// messages, `prefixes` those of the context and of the first k messages; `reasoning` counts what a message has of it.
    pub(crate) fn new(
        marks: impl Fn(usize) -> (Digest, Digest),
        ranges: &[Range<usize>],
        request: &Request<'_>,
        (prefixes, digests): (&[Digest], &[MessageDigest]),
        tools: Option<Arc<KnownTools>>,
        reasoning: impl FnMut(&Message<'_>) -> u64,
    ) -> Option<BodyPrefix> {
        let messages = &request.messages[..ranges.len()];
        let last = messages.iter().rposition(|it| it.role != "tool")?;
        let stay = last.saturating_sub(1).max(1);
        let is_reasoning = |part: &Part<'_>| matches!(part, Part::Reasoning { .. });
        let begins_plainly = !messages[0].parts.iter().any(is_reasoning);
        let leaves_out = stay > 1 || tools.is_some();
        if !begins_plainly || messages.len() < 2 || !leaves_out {
            return None;
        }
        let turn = last_user_index(&messages[..stay]).unwrap_or(0);
        let place =
            |it: &Range<usize>| Some((u32::try_from(it.start).ok()?, u32::try_from(it.end).ok()?));
        let has_long_first = digests.first()?.note.is_long_first(ranges[0].len());
        let first = match has_long_first && last > stay {
            true => FIRST,
            false => &[],
        };
        let end = ranges.last()?.end;
        let (fingerprint, ending) = marks(end);
        Some(BodyPrefix {
            end,
            left_out: (
                if first.is_empty() {
                    ranges[0].end
                } else {
                    ranges[0].start
                },
                ranges[stay].start,
            ),
            first,
            fingerprint,
            context: prefixes[0],
            digest: prefixes[stay],
            dialect: request.dialect,
            clues: request.evidence.all,
            reasoning_tokens: messages[turn + 1..stay].iter().map(reasoning).sum(),
            message_count: digests.len(),
            ending,
            before: None,
            digests: digests.into(),
            places: ranges.iter().map(place).collect::<Option<_>>()?,
            tools,
        })
    }

    /// The same, of a body that was read without the part that is `matched`.
    pub(crate) fn after(mut self, matched: Option<&MatchedPrefix<'_>>) -> BodyPrefix {
        let known = matched.map_or(Clues::default(), |it| it.prefix.clues);
        self.clues = self.clues.with(known);
        self.before = matched.map(|it| it.prefix.fingerprint);
        self
    }

    /// True if the whole of a body, which was read as `request` without the part that is known, has the recorded
    /// dialect: it is `given`, or no evidence in the body speaks for another.
    fn is_of_dialect(&self, request: &Request<'_>, given: Option<Dialect>) -> bool {
        let not_read = self.clues.without(request.evidence.all);
        let is_clear = given.is_some() || not_read.speak_for(self.dialect);
        is_clear && request.dialect == self.dialect
    }

    /// Gives `reading`, of a body that was shortened by this beginning, the prefixes of the whole body; false if
    /// another context or dialect stands around the messages.
    ///
    /// The recorded digest of the beginning takes the place of the prefix that ends with the first message.
    pub(crate) fn complete(&self, reading: &mut Reading<'_>, given: Option<Dialect>) -> bool {
        let request = &reading.request;
        let is_guessed = request.assumptions.contains("dialect_guessed");
        let is_same = self.is_of_dialect(request, given) && reading.prefixes[0] == self.context;
        let new = reading.digests.get(1..).filter(|_| is_same && !is_guessed);
        let Some(new) = new else { return false };
        let digester = &reading.tenant.digester;
        let rest = digester.chain(self.digest, new.iter().copied());
        reading.left_out_reasoning = self.reasoning_tokens;
        reading.prefixes.truncate(1);
        reading.prefixes.extend(rest);
        true
    }

    /// Bytes up to the end of its last message.
    pub(crate) fn len(&self) -> usize {
        self.end
    }

    /// `body` as one that begins with the same bytes; `None` if it does not.
    pub(crate) fn matched<'k>(
        self,
        digester: &'k Digester,
        body: &[u8],
    ) -> Option<MatchedPrefix<'k>> {
        let known = self.with_ending(digester, body)?;
        let mut bytes = digester.fingerprint_in_pieces(Kind::Body);
        bytes.push(known);
        let is_same = bytes.finish() == self.fingerprint;
        is_same.then_some(MatchedPrefix {
            prefix: self,
            bytes,
        })
    }

    /// The part of `body` that may be this beginning: its last bytes are the same.
    fn with_ending<'b>(&self, digester: &Digester, body: &'b [u8]) -> Option<&'b [u8]> {
        let known = body.get(..self.end)?;
        (ending(digester, known) == self.ending).then_some(known)
    }

    /// True if `body` begins with the same bytes.
    pub(crate) fn is_beginning(&self, digester: &Digester, body: &[u8]) -> bool {
        let known = self.with_ending(digester, body);
        known.is_some_and(|it| digester.fingerprint(Kind::Body, it) == self.fingerprint)
    }

    /// Of `body`, which begins with the same bytes, the tools that are known, and where they stand.
    pub(crate) fn tools_in(&self, digester: &Digester, body: &[u8]) -> Option<ToolsRange<'_>> {
        let tools = self.tools.as_ref()?;
        Some((tools, tools.place(digester, body, self.end)?))
    }

    /// `body`, which begins with the same bytes, without the messages that are left out and without these `tools`.
    pub(crate) fn shortened(&self, body: &[u8], tools: Option<&ToolsRange<'_>>) -> Vec<u8> {
        let (head, tail) = (&body[..self.left_out.0], self.left_out.1);
        let (first, last) = (self.first, &body[tail..]);
        match tools.map(|(_, range)| range) {
            None => [head, first, b",", last].concat(),
            Some(range) if range.start < tail => {
                let (head, behind) = (&head[..range.start], &head[range.end..]);
                [head, behind, first, b",", last].concat()
            }
            Some(range) => {
                let (last, behind) = (&body[tail..range.start], &body[range.end..]);
                [head, first, b",", last, behind].concat()
            }
        }
    }
}

/// The beginnings of recorded bodies, bounded; the least recently used go first.
pub(crate) struct BodyPrefixes {
    /// By the samples; unbounded, since a bounded cache takes all of its memory at once.
    by_samples: LruCache<Digest, Vec<BodyPrefix>>,
    bytes: usize,
    capacity_bytes: usize,
}

impl BodyPrefixes {
    /// Room for `capacity_bytes`, at least one key.
    pub(crate) fn new(capacity_bytes: usize) -> BodyPrefixes {
        BodyPrefixes {
            by_samples: LruCache::unbounded(),
            bytes: 0,
            capacity_bytes,
        }
    }

    /// Those that a body of these [`keys`] may begin with, the longest first: of the longest two keys that are known,
    /// since branches may have another key than what they branch from.
    pub(crate) fn candidates(&mut self, keys: &[Digest], body: &[u8]) -> Vec<BodyPrefix> {
        let mut found: Vec<BodyPrefix> = Vec::new();
        let mut key_count = 0;
        for key in keys.iter().rev() {
            let known = self.by_samples.get(key).into_iter().flatten();
            let count = found.len();
            found.extend(known.filter(|it| it.end <= body.len()).cloned());
            key_count += usize::from(found.len() > count);
            if key_count == 2 {
                break;
            }
        }
        found.sort_by_key(|prefix| usize::MAX - prefix.end);
        found
    }

    /// Remembers `prefix` of `body`.
    pub(crate) fn record(&mut self, digester: &Digester, body: &[u8], prefix: BodyPrefix) {
        let Some(key) = keys(digester, body, prefix.end / 2..prefix.end + 1).pop() else {
            return;
        };
        let known = self.by_samples.get_or_insert_mut(key, Vec::new);
        let weight_before = weight(known);
        known.retain(|it| it.fingerprint != prefix.fingerprint);
        for it in known.iter_mut() {
            (it.digests, it.places) = (Arc::default(), Arc::default());
            if Some(it.fingerprint) == prefix.before {
                it.digests = Arc::clone(&prefix.digests);
                it.places = Arc::clone(&prefix.places);
            }
        }
        // Of many branches the one that they branch from is used again, so it is not the one to go.
        known.sort_by_key(|it| Some(it.fingerprint) != prefix.before);
        known.truncate(PREFIXES_PER_KEY - 1);
        known.insert(0, prefix);
        self.bytes = (self.bytes + weight(known)).saturating_sub(weight_before);
        while self.bytes > self.capacity_bytes && self.by_samples.len() > 1 {
            let oldest = self.by_samples.pop_lru();
            self.bytes -= oldest.map_or(0, |(_, known)| weight(&known));
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.by_samples.clear();
        self.bytes = 0;
    }
}

/// The first `count` of `all`; none if there are fewer.
fn first<T>(all: &[T], count: usize) -> &[T] {
    all.get(..count).unwrap_or_default()
}

/// The digest of the last bytes of a beginning.
pub(crate) fn ending(digester: &Digester, beginning: &[u8]) -> Digest {
    digester.bytes(&beginning[beginning.len().saturating_sub(ENDING_BYTES)..])
}

/// Memory that a key with these prefixes is charged with; none if there are none.
fn weight(known: &[BodyPrefix]) -> usize {
    // The second may have those of the first.
    let digests = |it: &BodyPrefix| match Arc::ptr_eq(&it.digests, &known[0].digests) {
        true => 0,
        false => it.digests.len(),
    };
    let newest = known.first().map_or(0, |it| it.digests.len());
    let digests = newest + known.iter().map(digests).sum::<usize>();
    let message_bytes = size_of::<MessageDigest>() + size_of::<Place>();
    usize::from(!known.is_empty()) * KEY_BYTES + message_bytes * digests
}

/// The places where a recorded beginning of `body` may end, the likely ones first; none if it is as quickly read.
pub(crate) fn likely_ends(body: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let (all, usual) = (body.len() + 1, body.len() / MAX_GROWTH);
    let ends = (body.len() >= MIN_BYTES).then_some([usual..all, 0..usual]);
    ends.into_iter().flatten()
}

/// The keys by which `body` is looked up, up to each of the places of a sample at `ends`, in their order; `ends` are in it.
pub(crate) fn keys(digester: &Digester, body: &[u8], ends: Range<usize>) -> Vec<Digest> {
    let Some(head) = body.get(..HEAD_BYTES) else {
        return Vec::new();
    };
    let mut bytes = digester.bytes_in_pieces();
    bytes.push(head);
    let octaves = (HEAD_BYTES.ilog2()..=body.len().ilog2()).map(|power| 1_usize << power);
    let places = octaves.flat_map(|start| {
        (0..SAMPLES_PER_OCTAVE).map(move |nth| start + start / SAMPLES_PER_OCTAVE * nth)
    });
    let mut keys = Vec::new();
    for end in places.take_while(|end| *end < ends.end) {
        bytes.push(&body[end - SAMPLE_BYTES..end]);
        if ends.contains(&end) {
            keys.push(bytes.digest());
        }
    }
    keys
}
