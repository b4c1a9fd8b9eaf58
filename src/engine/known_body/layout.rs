//! Where the messages of a body stand, and where those of the recorded one that it begins with.
use crate::engine::known_body::beginning::{LISTS, MIN_BYTES, MatchedPrefix, ToolsRange};
use crate::engine::known_body::note::MessageDigest;
use crate::json::array_elements;
use crate::known::digest::Digester;
use crate::request::MAX_MESSAGES;
use std::ops::Range;

/// A body whose bytes are valid JSON, before it is read.
pub(crate) struct BodyLayout<'b, 'k> {
    pub bytes: &'b [u8],
    /// The recorded body that it begins with.
    pub matched: Option<MatchedPrefix<'k>>,
    /// The place of each message; none if the body is short, or if the places are not clear.
    pub ranges: Vec<Range<usize>>,
}

impl<'b, 'k> BodyLayout<'b, 'k> {
    /// The layout of `bytes`; messages of the recorded body are not looked for again.
    pub(crate) fn new(
        digester: &Digester,
        bytes: &'b [u8],
        matched: Option<MatchedPrefix<'k>>,
    ) -> BodyLayout<'b, 'k> {
        let known = matched.as_ref().and_then(|it| it.ranges(digester, bytes));
        let find = || {
            let long = Some(bytes).filter(|it| it.len() >= MIN_BYTES);
            long.and_then(|it| array_elements(it, &LISTS, MAX_MESSAGES))
        };
        BodyLayout {
            bytes,
            matched,
            ranges: known.or_else(find).unwrap_or_default(),
        }
    }

    /// For each message its digest if the recorded body has it; empty if there is no recorded body.
    pub(crate) fn digests(&self) -> Vec<Option<MessageDigest>> {
        let matched = self.matched.as_ref();
        match matched.map_or(&[][..], |it| it.digests(&self.ranges)) {
            [] => Vec::new(),
            known => {
                let new = std::iter::repeat_n(None, self.ranges.len() - known.len());
                known.iter().copied().map(Some).chain(new).collect()
            }
        }
    }

    /// The tools of the recorded body, if this one has the same.
    pub(crate) fn tools(&self, digester: &Digester) -> Option<ToolsRange<'_>> {
        self.matched.as_ref()?.prefix.tools_in(digester, self.bytes)
    }
}
