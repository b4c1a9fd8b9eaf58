//! Vocabularies that the user brings: an `Encoding`, or any object with `count(text)`.
use super::encoding::{Kind, PyEncoding};
use super::errors::end_by;
use crate::bpe::table::memo;
use crate::bpe::{MemoKey, sampling};
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
    let (object, number) = match encoding.as_ref().map(|encoding| encoding.get().kind()) {
        Some(Kind::Core(encoding)) => return Ok(Box::new(encoding.clone())),
        Some(Kind::Tokenizer(it)) => (it.clone_ref(object.py()), Some(memo::new_number())),
        None => (object.clone().unbind(), None),
    };
    Ok(Box::new(PyCounter {
        name,
        object,
        number,
    }))
}

/// Counts by a call into Python.
#[derive(Debug)]
struct PyCounter {
    name: String,
    object: Py<PyAny>,
    /// Of one whose counts are remembered: a tokenizer file's. Nobody knows what a user's object does.
    number: Option<u64>,
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
    fn count_in(&self, key: MemoKey, text: &str) -> Option<u64> {
        let Some(number) = self.number else {
            return self.count(text);
        };
        let mut has_failed = false;
        let tokens = memo::remembered(number, key, text.as_bytes(), u64::MAX, || {
            let tokens = sampling::count(text, |part| self.count(part));
            has_failed = tokens.is_none();
            tokens.unwrap_or(0)
        });
        (!has_failed).then_some(tokens)
    }

    fn has_sampled(&self, text: &str) -> bool {
        self.number.is_some() && sampling::has_long_stretch(text)
    }
}
