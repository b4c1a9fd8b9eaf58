//! How long audio and video play, from their headers: WAV, MP3, FLAC, Ogg, MP4 and M4A, WebM.
use memchr::memmem;

/// Where an Ogg file has its rate, and a WebM file its duration.
const SEARCHED_BYTES: usize = 4096;

/// Bit rates of MP3 in kbit/s by index, for MPEG 1 and for MPEG 2 and 2.5.
const MP3_KBPS: [[u64; 15]; 2] = [
    [
        0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320,
    ],
    [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
];

/// Milliseconds that the file plays of which `bytes` are the first of `byte_count`.
///
/// None if its format is another or its header is cut or says nothing. Linear, reads little; never
/// panics.
pub fn duration_ms(bytes: &[u8], byte_count: u64) -> Option<u64> {
    match bytes {
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'A',
            b'V',
            b'E',
            ..,
        ] => wav(bytes, byte_count),
        [b'f', b'L', b'a', b'C', ..] => flac(bytes),
        [b'O', b'g', b'g', b'S', ..] => ogg(bytes),
        [0x1A, 0x45, 0xDF, 0xA3, ..] => webm(&bytes[..bytes.len().min(SEARCHED_BYTES)]),
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => mp4(bytes),
        _ => mp3(bytes, byte_count),
    }
}

fn wav(bytes: &[u8], byte_count: u64) -> Option<u64> {
    let (mut at, mut bytes_per_second) = (12, 0);
    loop {
        let length = little(bytes, at + 4, 4)?;
        match bytes.get(at..at + 4)? {
            b"fmt " => bytes_per_second = little(bytes, at + 16, 4)?,
            b"data" => {
                let length = length.min(byte_count.saturating_sub(at as u64 + 8));
                return (length * 1000).checked_div(bytes_per_second);
            }
            _ => {}
        }
        at = at.checked_add(8 + usize::try_from(length + length % 2).ok()?)?;
    }
}

fn flac(bytes: &[u8]) -> Option<u64> {
    let rate = big(bytes, 18, 3)? >> 4;
    let samples = big(bytes, 21, 5)? & ((1 << 36) - 1);
    (samples * 1000).checked_div(rate)
}

fn ogg(bytes: &[u8]) -> Option<u64> {
    let head = &bytes[..bytes.len().min(SEARCHED_BYTES)];
    let rate = match memmem::find(head, b"\x01vorbis") {
        Some(place) => little(bytes, place + 12, 4)?,
        None => memmem::find(head, b"OpusHead").map(|_| 48_000)?,
    };
    let last = memmem::rfind(bytes, b"OggS")?;
    little(bytes, last + 6, 8)?
        .checked_mul(1000)?
        .checked_div(rate)
}

fn mp4(bytes: &[u8]) -> Option<u64> {
    let header = child(child(bytes, b"moov")?, b"mvhd")?;
    let (units, ticks) = match header.first()? {
        0 => (big(header, 12, 4)?, big(header, 16, 4)?),
        _ => (big(header, 20, 4)?, big(header, 24, 8)?),
    };
    ticks.checked_mul(1000)?.checked_div(units)
}

/// The content of the first box of this type.
fn child<'b>(mut boxes: &'b [u8], kind: &[u8; 4]) -> Option<&'b [u8]> {
    loop {
        let (start, length) = match big(boxes, 0, 4)? {
            0 => (8, boxes.len()),
            1 => (16, usize::try_from(big(boxes, 8, 8)?).ok()?),
            length => (8, usize::try_from(length).ok()?),
        };
        let end = length.min(boxes.len());
        if boxes.get(4..8)? == kind {
            return boxes.get(start..end);
        }
        boxes = boxes.get(length.max(8)..)?;
    }
}

fn webm(head: &[u8]) -> Option<u64> {
    let scale = memmem::find(head, b"\x2A\xD7\xB1\x83").and_then(|at| big(head, at + 4, 3));
    let at = memmem::find(head, b"\x44\x89")? + 2;
    let ticks = match head.get(at)? {
        0x84 => f64::from(f32::from_be_bytes(
            head.get(at + 1..at + 5)?.try_into().ok()?,
        )),
        0x88 => f64::from_be_bytes(head.get(at + 1..at + 9)?.try_into().ok()?),
        _ => return None,
    };
    #[allow(clippy::cast_precision_loss, reason = "24 bits")]
    let milliseconds = ticks * scale.unwrap_or(1_000_000) as f64 / 1e6;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked"
    )]
    (0.0..1e15)
        .contains(&milliseconds)
        .then_some(milliseconds as u64)
}

