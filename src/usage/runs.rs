//! Events that differ from the one before them in a few words alone, kept as one.
//!
//! Most events of an answer are the same bytes again, but for a word of its text. Whoever reads events is given the
//! first of such a run. The words of those that follow are kept here, and given as one event as soon as another kind
//! of event comes or somebody asks. What may differ, and what must not be there, is said by [`Alike`]; all else of an
//! event has to be such that it may be read once or many times.
//!
//! ```
//! use tokenctx::usage::runs::{Alike, Runs};
//!
//! let mut runs = Runs::default();
//! runs.join(Alike::new(&["delta.text"], &[], &[], &[]).into());
//! assert!(!runs.takes(br#"{"delta":{"text":"It "}}"#));
//! assert!(runs.takes(br#"{"delta":{"text":"scatters "}}"#));
//! assert!(runs.takes(br#"{"delta":{"text":"light."}}"#));
//! assert_eq!(runs.kept().unwrap(), br#"{"delta":{"text":"scatters light."}}"#);
//! ```
use crate::json::{Anomalies, Document, Limits, array_items, object_members};
use memchr::memchr2;
use std::ops::Range;
use std::sync::Arc;

/// No run begins with a longer event.
const MAX_EVENT_BYTES: usize = 4 << 10;
/// Longest text of a run; then another begins.
const MAX_KEPT_BYTES: usize = 64 << 10;
/// Most digits of a number that may differ.
const MAX_DIGITS: usize = 15;
/// How deep below a member the latest numbers are looked for; none is deeper.
const MAX_LEVELS: usize = 4;

/// The members that may differ between events of a run.
#[derive(Debug, Default)]
pub struct Alike {
    root: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// A text that goes on with each event.
    Joined,
    /// A text or number that is not read.
    Ignored,
    /// Numbers in it replace those of the events before, if they are not 0.
    Latest,
    /// Null or empty, else it is no such event.
    Absent,
}

#[derive(Debug, Default)]
struct Place {
    rule: Option<Rule>,
    members: Vec<(Vec<u8>, Place)>,
}

impl Place {
    fn get(&self, key: &[u8]) -> Option<&Place> {
        let found = self.members.iter().find(|(name, _)| name == key);
        found.map(|(_, place)| place)
    }

    /// The place at the end of `path`, made if it is new.
    fn at(&mut self, path: &str) -> &mut Place {
        path.split('.').fold(self, |place, name| {
            let found = place.members.iter().position(|it| it.0 == name.as_bytes());
            let found = found.unwrap_or_else(|| {
                place.members.push((name.into(), Place::default()));
                place.members.len() - 1
            });
            &mut place.members[found].1
        })
    }
}

impl Alike {
    /// Paths of members, joined by dots; `0` is the only element of an array.
    pub fn new<T: AsRef<str>>(joined: &[T], ignored: &[T], latest: &[T], absent: &[T]) -> Alike {
        let mut root = Place::default();
        let rules = [Rule::Joined, Rule::Ignored, Rule::Latest, Rule::Absent];
        for (rule, paths) in rules.into_iter().zip([joined, ignored, latest, absent]) {
            for path in paths {
                root.at(path.as_ref()).rule = Some(rule);
            }
        }
        Alike { root }
    }
}

/// The events of one stream.
#[derive(Default)]
pub struct Runs {
    alike: Arc<Alike>,
    /// The last event that was not taken: a run may begin with it.
    first: Option<Vec<u8>>,
    run: Option<Run>,
    /// Of a run that is over.
    joined: Option<Vec<u8>>,
    /// Where an event has what may differ; kept for its memory.
    found: Vec<Range<usize>>,
}

struct Run {
    first: Vec<u8>,
    spans: Vec<Span>,
    kept_bytes: usize,
    has_kept: bool,
}

struct Span {
    /// In the first event; of a text without its quotes.
    range: Range<usize>,
    rule: Rule,
    is_text: bool,
    kept: Vec<u8>,
}

impl Runs {
    /// The members that may differ from the last event on.
    pub fn join(&mut self, alike: Arc<Alike>) {
        self.alike = alike;
        self.run = None;
    }

    /// True if `event` is kept: it is as the one before. If not, the kept ones come before it.
    pub fn takes(&mut self, event: &[u8]) -> bool {
        if let Some(first) = self.first.take() {
            self.run = Run::begun(first, &self.alike);
        }
        if let Some(run) = &mut self.run
            && run.is_next(event, &mut self.found)
        {
            run.keep(event, &self.found);
            return true;
        }
        self.joined = self.run.take().and_then(|mut run| run.joined());
        if !self.alike.root.members.is_empty() && event.len() <= MAX_EVENT_BYTES {
            self.first = Some(event.to_vec());
        }
        false
    }

