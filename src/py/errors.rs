//! From the errors of the core, and from its panics, to Python exceptions.
use crate::Error;
use crate::interrupt;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

pyo3::import_exception!(tokenctx._results.errors, InternalError);
pyo3::import_exception!(tokenctx._results.errors, RequestError);

impl From<Error> for PyErr {
    fn from(error: Error) -> PyErr {
        let text = error.to_string();
        RequestError::new_err((text, error.code(), error.offset(), error.limit()))
    }
}

/// The result of `work`, or the error that ended it by [`end`]; a panic in it becomes `InternalError`.
///
/// The text of the panic is not passed on: it may quote a message. Nothing that `work` leaves
/// half done may be used again, so it must own what it changes or replace it whole.
pub(super) fn guard<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        Err(match payload.downcast::<PyErr>() {
            Ok(error) => *error,
            Err(_) => InternalError::new_err(
                "tokenctx failed inside; this is a bug, please report what was called",
            ),
        })
    })
}

/// Ends the work of the [`guard`] around this, which gives `error`.
fn end(error: PyErr) -> ! {
    resume_unwind(Box::new(error))
}

/// Ends it if `error` is no `Exception`, as what Ctrl-C raises is none.
pub(super) fn end_by(py: Python<'_>, error: PyErr) {
    if !error.is_instance_of::<PyException>(py) {
        end(error);
    }
}

/// Shorter work is done before anyone wonders.
const WATCHED_BYTES: usize = 64 << 10;

/// Runs `work` on `byte_count` bytes, detached or not, which a signal ends if its handler raises; `work` is
/// in a [`guard`] and leaves nothing half done that is used again.
///
/// Python handles signals in its main thread alone.
pub(super) fn interruptible<T>(py: Python<'_>, byte_count: usize, work: impl FnOnce() -> T) -> T {
    let is_main_thread = || is_main_thread(py).unwrap_or_else(|error| end(error));
    match byte_count >= WATCHED_BYTES && is_main_thread() {
        true => interrupt::watched(handle_signals, work),
        false => work(),
    }
}

fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    main.eq(threading.call_method0("get_ident")?)
}

fn handle_signals() {
    if let Err(error) = Python::attach(|py| py.check_signals()) {
        end(error);
    }
}

/// Panics, so that a test can see what becomes of it.
#[pyfunction(name = "_panic")]
pub(super) fn panic() -> PyResult<()> {
    guard(|| panic!("on purpose"))
}
