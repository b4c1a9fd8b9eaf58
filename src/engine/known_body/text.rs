//! A long text that many conversations begin with, as a system prompt: its middle is read once.
//!
//! It is most of a body, stands in the context or in the first message, and is found by its fingerprint, wherever it stands.
//! A body is read without its middle. What is read then has another context or first message, whose identity tells
//! that it is the recorded one, and a count that lacks a known number of tokens. How the shortened body is read and
//! counted was tried when the whole was recorded, so nothing is assumed of the text.
use crate::count::Counter;
use crate::engine::input::Call;
use crate::engine::reading::{Reader, Reading, request_in};
use crate::json::{Document, Limits};
use crate::known::digest::{Digest, Digester};
use crate::known::fingerprint::Kind;
use lru::LruCache;
use memchr::{memchr_iter, memrchr_iter};
use std::ops::Range;

/// A shorter text is as quickly read.
const LEAST_BYTES: usize = 16 << 10;

/// Bytes of the text that stay, at its beginning and at its end: layouts look at those.
const KEPT_BYTES: usize = 1 << 10;

/// Plain letters stand on either side of a cut, so that it parts no escape.
const LETTERS_AT_CUT: usize = 12;

/// Memory that a text is charged with.
const TEXT_BYTES: usize = 384;

/// The string that is most of a body, and its middle.
pub(crate) struct LongText {
    text: Range<usize>,
    middle: Range<usize>,
}

impl LongText {
    /// `None` if there is none, or if it is as quickly read. Linear in the text.
    pub(crate) fn of(body: &[u8]) -> Option<LongText> {
        let text = middle_string(body)?;
        if text.len() < LEAST_BYTES || 2 * text.len() < body.len() {
            return None;
        }
        let (first, last) = (text.start + KEPT_BYTES, text.end - 2 * KEPT_BYTES);
        let cut = |from: usize| (from..from + KEPT_BYTES).find(|at| is_plain_at(body, *at));
        let middle = cut(first)?..cut(last)?;
        Some(LongText { text, middle })
    }

    /// The fingerprint of the text.
    pub(crate) fn fingerprint(&self, digester: &Digester, body: &[u8]) -> Digest {
        digester.fingerprint(Kind::LongText, &body[self.text.clone()])
    }

    /// `body` without the middle of the text.
    pub(crate) fn without(&self, body: &[u8]) -> Vec<u8> {
        [&body[..self.middle.start], &body[self.middle.end..]].concat()
    }
}

/// The identities of the context and of the first message.
type Identities = (Digest, Digest);

/// A long text of a recorded body, and what a request lacks that is read without its middle.
#[derive(Clone, Debug)]
pub(crate) struct KnownText {
    fingerprint: Digest,
    is_context: bool,
    family: u64,
    options: u64,
    short: Identities,
    whole: Identities,
    any_family: u64,
    tokens: u64,
}

impl KnownText {
    /// The long text of `body`, which was read as `whole`; `None` if there is none, or if without its middle more than
    /// one count and one identity is another.
    pub(crate) fn new(
        reader: &Reader,
        body: &[u8],
        call: &Call<'_>,
        whole: &Reading<'_>,
    ) -> Option<KnownText> {
        let text = LongText::of(body)?;
        let (tenant, known) = (&whole.tenant, Measured::of(whole)?);
        let shortened = text.without(body);
        let document = Document::from_bytes(&shortened, &Limits::default()).ok()?;
        let request = request_in(&document, call, tenant).ok()?;
        let short = reader.identify(&document, request, call, tenant, &[], None);
        let found = Measured::of(&short)?;
        let is_context = known.identities.0 != found.identities.0;
        let is_first = known.identities.1 != found.identities.1;
        let context = known.context.checked_sub(found.context)?;
        let first = known.first.checked_sub(found.first)?;
        let is_one = match is_context {
            true => !is_first && first == 0,
            false => is_first && context == 0,
        };
        let is_same = known.rest == found.rest && whole.digests[1..] == short.digests[1..];
        (is_one && is_same).then(|| KnownText {
            fingerprint: text.fingerprint(&tenant.digester, body),
            is_context,
            family: whole.family,
            options: whole.options,
            short: found.identities,
            whole: known.identities,
            any_family: whole.any_family(),
            tokens: context + first,
        })
    }

    /// Gives `reading`, of a body that was shortened by this text, the identity of the whole; false if it is none that
    /// was tried.
    pub(crate) fn complete(&self, reading: &mut Reading<'_>) -> bool {
        let Some(first) = reading.digests.first_mut() else {
            return false;
        };
        let is_first = self.is_context || *first == self.short.1;
        let is_context = reading.prefixes[0] == self.short.0;
        let is_same = (reading.family, reading.options) == (self.family, self.options);
        if !is_first || !is_context || !is_same {
            return false;
        }
        if self.is_context {
            reading.left_out.context = self.tokens;
            reading.known_context = Some(self.any_family);
        } else {
            *first = self.whole.1;
            reading.left_out.first = self.tokens;
        }
        let digests = reading.digests.iter().copied();
        reading.prefixes = reading.tenant.digester.chain(self.whole.0, digests);
        is_plain(reading)
    }
}

