//! Packed token keys and the perfect hash that places them.
//!
//! `build.rs` includes this file too: it searches the pilots, the run time only follows them.
//! Different bits of a hash choose the bucket (from 0 on), the bits in it (16 to 23) and the mark (from
//! 31 down); the slot depends on the high half.

#![allow(
    clippy::cast_possible_truncation,
    reason = "a half of a word is what is meant"
)]

use std::hint::select_unpredictable;

/// No token is longer, but for a few in runs of one character.
pub(crate) const LONG_TOKEN_BYTES: usize = 128;

/// No token is longer at all.
pub(crate) const MAX_TOKEN_BYTES: usize = 2 * LONG_TOKEN_BYTES;

/// Lengths above this one are powers of two: so seven bits hold each length that occurs.
const COUNTED_BYTES: usize = 126;

/// Longest token, in bytes, whose entry is one word: nine of ten tokens that merges make.
pub(crate) const TINY_BYTES: usize = 5;

/// Longest token, in bytes, whose text fits into its entry of two words.
pub(crate) const SHORT_BYTES: usize = 13;

/// Bits of the last word of an entry that hold text and length; 18 bits of rank are above them.
pub(crate) const RANK_SHIFT: u32 = 44;

pub(crate) const LENGTH_SHIFT: u32 = 40;

/// Factors that the halves of a key are mixed with.
pub(crate) const LOW_SALT: u64 = 0x9E37_79B9_7F4A_7C15;
pub(crate) const HIGH_SALT: u64 = 0xD6E8_FEB8_6659_FD93;

/// Text of at most [`SHORT_BYTES`] and its length, as they stand in an entry. The low word of a text
/// of at most [`TINY_BYTES`] is 0.
#[derive(Clone, Copy, Default)]
pub(crate) struct Key {
    pub(crate) low: u64,
    pub(crate) high: u64,
}

impl Key {
    /// The key of the first `length` bytes of `text`; `length` is at most [`SHORT_BYTES`], or one
    /// more, which is the key of no token.
    #[inline(always)]
    pub(crate) fn new(text: &[u8; 16], length: usize) -> Key {
        let (low, high) = low_bytes(text, length);
        let is_tiny = length <= TINY_BYTES;
        Key {
            low: select_unpredictable(is_tiny, 0, low),
            high: select_unpredictable(is_tiny, low, high) | (length as u64) << LENGTH_SHIFT,
        }
    }

    #[inline(always)]
    pub(crate) fn is_tiny(self) -> bool {
        self.high < (TINY_BYTES as u64 + 1) << LENGTH_SHIFT
    }

    /// Two words multiplied by constants, since AVX-512 has no product of 128 bits. All bits of a key
    /// reach the bucket.
    #[inline(always)]
    pub(crate) fn hash(self) -> u64 {
        let both = self.low.wrapping_add(self.high.wrapping_mul(HIGH_SALT));
        let mixed = both.wrapping_mul(LOW_SALT);
        mixed ^ mixed >> (u64::BITS - BUCKETS.ilog2())
    }
}

/// The first `length` bytes of `text`, at most 16, and zeros.
#[inline(always)]
pub(crate) fn low_bytes(text: &[u8; 16], length: usize) -> (u64, u64) {
    let text = u128::from_le_bytes(*text);
    let (low, high) = MASKS[length];
    (text as u64 & low, (text >> 64) as u64 & high)
}

/// The low bytes of two words, by their number: a load is faster than a shift of 128 bits.
static MASKS: [(u64, u64); 17] = {
    let mut masks = [(u64::MAX, u64::MAX); 17];
    let mut length = 0;
    while length < 16 {
        let mask = !(u128::MAX << (8 * length));
        masks[length] = (mask as u64, (mask >> 64) as u64);
        length += 1;
    }
    masks
};

/// Hash of a token that does not fit into an entry: of its length, first 32 and last 8 bytes.
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
        word(16) ^ word(24).rotate_left(29) ^ 0xD6E8_FEB8_6659_FD93,
        word(last) ^ 0xA24B_AED4_963E_E407,
    );
    fold(left ^ 0x9E37_79B9_7F4A_7C15, right ^ 0x9FB2_1C65_1E98_DF25)
}

/// Buckets of each table of short tokens.
pub(crate) const BUCKETS: usize = 1 << 15;

/// Index of the bucket of `hash` among `buckets`, a power of two.
#[inline(always)]
pub(crate) fn bucket(hash: u64, buckets: usize) -> usize {
    hash as usize & buckets.wrapping_sub(1)
}

/// Index of `hash` among `slots`, given its pilot.
#[inline(always)]
pub(crate) fn slot(hash: u64, pilot: u16, slots: usize) -> usize {
    let mixed = hash.wrapping_mul(u64::from(pilot) << 1 | 1);
    ((mixed >> 32).wrapping_mul(slots as u64) >> 32) as usize
}

/// A bucket in one word: its pilot, and above it two bits for each of its keys. One in ten of
/// those that are not there has both.
#[derive(Clone, Copy)]
pub(crate) struct Bucket(pub(crate) u32);

impl Bucket {
    #[inline(always)]
    pub(crate) fn pilot(self) -> u16 {
        self.0 as u16
    }

    #[inline(always)]
    pub(crate) fn may_have(self, hash: u64) -> bool {
        self.0 & bucket_bits(hash) == bucket_bits(hash)
    }
}

