//! The binary event stream of AWS (`application/vnd.amazon.eventstream`), in which Bedrock streams.
//!
//! A frame is, in numbers of big-endian order: its length and that of its headers (4 bytes each), a CRC-32 of those
//! eight, the headers, a payload of JSON, a CRC-32 of all before it. An event becomes the document that the SDKs
//! make of it: `{"metadata": {...}}` of ConverseStream; of InvokeModelWithResponseStream the event of the model's own
//! API, which its payload holds as base64.
use crate::json::{Document, Limits};
use crate::media::decode_base64_head;

/// Longest frame; AWS's own limit is as high.
const MAX_FRAME_BYTES: usize = 16 << 20;
const PRELUDE_BYTES: usize = 12;
const CRC_BYTES: usize = 4;
/// What stands for a frame that cannot be read: no JSON, so a reader says that there was one.
const UNREADABLE: &[u8] = b"unreadable frame";

/// Reads frames as their bytes come.
#[derive(Default)]
pub(super) struct Frames {
    /// A frame whose end has not come.
    pending: Vec<u8>,
    /// Where the next frame begins is not known.
    is_lost: bool,
}

impl Frames {
    /// Gives the next frame if it is complete, and reads up to its end; false if it was too long.
    pub(super) fn next(
        &mut self,
        chunk: &[u8],
        at: &mut usize,
        keep: &mut impl FnMut(&[u8]),
    ) -> bool {
        if self.is_lost {
            *at = chunk.len();
            return true;
        }
        self.take(PRELUDE_BYTES, chunk, at);
        let Some(prelude) = self.pending.get(..PRELUDE_BYTES) else {
            return true;
        };
        let length = number(prelude, 0);
        let least = PRELUDE_BYTES + number(prelude, 4) + CRC_BYTES;
        if !is_sound(prelude) || length < least || length > MAX_FRAME_BYTES {
            let is_long = is_sound(prelude) && length > MAX_FRAME_BYTES;
            (self.pending, self.is_lost) = (Vec::new(), true);
            if !is_long {
                keep(UNREADABLE);
            }
            return !is_long;
        }
        self.take(length, chunk, at);
        if self.pending.len() == length {
            match is_sound(&self.pending) {
                true => keep(&document(&self.pending).unwrap_or_else(|| UNREADABLE.to_vec())),
                false => keep(UNREADABLE),
            }
            self.pending.clear();
        }
        true
    }

    /// A document that is no JSON if the stream ended inside of a frame.
    pub(super) fn finish(&mut self) -> Option<Vec<u8>> {
        let is_cut = !std::mem::take(&mut self.pending).is_empty();
        is_cut.then(|| UNREADABLE.to_vec())
    }

    /// Moves bytes of `chunk` behind what is pending, until that has `length`.
    fn take(&mut self, length: usize, chunk: &[u8], at: &mut usize) {
        let wanted = length.saturating_sub(self.pending.len());
        let end = chunk.len().min(*at + wanted);
        self.pending.extend_from_slice(&chunk[*at..end]);
        *at = end;
    }
}

/// The big-endian number of 4 bytes at `at`, which `bytes` has.
fn number(bytes: &[u8], at: usize) -> usize {
    bytes[at..at + 4]
        .iter()
        .fold(0, |number, &byte| number << 8 | usize::from(byte))
}

/// True if the last 4 bytes are the CRC-32 of those before.
fn is_sound(bytes: &[u8]) -> bool {
    let end = bytes.len() - CRC_BYTES;
    crc32fast::hash(&bytes[..end]) as usize == number(bytes, end)
}

/// The document of a whole frame; `None` if its headers or its payload are no event.
fn document(frame: &[u8]) -> Option<Vec<u8>> {
    let (headers, payload) =
        frame[PRELUDE_BYTES..frame.len() - CRC_BYTES].split_at_checked(number(frame, 4))?;
    let names = Names::of(headers)?;
    if let Some(name) = names.failure {
        return Some(format!(r#"{{"error":{{"type":"{}"}}}}"#, plain(name)?).into_bytes());
    }
    let name = plain(names.event?)?;
    if name == "chunk"
        && let Some(event) = wrapped(payload)
    {
        return Some(event);
    }
    let payload = match payload.trim_ascii() {
        [] => b"{}",
        payload => payload,
    };
    Some([format!(r#"{{"{name}":"#).as_bytes(), payload, b"}"].concat())
}

/// The event of a model's own API in the payload of a chunk.
fn wrapped(payload: &[u8]) -> Option<Vec<u8>> {
    let document = Document::parse(std::str::from_utf8(payload).ok()?, &Limits::default()).ok()?;
    let text = document.root().get("bytes")?.as_str()?;
    let event = decode_base64_head(text, payload.len());
    (!event.is_empty()).then_some(event)
}

/// A name that stands in JSON as it is.
fn plain(name: &[u8]) -> Option<&str> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    std::str::from_utf8(name)
        .ok()
        .filter(|name| !name.is_empty() && name.bytes().all(|byte| is_plain(&byte)))
}

/// The headers that say what a frame is.
#[derive(Default)]
struct Names<'h> {
    event: Option<&'h [u8]>,
    /// The name of an exception or the code of an error.
    failure: Option<&'h [u8]>,
}

impl<'h> Names<'h> {
    fn of(mut headers: &'h [u8]) -> Option<Names<'h>> {
        let mut names = Names::default();
        while let [length, rest @ ..] = headers {
            let (name, rest) = rest.split_at_checked(usize::from(*length))?;
            let (kind, rest) = rest.split_first()?;
            let (bytes, rest) = match kind {
                0 | 1 => (0, rest),
                2 => (1, rest),
                3 => (2, rest),
                4 => (4, rest),
                5 | 8 => (8, rest),
                6 | 7 => {
                    let (length, rest) = rest.split_first_chunk::<2>()?;
                    (usize::from(u16::from_be_bytes(*length)), rest)
                }
                9 => (16, rest),
                _ => return None,
            };
            let (value, rest) = rest.split_at_checked(bytes)?;
            match name {
                b":event-type" => names.event = Some(value),
                b":exception-type" | b":error-code" => names.failure = Some(value),
                _ => {}
            }
            headers = rest;
        }
        Some(names)
    }
}
