//! Pages and characters of a PDF, as far as they can be read without a PDF library.
//!
//! One pass over the bytes: objects and streams are found by their keywords, compressed streams are
//! inflated up to a limit. Fonts are not read: a character is a byte of a literal string, and two or
//! four digits of a hexadecimal one. That is near enough for a price per page and per character.
use crate::interrupt;
use memchr::memmem;
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};
use std::borrow::Cow;

/// Bytes that all streams of one file may inflate to; what is beyond is not read.
const MAX_INFLATED_BYTES: usize = 8 << 20;

/// Streams that are looked at. A page has two or three, and a stream costs some microseconds, however
/// short it is.
const MAX_STREAMS: usize = 20_000;

/// Pages that are counted: several times what any provider takes. Without it, a name of ten bytes would
/// cost a page of tokens.
const MAX_PAGES: u64 = 5_000;

/// Bytes that one byte of a compressed stream can become at most.
const MAX_RATIO: usize = 1032;

/// Where a file must say what it is.
const HEAD_BYTES: usize = 1024;

/// Of a stream's dictionary: contents that are no text of a page.
const UNREAD: [&[u8]; 5] = [b"/Image", b"/FontFile", b"/Length1", b"/XRef", b"/Metadata"];

/// How long a PDF is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PdfLength {
    /// Pages, at least one.
    pub pages: u64,
    /// Characters that are shown on them.
    pub characters: u64,
    /// True if a limit was met, so that there may be more of both.
    pub is_cut: bool,
}

/// How long the PDF in `bytes` is; none if it is no PDF or shows no page.
///
/// Linear in the bytes and in what they inflate to, at most 8 MiB from 20,000 streams; at most 5,000
/// pages; never panics.
pub fn pdf_length(bytes: &[u8]) -> Option<PdfLength> {
    memmem::find(&bytes[..bytes.len().min(HEAD_BYTES)], b"%PDF-")?;
    let mut reader = Reader {
        length: PdfLength::default(),
        left_bytes: MAX_INFLATED_BYTES,
        left_streams: MAX_STREAMS,
        inflater: Inflater::default(),
    };
    let (start, end) = (
        memmem::Finder::new("stream"),
        memmem::Finder::new("endstream"),
    );
    let mut rest = bytes;
    while let Some(place) = start.find(rest) {
        interrupt::poll();
        let (objects, stream) = rest.split_at(place);
        let stream = &stream[b"stream".len()..];
        reader.objects(objects);
        let length = end.find(stream).unwrap_or(stream.len());
        reader.stream(dictionary(objects), without_line_end(&stream[..length]));
        rest = &stream[(length + b"endstream".len()).min(stream.len())..];
    }
    reader.objects(rest);
    if reader.length.pages > MAX_PAGES {
        reader.length.pages = MAX_PAGES;
        reader.length.is_cut = true;
    }
    Some(reader.length).filter(|length| length.pages > 0)
}