/// True if nothing in the request depends on more than single texts.
fn is_plain(reading: &Reading<'_>) -> bool {
    let request = &reading.request;
    let has_later_tools = !request.deferred_tools.is_empty() || !request.added_tools.is_empty();
    request.is_plain()
        && request.edits.is_empty()
        && reading.edited.is_none()
        && !reading.has_custom_vocabulary()
        && !has_later_tools
        && !request.has_media_level
}

/// What a request is, as far as a text in its context or first message may change it.
struct Measured {
    identities: Identities,
    context: u64,
    first: u64,
    /// All else that is said of these counts.
    rest: String,
}

impl Measured {
    /// `None` if something was assumed, or if there is no message.
    fn of(reading: &Reading<'_>) -> Option<Measured> {
        let request = &reading.request;
        let count = |counter: &mut Counter<'_>| {
            let context = counter.context(request);
            let first = counter.messages_where(&request.messages, |index| index == 0);
            (context, first.sum())
        };
        let ((context, first), counter) = reading.counted(count);
        let is_sure = request.assumptions.is_empty() && counter.assumptions().is_empty();
        let (tally, is_text) = (counter.tally(), counter.counted_only_text());
        let options = (reading.options, reading.options_tokens());
        (is_plain(reading) && is_sure).then_some(Measured {
            identities: (reading.prefixes[0], *reading.digests.first()?),
            context,
            first,
            rest: format!("{tally:?} {is_text} {options:?} {:?}", request.dialect),
        })
    }
}

/// The place of the string in which the middle of `body` is, without its quotes. Linear in that string.
fn middle_string(body: &[u8]) -> Option<Range<usize>> {
    let is_quote = |at: usize| {
        let backslashes = body[..at].iter().rev().take_while(|byte| **byte == b'\\');
        backslashes.count() % 2 == 0
    };
    let (before, behind) = body.split_at(body.len() / 2);
    let open = memrchr_iter(b'"', before).find(|at| is_quote(*at))?;
    let mut quotes = memchr_iter(b'"', behind).map(|at| before.len() + at);
    Some(open + 1..quotes.find(|at| is_quote(*at))?)
}

/// True if plain letters stand around this place.
fn is_plain_at(body: &[u8], at: usize) -> bool {
    let around = &body[at - LETTERS_AT_CUT..at + LETTERS_AT_CUT];
    let is_plain = |byte: &u8| byte.is_ascii() && !byte.is_ascii_control() && *byte != b'\\';
    around.iter().all(is_plain)
}

/// Long texts by their fingerprints, bounded; the least recently used go first.
pub(crate) struct KnownTexts {
    /// Unbounded, since a bounded cache takes all of its memory at once.
    by_fingerprint: LruCache<Digest, KnownText>,
    capacity: usize,
}

impl KnownTexts {
    /// Room for `capacity_bytes`, at least one text.
    pub(crate) fn new(capacity_bytes: usize) -> KnownTexts {
        KnownTexts {
            by_fingerprint: LruCache::unbounded(),
            capacity: (capacity_bytes / TEXT_BYTES).max(1),
        }
    }

    /// The text of this fingerprint.
    pub(crate) fn find(&mut self, fingerprint: Digest) -> Option<KnownText> {
        self.by_fingerprint.get(&fingerprint).cloned()
    }

    /// Remembers `text`.
    pub(crate) fn record(&mut self, text: KnownText) {
        self.by_fingerprint.put(text.fingerprint, text);
        if self.by_fingerprint.len() > self.capacity {
            self.by_fingerprint.pop_lru();
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.by_fingerprint.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_string_in_the_middle_is_cut_in_plain_letters() {
        assert_eq!(middle_string(br#"{"a":"b\"c\\","d":1}"#), Some(6..12));
        assert_eq!(middle_string(br#"{"a":"bbbbbbbb"#), None);
        assert_eq!(middle_string(b"[1, 2]"), None);
        let text = r#"many plain letters in a row\n and \"quotes\" "#.repeat(1000);
        let body = format!(r#"{{"system":"{text}"}}"#);
        let middle = LongText::of(body.as_bytes()).expect("it is long");
        assert_eq!(&body[middle.text.clone()], text);
        let short = middle.without(body.as_bytes());
        assert!(short.len() < 5000);
        assert!(Document::from_bytes(&short, &Limits::default()).is_ok());
        let escapes = format!(r#"{{"system":"{}"}}"#, r"\n".repeat(20_000));
        assert!(LongText::of(escapes.as_bytes()).is_none());
        let half = format!(r#"{{"system":"{text}","user":"{text}and more"}}"#);
        assert!(LongText::of(half.as_bytes()).is_none());
    }
}
