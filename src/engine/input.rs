//! The input of an engine: a body, the facts of a call beside it, and the host that runs the engine.
use crate::Error;
use crate::json::{Anomalies, Document, Limits};
use crate::request::Dialect;

/// The body of a request or of an answer, as the caller has it.
///
/// ```
/// use tokenctx::Body;
///
/// assert_eq!(Body::Bytes(b"{}").byte_count(), 2);
/// assert!(Body::Bytes(b"{").read(|_| Ok(())).is_err());
/// ```
#[derive(Debug)]
pub enum Body<'b> {
    /// JSON text as it came.
    Bytes(&'b [u8]),
    /// JSON text, and what was mended in it.
    Text(&'b str, Anomalies),
    /// A document that was read from objects.
    Document(Document<'static>),
}

impl Body<'_> {
    /// The JSON text, if it is as it came.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Body::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// How much there is to read.
    pub fn byte_count(&self) -> usize {
        match self {
            Body::Bytes(bytes) => bytes.len(),
            Body::Text(text, _) => text.len(),
            Body::Document(document) => document.byte_count(),
        }
    }

    /// The result of `work` on the document. Fails for text that is no JSON or beyond a limit, and as
    /// `work` does.
    pub fn read<T>(
        &self,
        work: impl FnOnce(&Document<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let limits = Limits::default();
        match self {
            Body::Bytes(bytes) => work(&Document::from_bytes(bytes, &limits)?),
            Body::Text(text, anomalies) => {
                let mut document = Document::parse(text, &limits)?;
                document.flag(*anomalies);
                work(&document)
            }
            Body::Document(document) => work(document),
        }
    }
}

/// The facts of a call beside its body.
///
/// ```
/// use tokenctx::{Call, Dialect};
///
/// let call = Call { tenant: Some(b"acme"), dialect: Some(Dialect::Anthropic), ..Call::default() };
/// assert_eq!(call.model, None); // the one that the body names
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Call<'c> {
    /// The tenant that makes it, any name; all who name none are one.
    pub tenant: Option<&'c [u8]>,
    /// The model, in place of the one that the body names.
    pub model: Option<&'c str>,
    /// The format of the body; `None` to detect it.
    pub dialect: Option<Dialect>,
    /// Who answers, where the model's name does not say it.
    pub provider: Option<&'c str>,
    /// A clock that never goes back, by which what is known expires.
    pub now_seconds: f64,
    /// The time since 1970, which other processes have in common.
    pub unix_seconds: u64,
    /// True if the estimate is to have the places that the provider may have cached: [`crate::CachePoints`].
    pub wants_cache_points: bool,
    /// True if a record is to have entries that other processes may take over: [`crate::SharedEntry`].
    pub wants_entries: bool,
}

/// The program that runs an engine.
///
/// A process that forks copies its locks as they are: one that another thread holds stays locked for ever
/// in the copy. Whoever forks must therefore take locks only where no fork can happen, and wants to do long
/// work elsewhere; an interpreter with a global lock forks while it holds that lock.
///
/// ```
/// use tokenctx::Host;
///
/// /// Does long work at once, and no process here forks.
/// struct Inline;
///
/// impl Host for Inline {
///     fn locked<T>(step: impl FnOnce() -> T) -> T {
///         step()
///     }
///
///     fn detached<T: Send>(&self, _byte_count: usize, work: impl FnOnce() -> T + Send) -> T {
///         work()
///     }
/// }
/// assert_eq!(Inline.detached(1 << 20, || 2), 2);
/// ```
pub trait Host {
    /// Runs `step`, which takes locks of the engine for a moment, where nothing can fork.
    fn locked<T>(step: impl FnOnce() -> T) -> T;

    /// Runs `work` on this number of bytes, where others may run beside it. It calls [`Host::locked`].
    fn detached<T: Send>(&self, byte_count: usize, work: impl FnOnce() -> T + Send) -> T;
}

/// A program that does not fork, or only before it has threads.
///
/// ```
/// use tokenctx::{Alone, Host};
///
/// assert_eq!(Alone.detached(1 << 20, || 2), 2);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Alone;

impl Host for Alone {
    fn locked<T>(step: impl FnOnce() -> T) -> T {
        step()
    }

    fn detached<T: Send>(&self, _byte_count: usize, work: impl FnOnce() -> T + Send) -> T {
        work()
    }
}
