//! Who calls an engine, and for what.
use super::object::Name;
use super::request;
use crate::engine::{Billed, Call};
use crate::request::Dialect;
use pyo3::prelude::*;

/// All that is known of a call beside its body and the time: made once, and passed on by value.
#[pyclass(frozen, module = "tokenctx._core")]
pub(super) struct CallContext {
    model: Option<Name>,
    dialect: Option<Dialect>,
    provider: Option<Name>,
    tenant: Option<Vec<u8>>,
    wants_cache_points: bool,
    wants_entries: bool,
}

#[pymethods]
impl CallContext {
    #[new]
    #[pyo3(signature = (model=None, dialect=None, provider=None, tenant=None, *, wants_cache_points=false, wants_entries=false))]
    fn new(
        model: Option<Name>,
        dialect: Option<&str>,
        provider: Option<Name>,
        tenant: Option<&[u8]>,
        wants_cache_points: bool,
        wants_entries: bool,
    ) -> PyResult<CallContext> {
        Ok(CallContext {
            model,
            dialect: request::dialect(dialect)?,
            provider,
            tenant: tenant.map(<[u8]>::to_vec),
            wants_cache_points,
            wants_entries,
        })
    }

    #[getter]
    fn dialect(&self) -> Option<&'static str> {
        self.dialect.map(Dialect::name)
    }

    #[getter]
    fn provider(&self) -> Option<&str> {
        self.provider.as_ref().map(|it| &*it.0)
    }
}

impl CallContext {
    /// The call at these times, as the core takes it.
    pub(super) fn at(&self, now_seconds: f64, unix_seconds: u64) -> Call<'_> {
        Call {
            tenant: self.tenant(),
            model: self.model.as_ref().map(|it| &*it.0),
            dialect: self.dialect,
            provider: self.provider(),
            now_seconds,
            unix_seconds,
            wants_cache_points: self.wants_cache_points,
            wants_entries: self.wants_entries,
        }
    }

    pub(super) fn tenant(&self) -> Option<&[u8]> {
        self.tenant.as_deref()
    }
}

/// The numbers of a `Usage` that a record takes.
#[derive(FromPyObject)]
pub(super) struct Usage {
    input_tokens: u64,
    output_tokens: u64,
    reasoning_tokens: u64,
}

impl Usage {
    pub(super) fn billed(&self) -> Billed {
        Billed {
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            reasoning_tokens: self.reasoning_tokens,
        }
    }
}
