//! JSON as Python's own module reads and writes it.
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};
use std::collections::HashSet;

/// So many values are looked at before those that hold others are remembered, because what holds
/// itself would not end.
const UNREMEMBERED: usize = 1 << 20;

/// Whether `value` is made of JSON values alone, and of no classes derived from theirs.
///
/// Linear in what it contains, and never recurses. The keys of dicts are not looked at.
#[pyfunction(name = "_is_json")]
pub(in crate::py) fn is_json(value: Bound<'_, PyAny>) -> bool {
    let mut pending = vec![value];
    let mut seen = HashSet::new();
    let mut looked_at = 0;
    while let Some(holder) = pending.pop() {
        if looked_at > UNREMEMBERED && !seen.insert(holder.as_ptr() as usize) {
            continue;
        }
        if let Ok(dict) = holder.cast_exact::<PyDict>() {
            looked_at += dict.len();
            pending.extend(dict.iter().map(|(_, item)| item).filter(is_no_scalar));
        } else if let Ok(list) = holder.cast_exact::<PyList>() {
            looked_at += list.len();
            pending.extend(list.iter().filter(is_no_scalar));
        } else if is_no_scalar(&holder) {
            return false;
        }
    }
    true
}

fn is_no_scalar(value: &Bound<'_, PyAny>) -> bool {
    !(value.is_exact_instance_of::<PyString>()
        || value.is_none()
        || value.is_exact_instance_of::<PyBool>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyFloat>())
}

/// The JSON value of `text`; None if it has white space around it. Raises what is no JSON.
pub(super) fn loads<'py>(text: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
    static DECODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = text.py();
    let decode = DECODE.get_or_try_init(py, || {
        let decoder = py.import("json")?.call_method0("JSONDecoder")?;
        decoder.getattr("raw_decode").map(Bound::unbind)
    })?;
    let (value, end): (Bound<'py, PyAny>, usize) = decode.bind(py).call1((text,))?.extract()?;
    Ok((end == text.len()?).then_some(value))
}

/// `value` as `tokenctx.convert.model.dumps` writes it.
pub(super) fn dumps<'py>(
    py: Python<'py>,
    value: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    static DUMPS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let dumps = DUMPS.get_or_try_init(py, || {
        let module = py.import(intern!(py, "tokenctx.convert.model"))?;
        module.getattr("dumps").map(Bound::unbind)
    })?;
    dumps.bind(py).call1((value,))
}
