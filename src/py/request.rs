//! Requests and replies as the core reads them, for tests; the outline, for who changes messages.
use super::document::Body;
use super::errors::guard;
use super::object::Name;
use crate::request::{
    Dialect, Outline, OutlinePart, converted_dialect, read_reply, read_request, reply_view,
    request_view,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The dialect of this name; `None` to detect it.
pub(super) fn dialect(name: Option<&str>) -> PyResult<Option<Dialect>> {
    let Some(name) = name else {
        return Ok(None);
    };
    Dialect::named(name).map(Some).ok_or_else(|| {
        let known = Dialect::ALL.map(Dialect::name).join(", ");
        PyValueError::new_err(format!("dialect is {name:?}; it must be one of {known}"))
    })
}

/// The neutral request in `body` as JSON text; for tests.
#[pyfunction(name = "_request_view", signature = (body, *, model=None, dialect=None))]
pub(super) fn view_request(
    py: Python<'_>,
    body: Body<'_>,
    model: Option<Name>,
    dialect: Option<&str>,
) -> PyResult<String> {
    let dialect = self::dialect(dialect)?;
    guard(|| {
        body.read(py, |document| {
            let model = model.as_ref().map(|it| it.0.as_str());
            let request = read_request(document, model, dialect)?;
            Ok(request_view(&request))
        })
    })
}

/// The messages of the reply in `body` as JSON text; for tests.
#[pyfunction(name = "_reply_view")]
pub(super) fn view_reply(py: Python<'_>, body: Body<'_>) -> PyResult<String> {
    guard(|| body.read(py, |document| Ok(reply_view(&read_reply(document)?))))
}

/// The dialect that `body` is converted from, and whether another is as likely.
#[pyfunction(name = "_converted_dialect")]
pub(super) fn dialect_of_body(py: Python<'_>, body: Body<'_>) -> PyResult<(&'static str, bool)> {
    guard(|| body.read(py, |document| Ok(converted_dialect(document))))
}

/// A part of a message: what it is, the id of its call, its tool, and its place in the message's content.
type PartRow = (&'static str, Option<String>, String, Option<usize>);

/// Who says each message of `body`, and its parts.
#[pyfunction(name = "_outline")]
pub(super) fn outline_of_body(
    py: Python<'_>,
    body: Body<'_>,
) -> PyResult<Vec<(&'static str, Vec<PartRow>)>> {
    let row = |part: &OutlinePart<'_>| {
        let call_id = part.call_id.map(str::to_owned);
        (part.kind.name(), call_id, part.tool.to_owned(), part.place)
    };
    guard(|| {
        body.read(py, |document| {
            let outline = Outline::read(document);
            let messages = outline.messages.iter();
            Ok(messages
                .map(|it| (it.speaker.name(), it.parts.iter().map(row).collect()))
                .collect())
        })
    })
}

/// The characters of each text of `body`, with those in the fields `around` its messages, and the number of files.
#[pyfunction(name = "_text_lengths")]
pub(super) fn text_lengths(
    py: Python<'_>,
    body: Body<'_>,
    around: Vec<String>,
) -> PyResult<(Vec<usize>, usize)> {
    guard(|| {
        body.read(py, |document| {
            Ok(Outline::read(document).text_lengths(&around))
        })
    })
}
