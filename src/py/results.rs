//! The results of an engine as Python gets them: values with named fields. `Estimate` and `RequestCount` are those
//! of `tokenctx._results.estimates`.
use super::models;
use crate::engine::{self, CountedParts, Doubt, Record, ReplyFault};
use crate::known::digest::Digest;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

/// Root, prefix and sealed total of a call that was recorded.
type Entry = (Py<PyBytes>, Py<PyBytes>, Py<PyBytes>);

/// A recorded call.
#[pyclass(frozen, get_all, module = "tokenctx._core")]
pub(super) struct Recorded {
    estimate: Py<PyAny>,
    reply_fault: Option<&'static str>,
    entries: Vec<Entry>,
    drift: Option<Py<DriftRow>>,
    cache_points: Option<Py<CachePoints>>,
    doubt: Option<&'static str>,
    is_refused: bool,
}

/// The question for others, who may know more than this process.
#[pyclass(frozen, get_all, module = "tokenctx._core")]
pub(super) struct Wanted {
    root: Py<PyBytes>,
    prefixes: Vec<Py<PyBytes>>,
    points: Vec<Py<PyBytes>>,
    learned: Option<Py<PyBytes>>,
}

/// The places in a request where the provider may have cached it.
#[pyclass(frozen, get_all, module = "tokenctx._core")]
pub(super) struct CachePoints {
    points: Py<Points>,
    marks: Py<PyTuple>,
    tokens_after_mark: u64,
    contexts: Vec<(Py<PyBytes>, u64)>,
    model: String,
    vendor: String,
    provider: String,
    has_cached_content: bool,
    retention_seconds: Option<u32>,
    reply: Option<Py<PyBytes>>,
}

/// Digest, messages and blocks before each point; made when they are asked for, since few are.
#[pyclass(frozen, sequence, module = "tokenctx._core")]
pub(super) struct Points(Vec<engine::CachePoint>);

#[pymethods]
impl Points {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __getitem__(&self, py: Python<'_>, index: isize) -> PyResult<(Py<PyBytes>, usize, u64)> {
        let origin = if index < 0 { self.0.len() } else { 0 };
        let place = origin.checked_add_signed(index);
        let point = place.and_then(|it| self.0.get(it));
        let point = point.ok_or_else(|| PyIndexError::new_err(index))?;
        Ok((
            bytes(py, &point.digest.0),
            point.message_count,
            point.blocks,
        ))
    }
}

