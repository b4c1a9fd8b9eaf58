//! One buffer of JSON lines as rows.
use memchr::memchr;

/// The lines of `content` that are not blank, in order, without their ends. Linear in it.
///
/// ```
/// let found: Vec<_> = tokenctx::batch::lines(b"{}\r\n\n[]").collect();
/// assert_eq!(found, [b"{}", b"[]"]);
/// ```
pub fn lines(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = content;
    let next = move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr(b'\n', rest).unwrap_or(rest.len());
        let line = &rest[..end];
        rest = rest.get(end + 1..).unwrap_or_default();
        Some(line.trim_ascii())
    };
    std::iter::from_fn(next).filter(|line| !line.is_empty())
}
