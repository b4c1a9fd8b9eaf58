//! Counting text.
use super::errors::guard;
use super::object::{as_bytes, with_text};
use crate::bpe::Encoding;
use crate::claude::ClaudeFamily;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

fn encoding(name: &str) -> PyResult<Encoding> {
    Encoding::named(name).ok_or_else(|| match ClaudeFamily::named(name) {
        Some(_) => PyValueError::new_err(format!(
            "{name} counts tokens but has none to show; {}",
            known(bpe_names())
        )),
        None => unknown(name),
    })
}

fn unknown(name: &str) -> PyErr {
    let names = bpe_names().chain(ClaudeFamily::ALL.map(ClaudeFamily::name));
    PyValueError::new_err(format!("no encoding is called {name:?}; {}", known(names)))
}

fn known(names: impl Iterator<Item = &'static str>) -> String {
    format!("known are {}", names.collect::<Vec<_>>().join(", "))
}

fn bpe_names() -> impl Iterator<Item = &'static str> {
    Encoding::ALL.into_iter().map(Encoding::name)
}

/// What `work` makes of text, or of bytes read as UTF-8 with U+FFFD for what is none.
fn on_text<T: Send>(text: &Bound<'_, PyAny>, work: impl FnOnce(&str) -> T + Send) -> PyResult<T> {
    let py = text.py();
    if let Some(bytes) = as_bytes(text)? {
        let bytes = bytes.as_bytes();
        return Ok(super::document::detached(py, bytes.len(), || {
            work(&String::from_utf8_lossy(bytes))
        }));
    }
    let text = text
        .cast::<PyString>()
        .map_err(|_| PyTypeError::new_err("text must be str or bytes"))?;
    with_text(text, |text, _| {
        super::document::detached(py, text.len(), || work(text))
    })
}

/// Number of tokens of `text`; special-token spellings count as plain text.
///
/// Bytes are read as UTF-8. What is no UTF-8, and each lone surrogate of a str, counts as U+FFFD.
/// Linear in the text; above 2 KiB other threads run meanwhile. Raises ValueError for an unknown
/// encoding, TypeError for anything but text. Equal to tiktoken's `encode_ordinary` on every input.
///
/// A `claude_` name is a family of Claude's count model, a reconstruction that counts tokens but
/// knows none: what `text` adds to the frame of a message, `ctok.token_count` less the frame of 7
/// (claude_v3), 11 (claude_v4_7) or 6 tokens (claude_v4_8).
#[pyfunction]
#[pyo3(signature = (text, *, encoding = "o200k_base"))]
pub(super) fn count_tokens(text: &Bound<'_, PyAny>, encoding: &str) -> PyResult<u64> {
    if let Some(family) = ClaudeFamily::named(encoding) {
        return guard(|| on_text(text, |text| family.count(text)));
    }
    let encoding = Encoding::named(encoding).ok_or_else(|| unknown(encoding))?;
    guard(|| on_text(text, |text| encoding.count(text)))
}

/// Tokens of `text`, for looking at; see `count_tokens`, which is faster.
#[pyfunction]
#[pyo3(signature = (text, *, encoding = "o200k_base"))]
pub(super) fn encode(text: &Bound<'_, PyAny>, encoding: &str) -> PyResult<Vec<u32>> {
    let encoding = self::encoding(encoding)?;
    guard(|| on_text(text, |text| encoding.encode(text)))
}

/// The vocabulary as a `.tiktoken` file: base64 of a token, a space, its rank, line by line.
#[pyfunction]
pub(super) fn rank_file<'py>(py: Python<'py>, encoding: &str) -> PyResult<Bound<'py, PyBytes>> {
    let encoding = self::encoding(encoding)?;
    guard(|| Ok(PyBytes::new(py, &encoding.rank_file())))
}