    /// One event for all that were kept; `None` if there is nothing new in them.
    pub fn kept(&mut self) -> Option<Vec<u8>> {
        let joined = self.joined.take();
        joined.or_else(|| self.run.as_mut().and_then(Run::joined))
    }
}

impl Run {
    /// `None` if nothing in the event may differ, or if it must not be kept.
    fn begun(first: Vec<u8>, alike: &Alike) -> Option<Run> {
        let text = str::from_utf8(&first).ok()?;
        let document = Document::parse(text, &Limits::default()).ok()?;
        if document.anomalies() != Anomalies::default() {
            return None;
        }
        let mut spans = Vec::new();
        collect(&first, 0..first.len(), &alike.root, &mut spans)?;
        let is_text = |span: &Span| span.is_text;
        spans.iter().any(is_text).then_some(Run {
            first,
            spans,
            kept_bytes: 0,
            has_kept: false,
        })
    }

    /// True if `event` differs only where it may; then `found` has where.
    fn is_next(&self, event: &[u8], found: &mut Vec<Range<usize>>) -> bool {
        found.clear();
        let (mut at, mut same) = (0, 0);
        for span in &self.spans {
            let piece = &self.first[same..span.range.start];
            if !event[at..].starts_with(piece) {
                return false;
            }
            at += piece.len();
            let bytes = match span.is_text {
                true => text_bytes(&event[at..]),
                false => number_bytes(&event[at..]),
            };
            let Some(bytes) = bytes else {
                return false;
            };
            found.push(at..at + bytes);
            (at, same) = (at + bytes, span.range.end);
        }
        event[at..] == self.first[same..] && self.kept_bytes + event.len() <= MAX_KEPT_BYTES
    }

    fn keep(&mut self, event: &[u8], found: &[Range<usize>]) {
        for (span, place) in self.spans.iter_mut().zip(found) {
            if span.rule == Rule::Joined {
                self.kept_bytes += place.len();
            } else {
                span.kept.clear();
            }
            span.kept.extend_from_slice(&event[place.clone()]);
            self.has_kept |= span.rule != Rule::Ignored;
        }
    }

    /// The first event with what was kept in place of its own; nothing is kept any more.
    fn joined(&mut self) -> Option<Vec<u8>> {
        if !std::mem::take(&mut self.has_kept) {
            return None;
        }
        let mut event = Vec::with_capacity(self.first.len() + self.kept_bytes);
        let mut same = 0;
        for span in &mut self.spans {
            event.extend_from_slice(&self.first[same..span.range.start]);
            same = span.range.end;
            event.append(&mut span.kept);
        }
        event.extend_from_slice(&self.first[same..]);
        self.kept_bytes = 0;
        Some(event)
    }
}

/// Finds what may differ in the value at `range` of a JSON text; `None` if it must not be kept.
fn collect(text: &[u8], range: Range<usize>, place: &Place, spans: &mut Vec<Span>) -> Option<()> {
    let value = &text[range.clone()];
    match (place.rule, value.first()?) {
        (Some(Rule::Joined | Rule::Ignored), b'"') => spans.push(Span {
            range: range.start + 1..range.end - 1,
            rule: place.rule?,
            is_text: true,
            kept: Vec::new(),
        }),
        (Some(Rule::Ignored), _) => collect_number(value, range, Rule::Ignored, spans),
        (Some(Rule::Latest), _) => collect_numbers(text, range, MAX_LEVELS, spans)?,
        (Some(Rule::Joined | Rule::Absent), _) => {
            let is_nothing = value == b"null" || value == b"[]" || value == b"{}";
            return is_nothing.then_some(());
        }
        (None, b'{') => {
            for (key, member) in object_members(value)? {
                if let Some(place) = place.get(key) {
                    let member = range.start + member.start..range.start + member.end;
                    collect(text, member, place, spans)?;
                }
            }
        }
        (None, b'[') => {
            if let Some(place) = place.get(b"0") {
                let items = array_items(value)?;
                if let [item] = items.as_slice() {
                    let item = range.start + item.start..range.start + item.end;
                    return collect(text, item, place, spans);
                }
                return items.is_empty().then_some(());
            }
        }
        (None, _) => {}
    }
    Some(())
}

/// The numbers of an object, of those in it, and in lists of such.
fn collect_numbers(
    text: &[u8],
    range: Range<usize>,
    levels: usize,
    spans: &mut Vec<Span>,
) -> Option<()> {
    let value = &text[range.clone()];
    let inner: Vec<_> = match value.first()? {
        _ if levels == 0 => return Some(()),
        b'{' => {
            let members = object_members(value)?.into_iter();
            members.map(|(_, member)| member).collect()
        }
        b'[' => array_items(value)?,
        _ => {
            collect_number(value, range, Rule::Latest, spans);
            return Some(());
        }
    };
    inner.into_iter().try_for_each(|it| {
        let inside = range.start + it.start..range.start + it.end;
        collect_numbers(text, inside, levels - 1, spans)
    })
}

