//! Marks of a request for the provider's prompt cache: where it is to be written, and for how long.
//!
//! Nothing of this is billed as tokens of its own and nothing is identity of a message, so the request
//! does not hold it. Linear in the document.
use super::field::{array, first, object, string};
use super::place::{message_value, request_fields, system_value, tool_list};
use crate::json::{Document, Value};

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

/// A place up to which a request asks to be cached.
///
/// ```
/// use tokenctx::CacheMark;
///
/// let hour = CacheMark { message_count: 0, is_at_end: true, lifetime_seconds: Some(3600) };
/// assert_eq!(hour.lifetime_seconds, Some(60 * 60));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheMark {
    /// Messages before its end; 0: it is in the tools or the system prompt.
    pub message_count: usize,
    /// True if it is at the end of its message, or in the last block of the system prompt.
    pub is_at_end: bool,
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
    /// Options that have to stay the same, in one text.
    pub fixed: String,
    /// True if the request points to a cache that was made before (Gemini's `cachedContent`).
    pub has_cached_content: bool,
    /// For how long automatic caching is asked to last, in seconds, if it says so.
    pub retention_seconds: Option<u32>,
}

impl CacheOptions {
    /// Blocks of content in the first `message_count` messages.
    pub fn blocks_before(&self, message_count: usize) -> u64 {
        let end = message_count
            .checked_sub(1)
            .and_then(|last| self.blocks.get(last));
        end.copied().unwrap_or(message_count as u64)
    }
}

/// Reads the wishes of `document` about caching.
pub fn read_cache_options(document: &Document<'_>) -> CacheOptions {
    let body = document.root();
    let fields = request_fields(body);
    let mut options = CacheOptions::default();
    let context = tool_list(fields)
        .into_iter()
        .chain(system_value(fields).map(|it| it.get("parts").unwrap_or(it)));
    for list in context {
        if let Some(mark) = mark_of_blocks(list, 0) {
            options.marks.retain(|it: &CacheMark| it.message_count > 0);
            options.marks.push(mark);
        }
    }
    let messages = array(message_value(body, fields));
    for (index, message) in messages.into_iter().flat_map(Value::items).enumerate() {
        let content = message.get("content").or_else(|| message.get("parts"));
        let blocks = array(content).map_or(1, |blocks| blocks.len().max(1));
        let before = options.blocks_before(index);
        options.blocks.push(before + blocks as u64);
        let own = marker(message).map(|marker| CacheMark {
            message_count: index + 1,
            is_at_end: true,
            lifetime_seconds: lifetime(marker),
        });
        let inner = array(content).and_then(|blocks| mark_of_blocks(blocks, index + 1));
        options.marks.extend(own.or(inner));
    }
    if let Some(marker) = object(first(fields, &["cache_control"])) {
        let last = options.blocks.len();
        options.marks.retain(|it| it.message_count < last);
        options.marks.push(CacheMark {
            message_count: last,
            is_at_end: true,
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

/// The last mark in `blocks`.
fn mark_of_blocks(blocks: Value<'_>, message_count: usize) -> Option<CacheMark> {
    let blocks = array(Some(blocks))?;
    let mut found = None;
    for (nth, block) in blocks.items().enumerate() {
        // A block that is a marker ends what stands before it.
        if let Some(marker) = marker(block) {
            found = Some((nth, marker));
        }
    }
    let (nth, marker) = found?;
    Some(CacheMark {
        message_count,
        is_at_end: nth + 1 == blocks.len(),
        lifetime_seconds: lifetime(marker),
    })
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

    fn mark(message_count: usize, is_at_end: bool, lifetime_seconds: Option<u32>) -> CacheMark {
        CacheMark {
            message_count,
            is_at_end,
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
            [mark(0, false, Some(3600)), mark(2, true, Some(300))]
        );
        assert_eq!(options.blocks, [1, 3]);
    }

    #[test]
    fn bedrock_and_a_mark_for_the_whole() {
        let options = read(
            r#"{"messages": [{"role": "user", "content": [{"text": "b"}, {"cachePoint": {"type": "default"}}]}]}"#,
        );
        assert_eq!(options.marks, [mark(1, true, None)]);
        let options = read(
            r#"{"cache_control": {"type": "ephemeral"}, "prompt_cache_key": "k", "reasoning": {"effort": "low"},
                "messages": [{"role": "user", "content": "b"}]}"#,
        );
        assert_eq!(options.marks, [mark(1, true, None)]);
        assert_eq!(options.fixed, "prompt_cache_key=k\neffort=low\n");
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
