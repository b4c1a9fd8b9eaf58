//! The documents of a stream, as its bytes come.
use super::document::detached;
use super::errors::guard;
use crate::usage::events::Documents;
use crate::usage::runs::Alike;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The members that may differ between events that are read as one.
#[pyclass(name = "Alike", module = "tokenctx._core", frozen)]
pub(super) struct PyAlike(Arc<Alike>);

#[pymethods]
impl PyAlike {
    #[new]
    #[pyo3(signature = (*, joined = vec![], ignored = vec![], latest = vec![], absent = vec![]))]
    fn new(
        joined: Vec<String>,
        ignored: Vec<String>,
        latest: Vec<String>,
        absent: Vec<String>,
    ) -> PyAlike {
        PyAlike(Arc::new(Alike::new(&joined, &ignored, &latest, &absent)))
    }
}

#[pyclass(name = "Documents", module = "tokenctx._core", frozen)]
pub(super) struct PyDocuments {
    documents: Mutex<Documents>,
    /// The bytes that came last and are not all read, and up to where it is.
    rest: Mutex<Option<(Py<PyBytes>, usize)>>,
}

#[pymethods]
impl PyDocuments {
    #[new]
    fn new() -> PyDocuments {
        PyDocuments {
            documents: Mutex::default(),
            rest: Mutex::new(None),
        }
    }

    /// The first document that is complete now, as text; what is no UTF-8 is replaced. `next` has the others.
    fn push(&self, chunk: Bound<'_, PyBytes>) -> PyResult<Option<String>> {
        self.read(chunk, 0)
    }

    /// The next document of what was pushed last; `None` if there is none.
    fn next(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let rest = locked(&self.rest).take();
        match rest {
            Some((chunk, at)) => self.read(chunk.into_bound(py), at),
            None => Ok(None),
        }
    }

    /// The last event, if no blank line came behind it.
    fn finish(&self) -> PyResult<Option<String>> {
        guard(|| Ok(self.with(Documents::finish).map(text)))
    }

    /// Sets the members that may differ between documents from here on, if they are to be read as one.
    fn join(&self, alike: &PyAlike) {
        self.with(|it| it.join(Arc::clone(&alike.0)));
    }

    /// One document for those that were kept.
    fn kept(&self) -> PyResult<Option<String>> {
        guard(|| Ok(self.with(Documents::kept).map(text)))
    }

    /// Bytes of all documents, those that were kept among them.
    #[getter]
    fn document_bytes(&self) -> u64 {
        self.with(|it| it.document_bytes())
    }

    /// True if a document was dropped for its length, or because there were too many short ones.
    #[getter]
    fn has_lost(&self) -> bool {
        self.with(|it| it.has_lost())
    }
}

impl PyDocuments {
    fn read(&self, chunk: Bound<'_, PyBytes>, mut at: usize) -> PyResult<Option<String>> {
        let (py, bytes) = (chunk.py(), chunk.as_bytes());
        guard(|| {
            let left = bytes.len() - at;
            let next = || self.with(|documents| documents.next(bytes, &mut at));
            let found = detached(py, left, next).map(text);
            if found.is_some() {
                *locked(&self.rest) = Some((chunk.clone().unbind(), at));
            }
            Ok(found)
        })
    }

    /// Never waits attached for a thread that is detached: the lock is held within `work` alone.
    fn with<T>(&self, work: impl FnOnce(&mut Documents) -> T) -> T {
        work(&mut locked(&self.documents))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn text(document: Vec<u8>) -> String {
    String::from_utf8(document)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
