//! The size of a picture, read from its header.
//!
//! Own readers instead of a crate: the ones in use return a zero side or 4294967295 x 4294967295 as
//! they are, need a seekable reader, or have looped on hostile boxes. These share one bounded slice
//! and one rule: every loop advances or ends.

use std::num::NonZeroU32;

/// How much of a file is looked at to find its size.
///
/// A JPEG may carry 64 KiB of EXIF data before its size; anything later is left unread.
pub const HEAD_BYTES: usize = 64 * 1024;

/// Width and height of a picture; both are at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PixelSize {
    width_px: NonZeroU32,
    height_px: NonZeroU32,
}

impl PixelSize {
    /// The size `width_px` x `height_px`, or `None` if a side is 0.
    #[must_use]
    pub fn new(width_px: u32, height_px: u32) -> Option<Self> {
        Some(Self {
            width_px: NonZeroU32::new(width_px)?,
            height_px: NonZeroU32::new(height_px)?,
        })
    }

    /// Width in pixels, at least 1.
    #[must_use]
    pub fn width_px(self) -> u32 {
        self.width_px.get()
    }

    /// Height in pixels, at least 1.
    #[must_use]
    pub fn height_px(self) -> u32 {
        self.height_px.get()
    }
}

/// A file format whose header [`image_size`] can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageFormat {
    /// Portable Network Graphics.
    Png,
    /// JPEG with any kind of frame: baseline, progressive, lossless, arithmetic.
    Jpeg,
    /// GIF87a and GIF89a; the size of the logical screen.
    Gif,
    /// WebP: lossy, lossless and extended.
    WebP,
    /// Windows and OS/2 bitmaps.
    Bmp,
    /// TIFF with its first directory inside the head.
    Tiff,
    /// AVIF still pictures and sequences.
    Avif,
    /// HEIC and its relatives.
    Heic,
}

impl ImageFormat {
    /// The format's name in lower case, such as `"jpeg"`; `image/` before it is the MIME type.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpeg",
            Self::Gif => "gif",
            Self::WebP => "webp",
            Self::Bmp => "bmp",
            Self::Tiff => "tiff",
            Self::Avif => "avif",
            Self::Heic => "heic",
        }
    }
}

/// The size that a file's header states, and the format it is in.
///
/// `head` is the beginning of the file; bytes past [`HEAD_BYTES`] are ignored. `None` if the format
/// is unknown, the header is cut off, or a side is 0. Sides are as stored: rotation by EXIF or
/// `irot` is not applied. Linear in the head at worst; never panics.
///
/// ```
/// use tokenctx::media::{ImageFormat, image_size};
///
/// let (size, format) = image_size(b"GIF89a\x80\x02\xe0\x01").unwrap();
/// assert_eq!((size.width_px(), size.height_px()), (640, 480));
/// assert_eq!(format, ImageFormat::Gif);
/// ```
#[must_use]
pub fn image_size(head: &[u8]) -> Option<(PixelSize, ImageFormat)> {
    let head = Bytes(&head[..head.len().min(HEAD_BYTES)]);
    let (sides, format) = match head.0 {
        [0x89, b'P', b'N', b'G', ..] => (png_sides(head)?, ImageFormat::Png),
        [0xFF, 0xD8, ..] => (jpeg_sides(head)?, ImageFormat::Jpeg),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => {
            (head.pair(6, 8, Bytes::u16_le)?, ImageFormat::Gif)
        }
        [b'R', b'I', b'F', b'F', ..] => (webp_sides(head)?, ImageFormat::WebP),
        [b'B', b'M', ..] => (bmp_sides(head)?, ImageFormat::Bmp),
        [b'I', b'I', b'*', 0, ..] => (
            tiff_sides(head, Bytes::u16_le, Bytes::u32_le)?,
            ImageFormat::Tiff,
        ),
        [b'M', b'M', 0, b'*', ..] => (tiff_sides(head, Bytes::u16, Bytes::u32)?, ImageFormat::Tiff),
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => heif_sides(head)?,
        _ => return None,
    };
    Some((PixelSize::new(sides.0, sides.1)?, format))
}

type Sides = (u32, u32);

