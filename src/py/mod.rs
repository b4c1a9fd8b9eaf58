//! The Python binding: the only place that knows pyo3.
use pyo3::prelude::*;

/// The extension module `tokenctx._core`.
#[pymodule]
mod _core {
    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("_debug_build", cfg!(debug_assertions))
    }
}
