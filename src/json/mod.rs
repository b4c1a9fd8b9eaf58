//! A JSON document as a flat list of nodes, whatever it was made from.
//!
//! Raw bytes come in through [`Document::from_bytes`], a caller's own objects through
//! [`Builder`]; both give the same [`Document`], so that a reader written once is equal on both
//! by construction. The parser is lenient, since it reads in order to count: it accepts what any
//! other hop is known to accept and reports it as [`Anomalies`].
//!
//! Nothing here recurses: depth costs heap, eight bytes a level. Everything is linear in the
//! input, except that [`Value::write_canonical`] sorts the keys of each object.
//!
//! ```
//! use tokenctx::json::{Document, Limits};
//!
//! let body = br#"{"model": "m", "temperature": 1e0, "model": "n"}"#;
//! let document = Document::from_bytes(body, &Limits::default())?;
//! let root = document.root();
//! assert_eq!(root.get("model").and_then(|v| v.as_str()), Some("n"));
//!
//! let mut text = String::new();
//! root.write_compact(&mut text);
//! assert_eq!(text, r#"{"model":"n","temperature":1.0}"#);
//! # Ok::<(), tokenctx::Error>(())
//! ```
mod builder;
mod decode;
mod document;
mod elements;
mod limits;
mod number;
mod parser;
mod quotes;
mod tape;
mod write;

pub use builder::Builder;
pub use decode::decode_body;
pub use document::{Document, Items, Kind, Members, Value};
pub use elements::{array_elements, array_items, object_members};
pub(crate) use elements::{first_elements, more_elements};
pub use limits::{Anomalies, Limits};
pub use number::write_float;
pub use tape::HeldText;
pub(crate) use write::write_string;
