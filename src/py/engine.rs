//! Estimates, records, counts.
use super::capacity::Capacity;
use super::document::{Body, Interpreter};
use super::errors::guard;
use super::models;
use super::object::Name;
use super::profile::table;
use super::request;
use super::vocabulary::vocabularies;
use crate::engine::{
    self, About, Answer, Billed, CachePoints, CachedPrefix, Call, CountedParts, Drift, Engine,
    Estimate, Method, Record, ReplyFault, RequestCount, Settings, Wanted, WantedParts, learn,
};
use crate::known::digest::Digest;
use learn::Learner;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

#[pyclass(name = "Engine", module = "tokenctx._core", frozen)]
pub(super) struct PyEngine(pub(super) Engine);

/// Root, prefix and sealed total of what was recorded.
type Entry<'py> = (
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
);

/// The estimate before a record, why its reply was not used, what was recorded, the change of the provider
/// that it shows, and what a provider may have cached of it.
type Event<'py> = Bound<'py, PyTuple>;

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

    /// The estimate; or, if others may know more than this process, a list of one tuple: the root of the
    /// conversation, at most `wanted` prefixes to ask them for, points of the cache, and by what they may
    /// have learned of the model.
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (body, model, dialect, provider, tenant, now_seconds, wanted=0, *, wants_cache_points=false))]
    fn estimate<'py>(
        &self,
        py: Python<'py>,
        body: Body<'py>,
        model: Option<Name>,
        dialect: Option<&str>,
        provider: Option<Name>,
        tenant: Option<&[u8]>,
        now_seconds: f64,
        wanted: usize,
        wants_cache_points: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let call = Call {
            tenant,
            model: text(&model),
            dialect: request::dialect(dialect)?,
            provider: text(&provider),
            now_seconds,
            unix_seconds: 0,
            wants_cache_points,
            ..Call::default()
        };
        let answer = guard(|| {
            body.with(|body| Ok(self.0.estimate(body, &call, wanted, &Interpreter(py))?))
        })?;
        match answer {
            Answer::Estimate(mut estimate) => {
                let points = estimate.cache_points.take();
                let estimate = self::estimate(py, estimate)?;
                match points {
                    Some(points) => (estimate, cache_points(py, &points)?).into_bound_py_any(py),
                    None => Ok(estimate),
                }
            }
            Answer::Wanted(wanted) => {
                let bytes = |digest: Digest| PyBytes::new(py, &digest.0);
                let all = |digests: Vec<Digest>| digests.into_iter().map(bytes).collect::<Vec<_>>();
                let Wanted {
                    root,
                    prefixes,
                    points,
                    learned,
                } = wanted;
                let wanted = (bytes(root), all(prefixes), all(points), learned.map(bytes));
                Ok(PyList::new(py, [wanted])?.into_any())
            }
        }
    }

    /// The estimate before this call, and more; `None` if it was not recorded.
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (body, model, dialect, provider, tenant, input_tokens, output_tokens, reasoning_tokens, reply, now_seconds, unix_seconds, *, wants_cache_points=false, wants_entries=false))]
    fn record<'py>(
        &self,
        py: Python<'py>,
        body: Body<'py>,
        model: Option<Name>,
        dialect: Option<&str>,
        provider: Option<Name>,
        tenant: Option<&[u8]>,
        input_tokens: u64,
        output_tokens: u64,
        reasoning_tokens: u64,
        reply: Option<Body<'py>>,
        now_seconds: f64,
        unix_seconds: u64,
        wants_cache_points: bool,
        wants_entries: bool,
    ) -> PyResult<Option<Event<'py>>> {
        let call = Call {
            tenant,
            model: text(&model),
            dialect: request::dialect(dialect)?,
            provider: text(&provider),
            now_seconds,
            unix_seconds,
            wants_cache_points,
            wants_entries,
        };
        let billed = Billed {
            input_tokens,
            output_tokens,
            reasoning_tokens,
        };
        let host = Interpreter(py);
        let record = guard(|| {
            body.with(|body| {
                let record = |reply: Option<&engine::Body<'_>>| {
                    Ok(self.0.record(body, billed, reply, &call, &host)?)
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
        record.map(|record| event(py, record)).transpose()
    }

    /// Bytes of `body` beyond a recorded one that it may begin with.
    fn new_byte_count(&self, body: &[u8], tenant: Option<&[u8]>) -> usize {
        self.0.new_byte_count::<Interpreter<'_>>(body, tenant)
    }

    /// Counts what was not recorded, or without what; `False` if there is no number of this name.
    fn note(&self, reason: &str) -> bool {
        self.0.note(reason)
    }

    /// Takes over what another process has sealed for `digest`; `False` if it has not.
    fn insert(
        &self,
        digest: [u8; 16],
        sealed: &[u8],
        tenant: Option<&[u8]>,
        now_seconds: f64,
        unix_seconds: u64,
    ) -> bool {
        let digest = Digest(digest);
        self.0
            .insert(tenant, digest, sealed, now_seconds, unix_seconds)
    }

    /// Takes over what another process has learned of a model, sealed for `name`; `False` if it has not.
    fn insert_learned(&self, name: [u8; 16], sealed: &[u8]) -> bool {
        self.0.insert_learned(Digest(name), sealed)
    }

    /// What is known of a cached prefix, for other processes.
    fn seal_cached<'py>(
        &self,
        py: Python<'py>,
        digest: [u8; 16],
        tokens: u64,
        tail_tokens: u64,
        lifetime_seconds: u64,
        used_seconds: u64,
    ) -> Bound<'py, PyBytes> {
        let cached = CachedPrefix {
            tokens,
            tail_tokens,
            lifetime_seconds,
            used_seconds,
        };
        PyBytes::new(py, &self.0.seal_cached(Digest(digest), cached))
    }

    /// Tokens, tokens behind them, lifetime and time of the last use of what another process has sealed.
    fn open_cached(&self, digest: [u8; 16], sealed: &[u8]) -> Option<(u64, u64, u64, u64)> {
        let cached = self.0.open_cached(Digest(digest), sealed)?;
        let CachedPrefix {
            tokens,
            tail_tokens,
            lifetime_seconds,
            used_seconds,
        } = cached;
        Some((tokens, tail_tokens, lifetime_seconds, used_seconds))
    }

    /// Names and numbers: answers by source, those that read only what was new, recorded calls,
    /// and what is kept.
    fn stats(&self) -> Vec<(&'static str, u64)> {
        self.0.statistics().0.to_vec()
    }

    /// What is known, for an engine of the same secret.
    fn export_known<'py>(&self, py: Python<'py>, now_seconds: f64) -> Bound<'py, PyBytes> {
        let bytes = py.detach(|| self.0.export::<Interpreter<'_>>(now_seconds));
        PyBytes::new(py, &bytes)
    }

    /// Number of prefixes that were not known before.
    fn import_known(&self, py: Python<'_>, data: &[u8], now_seconds: f64) -> PyResult<usize> {
        let count = py.detach(|| self.0.import::<Interpreter<'_>>(data, now_seconds));
        count.map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Calls, wins, corrections and covariance by model.
    fn learned(&self) -> Vec<(String, u32, i32, Vec<f64>)> {
        let row = |(model, learner): (String, Learner)| {
            let (calls, wins, numbers) = learner.export();
            (model, calls, wins, numbers)
        };
        self.0.learned().into_iter().map(row).collect()
    }

    /// The last change in how it counts of each provider that has shown one.
    fn drifts(&self) -> Vec<Told> {
        self.0.drifts().into_iter().map(drift).collect()
    }

    /// Sets what was learned about a model; `False` if the numbers cannot be such.
    fn set_learned(&self, model: String, calls: u32, wins: i32, numbers: Vec<f64>) -> bool {
        let learner = Learner::import(calls, wins, &numbers);
        learner
            .map(|learner| self.0.set_learned(model, learner))
            .is_some()
    }

    /// Scope, and tokens of each stratum, that the bounds of an estimate are made from.
    #[allow(clippy::too_many_arguments)]
    fn uncertain<'py>(
        &self,
        py: Python<'py>,
        body: Body<'py>,
        model: Option<Name>,
        dialect: Option<&str>,
        provider: Option<Name>,
        tenant: Option<&[u8]>,
        now_seconds: f64,
    ) -> PyResult<(&'static str, Vec<(&'static str, u64)>)> {
        let call = Call {
            tenant,
            model: text(&model),
            dialect: request::dialect(dialect)?,
            provider: text(&provider),
            now_seconds,
            ..Call::default()
        };
        let host = Interpreter(py);
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
        model: Option<Name>,
        dialect: Option<&str>,
        provider: Option<Name>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let call = Call {
            model: text(&model),
            dialect: request::dialect(dialect)?,
            provider: text(&provider),
            ..Call::default()
        };
        let count = guard(|| body.with(|body| Ok(self.0.count(body, &call, &Interpreter(py))?)))?;
        request_count(py, count)
    }

    /// The count and the estimate, by one reading.
    #[allow(clippy::too_many_arguments)]
    fn count_and_estimate<'py>(
        &self,
        py: Python<'py>,
        body: Body<'py>,
        model: Option<Name>,
        dialect: Option<&str>,
        provider: Option<Name>,
        tenant: Option<&[u8]>,
        now_seconds: f64,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let call = Call {
            tenant,
            model: text(&model),
            dialect: request::dialect(dialect)?,
            provider: text(&provider),
            now_seconds,
            ..Call::default()
        };
        let host = Interpreter(py);
        let both = guard(|| body.with(|body| Ok(self.0.count_and_estimate(body, &call, &host)?)));
        let (count, estimate) = both?;
        Ok((request_count(py, count)?, self::estimate(py, estimate)?))
    }

    /// The count, the estimate if it is wanted, and the parts, by one reading.
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (body, model, dialect, provider, tenant, now_seconds, *, wants_estimate, wants_categories, placeholder=None))]
    fn count_parts<'py>(
        &self,
        py: Python<'py>,
        body: Body<'py>,
        model: Option<Name>,
        dialect: Option<&str>,
        provider: Option<Name>,
        tenant: Option<&[u8]>,
        now_seconds: f64,
        wants_estimate: bool,
        wants_categories: bool,
        placeholder: Option<&str>,
    ) -> PyResult<Parts<'py>> {
        let call = Call {
            tenant,
            model: text(&model),
            dialect: request::dialect(dialect)?,
            provider: text(&provider),
            now_seconds,
            ..Call::default()
        };
        let wanted = WantedParts {
            estimate: wants_estimate,
            categories: wants_categories,
            placeholder,
        };
        let host = Interpreter(py);
        let all = guard(|| body.with(|body| Ok(self.0.count_parts(body, &call, wanted, &host)?)));
        let (count, estimate, parts) = all?;
        let estimate = estimate.map(|it| self::estimate(py, it)).transpose()?;
        Ok((
            request_count(py, count)?,
            estimate,
            counted_parts(py, parts)?,
        ))
    }
}

