//! Data URLs (RFC 2397): `data:image/png;base64,iVBOR...`.

use super::base64::{Base64End, base64_image_size, decode_base64_head};
use super::image::{HEAD_BYTES, ImageFormat, PixelSize, image_size};

/// A header longer than this, without `data:` and the comma, is not one: MIME types end at 255.
pub const MAX_DATA_URL_HEADER_BYTES: usize = 1024;

/// A split data URL; `data` borrows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataUrl<'a> {
    /// MIME type in lower case without parameters; `text/plain` if the URL names none.
    pub mime: String,
    /// True if `data` is base64; otherwise it is percent-encoded.
    pub is_base64: bool,
    /// Everything after the comma, as written.
    pub data: &'a str,
}

/// The parts of `url`, or `None` if it is not a data URL.
///
/// Looks at no more than the header; never panics.
///
/// ```
/// use tokenctx::media::parse_data_url;
///
/// let url = parse_data_url("data:Image/PNG;base64,iVBORw0KGgo=").unwrap();
/// assert_eq!((url.mime.as_str(), url.is_base64), ("image/png", true));
/// assert!(parse_data_url("https://example.com/a.png").is_none());
/// ```
#[must_use]
pub fn parse_data_url(url: &str) -> Option<DataUrl<'_>> {
    const SCHEME: &str = "data:";
    let url = url.trim_start_matches(is_space);
    let scheme = url.get(..SCHEME.len())?;
    let rest = &url[SCHEME.len()..];
    let looked_at = &rest.as_bytes()[..rest.len().min(MAX_DATA_URL_HEADER_BYTES + 1)];
    let comma = memchr::memchr(b',', looked_at)?;
    if !scheme.eq_ignore_ascii_case(SCHEME) {
        return None;
    }
    let mut fields = rest[..comma]
        .split(';')
        .map(|field| field.trim_matches(is_space));
    let mime = fields.next().unwrap_or_default().to_ascii_lowercase();
    Some(DataUrl {
        mime: if mime.is_empty() {
            "text/plain".to_owned()
        } else {
            mime
        },
        is_base64: fields.any(|field| field.eq_ignore_ascii_case("base64")),
        data: &rest[comma + 1..],
    })
}

fn is_space(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\x0C' | '\r' | ' ')
}

impl DataUrl<'_> {
    /// The first `max_bytes` bytes of the content.
    #[must_use]
    pub fn head(&self, max_bytes: usize) -> Vec<u8> {
        if self.is_base64 {
            decode_base64_head(self.data, max_bytes)
        } else {
            percent_decode_head(self.data, max_bytes)
        }
    }

    /// [`image_size`] of the content.
    #[must_use]
    pub fn image_size(&self) -> Option<(PixelSize, ImageFormat)> {
        if self.is_base64 {
            base64_image_size(self.data)
        } else {
            image_size(&self.head(HEAD_BYTES))
        }
    }

    /// Calls `sink` with every byte of the content, in order, in chunks; for hashing.
    ///
    /// Linear in the data; a percent-encoded body is always complete.
    pub fn chunks(&self, mut sink: impl FnMut(&[u8])) -> Base64End {
        if self.is_base64 {
            return super::decode_base64_chunks(self.data, sink);
        }
        let mut decoded_bytes = 0;
        let mut rest = self.data.as_bytes();
        while !rest.is_empty() {
            let (read, chunk) = percent_decode(rest, HEAD_BYTES);
            sink(&chunk);
            decoded_bytes += chunk.len() as u64;
            rest = &rest[read..];
        }
        Base64End {
            decoded_bytes,
            is_complete: true,
        }
    }
}

/// The first `max_bytes` bytes of percent-encoded `text`; a broken escape stands for itself.
#[must_use]
pub fn percent_decode_head(text: &str, max_bytes: usize) -> Vec<u8> {
    percent_decode(text.as_bytes(), max_bytes).1
}

fn percent_decode(text: &[u8], max_bytes: usize) -> (usize, Vec<u8>) {
    let mut decoded = Vec::with_capacity(text.len().min(max_bytes));
    let mut rest = text;
    while decoded.len() < max_bytes {
        let Some((&first, after)) = rest.split_first() else {
            break;
        };
        match escape(rest) {
            Some(byte) => {
                decoded.push(byte);
                rest = &rest[3..];
            }
            None => {
                decoded.push(first);
                rest = after;
            }
        }
    }
    (text.len() - rest.len(), decoded)
}

/// The byte that `text` begins with an escape for.
fn escape(text: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = text else {
        return None;
    };
    let digit = |letter: &u8| char::from(*letter).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}
