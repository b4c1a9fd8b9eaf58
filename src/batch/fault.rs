//! The reasons why rows have no result.
use crate::Error;

/// The reason why a row has no result.
///
/// ```
/// assert_eq!(tokenctx::batch::Fault::Null.code(), "null");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There is nothing in this row.
    Null,
    /// It is no text, no bytes and no object that could be a request.
    Type,
    /// It was refused; the code is that of [`Error::code`].
    Refused(&'static str),
    /// Counting it failed inside: a bug.
    Internal,
}

impl Fault {
    /// `"null"`, `"type"`, `"internal"`, or the code of an [`Error`] such as `"truncated"`.
    pub fn code(self) -> &'static str {
        match self {
            Fault::Null => "null",
            Fault::Type => "type",
            Fault::Refused(code) => code,
            Fault::Internal => "internal",
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Refused(error.code())
    }
}
