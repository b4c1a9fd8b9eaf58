//! Pages and characters of a PDF, as far as they can be read without a PDF library.
//!
//! One pass over the bytes: objects and streams are found by their keywords, compressed streams are
//! inflated up to a limit. Fonts are not read: a character is a byte of a literal string, or four
//! digits of a hexadecimal one. That is near enough for a price per page and per character.
use memchr::memmem;
use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;

/// Bytes that all streams of one file may inflate to; what is beyond is not read.
const MAX_INFLATED_BYTES: usize = 8 << 20;

/// Bytes that one byte of a compressed stream can become at most.
const MAX_RATIO: usize = 1032;

/// Where a file must say what it is.
const HEAD_BYTES: usize = 1024;

/// Of a stream's dictionary: contents that are no text of a page.
const UNREAD: [&[u8]; 7] = [
    b"/Image",
    b"/FontFile",
    b"/Length1",
    b"/XRef",
    b"/Metadata",
    b"/ASCII85Decode",
    b"/ASCIIHexDecode",
];

/// How long a PDF is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PdfLength {
    /// Pages, at least one.
    pub pages: u64,
    /// Characters that are shown on them.
    pub characters: u64,
}

/// How long the PDF in `bytes` is; none if it is no PDF or shows no page.
///
/// Linear in the bytes and in what they inflate to, at most 8 MiB; never panics.
pub fn pdf_length(bytes: &[u8]) -> Option<PdfLength> {
    memmem::find(&bytes[..bytes.len().min(HEAD_BYTES)], b"%PDF-")?;
    let mut reader = Reader {
        length: PdfLength::default(),
        left_bytes: MAX_INFLATED_BYTES,
    };
    let (start, end) = (
        memmem::Finder::new("stream"),
        memmem::Finder::new("endstream"),
    );
    let mut rest = bytes;
    while let Some(place) = start.find(rest) {
        let (objects, stream) = rest.split_at(place);
        let stream = &stream[b"stream".len()..];
        reader.objects(objects);
        let length = end.find(stream).unwrap_or(stream.len());
        reader.stream(dictionary(objects), without_line_end(&stream[..length]));
        rest = &stream[(length + b"endstream".len()).min(stream.len())..];
    }
    reader.objects(rest);
    Some(reader.length).filter(|length| length.pages > 0)
}

struct Reader {
    length: PdfLength,
    left_bytes: usize,
}

impl Reader {
    /// Counts the pages among the objects in `text`.
    fn objects(&mut self, text: &[u8]) {
        for place in memmem::find_iter(text, b"/Page") {
            let before = text[..place].trim_ascii_end();
            let is_name = |byte: &u8| byte.is_ascii_alphanumeric();
            let is_page = !text.get(place + b"/Page".len()).is_some_and(is_name);
            self.length.pages += u64::from(is_page && before.ends_with(b"/Type"));
        }
    }

    fn stream(&mut self, dictionary: &[u8], content: &[u8]) {
        let says = |name: &[u8]| memmem::find(dictionary, name).is_some();
        if UNREAD.into_iter().any(says) {
            return;
        }
        let inflated;
        let content = match (says(b"/Filter"), says(b"/FlateDecode")) {
            (false, _) => content,
            (true, false) => return,
            (true, true) => match decompress_to_vec_zlib_with_limit(content, self.left_bytes) {
                Ok(bytes) => {
                    self.left_bytes -= bytes.len();
                    inflated = bytes;
                    &inflated[..]
                }
                Err(_) => {
                    let work = content.len().saturating_mul(MAX_RATIO);
                    self.left_bytes = self.left_bytes.saturating_sub(work);
                    return;
                }
            },
        };
        match says(b"/ObjStm") {
            true => self.objects(content),
            false => self.length.characters += characters(content),
        }
    }
}

/// The end of `objects`, from the last object on, that is the dictionary of a stream.
fn dictionary(objects: &[u8]) -> &[u8] {
    let from = memmem::rfind(objects, b" obj").unwrap_or_default();
    &objects[from..]
}

/// A stream begins behind a line end.
fn without_line_end(stream: &[u8]) -> &[u8] {
    let stream = stream.strip_prefix(b"\r").unwrap_or(stream);
    stream.strip_prefix(b"\n").unwrap_or(stream)
}

/// Characters of the strings between the operators `BT` and `ET`.
fn characters(content: &[u8]) -> u64 {
    let mut count = 0;
    let mut rest = content;
    while let Some(place) = memmem::find(rest, b"BT") {
        rest = &rest[place + 2..];
        let (in_block, read) = block_characters(rest);
        count += in_block;
        rest = &rest[read..];
    }
    count
}

/// Characters up to the operator `ET`, and the bytes read.
fn block_characters(block: &[u8]) -> (u64, usize) {
    let (mut count, mut at) = (0, 0);
    while at < block.len() {
        match block[at] {
            b'(' => {
                let (length, read) = literal(&block[at..]);
                count += length;
                at += read;
            }
            b'<' => {
                let digits = &block[at + 1..];
                let read = memchr::memchr(b'>', digits).unwrap_or(digits.len());
                let digits = digits[..read].iter().filter(|it| it.is_ascii_hexdigit());
                count += (digits.count() as u64).div_ceil(4);
                at += read + 2;
            }
            b'E' if block[at..].starts_with(b"ET") => return (count, at + 2),
            _ => at += 1,
        }
    }
    (count, block.len())
}

/// Characters of the literal string that `text` begins with, and the bytes read.
fn literal(text: &[u8]) -> (u64, usize) {
    let (mut count, mut depth, mut at) = (0, 0_u64, 0);
    while at < text.len() {
        match text[at] {
            b'\\' => {
                count += 1;
                at += 1;
            }
            b'(' => depth += 1,
            b')' if depth == 1 => return (count, at + 1),
            b')' => depth -= 1,
            0 => {}
            _ => count += 1,
        }
        at += 1;
    }
    (count, text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "1 0 obj << /Type /Page >> endobj\n2 0 obj << /Type/Pages >> endobj\n";

    fn file(dictionary: &str, content: &[u8]) -> Vec<u8> {
        let mut bytes = format!("%PDF-1.4\n{PAGE}3 0 obj <<{dictionary}>> stream\r\n").into_bytes();
        bytes.extend_from_slice(content);
        bytes.extend_from_slice(b"\nendstream endobj");
        bytes
    }

    #[test]
    fn pages_and_characters_are_counted() {
        let content = b"BT /F1 12 Tf (Hi \\( (x)) Tj [<00410042> -20 (c)] TJ ET (none)";
        let length = PdfLength {
            pages: 1,
            characters: 9,
        };
        assert_eq!(pdf_length(&file("", content)), Some(length));
        let small = miniz_oxide::deflate::compress_to_vec_zlib(content, 6);
        assert_eq!(
            pdf_length(&file("/Filter /FlateDecode", &small)),
            Some(length)
        );
    }

    #[test]
    fn what_is_no_page_is_nothing() {
        assert_eq!(pdf_length(b""), None);
        assert_eq!(pdf_length(b"%PDF-1.4 /Type /Pages"), None);
        assert_eq!(pdf_length(PAGE.as_bytes()), None);
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let zeros = vec![0; 3 * MAX_INFLATED_BYTES];
        let bomb = miniz_oxide::deflate::compress_to_vec_zlib(&zeros, 9);
        let bytes = file("/Filter /FlateDecode", &bomb);
        assert_eq!(pdf_length(&bytes).map(|it| it.characters), Some(0));
    }
}
