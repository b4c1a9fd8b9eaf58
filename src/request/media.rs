//! Images, files, audio and video: where their bytes are and what a block says of them.
use super::bound::{MIN_HASHED_BYTES, Notes};
use super::content::Reader;
use super::data::Data;
use super::field::{array, first, has, is_truthy, object, present, string};
use super::kind::MediaKind;
use super::model::{Content, Media, Part};
use super::part::{PartKind, PartType};
use crate::json::Value;
use crate::media::{DataUrl, decode_base64_head, is_base64, parse_data_url, percent_decode_head};
use std::borrow::Cow;

/// Where a block has its source, unless under its own type.
const SOURCE_KEYS: [&str; 6] = [
    "source",
    "file",
    "image_url",
    "file_data",
    "file_url",
    "data",
];

/// Where a source has bytes or a reference.
const CONTENT_KEYS: [&str; 7] = [
    "data",
    "file_data",
    "url",
    "file_url",
    "file_id",
    "bytes",
    "id",
];

/// Types beside `text/*`, `*+json` and `*+xml` that a model reads as plain text.
const TEXT_MIMES: [&str; 5] = [
    "application/json",
    "application/xml",
    "application/yaml",
    "application/x-ndjson",
    "application/javascript",
];

/// Beginnings of a reference to bytes that are elsewhere.
const REFERENCES: [&str; 6] = ["http://", "https://", "gs://", "s3://", "file-", "file_"];

/// Where Gemini has how closely the model is to look.
pub(super) const MEDIA_LEVEL: [&str; 2] = ["mediaResolution", "media_resolution"];

/// The name of a media resolution as the rules have it; none if it says nothing.
pub(super) fn plain_level(name: &str) -> Option<&'static str> {
    const LEVELS: [(&str, &str); 4] = [
        ("LOW", "low"),
        ("MEDIUM", "medium"),
        ("HIGH", "high"),
        ("ULTRA_HIGH", "ultra-high"),
    ];
    let name = name.strip_prefix("MEDIA_RESOLUTION_").unwrap_or(name);
    let mut levels = LEVELS.into_iter();
    levels.find_map(|(known, level)| known.eq_ignore_ascii_case(name).then_some(level))
}

/// The same, for one that the rules may not have.
fn level_of(name: &str) -> &str {
    plain_level(name).unwrap_or(name)
}

/// Sets the level of all media in `parts` that have none of their own. Recurses as deep as the reader nests results.
pub(super) fn set_level(parts: &mut [Part<'_>], level: &'static str) {
    for part in parts {
        match part {
            Part::Media(media) if media.detail.is_empty() => media.detail = level.into(),
            Part::ToolResult(result) => set_level(&mut result.parts, level),
            _ => {}
        }
    }
}

/// The description of its media that a block has beside the bytes.
pub(super) struct About<'d> {
    kind: MediaKind,
    mime: Cow<'d, str>,
    detail: &'d str,
    name: &'d str,
}

