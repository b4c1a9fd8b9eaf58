//! From the errors of the core, and from its panics, to Python exceptions.
use crate::Error;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

pyo3::import_exception!(tokenctx._errors, InternalError);
pyo3::import_exception!(tokenctx._errors, RequestError);

impl From<Error> for PyErr {
    fn from(error: Error) -> PyErr {
        let text = error.to_string();
        RequestError::new_err((text, error.code(), error.offset(), error.limit()))
    }
}

/// What `work` gives; a panic in it becomes `InternalError`.
///
/// The text of the panic is not passed on: it may quote a message. Nothing that `work` leaves
/// half done may be used again, so it must own what it changes or replace it whole.
pub(super) fn guard<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(InternalError::new_err(
            "tokenctx failed inside; this is a bug, please report what was called",
        ))
    })
}

/// Panics, so that a test can see what becomes of it.
#[pyfunction(name = "_panic")]
pub(super) fn panic() -> PyResult<()> {
    guard(|| panic!("on purpose"))
}