fn mp3(bytes: &[u8], byte_count: u64) -> Option<u64> {
    let tag = match bytes {
        [b'I', b'D', b'3', _, _, _, a, b, c, d, ..] => {
            let digits = [a, b, c, d].into_iter();
            10 + digits.fold(0, |sum, byte| sum << 7 | usize::from(byte & 0x7F))
        }
        _ => 0,
    };
    let rest = bytes.get(tag..)?;
    let start = rest.iter().position(|byte| *byte != 0)?;
    let frame = rest.get(start..start + 4)?;
    if frame[0] != 0xFF || frame[1] & 0xE6 != 0xE2 {
        return None;
    }
    let version = frame[1] >> 3 & 3;
    let is_mpeg_1 = version == 3;
    let kbps = *MP3_KBPS[usize::from(!is_mpeg_1)].get(usize::from(frame[2] >> 4))?;
    let rate = *[44_100, 48_000, 32_000].get(usize::from(frame[2] >> 2 & 3))?;
    let (rate, samples) = match version {
        3 => (rate, 1152),
        2 => (rate / 2, 576),
        0 => (rate / 4, 576),
        _ => return None,
    };
    let info = match (is_mpeg_1, frame[3] >> 6 == 3) {
        (true, false) => 36,
        (false, true) => 13,
        _ => 21,
    };
    let at = tag + start + info;
    if matches!(bytes.get(at..at + 4), Some(b"Xing" | b"Info")) && big(bytes, at + 4, 4)? & 1 == 1 {
        return Some(big(bytes, at + 8, 4)? * samples * 1000 / rate);
    }
    let audio_bytes = byte_count.saturating_sub((tag + start) as u64);
    (audio_bytes * 8).checked_div(kbps)
}

/// The number of `count` bytes from `at`, the most significant first.
fn big(bytes: &[u8], at: usize, count: usize) -> Option<u64> {
    let digits = bytes.get(at..at.checked_add(count)?)?;
    Some(
        digits
            .iter()
            .fold(0, |sum, &byte| sum << 8 | u64::from(byte)),
    )
}

/// The number of `count` bytes from `at`, the least significant first.
fn little(bytes: &[u8], at: usize, count: usize) -> Option<u64> {
    let digits = bytes.get(at..at.checked_add(count)?)?;
    let digits = digits.iter().rev();
    Some(digits.fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(bytes: &[u8]) -> Option<u64> {
        duration_ms(bytes, bytes.len() as u64)
    }

    #[test]
    fn headers_say_how_long_it_plays() {
        let mut wav =
            b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1F\0\0\x80\x3E\0\0\x02\0\x10\0"
                .to_vec();
        wav.extend(b"data\xFF\xFF\xFF\xFF");
        wav.extend([0; 8000]);
        assert_eq!(ms(&wav), Some(500));
        let mut mp3 = b"ID3\x03\0\0\0\0\0\x02..\xFF\xFB\x90\x00".to_vec();
        mp3.resize(12 + 16_000, 0);
        assert_eq!(ms(&mp3), Some(1000));
        let mp4 = [
            &b"\0\0\0\x0CftypM4A \0\0\0\x74moov\0\0\0\x6Cmvhd"[..],
            &[0; 12],
            &[0, 0, 3, 232, 0, 0, 9, 196],
        ];
        assert_eq!(ms(&mp4.concat()), Some(2500));
        let webm = b"\x1A\x45\xDF\xA3....\x2A\xD7\xB1\x83\x0F\x42\x40\x44\x89\x84\x45\x7A\x00\x00";
        assert_eq!(ms(webm), Some(4000));
        let opus = [
            &b"OggS"[..],
            &[0; 24],
            b"OpusHead",
            b"OggS\0\x04\x80\xBB\0\0\0\0\0\0",
        ];
        assert_eq!(ms(&opus.concat()), Some(1000));
        let mut flac = b"fLaC\0\0\0\x22".to_vec();
        flac.extend([0; 10]);
        flac.extend([0x0A, 0xC4, 0x40, 0, 0, 0, 0xAC, 0x44]);
        assert_eq!(ms(&flac), Some(1000));
    }

    #[test]
    fn what_is_cut_or_foreign_says_nothing() {
        for bytes in [
            &b""[..],
            b"RIFF\0\0\0\0WAVEdata",
            b"fLaC",
            b"OggS",
            b"\xFF\xFB",
            b"text",
        ] {
            assert_eq!(ms(bytes), None);
        }
    }
}
