//! The documents of a stream as its bytes come: data of server-sent events, or objects of JSON.
//!
//! What begins with a brace or a bracket is JSON: an array of objects, objects one after the other, or one whole
//! body. Where the chunks are cut makes no difference. All is linear in the bytes and bounded: a document of more
//! than [`MAX_DOCUMENT_BYTES`] is dropped, and so is what comes behind [`FREE_DOCUMENTS`] documents as soon as
//! they have less than [`LEAST_BYTES`] on average. Events of models have hundreds; what parses them takes
//! microseconds for each.
//!
//! ```
//! use tokenctx::usage::events::Documents;
//!
//! let mut stream = Documents::default();
//! assert!(stream.push(b"data: {\"usage\":").is_empty());
//! assert_eq!(stream.push(b" 1}\n\n"), [b"{\"usage\": 1}"]);
//! ```
use crate::usage::sse::{BYTE_ORDER_MARK, Data, Lines};
use memchr::{memchr2, memchr3};

/// Longest document, and longest event with its other lines.
pub const MAX_DOCUMENT_BYTES: usize = 16 << 20;
/// Documents that are given whatever their size.
pub const FREE_DOCUMENTS: u64 = 4096;
/// Bytes of the stream that there must be for each document beyond those.
pub const LEAST_BYTES: u64 = 48;

/// Reads one stream.
#[derive(Default)]
pub struct Documents {
    form: Option<Form>,
    mark_bytes: usize,
    byte_count: u64,
    document_count: u64,
    has_lost: bool,
}

enum Form {
    Events(Events),
    Objects(Objects),
}

impl Documents {
    /// The documents that are complete now. Linear in the bytes.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<Vec<u8>> {
        self.byte_count += chunk.len() as u64;
        let mut found = Vec::new();
        let mut rest = chunk;
        if self.form.is_none() {
            rest = self.behind_head(chunk);
        }
        let (count, least) = (&mut self.document_count, self.byte_count / LEAST_BYTES);
        let has_lost = &mut self.has_lost;
        let mut keep = |document: &[u8]| {
            let document = document.trim_ascii();
            if is_empty(document) {
                return;
            }
            if *count >= FREE_DOCUMENTS + least {
                *has_lost = true;
                return;
            }
            *count += 1;
            found.push(document.to_vec());
        };
        let is_whole = match &mut self.form {
            None => true,
            Some(Form::Events(events)) => events.push(rest, &mut keep),
            Some(Form::Objects(objects)) => objects.push(rest, &mut keep),
        };
        self.has_lost |= !is_whole;
        found
    }

    /// The data of a last event without a blank line behind it. An object that was cut is nothing.
    pub fn finish(&mut self) -> Option<Vec<u8>> {
        let Some(Form::Events(events)) = &mut self.form else {
            return None;
        };
        let event = std::mem::take(&mut events.pending);
        let document = Data::of(&event, 0).bytes.trim_ascii().to_vec();
        Some(document).filter(|document| !is_empty(document))
    }

    /// Whether a document was dropped, for its length or for the number of others.
    pub fn has_lost(&self) -> bool {
        self.has_lost
    }

    /// Whether nothing has come but white space.
    pub fn is_empty(&self) -> bool {
        self.form.is_none()
    }

    /// What stands behind white space and a byte order mark; the first byte of it tells the form.
    fn behind_head<'c>(&mut self, chunk: &'c [u8]) -> &'c [u8] {
        for (at, &byte) in chunk.iter().enumerate() {
            if BYTE_ORDER_MARK.get(self.mark_bytes) == Some(&byte) {
                self.mark_bytes += 1;
            } else if !byte.is_ascii_whitespace() {
                self.form = Some(match byte {
                    b'[' | b'{' => Form::Objects(Objects::default()),
                    _ => Form::Events(Events::default()),
                });
                return &chunk[at..];
            }
        }
        &[]
    }
}

