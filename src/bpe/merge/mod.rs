//! Merges: the tokens of what is not in the vocabulary as a whole.
//!
//! A [`piece`] falls into cells. By its definition a [`cell`] is merged alone; many short ones are merged
//! side by side as a [`batch`], and a long one is read [`windows`] after window, several of them side by
//! side in a [`long_batch`] or as parts of one ([`long`]).

#[cfg(target_arch = "x86_64")]
pub(in crate::bpe) mod avx512;
pub(in crate::bpe) mod batch;
mod cell;
#[cfg(target_arch = "x86_64")]
mod gather;
mod guess;
pub(super) mod kernel;
pub(in crate::bpe) mod long;
pub(in crate::bpe) mod long_batch;
pub(in crate::bpe) mod piece;
mod tree_window;
pub(in crate::bpe) mod window;
mod windows;
