//! Text arguments: `str`, or bytes that are read as UTF-8, with U+FFFD for what is none.
use super::document::detached;
use super::object::{as_bytes, with_text};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use std::borrow::Cow;

fn no_text() -> PyErr {
    PyTypeError::new_err("text must be str or bytes")
}

/// What `work` makes of `text`, detached from the interpreter unless the text is short.
pub(super) fn on_text<T: Send>(
    text: &Bound<'_, PyAny>,
    work: impl FnOnce(&str) -> T + Send,
) -> PyResult<T> {
    let py = text.py();
    if let Some(bytes) = as_bytes(text)? {
        let bytes = bytes.as_bytes();
        return Ok(detached(py, bytes.len(), || {
            work(&String::from_utf8_lossy(bytes))
        }));
    }
    with_text(
        text.cast::<PyString>().map_err(|_| no_text())?,
        |text, _| detached(py, text.len(), || work(text)),
    )
}

/// [`on_text`] for work that needs the interpreter.
pub(super) fn attached<T>(
    text: &Bound<'_, PyAny>,
    work: impl FnOnce(&str) -> PyResult<T>,
) -> PyResult<T> {
    if let Some(bytes) = as_bytes(text)? {
        return work(&String::from_utf8_lossy(bytes.as_bytes()));
    }
    with_text(
        text.cast::<PyString>().map_err(|_| no_text())?,
        |text, _| work(text),
    )?
}

/// What `work` makes of each of `texts`, detached unless they are short all together.
pub(super) fn on_texts<T: Send>(
    texts: &Bound<'_, PyAny>,
    work: impl Fn(&str) -> T + Sync,
) -> PyResult<Vec<T>> {
    let held = items(texts)?.map(|text| Held::new(&text?));
    let held = held.collect::<PyResult<Vec<_>>>()?;
    let views = held.iter().map(Held::view).collect::<PyResult<Vec<_>>>()?;
    let byte_count = views.iter().map(View::byte_count).sum();
    Ok(detached(texts.py(), byte_count, || {
        views.iter().map(|view| work(&view.text())).collect()
    }))
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
    texts.try_iter()
}

/// A text of a batch, kept alive.
enum Held<'py> {
    Bytes(Bound<'py, PyBytes>),
    Text(Bound<'py, PyString>),
    /// Without lone surrogates.
    Mended(String),
}

impl<'py> Held<'py> {
    fn new(text: &Bound<'py, PyAny>) -> PyResult<Held<'py>> {
        if let Some(bytes) = as_bytes(text)? {
            return Ok(Held::Bytes(bytes));
        }
        let text = text.cast::<PyString>().map_err(|_| no_text())?;
        match text.to_str() {
            Ok(_) => Ok(Held::Text(text.clone())),
            Err(_) => with_text(text, |text, _| Held::Mended(text.to_owned())),
        }
    }

    fn view(&self) -> PyResult<View<'_>> {
        Ok(match self {
            Held::Bytes(bytes) => View::Bytes(bytes.as_bytes()),
            Held::Text(text) => View::Text(text.to_str()?),
            Held::Mended(text) => View::Text(text),
        })
    }
}

/// A text of a batch, for use without the interpreter.
enum View<'a> {
    Bytes(&'a [u8]),
    Text(&'a str),
}

impl View<'_> {
    fn byte_count(&self) -> usize {
        match self {
            View::Bytes(bytes) => bytes.len(),
            View::Text(text) => text.len(),
        }
    }

    fn text(&self) -> Cow<'_, str> {
        match self {
            View::Bytes(bytes) => String::from_utf8_lossy(bytes),
            View::Text(text) => Cow::Borrowed(text),
        }
    }
}
