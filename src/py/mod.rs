//! The Python binding: the only place that knows pyo3.
mod document;
mod errors;
mod object;
mod request;

use pyo3::prelude::*;

/// The extension module `tokenctx._core`.
#[pymodule]
mod _core {
    use super::*;

    #[pymodule_export]
    use document::{json_anomalies, json_canonical, json_compact};
    #[pymodule_export]
    use errors::panic;
    #[pymodule_export]
    use request::{view_reply, view_request};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
