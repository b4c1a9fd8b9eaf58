//! Estimates, records, counts.
use super::call::{CallContext, Usage};
use super::capacity::Capacity;
use super::document::{Body, Interpreter};
use super::errors::guard;
use super::models;
use super::profile::table;
use super::results::{CachePoints, CachedPrefix, DriftRow, PartCounts, Recorded, Wanted};
use super::vocabulary::vocabularies;
use crate::Error;
use crate::engine::learn::Learner;
use crate::engine::{self, Answer, Engine, Method, Settings, WantedParts};
use crate::known::digest::Digest;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

#[pyclass(name = "Engine", module = "tokenctx._core", frozen)]
pub(super) struct PyEngine(pub(super) Engine);

#[pymethods]
impl PyEngine {
    #[new]
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (secret, capacity_bytes, ttl_seconds, method, milli_characters_per_token, milli_by_provider, factor_permille, named_vocabularies, profile_rows=None, *, is_learning))]
    fn new(
        secret: &[u8],
        capacity_bytes: Capacity,
        ttl_seconds: f64,
        method: &str,
        milli_characters_per_token: u64,
        milli_by_provider: std::collections::BTreeMap<String, u64>,
        factor_permille: u64,
        named_vocabularies: Vec<(String, Bound<'_, PyAny>)>,
        profile_rows: Option<&str>,
        is_learning: bool,
    ) -> PyResult<PyEngine> {
        let method = match method {
            "profile" => Method::Profile,
            "universal" => Method::Universal,
            "characters" => Method::Characters {
                milli_characters_per_token,
                milli_by_provider: milli_by_provider.into_iter().collect(),
                factor_permille,
            },
            _ => {
                return Err(PyValueError::new_err(format!(
                    "method is {method:?}; it must be one of profile, universal, characters"
                )));
            }
        };
        let settings = Settings {
            method,
            vocabularies: vocabularies(named_vocabularies)?,
            is_learning,
            table: guard(|| table(profile_rows))?,
            capacity_bytes: capacity_bytes.0,
            body_prefixes_bytes: capacity_bytes.0 / 8,
            shapes_bytes: capacity_bytes.0 / 8,
            ttl_seconds,
        };
        Ok(PyEngine(Engine::new(secret, settings)))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn clear(&self) {
        self.0.clear();
    }

    /// The estimate, with the points of the cache if the call wants them; or, if others may know more than this
    /// process, the question for them, with at most `wanted` prefixes.
    #[pyo3(signature = (body, call, now_seconds, wanted=0))]
    fn estimate<'py>(
        &self,
        py: Python<'py>,
        body: Body<'py>,
        call: &CallContext,
        now_seconds: f64,
        wanted: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        body.check_type()?;
        let call = call.at(now_seconds, 0);
        let answer = guard(|| {
            body.with(|body| Ok(self.0.estimate(body, &call, wanted, &Interpreter(py))?))
        })?;
        match answer {
            Answer::Estimate(mut estimate) => {
                let points = estimate.cache_points.take();
                let estimate = models::estimate(py, estimate)?;
                match points {
                    Some(points) => {
                        (estimate, CachePoints::new(py, *points)?).into_bound_py_any(py)
                    }
                    None => Ok(estimate),
                }
            }
            Answer::Wanted(wanted) => Wanted::new(py, wanted).into_bound_py_any(py),
        }
    }

    /// The estimate before this call, and more; `None` if it was not recorded.
    #[allow(clippy::too_many_arguments)]
    fn record<'py>(
        &self,
        py: Python<'py>,
        body: Body<'py>,
        call: &CallContext,
        usage: Usage,
        reply: Option<Body<'py>>,
        now_seconds: f64,
        unix_seconds: u64,
    ) -> PyResult<Option<Recorded>> {
        let (call, billed) = (call.at(now_seconds, unix_seconds), usage.billed());
        let host = Interpreter(py);
        let record = guard(|| {
            body.with(|body| {
                let record = |reply: Option<&engine::Body<'_>>| match self
                    .0
                    .record(body, billed, reply, &call, &host)
                {
                    Err(Error::NoMessages { .. }) => Ok(None),
                    done => Ok(done?),
                };
                let Some(reply) = &reply else {
                    return record(None);
                };
                match reply.with(|reply| Ok(record(Some(reply)))) {
                    Ok(record) => record,
                    Err(error) if !error.is_instance_of::<PyException>(py) => Err(error),
                    Err(_) => record(Some(&engine::Body::Bytes(b""))), // which is no JSON either
                }
            })
        })?;
        record.map(|it| Recorded::new(py, it)).transpose()
    }

    /// Bytes of `body` beyond a recorded one that it may begin with.
    fn new_byte_count(&self, body: &[u8], call: &CallContext) -> usize {
        self.0
            .new_byte_count::<Interpreter<'_>>(body, call.tenant())
    }

    /// Counts a call that was not recorded, or not in whole; `False` if there is no number of this name.
    fn note(&self, reason: &str) -> bool {
        self.0.note(reason)
    }

    /// Takes over a total that another process has sealed for `digest`; `False` if it has not.
    fn insert(
        &self,
        digest: [u8; 16],
        sealed: &[u8],
        call: &CallContext,
        now_seconds: f64,
        unix_seconds: u64,
    ) -> bool {
        let (tenant, digest) = (call.tenant(), Digest(digest));
        self.0
            .insert(tenant, digest, sealed, now_seconds, unix_seconds)
    }

    /// Takes over the corrections of a model that another process has sealed for `name`; `False` if it has not.
    fn insert_learned(&self, name: [u8; 16], sealed: &[u8]) -> bool {
        self.0.insert_learned(Digest(name), sealed)
    }

    /// A cached prefix for other processes.
    fn seal_cached<'py>(
        &self,
        py: Python<'py>,
        digest: [u8; 16],
        tokens: u64,
        tail_tokens: u64,
        lifetime_seconds: u64,
        used_seconds: u64,
    ) -> Bound<'py, PyBytes> {
        let cached = engine::CachedPrefix {
            tokens,
            tail_tokens,
            lifetime_seconds,
            used_seconds,
        };
        PyBytes::new(py, &self.0.seal_cached(Digest(digest), cached))
    }

    /// The cached prefix that another process has sealed for `digest`.
    fn open_cached(&self, digest: [u8; 16], sealed: &[u8]) -> Option<CachedPrefix> {
        let cached = self.0.open_cached(Digest(digest), sealed);
        cached.map(CachedPrefix::from)
    }

    /// Names and numbers: answers by source, those for which only the new part was read, recorded calls,
    /// and all that is kept.
    fn stats(&self) -> Vec<(&'static str, u64)> {
        self.0.statistics().0.to_vec()
    }

    /// The known prefixes, for an engine of the same secret.
    fn export_known<'py>(&self, py: Python<'py>, now_seconds: f64) -> Bound<'py, PyBytes> {
        let bytes = py.detach(|| self.0.export::<Interpreter<'_>>(now_seconds));
        PyBytes::new(py, &bytes)
    }

    /// Number of prefixes that were not known before.
    fn import_known(&self, py: Python<'_>, data: &[u8], now_seconds: f64) -> PyResult<usize> {
        let count = py.detach(|| self.0.import::<Interpreter<'_>>(data, now_seconds));
        count.map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// The corrections of each model.
    fn learned(&self) -> Vec<(String, LearnedRow)> {
        let row = |(model, learner): (String, Learner)| {
            let (calls, wins, numbers) = learner.export();
            let row = LearnedRow {
                calls,
                wins,
                numbers,
            };
            (model, row)
        };
        self.0.learned().into_iter().map(row).collect()
    }

    /// The last change in how it counts of each provider that has shown one.
    fn drifts(&self) -> Vec<DriftRow> {
        self.0.drifts().into_iter().map(DriftRow::from).collect()
    }

    /// Sets the corrections of a model; `False` if the numbers cannot be such.
    fn set_learned(&self, model: String, calls: u32, wins: i32, numbers: Vec<f64>) -> bool {
        let learner = Learner::import(calls, wins, &numbers);
        learner
            .map(|learner| self.0.set_learned(model, learner))
            .is_some()
    }

    /// Scope, and tokens of each stratum, that the bounds of an estimate are made from; for tests.
    fn uncertain<'py>(
        &self,
        py: Python<'py>,
        body: Body<'py>,
        call: &CallContext,
    ) -> PyResult<(&'static str, Vec<(&'static str, u64)>)> {
        let (call, host) = (call.at(0.0, 0), Interpreter(py));
        let answer = guard(|| body.with(|body| Ok(self.0.estimate(body, &call, 0, &host)?)))?;
        match answer {
            Answer::Estimate(estimate) => {
                let uncertain = estimate.uncertain;
                Ok((uncertain.scope(), uncertain.parts().collect()))
            }
            Answer::Wanted(_) => unreachable!("no prefix is wanted"),
        }
    }

    fn count<'py>(
        &self,
        py: Python<'py>,
        body: Body<'py>,
        call: &CallContext,
    ) -> PyResult<Bound<'py, PyAny>> {
        body.check_type()?;
        let (call, host) = (call.at(0.0, 0), Interpreter(py));
        let count = guard(|| body.with(|body| Ok(self.0.count(body, &call, &host)?)))?;
        models::request_count(py, count)
    }

    /// The count and the estimate, by one reading.
    fn count_and_estimate<'py>(
        &self,
        py: Python<'py>,
        body: Body<'py>,
        call: &CallContext,
        now_seconds: f64,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        body.check_type()?;
        let (call, host) = (call.at(now_seconds, 0), Interpreter(py));
        let both = guard(|| body.with(|body| Ok(self.0.count_and_estimate(body, &call, &host)?)));
        let (count, estimate) = both?;
        Ok((
            models::request_count(py, count)?,
            models::estimate(py, estimate)?,
        ))
    }

    /// The estimate; if it has `least_tokens`, also the tokens of all around the messages and of those of the system.
    fn estimate_and_fixed<'py>(
        &self,
        py: Python<'py>,
        body: Body<'py>,
        call: &CallContext,
        now_seconds: f64,
        least_tokens: u64,
    ) -> PyResult<(Bound<'py, PyAny>, Option<u64>)> {
        body.check_type()?;
        let (call, host) = (call.at(now_seconds, 0), Interpreter(py));
        let work = |body: &engine::Body<'_>| {
            Ok(self
                .0
                .estimate_and_fixed(body, &call, least_tokens, &host)?)
        };
        let (estimate, fixed) = guard(|| body.with(work))?;
        Ok((models::estimate(py, estimate)?, fixed))
    }

    /// The count, the estimate if it is wanted, and the parts, by one reading.
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (body, call, now_seconds, *, wants_estimate, wants_categories, placeholder=None))]
    fn count_parts<'py>(
        &self,
        py: Python<'py>,
        body: Body<'py>,
        call: &CallContext,
        now_seconds: f64,
        wants_estimate: bool,
        wants_categories: bool,
        placeholder: Option<&str>,
    ) -> PyResult<(Bound<'py, PyAny>, Option<Bound<'py, PyAny>>, PartCounts)> {
        body.check_type()?;
        let (call, host) = (call.at(now_seconds, 0), Interpreter(py));
        let wanted = WantedParts {
            estimate: wants_estimate,
            categories: wants_categories,
            placeholder,
        };
        let all = guard(|| body.with(|body| Ok(self.0.count_parts(body, &call, wanted, &host)?)));
        let (count, estimate, parts) = all?;
        let estimate = estimate.map(|it| models::estimate(py, it)).transpose()?;
        let count = models::request_count(py, count)?;
        Ok((count, estimate, PartCounts::new(py, parts)?))
    }
}

/// The corrections of a model: calls, wins, and the numbers of corrections and covariance.
#[derive(IntoPyObject)]
struct LearnedRow {
    calls: u32,
    wins: i32,
    numbers: Vec<f64>,
}

/// Whole numbers in the proportions of `weights` that sum to `total`, by largest remainder.
#[pyfunction(name = "_apportioned")]
pub(super) fn apportioned(total: u64, weights: Vec<u64>) -> Vec<u64> {
    engine::apportioned(total, &weights)
}
