//! Usage in a stream of server-sent events, rewritten as the bytes come.
//!
//! Only the digits of known usage fields change; every other byte stays, whatever the stream is.
//! Where the chunks are cut makes no difference. At most one event is held back, of at most
//! [`MAX_EVENT_BYTES`]; a longer one passes as it is and is counted.
//!
//! ```
//! use tokenctx::usage::scale::{Rounding, Scale};
//! use tokenctx::usage::sse::Rewriter;
//!
//! let scale = Scale::new(vec![(128_000, 200_000)], Rounding::Floor).unwrap();
//! let mut stream = Rewriter::new(scale, None);
//! assert_eq!(&*stream.push(b"data: {\"usage\":{\"input_tokens\":128}"), b"");
//! assert_eq!(&*stream.push(b"}\n\n"), b"data: {\"usage\":{\"input_tokens\":200}}\n\n");
//! ```
use crate::json::{Document, Limits};
use crate::usage::scale::Scale;
use crate::usage::{Change, InputSoFar, readable, response_changes, spliced};
use memchr::memchr2;
use memchr::memmem::Finder;
use std::borrow::Cow;
use std::ops::Range;

/// Longest event that is rewritten, without the blank line at its end.
pub const MAX_EVENT_BYTES: usize = 1 << 20;

pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The text that an event must contain to be looked at.
const USAGE_NAME: &[u8] = b"\"usage";
/// The text that follows on it in all but the last event of a stream of OpenAI.
const NULL: [&[u8]; 2] = [b"\":null", b"\": null"];

/// Rewrites one stream.
///
/// ```
/// use tokenctx::{Rewriter, Rounding, Scale};
///
/// let scale = Scale::new(vec![(128_000, 200_000)], Rounding::Floor).expect("it rises");
/// let mut stream = Rewriter::new(scale, None);
/// let event = stream.push(b"data: {\"usage\":{\"input_tokens\":128}}\n\n");
/// assert_eq!(&*event, b"data: {\"usage\":{\"input_tokens\":200}}\n\n");
/// ```
pub struct Rewriter {
    scale: Scale,
    input: InputSoFar,
    lines: Lines,
    /// An event whose end has not come; it is all read.
    pending: Vec<u8>,
    /// In an event that is too long.
    is_passing: bool,
    /// The first event may begin with a byte order mark.
    is_first_event: bool,
    long_event_count: u64,
    first: Vec<Change>,
    last: Vec<Change>,
    usage_name: Finder<'static>,
}

impl Rewriter {
    /// A stream whose usage is scaled; in `message_start`, 0 input becomes `first_input_tokens`.
    pub fn new(scale: Scale, first_input_tokens: Option<u64>) -> Rewriter {
        Rewriter {
            scale,
            input: InputSoFar {
                first_input_tokens,
                ..InputSoFar::default()
            },
            lines: Lines::default(),
            pending: Vec::new(),
            is_passing: false,
            is_first_event: true,
            long_event_count: 0,
            first: Vec::new(),
            last: Vec::new(),
            usage_name: Finder::new(USAGE_NAME),
        }
    }

    /// The bytes that can be sent after the next ones have come: all events that are complete.
    ///
    /// Linear in the bytes; borrowed if they are sent as they came.
    pub fn push<'c>(&mut self, chunk: &'c [u8]) -> Cow<'c, [u8]> {
        if self.pending.is_empty() {
            let (out, sent) = self.events(chunk, 0);
            self.pending.extend_from_slice(&chunk[sent..]);
            return match out {
                Some(out) => Cow::Owned(out),
                None => Cow::Borrowed(&chunk[..sent]),
            };
        }
        let mut bytes = std::mem::take(&mut self.pending);
        let read = bytes.len();
        bytes.extend_from_slice(chunk);
        let (out, sent) = self.events(&bytes, read);
        let out = out.unwrap_or_else(|| bytes[..sent].to_vec());
        bytes.drain(..sent);
        self.pending = bytes;
        Cow::Owned(out)
    }

    /// The rest at the end of the stream: an event without a blank line behind it.
    pub fn finish(&mut self) -> Vec<u8> {
        let event = std::mem::take(&mut self.pending);
        let is_first = std::mem::take(&mut self.is_first_event);
        self.rewritten(&event, is_first).unwrap_or(event)
    }

    /// Events that passed because they were too long.
    pub fn long_event_count(&self) -> u64 {
        self.long_event_count
    }

    /// The numbers of the first event with usage.
    pub fn first(&self) -> &[Change] {
        &self.first
    }

    /// The numbers of the last event with usage, if that is not the first.
    pub fn last(&self) -> &[Change] {
        &self.last
    }

    /// The part that can be sent of `bytes`, which are read up to `at`, and how many of them that are; `None`
    /// if they are sent as they are.
    fn events(&mut self, bytes: &[u8], mut at: usize) -> (Option<Vec<u8>>, usize) {
        let mut out: Option<Vec<u8>> = None;
        let (mut event, mut copied) = (0, 0);
        while let Some((content_end, end)) = self.lines.event_end(bytes, at) {
            if let Some(rewritten) = self.close(&bytes[event..end], content_end - event) {
                let out = out.get_or_insert_with(|| Vec::with_capacity(bytes.len() + 64));
                out.extend_from_slice(&bytes[copied..event]);
                out.extend_from_slice(&rewritten);
                copied = end;
            }
            (event, at) = (end, end);
        }
        if !self.is_passing && bytes.len() - event > MAX_EVENT_BYTES {
            self.is_passing = true;
            self.long_event_count += 1;
        }
        let sent = if self.is_passing { bytes.len() } else { event };
        if let Some(out) = &mut out {
            out.extend_from_slice(&bytes[copied..sent]);
        }
        (out, sent)
    }

    /// The event in the measure of the window, if that changes it.
    fn close(&mut self, event: &[u8], content_bytes: usize) -> Option<Vec<u8>> {
        let is_first = std::mem::take(&mut self.is_first_event);
        if std::mem::take(&mut self.is_passing) {
            return None;
        }
        if content_bytes > MAX_EVENT_BYTES {
            self.long_event_count += 1;
            return None;
        }
        self.rewritten(event, is_first)
    }

    fn has_usage(&self, event: &[u8]) -> bool {
        let mut places = self.usage_name.find_iter(event);
        places.any(|at| {
            let behind = &event[at + USAGE_NAME.len()..];
            !NULL.iter().any(|null| behind.starts_with(null))
        })
    }

    fn rewritten(&mut self, event: &[u8], is_first: bool) -> Option<Vec<u8>> {
        if !self.has_usage(event) {
            return None;
        }
        let mark = is_first && event.starts_with(BYTE_ORDER_MARK);
        let data = Data::of(event, if mark { BYTE_ORDER_MARK.len() } else { 0 });
        let text = readable(&data.bytes);
        let document = Document::parse(&text, &Limits::default()).ok()?;
        let mut changes = response_changes(document.root(), &self.scale, &mut self.input);
        if changes.is_empty() {
            return None;
        }
        for change in &mut changes {
            change.range = data.place(change.range.clone());
        }
        let rewritten = spliced(event, &changes);
        *(if self.first.is_empty() {
            &mut self.first
        } else {
            &mut self.last
        }) = changes;
        Some(rewritten)
    }
}

