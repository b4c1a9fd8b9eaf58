//! Keys, which are overwritten when they are no longer needed.
use std::sync::Arc;
use zeroize::{Zeroize, Zeroizing};

/// A key of 32 bytes in one place of the heap: who moves or clones it copies no byte of it.
#[derive(Clone)]
pub(crate) struct Key(Arc<Zeroizing<[u8; 32]>>);

impl Key {
    /// The key that BLAKE3 derives from `material` in this `context`, and in no other.
    pub(crate) fn derived(context: &str, material: &[&[u8]]) -> Key {
        let mut hasher = blake3::Hasher::new_derive_key(context);
        for part in material {
            hasher.update(part);
        }
        let mut output = hasher.finalize_xof();
        let mut key = Arc::new(Zeroizing::new([0; 32]));
        if let Some(bytes) = Arc::get_mut(&mut key) {
            output.fill(&mut bytes[..]);
        }
        output.zeroize();
        hasher.zeroize();
        Key(key)
    }

    /// Bytes that BLAKE3 derives from this key in this `context`, and in no other.
    pub(crate) fn derive(&self, context: &str, bytes: &mut [u8]) {
        let mut hasher = blake3::Hasher::new_derive_key(context);
        hasher.update(self.bytes());
        let mut output = hasher.finalize_xof();
        output.fill(bytes);
        output.zeroize();
        hasher.zeroize();
    }

    /// The bytes, which must not be kept.
    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_derived_key_is_that_of_blake3() {
        let key = Key::derived("a context", &[b"some ", b"material"]);
        assert_eq!(
            *key.bytes(),
            blake3::derive_key("a context", b"some material")
        );
        assert_eq!(key.clone().bytes(), key.bytes());
    }
}
