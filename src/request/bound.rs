//! How many messages, parts and tools a request may have, and what is noted while they are read.
//!
//! No provider takes as many, and each costs some hundred bytes here, however few bytes of the body it
//! takes: so a body is refused that has more, before they are made.
use super::model::{Assumptions, Part};
use crate::Error;
use crate::error::Items;
use crate::json::{Kind, Value};

/// Messages of a request. Anthropic documents the same limit; others fill their window before.
pub const MAX_MESSAGES: usize = 100_000;

/// Parts of all messages and of the system prompt, those inside of results among them.
pub const MAX_PARTS: usize = 200_000;

/// Tool definitions of a request, deferred ones too. OpenAI takes 128, a tool search 10,000.
pub const MAX_TOOLS: usize = 10_000;

/// Shorter texts are looked at letter by letter, and hashed only for who asks for their identity.
pub(crate) const MIN_HASHED_BYTES: usize = 64 << 10;

/// BLAKE3 of what base64 text stands for, by who may know it; `None` if the text is no base64.
pub(crate) struct MediaHasher(pub(crate) Box<HashOf>);

type HashOf = dyn Fn(&str) -> Option<[u8; 32]>;

impl std::fmt::Debug for MediaHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MediaHasher(..)")
    }
}

/// Fails if there are more than `limit`.
fn at_most(limit: usize, what: Items, count: usize) -> Result<(), Error> {
    match count <= limit {
        true => Ok(()),
        false => Err(Error::TooMany { what, limit }),
    }
}

/// Fails if the list of messages in `value` has too many; anything else is one message.
pub(super) fn check_messages(value: Option<Value<'_>>) -> Result<(), Error> {
    let list = value.filter(|value| value.kind() == Kind::Array);
    at_most(MAX_MESSAGES, Items::Messages, list.map_or(0, Value::len))
}

/// Fails if so many definitions of tools are too many.
pub(super) fn check_tools(count: usize) -> Result<(), Error> {
    at_most(MAX_TOOLS, Items::Tools, count)
}

/// Notes taken while a request or a reply is read.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// The assumptions so far.
    pub(super) assumptions: Assumptions,
    /// Hashes media on reading, if their identity will be asked for.
    pub(super) media_hasher: Option<MediaHasher>,
    /// Parts that were read.
    part_count: usize,
}

impl Notes {
    pub(super) fn new(assumptions: Assumptions, media_hasher: Option<MediaHasher>) -> Notes {
        Notes {
            assumptions,
            media_hasher,
            part_count: 0,
        }
    }

    /// Notes that `name` had to be assumed.
    pub(super) fn insert(&mut self, name: &'static str) {
        self.assumptions.insert(name);
    }

    /// True if `name` was assumed.
    pub(super) fn has(&self, name: &str) -> bool {
        self.assumptions.contains(name)
    }

    /// Appends `part` to `parts`, unless there are too many already: then only their number is kept.
    pub(super) fn push<'d>(&mut self, parts: &mut Vec<Part<'d>>, part: Part<'d>) {
        self.part_count += 1;
        if self.part_count > MAX_PARTS {
            return;
        }
        if parts.is_empty() {
            // Most messages have one part; room for four would be most of what a message takes.
            parts.reserve_exact(1);
        }
        parts.push(part);
    }

    /// The assumptions; fails if there were too many parts.
    pub(super) fn finish(self) -> Result<Assumptions, Error> {
        at_most(MAX_PARTS, Items::Parts, self.part_count)?;
        Ok(self.assumptions)
    }
}
