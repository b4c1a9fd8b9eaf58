//! A request as JSON text: what was read, for tests and for people who debug.
use super::data::Data;
use super::model::{Content, Media, Message, Part, Request, Tool, ToolChoice};
use crate::json::write_string;
use crate::media::{decode_base64_chunks, percent_decode_head};

/// The JSON text of `request`, media as the BLAKE3 of their bytes.
///
/// It holds the text of all messages. Linear in the request.
pub fn request_view(request: &Request<'_>) -> String {
    let mut view = View(String::new());
    view.request(request);
    view.0
}

/// The JSON text of the messages of a reply; see [`request_view`].
pub fn reply_view(messages: &[Message<'_>]) -> String {
    let mut view = View(String::new());
    view.items(messages, View::message);
    view.0
}

struct View(String);

impl View {
    fn request(&mut self, request: &Request<'_>) {
        self.field("{", "dialect", request.dialect.name());
        self.field(",", "model", &request.model);
        self.list(",", "system", &request.system, View::part);
        self.list(",", "tools", &request.tools, View::tool);
        self.list(",", "messages", &request.messages, View::message);
        let (prefix, name) = match &request.tool_choice {
            ToolChoice::Free => ("", ""),
            ToolChoice::None => ("none", ""),
            ToolChoice::Required => ("required", ""),
            ToolChoice::Tool(name) => ("tool:", &**name),
        };
        self.field(",", "tool_choice", &format!("{prefix}{name}"));
        let schema = request.response_schema.map(|schema| schema.compact());
        self.field(",", "response_schema", &schema.unwrap_or_default());
        self.flag("thinking", request.has_thinking);
        self.unread(&request.unread);
        let assumptions: Vec<_> = request.assumptions.iter().collect();
        self.list(",", "assumptions", &assumptions, |view, name| {
            write_string(name, &mut view.0);
        });
        self.0.push('}');
    }

    fn message(&mut self, message: &Message<'_>) {
        self.field("{", "role", &message.role);
        self.field(",", "name", &message.name);
        self.list(",", "parts", &message.parts, View::part);
        self.unread(&message.unread);
        if message.is_dropped {
            self.flag("is_dropped", true);
        }
        self.0.push('}');
    }

    /// Fields that nobody counts, if there are some.
    fn unread(&mut self, unread: &[Data<'_>]) {
        if !unread.is_empty() {
            let mut texts: Vec<_> = unread.iter().map(Data::canonical).collect();
            texts.sort_unstable();
            self.list(",", "unread", &texts, |view, text| {
                write_string(text, &mut view.0);
            });
        }
    }

    fn tool(&mut self, tool: &Tool<'_>) {
        let schema = tool.schema.map(|schema| schema.compact());
        self.field("{", "name", &tool.name);
        self.field(",", "description", &tool.description);
        self.field(",", "schema", &schema.unwrap_or_default());
        self.field(",", "canonical", &tool.canonical());
        self.flag("builtin", tool.builtin.is_some());
        self.0.push('}');
    }

    /// Recurses as deep as the reader nests results, which is bounded.
    fn part(&mut self, part: &Part<'_>) {
        match part {
            Part::Text(text) => {
                self.field("{", "part", "text");
                self.field(",", "text", text);
                if !text.documents().is_empty() {
                    self.flag("has_documents", true);
                }
            }
            Part::Media(media) => self.media(media),
            Part::ToolCall(call) => {
                self.field("{", "part", "tool_call");
                self.field(",", "name", &call.name);
                self.data("arguments", &call.arguments);
            }
            Part::ToolResult(result) => {
                self.field("{", "part", "tool_result");
                self.field(",", "name", &result.name);
                self.list(",", "parts", &result.parts, View::part);
                self.flag("is_error", result.is_error);
            }
            Part::Reasoning { text, opaque } => {
                self.field("{", "part", "reasoning");
                self.field(",", "text", text);
                self.field(",", "opaque", opaque);
            }
            Part::Summary { text, opaque } => {
                self.field("{", "part", "summary");
                self.field(",", "text", text);
                self.field(",", "opaque", opaque);
            }
            Part::Data(data) => {
                self.field("{", "part", "data");
                self.data("json", data);
            }
        }
        self.0.push('}');
    }

    fn data(&mut self, name: &str, data: &Data<'_>) {
        self.field(",", name, &data.compact());
        self.field(",", "canonical", &data.canonical());
    }

    fn media(&mut self, media: &Media<'_>) {
        let (reference, malformed) = match &media.content {
            Content::Remote(place) => (&**place, ""),
            Content::Malformed(text) => ("", *text),
            _ => ("", ""),
        };
        self.field("{", "part", "media");
        self.field(",", "kind", media.kind.name());
        self.field(",", "mime", &media.mime);
        self.field(",", "reference", reference);
        self.field(",", "detail", &media.detail);
        self.field(",", "name", &media.name);
        self.field(",", "malformed", malformed);
        self.field(",", "blake3", &content_hash(&media.content));
    }

    fn field(&mut self, before: &str, name: &str, text: &str) {
        self.name(before, name);
        write_string(text, &mut self.0);
    }

    fn flag(&mut self, name: &str, is_set: bool) {
        self.name(",", name);
        self.0.push_str(if is_set { "true" } else { "false" });
    }

    fn list<T>(&mut self, before: &str, name: &str, items: &[T], write: impl Fn(&mut View, &T)) {
        self.name(before, name);
        self.items(items, write);
    }

    fn items<T>(&mut self, items: &[T], write: impl Fn(&mut View, &T)) {
        self.0.push('[');
        for (nth, item) in items.iter().enumerate() {
            if nth > 0 {
                self.0.push(',');
            }
            write(self, item);
        }
        self.0.push(']');
    }

    fn name(&mut self, before: &str, name: &str) {
        self.0.push_str(before);
        write_string(name, &mut self.0);
        self.0.push(':');
    }
}

/// BLAKE3 of the decoded bytes in hexadecimal; empty if they are not in the request.
fn content_hash(content: &Content<'_>) -> String {
    let mut hasher = blake3::Hasher::new();
    match content {
        Content::Remote(_) => return String::new(),
        Content::Bytes(bytes) => {
            hasher.update(bytes);
        }
        Content::Percent(text) => {
            hasher.update(&percent_decode_head(text, text.len()));
        }
        Content::Base64(text, _) | Content::Malformed(text) => {
            decode_base64_chunks(text, |chunk| {
                hasher.update(chunk);
            });
        }
    }
    hasher.finalize().to_hex().to_string()
}
