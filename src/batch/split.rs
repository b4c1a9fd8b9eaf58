//! The rows of a call, split over threads that end with it.
use crate::batch::fault::Fault;
use std::any::Any;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Rows that a thread takes at once: so many that taking them costs nothing, so few that threads end together.
const MOST_ROWS: usize = 64;

/// From this number of bytes on a further thread is worth its start.
const BYTES_OF_A_THREAD: usize = 16 << 10;

/// How long the caller sleeps until it looks again whether it was ended, while others finish their last rows.
const PAUSE: Duration = Duration::from_micros(100);

/// How many threads the rows of a call are split over.
///
/// ```
/// use tokenctx::batch::Threads;
///
/// assert!(Threads::new(0).is_none());
/// assert!(Threads::all().count() >= 1);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Threads(NonZeroUsize);

impl Threads {
    /// So many; `None` for 0.
    pub fn new(count: usize) -> Option<Threads> {
        NonZeroUsize::new(count).map(Threads)
    }

    /// One for each core that the process may use.
    pub fn all() -> Threads {
        Threads(thread::available_parallelism().unwrap_or(NonZeroUsize::MIN))
    }

    /// Their number, the calling one among them.
    pub fn count(self) -> usize {
        self.0.get()
    }

    /// The results of `work` on the places `0..rows`, in order; of a row that panics it is [`Fault::Internal`].
    ///
    /// The calling thread works too, and what ends it by unwinding with a payload of its own ends the call.
    pub(super) fn run<T: Send>(
        self,
        (rows, byte_count): (usize, usize),
        work: impl Fn(usize) -> Result<T, Fault> + Sync,
    ) -> Vec<Result<T, Fault>> {
        let (next, is_ended) = (AtomicUsize::new(0), AtomicBool::new(false));
        let most = self.count().min(byte_count / BYTES_OF_A_THREAD + 1);
        let step = (rows / (4 * most)).clamp(1, MOST_ROWS);
        let share = || {
            let mut done = Vec::new();
            while !is_ended.load(Ordering::Relaxed) {
                let start = next.fetch_add(step, Ordering::Relaxed);
                if start >= rows {
                    break;
                }
                let places = start..rows.min(start + step);
                done.push((
                    start,
                    places.map(|it| caught(it, &work)).collect::<Vec<_>>(),
                ));
            }
            done
        };
        let mut shares = thread::scope(|scope| {
            let start = |_| thread::Builder::new().spawn_scoped(scope, share).ok();
            let others: Vec<_> = (1..most).filter_map(start).collect();
            let _ended = EndOthers(&is_ended);
            let mut shares = share();
            for other in others {
                while !other.is_finished() {
                    crate::interrupt::poll();
                    thread::park_timeout(PAUSE);
                }
                shares.extend(other.join().unwrap_or_else(|it| resume_unwind(it)));
            }
            shares
        });
        shares.sort_unstable_by_key(|(start, _)| *start);
        shares.into_iter().flat_map(|(_, it)| it).collect()
    }
}

/// Tells the other threads that the call has ended, also when it unwinds.
struct EndOthers<'a>(&'a AtomicBool);

impl Drop for EndOthers<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn caught<T>(row: usize, work: &(impl Fn(usize) -> Result<T, Fault> + Sync)) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(|| work(row))).unwrap_or_else(|payload| {
        match is_panic(&*payload) {
            true => Err(Fault::Internal),
            false => resume_unwind(payload),
        }
    })
}

/// True for the payload of `panic!`; a caller who ends a call unwinds with one of its own.
fn is_panic(payload: &(dyn Any + Send)) -> bool {
    payload.is::<&str>() || payload.is::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(count: usize) -> Threads {
        Threads::new(count).expect("some")
    }

    #[test]
    fn every_row_is_in_its_place_whatever_the_number_of_threads() {
        for count in [1, 2, 3, 8] {
            for rows in [0, 1, 2, 63, 64, 65, 1000] {
                let done = threads(count).run((rows, 1 << 30), Ok);
                assert_eq!(done, (0..rows).map(Ok).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_row_that_panics_is_a_fault_and_no_more() {
        let work = |row| {
            if row == 7 {
                panic!("on purpose")
            } else {
                Ok(row)
            }
        };
        let done = threads(2).run((20, 1 << 30), work);
        assert_eq!(done[7], Err(Fault::Internal));
        assert_eq!(done.iter().filter(|it| it.is_ok()).count(), 19);
    }

    #[test]
    fn who_ends_the_call_is_heard() {
        struct Ended;
        let work = |row: usize| -> Result<usize, Fault> {
            match row {
                3 => resume_unwind(Box::new(Ended)),
                _ => Ok(row),
            }
        };
        let ended = catch_unwind(AssertUnwindSafe(|| threads(2).run((10, 1 << 30), work)));
        assert!(ended.is_err_and(|it| it.is::<Ended>()));
    }
}