/// Where in a stream events end: at a blank line, after LF, CR or both.
pub(super) struct Lines {
    is_event_empty: bool,
    is_line_empty: bool,
    /// The last byte was CR: an LF that follows belongs to it.
    is_after_cr: bool,
}

impl Default for Lines {
    fn default() -> Lines {
        Lines {
            is_event_empty: true,
            is_line_empty: true,
            is_after_cr: false,
        }
    }
}

impl Lines {
    /// Where the next event's content ends and where the event does, reading from `at` on.
    pub(super) fn event_end(&mut self, bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
        if at < bytes.len() && std::mem::take(&mut self.is_after_cr) && bytes[at] == b'\n' {
            at += 1;
            if self.is_event_empty {
                return Some((at, at));
            }
        }
        while let Some(found) = memchr2(b'\n', b'\r', &bytes[at..]) {
            let line_end = at + found;
            let is_blank = self.is_line_empty && found == 0;
            at = line_end + 1;
            if bytes[line_end] == b'\r' {
                match bytes.get(at) {
                    Some(b'\n') => at += 1,
                    Some(_) => {}
                    None => self.is_after_cr = true,
                }
            }
            self.is_line_empty = true;
            self.is_event_empty = is_blank;
            if is_blank {
                return Some((line_end, at));
            }
        }
        if at < bytes.len() {
            (self.is_line_empty, self.is_event_empty) = (false, false);
        }
        None
    }
}

/// The data of an event: one line as it is, several joined by LF.
pub(super) struct Data<'e> {
    pub(super) bytes: Cow<'e, [u8]>,
    /// Where the last line begins: in the data and in the event.
    last: (usize, usize),
    /// Likewise the lines before it.
    others: Vec<(usize, usize)>,
}

impl<'e> Data<'e> {
    /// The data of the event that begins at `at`.
    pub(super) fn of(event: &'e [u8], mut at: usize) -> Data<'e> {
        let mut bytes: Option<Cow<'e, [u8]>> = None;
        let (mut last, mut others) = ((0, 0), Vec::new());
        while at < event.len() {
            let end = memchr2(b'\n', b'\r', &event[at..]).map_or(event.len(), |found| at + found);
            if let Some(value) = event[at..end].strip_prefix(b"data:") {
                let value = value.strip_prefix(b" ").unwrap_or(value);
                let joined = match bytes.take() {
                    None => Cow::Borrowed(value),
                    Some(before) => {
                        others.push(last);
                        Cow::Owned([&*before, value].join(&b'\n'))
                    }
                };
                last = (joined.len() - value.len(), end - value.len());
                bytes = Some(joined);
            }
            at = end + 1;
        }
        let bytes = bytes.unwrap_or_default();
        Data {
            bytes,
            last,
            others,
        }
    }

    /// Where in the event a range of the data is, which is within a line.
    fn place(&self, range: Range<usize>) -> Range<usize> {
        let (in_data, in_event) = if self.last.0 <= range.start {
            self.last
        } else {
            let is_begun = |line: &(usize, usize)| line.0 <= range.start;
            self.others[self.others.partition_point(is_begun) - 1]
        };
        let start = in_event + (range.start - in_data);
        start..start + range.len()
    }
}
