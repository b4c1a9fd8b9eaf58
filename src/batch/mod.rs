//! Many rows at once, on all cores: requests, texts, and the log that requests make together.
//!
//! The rows of a call are split over threads that end with it. A row that cannot be read is a fault in its
//! place and never ends the call. Nothing is known between calls, so the result of a row depends on that row
//! alone, and the number of threads changes no result.
mod estimates;
mod fault;
mod lines;
mod split;
mod texts;
mod unique;
mod wrapped;

pub use estimates::{EstimateRow, Row, estimates};
pub use fault::Fault;
pub use lines::lines;
pub use split::Threads;
pub use texts::counts;
pub use unique::SeenPrefixes;
#[cfg(feature = "python")]
pub(crate) use wrapped::WRAPPERS;

use crate::engine::{Engine, Settings};

/// Known prefixes of an engine that records nothing.
const LEAST_BYTES: usize = 1;

/// An engine for the rows of one call, which keeps nothing; its `secret` is the caller's.
///
/// It belongs to the call alone: no thread beside it can hold its locks when the process forks.
pub fn engine(secret: &[u8], settings: Settings) -> Engine {
    Engine::new(
        secret,
        Settings {
            capacity_bytes: LEAST_BYTES,
            body_prefixes_bytes: LEAST_BYTES,
            shapes_bytes: LEAST_BYTES,
            is_learning: false,
            ..settings
        },
    )
}
