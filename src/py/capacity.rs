//! The argument `capacity_bytes`.
use crate::known::MAX_CAPACITY_BYTES;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;

/// Memory that the caller allows, as the core takes it.
pub(super) struct Capacity(pub(super) usize);

impl<'py> FromPyObject<'_, 'py> for Capacity {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Capacity> {
        let limits = format!("it must be an integer from 0 to {MAX_CAPACITY_BYTES} (1 TiB)");
        let refused = || {
            let text = value.repr().map(|it| it.to_string()).unwrap_or_default();
            PyValueError::new_err(format!("capacity_bytes is {text}; {limits}"))
        };
        match value.extract::<usize>() {
            Ok(bytes) if bytes <= MAX_CAPACITY_BYTES => Ok(Capacity(bytes)),
            Ok(_) => Err(refused()),
            Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => Err(refused()),
            Err(_) => {
                let kind = value.get_type().name()?;
                let text = format!("capacity_bytes is of type {kind}; {limits}");
                Err(PyTypeError::new_err(text))
            }
        }
    }
}
