//! Arguments of encoding and decoding: numbers of tokens, and which special tokens are meant.
use super::text::items;
use crate::encoding::Encoding;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PyString};
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

/// Objects of one list at most: more do not stay near.
const MAX_INTS: usize = 2048;

/// The tokens as a list; signals are handled while it is made, at one token in 1,024.
///
/// A token that occurs again is the same object, if no other has taken its place: to make objects is most of what
/// a list takes, and the interpreter keeps those up to 256 alone.
pub(super) fn list(py: Python<'_>, tokens: Vec<u32>) -> PyResult<Bound<'_, PyList>> {
    let places = tokens.len().next_power_of_two().min(MAX_INTS);
    let mut ints: Vec<Option<(u32, Bound<'_, PyInt>)>> = vec![None; places];
    let mut int = |index: usize, token: u32| {
        if index.is_multiple_of(1024) {
            py.check_signals()?;
        }
        let place = &mut ints[token as usize & (places - 1)];
        if let Some((known, int)) = place
            && *known == token
        {
            return Ok(int.clone());
        }
        let made = token.into_pyobject(py)?;
        *place = Some((token, made.clone()));
        Ok(made)
    };
    let all = tokens.into_iter().enumerate();
    PyList::new(py, all.map(|(index, token)| Made(int(index, token))))
}

/// An object that may have failed to be made.
struct Made<'py>(PyResult<Bound<'py, PyInt>>);

impl<'py> IntoPyObject<'py> for Made<'py> {
    type Target = PyInt;
    type Output = Bound<'py, PyInt>;
    type Error = PyErr;

    fn into_pyobject(self, _py: Python<'py>) -> PyResult<Bound<'py, PyInt>> {
        self.0
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
