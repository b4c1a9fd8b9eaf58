//! Marks of a request for the provider's prompt cache: where it is to be written, and for how long.
//!
//! Nothing of this is billed as tokens of its own and nothing is identity of a message, so the request
//! does not hold it. Linear in the document.
use super::field::{array, first, object, string};
use super::place::{message_value, request_fields, system_value, tool_list};
use crate::json::{Document, Value};
use memchr::memmem;
use std::collections::VecDeque;

/// Fields that hold the marker of a block, and blocks that are one.
const MARKERS: [&str; 4] = [
    "cache_control",
    "cachePoint",
    "prompt_cache_breakpoint",
    "cacheControl",
];

/// Options that make what was cached unusable when they change, beside those that are billed.
const KEYS: [&str; 6] = [
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning_effort",
    "verbosity",
    "service_tier",
    "cachedContent",
];

/// Options inside of an option, likewise.
const INNER_KEYS: [(&str, &[&str]); 6] = [
    ("response_format", &["type"]),
    ("reasoning", &["effort", "mode"]),
    ("text", &["verbosity"]),
    ("thinking", &["type", "budget_tokens"]),
    ("output_config", &["effort"]),
    ("prompt_cache_options", &["mode", "ttl"]),
];

/// Marks that are kept, the last of them; providers take four.
const MAX_MARKS: usize = 8;

/// Blocks before a mark in which providers look for an earlier end: 20 of Anthropic and Bedrock.
pub(crate) const MAX_LOOKBACK: u64 = 20;

/// Blocks at the end of a message before which an earlier mark is looked for; in the last of them all that a provider
/// looks at.
const MAX_BLOCKS_BEHIND: usize = 3;

/// A place up to which a request asks to be cached.
///
/// ```
/// use tokenctx::CacheMark;
///
/// let hour = Some(3600);
/// let mark = CacheMark { message_count: 0, block_count: 1, pieces: (1, 1), is_at_end: true,
///     is_in_tools: false, lifetime_seconds: hour };
/// assert_eq!(mark.lifetime_seconds, Some(60 * 60));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheMark {
    /// Messages before its end, the one that it stands in included; 0: it is in the tools or the system prompt.
    pub message_count: usize,
    /// Blocks of that message before its end.
    pub block_count: usize,
    /// Pieces of that message before its end: text blocks with text, and others. And all of them.
    pub pieces: (usize, usize),
    /// True if it is at the end of its message, or in the last block of the system prompt.
    pub is_at_end: bool,
    /// True if it is in the tools, whose numbers are those of pieces; they are no blocks.
    pub is_in_tools: bool,
    /// For how long, as the request says it, in seconds; `None`: it does not say.
    pub lifetime_seconds: Option<u32>,
}

/// The wishes of a request about caching.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheOptions {
    /// Marks in the order in which the provider reads.
    pub marks: Vec<CacheMark>,
    /// Blocks of content up to the end of each message; text is one.
    pub blocks: Vec<u64>,
    /// For each message true if a marker stands in it.
    pub is_marked: Vec<bool>,
    /// Blocks of the system prompt; they are in no other number.
    pub system_blocks: u64,
    /// Options that have to stay the same, in one text.
    pub fixed: String,
    /// True if the request points to a cache that was made before (Gemini's `cachedContent`).
    pub has_cached_content: bool,
    /// For how long automatic caching is asked to last, in seconds, if it says so.
    pub retention_seconds: Option<u32>,
}

impl CacheOptions {
    /// Blocks of the system prompt and of the first `message_count` messages.
    pub fn blocks_to(&self, message_count: usize) -> u64 {
        self.system_blocks + self.blocks_before(message_count)
    }

