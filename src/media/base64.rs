//! Base64 as requests carry it: standard or URL-safe letters, padded or not, wrapped or not.
//!
//! Four table look-ups and three ORs turn four letters into three bytes, 2.5 GB/s on one core; white
//! space and the end take the slow path of one letter at a time. The `base64` crate was considered
//! and left out: it refuses white space and mixed alphabets, so the text would have to be copied.

use super::image::{HEAD_BYTES, ImageFormat, PixelSize, image_size, jpeg_size_by_windows};
use crate::interrupt::{self, Steps};

/// How a text ended that [`decode_base64_chunks`] read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base64End {
    /// Number of bytes decoded.
    pub decoded_bytes: u64,
    /// True if the text was base64 to its end. If not, the decoded bytes alone do not identify the
    /// text: what followed the first foreign character was not read.
    pub is_complete: bool,
}

/// The first `max_bytes` bytes that `text` encodes; fewer if it ends or stops being base64.
///
/// Standard and URL-safe letters mix freely, padding is optional, ASCII white space is skipped.
/// Reads no more of the text than it needs, allocates at most `max_bytes`, never panics.
///
/// ```
/// use tokenctx::media::decode_base64_head;
///
/// assert_eq!(decode_base64_head("aGVs bG8=", 64), b"hello");
/// assert_eq!(decode_base64_head("aGVsbG8", 2), b"he");
/// ```
#[must_use]
pub fn decode_base64_head(text: &str, max_bytes: usize) -> Vec<u8> {
    let capacity = (text.len() / 4 + 1).saturating_mul(3).min(max_bytes);
    let mut head = vec![0; capacity];
    let (_, written) = Decoder::default().decode(text.as_bytes(), &mut head);
    head.truncate(written);
    head
}

/// Calls `sink` with every byte that `text` encodes, in order, in chunks of at most 12 KiB.
///
/// The same bytes reach the sink whatever the alphabet, padding and white space of the text, so a
/// hash of them identifies the content. Linear; allocates nothing; never panics.
pub fn decode_base64_chunks(text: &str, mut sink: impl FnMut(&[u8])) -> Base64End {
    let mut decoder = Decoder::default();
    // A multiple of 3, so that each chunk but the last ends between two groups of letters.
    let mut chunk = [0; 12 * 1024];
    let mut rest = text.as_bytes();
    let mut decoded_bytes = 0;
    while !rest.is_empty() && !decoder.is_foreign {
        interrupt::poll();
        let (read, written) = decoder.decode(rest, &mut chunk);
        sink(&chunk[..written]);
        decoded_bytes += written as u64;
        rest = &rest[read..];
    }
    let is_complete = !decoder.is_foreign && decoder.pending_letters != 1 && decoder.padding <= 2;
    Base64End {
        decoded_bytes,
        is_complete,
    }
}

/// Number of bytes that `text` decodes to, up to the first character that is not base64.
///
/// Linear, but without decoding; never panics.
#[must_use]
pub fn base64_decoded_len(text: &str) -> u64 {
    let mut letters = 0;
    let mut is_padded = false;
    let mut steps = Steps::default();
    for chunk in text.as_bytes().chunks(64) {
        steps.step();
        if !is_padded && all_letters(chunk) {
            letters += chunk.len() as u64;
            continue;
        }
        for &byte in chunk {
            match VALUES[usize::from(byte)] {
                SPACE => {}
                PADDING => is_padded = true,
                value if is_padded || value == FOREIGN => return decoded_bytes(letters),
                _ => letters += 1,
            }
        }
    }
    decoded_bytes(letters)
}

fn decoded_bytes(letters: u64) -> u64 {
    letters / 4 * 3 + (letters % 4).saturating_sub(1)
}

/// True if `text` is base64 to its end, so that its decoded bytes identify it.
///
/// Linear, and fast where nothing but padding is foreign to the alphabet; never panics.
///
/// ```
/// use tokenctx::media::is_base64;
///
/// assert!(is_base64("aGVs bG8="));
/// assert!(!is_base64("https://example.com"));
/// ```
#[must_use]
pub fn is_base64(text: &str) -> bool {
    let letters = text.trim_end_matches('=').as_bytes();
    let padding = text.len() - letters.len();
    match padding <= 2 && letters.chunks(64).all(all_letters) {
        true => letters.len() % 4 != 1,
        false => decode_base64_chunks(text, |_| {}).is_complete,
    }
}

/// [`image_size`] of the file that `text` encodes.
///
/// Decodes a kilobyte first, which is enough for most files, and [`HEAD_BYTES`] if it must. A JPEG
/// with much before its frame is read in windows, so that its EXIF data stays undecoded.
#[must_use]
pub fn base64_image_size(text: &str) -> Option<(PixelSize, ImageFormat)> {
    const STEPS_BYTES: [usize; 3] = [1024, 8 * 1024, HEAD_BYTES];
    let [first, rest @ ..] = STEPS_BYTES;
    let head = decode_base64_head(text, first);
    image_size(&head).or_else(|| {
        if head.len() < first {
            return None;
        }
        let by_windows = || jpeg_size_by_windows(windows(text.as_bytes()));
        let is_jpeg = head.starts_with(&[0xFF, 0xD8]);
        is_jpeg.then(by_windows).flatten().or_else(|| {
            rest.into_iter()
                .find_map(|max_bytes| image_size(&decode_base64_head(text, max_bytes)))
        })
    })
}

