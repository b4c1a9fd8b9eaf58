//! Estimates, records, counts.
use super::document::Body;
use super::errors::guard;
use super::models;
use super::vocabulary::{interruptible, vocabularies};
use crate::engine::estimate::{Estimate, Source};
use crate::engine::learn::Learner;
use crate::engine::{Billed, Engine, Method, Reading, Reply, Settings};
use crate::json::{Document, Limits};
use crate::known::digest::Digest;
use crate::known::sealed::Entry;
use crate::known::tenant::Tenant;
use crate::known::{Boundary, PrefixStore};
use crate::profile::table::Table;
use crate::request::{Dialect, read_reply, read_request};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::atomic::{AtomicU64, Ordering};

/// The dialect of this name; `None` to detect it.
fn dialect(name: Option<&str>) -> PyResult<Option<Dialect>> {
    let Some(name) = name else {
        return Ok(None);
    };
    Dialect::named(name).map(Some).ok_or_else(|| {
        let known: Vec<_> = Dialect::ALL.iter().map(|dialect| dialect.name()).collect();
        let known = known.join(", ");
        PyValueError::new_err(format!("dialect is {name:?}; it must be one of {known}"))
    })
}

/// What the body says beside the numbers.
struct About {
    dialect: &'static str,
    model: String,
    profile: String,
    context_window_tokens: Option<u64>,
}

impl About {
    fn new(reading: &Reading<'_>) -> About {
        About {
            dialect: reading.request.dialect.name(),
            model: reading.request.model.clone().into_owned(),
            profile: reading.profile.name.clone(),
            context_window_tokens: reading.profile.context_window_tokens,
        }
    }
}

#[pyclass(name = "Engine", module = "tokenctx._core", frozen)]
pub(super) struct PyEngine(Engine, Counters);

/// An estimate, or the root and the prefixes to ask others for.
enum Answer {
    Estimate((Estimate, About)),
    Wanted(Digest, Vec<Digest>),
}

/// Root, prefix and sealed total of what was recorded.
type Recorded<'py> = (
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
);

/// Tokens, source and profile of the estimate before a record, and what was recorded.
type Event<'py> = (u64, &'static str, String, Vec<Recorded<'py>>);

/// What an engine was asked for.
#[derive(Default)]
struct Counters {
    exact: AtomicU64,
    delta: AtomicU64,
    estimated: AtomicU64,
    resumed: AtomicU64,
    recorded: AtomicU64,
}

impl Counters {
    fn of(&self, source: Source) -> &AtomicU64 {
        match source {
            Source::Exact => &self.exact,
            Source::Delta => &self.delta,
            Source::Estimated => &self.estimated,
        }
    }
}