impl<'d> About<'d> {
    /// Media of this kind, of which nothing else is known.
    pub(super) fn kind(kind: MediaKind) -> About<'d> {
        About {
            kind,
            mime: Cow::Borrowed(""),
            detail: "",
            name: "",
        }
    }

    /// The description of its media in a part of Gemini or VS Code.
    pub(super) fn inline(part: Value<'d>) -> About<'d> {
        let mime = string(first(part, &["mimeType", "mime_type"]));
        About {
            mime: plain_mime(mime, MediaKind::File),
            name: string(first(part, &["displayName", "display_name"])),
            ..About::kind(MediaKind::File)
        }
    }

    /// With the resolution that a part of Gemini asks for.
    pub(super) fn at_level(self, part: Value<'d>) -> About<'d> {
        let asked = first(part, &MEDIA_LEVEL);
        let level = asked.and_then(|it| it.get("level")).or(asked);
        About {
            detail: plain_level(string(level)).unwrap_or_default(),
            ..self
        }
    }

    /// The kind of media: the MIME type knows better than the block.
    fn family(&self) -> MediaKind {
        kind_of_mime(&self.mime).unwrap_or(self.kind)
    }

    fn media(self, content: Content<'d>) -> Part<'d> {
        Part::Media(Media {
            kind: self.family(),
            mime: self.mime,
            content,
            detail: self.detail.into(),
            name: self.name.into(),
        })
    }
}

impl<'d> Reader<'_, 'd> {
    /// Appends a block of the OpenAI, Anthropic, Mistral or AI SDK form, whose type is `part`.
    pub(super) fn media_block(&mut self, part: &'static PartType, block: Value<'d>) {
        if let Some(document) = object(block.get("document")).filter(|it| has(*it, &["data"])) {
            return self.cohere_document(document);
        }
        let inner = first(block, &[part.name]).or_else(|| first(block, &SOURCE_KEYS));
        let source = object(inner);
        if source.is_some_and(|source| matches!(string(source.get("type")), "text" | "content")) {
            return self.document(String::new(), |it| it.text_document(block, source));
        }
        let inner = match source {
            Some(source) => first(source, &CONTENT_KEYS),
            None => inner,
        };
        let inner = inner
            .or_else(|| first(block, &["file_id", "url", "uri"]))
            .or(source);
        let about = about_block(part.kind, block, source);
        match inner.and_then(Value::as_str) {
            Some(text) if looks_remote(part, text) || is_place(block) => self.remote(inner, about),
            _ => self.media(inner, about),
        }
    }

    /// Appends a document that is text or a list of blocks.
    fn text_document(&mut self, block: Value<'d>, source: Option<Value<'d>>) {
        self.text(string(block.get("title")));
        self.text(string(block.get("context")));
        self.nested(source.and_then(|source| first(source, &["data", "content", "text"])));
    }

    /// Appends a search result of Anthropic's or Converse's, which is a document that is text.
    pub(super) fn search_result(&mut self, found: Value<'d>) {
        self.document(String::new(), |it| {
            it.text(string(found.get("title")));
            it.text(string(found.get("source")));
            it.nested(found.get("content"));
        });
    }

    /// Appends a document of Cohere's, which is billed as a line for each field; their order says nothing.
    pub(super) fn cohere_document(&mut self, document: Value<'d>) {
        let data = first(document, &["data"]).unwrap_or(document);
        let mut text = data.as_str().unwrap_or_default().to_owned();
        let mut fields: Vec<_> = data.members().collect();
        fields.sort_by_key(|(name, _)| *name);
        for (name, value) in fields {
            text.push_str(if text.is_empty() { "" } else { "\n" });
            text.push_str(name);
            text.push_str(": ");
            match value.as_str() {
                Some(value) => text.push_str(value),
                None => value.write_compact(&mut text),
            }
        }
        self.text(text);
    }

    /// Appends the parts of a document that `read` appends, the last text marked as one.
    fn document(&mut self, name: String, read: impl FnOnce(&mut Self)) {
        let end = |parts: &[Part<'d>]| match parts.last() {
            Some(Part::Text(text)) => (parts.len(), text.len()),
            _ => (parts.len(), 0),
        };
        let before = end(&self.parts);
        read(self);
        let is_more = end(&self.parts) != before;
        if let Some(Part::Text(text)) = self.parts.last_mut().filter(|_| is_more) {
            text.end_document(name);
        }
    }

    /// Appends an image, document, video or audio block of Bedrock Converse.
    pub(super) fn converse_media(&mut self, kind: MediaKind, media: Value<'d>) {
        let text = |key| string(media.get(key));
        let name = format!("{}.{}", text("name"), text("format"));
        self.document(name, |reader| reader.converse_source(kind, media));
    }

    fn converse_source(&mut self, kind: MediaKind, media: Value<'d>) {
        let source = object(media.get("source"));
        let field = |key| source.and_then(|source| source.get(key));
        if let (MediaKind::File, Some(content)) = (kind, array(field("content"))) {
            return self.nested(Some(content));
        }
        if let (MediaKind::File, Some(text)) = (kind, field("text").and_then(Value::as_str)) {
            return self.text(text);
        }
        let about = About {
            mime: plain_mime(string(media.get("format")), kind),
            name: string(media.get("name")),
            ..About::kind(kind)
        };
        self.media(present(field("bytes")).or(source), about);
    }

    /// Appends media whose bytes are in the request: raw bytes, base64 text or a data URL.
    pub(super) fn media(&mut self, value: Option<Value<'d>>, mut about: About<'d>) {
        let bytes = value.and_then(Value::as_bytes);
        let content = match (value.and_then(Value::as_str), bytes) {
            (Some(text), _) => match parse_data_url(text) {
                Some(url) => {
                    about.mime = plain_mime(&url.mime, about.kind).into_owned().into();
                    content_of_url(&url, self.assumptions)
                }
                None => content_of_text(text, self.assumptions),
            },
            (None, Some(bytes)) => Content::Bytes(bytes),
            (None, None) => return self.remote(value, about),
        };
        if let Content::Malformed(_) = content {
            self.assumptions.insert("malformed_base64");
        }
        match about.family() == MediaKind::File && is_text_mime(&about.mime) {
            true => self.text(text_of(content)),
            false => self.push(about.media(content)),
        }
    }

    /// Appends media that is only named in the request; it is never fetched.
    ///
    /// A place that is no text, such as one in a store of the provider, is known by its JSON.
    pub(super) fn remote(&mut self, place: Option<Value<'d>>, about: About<'d>) {
        let place = place
            .filter(|place| is_truthy(*place))
            .map_or("?".into(), place_text);
        self.assumptions.insert(match about.family() {
            MediaKind::Image => "remote_image",
            MediaKind::File => "remote_file",
            MediaKind::Audio => "remote_audio",
            MediaKind::Video => "remote_video",
        });
        self.push(about.media(Content::Remote(place)));
    }
}

/// The description of the media in `block` and its `source`; the source takes precedence.
fn about_block<'d>(kind: PartKind, block: Value<'d>, source: Option<Value<'d>>) -> About<'d> {
    let field = |key: &str| {
        let inner = source.and_then(|source| source.get(key));
        present(inner).or_else(|| present(block.get(key)))
    };
    let mime_keys = ["mediaType", "media_type", "mimeType", "mime_type", "format"];
    let family = match kind {
        PartKind::Media(family) => family,
        _ => MediaKind::File,
    };
    About {
        kind: family,
        mime: plain_mime(string(mime_keys.into_iter().find_map(field)), family),
        detail: match string(field("detail")) {
            "" => level_of(string(field("resolution"))),
            detail => detail,
        },
        name: string(field("filename").or_else(|| field("title"))),
    }
}

/// The kind of media of a MIME type, if it says.
fn kind_of_mime(mime: &str) -> Option<MediaKind> {
    match mime.split_once('/')?.0 {
        "image" => Some(MediaKind::Image),
        "audio" => Some(MediaKind::Audio),
        "video" => Some(MediaKind::Video),
        _ => None,
    }
}

/// True if a file of this type is read by the model as plain text.
fn is_text_mime(mime: &str) -> bool {
    let is_text = mime.starts_with("text/") || TEXT_MIMES.contains(&mime);
    is_text || mime.ends_with("+json") || mime.ends_with("+xml")
}

/// A MIME type in lower case without parameters; a bare format becomes one of its kind.
fn plain_mime(mime: &str, kind: MediaKind) -> Cow<'_, str> {
    let mime = mime.split(';').next().unwrap_or_default();
    let mime = mime.trim_matches(|c| matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0c'));
    let mime = match mime.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(mime.to_ascii_lowercase()),
        false => Cow::Borrowed(mime),
    };
    match (&*mime, kind) {
        ("image/jpg", _) => Cow::Borrowed("image/jpeg"),
        ("jpg", MediaKind::Image) => Cow::Borrowed("image/jpeg"),
        ("", _) => mime,
        (full, _) if full.contains('/') => mime,
        (format, MediaKind::File) => file_mime(format),
        (format, _) => Cow::Owned(format!("{}/{format}", kind.name())),
    }
}

