//! Why a request body was refused.
//!
//! An error names a place and a limit, never text of the body: it may be logged as it is.
use std::fmt;

/// Why a request body was refused. `code` is stable, the text is for people.
///
/// ```
/// use tokenctx::Body;
///
/// let error = Body::Bytes(b"{").read(|_| Ok(())).unwrap_err();
/// assert_eq!((error.code(), error.offset()), ("truncated", Some(1)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Nothing but white space.
    EmptyBody,
    /// The body ends inside a value: a cut upload, or a proxy that truncated it.
    Truncated {
        /// Where the body ends, in bytes.
        offset: usize,
    },
    /// Something other than white space follows the value.
    TrailingData {
        /// Where it begins, in bytes.
        offset: usize,
    },
    /// A raw NUL byte outside of a string.
    NulByte {
        /// Where it stands, in bytes.
        offset: usize,
    },
    /// A `/` outside of a string: JSON has no comments.
    Comment {
        /// Where it stands, in bytes.
        offset: usize,
    },
    /// A comma with nothing behind it.
    TrailingComma {
        /// Where the closing bracket stands, in bytes.
        offset: usize,
    },
    /// Any other byte that JSON does not allow where it stands.
    Syntax {
        /// Where it stands, in bytes.
        offset: usize,
        /// The tokens that JSON allows there.
        expected: &'static str,
    },
    /// The body is not UTF-8 but another encoding of Unicode.
    Encoding {
        /// The name of that encoding.
        found: &'static str,
    },
    /// More bytes than `Limits::max_bytes`.
    TooLarge {
        /// How many there are; where the size shows only while reading, how many were read.
        bytes: usize,
        /// How many are allowed.
        limit: usize,
    },
    /// Arrays and objects nested deeper than `Limits::max_depth`.
    TooDeep {
        /// Where the limit was crossed, in bytes; `None` for a body made of objects.
        offset: Option<usize>,
        /// How many levels are allowed.
        limit: usize,
    },
    /// More values and keys than `Limits::max_values`.
    TooManyValues {
        /// Where the limit was crossed, in bytes; `None` for a body made of objects.
        offset: Option<usize>,
        /// How many are allowed.
        limit: usize,
    },
    /// JSON that is no request: a number, an object with nothing in it, a text where messages belong.
    NoMessages {
        /// What stands there, as a clause.
        found: &'static str,
    },
    /// More messages, parts of messages or tools than a request may have.
    TooMany {
        /// The kind of thing that there is too much of.
        what: Items,
        /// How many are allowed.
        limit: usize,
    },
}

/// Things of which a request may have a bounded number.
///
/// ```
/// use tokenctx::{Error, Items};
///
/// let error = Error::TooMany { what: Items::Tools, limit: 10_000 };
/// assert_eq!(error.limit(), Some(10_000));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Items {
    /// Messages.
    Messages,
    /// Parts of all messages and of the system prompt.
    Parts,
    /// Tool definitions.
    Tools,
}

impl Items {
    fn name(self) -> &'static str {
        match self {
            Items::Messages => "messages",
            Items::Parts => "parts of messages",
            Items::Tools => "tools",
        }
    }
}

impl Error {
    /// Name of the reason, the same in every version: `"truncated"`, `"too_deep"`, ...
    pub fn code(&self) -> &'static str {
        match self {
            Error::EmptyBody => "empty_body",
            Error::Truncated { .. } => "truncated",
            Error::TrailingData { .. } => "trailing_data",
            Error::NulByte { .. } => "nul_byte",
            Error::Comment { .. } => "comment",
            Error::TrailingComma { .. } => "trailing_comma",
            Error::Syntax { .. } => "syntax",
            Error::Encoding { .. } => "encoding",
            Error::TooLarge { .. } => "too_large",
            Error::TooDeep { .. } => "too_deep",
            Error::TooManyValues { .. } => "too_many_values",
            Error::NoMessages { .. } => "no_messages",
            Error::TooMany { what, .. } => match what {
                Items::Messages => "too_many_messages",
                Items::Parts => "too_many_parts",
                Items::Tools => "too_many_tools",
            },
        }
    }

    /// Byte of the body at which it was refused, where there is one.
    ///
    /// Behind invalid UTF-8 it counts the bytes of the repaired text.
    pub fn offset(&self) -> Option<usize> {
        match *self {
            Error::Truncated { offset }
            | Error::TrailingData { offset }
            | Error::NulByte { offset }
            | Error::Comment { offset }
            | Error::TrailingComma { offset }
            | Error::Syntax { offset, .. } => Some(offset),
            Error::TooDeep { offset, .. } | Error::TooManyValues { offset, .. } => offset,
            Error::EmptyBody
            | Error::Encoding { .. }
            | Error::TooLarge { .. }
            | Error::NoMessages { .. }
            | Error::TooMany { .. } => None,
        }
    }

    /// The limit that was crossed, where it was one.
    pub fn limit(&self) -> Option<usize> {
        match *self {
            Error::TooLarge { limit, .. }
            | Error::TooDeep { limit, .. }
            | Error::TooManyValues { limit, .. }
            | Error::TooMany { limit, .. } => Some(limit),
            _ => None,
        }
    }

    /// The same error with `place` as its offset, unless it has one.
    pub(crate) fn at(mut self, place: usize) -> Error {
        if let Error::TooDeep { offset, .. } | Error::TooManyValues { offset, .. } = &mut self {
            offset.get_or_insert(place);
        }
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Error::EmptyBody => write!(f, "the body is empty; it must be one JSON value"),
            Error::Truncated { offset } => write!(
                f,
                "the body ends inside a JSON value, at byte {offset}; it must arrive whole"
            ),
            Error::TrailingData { offset } => write!(
                f,
                "data follows the JSON value, at byte {offset}; only white space may"
            ),
            Error::NulByte { offset } => write!(
                f,
                "raw NUL byte at byte {offset}; outside of a string there may be none"
            ),
            Error::Comment { offset } => {
                write!(f, "`/` at byte {offset}; JSON has no comments, remove them")
            }
            Error::TrailingComma { offset } => write!(
                f,
                "comma with nothing behind it before byte {offset}; remove it"
            ),
            Error::Syntax { offset, expected } => {
                write!(f, "not JSON at byte {offset}; expected {expected}")
            }
            Error::Encoding { found } => {
                write!(f, "the body is {found}; it must be sent as UTF-8")
            }
            Error::TooLarge { bytes, limit } => write!(
                f,
                "the body has {bytes} bytes, the limit is {limit}; send less"
            ),
            Error::TooDeep { limit, .. } => write!(
                f,
                "values nested deeper than {limit} levels{}; nest less",
                Place(self.offset())
            ),
            Error::TooManyValues { limit, .. } => write!(
                f,
                "more than {limit} values and keys{}; send fewer",
                Place(self.offset())
            ),
            Error::NoMessages { found } => write!(
                f,
                "{found}; a request is an object whose `messages` is a list of objects with `role` \
                 and `content`, or that list; text alone is counted by count_tokens"
            ),
            Error::TooMany { what, limit } => write!(
                f,
                "the request has more than {limit} {}; no provider takes so many, send fewer",
                what.name()
            ),
        }
    }
}

impl std::error::Error for Error {}

/// `" at byte 7"`, or nothing.
struct Place(Option<usize>);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(offset) => write!(f, " at byte {offset}"),
            None => Ok(()),
        }
    }
}