#[pymethods]
impl PyEngine {
    #[new]
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (secret, capacity_bytes, ttl_seconds, method, milli_characters_per_token, milli_by_provider, factor_permille, named_vocabularies, profile_rows=None, *, is_learning))]
    fn new(
        secret: &[u8],
        capacity_bytes: usize,
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
        let store = PrefixStore::new(capacity_bytes, ttl_seconds);
        let settings = Settings {
            method,
            vocabularies: vocabularies(named_vocabularies)?,
            is_learning,
            table: guard(|| {
                let table = profile_rows.map(|rows| Table::bundled().with_rows(rows));
                Ok(table.transpose()?)
            })?,
            starts_bytes: capacity_bytes / 8,
            shapes_bytes: capacity_bytes / 8,
            ttl_seconds,
        };
        let engine = Engine::new(secret, settings, store);
        Ok(PyEngine(engine, Counters::default()))
    }

    fn __len__(&self) -> usize {
        self.0.store().len()
    }

    fn clear(&self) {
        self.0.clear();
    }

    /// The estimate; or, if others may know more than this process, at most `wanted` prefixes to
    /// ask them for, behind the root of their conversation.
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (body, model, dialect, provider, tenant, now_seconds, wanted=0))]
    fn estimate<'py>(
        &self,
        py: Python<'py>,
        body: Body<'py>,
        model: Option<&str>,
        dialect: Option<&str>,
        provider: Option<&str>,
        tenant: Option<&[u8]>,
        now_seconds: f64,
        wanted: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let dialect = self::dialect(dialect)?;
        let tenant = self.0.tenant(tenant);
        let answer = interruptible(|| {
            if let Some(found) = self.short(
                py,
                &body,
                model,
                dialect,
                provider,
                &tenant,
                now_seconds,
                wanted,
            ) {
                return Ok(Answer::Estimate(found));
            }
            body.read(py, &Limits::default(), |document| {
                let request = read_request(document, model, dialect);
                let reading = self.0.read(request, provider, tenant.clone());
                // The store is locked only while attached, so that no fork can copy it locked.
                let known = Python::attach(|_| self.0.known(&reading, now_seconds));
                match self.0.wanted(&reading, &known, wanted) {
                    Some((root, digests)) => Answer::Wanted(root, digests),
                    None => {
                        Answer::Estimate((self.0.answer(&reading, &known), About::new(&reading)))
                    }
                }
            })
        })?;
        let (estimate, about) = match answer {
            Answer::Estimate(found) => found,
            Answer::Wanted(root, digests) => {
                let all = std::iter::once(root).chain(digests);
                let all: Vec<_> = all.map(|digest| PyBytes::new(py, &digest.0)).collect();
                return all.into_bound_py_any(py);
            }
        };
        self.1.of(estimate.source).fetch_add(1, Ordering::Relaxed);
        let arguments = (
            estimate.tokens,
            estimate.source.name(),
            estimate.known_tokens,
            estimate.estimated_tokens,
            estimate.new_message_count,
            estimate.quality,
            estimate.low,
            estimate.high,
            models::names(py, &estimate.assumptions)?,
            about.dialect,
            about.model,
            about.profile,
        );
        models::estimate(py, arguments, about.context_window_tokens)
    }

    /// Tokens, source and profile of the estimate before this call; `None` if it was not recorded.
    #[allow(clippy::too_many_arguments)]
    fn record<'py>(
        &self,
        py: Python<'py>,
        body: Body<'py>,
        model: Option<&str>,
        dialect: Option<&str>,
        provider: Option<&str>,
        tenant: Option<&[u8]>,
        input_tokens: u64,
        output_tokens: u64,
        reasoning_tokens: u64,
        reply: Option<Body<'py>>,
        now_seconds: f64,
        unix_seconds: u64,
    ) -> PyResult<Option<Event<'py>>> {
        let dialect = self::dialect(dialect)?;
        let limits = Limits::default();
        let billed = Billed {
            input_tokens,
            output_tokens,
            reasoning_tokens,
        };
        let bytes = body.as_bytes();
        let tenant = self.0.tenant(tenant);
        let (root, recorded, start, expected) = guard(|| {
            let reply = match reply {
                Some(reply) => reply.read(py, &limits, |document| {
                    self.0.read_reply(&tenant, &read_reply(document))
                })?,
                None => Reply::default(),
            };
            body.read(py, &limits, |document| {
                let request = read_request(document, model, dialect);
                let reading = self.0.read(request, provider, tenant.clone());
                let known = Python::attach(|_| self.0.known_uncounted(&reading, now_seconds));
                let expected = self.0.answer(&reading, &known);
                let known = Python::attach(|_| self.0.known_before(&reading, now_seconds));
                let start = bytes.and_then(|bytes| self.0.start(bytes, &reading));
                let recorded = self.0.recorded(&reading, &known, billed, &reply);
                Python::attach(|_| self.0.record(&reading, &recorded.boundaries, now_seconds));
                let profile = reading.profile.name.clone();
                let expected = (expected.tokens, expected.source.name(), profile);
                (reading.root(), recorded, start, expected)
            })
        })?;
        let is_known = !recorded.boundaries.is_empty();
        if let (Some(bytes), Some(start), true) = (bytes, start, is_known) {
            self.0.record_start(&tenant, bytes, start);
        }
        if is_known {
            self.1.recorded.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(shape) = recorded.shape {
            self.0.record_shape(shape, now_seconds);
        }
        if let Some(lesson) = recorded.lesson {
            self.0.with_learners(|learners| learners.learn(&lesson));
        }
        let sealed = |boundary: &Boundary| {
            let entry = Entry {
                total: boundary.total,
                recorded_seconds: unix_seconds,
            };
            let value = self.0.sealer().seal(boundary.digest, &entry);
            let bytes = |bytes: &[u8]| PyBytes::new(py, bytes);
            (bytes(&root.0), bytes(&boundary.digest.0), bytes(&value))
        };
        let (tokens, source, profile) = expected;
        let entries = recorded.boundaries.iter().map(sealed).collect();
        Ok(is_known.then_some((tokens, source, profile, entries)))
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
        let tenant = self.0.tenant(tenant);
        let digest = Digest(digest);
        self.0
            .insert(&tenant, digest, sealed, now_seconds, unix_seconds)
    }

    /// Names and numbers: answers by source, those that read only what was new, recorded calls,
    /// and what is kept.
    fn stats(&self) -> Vec<(&'static str, u64)> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let store = self.0.store().stats();
        vec![
            ("exact", count(&self.1.exact)),
            ("delta", count(&self.1.delta)),
            ("estimated", count(&self.1.estimated)),
            ("resumed", count(&self.1.resumed)),
            ("recorded", count(&self.1.recorded)),
            (
                "known_shapes",
                self.0.with_shapes(|shapes| shapes.len()) as u64,
            ),
            (
                "learned_models",
                self.0.with_learners(|it| it.iter().count()) as u64,
            ),
            ("known_prefixes", store.entries as u64),
            ("used_bytes", store.used_bytes as u64),
            ("capacity_bytes", store.capacity_bytes as u64),
            ("lookup_hits", store.hits),
            ("lookup_misses", store.misses),
            ("superseded", store.superseded),
            ("evicted", store.evicted),
            ("expired", store.expired),
        ]
    }

    /// What is known, for an engine of the same secret.
    fn export_known<'py>(&self, py: Python<'py>, now_seconds: f64) -> Bound<'py, PyBytes> {
        let locked = |step: &mut dyn FnMut()| Python::attach(|_| step());
        let bytes = py.detach(|| self.0.export(now_seconds, locked));
        PyBytes::new(py, &bytes)
    }

    /// Number of prefixes that were not known before.
    fn import_known(&self, py: Python<'_>, data: &[u8], now_seconds: f64) -> PyResult<usize> {
        let locked = |step: &mut dyn FnMut()| Python::attach(|_| step());
        let count = py.detach(|| self.0.import(data, now_seconds, locked));
        count.map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Lead, corrections and covariance by model.
    fn learned(&self) -> Vec<(String, i32, Vec<f64>)> {
        let row = |(model, learner): (&str, &Learner)| {
            let (lead, numbers) = learner.export();
            (model.to_owned(), lead, numbers)
        };
        self.0
            .with_learners(|learners| learners.iter().map(row).collect())
    }

    /// Sets what was learned about a model; `False` if the numbers cannot be such.
    fn set_learned(&self, model: String, lead: i32, numbers: Vec<f64>) -> bool {
        match Learner::import(lead, &numbers) {
            Some(learner) => {
                self.0
                    .with_learners(|learners| learners.set(model, learner));
                true
            }
            None => false,
        }
    }

    fn count<'py>(
        &self,
        py: Python<'py>,
        body: Body<'py>,
        model: Option<&str>,
        dialect: Option<&str>,
        provider: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let dialect = self::dialect(dialect)?;
        let (count, about) = interruptible(|| {
            body.read(py, &Limits::default(), |document| {
                let request = read_request(document, model, dialect);
                let reading = self.0.read(request, provider, self.0.tenant(None));
                (self.0.count(&reading), About::new(&reading))
            })
        })?;
        let arguments = (
            count.tokens,
            count.context_tokens,
            models::numbers(py, &count.message_tokens)?,
            about.dialect,
            about.model,
            about.profile,
            count.encoding,
            count.quality,
            models::names(py, &count.assumptions)?,
        );
        models::request_count(py, arguments)
    }
}

