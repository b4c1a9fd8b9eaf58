//! From the argument `body` to a document: JSON text is parsed, objects are read.
//!
//! Short strings of objects are copied into the document, long ones held: a `str` never changes, so a
//! reference to it is enough.
use super::errors::{RequestError, guard, interruptible};
use super::object::{
    Model, Replacement, as_bytes, is_framework_loaded, is_mapping, is_of_framework, iterate,
    members, replacement, unless_raised, with_text, without_framework_objects,
};
use crate::Error;
use crate::bpe::prefetch::prefetch_at;
use crate::engine::{self, Host};
use crate::json::{Anomalies, Builder, Document, Limits, object_members, write_float};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::time::{Duration, Instant};

/// Below this, detaching from the interpreter costs more than it lets others do.
const DETACH_BYTES: usize = 2048;

/// Some editors write this before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// From this number of bytes on a string is held: to copy it would take longer than to count a reference to it.
const MIN_HELD_BYTES: usize = 1024;

/// So many classes of models are remembered while a body is read.
const MOST_MODELS: usize = 16;

/// How often an object may be replaced by another (`Enum.value`, `model_dump()`, `to_dict()`)
/// before it counts as unreadable.
const MAX_REPLACEMENTS: usize = 8;

/// From this number of members on a dict is read step by step, as signals and others must not wait for all of it.
const MANY_MEMBERS: usize = 16;

/// Memory comes in lines; a short text takes this number behind the head of its object.
const LINE_BYTES: usize = 64;
const LINES_OF_TEXT: usize = 4;

/// How many steps it takes to read objects before signals are handled.
const STEPS_BETWEEN_SIGNALS: u32 = 2048;

/// How many it takes before it is asked how long the interpreter was held.
const STEPS_BETWEEN_LOOKS: u32 = 128;

/// So long the interpreter is held while objects are read; then others have it.
const MOST_HELD: Duration = Duration::from_micros(800);

/// So long others have it: who waits for it needs that to wake up.
const LEFT: Duration = Duration::from_micros(50);

/// A request body as the caller passed it.
pub(super) enum Body<'py> {
    /// `bytes`, or what was copied into them: JSON text.
    Bytes(Bound<'py, PyBytes>),
    /// `str`: JSON text.
    Text(Bound<'py, PyString>),
    /// Anything else is the value itself.
    Object(Bound<'py, PyAny>),
}

impl<'py> FromPyObject<'_, 'py> for Body<'py> {
    type Error = PyErr;

    fn extract(body: Borrowed<'_, 'py, PyAny>) -> PyResult<Body<'py>> {
        if let Some(bytes) = as_bytes(&body)? {
            return Ok(Body::Bytes(bytes));
        }
        Ok(match body.cast::<PyString>() {
            Ok(text) => Body::Text(text.to_owned()),
            Err(_) => Body::Object(body.to_owned()),
        })
    }
}

impl Body<'_> {
    /// TypeError for an object that nobody can mean as a request, which would be counted as its JSON text.
    pub(super) fn check_type(&self) -> PyResult<()> {
        let Body::Object(object) = self else {
            return Ok(());
        };
        if object.is_none()
            || object.is_instance_of::<PyInt>()
            || object.is_instance_of::<PyFloat>()
        {
            let class = object.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "body is of type {class}; it must be a dict, a list of messages, JSON as bytes or str, or an object \
                 of a vendor's SDK; text alone is counted by count_tokens"
            )));
        }
        Ok(())
    }

    /// The result of `work` on the body as the core takes it. Objects are read here, attached.
    pub(super) fn with<T>(
        &self,
        work: impl FnOnce(&engine::Body<'_>) -> PyResult<T>,
    ) -> PyResult<T> {
        match self {
            Body::Bytes(bytes) => work(&engine::Body::Bytes(bytes.as_bytes())),
            Body::Text(text) => with_text(text, |text, anomalies| {
                work(&engine::Body::Text(text, anomalies))
                    .map_err(|error| of_plain_text(error, text))
            })?,
            Body::Object(object) => work(&engine::Body::Document(from_object(object)?)),
        }
    }

    /// The result of `work` on the document. Parsing and `work` run detached from the interpreter,
    /// unless the body is small.
    pub(super) fn read<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Document<'_>) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        self.with(|body| Ok(Interpreter(py).detached(body.byte_count(), || body.read(work))?))
    }
}