/// The bits of `hash` in the word of its bucket.
#[inline(always)]
pub(crate) fn bucket_bits(hash: u64) -> u32 {
    FIRST_BUCKET_BIT << (hash >> 16 & 15) | FIRST_BUCKET_BIT << (hash >> 20 & 15)
}

/// The lowest of the bits for keys, above the pilot.
pub(crate) const FIRST_BUCKET_BIT: u32 = 1 << u16::BITS;

/// Bytes of the filter of the first bytes of long tokens.
pub(crate) const LONG_FILTER_BYTES: usize = 1 << 14;

/// Index of the bit of `hash` in a filter of `bytes` bytes, a power of two.
#[inline(always)]
pub(crate) fn filter_bit(hash: u64, bytes: usize) -> usize {
    (hash >> 32) as usize & (bytes << 3).wrapping_sub(1)
}

/// Bits of a rank.
pub(crate) const RANK_BITS: u32 = 18;

/// Stands in a packed vocabulary for a part that a token has not.
pub(crate) const NO_PART: u32 = (1 << RANK_BITS) - 1;

/// Bytes of a part there.
pub(crate) const PART_BYTES: usize = 3;

/// Two tokens, [`RANK_BITS`] for each: those that are joined last to make a token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Join(u64);

impl Join {
    const BITS: u32 = 2 * RANK_BITS;

    /// The join of a single byte, and of no other token.
    pub(crate) const NONE: Join = Join((1 << Join::BITS) - 1);

    #[inline(always)]
    pub(crate) fn new(left: u32, right: u32) -> Join {
        Join(u64::from(left) | u64::from(right) << RANK_BITS)
    }

    #[inline(always)]
    pub(crate) fn left(self) -> u32 {
        self.0 as u32 % (1 << RANK_BITS)
    }

    #[inline(always)]
    pub(crate) fn right(self) -> u32 {
        (self.0 >> RANK_BITS) as u32
    }

    #[inline(always)]
    pub(crate) fn hash(self) -> u64 {
        let mixed = (self.0 ^ HIGH_SALT).wrapping_mul(LOW_SALT);
        mixed ^ mixed >> 32
    }
}

/// Bits of the mark of a join: random bits do not compress, and two reject most of the misses.
pub(crate) const JOIN_MARK_BITS: u32 = 2;

/// Bits of the mark of a long token: there are few.
pub(crate) const LONG_MARK_BITS: u32 = u32::BITS - RANK_BITS;

/// A rank, and above it `bits` bits of the hash of what it belongs to, which tell most others. They
/// are bits that neither bucket nor slot depends on.
#[inline(always)]
pub(crate) fn marked(hash: u64, rank: u32, bits: u32) -> u32 {
    let mark = hash as u32 >> (u32::BITS - bits);
    mark << (u32::BITS - bits) | rank
}

/// The rank in a marked one.
#[inline(always)]
pub(crate) fn unmarked(marked: u32) -> u32 {
    marked % (1 << RANK_BITS)
}

/// A token in one word: its join, its length and where its text is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) u64);

impl Token {
    const LENGTH_BITS: u32 = LONG_TOKEN_BYTES.ilog2();
    const START_SHIFT: u32 = Join::BITS + Token::LENGTH_BITS;

    /// A rank that is no token.
    pub(crate) const NONE: Token = Token(u64::MAX);

    /// The token of `length` bytes, one at least, from `start` on in the text of all.
    pub(crate) fn new(join: Join, length: usize, start: usize) -> Token {
        let code = match length {
            LONG_TOKEN_BYTES => COUNTED_BYTES,
            MAX_TOKEN_BYTES => COUNTED_BYTES + 1,
            _ => length - 1,
        };
        let made = join.0 | (code as u64) << Join::BITS | (start as u64) << Token::START_SHIFT;
        assert_eq!(made >> Token::START_SHIFT, start as u64, "a text too many");
        assert_eq!(Token(made).length(), length, "a length too many");
        Token(made)
    }

    #[inline(always)]
    pub(crate) fn join(self) -> Join {
        Join(self.0 % (1 << Join::BITS))
    }

    #[inline(always)]
    pub(crate) fn length(self) -> usize {
        let length = (self.0 >> Join::BITS) as usize % LONG_TOKEN_BYTES;
        let power = LONG_TOKEN_BYTES << (length & 1);
        select_unpredictable(length < COUNTED_BYTES, length + 1, power)
    }

    #[inline(always)]
    pub(crate) fn start(self) -> usize {
        (self.0 >> Token::START_SHIFT) as usize
    }
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
pub(crate) fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left).wrapping_mul(u128::from(right));
    product as u64 ^ (product >> 64) as u64
}

/// Sixteen bytes from `start`, which is a byte of the text; zeros past the end.
#[inline(always)]
pub(crate) fn bytes_at(text: &[u8], start: usize) -> [u8; 16] {
    let bytes = match text[start..].first_chunk() {
        Some(chunk) => u128::from_le_bytes(*chunk),
        None => last_bytes(text, start),
    };
    bytes.to_le_bytes()
}

/// As a number, which two registers hold.
#[inline(never)]
fn last_bytes(text: &[u8], start: usize) -> u128 {
    if let Some(last) = text.last_chunk::<16>() {
        let past = 16 - (text.len() - start);
        return u128::from_le_bytes(*last) >> (8 * past % 128);
    }
    let mut chunk = [0; 16];
    chunk[..text.len() - start].copy_from_slice(&text[start..]);
    u128::from_le_bytes(chunk)
}
