//! Lines of requests, many by one call: the counts as the JSON lines that `tokenctx count --json` prints.
use super::call::CallContext;
use super::document::Attaching;
use super::engine::PyEngine;
use super::errors::guard;
use super::object::Name;
use crate::engine;
use pyo3::prelude::*;

/// The counts of some lines.
#[pyclass(frozen, get_all, module = "tokenctx._core")]
pub(super) struct CountedLines {
    text: String,
    /// Numbers of the lines that cannot be read, and the reasons.
    faults: Vec<(usize, Py<PyAny>)>,
    /// The byte at which the first line begins that was not counted, and its number.
    start: usize,
    number: usize,
    /// True if that line is left to the caller.
    is_left: bool,
}

/// Counts the lines of `content` from the byte `start` on, the first of which has the number `number`.
#[pyfunction(name = "_count_lines")]
#[allow(clippy::too_many_arguments)]
pub(super) fn count_lines(
    py: Python<'_>,
    engine: &PyEngine,
    call: &CallContext,
    content: &[u8],
    start: usize,
    number: usize,
    name: Name,
    now_seconds: f64,
) -> PyResult<CountedLines> {
    let call = call.at(now_seconds, 0);
    let both = |body: &engine::Body<'_>| engine.0.count_and_estimate(body, &call, &Attaching);
    let count = || engine::CountedLines::new(content, &name.0, (start, number), both);
    let lines = guard(|| Ok(py.detach(count)))?;
    let fault = |error| PyErr::from(error).into_value(py).into_any();
    let faults = lines.faults.into_iter();
    Ok(CountedLines {
        text: lines.text,
        faults: faults
            .map(|(number, error)| (number, fault(error)))
            .collect(),
        start: lines.start,
        number: lines.number,
        is_left: lines.is_left,
    })
}