    /// Places inside of messages where an earlier call may have had its last mark: the provider looks for an earlier
    /// end block by block. Those before a few last blocks of a message, where reminders stand behind a mark.
    #[must_use]
    pub fn former_marks(&self) -> Vec<CacheMark> {
        let Some(last) = self.marks.last() else {
            return Vec::new();
        };
        let end = self.blocks_before_mark(last);
        let mut found = Vec::new();
        for message_count in (1..=last.message_count).rev() {
            let (start, stop) = (
                self.blocks_to(message_count - 1),
                self.blocks_to(message_count),
            );
            if stop + MAX_LOOKBACK < end {
                break;
            }
            let pieces = usize::try_from(stop.saturating_sub(start)).unwrap_or(usize::MAX);
            let most = match message_count == last.message_count {
                true => usize::try_from(MAX_LOOKBACK).unwrap_or(usize::MAX),
                false => MAX_BLOCKS_BEHIND,
            };
            let marks = (1..=most.min(pieces.saturating_sub(1))).map(|behind| CacheMark {
                message_count,
                block_count: pieces - behind,
                pieces: (pieces - behind, pieces),
                is_at_end: false,
                is_in_tools: false,
                ..*last
            });
            found.extend(marks.filter(|it| self.blocks_before_mark(it) < end));
        }
        found
    }

    /// Blocks of the system prompt and the messages before the end of `mark`.
    pub fn blocks_before_mark(&self, mark: &CacheMark) -> u64 {
        let index = mark.message_count.checked_sub(1);
        index.map_or(0, |it| self.blocks_to(it)) + mark.block_count as u64
    }

    /// Blocks of content in the first `message_count` messages.
    pub fn blocks_before(&self, message_count: usize) -> u64 {
        let end = message_count
            .checked_sub(1)
            .and_then(|last| self.blocks.get(last));
        end.copied().unwrap_or(message_count as u64)
    }

    /// The number of blocks of the message at `index`; `None` if there is no such message, or if a marker stands in it.
    pub fn unmarked_blocks(&self, index: usize) -> Option<u64> {
        let is_plain = self.is_marked.get(index) == Some(&false);
        is_plain.then(|| self.blocks_before(index + 1) - self.blocks_before(index))
    }

    /// Puts messages without markers, of which `omitted` has the numbers of blocks by their places, between those that
    /// were read.
    pub fn insert(&mut self, omitted: &[Option<u64>]) {
        let is_read = |index: &usize| omitted[*index].is_none();
        let read: Vec<_> = (0..omitted.len()).filter(is_read).collect();
        if read.len() != self.blocks.len() {
            return;
        }
        let mut blocks: Vec<_> = omitted.iter().map(|it| it.unwrap_or_default()).collect();
        let mut is_marked = vec![false; omitted.len()];
        for (nth, place) in read.iter().enumerate() {
            blocks[*place] = self.blocks_before(nth + 1) - self.blocks_before(nth);
            is_marked[*place] = self.is_marked[nth];
        }
        for index in 1..blocks.len() {
            blocks[index] += blocks[index - 1];
        }
        for mark in self.marks.iter_mut().filter(|it| it.message_count > 0) {
            mark.message_count = read[mark.message_count - 1] + 1;
        }
        (self.blocks, self.is_marked) = (blocks, is_marked);
    }
}

