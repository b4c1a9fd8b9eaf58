//! Arguments of encoding and decoding: numbers of tokens, and which special tokens are meant.
use super::text::items;
use crate::encoding::Encoding;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString};
use std::collections::HashSet;

/// Some of an encoding's special tokens.
pub(super) enum SpecialSet {
    All,
    Some(HashSet<String>),
}

impl SpecialSet {
    /// The argument called `name`: `None`, `"all"`, or special tokens of `encoding`.
    pub(super) fn read(
        argument: Option<&Bound<'_, PyAny>>,
        name: &str,
        encoding: &Encoding,
    ) -> PyResult<SpecialSet> {
        let Some(argument) = argument else {
            return Ok(SpecialSet::Some(HashSet::new()));
        };
        if let Ok(word) = argument.cast::<PyString>() {
            return match word.to_str() {
                Ok("all") => Ok(SpecialSet::All),
                _ => Err(PyTypeError::new_err(format!(
                    "{name} is a str; it must be \"all\" or a collection of special tokens"
                ))),
            };
        }
        let given: HashSet<String> = argument
            .try_iter()?
            .map(|item| item?.extract())
            .collect::<PyResult<_>>()?;
        match given.iter().find(|text| encoding.special(text).is_none()) {
            Some(text) => Err(PyValueError::new_err(format!(
                "{name} has {text:?}, which is no special token of {}; \
                 special_tokens_set has all",
                encoding.name()
            ))),
            None => Ok(SpecialSet::Some(given)),
        }
    }

    pub(super) fn has(&self, text: &str) -> bool {
        match self {
            SpecialSet::All => true,
            SpecialSet::Some(given) => given.contains(text),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, SpecialSet::Some(given) if given.is_empty())
    }
}

/// A token of a list that may be long: signals are handled while it is made, at one token in 1,024.
pub(super) struct Token {
    pub(super) index: usize,
    pub(super) number: u32,
}

impl<'py> IntoPyObject<'py> for Token {
    type Target = PyInt;
    type Output = Bound<'py, PyInt>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyInt>> {
        if self.index.is_multiple_of(1024) {
            py.check_signals()?;
        }
        Ok(self.number.into_pyobject(py)?)
    }
}

/// A number of a token; ValueError if it can be none.
pub(super) fn token_number(argument: &Bound<'_, PyAny>) -> PyResult<u32> {
    let number: i64 = argument.extract().or_else(|error: PyErr| {
        let is_large = error.is_instance_of::<pyo3::exceptions::PyOverflowError>(argument.py());
        if is_large { Ok(-1) } else { Err(error) }
    })?;
    u32::try_from(number).map_err(|_| {
        PyValueError::new_err("a token is below 0 or above 4,294,967,295, so it is none")
    })
}

/// Numbers of tokens.
pub(super) fn token_numbers(argument: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    items(argument)?.map(|item| token_number(&item?)).collect()
}
