//! Input tokens of a chat request, known before it is sent.
//!
//! Data flows one way: body -> [`json`] document -> [`request`] -> digests -> [`known`] prefix ->
//! [`count`] -> estimate, and the [`engine`] tells it. The crate knows nothing of Python; the binding is
//! `src/py/`, behind the feature `python`.

pub mod bpe;
pub mod claude;
pub mod count;
pub mod encoding;
pub mod engine;
mod error;
pub mod json;
pub mod known;
pub mod layout;
pub mod media;
pub mod profile;
pub mod request;
pub mod usage;

#[cfg(feature = "python")]
mod py;

pub use error::Error;
