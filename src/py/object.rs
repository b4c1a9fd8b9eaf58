//! The content of a Python object that is neither a scalar, a dict, a list nor a tuple.
//!
//! Code of the object may run here and raise: then there is no answer, but only what is no
//! `Exception` is raised on. Special methods are looked up on the class, as Python does, so that
//! an object that answers to every name is not taken for a model.
use crate::json::Anomalies;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    IntoPyDict, PyByteArray, PyBytes, PyDict, PyFrozenSet, PyIterator, PyList, PyMemoryView,
    PyModule, PySet, PyString, PyTuple, PyType,
};

/// A class of another module, imported when it is first needed.
struct Class {
    module: &'static str,
    name: &'static str,
    class: PyOnceLock<Py<PyType>>,
}

impl Class {
    const fn new(module: &'static str, name: &'static str) -> Class {
        Class {
            module,
            name,
            class: PyOnceLock::new(),
        }
    }

    /// True if the class of `value` is derived from this one or registered with it.
    fn is_base_of(&self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = value.py();
        let class = self.class.import(py, self.module, self.name)?;
        let is_derived = value.get_type().is_subclass(class);
        Ok(unless_raised(py, is_derived)?.unwrap_or(false))
    }
}

static ENUM: Class = Class::new("enum", "Enum");
static MAPPING: Class = Class::new("collections.abc", "Mapping");
static SEQUENCE: Class = Class::new("collections.abc", "Sequence");

/// The value of `result`; `None` if an `Exception` was raised, which is forgotten.
pub(super) fn unless_raised<T>(py: Python<'_>, result: PyResult<T>) -> PyResult<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_instance_of::<PyException>(py) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The result of `work` on `text`, in which the halves of a surrogate pair are joined and U+FFFD
/// stands for a lone one, as in the parser.
pub(super) fn with_text<T>(
    text: &Bound<'_, PyString>,
    work: impl FnOnce(&str, Anomalies) -> T,
) -> PyResult<T> {
    if let Ok(text) = text.to_str() {
        return Ok(work(text, Anomalies::default()));
    }
    let class = text.py().get_type::<PyString>();
    let units = class.call_method1("encode", (text, "utf-16-le", "surrogatepass"))?;
    let units: Vec<u8> = units.extract()?;
    let units = units
        .chunks_exact(2)
        .map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    let mut anomalies = Anomalies::default();
    let repaired: String = char::decode_utf16(units)
        .map(|character| {
            character.unwrap_or_else(|_| {
                anomalies = Anomalies::LONE_SURROGATE;
                char::REPLACEMENT_CHARACTER
            })
        })
        .collect();
    Ok(work(&repaired, anomalies))
}

/// A name that the caller gives; a lone surrogate in it is no reason to fail, as it is none in a body.
pub(super) struct Name(pub(super) String);

impl<'py> FromPyObject<'_, 'py> for Name {
    type Error = PyErr;

    fn extract(name: Borrowed<'_, 'py, PyAny>) -> PyResult<Name> {
        let name = name.cast::<PyString>()?;
        Ok(Name(with_text(&name, |name, _| name.to_owned())?))
    }
}

/// The bytes of `bytes`, or a copy of those of a `bytearray` or `memoryview`.
pub(super) fn as_bytes<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Some(bytes.clone()));
    }
    if let Ok(bytes) = value.cast::<PyByteArray>() {
        return Ok(Some(PyBytes::new(value.py(), &bytes.to_vec())));
    }
    match value.cast::<PyMemoryView>() {
        Ok(view) => Ok(Some(view.call_method0("tobytes")?.cast_into()?)),
        Err(_) => Ok(None),
    }
}

/// Modules of agent frameworks whose messages and tools the reader of frameworks knows.
const FRAMEWORKS: [&str; 5] = [
    "langchain_core",
    "pydantic_ai",
    "llama_index",
    "haystack",
    "agents",
];

/// The function that puts dicts in the place of the objects of frameworks. The package hands it
/// over when it is imported, since the core imports nothing that stands above it.
static FRAMEWORK_READER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Keeps `reader` for the bodies in which an object of a framework is met; the first one stays.
#[pyfunction(name = "_set_framework_reader")]
pub(super) fn set_framework_reader(reader: Bound<'_, PyAny>) {
    let py = reader.py();
    FRAMEWORK_READER.get_or_init(py, || reader.unbind());
}

/// `body` with dicts in the place of the messages and tools of frameworks; as it is without a reader.
pub(super) fn without_framework_objects<'py>(
    body: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    match FRAMEWORK_READER.get(body.py()) {
        Some(reader) => reader.bind(body.py()).call1((body,)),
        None => Ok(body.clone()),
    }
}

