//! The documents of a stream as its bytes come: data of server-sent events, objects of JSON, or frames of AWS.
//!
//! A stream that begins with a brace or a bracket is JSON: an array of objects, objects one after the other, or one whole
//! body; one that begins with a zero is of frames, whose length comes first. Where the chunks are cut makes no difference. All is linear in the bytes and bounded: a document of more
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
use crate::usage::frames::Frames;
use crate::usage::runs::{Alike, Runs};
use crate::usage::sse::{BYTE_ORDER_MARK, Data, Lines};
use memchr::{memchr2, memchr3};
use std::sync::Arc;

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
    document_bytes: u64,
    has_lost: bool,
    runs: Runs,
    /// Comes behind what was given last.
    waiting: Option<Vec<u8>>,
}

enum Form {
    Events(Events),
    Objects(Objects),
    Frames(Frames),
}

impl Documents {
    /// The documents that are complete now. Linear in the bytes.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<Vec<u8>> {
        let mut at = 0;
        std::iter::from_fn(|| self.next(chunk, &mut at)).collect()
    }

    /// The next document of `chunk`, which is read up to `at`; `None` if all of it is read.
    ///
    /// A document in the middle of a run of alike ones ([`Documents::join`]) is kept.
    pub fn next(&mut self, chunk: &[u8], at: &mut usize) -> Option<Vec<u8>> {
        if let Some(document) = self.waiting.take() {
            return Some(document);
        }
        if *at == 0 {
            self.byte_count += chunk.len() as u64;
        }
        if self.form.is_none() {
            *at = chunk.len() - self.behind_head(&chunk[*at..]).len();
        }
        let mut form = self.form.take()?;
        let mut given = None;
        while given.is_none() && *at < chunk.len() {
            let mut keep = |document: &[u8]| given = self.given(document.trim_ascii());
            let is_whole = match &mut form {
                Form::Events(events) => events.next(chunk, at, &mut keep),
                Form::Objects(objects) => objects.next(chunk, at, &mut keep),
                Form::Frames(frames) => frames.next(chunk, at, &mut keep),
            };
            self.has_lost |= !is_whole;
        }
        self.form = Some(form);
        given
    }

    /// The members that may differ between documents of a run: the first document is given, of the others the
    /// differing members.
    pub fn join(&mut self, alike: Arc<Alike>) {
        self.runs.join(alike);
    }

    /// One document for all that were kept; it comes before those that are given later.
    pub fn kept(&mut self) -> Option<Vec<u8>> {
        self.runs.kept()
    }

    /// The documents that are to be read now that `document` is complete.
    fn given(&mut self, document: &[u8]) -> Option<Vec<u8>> {
        if is_empty(document) {
            return None;
        }
        if self.document_count >= FREE_DOCUMENTS + self.byte_count / LEAST_BYTES {
            self.has_lost = true;
            return None;
        }
        self.document_count += 1;
        self.document_bytes += document.len() as u64;
        if self.runs.takes(document) {
            return None;
        }
        let document = document.to_vec();
        Some(match self.runs.kept() {
            None => document,
            Some(kept) => {
                self.waiting = Some(document);
                kept
            }
        })
    }

    /// The data of a last event without a blank line behind it. An object that was cut is nothing, a frame that was
    /// cut no JSON.
    pub fn finish(&mut self) -> Option<Vec<u8>> {
        let events = match &mut self.form {
            Some(Form::Events(events)) => events,
            Some(Form::Frames(frames)) => return frames.finish(),
            _ => return None,
        };
        let event = std::mem::take(&mut events.pending);
        let document = Data::of(&event, 0).bytes.trim_ascii().to_vec();
        Some(document).filter(|document| !is_empty(document))
    }

    /// Bytes of all documents so far, but for what was dropped.
    pub fn document_bytes(&self) -> u64 {
        self.document_bytes
    }

    /// True if a document was dropped, for its length or for the number of others.
    pub fn has_lost(&self) -> bool {
        self.has_lost
    }

    /// True if nothing has come but white space.
    pub fn is_empty(&self) -> bool {
        self.form.is_none()
    }

    /// The text behind white space and a byte order mark; its first byte shows the form.
    fn behind_head<'c>(&mut self, chunk: &'c [u8]) -> &'c [u8] {
        for (at, &byte) in chunk.iter().enumerate() {
            if BYTE_ORDER_MARK.get(self.mark_bytes) == Some(&byte) {
                self.mark_bytes += 1;
            } else if !byte.is_ascii_whitespace() {
                self.form = Some(match byte {
                    b'[' | b'{' => Form::Objects(Objects::default()),
                    0 => Form::Frames(Frames::default()),
                    _ => Form::Events(Events::default()),
                });
                return &chunk[at..];
            }
        }
        &[]
    }
}

/// True if there is nothing to read: no data, or the word that ends streams of OpenAI.
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
    /// Gives the data of the next event if it is complete, and reads up to its end; false if it was too long.
    fn next(&mut self, chunk: &[u8], at: &mut usize, keep: &mut impl FnMut(&[u8])) -> bool {
        let (start, left) = (*at, chunk.len() - *at);
        let Some((_, end)) = self.lines.event_end(chunk, start) else {
            *at = chunk.len();
            if !self.is_dropping && self.pending.len() + left > MAX_DOCUMENT_BYTES {
                (self.pending, self.is_dropping) = (Vec::new(), true);
                return false;
            }
            if !self.is_dropping {
                self.pending.extend_from_slice(&chunk[start..]);
            }
            return true;
        };
        *at = end;
        let is_long = self.pending.len() + end - start > MAX_DOCUMENT_BYTES;
        if !std::mem::take(&mut self.is_dropping) && !is_long {
            if self.pending.is_empty() {
                keep(&Data::of(&chunk[start..end], 0).bytes);
            } else {
                self.pending.extend_from_slice(&chunk[start..end]);
                keep(&Data::of(&self.pending, 0).bytes);
            }
        }
        self.pending.clear();
        !is_long
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
    /// Gives the next object if it is complete, and reads up to its end; false if it was too long.
    fn next(&mut self, chunk: &[u8], at: &mut usize, keep: &mut impl FnMut(&[u8])) -> bool {
        let mut start = *at;
        *at += usize::from(std::mem::take(&mut self.is_escaped));
        while let Some(found) = self.next_mark(&chunk[*at..]) {
            *at += found + 1;
            match (chunk[*at - 1], self.is_string) {
                (b'\\', _) if *at < chunk.len() => *at += 1,
                (b'\\', _) => self.is_escaped = true,
                (b'"', is_string) => self.is_string = !is_string,
                (b'{', _) => {
                    if self.depth == 0 {
                        start = *at - 1;
                    }
                    self.depth += 1;
                }
                _ if self.depth == 1 => {
                    self.depth = 0;
                    return self.close(&chunk[start..*at], keep);
                }
                _ => self.depth = self.depth.saturating_sub(1),
            }
        }
        *at = chunk.len();
        if self.depth == 0 || self.is_dropping {
            return true;
        }
        let left = &chunk[start..];
        if self.pending.len() + left.len() > MAX_DOCUMENT_BYTES {
            (self.pending, self.is_dropping) = (Vec::new(), true);
            return false;
        }
        self.pending.extend_from_slice(left);
        true
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
