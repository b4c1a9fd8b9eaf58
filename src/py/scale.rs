//! Usage in the measure of another window: numbers, bodies, streams.
use super::document::detached;
use super::errors::guard;
use super::object::as_bytes;
use crate::json::{Document, Limits};
use crate::usage::scale::{Rounding, Scale};
use crate::usage::sse::Rewriter;
use crate::usage::{Change, InputSoFar, count_changes, readable, response_changes, spliced};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

/// Path, real and scaled number of what changed.
type Numbers = Vec<(&'static str, u64, u64)>;

fn numbers(changes: &[Change]) -> Numbers {
    let named = changes.iter().filter(|change| !change.path.is_empty());
    named
        .map(|change| (change.path, change.real, change.scaled))
        .collect()
}

fn bytes<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    as_bytes(&value.as_borrowed())?.ok_or_else(|| {
        let kind = value.get_type();
        PyTypeError::new_err(format!("expected bytes, got {kind}"))
    })
}

#[pyclass(name = "Scale", module = "tokenctx._core", frozen)]
pub(super) struct PyScale(Scale);

#[pymethods]
impl PyScale {
    #[new]
    fn new(points: Vec<(u64, u64)>, rounding: &str) -> PyResult<PyScale> {
        let rounding = Rounding::named(rounding).ok_or_else(|| {
            PyValueError::new_err(format!(
                "rounding is {rounding:?}; it must be one of floor, nearest, ceil"
            ))
        })?;
        let scale = Scale::new(points, rounding);
        scale.map(PyScale).ok_or_else(|| {
            PyValueError::new_err("points must rise: (real, scaled) above the one before")
        })
    }

    fn tokens(&self, tokens: u64) -> u64 {
        self.0.tokens(tokens)
    }

    #[getter]
    fn is_linear(&self) -> bool {
        self.0.is_linear()
    }

    /// A body with scaled usage, and what changed; as it was if it is not JSON.
    #[pyo3(signature = (body, *, is_count))]
    fn body<'py>(
        &self,
        py: Python<'py>,
        body: Bound<'py, PyAny>,
        is_count: bool,
    ) -> PyResult<(Bound<'py, PyBytes>, Numbers)> {
        let body = bytes(&body)?;
        let text = body.as_bytes();
        let (scaled, numbers) =
            guard(|| Ok(detached(py, text.len(), || self.scaled(text, is_count))))?;
        let scaled = scaled.map(|scaled| PyBytes::new(py, &scaled));
        Ok((scaled.unwrap_or(body), numbers))
    }

    /// A stream whose usage is scaled.
    #[pyo3(signature = (first_input_tokens = None))]
    fn stream(&self, first_input_tokens: Option<u64>) -> PyRewriter {
        let stream = Rewriter::new(self.0.clone(), first_input_tokens);
        PyRewriter(Box::new(Mutex::new(stream)))
    }
}

impl PyScale {
    fn scaled(&self, body: &[u8], is_count: bool) -> (Option<Vec<u8>>, Numbers) {
        let text = readable(body);
        let Ok(document) = Document::parse(&text, &Limits::default()) else {
            return (None, Vec::new());
        };
        let changes = match is_count {
            true => count_changes(document.root(), &self.0),
            false => response_changes(document.root(), &self.0, &mut InputSoFar::default()),
        };
        (Some(spliced(body, &changes)), numbers(&changes))
    }
}

/// Boxed: the searcher of a rewriter has vectors of 32 bytes, and Python's allocator aligns to 16.
#[pyclass(name = "Rewriter", module = "tokenctx._core", frozen)]
pub(super) struct PyRewriter(Box<Mutex<Rewriter>>);

#[pymethods]
impl PyRewriter {
    /// The bytes that can be sent after `chunk` has come; the same object if that is all of it unchanged.
    fn push<'py>(
        &self,
        py: Python<'py>,
        chunk: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let chunk = bytes(&chunk)?;
        let given = chunk.as_bytes();
        let sent = guard(|| {
            Ok(detached(py, given.len(), || {
                self.with(|stream| stream.push(given))
            }))
        })?;
        Ok(match sent {
            Cow::Borrowed(sent) if sent.len() == given.len() => chunk,
            sent => PyBytes::new(py, &sent),
        })
    }

    /// The rest at the end.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let left = guard(|| Ok(self.with(Rewriter::finish)))?;
        Ok(PyBytes::new(py, &left))
    }

    /// The numbers of the first and of the last event with usage.
    fn numbers(&self) -> (Numbers, Numbers) {
        self.with(|stream| (numbers(stream.first()), numbers(stream.last())))
    }

    /// Events that passed because they were too long.
    #[getter]
    fn long_event_count(&self) -> u64 {
        self.with(|stream| stream.long_event_count())
    }
}

impl PyRewriter {
    /// Never waits attached for a thread that is detached: the lock is held within `work` alone.
    fn with<T>(&self, work: impl FnOnce(&mut Rewriter) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