/// True if any of the frameworks was imported, so that its objects may be met.
pub(super) fn is_framework_loaded(py: Python<'_>) -> PyResult<bool> {
    let modules = py.import("sys")?.getattr("modules")?;
    let mut loaded = FRAMEWORKS.iter().map(|&name| modules.contains(name));
    loaded.try_fold(false, |any, one| Ok(any || one?))
}

/// True if the class of `value`, or one that it is derived from, is of a framework.
pub(super) fn is_of_framework(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    for class in value.get_type().mro().iter() {
        let module = unless_raised(value.py(), class.getattr("__module__"))?;
        let module = module.and_then(|module| module.cast_into::<PyString>().ok());
        let Some(module) = module.as_ref().and_then(|module| module.to_str().ok()) else {
            continue;
        };
        let root = module.split('.').next().unwrap_or_default();
        if FRAMEWORKS.contains(&root) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The value that stands for an object.
pub(super) enum Replacement<'py> {
    By(Bound<'py, PyAny>),
    /// There is something, but to get it raised.
    Failed,
    None,
}

/// The value of an enum's member, or what `to_dict()` gives; of what is no model.
pub(super) fn replacement<'py>(value: &Bound<'py, PyAny>) -> PyResult<Replacement<'py>> {
    let py = value.py();
    let other = if ENUM.is_base_of(value)? {
        unless_raised(py, value.getattr("value"))?
    } else if has_method(value, "to_dict")? {
        unless_raised(py, value.call_method0("to_dict"))?
    } else {
        return Ok(Replacement::None);
    };
    Ok(other.map_or(Replacement::Failed, Replacement::By))
}

/// A class whose objects are models of pydantic, or say that they are.
pub(super) struct Model<'py> {
    class: Bound<'py, PyType>,
    /// The function that its `model_dump` calls, if it is pydantic's own.
    to_python: Option<Bound<'py, PyAny>>,
}

impl<'py> Model<'py> {
    /// The class of `value`, if it is one.
    pub(super) fn of(value: &Bound<'py, PyAny>) -> PyResult<Option<Model<'py>>> {
        if ENUM.is_base_of(value)? || !has_method(value, "model_dump")? {
            return Ok(None);
        }
        let class = value.get_type();
        let to_python = unless_raised(value.py(), to_python(&class))?.flatten();
        Ok(Some(Model { class, to_python }))
    }

    pub(super) fn is_class_of(&self, value: &Bound<'py, PyAny>) -> bool {
        value.get_type_ptr() == self.class.as_type_ptr()
    }

    /// The result of `model_dump`.
    pub(super) fn dump(&self, value: &Bound<'py, PyAny>) -> PyResult<Replacement<'py>> {
        let Some(to_python) = &self.to_python else {
            return dump(value);
        };
        let options = dump_options(value.py())?;
        match unless_raised(value.py(), to_python.call((value,), Some(options)))? {
            Some(dump) => Ok(Replacement::By(dump)),
            None => dump(value),
        }
    }
}

/// `to_python` of the serializer of `class`, if its `model_dump` is pydantic's, which passes its arguments on
/// to that and uses nothing else, as the names in its code show: to call it takes a quarter less.
fn to_python<'py>(class: &Bound<'py, PyType>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let modules = class.py().import("sys")?.getattr("modules")?;
    let pydantic = modules.get_item("pydantic.main")?;
    let plain = pydantic.getattr("BaseModel")?.getattr("model_dump")?;
    let names = plain.getattr("__code__")?.getattr("co_names")?;
    if !class.getattr("model_dump")?.is(&plain)
        || !names.eq(("__pydantic_serializer__", "to_python"))?
    {
        return Ok(None);
    }
    let serializer = class.getattr("__pydantic_serializer__")?;
    serializer.getattr("to_python").map(Some)
}

/// The dump of a model.
fn dump<'py>(value: &Bound<'py, PyAny>) -> PyResult<Replacement<'py>> {
    let py = value.py();
    let options = dump_options(py)?;
    let dump = value.call_method("model_dump", (), Some(options));
    let dump = match unless_raised(py, dump)? {
        Some(dump) => Some(dump),
        None => unless_raised(py, value.call_method0("model_dump"))?,
    };
    Ok(dump.map_or(Replacement::Failed, Replacement::By))
}

