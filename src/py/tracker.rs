//! Known conversations by model family.
use super::capacity::Capacity;
use super::document::Body;
use super::errors::guard;
use super::models;
use super::object::Name;
use crate::known::PrefixStore;
use crate::known::digest::Digest;
use crate::known::tracker::{Conversation, Tracker};
use crate::request::read_request;
use pyo3::prelude::*;

#[pyclass(name = "Tracker", module = "tokenctx._core", frozen)]
pub(super) struct PyTracker(Tracker);

impl PyTracker {
    fn read(&self, py: Python<'_>, messages: &Body<'_>, family: &str) -> PyResult<Conversation> {
        guard(|| {
            messages.read(py, |document| {
                let request = read_request(document, Some(""), None)?;
                Ok(self.0.read(family, &request))
            })
        })
    }
}

#[pymethods]
impl PyTracker {
    #[new]
    fn new(secret: &[u8], capacity_bytes: Capacity, ttl_seconds: f64) -> PyTracker {
        PyTracker(Tracker::new(
            secret,
            PrefixStore::new(capacity_bytes.0, ttl_seconds),
        ))
    }

    fn __len__(&self) -> usize {
        self.0.store().len()
    }

    fn clear(&self) {
        self.0.store().clear();
    }

    fn record_actual<'py>(
        &self,
        py: Python<'py>,
        messages: Body<'py>,
        model_family: Name,
        actual_tokens: u64,
        timestamp: f64,
        now_seconds: f64,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let conversation = self.read(py, &messages, &model_family.0)?;
        if !self.0.record(&conversation, actual_tokens, now_seconds) {
            return Ok(None);
        }
        let hashes = conversation.messages.iter().map(hex).collect();
        models::known_conversation_state(py, hashes, actual_tokens, &model_family.0, timestamp)
            .map(Some)
    }

    fn lookup<'py>(
        &self,
        py: Python<'py>,
        messages: Body<'py>,
        model_family: Name,
        now_seconds: f64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let conversation = self.read(py, &messages, &model_family.0)?;
        let Some(known) = self.0.lookup(&conversation, now_seconds) else {
            return models::conversation_lookup_result(py, "none", None, Vec::new());
        };
        let new: Vec<_> = (known.message_count..conversation.messages.len()).collect();
        let kind = if new.is_empty() { "exact" } else { "prefix" };
        models::conversation_lookup_result(py, kind, Some(known.total.tokens), new)
    }
}

fn hex(digest: &Digest) -> String {
    digest.0.iter().map(|byte| format!("{byte:02x}")).collect()
}
