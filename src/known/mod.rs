//! The knowledge of conversations: digests of their prefixes, and the totals that were billed there.
//!
//! A request has one [`digest`] for each of its prefixes, keyed by [`tenant`]. A [`PrefixStore`] keeps the
//! billed total of some of them; an entry leaves the process [`sealed`], and all of them as an [`export`].
pub mod digest;
pub mod export;
pub(crate) mod fingerprint;
mod identity;
mod key;
pub(crate) mod memo;
pub mod sealed;
mod shard;
mod store;
mod sums;
pub(crate) mod sync;
pub mod tenant;
mod total;
pub mod tracker;

#[cfg(test)]
mod threads;

pub use store::{Boundary, ENTRY_BYTES, KnownPrefix, MAX_CAPACITY_BYTES, PrefixStore, StoreStats};
pub(crate) use total::COUNTED;
pub use total::{KnownOptions, KnownTotal};