/// The error with a hint, if a text that does not look like JSON was read as JSON.
fn of_plain_text(error: PyErr, text: &str) -> PyErr {
    let text = text.trim_start();
    let is_json = text.starts_with(['{', '[', '"']);
    if is_json || text.starts_with("//") || text.starts_with("/*") || text.is_empty() {
        return error;
    }
    Python::attach(|py| {
        let value = error.value(py);
        let code: Option<String> = value.getattr("code").and_then(|it| it.extract()).ok();
        let offset: Option<usize> = value.getattr("offset").and_then(|it| it.extract()).ok();
        match code
            .filter(|it| ["comment", "syntax", "trailing_data", "truncated"].contains(&it.as_str()))
        {
            Some(code) => {
                let hint = "a str is read as JSON and no file is opened; \
                            text alone is counted by count_tokens";
                RequestError::new_err((format!("{value}; {hint}"), code, offset))
            }
            None => error,
        }
    })
}

/// The interpreter as what runs an engine: it forks only while a thread is attached to it.
pub(super) struct Interpreter<'py>(pub(super) Python<'py>);

impl Host for Interpreter<'_> {
    fn locked<T>(step: impl FnOnce() -> T) -> T {
        Python::attach(|_| step())
    }

    fn detached<T: Send>(&self, byte_count: usize, work: impl FnOnce() -> T + Send) -> T {
        let Interpreter(py) = *self;
        interruptible(py, byte_count, || detached(py, byte_count, work))
    }
}

/// The interpreter for work that is detached from it already.
pub(super) struct Attaching;

impl Host for Attaching {
    fn locked<T>(step: impl FnOnce() -> T) -> T {
        Interpreter::locked(step)
    }

    fn detached<T: Send>(&self, _byte_count: usize, work: impl FnOnce() -> T + Send) -> T {
        work()
    }
}

pub(super) fn detached<T: Send>(
    py: Python<'_>,
    bytes: usize,
    work: impl FnOnce() -> T + Send,
) -> T {
    match bytes >= DETACH_BYTES {
        true => py.detach(work),
        false => work(),
    }
}

/// The document of `object`. Linear in what it contains; never recurses.
///
/// A value that cannot be read becomes null and is flagged, so that this fails only by a limit, or
/// with an exception that is no `Exception` (`KeyboardInterrupt`).
///
/// Where a message or tool of an agent framework is met, all is read again with dicts in their
/// place, which Python makes.
pub(super) fn from_object(object: &Bound<'_, PyAny>) -> PyResult<Document<'static>> {
    let mut reader = Reader::new(object, FrameworkObjects::Unknown);
    match reader.read() {
        Err(_) if matches!(reader.framework_objects, FrameworkObjects::Met) => {
            let plain = without_framework_objects(object)?;
            let mut reader = Reader::new(&plain, FrameworkObjects::None);
            reader.read()?;
            Ok(reader.builder.finish())
        }
        done => done.map(|()| reader.builder.finish()),
    }
}

struct Reader<'py> {
    py: Python<'py>,
    builder: Builder<'static>,
    max_values: usize,
    /// The values that are still to read, the next one last.
    pending: Vec<Pending<'py>>,
    /// Kept for their memory.
    spare: Vec<Members<'py>>,
    framework_objects: FrameworkObjects,
    /// Classes of models that were met: each is asked once what it is.
    models: Vec<Model<'py>>,
}

/// The chance to meet objects of agent frameworks.
enum FrameworkObjects {
    Unknown,
    /// No framework is loaded, or its objects have been replaced.
    None,
    Possible,
    Met,
}

type Members<'py> = Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>;

