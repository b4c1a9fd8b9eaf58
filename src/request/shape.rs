//! Blocks that say by their keys what they are: Gemini, Bedrock Converse, VS Code, chat stores.
use super::content::Reader;
use super::data::is_unbilled;
use super::field::{first, first_named, has, object, present, string};
use super::kind::Dialect;
use super::media::About;
use super::part::{PartKind, PartType, parts};
use crate::json::{Kind, Value};
use std::borrow::Cow;

/// Data parts of VS Code that are bookkeeping of the host.
const METADATA_MIMES: [&str; 5] = [
    "cache_control",
    "stateful_marker",
    "thinking",
    "context_management",
    "phase_data",
];

/// Where Gemini has the signature of thoughts.
const SIGNATURE: [&str; 2] = ["thoughtSignature", "thought_signature"];

impl<'d> Reader<'_, 'd> {
    /// Appends a block that does not say its type, or an unknown one; false if it counts as its JSON text.
    pub(super) fn untyped_block(&mut self, block: Value<'d>) -> bool {
        self.signature.add(string(first(block, &SIGNATURE)));
        if let Some(found) = object(block.get("searchResult")) {
            self.search_result(found);
            return true;
        }
        let is_read = self.named_part(block) || self.untyped_image(block) || self.host_part(block);
        if !is_read {
            self.unknown(block);
        }
        is_read
    }

    /// Appends a part that says what it is by the field that holds it, as in Gemini and Converse;
    /// false if `block` is none.
    fn named_part(&mut self, block: Value<'d>) -> bool {
        let found = block.members().filter_map(|(field, value)| {
            let part = parts().named.get(field)?;
            let is_held = match part.kind {
                PartKind::Text if part.content.names.is_empty() => value.kind() == Kind::String,
                PartKind::Data => true,
                _ => value.kind() == Kind::Object,
            };
            is_held.then_some((part, value))
        });
        let Some((part, held)) = found.min_by_key(|(part, _)| part.rank) else {
            return false;
        };
        let is_gemini = part.dialect == Some(Dialect::Gemini);
        let content = || first_named(held, &part.content);
        match part.kind {
            PartKind::Text if part.content.names.is_empty() => {
                self.gemini_text(block, string(Some(held)))
            }
            PartKind::Text => self.text(string(content())),
            PartKind::Call => self.named_call(held),
            PartKind::Result if is_gemini => self.gemini_response(held),
            PartKind::Result => {
                let is_error = string(held.get("status")) == "error";
                self.result("", content(), is_error);
            }
            PartKind::Media(_) if is_gemini => self.gemini_media(part, block, held),
            PartKind::Media(kind) => self.converse_media(kind, held),
            PartKind::Reasoning => self.converse_reasoning(held),
            PartKind::Data | PartKind::Summary | PartKind::Other => self.data(held),
            PartKind::Content => self.nested(content()),
        }
        true
    }

    fn gemini_text(&mut self, block: Value<'d>, text: &'d str) {
        match block.get("thought").and_then(Value::as_bool) {
            Some(true) => self.reasoning(text.into(), ""),
            _ => self.text(text),
        }
    }

    fn named_call(&mut self, call: Value<'d>) {
        let fields = &parts().named.call;
        self.call(
            string(first_named(call, &fields.name)),
            first_named(call, &fields.arguments),
        );
    }

    fn gemini_response(&mut self, response: Value<'d>) {
        self.result_of(string(response.get("name")), false, |inner| {
            if let Some(own) = present(response.get("response")) {
                inner.data(own);
            }
            inner.nested(response.get("parts"));
        });
    }

    fn gemini_media(&mut self, part: &PartType, block: Value<'d>, media: Value<'d>) {
        let about = About::inline(media).at_level(block);
        match part.is_place {
            true => self.remote(first(media, &["fileUri", "file_uri"]), about),
            false => self.media(media.get("data"), about),
        }
    }

    /// Appends an image of the OpenAI form without its type; false if `block` is none.
    fn untyped_image(&mut self, block: Value<'d>) -> bool {
        let part = parts().typed.get("image_url");
        let part = part.filter(|_| object(block.get("image_url")).is_some());
        part.is_some_and(|part| {
            self.media_block(part, block);
            true
        })
    }

    fn converse_reasoning(&mut self, reasoning: Value<'d>) {
        let text = reasoning.get("reasoningText");
        let text = object(text).map_or(text, |text| text.get("text"));
        let opaque = string(reasoning.get("redactedContent"));
        self.reasoning(Cow::Borrowed(string(text)), opaque);
    }

    /// Appends a part of VS Code or of a chat store; false if `block` is neither.
    fn host_part(&mut self, block: Value<'d>) -> bool {
        if block.members().all(|(key, _)| is_bookkeeping(key)) {
            return true;
        }
        if let Some(text) = block.get("value").and_then(Value::as_str) {
            self.text(text);
            return true;
        }
        self.host_tool(block) || self.host_data(block) || self.stored_part(block)
    }

    fn host_tool(&mut self, block: Value<'d>) -> bool {
        let name = block.get("name").and_then(Value::as_str);
        if !has(block, &["callId", "call_id"]) {
            return false;
        }
        if has(block, &["content", "toolResult"]) {
            let content = first(block, &["content", "toolResult"]);
            self.result(name.unwrap_or_default(), content, false);
        } else if let Some(name) = name {
            self.call(name, first(block, &["input", "parameters", "arguments"]));
        } else {
            return false;
        }
        true
    }

    fn host_data(&mut self, block: Value<'d>) -> bool {
        let mime = first(block, &["mimeType", "mime_type"]).and_then(Value::as_str);
        let (Some(mime), Some(data)) = (mime, block.get("data")) else {
            return false;
        };
        if !METADATA_MIMES.contains(&mime) {
            self.media(Some(data), About::inline(block));
        }
        true
    }

    fn stored_part(&mut self, block: Value<'d>) -> bool {
        let content = first(block, &["content", "contentText", "contentJson"]);
        let name = || string(first(block, &["toolName", "name"]));
        match block.get("kind").and_then(Value::as_str) {
            Some("text" | "attachment") => self.text(string(content)),
            Some("tool_invocation") => self.call(name(), content),
            Some("tool_result") => self.result(name(), content, false),
            Some("metadata") => {}
            _ => return false,
        }
        true
    }
}

/// True if a key says nothing to the model, so that a block of such keys alone is left out.
fn is_bookkeeping(key: &str) -> bool {
    is_unbilled(key)
        || matches!(
            key,
            "thoughtSignature" | "thought_signature" | "thought" | "type"
        )
}
