//! Blocks that say by their keys what they are: Gemini, Bedrock Converse, VS Code, chat stores.
use super::content::Reader;
use super::data::is_unbilled;
use super::field::{first, has, object, present, string};
use super::media::About;
use crate::json::Value;
use std::borrow::Cow;

/// Media of a Bedrock Converse block, by their key.
const CONVERSE_MEDIA: [&str; 4] = ["image", "document", "video", "audio"];

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
    /// Appends a block that does not say its type, or an unknown one.
    pub(super) fn untyped_block(&mut self, block: Value<'d>) {
        let is_read = self.gemini_part(block)
            || self.gemini_media(block)
            || self.converse_tool(block)
            || self.converse_content(block)
            || self.untyped_image(block)
            || self.host_part(block);
        if !is_read {
            self.unknown(block);
        }
    }

    /// Appends text, a call or a response of Gemini; false if `block` is neither.
    fn gemini_part(&mut self, block: Value<'d>) -> bool {
        if let Some(text) = block.get("text").and_then(Value::as_str) {
            match block.get("thought").and_then(Value::as_bool) {
                Some(true) => self.reasoning(text.into(), ""),
                _ => self.text(text),
            }
        } else if let Some(call) = object(first(block, &["functionCall", "function_call"])) {
            self.call(string(call.get("name")), call.get("args"));
            self.signature(string(first(block, &SIGNATURE)));
        } else if let Some(response) =
            object(first(block, &["functionResponse", "function_response"]))
        {
            self.gemini_response(response);
        } else {
            return false;
        }
        true
    }

    fn gemini_response(&mut self, response: Value<'d>) {
        self.result_of(string(response.get("name")), false, |inner| {
            if let Some(own) = present(response.get("response")) {
                inner.data(own);
            }
            inner.nested(response.get("parts"));
        });
    }

    /// Appends media or code of Gemini; false if `block` is neither.
    fn gemini_media(&mut self, block: Value<'d>) -> bool {
        if let Some(inline) = object(first(block, &["inlineData", "inline_data"])) {
            self.media(inline.get("data"), About::inline(inline));
        } else if let Some(stored) = object(first(block, &["fileData", "file_data"])) {
            let uri = first(stored, &["fileUri", "file_uri"]);
            self.remote(uri, About::inline(stored));
        } else if let Some(code) = object(first(block, &["executableCode", "executable_code"])) {
            self.text(string(code.get("code")));
        } else if let Some(result) = object(first(
            block,
            &["codeExecutionResult", "code_execution_result"],
        )) {
            self.text(string(result.get("output")));
        } else {
            return false;
        }
        true
    }

    /// Appends an image of the OpenAI form without its type; false if `block` is none.
    fn untyped_image(&mut self, block: Value<'d>) -> bool {
        let is_image = object(block.get("image_url")).is_some();
        if is_image {
            self.media_block("image_url", block);
        }
        is_image
    }

    /// Appends a call or result of Converse; false if `block` is neither.
    fn converse_tool(&mut self, block: Value<'d>) -> bool {
        if let Some(call) = object(block.get("toolUse")) {
            self.call(string(call.get("name")), call.get("input"));
        } else if let Some(result) = object(block.get("toolResult")) {
            let is_error = string(result.get("status")) == "error";
            self.result("", result.get("content"), is_error);
        } else if let Some(own) = block.get("json") {
            self.data(own);
        } else {
            return false;
        }
        true
    }

    /// Appends media, reasoning or quoted content of Converse; false if `block` is neither.
    fn converse_content(&mut self, block: Value<'d>) -> bool {
        let inner = |key| object(block.get(key)).map(|inner| (key, inner));
        if let Some((kind, media)) = CONVERSE_MEDIA.into_iter().find_map(inner) {
            self.converse_media(kind, media);
        } else if let Some((_, reasoning)) = inner("reasoningContent") {
            let text = reasoning.get("reasoningText");
            let text = object(text).map_or(text, |text| text.get("text"));
            let opaque = string(reasoning.get("redactedContent"));
            self.reasoning(Cow::Borrowed(string(text)), opaque);
        } else if let Some((_, quoted)) = ["guardContent", "citationsContent"]
            .into_iter()
            .find_map(inner)
        {
            self.nested(first(quoted, &["text", "content"]));
        } else {
            return false;
        }
        true
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

/// Whether a key says nothing to the model, so that a block of such keys alone is left out.
fn is_bookkeeping(key: &str) -> bool {
    is_unbilled(key)
        || matches!(
            key,
            "thoughtSignature" | "thought_signature" | "thought" | "type"
        )
}