/// The MIME type of a file format: `txt`, `pdf`, ...
fn file_mime(format: &str) -> Cow<'static, str> {
    match format {
        "txt" => Cow::Borrowed("text/plain"),
        "md" => Cow::Borrowed("text/markdown"),
        "csv" => Cow::Borrowed("text/csv"),
        "html" => Cow::Borrowed("text/html"),
        _ => Cow::Owned(format!("application/{format}")),
    }
}

/// True if a block of Gemini's Interactions says where its bytes are.
fn is_place(block: Value<'_>) -> bool {
    has(block, &["uri"]) && !has(block, &["data"])
}

/// True if `text` says where bytes are instead of holding them.
fn looks_remote(part: &PartType, text: &str) -> bool {
    let is_reference = part.is_place || REFERENCES.iter().any(|start| text.starts_with(start));
    is_reference && parse_data_url(text).is_none()
}

fn content_of_url<'d>(url: &DataUrl<'d>, notes: &Notes) -> Content<'d> {
    match url.is_base64 {
        true => content_of_text(url.data, notes),
        false => Content::Percent(url.data),
    }
}

/// A long text that was met before is known to be base64, without a look at each letter.
fn content_of_text<'d>(text: &'d str, notes: &Notes) -> Content<'d> {
    let hasher = notes.media_hasher.as_ref();
    if let Some(hasher) = hasher.filter(|_| text.len() >= MIN_HASHED_BYTES) {
        return match (hasher.0)(text) {
            Some(hash) => Content::Base64(text, Some(Box::new(hash))),
            None => Content::Malformed(text),
        };
    }
    match is_base64(text) {
        true => Content::Base64(text, None),
        false => Content::Malformed(text),
    }
}

fn place_text(place: Value<'_>) -> Cow<'_, str> {
    match place.as_str() {
        Some(text) => Cow::Borrowed(text),
        None => Cow::Owned(Data::value(place).canonical()),
    }
}

/// The text of a text file as the model reads it; where it is not base64, the text itself.
fn text_of(content: Content<'_>) -> Cow<'_, str> {
    let decoded = match content {
        Content::Bytes(bytes) => return String::from_utf8_lossy(bytes),
        Content::Malformed(text) => return Cow::Borrowed(text),
        Content::Remote(place) => return place,
        Content::Base64(text, _) => decode_base64_head(text, usize::MAX),
        Content::Percent(text) => percent_decode_head(text, text.len()),
    };
    Cow::Owned(match String::from_utf8(decoded) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}