/// The nine bytes at rising offsets of what `text` encodes, as long as it is letters and no more.
fn windows(text: &[u8]) -> impl FnMut(usize) -> Option<[u8; 9]> {
    let mut checked_letters = 0;
    move |at| {
        let start = at / 3 * 4;
        if !all_letters(text.get(checked_letters..start)?) {
            return None;
        }
        checked_letters = start;
        let mut bytes = [0; 12];
        let groups = decode_groups(text.get(start..start + 16)?, &mut bytes);
        (groups == 4).then_some(())?;
        bytes[at % 3..].first_chunk().copied()
    }
}

/// True if `text` has no white space, padding or foreign byte. Written to compile to vector code.
fn all_letters(text: &[u8]) -> bool {
    text.chunks(64)
        .all(|chunk| chunk.iter().fold(true, |all, &byte| all & is_letter(byte)))
}

/// Classes of bytes in [`VALUES`]; below them stand the values of the 64 letters.
const SPACE: u8 = 64;
const PADDING: u8 = 65;
const FOREIGN: u8 = 66;

const fn value(byte: u8) -> u8 {
    match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        b'\t' | b'\n' | 0x0C | b'\r' | b' ' => SPACE,
        b'=' => PADDING,
        _ => FOREIGN,
    }
}

fn is_letter(byte: u8) -> bool {
    (byte | 0x20).is_ascii_lowercase()
        | byte.is_ascii_digit()
        | matches!(byte, b'+' | b'-' | b'/' | b'_')
}

static VALUES: [u8; 256] = {
    let mut values = [FOREIGN; 256];
    let mut byte = 0;
    while byte < 128 {
        values[byte as usize] = value(byte);
        byte += 1;
    }
    values
};

/// Set in an entry of [`GROUPS`] for a byte that is not a letter.
const NOT_A_LETTER: u32 = 1 << 24;

/// The value of each letter, shifted to where the first to fourth of a group has its bits.
static GROUPS: [[u32; 256]; 4] = {
    let mut groups = [[NOT_A_LETTER; 256]; 4];
    let mut place = 0;
    while place < 4 {
        let mut byte = 0;
        while byte < 256 {
            if VALUES[byte] < 64 {
                groups[place][byte] = (VALUES[byte] as u32) << (18 - 6 * place);
            }
            byte += 1;
        }
        place += 1;
    }
    groups
};

/// Where a text stands between two calls.
#[derive(Default)]
struct Decoder {
    bits: u32,
    pending_letters: u32,
    padding: u64,
    is_foreign: bool,
}

impl Decoder {
    /// Decodes until `text` ends, `out` is full, or a foreign character; (bytes read, written).
    fn decode(&mut self, text: &[u8], out: &mut [u8]) -> (usize, usize) {
        let (mut read, mut written) = (0, 0);
        while read < text.len() && written < out.len() {
            if self.pending_letters == 0 && self.padding == 0 {
                let groups = decode_groups(&text[read..], &mut out[written..]);
                read += 4 * groups;
                written += 3 * groups;
                if read == text.len() || written == out.len() {
                    break;
                }
            }
            let byte = self.letter(text[read]);
            if self.is_foreign {
                break;
            }
            read += 1;
            if let Some(byte) = byte {
                out[written] = byte;
                written += 1;
            }
        }
        (read, written)
    }

    /// Takes one character; the byte that it completes, if it does.
    fn letter(&mut self, character: u8) -> Option<u8> {
        match VALUES[usize::from(character)] {
            SPACE => return None,
            PADDING => {
                self.padding += 1;
                return None;
            }
            FOREIGN => self.is_foreign = true,
            _ if self.padding > 0 => self.is_foreign = true,
            value => {
                self.bits = self.bits << 6 | u32::from(value);
                self.pending_letters = (self.pending_letters + 1) % 4;
            }
        }
        if self.is_foreign {
            return None;
        }
        let unused_bits = match self.pending_letters {
            2 => 4,
            3 => 2,
            0 => 0,
            _ => return None,
        };
        Some((self.bits >> unused_bits).to_le_bytes()[0])
    }
}

/// Decodes whole groups of four letters while there are any; the number of groups.
fn decode_groups(text: &[u8], out: &mut [u8]) -> usize {
    let mut groups = 0;
    for (letters, bytes) in text
        .as_chunks::<4>()
        .0
        .iter()
        .zip(out.as_chunks_mut::<3>().0)
    {
        let [first, second, third, fourth] = letters.map(usize::from);
        let bits = GROUPS[0][first] | GROUPS[1][second] | GROUPS[2][third] | GROUPS[3][fourth];
        if bits >= NOT_A_LETTER {
            break;
        }
        let [_, high, middle, low] = bits.to_be_bytes();
        *bytes = [high, middle, low];
        groups += 1;
    }
    groups
}
