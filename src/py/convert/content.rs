//! Content that is a string or a list of parts with a `type`, as all but Gemini have it.
use super::fields::{Fields, NotPlain, Plain, Stop, object};
use super::message::{Part, Texts};
use crate::request::{PartKind, converted_kind};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

/// The texts of a string or a list of parts of `dialect`.
pub(super) fn read_texts<'py>(content: Bound<'py, PyAny>, dialect: &str) -> Plain<Texts<'py>> {
    let content = match content.cast_into_exact::<PyString>() {
        Ok(text) => return Ok(Texts::one(text)),
        Err(error) => error.into_inner(),
    };
    let list = content.cast_exact::<PyList>().map_err(|_| NotPlain)?;
    let items = list.iter().map(|item| read_text(&item, dialect));
    Ok(Texts {
        items: items.collect::<Plain<_>>()?,
        is_plain: false,
    })
}

fn read_text<'py>(item: &Bound<'py, PyAny>, dialect: &str) -> Plain<Bound<'py, PyString>> {
    let py = item.py();
    let mut fields = Fields::of(item)?;
    let kind = converted_kind(dialect, fields.text(intern!(py, "type"))?.to_str()?);
    if kind != Some(PartKind::Text) {
        return Err(Stop::NotPlain);
    }
    let text = fields.text(intern!(py, "text"))?;
    fields.end()?;
    Ok(text)
}

impl<'py> Texts<'py> {
    pub(super) fn one(text: Bound<'py, PyString>) -> Texts<'py> {
        Texts {
            items: vec![text],
            is_plain: true,
        }
    }

    /// The only text, if it was a string.
    pub(super) fn string(&self) -> Option<&Bound<'py, PyString>> {
        self.items.first().filter(|_| self.is_plain)
    }

    pub(super) fn into_parts(self) -> Plain<Vec<Part<'py>>> {
        self.items.into_iter().map(Part::text).collect()
    }
}

/// A list of parts of the type `kind`.
pub(super) fn text_list<'a, 'py: 'a>(
    py: Python<'py>,
    texts: impl Iterator<Item = &'a Bound<'py, PyString>>,
    kind: &Bound<'py, PyString>,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for text in texts {
        list.append(object!(py, "type": kind, "text": text))?;
    }
    Ok(list)
}