/// A slice whose every read is checked; big-endian unless the name says otherwise.
#[derive(Clone, Copy)]
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn array<const LEN: usize>(self, at: usize) -> Option<[u8; LEN]> {
        self.0.get(at..)?.first_chunk().copied()
    }

    fn u8(self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    fn u16(self, at: usize) -> Option<u32> {
        Some(u16::from_be_bytes(self.array(at)?).into())
    }

    fn u16_le(self, at: usize) -> Option<u32> {
        Some(u16::from_le_bytes(self.array(at)?).into())
    }

    fn u24_le(self, at: usize) -> Option<u32> {
        let [low, middle, high] = self.array(at)?;
        Some(u32::from_le_bytes([low, middle, high, 0]))
    }

    fn u32(self, at: usize) -> Option<u32> {
        Some(u32::from_be_bytes(self.array(at)?))
    }

    fn u32_le(self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(self.array(at)?))
    }

    fn has(self, at: usize, expected: &[u8]) -> bool {
        self.0
            .get(at..)
            .is_some_and(|rest| rest.starts_with(expected))
    }

    fn pair(
        self,
        width_at: usize,
        height_at: usize,
        number: fn(Self, usize) -> Option<u32>,
    ) -> Option<Sides> {
        Some((number(self, width_at)?, number(self, height_at)?))
    }
}

fn png_sides(head: Bytes<'_>) -> Option<Sides> {
    let is_png = head.has(0, b"\x89PNG\r\n\x1a\n") && head.has(12, b"IHDR");
    let sides = head.pair(16, 20, Bytes::u32).filter(|_| is_png)?;
    // PNG specification, 11.2.2: anything above 2^31 - 1 is invalid.
    (sides.0.max(sides.1) <= i32::MAX.unsigned_abs()).then_some(sides)
}

fn bmp_sides(head: Bytes<'_>) -> Option<Sides> {
    match head.u32_le(14)? {
        12 => head.pair(18, 20, Bytes::u16_le),
        16.. => {
            let (width_px, height_px) = head.pair(18, 22, Bytes::u32_le)?;
            // A negative height means that the rows run from the top; a width is never negative.
            let is_valid = width_px <= i32::MAX.unsigned_abs();
            is_valid.then_some((width_px, height_px.cast_signed().unsigned_abs()))
        }
        _ => None,
    }
}

