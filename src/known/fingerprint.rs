//! Keyed fingerprints of bytes: what was met before is known again in a sixth of the time of BLAKE3.
//!
//! BLAKE3 takes one pass at full width only where a text is long; message by message it takes four times as
//! long. So bytes are first compressed by NH, the universal hash of UMAC (Black, Halevi, Krawczyk, Krovetz,
//! Rogaway, 1999), 256 times ([`sums`](crate::known::sums)), and BLAKE3 hashes what is left of them, together with
//! their length.
//!
//! NH of a block is the sum of (a + k)(b + l) mod 2^64, over its pairs of words a, b of 32 bits and of key words
//! k, l, which are added mod 2^32. Two blocks of one length that differ have the same sum under one key in 2^32
//! (theorem 4.2 there). Here it is made four times, each time with the key moved on by a stripe of pairs: the
//! last pair that differs meets key words that no pass before has added to a pair that differs, so that all four
//! sums are the same under one key in 2^128 (as theorem 4.3). Texts of other lengths differ in what BLAKE3 hashes,
//! those of one length in a block at least. So two texts share a fingerprint with a chance of 2^-128, and as much
//! again for the 16 bytes that are kept of BLAKE3: no more than two digests, for whoever does not know the
//! key. Nobody learns of it by what fingerprints do, since BLAKE3 is a keyed function of the sums.
//!
//! A fingerprint never leaves the process and says nothing by itself: it finds a digest, which is BLAKE3 of
//! what a message means.
//!
//! Tried: two passes for 2^-64, which is quicker and less than a digest promises; polynomials over a prime, which
//! need a product for each word one after the other.
use crate::known::identity::Digest;
use crate::known::key::Key;
use crate::known::sums::{BLOCK_BYTES, KeyStripes, SUMS_BYTES, sums_of};
use std::sync::Arc;
use zeroize::Zeroizing;

/// BLAKE3 key derivation context.
const CONTEXT: &str = "tokenctx 2026-11-25 words of fingerprints";

const LENGTH_BYTES: usize = 8;

/// Blocks whose sums are handed to BLAKE3 at once.
const BATCH_BLOCKS: usize = 64;

/// The kind of the bytes: equal bytes of another kind are others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A body up to the end of its messages.
    Body = 1,
    /// JSON text of a message.
    MessageText = 2,
    /// The canonical form of a message, or of the context before the messages.
    Form = 3,
    /// Base64 of a picture or file, for the first half of its hash; that fingerprint, for the second.
    MediaHead = 4,
    MediaTail = 5,
    /// A body behind its messages.
    BodyEnd = 6,
    /// JSON text of a string that is most of a body.
    LongText = 7,
}

/// The words that NH adds, of one secret. Tenants share them: what BLAKE3 makes of the sums has a key of each.
#[derive(Clone)]
pub(crate) struct Words(Arc<Zeroizing<KeyStripes>>);

impl Words {
    /// Words that are derived from `key`.
    pub(crate) fn new(key: &Key) -> Words {
        let mut words = Zeroizing::new([[0; _]; _]);
        key.derive(CONTEXT, words.as_flattened_mut());
        Words(Arc::new(words))
    }

    /// The fingerprint of bytes that come in pieces, under the `key` of a tenant.
    pub(crate) fn in_pieces(&self, key: &Key, kind: Kind) -> Pieces<'_> {
        let mut sealed = blake3::Hasher::new_keyed(key.bytes());
        sealed.update(&[kind as u8]);
        Pieces {
            words: &self.0,
            sealed,
            rest: Vec::new(),
            length: 0,
        }
    }

    /// The fingerprint of `bytes`, under the `key` of a tenant.
    pub(crate) fn of(&self, key: &Key, kind: Kind, bytes: &[u8]) -> Digest {
        if bytes.len() >= BLOCK_BYTES {
            let mut pieces = self.in_pieces(key, kind);
            pieces.push(bytes);
            return pieces.finish();
        }
        let mut sealed = [0; 1 + SUMS_BYTES + LENGTH_BYTES];
        sealed[0] = kind as u8;
        sealed[1..=SUMS_BYTES].copy_from_slice(&sums_of(&self.0, bytes));
        sealed[1 + SUMS_BYTES..].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        Digest::of(&blake3::keyed_hash(key.bytes(), &sealed))
    }

    /// Appends the sums of each block of `bytes`, which say nothing to whoever does not know the words, and are
    /// to be hashed by BLAKE3 together with the length.
    pub(crate) fn write_sums(&self, bytes: &[u8], out: &mut Vec<u8>) {
        for block in bytes.chunks(BLOCK_BYTES) {
            out.extend_from_slice(&sums_of(&self.0, block));
        }
    }
}

