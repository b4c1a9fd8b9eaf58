//! The tokens of images and other media.
use super::{Counter, plus};
use crate::media::{self, Detail, PixelSize};
use crate::request::{Content, Media, MediaKind};
use std::borrow::Cow;

/// The assumed size of an image that cannot be read; the reason is in `image_rules.json`.
const DEFAULT_SIDE_PX: u32 = 1024;

/// Bytes of a file that are looked at for its pages or its duration.
const MAX_FILE_BYTES: usize = 16 << 20;

/// The first bytes of office documents and other archives.
const ZIP_HEAD: &[u8] = b"PK\x03\x04";

/// Small spreadsheets cost 74 to 128 bytes per token, on recorded calls of three vendors.
const ZIP_BYTES_PER_TOKEN: u64 = 100;

impl Counter<'_> {
    /// Tokens of an image by the profile's rule, of other media by its flat price.
    pub(super) fn media(&mut self, media: &Media<'_>) -> u64 {
        let (assumption, price) = match media.kind {
            _ if self.profile.name == "universal" => {
                return self.text(&media.name) + self.text(&media.mime);
            }
            MediaKind::Image => return self.image(media),
            MediaKind::File => match self.document_tokens(media) {
                Some(tokens) => return tokens,
                None => ("flat_file", self.profile.media.file_tokens),
            },
            MediaKind::Audio => match self.audio_tokens(media) {
                Some(tokens) => return tokens,
                None => ("flat_audio", self.profile.media.audio_tokens),
            },
            MediaKind::Video => match timed(media, self.profile.media.video_second_tokens) {
                Some(tokens) => return tokens,
                None => ("flat_video", self.profile.media.video_tokens),
            },
        };
        self.assumptions.insert(assumption);
        price
    }

    /// Tokens of a PDF whose pages can be counted, or of an office document by its length.
    fn document_tokens(&mut self, media: &Media<'_>) -> Option<u64> {
        let prices = &self.profile.media;
        let of_api = self.api.map_or(0, |api| api.page_tokens);
        if prices.page_tokens == 0 && prices.page_text_permille == 0 {
            return None;
        }
        let bytes = content_bytes(&media.content);
        if bytes.starts_with(ZIP_HEAD) {
            self.assumptions.insert("flat_file");
            return Some(bytes.len() as u64 / ZIP_BYTES_PER_TOKEN);
        }
        let length = media::pdf_length(&bytes)?;
        if length.is_cut {
            self.assumptions.insert("unreadable_pdf");
        }
        let page = match self.shared_tokens() {
            Some(shared) => shared,
            None if length.pages > 1 && prices.shared_media_tokens > 0 => {
                prices.shared_media_tokens
            }
            None => plus(prices.page_tokens, of_api),
        };
        let text = length.characters * prices.page_text_permille / 1000;
        Some(length.pages.saturating_mul(page).saturating_add(text))
    }

    fn audio_tokens(&self, media: &Media<'_>) -> Option<u64> {
        let tokens = timed(media, self.profile.media.audio_second_tokens)?;
        Some(tokens + self.profile.media.audio_start_tokens)
    }

    /// The tokens of an image or a page where the request has several, if that makes a difference.
    fn shared_tokens(&self) -> Option<u64> {
        let tokens = self.profile.media.shared_media_tokens;
        (tokens > 0 && self.media_count > 1).then_some(tokens)
    }

    fn image(&mut self, media: &Media<'_>) -> u64 {
        let head = content_head(&media.content);
        let size = media::image_size(&head).map(|(size, _)| size);
        if size.is_none() && !matches!(media.content, Content::Remote(_)) {
            self.assumptions.insert("unreadable_image");
        }
        let size = size.or_else(|| PixelSize::new(DEFAULT_SIDE_PX, DEFAULT_SIDE_PX));
        if let Some(shared) = self.shared_tokens() {
            return shared;
        }
        let rule = media::image_rule(self.profile.media.image_rule.as_str());
        match (rule, size) {
            (Some(rule), Some(size)) => rule.tokens(size, detail(&media.detail)),
            _ => 0,
        }
    }
}

/// Tokens of what plays for a time that its header tells, rounded up.
fn timed(media: &Media<'_>, second_tokens: u64) -> Option<u64> {
    if second_tokens == 0 {
        return None;
    }
    let bytes = content_bytes(&media.content);
    let byte_count = match &media.content {
        Content::Base64(text, _) => media::base64_decoded_len(text),
        _ => bytes.len() as u64,
    };
    let milliseconds = media::duration_ms(&bytes, byte_count)?;
    Some(milliseconds.saturating_mul(second_tokens).div_ceil(1000))
}

/// The bytes, as far as they are here and are read.
fn content_bytes<'d>(content: &Content<'d>) -> Cow<'d, [u8]> {
    match content {
        Content::Bytes(bytes) => bytes[..bytes.len().min(MAX_FILE_BYTES)].into(),
        Content::Base64(text, _) | Content::Malformed(text) => {
            media::decode_base64_head(text, MAX_FILE_BYTES).into()
        }
        Content::Percent(text) => media::percent_decode_head(text, MAX_FILE_BYTES).into(),
        Content::Remote(_) => Default::default(),
    }
}

/// The beginning of the bytes, as far as an image header can reach; empty if they are elsewhere.
fn content_head<'d>(content: &Content<'d>) -> Cow<'d, [u8]> {
    match content {
        Content::Bytes(bytes) => bytes[..bytes.len().min(media::HEAD_BYTES)].into(),
        Content::Base64(text, _) | Content::Malformed(text) => {
            media::decode_base64_head(text, media::HEAD_BYTES).into()
        }
        Content::Percent(text) => media::percent_decode_head(text, media::HEAD_BYTES).into(),
        Content::Remote(_) => Default::default(),
    }
}

/// The level of this name; one that no rule knows counts as `auto`.
fn detail(name: &str) -> Detail {
    Detail::from_name(name).unwrap_or(Detail::Auto)
}