fn collect_number(value: &[u8], range: Range<usize>, rule: Rule, spans: &mut Vec<Span>) {
    if number_bytes(value) == Some(value.len()) {
        spans.push(Span {
            range,
            rule,
            is_text: false,
            kept: Vec::new(),
        });
    }
}

/// Bytes of a text up to its closing quote, if it is valid wherever it is cut: a surrogate may belong to
/// one before or behind it.
fn text_bytes(bytes: &[u8]) -> Option<usize> {
    let mut end = 0;
    loop {
        end += memchr2(b'"', b'\\', &bytes[end..])?;
        if bytes[end] == b'"' {
            break;
        }
        end += match bytes.get(end + 1)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 2,
            b'u' => unit_bytes(bytes.get(end + 2..end + 6)?)?,
            _ => return None,
        };
    }
    let text = &bytes[..end];
    let has_control = text.iter().any(|&byte| byte < b' ');
    (!has_control && str::from_utf8(text).is_ok()).then_some(end)
}

/// Bytes of an escape with these digits, if it is a character alone.
fn unit_bytes(digits: &[u8]) -> Option<usize> {
    let is_surrogate = matches!(
        digits,
        [b'd' | b'D', b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F', ..]
    );
    let is_unit = digits.iter().all(u8::is_ascii_hexdigit);
    (is_unit && !is_surrogate).then_some(6)
}

/// Digits that the bytes begin with: a number above 0.
fn number_bytes(bytes: &[u8]) -> Option<usize> {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit());
    let count = digits.count();
    (matches!(bytes.first(), Some(b'1'..=b'9')) && count <= MAX_DIGITS).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::{Alike, Runs};

    fn runs() -> Runs {
        let mut runs = Runs::default();
        let alike = Alike::new(&["a.0.text"], &["id"], &["usage"], &["b"]);
        runs.join(alike.into());
        runs
    }

    /// The documents that are given for `events`, in order.
    fn given(events: &[&str]) -> Vec<String> {
        let (mut runs, mut given) = (runs(), Vec::new());
        for event in events {
            if !runs.takes(event.as_bytes()) {
                given.extend(runs.kept());
                given.push(event.as_bytes().to_vec());
            }
        }
        given.extend(runs.kept());
        let text = |bytes| String::from_utf8(bytes).expect("the events are text");
        given.into_iter().map(text).collect()
    }

    #[test]
    fn texts_are_joined_numbers_replaced_and_the_rest_is_as_in_the_first() {
        let event = |id, text, number| {
            format!(r#"{{"id":"{id}","a":[{{"text":"{text}"}}],"usage":{{"n":{number}}}}}"#)
        };
        let events = [
            event("1", r"\n", 3),
            event("22", r"a\u20ac", 41),
            event("3", "b", 50),
        ];
        let texts = events.each_ref().map(String::as_str);
        assert_eq!(
            given(&texts),
            [events[0].clone(), event("3", r"a\u20acb", 50)]
        );
        let zero = event("1", "c", 0);
        assert_eq!(given(&[texts[0], &zero]), [texts[0], zero.as_str()]);
    }

    #[test]
    fn what_is_not_alike_is_given_as_it_is() {
        let first = r#"{"a":[{"text":"x"}]}"#;
        for other in [
            r#"{"a":[{"text":"x"}] }"#,
            r#"{"a":[{"text":"\ud83d"}]}"#,
            r#"{"a":[{"text":"\x"}]}"#,
            r#"{"a":[{"text":"\u00g0"}]}"#,
            "{\"a\":[{\"text\":\"\n\"}]}",
            r#"{"a":[{"text":"x"#,
            r#"{"a":[{"text":null}]}"#,
            r#"{"a":[]}"#,
        ] {
            assert_eq!(given(&[first, other, first]), [first, other, first]);
        }
    }

    #[test]
    fn no_run_begins_with_what_may_not_be_read_twice() {
        for event in [
            r#"{"a":[{"text":"x"},{"text":"y"}]}"#,
            r#"{"a":[{"text":"x"}],"b":[1]}"#,
            r#"{"a":[{"text":["x"]}]}"#,
            r#"{"a":[{"text":"x","text":"y"}]}"#,
            r#"{"a":[{"text":"x"}]"#,
            r#"{"a":[],"usage":{"n":1}}"#,
            "7",
        ] {
            assert_eq!(given(&[event, event, event]), [event, event, event]);
        }
    }

    #[test]
    fn a_run_is_given_before_it_is_too_long() {
        let text = "y".repeat(1000);
        let event = format!(r#"{{"a":[{{"text":"{text}"}}]}}"#);
        let found = given(&vec![event.as_str(); 200]);
        let lengths: usize = found.iter().map(|it| it.matches('y').count()).sum();
        assert_eq!(lengths, 200_000);
        assert!(found.len() < 10);
    }
}