/// Whether there is nothing to read: no data, or the word that ends streams of OpenAI.
fn is_empty(document: &[u8]) -> bool {
    document.is_empty() || document == b"[DONE]"
}

/// Server-sent events.
#[derive(Default)]
struct Events {
    lines: Lines,
    /// An event whose end has not come; it is all read.
    pending: Vec<u8>,
    /// In an event that is too long.
    is_dropping: bool,
}

impl Events {
    /// Gives the data of complete events; whether all of them were short enough.
    fn push(&mut self, chunk: &[u8], keep: &mut impl FnMut(&[u8])) -> bool {
        let mut is_whole = true;
        let (mut event, mut at) = (0, 0);
        while let Some((_, end)) = self.lines.event_end(chunk, at) {
            if !std::mem::take(&mut self.is_dropping) {
                if self.pending.len() + end - event > MAX_DOCUMENT_BYTES {
                    is_whole = false;
                } else if self.pending.is_empty() {
                    keep(&Data::of(&chunk[event..end], 0).bytes);
                } else {
                    self.pending.extend_from_slice(&chunk[event..end]);
                    keep(&Data::of(&self.pending, 0).bytes);
                }
            }
            self.pending.clear();
            (event, at) = (end, end);
        }
        if !self.is_dropping {
            if self.pending.len() + chunk.len() - event > MAX_DOCUMENT_BYTES {
                (self.pending, self.is_dropping) = (Vec::new(), true);
                is_whole = false;
            } else {
                self.pending.extend_from_slice(&chunk[event..]);
            }
        }
        is_whole
    }
}

/// Objects of JSON, whatever stands between them.
#[derive(Default)]
struct Objects {
    /// The object whose end has not come, up to what is read.
    pending: Vec<u8>,
    depth: usize,
    is_string: bool,
    /// The last byte was a backslash in a string.
    is_escaped: bool,
    is_dropping: bool,
}

impl Objects {
    /// Gives complete objects; whether all of them were short enough.
    fn push(&mut self, chunk: &[u8], keep: &mut impl FnMut(&[u8])) -> bool {
        let (mut start, mut at, mut is_whole) = (0, 0, true);
        if std::mem::take(&mut self.is_escaped) && !chunk.is_empty() {
            at = 1;
        }
        while let Some(found) = self.next_mark(&chunk[at.min(chunk.len())..]) {
            at += found + 1;
            match (chunk[at - 1], self.is_string) {
                (b'\\', _) if at < chunk.len() => at += 1,
                (b'\\', _) => self.is_escaped = true,
                (b'"', is_string) => self.is_string = !is_string,
                (b'{', _) => {
                    if self.depth == 0 {
                        start = at - 1;
                    }
                    self.depth += 1;
                }
                _ if self.depth == 1 => {
                    self.depth = 0;
                    is_whole &= self.close(&chunk[start..at], keep);
                    start = at;
                }
                _ => self.depth = self.depth.saturating_sub(1),
            }
        }
        if self.depth == 0 || self.is_dropping {
            return is_whole;
        }
        let left = &chunk[start..];
        if self.pending.len() + left.len() > MAX_DOCUMENT_BYTES {
            (self.pending, self.is_dropping) = (Vec::new(), true);
            return false;
        }
        self.pending.extend_from_slice(left);
        is_whole
    }

    fn close(&mut self, end: &[u8], keep: &mut impl FnMut(&[u8])) -> bool {
        let is_long = self.pending.len() + end.len() > MAX_DOCUMENT_BYTES;
        if !std::mem::take(&mut self.is_dropping) && !is_long {
            if self.pending.is_empty() {
                keep(end);
            } else {
                self.pending.extend_from_slice(end);
                keep(&self.pending);
            }
        }
        self.pending.clear();
        !is_long
    }

    /// Where the next byte is that can begin or end an object or a string.
    fn next_mark(&self, bytes: &[u8]) -> Option<usize> {
        match self.is_string {
            true => memchr2(b'"', b'\\', bytes),
            false => memchr3(b'"', b'{', b'}', bytes),
        }
    }
}
