//! Packed token keys and the perfect hash that places them.
//!
//! `build.rs` includes this file too: it searches the pilots, the run time only follows them.

#![allow(
    clippy::cast_possible_truncation,
    reason = "a half of a word is what is meant"
)]

/// No token is longer.
pub(crate) const MAX_TOKEN_BYTES: usize = 128;

/// Longest token, in bytes, whose text fits into its table entry.
pub(crate) const SHORT_BYTES: usize = 13;

/// Low bits of an entry: 13 bytes of text and 4 bits of length; the rank is above them.
pub(crate) const RANK_SHIFT: u32 = 108;

const LENGTH_SHIFT: u32 = 104;

/// The key of the first `length` bytes of `text`; `length` is at most [`SHORT_BYTES`].
#[inline(always)]
pub(crate) fn pack(text: [u8; 16], length: usize) -> u128 {
    let text = u128::from_le_bytes(text) & MASKS[length];
    text | (length as u128) << LENGTH_SHIFT
}

/// The low bytes of a word, by their number: a load is faster than a shift of 128 bits.
static MASKS: [u128; SHORT_BYTES + 1] = {
    let mut masks = [0; SHORT_BYTES + 1];
    let mut length = 0;
    while length <= SHORT_BYTES {
        masks[length] = !(u128::MAX << (8 * length));
        length += 1;
    }
    masks
};

/// Hash of a packed key.
#[inline(always)]
pub(crate) fn hash_short(key: u128) -> u64 {
    fold(
        key as u64 ^ 0x9E37_79B9_7F4A_7C15,
        (key >> 64) as u64 ^ 0xD6E8_FEB8_6659_FD93,
    )
}

/// Hash of a token that does not fit into an entry: of its length, first 24 and last 8 bytes.
///
/// These tell all tokens apart (`build.rs` would fail), and a longer text is not read to its end.
pub(crate) fn hash_long(text: &[u8]) -> u64 {
    let last = text.len().saturating_sub(8);
    let word = |at: usize| {
        let chunk = text.get(at.min(last)..).and_then(|rest| rest.first_chunk());
        chunk.map_or(0, |chunk| u64::from_le_bytes(*chunk))
    };
    let length = (text.len() as u64).wrapping_mul(0x9FB2_1C65_1E98_DF25);
    let left = fold(word(0) ^ length, word(8) ^ 0x9E37_79B9_7F4A_7C15);
    let right = fold(
        word(16) ^ 0xD6E8_FEB8_6659_FD93,
        word(last) ^ 0xA24B_AED4_963E_E407,
    );
    fold(left ^ 0x9E37_79B9_7F4A_7C15, right ^ 0x9FB2_1C65_1E98_DF25)
}

/// Index of the pilot of `hash` among `pilots`.
#[inline(always)]
pub(crate) fn bucket(hash: u64, pilots: usize) -> usize {
    hash as usize & pilots.wrapping_sub(1)
}

/// Index of `hash` among `slots`, given its pilot.
#[inline(always)]
pub(crate) fn slot(hash: u64, pilot: u16, slots: usize) -> usize {
    let mixed = hash.wrapping_mul(u64::from(pilot) << 1 | 1);
    ((mixed >> 32).wrapping_mul(slots as u64) >> 32) as usize
}

/// Eight bits of `hash` that tell most keys from the one in their slot.
#[inline(always)]
pub(crate) fn fingerprint(hash: u64) -> u8 {
    (hash >> 56) as u8
}

/// Bits of the filter of neighbouring characters.
pub(crate) const NEIGHBOUR_BITS: u32 = 19;

/// Index of the bit of two neighbouring characters.
#[inline(always)]
pub(crate) fn neighbours(left: u32, right: u32) -> usize {
    let hash = (u64::from(left) << 21 | u64::from(right)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (hash >> (u64::BITS - NEIGHBOUR_BITS)) as usize
}

/// Both halves of a 128-bit product, so that every input bit reaches every output bit.
#[inline(always)]
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}
