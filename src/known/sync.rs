//! Locks and atomic numbers that threads share: of the standard library, or those of shuttle, which draws the
//! schedule of its threads, in tests that are built with `--cfg shuttle` (`dev.py threads`).
#[cfg(all(test, shuttle))]
pub(crate) use shuttle::{
    sync::{Mutex, MutexGuard, PoisonError, atomic},
    thread,
};
#[cfg(not(all(test, shuttle)))]
pub(crate) use std::sync::{Mutex, MutexGuard, PoisonError, atomic};
#[cfg(all(test, not(shuttle)))]
pub(crate) use std::thread;