/// The count, the estimate, and the fields of `PartCounts`.
type Parts<'py> = (
    Bound<'py, PyAny>,
    Option<Bound<'py, PyAny>>,
    Bound<'py, PyTuple>,
);

fn counted_parts(py: Python<'_>, parts: CountedParts) -> PyResult<Bound<'_, PyTuple>> {
    let flags = |flags: Vec<bool>| {
        let flags: Vec<u8> = flags.into_iter().map(u8::from).collect();
        PyBytes::new(py, &flags)
    };
    let results = parts.results.into_iter();
    let results = results.map(|it| (it.message, it.part, it.tool, it.tokens, it.saved_tokens));
    let head = parts.head.map(|head| {
        let tools = head.tools.into_iter();
        let tools = tools.map(|it| (it.name, it.tokens, it.server, it.is_deferred));
        let tools: Vec<_> = tools.collect();
        (
            head.system_tokens,
            head.tools_tokens,
            head.framing_tokens,
            tools,
        )
    });
    let fields = (
        models::numbers(py, &parts.message_tokens)?,
        flags(parts.is_system),
        flags(parts.is_turn),
        flags(parts.is_safe),
        parts.categories,
        results.collect::<Vec<_>>(),
        head,
    );
    fields.into_pyobject(py)
}

/// Whole numbers in the proportions of `weights` that sum to `total`, by largest remainder.
#[pyfunction(name = "_apportioned")]
pub(super) fn apportioned(total: u64, weights: Vec<u64>) -> Vec<u64> {
    engine::apportioned(total, &weights)
}

fn request_count(py: Python<'_>, count: RequestCount) -> PyResult<Bound<'_, PyAny>> {
    let About {
        dialect,
        model,
        profile,
        ..
    } = count.about;
    let arguments = (
        count.tokens,
        count.context_tokens,
        models::numbers(py, &count.message_tokens)?,
        dialect.name(),
        model,
        profile,
        count.encoding,
        count.quality.name(),
        models::names(py, &count.assumptions)?,
    );
    models::request_count(py, arguments)
}

/// Profile, host, since when and when told in seconds since 1970, tokens, permille, and bills.
type Told = (String, String, u64, u64, i64, i64, u32);

fn drift(drift: Drift) -> Told {
    let times = (drift.since_unix_seconds, drift.told_unix_seconds);
    let size = (drift.tokens, drift.permille, drift.bills);
    (
        drift.profile,
        drift.host,
        times.0,
        times.1,
        size.0,
        size.1,
        size.2,
    )
}

pub(super) fn text(name: &Option<Name>) -> Option<&str> {
    name.as_ref().map(|name| name.0.as_str())
}

fn estimate(py: Python<'_>, estimate: Estimate) -> PyResult<Bound<'_, PyAny>> {
    let About {
        dialect,
        model,
        profile,
        limits,
        requested_output_tokens,
    } = estimate.about;
    let arguments = (
        estimate.tokens,
        estimate.source.name(),
        estimate.known_tokens,
        estimate.estimated_tokens,
        estimate.new_message_count,
        estimate.quality.name(),
        estimate.low,
        estimate.high,
        models::names(py, &estimate.assumptions)?,
        dialect.name(),
        model,
        profile,
    );
    models::estimate(py, arguments, &limits, requested_output_tokens)
}

fn cache_points<'py>(py: Python<'py>, points: &CachePoints) -> PyResult<Bound<'py, PyTuple>> {
    let all = points.points.iter();
    let all: Vec<_> = all
        .map(|it| (PyBytes::new(py, &it.digest.0), it.message_count, it.blocks))
        .collect();
    let marks = points.marks.iter();
    let marks: Vec<_> = marks
        .map(|(it, blocks)| (it.message_count, it.is_at_end, it.lifetime_seconds, *blocks))
        .collect();
    let fields = (
        all,
        marks,
        points.tokens_after_mark,
        points.context_tokens,
        &*points.model,
        &*points.vendor,
        &*points.provider,
        points.has_cached_content,
        points.retention_seconds,
        points.reply.map(|it| PyBytes::new(py, &it.0)),
    );
    fields.into_pyobject(py)
}

fn event(py: Python<'_>, mut record: Record) -> PyResult<Event<'_>> {
    let points = record.expected.cache_points.take();
    let points = points.map(|it| cache_points(py, &it)).transpose()?;
    let bytes = |bytes: &[u8]| PyBytes::new(py, bytes);
    let entries = record.entries.iter().map(|entry| {
        let (root, prefix) = (bytes(&entry.root.0), bytes(&entry.prefix.0));
        (root, prefix, bytes(&entry.sealed))
    });
    let entries: Vec<Entry<'_>> = entries.collect();
    let expected = estimate(py, record.expected)?;
    let fault = record.reply_fault.map(ReplyFault::name);
    let drift = record.drift.map(drift);
    match points {
        Some(points) => (expected, fault, entries, drift, points).into_pyobject(py),
        None => (expected, fault, entries, drift).into_pyobject(py),
    }
}
