//! The neutral message: what `tokenctx.convert.model` has, as far as it is plain.
use super::fields::{NotPlain, Plain, Stop};
use super::json::{dumps, loads};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Role {
    User,
    Assistant,
    /// Its parts are results, and those of others are none.
    Tool,
}

/// A message with one part at least, or one of the user that is left over.
pub(super) struct Message<'py> {
    pub(super) role: Role,
    pub(super) parts: Vec<Part<'py>>,
    /// The content was one string, not a list of parts.
    pub(super) is_plain: bool,
}

pub(super) enum Part<'py> {
    /// It is not empty and not white space alone.
    Text(Bound<'py, PyString>),
    Call(ToolCall<'py>),
    Result(ToolResult<'py>),
}

pub(super) struct ToolCall<'py> {
    pub(super) id: Bound<'py, PyString>,
    pub(super) name: Bound<'py, PyString>,
    pub(super) arguments: Arguments<'py>,
}

/// What a tool answered.
pub(super) struct ToolResult<'py> {
    pub(super) call_id: Bound<'py, PyString>,
    pub(super) name: Option<Bound<'py, PyString>>,
    pub(super) texts: Texts<'py>,
}

impl<'py> ToolResult<'py> {
    /// The name of the tool; `names` has those of the calls.
    pub(super) fn tool_name(&self, names: &Bound<'py, PyDict>) -> Plain<Bound<'py, PyAny>> {
        match &self.name {
            Some(name) if !name.is_empty()? => Ok(name.clone().into_any()),
            _ => Ok(names.get_item(&self.call_id)?.ok_or(NotPlain)?),
        }
    }
}

/// Texts of any length; one that is a string, or a list.
pub(super) struct Texts<'py> {
    pub(super) items: Vec<Bound<'py, PyString>>,
    pub(super) is_plain: bool,
}

impl<'py> Message<'py> {
    pub(super) fn new(role: Role, parts: Vec<Part<'py>>, is_plain: bool) -> Plain<Message<'py>> {
        if parts.is_empty() {
            return Err(Stop::NotPlain);
        }
        Ok(Message {
            role,
            parts,
            is_plain,
        })
    }

    /// Something that the user says and that is not plain.
    pub(super) fn left_over() -> Message<'py> {
        Message {
            role: Role::User,
            parts: Vec::new(),
            is_plain: false,
        }
    }

    pub(super) fn is_left_over(&self) -> bool {
        self.parts.is_empty()
    }

    /// A message of `parts` that were told by their own type, not by the role of the message.
    pub(super) fn of_parts(role: Role, parts: Vec<Part<'py>>) -> Plain<Message<'py>> {
        let results = parts.iter().filter(|part| part.is_result()).count();
        let is_mixed = results != 0 && results != parts.len();
        let is_misplaced = match role {
            Role::Assistant => results != 0,
            Role::User => parts.iter().any(Part::is_call),
            Role::Tool => results == 0,
        };
        if is_mixed || is_misplaced {
            return Err(Stop::NotPlain);
        }
        let role = if results == 0 { role } else { Role::Tool };
        Message::new(role, parts, false)
    }

    /// The texts among the parts.
    pub(super) fn texts(&self) -> impl Iterator<Item = &Bound<'py, PyString>> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text),
            _ => None,
        })
    }

    /// The only part, if it is a text that was a string.
    pub(super) fn string(&self) -> Option<&Bound<'py, PyString>> {
        self.only_text().filter(|_| self.is_plain)
    }

    /// The only part, if it is a text.
    pub(super) fn only_text(&self) -> Option<&Bound<'py, PyString>> {
        match self.parts.as_slice() {
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }
}

impl<'py> Part<'py> {
    pub(super) fn text(text: Bound<'py, PyString>) -> Plain<Part<'py>> {
        match is_blank(&text)? {
            true => Err(Stop::NotPlain),
            false => Ok(Part::Text(text)),
        }
    }

    pub(super) fn is_result(&self) -> bool {
        matches!(self, Part::Result(_))
    }

    pub(super) fn is_call(&self) -> bool {
        matches!(self, Part::Call(_))
    }
}

/// Whether there is nothing but white space in `text`.
pub(super) fn is_blank(text: &Bound<'_, PyString>) -> PyResult<bool> {
    let py = text.py();
    Ok(text.is_empty()? || text.call_method0(intern!(py, "isspace"))?.is_truthy()?)
}

/// The arguments of a call.
pub(super) enum Arguments<'py> {
    /// JSON text, perhaps.
    Text(Bound<'py, PyString>),
    Object(Bound<'py, PyDict>),
}

impl<'py> Arguments<'py> {
    /// JSON text; that of a call which came with text is kept as it is.
    pub(super) fn as_text(&self, py: Python<'py>) -> Plain<Bound<'py, PyString>> {
        match self {
            Arguments::Text(text) => Ok(text.clone()),
            Arguments::Object(object) => Ok(PyString::new(py, &dumps(valid(object)?)?)),
        }
    }

    pub(super) fn as_object(&self, py: Python<'py>) -> Plain<Bound<'py, PyDict>> {
        match self {
            Arguments::Object(object) => valid(object).cloned(),
            Arguments::Text(text) if text.is_empty()? => Ok(PyDict::new(py)),
            Arguments::Text(text) => {
                let object = loads(text)?.ok_or(NotPlain)?;
                let object = object.cast_into_exact().map_err(|_| NotPlain)?;
                valid(&object).cloned()
            }
        }
    }
}

/// `object` unless it stands for arguments that are no JSON object: `INVALID_ARGUMENTS`.
fn valid<'a, 'py>(object: &'a Bound<'py, PyDict>) -> Plain<&'a Bound<'py, PyDict>> {
    let is_wrapper = object.len() == 1 && object.contains(intern!(object.py(), "invalid_json"))?;
    match is_wrapper {
        true => Err(Stop::NotPlain),
        false => Ok(object),
    }
}
