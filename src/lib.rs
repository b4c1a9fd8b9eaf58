//! Input tokens of a chat request, known before it is sent.
//!
//! Data flows one way: body -> request -> digests -> known prefix -> counts -> estimate.
//! The crate knows nothing of Python; the binding is `src/py/`, behind the feature `python`.

pub mod bpe;
mod error;
pub mod json;
pub mod media;
pub mod request;

pub use error::Error;

#[cfg(feature = "python")]
mod py;
