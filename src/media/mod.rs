//! Media: the size of pictures and what it costs in input tokens, the length of files.
//!
//! Nothing here decodes a pixel or fetches a URL. The size of a picture needs at most the first
//! [`HEAD_BYTES`] of a file, so reading one is constant work whatever the file's length; pages of a
//! PDF and seconds of sound and video take one pass. Every function accepts any input without
//! panicking; what cannot be read is `None`, and the caller prices it by a default.
//!
//! Prices are data: [`IMAGE_RULES_JSON`] names each vendor's rule with its constants, source and
//! date. [`ImageRule`] is one such rule; its arithmetic is on whole numbers only.

mod base64;
mod data_url;
mod duration;
mod entry;
mod image;
mod pdf;
mod rule;
mod table;
mod tokens;

pub use base64::{
    Base64End, base64_decoded_len, base64_image_size, decode_base64_chunks, decode_base64_head,
    is_base64,
};
pub use data_url::{DataUrl, MAX_DATA_URL_HEADER_BYTES, parse_data_url, percent_decode_head};
pub use duration::duration_ms;
pub use entry::{Detail, RuleError};
pub use image::{HEAD_BYTES, ImageFormat, PixelSize, image_size};
pub use pdf::{PdfLength, pdf_length};
pub use rule::ImageRule;
pub(crate) use table::read_table;
pub use table::{IMAGE_RULES_JSON, image_rule, image_rule_names};
