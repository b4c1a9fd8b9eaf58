//! From the bytes of a body to text.
use super::limits::Anomalies;
use crate::Error;
use std::borrow::Cow;

/// The body as text, and whether it had to be repaired.
///
/// Borrowed if it is valid UTF-8, else copied with U+FFFD in place of each bad sequence, as
/// `String::from_utf8_lossy` does. A UTF-8 byte order mark stays; the parser skips it.
///
/// Fails with [`Error::Encoding`] if the bytes are UTF-16 or UTF-32.
pub fn decode_body(body: &[u8]) -> Result<(Cow<'_, str>, Anomalies), Error> {
    if let Some(found) = other_encoding(body) {
        return Err(Error::Encoding { found });
    }
    Ok(match std::str::from_utf8(body) {
        Ok(text) => (Cow::Borrowed(text), Anomalies::default()),
        Err(_) => (String::from_utf8_lossy(body), Anomalies::INVALID_UTF8),
    })
}

/// Name of the encoding, if it is not UTF-8.
///
/// By byte order mark; without one by where the first zero bytes are, since JSON begins with
/// an ASCII character (RFC 4627, section 3).
fn other_encoding(body: &[u8]) -> Option<&'static str> {
    match body {
        [0, 0, 0xfe, 0xff, ..] => return Some("UTF-32 (big endian)"),
        [0xff, 0xfe, 0, 0, ..] => return Some("UTF-32 (little endian)"),
        [0xfe, 0xff, ..] => return Some("UTF-16 (big endian)"),
        [0xff, 0xfe, ..] => return Some("UTF-16 (little endian)"),
        _ => {}
    }
    let is_zero = |nth| body.get(nth).map(|&byte: &u8| byte == 0);
    match [0, 1, 2, 3].map(is_zero) {
        [Some(true), Some(true), Some(true), Some(false)] => Some("UTF-32 (big endian)"),
        [Some(false), Some(true), Some(true), Some(true)] => Some("UTF-32 (little endian)"),
        [Some(true), Some(false), ..] => Some("UTF-16 (big endian)"),
        [Some(false), Some(true), _, Some(true)] | [Some(false), Some(true), None, None] => {
            Some("UTF-16 (little endian)")
        }
        _ => None,
    }
}