/// Reads the wishes of `document` about caching.
pub fn read_cache_options(document: &Document<'_>) -> CacheOptions {
    let body = document.root();
    let fields = request_fields(body);
    let mut options = CacheOptions::default();
    let system = system_value(fields).map(|it| it.get("parts").unwrap_or(it));
    options.system_blocks = array(system).map_or(0, |it| it.len() as u64);
    for (list, is_system) in [(tool_list(fields), false), (system, true)] {
        let Some(list) = list else { continue };
        if let Some(mut mark) = marks_of_blocks(list, 0).pop() {
            if !is_system {
                let tools = list.items().count();
                mark.pieces = (mark.block_count, tools);
                (mark.is_in_tools, mark.is_at_end, mark.block_count) = (true, false, 0);
            }
            options.marks.push(mark);
        }
    }
    let messages = array(message_value(body, fields));
    let mut last_blocks = 0;
    for (index, message) in messages.into_iter().flat_map(Value::items).enumerate() {
        let content = message.get("content").or_else(|| message.get("parts"));
        let blocks = array(content).map_or(1, |blocks| blocks.len().max(1));
        let before = options.blocks_before(index);
        options.blocks.push(before + blocks as u64);
        last_blocks = blocks;
        let mark_count = options.marks.len();
        match marker(message) {
            Some(marker) => options.marks.push(CacheMark {
                message_count: index + 1,
                block_count: blocks,
                pieces: (0, 0),
                is_at_end: true,
                is_in_tools: false,
                lifetime_seconds: lifetime(marker),
            }),
            None => {
                let inner = array(content).map(|blocks| marks_of_blocks(blocks, index + 1));
                options.marks.extend(inner.into_iter().flatten());
            }
        }
        options.is_marked.push(options.marks.len() > mark_count);
    }
    if let Some(marker) = object(first(fields, &["cache_control"])) {
        let last = options.blocks.len();
        options
            .marks
            .retain(|it| it.message_count < last || !it.is_at_end);
        options.marks.push(CacheMark {
            message_count: last,
            block_count: last_blocks,
            pieces: (0, 0),
            is_at_end: true,
            is_in_tools: false,
            lifetime_seconds: lifetime(marker),
        });
    }
    let more = options.marks.len().saturating_sub(MAX_MARKS);
    options.marks.drain(..more);
    options.has_cached_content =
        !string(first(fields, &["cachedContent", "cached_content"])).is_empty();
    options.retention_seconds =
        seconds(string(fields.get("prompt_cache_retention"))).or_else(|| {
            seconds(string(
                object(fields.get("prompt_cache_options"))?.get("ttl"),
            ))
        });
    for key in KEYS {
        note(&mut options.fixed, key, fields.get(key));
    }
    for (owner, keys) in INNER_KEYS {
        let Some(owner) = object(fields.get(owner)) else {
            continue;
        };
        for key in keys {
            note(&mut options.fixed, key, owner.get(key));
        }
    }
    options
}

/// The marks in `blocks`, the last `MAX_MARKS` of them.
fn marks_of_blocks(blocks: Value<'_>, message_count: usize) -> Vec<CacheMark> {
    let mut marks = VecDeque::new();
    let Some(blocks) = array(Some(blocks)) else {
        return Vec::new();
    };
    let mut pieces = 0;
    for (nth, block) in blocks.items().enumerate() {
        pieces += piece_count(block);
        // A block that is a marker ends what stands before it.
        if let Some(marker) = marker(block) {
            if marks.len() == MAX_MARKS {
                marks.pop_front();
            }
            marks.push_back(CacheMark {
                message_count,
                block_count: nth + 1,
                pieces: (pieces, 0),
                is_at_end: nth + 1 == blocks.len(),
                is_in_tools: false,
                lifetime_seconds: lifetime(marker),
            });
        }
    }
    marks.iter_mut().for_each(|it| it.pieces.1 = pieces);
    marks.into()
}

/// The pieces that a block becomes: none for empty text and for a mere marker, one for each text of a document.
fn piece_count(block: Value<'_>) -> usize {
    let has_text = |value: Option<Value<'_>>| usize::from(!string(value).is_empty());
    let Some(block) = object(Some(block)) else {
        return block
            .as_str()
            .map_or(1, |text| usize::from(!text.is_empty()));
    };
    if block.get("text").and_then(Value::as_str).is_some() {
        return has_text(block.get("text"));
    }
    let source = object(block.get("source"));
    match source.filter(|it| string(it.get("type")) == "text") {
        Some(source) => [block.get("title"), block.get("context"), source.get("data")]
            .map(has_text)
            .iter()
            .sum(),
        None => usize::from(block.members().any(|(key, _)| !MARKERS.contains(&key))),
    }
}

/// True if a marker may stand in this JSON text. Linear.
pub(crate) fn has_marker(text: &[u8]) -> bool {
    let has = |name: &str| memmem::find(text, name.as_bytes()).is_some();
    has("cache") && MARKERS.iter().any(|name| has(name))
}

