//! How a long call is ended from outside: by Ctrl-C, say.
//!
//! Long loops call [`poll`]. It does nothing unless whoever made the call watches it ([`watched`]) on
//! this thread; then it asks them, every [`PERIOD`]. They end the call by unwinding, so nothing on the
//! way needs to know of it: a loop that polls must hold no lock, and must leave nothing half done
//! that outlives it.
use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long a watched call runs before whoever watches it is asked again. To ask may mean to wait for an
/// interpreter that another thread has, so that a tenth of it would cost more than it tells.
const PERIOD: Duration = Duration::from_millis(30);

/// The clock is looked at in one of so many polls: it takes longer than what is done between two of them.
const POLLS: u8 = 16;

#[derive(Clone, Copy)]
struct Watch {
    due: Instant,
    ask: fn(),
    polls: u8,
}

thread_local!(static WATCH: Cell<Option<Watch>> = const { Cell::new(None) });

/// Puts back what watched before, also by unwinding.
struct Before(Option<Watch>);

impl Before {
    fn of(watch: Option<Watch>) -> Before {
        Before(WATCH.replace(watch))
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        WATCH.set(self.0);
    }
}

/// Runs `work` on this thread; its long loops call `ask`, which may unwind.
#[cfg_attr(
    not(feature = "python"),
    allow(dead_code, reason = "the binding watches")
)]
pub(crate) fn watched<T>(ask: fn(), work: impl FnOnce() -> T) -> T {
    let due = Instant::now() + PERIOD;
    let polls = 0;
    let _before = Before::of(Some(Watch { due, ask, polls }));
    work()
}

/// Runs `work`, which must not be unwound, though a call around it may be watched.
#[cfg_attr(
    not(feature = "python"),
    allow(dead_code, reason = "the binding watches")
)]
pub(crate) fn unwatched<T>(work: impl FnOnce() -> T) -> T {
    let _before = Before::of(None);
    work()
}

/// Lets whoever watches this call end it. Cheap: a long loop calls it every few microseconds.
#[inline]
pub(crate) fn poll() {
    if let Some(watch) = WATCH.get() {
        poll_watched(watch);
    }
}

#[inline(never)]
fn poll_watched(mut watch: Watch) {
    watch.polls = (watch.polls + 1) % POLLS;
    WATCH.set(Some(watch));
    if watch.polls == 0 && Instant::now() >= watch.due {
        unwatched(watch.ask);
        let due = Instant::now() + PERIOD;
        WATCH.set(Some(Watch { due, ..watch }));
    }
}

/// Steps of a loop that are too short for a [`poll`] each.
#[derive(Default)]
pub(crate) struct Steps(u32);

impl Steps {
    /// One more; one in 256 polls.
    #[inline(always)]
    pub(crate) fn step(&mut self) {
        self.0 = self.0.wrapping_add(1);
        if self.0.is_multiple_of(256) {
            poll();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{catch_unwind, resume_unwind};

    /// Polls for longer than it may take until the one who watches is asked.
    fn poll_on() {
        let end = Instant::now() + 4 * PERIOD;
        let mut steps = Steps::default();
        while Instant::now() < end {
            steps.step();
        }
    }

    /// The same on a machine that gives this thread no time: the one who watches is asked by polls, not by the clock.
    fn poll_past_due() {
        poll_on();
        (0..=u32::from(POLLS)).for_each(|_| poll());
    }

    fn end() {
        resume_unwind(Box::new("ended"));
    }

    #[test]
    fn who_watches_ends_the_call_and_no_other() {
        poll_past_due();
        let ended = catch_unwind(|| watched(end, poll_past_due)).expect_err("it was ended");
        assert_eq!(ended.downcast_ref(), Some(&"ended"));
        poll_past_due();
        watched(end, || unwatched(poll_past_due));
    }

    #[test]
    fn who_is_asked_is_not_asked_within() {
        thread_local!(static ASKED: Cell<u32> = const { Cell::new(0) });
        fn ask() {
            ASKED.set(ASKED.get() + 1);
            poll_on();
        }
        watched(ask, poll_on);
        assert_eq!(ASKED.get(), 1);
    }
}
