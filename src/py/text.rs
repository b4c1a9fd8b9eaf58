//! Text arguments: `str`, or bytes that are read as UTF-8, with U+FFFD for what is none.
use super::document::detached;
use super::errors::interruptible;
use super::object::{as_bytes, with_text};
use crate::interrupt::Steps;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use std::borrow::Cow;

fn no_text(value: &Bound<'_, PyAny>) -> PyErr {
    let class = value.get_type().name();
    let class = class.map_or_else(|_| "unknown".to_owned(), |it| it.to_string());
    PyTypeError::new_err(format!(
        "text must be str or bytes, and this is of type {class}; messages and requests are counted by \
         HybridTokenEstimator().estimate(body)"
    ))
}

/// The result of `work` on `text`, detached from the interpreter unless the text is short.
pub(super) fn on_text<T: Send>(
    text: &Bound<'_, PyAny>,
    work: impl FnOnce(&str) -> T + Send,
) -> PyResult<T> {
    let py = text.py();
    if let Ok(text) = text.cast::<PyString>() {
        return with_text(text, |text, _| run(py, text.len(), || work(text)));
    }
    let bytes = as_bytes(text)?.ok_or_else(|| no_text(text))?;
    let bytes = bytes.as_bytes();
    Ok(run(py, bytes.len(), || {
        work(&String::from_utf8_lossy(bytes))
    }))
}

/// [`on_text`] for work that needs the interpreter.
pub(super) fn attached<T>(
    text: &Bound<'_, PyAny>,
    work: impl FnOnce(&str) -> PyResult<T>,
) -> PyResult<T> {
    if let Ok(text) = text.cast::<PyString>() {
        return with_text(text, |text, _| work(text))?;
    }
    let bytes = as_bytes(text)?.ok_or_else(|| no_text(text))?;
    work(&String::from_utf8_lossy(bytes.as_bytes()))
}

/// The results of `work` on each of `texts`, detached unless they are short all together.
pub(super) fn on_texts<T: Send>(
    texts: &Bound<'_, PyAny>,
    work: impl Fn(&str) -> T + Sync,
) -> PyResult<Vec<T>> {
    let held = items(texts)?.collect::<PyResult<Vec<_>>>()?;
    let views = held.iter().map(View::new).collect::<PyResult<Vec<_>>>()?;
    let byte_count = views.iter().map(View::byte_count).sum();
    Ok(run(texts.py(), byte_count, || {
        let mut steps = Steps::default();
        let read = |view: &View<'_>| {
            steps.step(); // a long text polls by itself
            view.read(&work)
        };
        views.iter().map(read).collect()
    }))
}

/// Runs `work` on `byte_count` bytes of text in a [`guard`](super::errors::guard): detached unless they are few,
/// until a signal ends it.
fn run<T: Send>(py: Python<'_>, byte_count: usize, work: impl FnOnce() -> T + Send) -> T {
    interruptible(py, byte_count, || detached(py, byte_count, work))
}

/// The items of a batch; a text is none.
pub(super) fn items<'py>(
    texts: &Bound<'py, PyAny>,
) -> PyResult<impl Iterator<Item = PyResult<Bound<'py, PyAny>>>> {
    if texts.is_instance_of::<PyString>() || as_bytes(texts)?.is_some() {
        return Err(PyTypeError::new_err(
            "texts is one text; it must be a list of str or bytes",
        ));
    }
    let py = texts.py();
    let checked = move |(number, item): (usize, PyResult<_>)| match number % 256 {
        0 => py.check_signals().and(item),
        _ => item,
    };
    Ok(texts.try_iter()?.enumerate().map(checked))
}

/// A text of a batch, for use without the interpreter.
enum View<'a> {
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
}

impl<'a> View<'a> {
    fn new(text: &'a Bound<'_, PyAny>) -> PyResult<View<'a>> {
        if let Ok(text) = text.cast::<PyString>() {
            return match text.to_str() {
                Ok(text) => Ok(View::Text(text.into())),
                Err(_) => with_text(text, |text, _| View::Text(text.to_owned().into())),
            };
        }
        if let Ok(bytes) = text.cast::<PyBytes>() {
            return Ok(View::Bytes(bytes.as_bytes().into()));
        }
        let bytes = as_bytes(text)?.ok_or_else(|| no_text(text))?;
        Ok(View::Bytes(bytes.as_bytes().to_owned().into()))
    }

    fn byte_count(&self) -> usize {
        match self {
            View::Text(text) => text.len(),
            View::Bytes(bytes) => bytes.len(),
        }
    }

    fn read<T>(&self, work: impl Fn(&str) -> T) -> T {
        match self {
            View::Text(text) => work(text),
            View::Bytes(bytes) => work(&String::from_utf8_lossy(bytes)),
        }
    }
}
