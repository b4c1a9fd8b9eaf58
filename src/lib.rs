//! Input tokens of a chat request, known before it is sent.
//!
//! Data flows one way: body -> [`json`] document -> [`request`] -> [`digest`] -> known
//! [`prefix`] -> [`count`] -> [`estimate`]. The crate knows nothing of Python; the binding is
//! `src/py/`, behind the feature `python`.

pub mod bounds;
pub mod bpe;
pub mod branch;
pub mod claude;
pub mod count;
pub mod cut;
pub mod digest;
pub mod encoding;
pub mod engine;
pub mod entry;
mod error;
pub mod estimate;
pub mod export;
pub mod json;
pub mod layout;
pub mod learn;
pub mod media;
pub mod model_name;
pub mod prefix;
pub mod profile;
pub mod request;
pub mod resolve;
pub mod resume;
pub mod scale;
mod shard;
mod shared;
pub mod sse;
pub mod tenant;
mod total;
pub mod tracker;
pub mod usage;

#[cfg(feature = "python")]
mod py;

pub use error::Error;