/// See [`Words::in_pieces`].
#[derive(Clone)]
pub(crate) struct Pieces<'k> {
    words: &'k KeyStripes,
    sealed: blake3::Hasher,
    /// The bytes that are no whole block yet.
    rest: Vec<u8>,
    length: u64,
}

impl Pieces<'_> {
    pub(crate) fn push(&mut self, mut bytes: &[u8]) {
        self.length += bytes.len() as u64;
        if !self.rest.is_empty() {
            let (missing, more) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.rest.len()));
            self.rest.extend_from_slice(missing);
            if self.rest.len() < BLOCK_BYTES {
                return;
            }
            self.sealed.update(&sums_of(self.words, &self.rest));
            self.rest.clear();
            bytes = more;
        }
        let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
        self.blocks(blocks);
        self.rest.extend_from_slice(rest);
    }

    fn blocks(&mut self, blocks: &[[u8; BLOCK_BYTES]]) {
        let mut batch = [[0; SUMS_BYTES]; BATCH_BLOCKS];
        for blocks in blocks.chunks(BATCH_BLOCKS) {
            for (sums, block) in batch.iter_mut().zip(blocks) {
                *sums = sums_of(self.words, block);
            }
            self.sealed.update(batch[..blocks.len()].as_flattened());
        }
    }

    /// Of all that was pushed so far.
    pub(crate) fn finish(&self) -> Digest {
        let mut sealed = self.sealed.clone();
        let mut last = [0; SUMS_BYTES + LENGTH_BYTES];
        last[..SUMS_BYTES].copy_from_slice(&sums_of(self.words, &self.rest));
        last[SUMS_BYTES..].copy_from_slice(&self.length.to_le_bytes());
        sealed.update(&last);
        Digest::of(&sealed.finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &[u8]) -> Key {
        Key::derived("a context", &[name])
    }

    #[test]
    fn bytes_in_pieces_are_the_bytes() {
        let key = key(b"a secret");
        let words = Words::new(&key);
        let bytes: Vec<u8> = (0..30_000_u32)
            .map(|at| (at * at).to_be_bytes()[2])
            .collect();
        for end in [0, 1, 63, 64, 65, 8191, 8192, 8193, 16_384, 30_000] {
            let whole = words.of(&key, Kind::Body, &bytes[..end]);
            for step in [1, 7, 8192, 20_000] {
                let mut pieces = words.in_pieces(&key, Kind::Body);
                bytes[..end].chunks(step).for_each(|it| pieces.push(it));
                assert_eq!(pieces.finish(), whole);
            }
        }
    }

    #[test]
    fn sums_of_a_text_are_those_of_its_blocks() {
        let made = Words::new(&key(b"a secret"));
        let text = [7; 2 * BLOCK_BYTES + 5];
        let mut sums = Vec::new();
        made.write_sums(&text, &mut sums);
        let (block, rest) = (&text[..BLOCK_BYTES], &text[..5]);
        assert_eq!(
            sums,
            [block, block, rest].map(|it| sums_of(&made.0, it)).concat()
        );
    }

    #[test]
    fn whatever_differs_has_another() {
        let (one, other) = (key(b"a secret"), key(b"another"));
        let words = Words::new(&one);
        let zeros = [0; 20_000];
        let of = |key, kind, bytes: &[u8]| words.of(key, kind, bytes).0;
        let lengths = [0, 1, 8, 64, 8192, 8256, 20_000];
        let mut all = Vec::from(lengths.map(|length| of(&one, Kind::Body, &zeros[..length])));
        all.push(of(&other, Kind::Body, &zeros));
        all.push(of(&one, Kind::MessageText, &zeros));
        all.push(Words::new(&other).of(&one, Kind::Body, &zeros).0);
        for at in [0, 7, 8, 8191, 8192, 19_999] {
            let mut changed = zeros;
            changed[at] = 1;
            all.push(of(&one, Kind::Body, &changed));
        }
        all.sort_unstable();
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