impl PyEngine {
    /// The estimate for a body that begins as a recorded one; `None` if it must be read in whole.
    #[allow(clippy::too_many_arguments)]
    fn short(
        &self,
        py: Python<'_>,
        body: &Body<'_>,
        model: Option<&str>,
        dialect: Option<Dialect>,
        provider: Option<&str>,
        tenant: &Tenant,
        now_seconds: f64,
        wanted: usize,
    ) -> Option<(Estimate, About)> {
        let limits = Limits::default();
        let is_allowed = |bytes: &&[u8]| bytes.len() <= limits.max_bytes;
        let bytes = body.as_bytes().filter(is_allowed)?;
        let starts = self.0.starts(tenant, bytes);
        if starts.is_empty() {
            return None;
        }
        py.detach(|| {
            starts.iter().find_map(|start| {
                let short = self.0.short(tenant, start, bytes)?;
                let document = Document::from_bytes(&short, &limits).ok()?;
                let request = read_request(&document, model, dialect);
                let reading = self
                    .0
                    .read_short(request, provider, tenant.clone(), start)?;
                let known = Python::attach(|_| self.0.known(&reading, now_seconds));
                known.prefix.filter(|_| known.near.is_empty())?;
                if self.0.wanted(&reading, &known, wanted).is_some() {
                    return None;
                }
                self.1.resumed.fetch_add(1, Ordering::Relaxed);
                Some((self.0.answer(&reading, &known), About::new(&reading)))
            })
        })
    }
}