struct Reader {
    length: PdfLength,
    left_bytes: usize,
    left_streams: usize,
    inflater: Inflater,
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
        if self.left_streams == 0 {
            self.length.is_cut = true;
            return;
        }
        self.left_streams -= 1;
        let mut inflater = std::mem::take(&mut self.inflater);
        self.content(dictionary, content, &mut inflater);
        self.inflater = inflater;
    }

    fn content(&mut self, dictionary: &[u8], content: &[u8], inflater: &mut Inflater) {
        let says = |name: &[u8]| memmem::find(dictionary, name).is_some();
        let bare = match (says(b"/ASCII85Decode"), says(b"/ASCIIHexDecode")) {
            (true, _) => Cow::Owned(ascii85(content)),
            (_, true) => Cow::Owned(hexadecimal(content)),
            _ => Cow::Borrowed(content),
        };
        let content = &*bare;
        let is_bare = matches!(bare, Cow::Owned(_)) && !says(b"/FlateDecode");
        let content = match (says(b"/Filter"), says(b"/FlateDecode")) {
            (false, _) => content,
            (true, false) if is_bare => content,
            (true, false) => return,
            (true, true) => match inflater.inflated(content, self.left_bytes) {
                Ok(bytes) => {
                    self.left_bytes -= bytes.len();
                    bytes
                }
                Err(status) => {
                    self.length.is_cut |= status == TINFLStatus::HasMoreOutput;
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

/// The bytes that are written in five characters for each four, up to what is none. Linear; about
/// as many at most as may be inflated, since one `z` stands for four.
fn ascii85(text: &[u8]) -> Vec<u8> {
    let text = text.strip_prefix(b"<~").unwrap_or(text);
    let mut bytes = Vec::with_capacity(text.len() / 5 * 4 + 4);
    let (mut group, mut count) = (0_u32, 0);
    for &byte in text {
        match byte {
            b'z' if count == 0 => bytes.extend([0; 4]),
            b'!'..=b'u' => {
                group = group.wrapping_mul(85).wrapping_add(u32::from(byte - b'!'));
                count += 1;
            }
            _ if byte.is_ascii_whitespace() => {}
            _ => break,
        }
        if bytes.len() > MAX_INFLATED_BYTES {
            break;
        }
        if count == 5 {
            bytes.extend(group.to_be_bytes());
            (group, count) = (0, 0);
        }
    }
    if count > 1 {
        let last = (count..5).fold(group, |all, _| all.wrapping_mul(85).wrapping_add(84));
        bytes.extend(&last.to_be_bytes()[..count - 1]);
    }
    bytes
}

/// The bytes that are written in two hexadecimal digits each, up to a `>`. Linear.
fn hexadecimal(text: &[u8]) -> Vec<u8> {
    let text = text.split(|byte| *byte == b'>').next().unwrap_or_default();
    let digits = text
        .iter()
        .filter_map(|byte| char::from(*byte).to_digit(16));
    let digits: Vec<_> = digits
        .filter_map(|digit| u8::try_from(digit).ok())
        .collect();
    let pairs = digits.chunks(2);
    pairs
        .map(|pair| pair[0] << 4 | pair.get(1).copied().unwrap_or_default())
        .collect()
}

/// Characters of a hexadecimal string: of one byte each if no byte is a control character, as
/// letters are none; else of two.
fn hexadecimal_characters(digits: &[u8]) -> u64 {
    let bytes = hexadecimal(digits);
    let is_wide = bytes.len().is_multiple_of(2) && bytes.iter().any(|byte| *byte < b' ');
    bytes.len() as u64 / if is_wide { 2 } else { 1 }
}

/// Inflates one stream after another in the same memory.
#[derive(Default)]
struct Inflater {
    state: Box<DecompressorOxide>,
    bytes: Vec<u8>,
}

impl Inflater {
    /// Inflates the zlib stream in `content`; fails if it is none, or longer than `limit`.
    fn inflated(&mut self, content: &[u8], limit: usize) -> Result<&[u8], TINFLStatus> {
        let flags = inflate_flags::TINFL_FLAG_PARSE_ZLIB_HEADER
            | inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
        self.state.init();
        let (mut read, mut written) = (0, 0);
        loop {
            let room = self.bytes.len().min(limit);
            let output = &mut self.bytes[..room];
            let step = decompress(&mut self.state, &content[read..], output, written, flags);
            read += step.1;
            written += step.2;
            match step.0 {
                TINFLStatus::Done => return Ok(&self.bytes[..written]),
                TINFLStatus::HasMoreOutput if room < limit => {
                    let more = (2 * room).max(content.len()).max(MIN_ROOM_BYTES);
                    self.bytes.resize(more.min(limit), 0);
                }
                status => return Err(status),
            }
        }
    }
}

/// Room that the first stream inflates to.
const MIN_ROOM_BYTES: usize = 4096;

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
                count += hexadecimal_characters(&digits[..read]);
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
            is_cut: false,
        };
        assert_eq!(pdf_length(&file("", content)), Some(length));
        let small = miniz_oxide::deflate::compress_to_vec_zlib(content, 6);
        assert_eq!(
            pdf_length(&file("/Filter /FlateDecode", &small)),
            Some(length)
        );
    }

    #[test]
    fn text_filters_are_read() {
        let text = b"BT (Hi) Tj ET";
        // Python's base64.a85encode and bytes.hex of it.
        let written: [(&str, &[u8]); 2] = [
            ("/Filter /ASCII85Decode", b"<~6<#'U880Lq<,*OE;u~>"),
            (
                "/Filter [/ASCIIHexDecode]",
                b"4254 2028 4869 2920 546A 2045 54>",
            ),
        ];
        for (filter, content) in written {
            let length = pdf_length(&file(filter, content)).expect("it has a page");
            assert_eq!(length.characters, 2, "{filter}");
        }
        assert_eq!(ascii85(written[0].1), text);
        assert_eq!((ascii85(b"z!!"), ascii85(b"")), (vec![0; 5], vec![]));
    }

    #[test]
    fn a_hexadecimal_string_of_letters_has_a_byte_for_each() {
        let of = |content| {
            pdf_length(&file("", content))
                .expect("it has a page")
                .characters
        };
        assert_eq!(of(b"BT <48692021> Tj ET"), 4);
        assert_eq!(of(b"BT <0048006900200021> Tj ET"), 4);
        assert_eq!(of(b"BT <486> Tj <> Tj ET"), 2);
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
        let length = pdf_length(&bytes).expect("it has a page");
        assert_eq!((length.characters, length.is_cut), (0, true));
    }

    #[test]
    fn streams_and_pages_beyond_the_limit_are_not_read() {
        let text = miniz_oxide::deflate::compress_to_vec_zlib(b"BT (x) Tj ET", 6);
        let one = file("/Filter /FlateDecode", &text);
        let many = one.repeat(MAX_STREAMS + 7);
        let length = pdf_length(&many).expect("it has pages");
        let expected = (MAX_PAGES, MAX_STREAMS as u64, true);
        assert_eq!((length.pages, length.characters, length.is_cut), expected);
        let whole = pdf_length(&one.repeat(5_000)).expect("it has pages");
        assert_eq!((whole.pages, whole.is_cut), (MAX_PAGES, false));
    }
}