fn marker(block: Value<'_>) -> Option<Value<'_>> {
    object(first(block, &MARKERS))
}

fn lifetime(marker: Value<'_>) -> Option<u32> {
    seconds(string(marker.get("ttl")))
}

/// `"5m"`, `"1h"`, `"24h"` in seconds.
fn seconds(text: &str) -> Option<u32> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    digits.parse::<u32>().ok()?.checked_mul(unit)
}

fn note(fixed: &mut String, key: &str, value: Option<Value<'_>>) {
    let Some(value) = value else {
        return;
    };
    fixed.push_str(key);
    fixed.push('=');
    let number = value.as_number_text();
    fixed.push_str(value.as_str().or(number).unwrap_or_default());
    fixed.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Limits;

    fn read(body: &str) -> CacheOptions {
        let document = Document::from_bytes(body.as_bytes(), &Limits::default());
        read_cache_options(&document.expect("JSON"))
    }

    fn mark(
        message_count: usize,
        (block_count, pieces): (usize, (usize, usize)),
        is_at_end: bool,
        lifetime_seconds: Option<u32>,
    ) -> CacheMark {
        CacheMark {
            message_count,
            block_count,
            pieces,
            is_at_end,
            is_in_tools: false,
            lifetime_seconds,
        }
    }

    #[test]
    fn marks_are_read_in_order() {
        let options = read(
            r#"{"tools": [{"name": "f", "cache_control": {"type": "ephemeral"}}],
                "system": [{"text": "s", "cache_control": {"ttl": "1h"}}, {"text": "t"}],
                "messages": [{"role": "user", "content": "a"},
                    {"role": "user", "content": [{"text": "b"}, {"text": "c", "cache_control": {"ttl": "5m"}}]}]}"#,
        );
        assert_eq!(
            options.marks,
            [
                CacheMark {
                    is_in_tools: true,
                    ..mark(0, (0, (1, 1)), false, None)
                },
                mark(0, (1, (1, 2)), false, Some(3600)),
                mark(2, (2, (2, 2)), true, Some(300))
            ]
        );
        assert_eq!(options.blocks, [1, 3]);
    }

    #[test]
    fn bedrock_and_a_mark_for_the_whole() {
        let options = read(
            r#"{"messages": [{"role": "user", "content": [{"text": "b"}, {"cachePoint": {"type": "default"}}]}]}"#,
        );
        assert_eq!(options.marks, [mark(1, (2, (1, 1)), true, None)]);
        let options = read(
            r#"{"cache_control": {"type": "ephemeral"}, "prompt_cache_key": "k", "reasoning": {"effort": "low"},
                "messages": [{"role": "user", "content": "b"}]}"#,
        );
        assert_eq!(options.marks, [mark(1, (1, (0, 0)), true, None)]);
        assert_eq!(options.fixed, "prompt_cache_key=k\neffort=low\n");
    }

    #[test]
    fn each_mark_in_a_message_is_one() {
        let options = read(
            r#"{"messages": [{"role": "user", "content": [{"text": ""}, {"text": "a", "cache_control": {}},
                {"type": "document", "source": {"type": "text", "data": "d"}, "title": "t", "cache_control": {}},
                {"cachePoint": {}}, {"text": "b"}]}]}"#,
        );
        let places = [(2, (1, 4)), (3, (3, 4)), (4, (3, 4))];
        assert_eq!(options.marks, places.map(|it| mark(1, it, false, None)));
        let ends = options
            .marks
            .iter()
            .map(|it| options.blocks_before_mark(it));
        assert_eq!(ends.collect::<Vec<_>>(), [2, 3, 4]);
    }

    #[test]
    fn lifetimes() {
        let told = ["5m", "1h", "24h", "in_memory", "", "99999999999h", "h"].map(seconds);
        assert_eq!(
            told,
            [Some(300), Some(3600), Some(86_400), None, None, None, None]
        );
    }
}
