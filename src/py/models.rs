//! The result types of `tokenctx._results.estimates`, made from the core's.
use crate::engine::{Estimate, RequestCount};
use crate::profile::ModelLimits;
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

/// `Estimate` of the core's, but for its points of the cache.
pub(super) fn estimate(py: Python<'_>, estimate: Estimate) -> PyResult<Bound<'_, PyAny>> {
    static MAKER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let maker = MAKER.get_or_try_init(py, || {
        let kind = py
            .import("tokenctx._results.estimates")?
            .getattr("Estimate")?;
        let maker = py.import("tokenctx._results.result")?.getattr("maker")?;
        maker.call1((kind,)).map(Bound::unbind)
    })?;
    let about = estimate.about;
    let fields = (
        estimate.tokens,
        estimate.source.name(),
        estimate.known_tokens,
        estimate.estimated_tokens,
        estimate.new_message_count,
        estimate.quality.name(),
        estimate.low,
        estimate.high,
        PyTuple::new(py, &estimate.assumptions)?,
        about.dialect.name(),
        about.model,
        about.profile,
    );
    let limits = model_limits(py, &about.limits)?;
    let output = about.requested_output_tokens;
    // Only tuples of up to twelve can be made at once.
    let fields = fields.into_pyobject(py)?;
    let last = match about.price_words.is_empty() {
        true => (limits, output).into_pyobject(py)?,
        false => {
            let words = PyTuple::new(py, about.price_words)?;
            (limits, output, py.None(), words).into_pyobject(py)?
        }
    };
    let all = fields.as_sequence().concat(last.as_sequence())?;
    maker.bind(py).call1(all.to_tuple()?)
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

/// `RequestCount` of the core's.
pub(super) fn request_count(py: Python<'_>, count: RequestCount) -> PyResult<Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let fields = (
        count.tokens,
        count.context_tokens,
        PyTuple::new(py, &count.message_tokens)?,
        count.about.dialect.name(),
        count.about.model,
        count.about.profile,
        count.encoding,
        count.quality.name(),
        PyTuple::new(py, &count.assumptions)?,
    );
    class(py, &CLASS, "RequestCount")?.call1(fields)
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
