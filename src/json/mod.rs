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
pub use number::write_float;
pub use tape::HeldText;
pub(crate) use write::write_string;

/// What a document may cost. A body beyond a limit is refused with that limit in the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of the body, or of all strings in the objects; 1 GiB at most.
    pub max_bytes: usize,
    /// Levels of arrays and objects.
    pub max_depth: usize,
    /// Values and keys together.
    pub max_values: usize,
}

impl Default for Limits {
    /// 128 MiB, 1,024 levels (as deep as any parser in use), 4 Mi values and keys: a value is a token at least, so
    /// more fill any window.
    fn default() -> Limits {
        Limits {
            max_bytes: 128 << 20,
            max_depth: 1024,
            max_values: 4 << 20,
        }
    }
}

/// What was odd about a body and accepted all the same: a set of flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anomalies(u8);

impl Anomalies {
    /// An object had a key twice; the last value was taken.
    pub const DUPLICATE_KEY: Anomalies = Anomalies(1);
    /// Half of a surrogate pair stood alone; it was read as U+FFFD.
    pub const LONE_SURROGATE: Anomalies = Anomalies(2);
    /// A number is NaN or infinite.
    pub const NON_FINITE_NUMBER: Anomalies = Anomalies(4);
    /// An object cannot be read as JSON; it was read as null, or its key left out.
    pub const UNREADABLE_VALUE: Anomalies = Anomalies(8);
    /// The body began with a byte order mark.
    pub const BYTE_ORDER_MARK: Anomalies = Anomalies(16);
    /// The body was not valid UTF-8; each bad sequence was read as U+FFFD.
    pub const INVALID_UTF8: Anomalies = Anomalies(32);

    const NAMES: [(Anomalies, &'static str); 6] = [
        (Anomalies::DUPLICATE_KEY, "duplicate_key"),
        (Anomalies::LONE_SURROGATE, "lone_surrogate"),
        (Anomalies::NON_FINITE_NUMBER, "non_finite_number"),
        (Anomalies::UNREADABLE_VALUE, "unreadable_value"),
        (Anomalies::BYTE_ORDER_MARK, "byte_order_mark"),
        (Anomalies::INVALID_UTF8, "invalid_utf8"),
    ];

    /// Whether nothing was odd.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether every flag of `other` is set.
    pub fn contains(self, other: Anomalies) -> bool {
        self.0 & other.0 == other.0
    }

    /// The names of the flags that are set, in a fixed order: `"duplicate_key"`, ...
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let set = Anomalies::NAMES.into_iter();
        set.filter(move |(flag, _)| self.contains(*flag))
            .map(|(_, name)| name)
    }
}

impl std::ops::BitOrAssign for Anomalies {
    fn bitor_assign(&mut self, other: Anomalies) {
        self.0 |= other.0;
    }
}
