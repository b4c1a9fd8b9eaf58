//! Input tokens of a chat request, known before it is sent: for gateways in Rust.
//!
//! It reuses what the provider has billed for the beginning of a conversation and counts only the new
//! messages. It is offline, has no state outside of [`Engine`], and takes microseconds where a conversation is
//! known.
//!
//! ```
//! use tokenctx::{Alone, Answer, Billed, Body, Call, Encoding, Engine, Settings, Source};
//!
//! // A count of text, as tiktoken counts it.
//! let encoding = Encoding::named("o200k_base").expect("an encoding of the crate");
//! assert_eq!(encoding.count("hello world"), 2);
//!
//! // An estimate before the request is sent, and a record of what it was billed.
//! let engine = Engine::new(b"a secret of 16 bytes or more", Settings::default());
//! let body = Body::Bytes(
//!     br#"{"model": "gpt-4o", "messages": [{"role": "user", "content": "Why is the sky blue?"}]}"#,
//! );
//! let call = Call { tenant: Some(b"acme"), ..Call::default() };
//! let Answer::Estimate(first) = engine.estimate(&body, &call, 0, &Alone)? else {
//!     unreachable!("no store is asked")
//! };
//! assert_eq!((first.tokens, first.source), (13, Source::Estimated));
//! let billed = Billed { input_tokens: 13, output_tokens: 9, ..Billed::default() };
//! assert!(engine.record(&body, billed, None, &call, &Alone)?.is_some());
//! # Ok::<(), tokenctx::Error>(())
//! ```
//!
//! | To | Use |
//! | --- | --- |
//! | count text | [`Encoding`], and [`RankEncoding`] with a [`SplitRule`] for a file of yours |
//! | estimate and record calls | [`Engine`] with [`Body`], [`Call`], [`Billed`]; [`Estimate`], [`Record`] |
//! | share what is known between processes | [`Wanted`], [`SharedEntry`] |
//! | count many rows on all cores | [`batch`] |
//! | choose the instructions that texts are counted with | [`SimdLevel`] |
//! | run inside of something that forks | [`Host`]; [`Alone`] for all others |
//! | scale usage in streams for agents that assume another window | [`Scale`], [`Rewriter`] |
//!
//! The surface is what is listed here; hidden modules are for the Python binding and change without notice.
//! The binding is `src/py/`, behind the feature `python`, which is off unless it is asked for.
//!
//! Data flows one way: body -> [`json`] document -> [`request`] -> digests -> [`known`] prefix ->
//! [`count`] -> estimate, and the [`engine`] tells it.

pub mod batch;
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
pub use bpe::{RankEncoding, SimdLevel, SplitRule};
#[doc(inline)]
pub use encoding::Encoding;
#[doc(inline)]
pub use engine::{
    About, Alone, Answer, Billed, Body, CachePoint, CachePoints, CachedPrefix, Call, Doubt, Drift,
    Engine, Estimate, Host, Method, Record, ReplyFault, RequestCount, Settings, SharedEntry,
    Source, Statistics, UNRECORDED, Uncertain, Wanted, replace_tables,
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
