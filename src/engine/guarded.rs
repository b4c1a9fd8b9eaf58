//! A value that threads share.
use crate::known::sync::{Mutex, PoisonError};

/// A value that one thread at a time may touch. A panic while it is touched does not close it: each of these
/// values is a memory that may lack something, and none depends on another.
#[derive(Debug, Default)]
pub(super) struct Guarded<T>(Mutex<T>);

impl<T> Guarded<T> {
    pub(super) fn new(value: T) -> Guarded<T> {
        Guarded(Mutex::new(value))
    }

    /// Runs `action` on the value, alone.
    pub(super) fn with<R>(&self, action: impl FnOnce(&mut T) -> R) -> R {
        action(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
