//! Known prefixes as bytes, for a process that takes over.
//!
//! ```text
//! "tokenctx known", version   40 bytes for each entry                          MAC
//! 14 + 1 bytes                digest, total, tenant, way back, time left (LE)  32 bytes
//! ```
//!
//! The MAC is over all that stands before it, under a key made of the secret. So what another
//! secret or release has written, what was cut and what was changed is refused as a whole. The
//! entries that would go next come first, so that a smaller store keeps the better ones. Time is
//! carried as time left: the clocks of two processes have nothing in common.
use crate::known::digest::Digester;
use crate::known::shard::ENTRY_FORM_BYTES;
use crate::known::store::PrefixStore;

/// It changes with every change of the form, of digests or of packed totals.
const HEADER: &[u8; 15] = b"tokenctx known\x02";

const MAC_BYTES: usize = 32;

/// Entries that are taken over at once.
const CHUNK: usize = 1024;

/// Why nothing was taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportError {
    /// It does not begin as an export of this release.
    Form,
    /// It was written under another secret, or changed or cut since.
    Mac,
}

impl std::fmt::Display for ExportError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ExportError::Form => {
                "these bytes are no export of known prefixes by this release; nothing was imported"
            }
            ExportError::Mac => {
                "the export was made under another secret, or it was changed or cut; \
                 nothing was imported"
            }
        })
    }
}

/// All that `store` knows and that has not expired.
///
/// `locked` runs each short step that takes a lock.
pub fn export(
    store: &PrefixStore,
    digester: &Digester,
    now_seconds: f64,
    locked: impl Fn(&mut dyn FnMut()),
) -> Vec<u8> {
    let mut bytes = HEADER.to_vec();
    for place in 0..store.shard_count() {
        locked(&mut || store.export_shard(place, now_seconds, &mut bytes));
    }
    let mac = mac(digester, &bytes);
    bytes.extend(mac.as_bytes());
    bytes
}

/// Number of entries of an export that `store` knows from now on and did not know before; what it
/// knows it keeps. All of the export is checked before the first is taken.
///
/// `locked` runs each short step that takes locks.
pub fn import(
    store: &PrefixStore,
    digester: &Digester,
    bytes: &[u8],
    now_seconds: f64,
    locked: impl Fn(&mut dyn FnMut()),
) -> Result<usize, ExportError> {
    let content = bytes.strip_prefix(HEADER).ok_or(ExportError::Form)?;
    let entries = content
        .len()
        .checked_sub(MAC_BYTES)
        .ok_or(ExportError::Mac)?;
    let (signed, found) = bytes.split_at(HEADER.len() + entries);
    // Compared in constant time.
    if mac(digester, signed) != *found || entries % ENTRY_FORM_BYTES != 0 {
        return Err(ExportError::Mac);
    }
    let mut count = 0;
    for chunk in content[..entries].chunks(CHUNK * ENTRY_FORM_BYTES) {
        locked(&mut || {
            let forms = chunk.as_chunks::<ENTRY_FORM_BYTES>().0;
            count += forms
                .iter()
                .filter(|form| store.import_entry(form, now_seconds))
                .count();
        });
    }
    Ok(count)
}

fn mac(digester: &Digester, content: &[u8]) -> blake3::Hash {
    blake3::keyed_hash(digester.export_key().bytes(), content)
}
