//! Vocabularies that the user brings: an `Encoding`, or any object with `count(text)`.
use super::encoding::{Kind, PyEncoding};
use super::errors::end_by;
use crate::count::{TextCounter, Vocabularies};
use crate::interrupt;
use pyo3::prelude::*;

/// The vocabularies of an engine, by what they are for.
pub(super) fn vocabularies(named: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Vocabularies> {
    let counters = named.into_iter().map(|(name, object)| {
        let counter = counter(&object)?;
        Ok((name, counter))
    });
    Ok(Vocabularies::new(counters.collect::<PyResult<_>>()?))
}

fn counter(object: &Bound<'_, PyAny>) -> PyResult<Box<dyn TextCounter>> {
    let name = object.getattr("name")?.extract()?;
    let encoding = object.cast::<PyEncoding>().ok();
    let object = match encoding.as_ref().map(|encoding| encoding.get().kind()) {
        Some(Kind::Core(encoding)) => return Ok(Box::new(encoding.clone())),
        Some(Kind::Tokenizer(tokenizer)) => tokenizer.clone_ref(object.py()),
        None => object.clone().unbind(),
    };
    Ok(Box::new(PyCounter { name, object }))
}

/// Counts by a call into Python.
#[derive(Debug)]
struct PyCounter {
    name: String,
    object: Py<PyAny>,
}

impl TextCounter for PyCounter {
    fn name(&self) -> &str {
        &self.name
    }

    fn count(&self, text: &str) -> Option<u64> {
        Python::attach(|py| {
            let object = self.object.bind(py);
            let count = interrupt::unwatched(|| object.call_method1("count", (text,)));
            // No text has 2^32 tokens, and sums of such numbers do not overflow.
            match count.and_then(|count| count.extract::<u32>()) {
                Ok(count) => Some(count.into()),
                Err(error) => {
                    end_by(py, error);
                    None
                }
            }
        })
    }
}
