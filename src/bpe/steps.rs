//! Work done by this thread, for tests that promise how it grows.

use std::cell::Cell;

thread_local!(static STEPS: Cell<usize> = const { Cell::new(0) });

pub(super) fn add(steps: usize) {
    STEPS.set(STEPS.get() + steps);
}

/// Steps that `work` adds.
pub(super) fn of(work: impl FnOnce()) -> usize {
    STEPS.set(0);
    work();
    STEPS.get()
}