/// A request counted part by part.
#[pyclass(frozen, get_all, module = "tokenctx._core")]
pub(super) struct PartCounts {
    message_tokens: Py<PyTuple>,
    is_system: Py<PyBytes>,
    is_turn: Py<PyBytes>,
    is_safe: Py<PyBytes>,
    categories: Vec<(&'static str, u64)>,
    results: Vec<Py<ResultCount>>,
    head: Option<Py<HeadCount>>,
}

/// A frozen class with the fields of a value of the core, from which it is made.
macro_rules! fields_of {
    ($core:path => $(#[$doc:meta])* $name:ident { $($field:ident: $kind:ty),* }) => {
        $(#[$doc])*
        #[pyclass(frozen, get_all, module = "tokenctx._core")]
        pub(super) struct $name {
            $($field: $kind),*
        }

        impl From<$core> for $name {
            fn from(value: $core) -> $name {
                $name { $($field: value.$field),* }
            }
        }
    };
}

fields_of! {
    engine::Drift =>
    /// A change in how a provider counts.
    DriftRow {
        profile: String,
        host: String,
        since_unix_seconds: u64,
        told_unix_seconds: u64,
        tokens: i64,
        permille: i64,
        bills: u32
    }
}

fields_of! {
    engine::CachedPrefix =>
    /// A prefix that a provider has cached, from another process.
    CachedPrefix { tokens: u64, tail_tokens: u64, lifetime_seconds: u64, used_seconds: u64 }
}

fields_of! {
    engine::ResultTokens =>
    /// A result of a tool.
    ResultCount { message: usize, part: usize, tool: String, tokens: u64, saved_tokens: u64 }
}

fields_of! {
    engine::ToolTokens =>
    /// A definition of a tool.
    ToolCount { name: String, tokens: u64, server: String, is_deferred: bool }
}

/// A place up to which a request asks to be cached.
#[pyclass(frozen, get_all, module = "tokenctx._core")]
pub(super) struct CacheMark {
    message_count: usize,
    block_count: usize,
    is_at_end: bool,
    is_in_tools: bool,
    lifetime_seconds: Option<u32>,
    blocks: u64,
}

/// The parts of a request around the messages.
#[pyclass(frozen, get_all, module = "tokenctx._core")]
pub(super) struct HeadCount {
    system: u64,
    tools: u64,
    framing: u64,
    items: Vec<Py<ToolCount>>,
}

fn bytes(py: Python<'_>, bytes: &[u8]) -> Py<PyBytes> {
    PyBytes::new(py, bytes).unbind()
}

impl Recorded {
    pub(super) fn new(py: Python<'_>, mut record: Record) -> PyResult<Recorded> {
        let points = record.expected.cache_points.take();
        let points = points.map(|it| Py::new(py, CachePoints::new(py, *it)?));
        let entries = record.entries.iter().map(|entry| {
            let (root, prefix) = (bytes(py, &entry.root.0), bytes(py, &entry.prefix.0));
            (root, prefix, bytes(py, &entry.sealed))
        });
        let drift = record.drift.map(|it| Py::new(py, DriftRow::from(it)));
        Ok(Recorded {
            reply_fault: record.reply_fault.map(ReplyFault::name),
            entries: entries.collect(),
            drift: drift.transpose()?,
            cache_points: points.transpose()?,
            doubt: record.doubt.map(Doubt::name),
            is_refused: record.doubt.is_some_and(Doubt::is_refusal),
            estimate: models::estimate(py, record.expected)?.unbind(),
        })
    }
}

impl Wanted {
    pub(super) fn new(py: Python<'_>, wanted: engine::Wanted) -> Wanted {
        let all = |digests: Vec<Digest>| digests.iter().map(|it| bytes(py, &it.0)).collect();
        Wanted {
            root: bytes(py, &wanted.root.0),
            prefixes: all(wanted.prefixes),
            points: all(wanted.points),
            learned: wanted.learned.map(|it| bytes(py, &it.0)),
        }
    }
}

impl CachePoints {
    pub(super) fn new(py: Python<'_>, points: engine::CachePoints) -> PyResult<CachePoints> {
        let marks = points.marks.into_iter().map(|(mark, blocks)| CacheMark {
            message_count: mark.message_count,
            block_count: match mark.is_in_tools {
                true => mark.pieces.0,
                false => mark.block_count,
            },
            is_at_end: mark.is_at_end,
            is_in_tools: mark.is_in_tools,
            lifetime_seconds: mark.lifetime_seconds,
            blocks,
        });
        let contexts = points.contexts.iter();
        let contexts = contexts.map(|(digest, tokens)| (bytes(py, &digest.0), *tokens));
        Ok(CachePoints {
            points: Py::new(py, Points(points.points))?,
            marks: PyTuple::new(py, marks.collect::<Vec<_>>())?.unbind(),
            tokens_after_mark: points.tokens_after_mark,
            contexts: contexts.collect(),
            model: points.model,
            vendor: points.vendor,
            provider: points.provider,
            has_cached_content: points.has_cached_content,
            retention_seconds: points.retention_seconds,
            reply: points.reply.map(|it| bytes(py, &it.0)),
        })
    }
}

impl PartCounts {
    pub(super) fn new(py: Python<'_>, parts: CountedParts) -> PyResult<PartCounts> {
        let flags = |flags: &[bool]| {
            let flags: Vec<u8> = flags.iter().copied().map(u8::from).collect();
            bytes(py, &flags)
        };
        let results = parts.results.into_iter();
        let results = results.map(|it| Py::new(py, ResultCount::from(it)));
        let head = |head: engine::Head| {
            let items = head.tools.into_iter();
            let items = items.map(|it| Py::new(py, ToolCount::from(it)));
            let head = HeadCount {
                system: head.system_tokens,
                tools: head.tools_tokens,
                framing: head.framing_tokens,
                items: items.collect::<PyResult<_>>()?,
            };
            Py::new(py, head)
        };
        Ok(PartCounts {
            message_tokens: PyTuple::new(py, &parts.message_tokens)?.unbind(),
            is_system: flags(&parts.is_system),
            is_turn: flags(&parts.is_turn),
            is_safe: flags(&parts.is_safe),
            categories: parts.categories,
            results: results.collect::<PyResult<_>>()?,
            head: parts.head.map(head).transpose()?,
        })
    }
}