enum Pending<'py> {
    Value(Bound<'py, PyAny>),
    /// A small dict that has been taken over.
    Dict(Members<'py>),
    Member(Bound<'py, PyAny>, Bound<'py, PyAny>),
    End,
}

impl<'py> Reader<'py> {
    fn new(object: &Bound<'py, PyAny>, framework_objects: FrameworkObjects) -> Reader<'py> {
        let limits = Limits::default();
        Reader {
            py: object.py(),
            builder: Builder::new(&limits),
            max_values: limits.max_values,
            pending: vec![Pending::Value(object.clone())],
            spare: Vec::new(),
            framework_objects,
            models: Vec::new(),
        }
    }

    fn read(&mut self) -> PyResult<()> {
        let (mut count, mut since) = (0_u32, Instant::now());
        while let Some(pending) = self.pending.pop() {
            count = count.wrapping_add(1);
            if count.is_multiple_of(STEPS_BETWEEN_SIGNALS) {
                self.py.check_signals()?;
            }
            if count.is_multiple_of(STEPS_BETWEEN_LOOKS) && since.elapsed() > MOST_HELD {
                // What is still to read is kept alive by `pending`; a container is taken over at once.
                self.py.detach(|| std::thread::sleep(LEFT));
                since = Instant::now();
            }
            match pending {
                Pending::Value(value) => self.value(value)?,
                Pending::Dict(members) => self.taken_dict(members)?,
                Pending::Member(key, value) => self.member(&key, value)?,
                Pending::End => self.builder.end(),
            }
        }
        Ok(())
    }

    /// An error, which ends this reading, if `value` was made by an agent framework.
    fn refuse_framework_object(&mut self, value: &Bound<'py, PyAny>) -> PyResult<()> {
        if matches!(self.framework_objects, FrameworkObjects::Unknown) {
            self.framework_objects = match is_framework_loaded(self.py)? {
                true => FrameworkObjects::Possible,
                false => FrameworkObjects::None,
            };
        }
        let may_be_met = matches!(self.framework_objects, FrameworkObjects::Possible);
        if may_be_met && is_of_framework(value)? {
            self.framework_objects = FrameworkObjects::Met;
            return Err(PyTypeError::new_err("an object of an agent framework"));
        }
        Ok(())
    }

    fn member(&mut self, key: &Bound<'py, PyAny>, value: Bound<'py, PyAny>) -> PyResult<()> {
        if self.key(key)? {
            return self.value(value);
        }
        self.builder.flag(Anomalies::UNREADABLE_VALUE);
        Ok(())
    }

    /// Adds a key as `json.dumps` writes it; false if it is none that `json.dumps` takes.
    fn key(&mut self, key: &Bound<'py, PyAny>) -> PyResult<bool> {
        if let Ok(text) = key.cast_exact::<PyString>()
            && let Ok(text) = text.to_str()
        {
            self.builder.key(text)?;
            return Ok(true);
        }
        // Two that differ may have one text.
        self.builder.compare_keys();
        if let Ok(text) = key.cast::<PyString>() {
            with_text(text, |text, anomalies| {
                self.builder.flag(anomalies);
                self.builder.key(text)
            })??;
            return Ok(true);
        }
        let Some(text) = self.key_text(key)? else {
            return Ok(false);
        };
        self.builder.key(&text)?;
        Ok(true)
    }

    /// The text of a key that is no string.
    fn key_text(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<String>> {
        if key.is_none() {
            return Ok(Some("null".into()));
        }
        if let Ok(key) = key.cast::<PyBool>() {
            return Ok(Some(key.is_true().to_string()));
        }
        if let Ok(key) = key.cast::<PyInt>() {
            return digits(key);
        }
        Ok(key.cast::<PyFloat>().ok().map(|key| {
            let mut text = String::new();
            write_float(key.value(), &mut text);
            text
        }))
    }

    fn value(&mut self, mut value: Bound<'py, PyAny>) -> PyResult<()> {
        for _ in 0..MAX_REPLACEMENTS {
            if self.plain(&value)? {
                return Ok(());
            }
            let model = self.models.iter().find(|it| it.is_class_of(&value));
            let replacement = match model.map(|it| it.dump(&value)).transpose()? {
                Some(dump) => dump,
                None if self.scalar(&value)? || self.container(&value)? => return Ok(()),
                None => self.new_replacement(&value)?,
            };
            match replacement {
                Replacement::By(other) => value = other,
                Replacement::Failed => break,
                Replacement::None => match members(&value)? {
                    Some(members) => return self.begin_object(members.into_iter()),
                    None => break,
                },
            }
        }
        self.unreadable()
    }

    /// The replacement of an object whose class was not met as a model's.
    fn new_replacement(&mut self, value: &Bound<'py, PyAny>) -> PyResult<Replacement<'py>> {
        self.refuse_framework_object(value)?;
        let Some(model) = Model::of(value)? else {
            return replacement(value);
        };
        let dump = model.dump(value);
        if self.models.len() < MOST_MODELS {
            self.models.push(model);
        }
        dump
    }

    /// Adds what is a str, dict or list and nothing derived from them, as most values are: no more need be asked.
    fn plain(&mut self, value: &Bound<'py, PyAny>) -> PyResult<bool> {
        if let Ok(text) = value.cast_exact::<PyString>() {
            self.string(text)?;
        } else if let Ok(dict) = value.cast_exact::<PyDict>() {
            self.dict(dict)?;
        } else if let Ok(list) = value.cast_exact::<PyList>() {
            self.begin_array(list.iter())?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn unreadable(&mut self) -> PyResult<()> {
        self.builder.flag(Anomalies::UNREADABLE_VALUE);
        Ok(self.builder.null()?)
    }

    /// Adds None, bool, int, float or str, or what is derived from them.
    fn scalar(&mut self, value: &Bound<'py, PyAny>) -> PyResult<bool> {
        if let Ok(text) = value.cast::<PyString>() {
            self.string(text)?;
        } else if value.is_none() {
            self.builder.null()?;
        } else if let Ok(value) = value.cast::<PyBool>() {
            self.builder.bool(value.is_true())?;
        } else if let Ok(value) = value.cast::<PyInt>() {
            match digits(value)? {
                Some(digits) => self.builder.number(&digits)?,
                None => self.unreadable()?,
            }
        } else if let Ok(value) = value.cast::<PyFloat>() {
            self.builder.float(value.value())?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn string(&mut self, text: &Bound<'py, PyString>) -> PyResult<()> {
        match text.to_str() {
            Ok(it) if it.len() >= MIN_HELD_BYTES => {
                let held = PyBackedStr::try_from(text.clone())?;
                self.builder.held_string(Box::new(held))?;
            }
            Ok(it) => self.builder.string(it)?,
            Err(_) => with_text(text, |text, anomalies| {
                self.builder.flag(anomalies);
                self.builder.string(text)
            })??,
        }
        Ok(())
    }

    /// Begins a dict, list or tuple, or what is derived from them, or any other mapping or
    /// sequence; bytes are added whole.
    fn container(&mut self, value: &Bound<'py, PyAny>) -> PyResult<bool> {
        if let Ok(dict) = value.cast::<PyDict>() {
            self.begin_object(dict.iter())?;
        } else if let Ok(list) = value.cast::<PyList>() {
            self.begin_array(list.iter())?;
        } else if let Ok(tuple) = value.cast::<PyTuple>() {
            self.begin_array(tuple.iter())?;
        } else if let Some(bytes) = unless_raised(self.py, as_bytes(value))?.flatten() {
            self.builder.bytes(bytes.as_bytes())?;
        } else {
            return self.other_container(value);
        }
        Ok(true)
    }

    fn other_container(&mut self, value: &Bound<'py, PyAny>) -> PyResult<bool> {
        let Some(is_mapping) = is_mapping(value)? else {
            return Ok(false);
        };
        let Some(values) = self.parts(value, is_mapping)? else {
            return self.unreadable().map(|()| true);
        };
        if !is_mapping {
            return self.begin_array(values.into_iter()).map(|()| true);
        }
        let members: PyResult<Vec<_>> = values.iter().map(|pair| pair.extract()).collect();
        match unless_raised(self.py, members)? {
            Some(members) => self.begin_object(members.into_iter())?,
            None => self.unreadable()?,
        }
        Ok(true)
    }

    /// The members of a mapping or sequence; an endless one ends in a limit.
    fn parts(
        &self,
        value: &Bound<'py, PyAny>,
        is_mapping: bool,
    ) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
        let Some(parts) = unless_raised(self.py, iterate(value, is_mapping))? else {
            return Ok(None);
        };
        let mut values = Vec::new();
        for part in parts {
            let Some(part) = unless_raised(self.py, part)? else {
                return Ok(None);
            };
            values.push(part);
            self.check_pending(values.len())?;
        }
        Ok(Some(values))
    }

    /// Adds a dict; of a small one, all before the first member that is no text is read at once.
    fn dict(&mut self, dict: &Bound<'py, PyDict>) -> PyResult<()> {
        if dict.len() >= MANY_MEMBERS {
            return self.begin_object(dict.iter());
        }
        let members = self.taken(dict);
        self.taken_dict(members)
    }

    /// The members of a dict, taken over at once: what is read may run code that changes it.
    fn taken(&mut self, dict: &Bound<'py, PyDict>) -> Members<'py> {
        let mut members = self.spare.pop().unwrap_or_default();
        members.extend(dict.iter());
        for (_, value) in &members {
            for line in 1..=LINES_OF_TEXT {
                prefetch_at(value.as_ptr().wrapping_byte_add(line * LINE_BYTES));
            }
        }
        members
    }

    /// Takes over the dict that is read next, so that the memory is not waited for then.
    fn take_next(&mut self) {
        let Some(Pending::Value(next)) = self.pending.last() else {
            return;
        };
        let dict = next.cast_exact::<PyDict>().ok().cloned();
        if let Some(dict) = dict.filter(|dict| dict.len() < MANY_MEMBERS) {
            let members = self.taken(&dict);
            self.pending.pop();
            self.pending.push(Pending::Dict(members));
        }
    }

    fn taken_dict(&mut self, mut members: Members<'py>) -> PyResult<()> {
        self.take_next();
        self.builder.begin_distinct_object()?;
        let mut all = members.drain(..);
        loop {
            match all.next() {
                None => {
                    self.builder.end();
                    break;
                }
                Some((key, value)) if is_text_or_none(&value) => self.member(&key, value)?,
                Some(member) => {
                    let rest = std::iter::once(member).chain(all.by_ref());
                    self.put_off(rest.map(|(key, value)| Pending::Member(key, value)))?;
                    break;
                }
            }
        }
        drop(all);
        self.spare.push(members);
        Ok(())
    }

    fn begin_object(
        &mut self,
        members: impl Iterator<Item = (Bound<'py, PyAny>, Bound<'py, PyAny>)>,
    ) -> PyResult<()> {
        self.builder.begin_object()?;
        self.put_off(members.map(|(key, value)| Pending::Member(key, value)))
    }

    fn begin_array(&mut self, items: impl Iterator<Item = Bound<'py, PyAny>>) -> PyResult<()> {
        self.builder.begin_array()?;
        self.builder.reserve(items.size_hint().0);
        self.put_off(items.map(Pending::Value))
    }

    /// Makes the content of a container what is read next.
    fn put_off(&mut self, content: impl Iterator<Item = Pending<'py>>) -> PyResult<()> {
        let base = self.pending.len();
        self.pending.push(Pending::End);
        self.pending.extend(content);
        self.pending[base + 1..].reverse();
        self.check_pending(0)
    }

    /// Refuses early what is certain to have too many values: a list of a million references
    /// to itself would else be put off again at every level.
    fn check_pending(&self, more: usize) -> PyResult<()> {
        let ends = self.builder.depth();
        let values = self.builder.value_count() + self.pending.len() - ends.min(self.pending.len());
        let (offset, limit) = (None, self.max_values);
        match values + more > limit {
            true => Err(Error::TooManyValues { offset, limit }.into()),
            false => Ok(()),
        }
    }
}

fn is_text_or_none(value: &Bound<'_, PyAny>) -> bool {
    value.is_exact_instance_of::<PyString>() || value.is_none()
}

/// The digits of an integer; `None` if Python refuses to write that many
/// (`sys.set_int_max_str_digits`).
fn digits(value: &Bound<'_, PyInt>) -> PyResult<Option<String>> {
    if let Ok(small) = value.extract::<i64>() {
        return Ok(Some(small.to_string()));
    }
    let py = value.py();
    let digits = py.get_type::<PyInt>().call_method1("__repr__", (value,));
    unless_raised(py, digits.and_then(|digits| digits.extract()))
}

/// The compact JSON text of `body`; for tests.
#[pyfunction(name = "_json_compact")]
pub(super) fn json_compact(py: Python<'_>, body: Body<'_>) -> PyResult<String> {
    guard(|| {
        body.read(py, |document| {
            let mut text = String::new();
            document.root().write_compact(&mut text);
            Ok(text)
        })
    })
}

/// The canonical JSON text of `body`; for tests.
#[pyfunction(name = "_json_canonical")]
pub(super) fn json_canonical(py: Python<'_>, body: Body<'_>) -> PyResult<String> {
    guard(|| {
        body.read(py, |document| {
            let mut text = String::new();
            document.root().write_canonical(&mut text);
            Ok(text)
        })
    })
}

/// Names of what was odd about `body`; for tests.
#[pyfunction(name = "_json_anomalies")]
pub(super) fn json_anomalies(py: Python<'_>, body: Body<'_>) -> PyResult<Vec<&'static str>> {
    guard(|| body.read(py, |document| Ok(document.anomalies().names().collect())))
}

/// The members of `body`, which has been read as JSON before: key, first byte and end of the value;
/// `None` if it is no object or a key is escaped.
#[pyfunction(name = "_json_members")]
pub(super) fn json_members(py: Python<'_>, body: &[u8]) -> Option<Vec<(String, usize, usize)>> {
    let start = match body.starts_with(BYTE_ORDER_MARK) {
        true => BYTE_ORDER_MARK.len(),
        false => 0,
    };
    let members = detached(py, body.len(), || object_members(&body[start..]))?;
    let placed = members.into_iter().map(|(key, value)| {
        let key = String::from_utf8_lossy(key).into_owned();
        (key, start + value.start, start + value.end)
    });
    Some(placed.collect())
}
