//! How many tokens a text has.

#[cfg(test)]
use super::counter::FIRST_NUMBER;
use super::family::ClaudeFamily;
use super::marker::Marker;
use super::normal::normal;
use super::scan;
use super::vocabulary;
use crate::bpe::MemoKey;
use crate::bpe::table::memo;

impl ClaudeFamily {
    /// Number of tokens that `text` adds to the frame when it is the content of a message.
    ///
    /// `count(text) + frame_tokens()` is `ctok.token_count(text, version)` for the versions 3.0, 4.7
    /// and 4.8. The edges of the message count: the frame's last marker stands for a first single
    /// space (not in v4.8), and line feeds at the end join those of the frame. So the text alone
    /// has no count of its own, an empty one may cost a token, and counts do not add up exactly.
    ///
    /// Linear in the text; never fails. Allocates only the normal form of a text that may not be
    /// normal.
    pub fn count(self, text: &str) -> u64 {
        self.count_until(MemoKey::default(), text, u64::MAX)
    }

    /// The same; whole texts are remembered too, under `key`.
    pub fn count_in(self, key: MemoKey, text: &str) -> u64 {
        let count = || self.count_until(key, text, u64::MAX);
        memo::remembered(self.number(), key, text.as_bytes(), u64::MAX, count)
    }

    /// Number of tokens of `text` if it is at most `limit`, else `limit + 1`.
    ///
    /// Stops soon after the answer is known: beginnings of the text are looked at, each twice as
    /// long as the one before.
    pub fn count_at_most(self, text: &str, limit: u64) -> u64 {
        let beyond = limit.saturating_add(1);
        let mut least_bytes = FIRST_BYTES;
        while let Some(head) = head(text, least_bytes) {
            let normal = normal(head, self.folds_quotes());
            if scan::exceeds(self.marker(MemoKey::default(), head, &normal), limit) {
                return beyond;
            }
            least_bytes = 2 * head.len();
        }
        self.count_until(MemoKey::default(), text, limit)
            .min(beyond)
    }

    /// Number of the family in what is remembered of texts, from 16 to 31.
    pub(crate) fn number(self) -> u64 {
        16 + self as u64
    }

    /// The number of its vocabulary, by which pieces are remembered.
    #[cfg(test)]
    pub(crate) fn vocabulary_number(self) -> u64 {
        FIRST_NUMBER + self.vocabulary().number as u64
    }

    /// The count, or any number above `limit` if that is where it leads.
    fn count_until(self, key: MemoKey, text: &str, limit: u64) -> u64 {
        let normal = normal(text, self.folds_quotes());
        let content = normal.trim_end_matches('\n');
        let line_feeds = normal.len() - content.len();
        scan::count(self.marker(key, text, content), limit) + self.trailing(line_feeds)
    }

    /// A marker for `content`, the normal form of `text`.
    fn marker<'n>(self, key: MemoKey, text: &str, content: &'n str) -> Marker<'n> {
        // The frame's marker is the space only if it is the text's own, not one made of others.
        let absorbs = self.absorbs_space() && text.starts_with(' ');
        let content = match content.strip_prefix(' ') {
            Some(rest) if absorbs && !rest.starts_with(' ') => rest,
            _ => content,
        };
        Marker::new(self, key, content.as_bytes())
    }

    /// Tokens that line feeds at the end add: the frame has two more, one token of which is its own.
    fn trailing(self, line_feeds: usize) -> u64 {
        const FRAME_LINE_FEEDS: usize = 2;
        if line_feeds == 0 {
            return 0;
        }
        let run = line_feeds + FRAME_LINE_FEEDS;
        self.vocabulary().run(vocabulary::Ladder::Newline, run) - 1
    }
}

/// Bytes of the first beginning that is looked at.
const FIRST_BYTES: usize = 4096;

/// A beginning of `text` of at least `least_bytes` whose normal form is the beginning of that of
/// `text`; none if the text is hardly longer.
///
/// Nothing before a visible ASCII character is joined to it or to what follows it.
fn head(text: &str, least_bytes: usize) -> Option<&str> {
    let rest = text.as_bytes().get(least_bytes..)?;
    let more = rest
        .iter()
        .take(FIRST_BYTES)
        .position(u8::is_ascii_graphic)?;
    Some(&text[..least_bytes + more])
}