fn webp_sides(head: Bytes<'_>) -> Option<Sides> {
    if !head.has(8, b"WEBP") {
        return None;
    }
    match &head.array::<4>(12)? {
        b"VP8X" => {
            let (width_px, height_px) = head.pair(24, 27, Bytes::u24_le)?;
            Some((width_px + 1, height_px + 1))
        }
        b"VP8L" if head.u8(20)? == 0x2F => {
            let bits = head.u32_le(21)?;
            Some(((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1))
        }
        b"VP8 " if head.has(23, b"\x9D\x01\x2A") => {
            let (width_px, height_px) = head.pair(26, 28, Bytes::u16_le)?;
            Some((width_px & 0x3FFF, height_px & 0x3FFF))
        }
        _ => None,
    }
}

/// More markers than any real file has before its frame; what keeps hostile files cheap.
const MAX_JPEG_MARKERS: usize = 512;

fn jpeg_sides(head: Bytes<'_>) -> Option<Sides> {
    let mut at = 2;
    for _ in 0..MAX_JPEG_MARKERS {
        // As decoders do: skip what is not a marker, then the fill bytes before it.
        at += memchr::memchr(0xFF, head.0.get(at..)?)?;
        at += head.0[at..].iter().position(|&byte| byte != 0xFF)?;
        let marker = head.0[at];
        at += 1;
        match marker {
            // Stuffing, and the markers without a body.
            0x00 | 0x01 | 0xD0..=0xD8 => {}
            // The end, or a scan before any frame header.
            0xD9 | 0xDA => return None,
            marker if begins_jpeg_frame(marker) => return head.pair(at + 5, at + 3, Bytes::u16),
            _ => at += usize::try_from(head.u16(at).filter(|&length| length >= 2)?).ok()?,
        }
    }
    None
}

/// C4, C8 and CC are tables and extensions; every other Cx begins a frame.
fn begins_jpeg_frame(marker: u8) -> bool {
    matches!(marker, 0xC0..=0xCF) && !matches!(marker, 0xC4 | 0xC8 | 0xCC)
}

/// [`image_size`] of a plainly built JPEG, from nine bytes of each segment.
///
/// `window` gives the nine bytes at an offset. What is found equals what [`image_size`] finds;
/// `None` says nothing, as fill bytes and bodiless markers are left to it.
pub(super) fn jpeg_size_by_windows(
    mut window: impl FnMut(usize) -> Option<[u8; 9]>,
) -> Option<(PixelSize, ImageFormat)> {
    let mut at = 2;
    for _ in 0..MAX_JPEG_MARKERS {
        if at + 9 > HEAD_BYTES {
            return None;
        }
        let segment = window(at)?;
        match segment {
            [0xFF, marker, ..] if begins_jpeg_frame(marker) => {
                let (width_px, height_px) = Bytes(&segment).pair(7, 5, Bytes::u16)?;
                return Some((PixelSize::new(width_px, height_px)?, ImageFormat::Jpeg));
            }
            [0xFF, 0x02..=0xCF | 0xDB..=0xFE, high, low, ..] => {
                let length = Some(u16::from_be_bytes([high, low])).filter(|&length| length >= 2)?;
                at += 2 + usize::from(length);
            }
            _ => return None,
        }
    }
    None
}

fn tiff_sides<'a>(
    head: Bytes<'a>,
    short: fn(Bytes<'a>, usize) -> Option<u32>,
    long: fn(Bytes<'a>, usize) -> Option<u32>,
) -> Option<Sides> {
    const WIDTH_TAG: u32 = 256;
    const HEIGHT_TAG: u32 = 257;
    let directory = usize::try_from(long(head, 4)?).ok().filter(|&at| at >= 8)?;
    let entry_count = usize::try_from(short(head, directory)?).ok()?;
    let (mut width_px, mut height_px) = (None, None);
    // `entry` is below 2^16 and `directory` lies in the head, so neither sum overflows.
    for entry in 0..entry_count {
        let at = directory + 2 + 12 * entry;
        let Some(tag) = short(head, at) else { break };
        let side_px = match short(head, at + 2) {
            Some(3) => short(head, at + 8),
            Some(4) => long(head, at + 8),
            _ => None,
        };
        match tag {
            WIDTH_TAG => width_px = width_px.or(side_px),
            HEIGHT_TAG => height_px = height_px.or(side_px),
            _ => {}
        }
    }
    Some((width_px?, height_px?))
}

/// The boxes of an ISO base media file; ends at the first that is cut off or has no length.
///
/// Only whole boxes count, so a longer head never changes a size that a shorter one gave.
struct Boxes<'a>(Bytes<'a>);

impl<'a> Iterator for Boxes<'a> {
    type Item = ([u8; 4], Bytes<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let kind = self.0.array(4)?;
        let (box_bytes, body_at) = match self.0.u32(0)? {
            1 => (u64::from_be_bytes(self.0.array(8)?), 16),
            length => (length.into(), 8),
        };
        let box_bytes = usize::try_from(box_bytes).ok()?;
        let body = self.0.0.get(body_at..box_bytes)?;
        self.0 = Bytes(&self.0.0[box_bytes..]);
        Some((kind, Bytes(body)))
    }
}

fn child<'a>(parent: Bytes<'a>, kind: &[u8; 4]) -> Option<Bytes<'a>> {
    Boxes(parent)
        .find(|(name, _)| name == kind)
        .map(|(_, body)| body)
}

fn heif_sides(head: Bytes<'_>) -> Option<(Sides, ImageFormat)> {
    let format = heif_format(child(head, b"ftyp")?)?;
    let meta = Bytes(child(head, b"meta")?.0.get(4..)?);
    let properties = child(child(meta, b"iprp")?, b"ipco")?;
    // Grid cells and thumbnails have extents of their own; the picture is the largest.
    let extents = Boxes(properties)
        .filter(|(kind, _)| kind == b"ispe")
        .filter_map(|(_, body)| body.pair(4, 8, Bytes::u32));
    let larger = |best: Sides, extent: Sides| {
        if area(extent) > area(best) {
            extent
        } else {
            best
        }
    };
    Some((extents.reduce(larger)?, format))
}

fn area((width_px, height_px): Sides) -> u64 {
    u64::from(width_px) * u64::from(height_px)
}

fn heif_format(file_type: Bytes<'_>) -> Option<ImageFormat> {
    // The major brand, its version, then the compatible brands.
    let brands = || {
        let compatible = file_type.0.get(8..).unwrap_or_default().chunks(4);
        file_type.0.get(..4).into_iter().chain(compatible)
    };
    if brands().any(|brand| matches!(brand, b"avif" | b"avis")) {
        Some(ImageFormat::Avif)
    } else if brands().any(|brand| {
        matches!(
            brand,
            b"heic" | b"heix" | b"heim" | b"heis" | b"hevc" | b"hevx" | b"mif1" | b"msf1"
        )
    }) {
        Some(ImageFormat::Heic)
    } else {
        None
    }
}