/// As the SDKs send a model: by alias, without what is unset; Python's own bytes and enums.
fn dump_options(py: Python<'_>) -> PyResult<&Bound<'_, PyDict>> {
    static OPTIONS: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let made = OPTIONS.get_or_try_init(py, || {
        let options = [
            ("by_alias", true),
            ("exclude_none", true),
            ("warnings", false),
        ];
        let options = options.into_py_dict(py)?;
        options.set_item("mode", "python")?;
        PyResult::Ok(options.unbind())
    });
    Ok(made?.bind(py))
}

fn has_method(value: &Bound<'_, PyAny>, name: &str) -> PyResult<bool> {
    let found = value.get_type().hasattr(name);
    Ok(unless_raised(value.py(), found)?.unwrap_or(false))
}

/// True if it is a mapping; `None` if it is neither that nor a sequence.
pub(super) fn is_mapping(value: &Bound<'_, PyAny>) -> PyResult<Option<bool>> {
    if MAPPING.is_base_of(value)? {
        return Ok(Some(true));
    }
    Ok(SEQUENCE.is_base_of(value)?.then_some(false))
}

/// The members of a mapping, as pairs, or the items of a sequence.
pub(super) fn iterate<'py>(
    value: &Bound<'py, PyAny>,
    is_mapping: bool,
) -> PyResult<Bound<'py, PyIterator>> {
    match is_mapping {
        true => value.call_method0("items")?.try_iter(),
        false => value.try_iter(),
    }
}

type Member<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// The fields of a dataclass, or the public attributes of any other object: those in its
/// `__dict__` and its `__slots__`. `None` if it can have neither or is no data.
pub(super) fn members<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Member<'py>>>> {
    if is_no_data(value)? {
        return Ok(None);
    }
    let py = value.py();
    match unless_raised(py, dataclass_fields(value))?.flatten() {
        Some(fields) => Ok(Some(fields)),
        None => Ok(unless_raised(py, public_attributes(value))?.flatten()),
    }
}

/// Classes, modules, functions, sets, and whatever would be used up by reading it.
fn is_no_data(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(value.is_instance_of::<PyType>()
        || value.is_instance_of::<PyModule>()
        || value.is_instance_of::<PySet>()
        || value.is_instance_of::<PyFrozenSet>()
        || value.is_callable()
        || has_method(value, "__next__")?
        || has_method(value, "__anext__")?)
}

fn dataclass_fields<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Member<'py>>>> {
    let class = value.get_type();
    if !class.hasattr("__dataclass_fields__")? {
        return Ok(None);
    }
    let fields = value
        .py()
        .import("dataclasses")?
        .call_method1("fields", (class,))?;
    let fields = fields.cast_into::<PyTuple>()?;
    let member = |field: Bound<'py, PyAny>| {
        let name = field.getattr("name")?;
        let attribute = value.getattr(name.cast::<PyString>()?)?;
        Ok((name, attribute))
    };
    fields.iter().map(member).collect::<PyResult<_>>().map(Some)
}

fn public_attributes<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Member<'py>>>> {
    let attributes = value.getattr_opt("__dict__")?;
    let attributes = attributes.and_then(|dict| dict.cast_into::<PyDict>().ok());
    let slots = slots(value)?;
    if attributes.is_none() && slots.is_empty() {
        return Ok(None);
    }
    let mut members: Vec<Member<'py>> = Vec::new();
    for name in slots.into_iter().filter(|name| is_public(name)) {
        if let Some(attribute) = value.getattr_opt(name.cast::<PyString>()?)? {
            members.push((name, attribute));
        }
    }
    let attributes = attributes.into_iter().flat_map(|dict| dict.iter());
    members.extend(attributes.filter(|(name, _)| is_public(name)));
    Ok(Some(members))
}

/// The names in the `__slots__` of the class and of those it is derived from, these first.
fn slots<'py>(value: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut names = Vec::new();
    for class in value.get_type().mro().iter().rev() {
        let own = class
            .getattr("__dict__")?
            .call_method1("get", ("__slots__",))?;
        if own.is_instance_of::<PyString>() {
            names.push(own);
        } else if let Ok(own) = own.cast::<PyTuple>() {
            names.extend(own.iter());
        } else if let Ok(own) = own.cast::<PyList>() {
            names.extend(own.iter());
        } else if let Ok(own) = own.cast::<PyDict>() {
            names.extend(own.keys());
        }
    }
    Ok(names)
}

fn is_public(name: &Bound<'_, PyAny>) -> bool {
    let name = name.cast::<PyString>().ok();
    name.is_some_and(|name| name.to_str().is_ok_and(|name| !name.starts_with('_')))
}
