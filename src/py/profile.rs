//! Profiles by name and by model.
use super::errors::guard;
use super::models;
use super::object::{Name, with_text};
use super::request;
use crate::profile::table::{ProfileError, Table};
use crate::request::Dialect;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::borrow::Cow;

impl From<ProfileError> for PyErr {
    fn from(error: ProfileError) -> PyErr {
        match error.is_type {
            true => PyTypeError::new_err(error.to_string()),
            false => PyValueError::new_err(error.to_string()),
        }
    }
}

/// The table of the package, with `rows` over it.
pub(super) fn table(rows: Option<&str>) -> PyResult<Cow<'static, Table>> {
    let bundled = Table::bundled();
    let with_rows = rows.map(|rows| bundled.with_rows(rows)).transpose()?;
    Ok(with_rows.map_or(Cow::Borrowed(bundled), Cow::Owned))
}

#[pyfunction]
#[pyo3(signature = (rows=None))]
pub(super) fn profiles(rows: Option<&str>) -> PyResult<String> {
    guard(|| Ok(table(rows)?.to_json()))
}

#[pyfunction]
#[pyo3(signature = (model, dialect, provider=None, rows=None))]
pub(super) fn profile_of_model(
    model: &Bound<'_, PyString>,
    dialect: &str,
    provider: Option<Name>,
    rows: Option<&str>,
) -> PyResult<(String, bool)> {
    let dialect = request::dialect(Some(dialect))?.unwrap_or(Dialect::OpenAiChat);
    guard(|| {
        let table = table(rows)?;
        with_text(model, |model, _| {
            let resolved = table.resolve(model, dialect, provider.as_ref().map(|it| it.0.as_str()));
            (resolved.profile.name.clone(), resolved.is_known_model)
        })
    })
}

#[pyfunction]
pub(super) fn model_name(model: &Bound<'_, PyString>) -> PyResult<String> {
    guard(|| with_text(model, |model, _| Table::bundled().model_name(model).own))
}

/// Takes over newer tables, by name, as JSON: all or none.
#[pyfunction]
pub(super) fn replace_tables(tables: std::collections::BTreeMap<String, String>) -> PyResult<()> {
    guard(|| {
        let tables: Vec<_> = tables
            .iter()
            .map(|(name, text)| (&**name, &**text))
            .collect();
        crate::engine::replace_tables(&tables).map_err(PyValueError::new_err)
    })
}

/// The limits of `model`, as an estimate without profiles of the user has them.
#[pyfunction]
pub(super) fn limits_of_model<'py>(
    py: Python<'py>,
    model: &Bound<'py, PyString>,
) -> PyResult<Bound<'py, PyAny>> {
    let resolve = |model: &str| {
        Table::bundled()
            .resolve(model, Dialect::OpenAiChat, None)
            .limits
    };
    let limits = guard(|| with_text(model, |model, _| resolve(model)))?;
    models::model_limits(py, &limits)
}
