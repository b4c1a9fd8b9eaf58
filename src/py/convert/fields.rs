//! Dicts whose every field is known.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

/// Why there is no short cut.
pub(super) enum Stop {
    NotPlain,
    Raised(PyErr),
}

/// Something that only Python converts.
pub(super) struct NotPlain;

impl From<NotPlain> for Stop {
    fn from(_: NotPlain) -> Stop {
        Stop::NotPlain
    }
}

impl From<PyErr> for Stop {
    fn from(error: PyErr) -> Stop {
        Stop::Raised(error)
    }
}

pub(super) type Plain<T> = Result<T, Stop>;

/// A `dict` and how many of its fields nobody has taken.
pub(super) struct Fields<'a, 'py> {
    dict: &'a Bound<'py, PyDict>,
    left: usize,
}

impl<'a, 'py> Fields<'a, 'py> {
    pub(super) fn of(value: &'a Bound<'py, PyAny>) -> Plain<Fields<'a, 'py>> {
        let dict = value.cast_exact::<PyDict>().map_err(|_| NotPlain)?;
        let left = dict.len();
        Ok(Fields { dict, left })
    }

    pub(super) fn py(&self) -> Python<'py> {
        self.dict.py()
    }

    /// The value of a field, which is asked for once; null is a value.
    pub(super) fn take(&mut self, name: &Bound<'py, PyString>) -> Plain<Option<Bound<'py, PyAny>>> {
        if self.left == 0 {
            return Ok(None);
        }
        let found = self.dict.get_item(name)?;
        self.left -= usize::from(found.is_some());
        Ok(found)
    }

    pub(super) fn text(&mut self, name: &Bound<'py, PyString>) -> Plain<Bound<'py, PyString>> {
        text(self.take(name)?.ok_or(NotPlain)?)
    }

    pub(super) fn dict(&mut self, name: &Bound<'py, PyString>) -> Plain<Bound<'py, PyDict>> {
        let found = self.take(name)?.ok_or(NotPlain)?;
        Ok(found.cast_into_exact().map_err(|_| NotPlain)?)
    }

    pub(super) fn list(&mut self, name: &Bound<'py, PyString>) -> Plain<Bound<'py, PyList>> {
        let found = self.take(name)?.ok_or(NotPlain)?;
        Ok(found.cast_into_exact().map_err(|_| NotPlain)?)
    }

    /// Stops unless the field is this word.
    pub(super) fn word(
        &mut self,
        name: &Bound<'py, PyString>,
        word: &Bound<'py, PyString>,
    ) -> Plain<()> {
        let found = self.take(name)?.ok_or(NotPlain)?;
        match found.is(word) || found.eq(word)? {
            true => Ok(()),
            false => Err(Stop::NotPlain),
        }
    }

    /// Stops unless the field is missing or null.
    pub(super) fn nothing(&mut self, name: &Bound<'py, PyString>) -> Plain<()> {
        match self.take(name)?.is_none_or(|value| value.is_none()) {
            true => Ok(()),
            false => Err(Stop::NotPlain),
        }
    }

    /// Stops if there are fields that nobody has taken.
    pub(super) fn end(self) -> Plain<()> {
        match self.left {
            0 => Ok(()),
            _ => Err(Stop::NotPlain),
        }
    }
}

/// `value` if it is a `str` and of no class derived from it.
pub(super) fn text(value: Bound<'_, PyAny>) -> Plain<Bound<'_, PyString>> {
    Ok(value.cast_into_exact().map_err(|_| NotPlain)?)
}

/// A new dict with these members.
macro_rules! object {
    ($py:expr, $($name:literal: $value:expr),+ $(,)?) => {{
        let object = pyo3::types::PyDict::new($py);
        $(object.set_item(pyo3::intern!($py, $name), $value)?;)+
        object
    }};
}
pub(super) use object;
