//! JSON as Python's own module reads and writes it: what is JSON, texts of arguments.
use super::fields::{NotPlain, Plain, Stop};
use crate::json::{write_float, write_string};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::iter::{BoundDictIterator, BoundListIterator};
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};

/// As many as a document holds: what holds itself has no end.
const MAX_VALUES: usize = 1 << 22;

/// Whether `value` is made of JSON values alone, of no classes derived from theirs, and has an end.
///
/// Linear in what it contains, and never recurses. Keys of dicts that are no strings are not JSON.
#[pyfunction(name = "_is_json")]
pub(in crate::py) fn is_json(value: Bound<'_, PyAny>) -> bool {
    let mut pending = vec![value];
    let mut looked_at = 0;
    while let Some(holder) = pending.pop() {
        if looked_at > MAX_VALUES {
            return false;
        }
        if let Ok(dict) = holder.cast_exact::<PyDict>() {
            looked_at += 1 + dict.len();
            for (key, item) in dict.iter() {
                if !key.is_exact_instance_of::<PyString>() {
                    return false;
                }
                if is_no_scalar(&item) {
                    pending.push(item);
                }
            }
        } else if let Ok(list) = holder.cast_exact::<PyList>() {
            looked_at += 1 + list.len();
            pending.extend(list.iter().filter(is_no_scalar));
        } else if is_no_scalar(&holder) {
            return false;
        }
    }
    true
}

fn is_no_scalar(value: &Bound<'_, PyAny>) -> bool {
    !(value.is_exact_instance_of::<PyString>()
        || value.is_none()
        || value.is_exact_instance_of::<PyBool>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyFloat>())
}

/// The JSON value of `text`; None if it has white space around it. Raises what is no JSON.
pub(super) fn loads<'py>(text: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
    static DECODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = text.py();
    let decode = DECODE.get_or_try_init(py, || {
        let decoder = py.import("json")?.call_method0("JSONDecoder")?;
        decoder.getattr("raw_decode").map(Bound::unbind)
    })?;
    let (value, end): (Bound<'py, PyAny>, usize) = decode.bind(py).call1((text,))?.extract()?;
    Ok((end == text.len()?).then_some(value))
}

/// How deep arguments may be nested.
const MAX_DEPTH: usize = 64;

/// The JSON text of `value`, as `tokenctx.convert.model.dumps` writes it.
pub(super) fn dumps(value: &Bound<'_, PyDict>) -> Plain<String> {
    let mut writer = Writer {
        text: String::new(),
        open: Vec::new(),
    };
    writer.value(value)?;
    while writer.step()? {}
    Ok(writer.text)
}

struct Writer<'py> {
    text: String,
    open: Vec<Open<'py>>,
}

/// An object or array that has not been closed.
enum Open<'py> {
    Object(BoundDictIterator<'py>),
    Array(BoundListIterator<'py>),
}

impl<'py> Writer<'py> {
    /// Writes the next member or item, or closes what has none; false when all is closed.
    fn step(&mut self) -> Plain<bool> {
        let (value, close) = match self.open.last_mut() {
            None => return Ok(false),
            Some(Open::Array(items)) => (items.next(), ']'),
            Some(Open::Object(members)) => match members.next() {
                None => (None, '}'),
                Some((key, value)) => {
                    self.comma();
                    self.string(key.cast_exact().map_err(|_| NotPlain)?)?;
                    self.text.push(':');
                    self.value(&value)?;
                    return Ok(true);
                }
            },
        };
        match value {
            Some(value) => {
                self.comma();
                self.value(&value)?;
            }
            None => {
                self.text.push(close);
                self.open.pop();
            }
        }
        Ok(true)
    }

    /// Before all but the first; no value ends with what opens one.
    fn comma(&mut self) {
        if !self.text.ends_with(['{', '[']) {
            self.text.push(',');
        }
    }

    fn string(&mut self, text: &Bound<'py, PyString>) -> Plain<()> {
        write_string(text.to_str()?, &mut self.text);
        Ok(())
    }

    fn value(&mut self, value: &Bound<'py, PyAny>) -> Plain<()> {
        if let Ok(text) = value.cast_exact() {
            self.string(text)?;
        } else if let Ok(dict) = value.cast_exact::<PyDict>() {
            self.begin('{', Open::Object(dict.iter()))?;
        } else if let Ok(list) = value.cast_exact::<PyList>() {
            self.begin('[', Open::Array(list.iter()))?;
        } else if value.is_none() {
            self.text.push_str("null");
        } else if let Ok(flag) = value.cast_exact::<PyBool>() {
            self.text
                .push_str(if flag.is_true() { "true" } else { "false" });
        } else if value.is_exact_instance_of::<PyInt>() {
            self.text.push_str(value.str()?.to_str()?);
        } else {
            let number = value.cast_exact::<PyFloat>().map_err(|_| NotPlain)?.value();
            if !number.is_finite() {
                return Err(Stop::NotPlain);
            }
            write_float(number, &mut self.text);
        }
        Ok(())
    }

    fn begin(&mut self, bracket: char, open: Open<'py>) -> Plain<()> {
        if self.open.len() == MAX_DEPTH {
            return Err(Stop::NotPlain);
        }
        self.text.push(bracket);
        self.open.push(open);
        Ok(())
    }
}
