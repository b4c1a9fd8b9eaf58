//! Input tokens of a chat request, known before it is sent.
//!
//! Data flows one way: body -> [`json`] document -> [`request`] -> digests -> [`known`] prefix ->
//! [`count`] -> estimate, and the [`engine`] tells it. The crate knows nothing of Python; the binding is
//! `src/py/`, behind the feature `python`.

#[doc(hidden)]
pub mod bpe;
#[doc(hidden)]
pub mod claude;
#[doc(hidden)]
pub mod count;
#[doc(hidden)]
pub mod encoding;
#[doc(hidden)]
pub mod engine;
mod error;
mod interrupt;
#[doc(hidden)]
pub mod json;
#[doc(hidden)]
pub mod known;
#[doc(hidden)]
pub mod layout;
#[doc(hidden)]
pub mod media;
#[doc(hidden)]
pub mod profile;
#[doc(hidden)]
pub mod request;
#[doc(hidden)]
pub mod usage;

#[cfg(feature = "python")]
mod py;

#[doc(inline)]
pub use bpe::{Ranked, SplitRule};
#[doc(inline)]
pub use encoding::Encoding;
#[doc(inline)]
pub use engine::{
    About, Alone, Answer, Billed, Body, CachePoint, CachePoints, CachedPrefix, Call, Engine,
    Estimate, Host, Method, Record, ReplyFault, RequestCount, Settings, SharedEntry, Source,
    Statistics, UNRECORDED, Wanted,
};
pub use error::{Error, Items};
#[doc(inline)]
pub use known::digest::Digest;
#[doc(inline)]
pub use profile::Quality;
#[doc(inline)]
pub use request::{Assumptions, CacheMark, Dialect};
#[doc(inline)]
pub use usage::scale::{Rounding, Scale};
#[doc(inline)]
pub use usage::sse::Rewriter;
