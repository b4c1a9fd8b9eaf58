//! What images and other media cost.
use super::Counter;
use crate::media::{self, Detail, PixelSize};
use crate::request::{Content, Media, MediaKind};

/// What counts as the size of an image that cannot be read; the reason is in `image_rules.json`.
const DEFAULT_SIDE_PX: u32 = 1024;

impl Counter<'_> {
    /// Tokens of an image by the profile's rule, of other media by its flat price.
    pub(super) fn media(&mut self, media: &Media<'_>) -> u64 {
        let (assumption, price) = match media.kind {
            _ if self.profile.name == "universal" => {
                return self.text(&media.name) + self.text(&media.mime);
            }
            MediaKind::Image => return self.image(media),
            MediaKind::File => ("flat_file", self.profile.file_tokens),
            MediaKind::Audio => ("flat_audio", self.profile.audio_tokens),
            MediaKind::Video => ("flat_video", self.profile.video_tokens),
        };
        self.assumptions.insert(assumption);
        price
    }

    fn image(&mut self, media: &Media<'_>) -> u64 {
        let head = content_head(&media.content);
        let size = media::image_size(&head).map(|(size, _)| size);
        if size.is_none() && !matches!(media.content, Content::Remote(_)) {
            self.assumptions.insert("unreadable_image");
        }
        let size = size.or_else(|| PixelSize::new(DEFAULT_SIDE_PX, DEFAULT_SIDE_PX));
        let rule = media::image_rule(&self.profile.image_rule);
        match (rule, size) {
            (Some(rule), Some(size)) => rule.tokens(size, detail(&media.detail)),
            _ => 0,
        }
    }
}

/// The beginning of the bytes, as far as an image header can reach; empty if they are elsewhere.
fn content_head<'d>(content: &Content<'d>) -> std::borrow::Cow<'d, [u8]> {
    match content {
        Content::Bytes(bytes) => bytes[..bytes.len().min(media::HEAD_BYTES)].into(),
        Content::Base64(text) | Content::Malformed(text) => {
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
