//! A note beside the digest of a message: which empty message may stand in its place.
use crate::known::digest::Digest;
use crate::request::{Clues, Dialect, MediaKind, Message, Part, Signature, ToolResult};

/// A message that has more parts for its bytes is always read: there is a limit of parts.
const LEAST_PART_BYTES: usize = 128;

/// A shorter first message of the user is read: layouts look at a system prompt there.
const LONG_BYTES: usize = 16 << 10;

/// A message that is known by its JSON text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageDigest {
    pub digest: Digest,
    pub note: Note,
}

/// Roles of messages that others stand in for; the last is of a user's message that has results.
const ROLES: [&str; 6] = ["user", "assistant", "tool", "system", "developer", "user"];
const TOOL_ROLE: usize = 2;
const RESULT_ROLE: usize = 5;
const ROLE_BITS: u32 = 3;

/// The number of blocks of content is above the number of role and dialect.
const BLOCK_SHIFT: u32 = 8;

/// The role and dialect of the message that may stand in, 0 if none may; and above them the blocks of content, 0 if
/// they are not known, or if a cache marker stands among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Note(pub(crate) u16);

impl Note {
    pub(crate) const NONE: Note = Note(0);

    /// For `message` with these `clues` and a text of `byte_count` bytes, in a request of this `dialect`.
    pub(crate) fn of(
        message: &Message<'_>,
        clues: Clues,
        dialect: Dialect,
        byte_count: usize,
    ) -> Note {
        let parts = &message.parts;
        let has_results = parts.iter().any(|it| matches!(it, Part::ToolResult(_)));
        let role = match &*message.role {
            "user" if has_results => Some(RESULT_ROLE),
            role => ROLES.iter().position(|name| *name == role),
        };
        let is_plain = message.has_role && message.signature == Signature::default();
        let is_plain = is_plain && clues.speak_for(dialect) && message.unread.is_empty();
        let most_parts = 1 + byte_count / LEAST_PART_BYTES;
        let number = Dialect::ALL.iter().position(|it| *it == dialect);
        match (role, number) {
            (Some(role), Some(number)) if is_plain && plain_count(parts) <= Some(most_parts) => {
                let number = u8::try_from((number << ROLE_BITS | role) + 1);
                number.map_or(Note::NONE, |it| Note(it.into()))
            }
            _ => Note::NONE,
        }
    }

    /// True if another may stand in for a message of the user that is first and has `byte_count` bytes.
    pub(crate) fn is_long_first(self, byte_count: usize) -> bool {
        let is_user = self.role().is_some_and(|role| ROLES[role] == "user");
        is_user && byte_count >= LONG_BYTES
    }

    /// The same for a message without a cache marker that has this number of `blocks`.
    pub(crate) fn with_blocks(self, blocks: u64) -> Note {
        let known = u8::try_from(blocks).ok().filter(|_| self != Note::NONE);
        Note(self.0 | u16::from(known.unwrap_or_default()) << BLOCK_SHIFT)
    }

    /// Blocks of a message without a cache marker, if they are known.
    pub(crate) fn blocks(self) -> Option<u64> {
        Some(u64::from(self.0 >> BLOCK_SHIFT)).filter(|it| *it > 0)
    }

    fn number(self) -> Option<usize> {
        let [number, _] = self.0.to_le_bytes();
        usize::from(number).checked_sub(1)
    }

    pub(crate) fn role(self) -> Option<usize> {
        let number = self.number()?;
        Some(number & ((1 << ROLE_BITS) - 1)).filter(|role| *role < ROLES.len())
    }

    pub(crate) fn dialect(self) -> Option<Dialect> {
        Dialect::ALL.get(self.number()? >> ROLE_BITS).copied()
    }

    pub(crate) fn is_tool(self) -> bool {
        self.role() == Some(TOOL_ROLE)
    }
}

/// How many parts there are, those of results too; `None` if a request may depend on one of them.
fn plain_count(parts: &[Part<'_>]) -> Option<usize> {
    parts.iter().try_fold(0, |count: usize, part| {
        let inner = match part {
            Part::Text(text) => text.documents().is_empty().then_some(0),
            Part::ToolCall(call) => (!call.is_run_by_vendor).then_some(0),
            Part::ToolResult(result) => plain_count(&result.parts),
            Part::Media(media) => (media.kind == MediaKind::Image).then_some(0),
            Part::Data(_) => Some(0),
            Part::Reasoning { .. } | Part::Summary { .. } => None,
        };
        Some(count + 1 + inner?)
    })
}

/// A message of this role, in place of one that no count looks at.
pub(crate) fn stand_in<'d>(note: Note) -> Message<'d> {
    let role = note.role().unwrap_or_default();
    let result = || {
        Part::ToolResult(ToolResult {
            name: "".into(),
            parts: Vec::new(),
            is_error: false,
            call_id: "".into(),
            is_legacy: false,
        })
    };
    let has_result = role == RESULT_ROLE || role == TOOL_ROLE;
    Message {
        role: ROLES[role].into(),
        name: "".into(),
        parts: has_result.then(result).into_iter().collect(),
        has_role: true,
        signature: Signature::default(),
        unread: Vec::new(),
        is_dropped: false,
    }
}

/// The first message that may be looked at to count what follows the first `count`: the one before their last
/// that is no result.
pub(crate) fn first_looked_at(count: usize, is_tool: impl Fn(usize) -> bool) -> usize {
    let last = (0..count).rev().find(|index| !is_tool(*index));
    last.map_or(0, |last| last.saturating_sub(1))
}
