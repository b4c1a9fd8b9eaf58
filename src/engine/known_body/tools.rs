//! The tools of a recorded body: a later turn that has the same is read without most of them.
//!
//! Of a list of tools the first stays, and whatever stands behind others that look like it; so dialect and options
//! are those of all. The part that is left out is the same text as before: either it stands before the messages, in bytes
//! that the body begins with, or all behind the messages is as it was. Then the identity of the context, of all before the
//! messages, is the recorded one, if it is the same without those tools. A known prefix has their tokens.
use crate::json::{array_items, object_members};
use crate::known::digest::{Digest, Digester};
use crate::known::fingerprint::Kind;
use crate::request::Request;
use std::ops::Range;

/// Below this, parsing all is as fast.
const LEAST_BYTES: usize = 512;

/// Where the tools are that are left out, and who the request is with and without them.
#[derive(Clone, Debug)]
pub(crate) struct KnownTools {
    /// Bytes behind the messages and their fingerprint, if the tools stand there.
    tail: Option<(usize, Digest)>,
    /// The part that is left out, from the beginning of the body or of what is behind its messages.
    left_out: Range<usize>,
    /// Identity of the context (all before the messages) without the part that is left out.
    short_context: Digest,
    /// The same with all, and with all whatever the family.
    pub context: Digest,
    pub any_family: u64,
}

impl KnownTools {
    /// Of `body` with messages at `ranges`, which was read as `request`, with options of none, and has
    /// the identity `context`, and `any_family` whatever its `family`; `None` if they are better read. Linear.
    pub(crate) fn new(
        digester: &Digester,
        body: &[u8],
        ranges: &[Range<usize>],
        request: &Request<'_>,
        (family, context, any_family): (&str, Digest, u64),
    ) -> Option<KnownTools> {
        let is_plain = request.tools.iter().all(|it| it.builtin.is_none());
        let is_first = request.first_tools().count() == request.tools.len();
        if request.tools.len() < 2 || !is_plain || !is_first {
            return None;
        }
        let members = object_members(body)?;
        let (_, list) = members.into_iter().find(|(key, _)| *key == b"tools")?;
        let tools = array_items(&body[list.clone()])?;
        let text = |range: &Range<usize>| &body[list.start + range.start..list.start + range.end];
        let first = form(text(tools.first()?))?;
        let alike = tools.iter().skip(1);
        let alike = alike.take_while(|it| form(text(it)).as_ref() == Some(&first));
        let last = alike.count();
        let left_out = list.start + tools[0].end..list.start + tools[last].end;
        if tools.len() != request.tools.len() || left_out.len() < LEAST_BYTES {
            return None;
        }
        let mut short = request.context_without_options();
        short.tools.drain(1..=last);
        let end = ranges.last()?.end;
        let is_behind = left_out.start >= end;
        let origin = if is_behind { end } else { 0 };
        let tail = is_behind.then(|| (body.len() - end, tail_digest(digester, &body[end..])));
        Some(KnownTools {
            tail,
            left_out: left_out.start - origin..left_out.end - origin,
            short_context: digester.context(family, &short),
            context,
            any_family,
        })
    }

    /// Where they stand in `body`, which begins as the recorded one up to `end`; `None` if it has others.
    pub(crate) fn place(
        &self,
        digester: &Digester,
        body: &[u8],
        end: usize,
    ) -> Option<Range<usize>> {
        let Some((length, tail)) = self.tail else {
            return Some(self.left_out.clone());
        };
        let start = body.len().checked_sub(length).filter(|it| *it >= end)?;
        let is_same = tail_digest(digester, &body[start..]) == tail;
        is_same.then(|| start + self.left_out.start..start + self.left_out.end)
    }

    /// True if `bytes` are all that stands behind the messages, the tools among them.
    pub(crate) fn is_tail(&self, digester: &Digester, bytes: &[u8]) -> bool {
        let is_same =
            |(length, tail)| length == bytes.len() && tail_digest(digester, bytes) == tail;
        self.tail.is_some_and(is_same)
    }

    /// True if `context` is that of a request without what is left out, to which nothing else adds tools and
    /// which has no options: it is as with all.
    pub(crate) fn is_all_but(&self, context: Digest, request: &Request<'_>, options: u64) -> bool {
        let has_later = !request.deferred_tools.is_empty() || !request.added_tools.is_empty();
        context == self.short_context && options == 0 && !has_later
    }
}

fn tail_digest(digester: &Digester, bytes: &[u8]) -> Digest {
    digester.fingerprint(Kind::BodyEnd, bytes)
}

/// Keys of the object `tool`, and how their values begin, which show its dialect.
fn form(tool: &[u8]) -> Option<Vec<(&[u8], u8)>> {
    let members = object_members(tool)?.into_iter();
    Some(
        members
            .map(|(key, value)| (key, tool[value.start]))
            .collect(),
    )
}
