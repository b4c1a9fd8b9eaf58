//! A known total as bytes that may leave the process: packed, versioned, bound to its prefix.
//!
//! ```text
//! version  recorded  tokens  derived  reasoning  options  options tokens  MAC
//! 1 byte   six numbers of 1 to 10 bytes, 7 bits a byte, low ones first    16 bytes
//! ```
//!
//! The MAC is over the digest of the prefix and all that stands before the MAC, so a value that was
//! stored under another key, cut, changed or made without the secret is no value. Typically 31 bytes.
use crate::known::digest::Digest;
use crate::known::key::Key;
use crate::known::total::{KnownOptions, KnownTotal};
use zeroize::Zeroize;

/// BLAKE3 key derivation context; the first byte of a value changes with its form.
const CONTEXT: &str = "tokenctx 2026-11-21 sealed known totals";
const VERSION: u8 = 2;

/// Of what was learned.
const LEARNED_VERSION: u8 = 3;
const MAC_BYTES: usize = 16;

/// A known total and when it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Input tokens of the prefix.
    pub total: KnownTotal,
    /// Seconds since 1970.
    pub recorded_seconds: u64,
}

/// Packs entries and opens them again, under one secret.
#[derive(Clone)]
pub struct Sealer {
    key: Key,
}

impl Sealer {
    /// A sealer whose key is derived from `secret`; what another secret has sealed does not open.
    pub fn new(secret: &[u8]) -> Sealer {
        Sealer {
            key: Key::derived(CONTEXT, &[secret]),
        }
    }

    /// `entry` of the prefix `digest` as bytes, 23 to 77 of them.
    pub fn seal(&self, digest: Digest, entry: &Entry) -> Vec<u8> {
        let KnownTotal {
            tokens,
            derived_tokens,
            reasoning_tokens,
            options,
        } = entry.total;
        let mut sealed = vec![VERSION];
        let options_tokens = zigzag(options.tokens);
        for number in [
            entry.recorded_seconds,
            tokens,
            derived_tokens,
            reasoning_tokens,
            options.digest,
            options_tokens,
        ] {
            write_number(&mut sealed, number);
        }
        self.with_mac(digest, sealed)
    }

    /// What was learned of the model that `name` is made of, packed, with a MAC.
    pub fn seal_learned(&self, name: Digest, packed: &[u8]) -> Vec<u8> {
        self.with_mac(name, [&[LEARNED_VERSION], packed].concat())
    }

    /// What [`Sealer::seal_learned`] was given; `None` unless this secret sealed it for `name`.
    pub fn open_learned<'s>(&self, name: Digest, sealed: &'s [u8]) -> Option<&'s [u8]> {
        self.without_mac(name, sealed, LEARNED_VERSION)
    }

    /// The entry in `sealed`; `None` unless this secret sealed it for `digest`.
    pub fn open(&self, digest: Digest, sealed: &[u8]) -> Option<Entry> {
        let mut rest = self.without_mac(digest, sealed, VERSION)?;
        let mut number = || read_number(&mut rest);
        let recorded_seconds = number()?;
        let total = KnownTotal {
            tokens: number()?,
            derived_tokens: number()?,
            reasoning_tokens: number()?,
            options: KnownOptions {
                digest: number()?,
                tokens: unzigzag(number()?),
            },
        };
        rest.is_empty().then_some(Entry {
            total,
            recorded_seconds,
        })
    }

    fn with_mac(&self, digest: Digest, mut packed: Vec<u8>) -> Vec<u8> {
        let mac = self.mac(digest, &packed);
        packed.extend(mac);
        packed
    }

    /// What stands between version and MAC, if both are right.
    fn without_mac<'s>(&self, digest: Digest, sealed: &'s [u8], version: u8) -> Option<&'s [u8]> {
        let (packed, mac) = sealed.split_at_checked(sealed.len().checked_sub(MAC_BYTES)?)?;
        let difference = self.mac(digest, packed);
        let difference = difference
            .iter()
            .zip(mac)
            .fold(0, |all, (a, b)| all | (a ^ b));
        let (first, rest) = packed.split_first()?;
        (difference == 0 && *first == version).then_some(rest)
    }

    fn mac(&self, digest: Digest, packed: &[u8]) -> [u8; MAC_BYTES] {
        let mut hasher = blake3::Hasher::new_keyed(self.key.bytes());
        hasher.update(&digest.0).update(packed);
        let mut mac = [0; MAC_BYTES];
        hasher.finalize_xof().fill(&mut mac);
        hasher.zeroize();
        mac
    }
}

impl std::fmt::Debug for Sealer {
    /// Never the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealer(..)")
    }
}

fn zigzag(number: i64) -> u64 {
    (number.cast_unsigned() << 1) ^ (number >> 63).cast_unsigned()
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

#[allow(clippy::cast_possible_truncation)] // seven bits at a time
fn write_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn read_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(tokens: u64, options_tokens: i64) -> Entry {
        Entry {
            total: KnownTotal {
                tokens,
                derived_tokens: tokens / 3,
                reasoning_tokens: tokens / 4,
                options: KnownOptions {
                    digest: tokens.wrapping_mul(0x9e37_79b9_7f4a_7c15),
                    tokens: options_tokens,
                },
            },
            recorded_seconds: 1_795_000_000,
        }
    }

    #[test]
    fn what_was_sealed_opens_for_its_prefix_alone() {
        let sealer = Sealer::new(b"secret");
        for (tokens, options_tokens) in [(0, 0), (1, -1), (127, 128), (u64::MAX, i64::MIN)] {
            let (digest, other) = (Digest([1; 16]), Digest([2; 16]));
            let entry = entry(tokens, options_tokens);
            let sealed = sealer.seal(digest, &entry);
            assert_eq!(sealer.open(digest, &sealed), Some(entry));
            assert_eq!(sealer.open(other, &sealed), None);
            assert_eq!(Sealer::new(b"other").open(digest, &sealed), None);
        }
    }

    #[test]
    fn what_was_learned_is_no_total_and_no_total_was_learned() {
        let (sealer, digest) = (Sealer::new(b"secret"), Digest([7; 16]));
        let learned = sealer.seal_learned(digest, b"numbers");
        assert_eq!(sealer.open_learned(digest, &learned), Some(&b"numbers"[..]));
        assert_eq!(sealer.open_learned(Digest([8; 16]), &learned), None);
        assert_eq!(sealer.open(digest, &learned), None);
        let total = sealer.seal(digest, &entry(1, 1));
        assert_eq!(sealer.open_learned(digest, &total), None);
    }

    #[test]
    fn a_changed_value_never_opens() {
        let sealer = Sealer::new(b"secret");
        let digest = Digest([7; 16]);
        let sealed = sealer.seal(digest, &entry(123_456, -9));
        for bit in 0..sealed.len() * 8 {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(sealer.open(digest, &changed), None, "bit {bit}");
        }
        for length in 0..sealed.len() {
            assert_eq!(sealer.open(digest, &sealed[..length]), None);
        }
        assert_eq!(sealer.open(digest, &[&sealed[..], b"\0"].concat()), None);
    }
}
