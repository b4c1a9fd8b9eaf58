//! Classes of characters, as the split rules see them: Unicode 16.0.0, the version of `tiktoken`.
//!
//! The table has two levels: a block number for every 128 code points, and the different blocks
//! (38 KB together). Characters of two bytes, which most alphabets have, are also in a table of 2 KB
//! by themselves: one load instead of two. `build.rs` writes it and checks the Unicode version.

/// Past the end of the text.
pub(in crate::bpe) const END: u8 = 0;
/// Anything that is not in another class: punctuation, symbols, controls, unassigned.
pub(in crate::bpe) const OTHER: u8 = 1;
/// Upper case and title case letters: `Lu`, `Lt`.
pub(in crate::bpe) const UPPER: u8 = 1 << 1;
/// Lower case letters: `Ll`.
pub(in crate::bpe) const LOWER: u8 = 1 << 2;
/// Letters without case: `Lm`, `Lo`.
pub(in crate::bpe) const CASELESS: u8 = 1 << 3;
/// Combining marks: `M`.
pub(in crate::bpe) const MARK: u8 = 1 << 4;
/// Digits and other numbers: `N`.
pub(in crate::bpe) const NUMBER: u8 = 1 << 5;
/// White space except line ends.
pub(in crate::bpe) const SPACE: u8 = 1 << 6;
/// `\r` and `\n`; other line separators are [`SPACE`].
pub(in crate::bpe) const NEWLINE: u8 = 1 << 7;

/// Every letter.
pub(in crate::bpe) const LETTER: u8 = UPPER | LOWER | CASELESS;

const BLOCK: usize = 128;

static INDEX: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/classes.index"));
static BLOCKS: &[[u8; BLOCK]] = include_bytes!(concat!(env!("OUT_DIR"), "/classes.blocks"))
    .as_chunks()
    .0;
/// Classes of the characters of one or two bytes.
static TWO_BYTES: &[u8; 1 << 11] = include_bytes!(concat!(env!("OUT_DIR"), "/classes.two_bytes"));
/// The class of all characters of three bytes with the same first one, by its low bits; 0 if they differ.
#[cfg(target_arch = "x86_64")]
pub(in crate::bpe) static LEADS: [u8; 16] = leads();
static ASCII: &[u8; BLOCK] = &BLOCKS[0];

/// Class and length in bytes of the character at `at`; ([`END`], 0) past the end.
///
/// `text` is valid UTF-8 and `at` the start of a character.
#[inline(always)]
pub(in crate::bpe) fn class_at(text: &[u8], at: usize) -> (u8, usize) {
    match text.get(at) {
        None => (END, 0),
        Some(&lead) if lead < 0x80 => (ASCII[usize::from(lead)], 1),
        Some(&lead) => wide_class_at(text, at, lead),
    }
}

/// [`class_at`] for a character of two to four bytes.
#[inline]
fn wide_class_at(text: &[u8], at: usize, lead: u8) -> (u8, usize) {
    let (code, length) = wide_character_at(text, at, lead);
    let code = code as usize;
    if length == 2 {
        return (TWO_BYTES[code % TWO_BYTES.len()], length);
    }
    (
        BLOCKS[usize::from(INDEX[code / BLOCK])][code % BLOCK],
        length,
    )
}

/// Code point and length in bytes of the character at `at`; (0, 1) past the end.
#[inline(always)]
pub(in crate::bpe) fn character_at(text: &[u8], at: usize) -> (u32, usize) {
    match text.get(at) {
        None => (0, 1),
        Some(&lead) if lead < 0x80 => (lead.into(), 1),
        Some(&lead) => wide_character_at(text, at, lead),
    }
}

/// [`character_at`] for a character of two to four bytes that starts with `lead`.
#[inline(always)]
fn wide_character_at(text: &[u8], at: usize, lead: u8) -> (u32, usize) {
    let lead = u32::from(lead);
    let tail = |offset: usize| {
        text.get(at + offset)
            .map_or(0, |&byte| u32::from(byte & 0x3F))
    };
    if lead < 0xE0 {
        ((lead & 0x1F) << 6 | tail(1), 2)
    } else if lead < 0xF0 {
        ((lead & 0x0F) << 12 | tail(1) << 6 | tail(2), 3)
    } else {
        (
            (lead & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3),
            4,
        )
    }
}

/// Han characters, and punctuation and symbols: ranges, the first and the last of each.
static HAN: &[[u8; 8]] = include_bytes!(concat!(env!("OUT_DIR"), "/ranges.han"))
    .as_chunks()
    .0;
static SIGNS: &[[u8; 8]] = include_bytes!(concat!(env!("OUT_DIR"), "/ranges.signs"))
    .as_chunks()
    .0;

/// The first Han character.
const FIRST_HAN: u32 = 0x2E80;

/// The Han characters that most texts have.
const COMMON_HAN: std::ops::RangeInclusive<u32> = 0x4E00..=0x9FFF;

/// True if the character at `at` is of the script Han: `\p{Han}`.
#[inline(always)]
pub(in crate::bpe) fn is_han_at(text: &[u8], at: usize) -> bool {
    let (code, _) = character_at(text, at);
    code >= FIRST_HAN && (COMMON_HAN.contains(&code) || is_in(HAN, code))
}

/// True if `code` is punctuation or a symbol: `[\p{P}\p{S}]`.
#[inline(always)]
pub(in crate::bpe) fn is_sign(code: u32) -> bool {
    match char::from_u32(code) {
        Some(character) if character.is_ascii() => character.is_ascii_punctuation(),
        _ => is_in(SIGNS, code),
    }
}

/// True if `code` is in one of `ranges`, which ascend.
#[inline(never)]
fn is_in(ranges: &[[u8; 8]], code: u32) -> bool {
    let bounds = |range: &[u8; 8]| {
        let both = u64::from_le_bytes(*range);
        (both & 0xFFFF_FFFF, both >> 32)
    };
    let code = u64::from(code);
    let after = ranges.partition_point(|range| bounds(range).0 <= code);
    after > 0 && bounds(&ranges[after - 1]).1 >= code
}

/// Classes of the 128 characters around that one, the lowest bits of which are 0 in the first.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(in crate::bpe) fn classes_around(code: u32) -> &'static [u8; BLOCK] {
    &BLOCKS[usize::from(INDEX[code as usize / BLOCK])]
}

#[cfg(target_arch = "x86_64")]
const fn leads() -> [u8; 16] {
    const PER_LEAD: usize = (1 << 12) / BLOCK;
    let mut leads = [0; 16];
    let mut lead = 0;
    while lead < leads.len() {
        let class = BLOCKS[INDEX[lead * PER_LEAD] as usize][0];
        let (mut at, mut same) = (0, true);
        while at < 1 << 12 {
            let index = INDEX[lead * PER_LEAD + at / BLOCK] as usize;
            same &= BLOCKS[index][at % BLOCK] == class;
            at += 1;
        }
        leads[lead] = if same { class } else { 0 };
        lead += 1;
    }
    leads
}
