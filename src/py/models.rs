//! The result types of `tokenctx._results.estimates`, made from the core's.
use crate::profile::ModelLimits;
use crate::request::Assumptions;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};

fn class<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyType>>,
    name: &str,
) -> PyResult<&'py Bound<'py, PyType>> {
    cell.import(py, "tokenctx._results.estimates", name)
}

/// A tuple of names.
pub(super) fn names<'py>(py: Python<'py>, names: &Assumptions) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, names)
}

/// A tuple of numbers.
pub(super) fn numbers<'py>(py: Python<'py>, numbers: &[u64]) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, numbers)
}

/// `Estimate` of its first twelve fields, the limits of the model and the output that is asked for.
pub(super) fn estimate<'py>(
    py: Python<'py>,
    fields: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
    limits: &ModelLimits,
    requested_output_tokens: Option<u64>,
) -> PyResult<Bound<'py, PyAny>> {
    static MAKER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let maker = MAKER.get_or_try_init(py, || {
        let kind = py
            .import("tokenctx._results.estimates")?
            .getattr("Estimate")?;
        let maker = py.import("tokenctx._results.result")?.getattr("maker")?;
        maker.call1((kind,)).map(Bound::unbind)
    })?;
    let fields = fields.into_pyobject(py)?;
    let last = (model_limits(py, limits)?, requested_output_tokens).into_pyobject(py)?;
    let all = fields
        .as_sequence()
        .concat(last.as_sequence())?
        .to_tuple()?;
    maker.bind(py).call1(all)
}

/// `ModelLimits` of these numbers; equal ones are the same object.
pub(super) fn model_limits<'py>(
    py: Python<'py>,
    limits: &ModelLimits,
) -> PyResult<Bound<'py, PyAny>> {
    static MAKER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let maker = MAKER.get_or_try_init(py, || {
        let module = py.import("tokenctx._results.estimates")?;
        module.getattr("limits_of").map(Bound::unbind)
    })?;
    maker.bind(py).call1((
        limits.window_tokens,
        limits.max_input_tokens,
        limits.max_output_tokens,
        &*limits.source,
        limits.is_doubtful,
    ))
}

/// `RequestCount` of its fields.
pub(super) fn request_count<'py>(
    py: Python<'py>,
    fields: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    class(py, &CLASS, "RequestCount")?.call1(fields.into_pyobject(py)?)
}

/// `KnownConversationState` of its fields.
pub(super) fn known_conversation_state<'py>(
    py: Python<'py>,
    message_hashes: Vec<String>,
    actual_tokens: u64,
    model_family: &str,
    timestamp: f64,
) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let hashes = PyTuple::new(py, message_hashes)?;
    let fields = (hashes, actual_tokens, model_family, timestamp);
    class(py, &CLASS, "KnownConversationState")?.call1(fields)
}

/// `ConversationLookupResult` of its fields.
pub(super) fn conversation_lookup_result<'py>(
    py: Python<'py>,
    kind: &str,
    known_tokens: Option<u64>,
    new_message_indices: Vec<usize>,
) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let indices = PyTuple::new(py, new_message_indices)?;
    class(py, &CLASS, "ConversationLookupResult")?.call1((kind, known_tokens, indices))
}
