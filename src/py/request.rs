//! Requests and replies as the core reads them; for tests.
use super::document::Body;
use super::errors::guard;
use super::object::Name;
use crate::request::{
    Dialect, converted_dialect, read_reply, read_request, reply_view, request_view,
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
