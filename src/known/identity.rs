//! A digest by itself: 16 bytes.

/// Keyed 128-bit identity of a message or of the first messages of a request.
///
/// ```
/// use tokenctx::Digest;
///
/// // As a store of several processes keeps it: 16 bytes, which reveal nothing without the secret.
/// let digest = Digest([7; 16]);
/// assert_eq!(Digest(digest.0), digest);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 16]);

impl Digest {
    /// Its first eight bytes: keyed and uniform already, so they are its hash.
    pub(crate) fn word(&self) -> u64 {
        self.0.first_chunk().map_or(0, |it| u64::from_le_bytes(*it))
    }

    /// The first half of a hash of BLAKE3.
    pub(crate) fn of(hash: &blake3::Hash) -> Digest {
        let mut digest = Digest([0; 16]);
        digest.0.copy_from_slice(&hash.as_bytes()[..16]);
        digest
    }
}
