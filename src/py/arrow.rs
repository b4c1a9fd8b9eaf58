//! Columns of others by Arrow's C interface, and ours for others. All `unsafe` of the binding is here.
//!
//! The argument: a capsule of one of the three names holds the struct of that name, as its protocol says
//! (Arrow PyCapsule interface), and nobody else reads it while this thread is attached to the interpreter. Each
//! struct is moved out of its capsule and an empty one left, so it is released once. That its buffers are as long
//! as its lengths say is the producer's promise; text is read as bytes, so nothing rests on its being UTF-8.
#![allow(unsafe_code, reason = "structs of C come by pointer")]
use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi};
use arrow_array::ffi_stream::ArrayStreamReader;
use arrow_array::{Array, ArrayReader, ArrayRef, BinaryArray, LargeBinaryArray, make_array};
use arrow_schema::{ArrowError, DataType};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use std::ffi::CStr;
use std::sync::Arc;

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

/// A column of another's, chunk by chunk.
pub(super) enum Chunks {
    Stream(ArrayStreamReader),
    Array(Option<ArrayRef>),
}

impl Chunks {
    /// The column that `object` is; `None` if it is not one of Arrow's, or cannot be without a package that is
    /// missing. TypeError for a table, ValueError for a broken one.
    pub(super) fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Chunks>> {
        let py = object.py();
        let chunks = match capsule(object, "__arrow_c_stream__")? {
            Some(stream) => {
                let stream = stream.cast_into::<PyCapsule>()?;
                let pointer = stream.pointer_checked(Some(STREAM))?;
                // SAFETY: the head of this file.
                let stream = unsafe { ArrayStreamReader::from_raw(pointer.cast().as_ptr()) };
                Chunks::Stream(stream.map_err(broken)?)
            }
            None => match capsule(object, "__arrow_c_array__")? {
                Some(pair) => {
                    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) =
                        pair.extract()?;
                    let schema = schema.pointer_checked(Some(SCHEMA))?;
                    let array = array.pointer_checked(Some(ARRAY))?;
                    // SAFETY: the head of this file.
                    let data = unsafe {
                        let schema = FFI_ArrowSchema::from_raw(schema.cast().as_ptr());
                        from_ffi(FFI_ArrowArray::from_raw(array.cast().as_ptr()), &schema)
                    };
                    Chunks::Array(Some(make_array(data.map_err(broken)?)))
                }
                None => return Ok(None),
            },
        };
        match chunks.kind() {
            Some(kind) if !is_text(&kind) => {
                Err(refused(&kind, &object.get_type().name()?.to_string()))
            }
            _ => {
                py.check_signals()?;
                Ok(Some(chunks))
            }
        }
    }

    fn kind(&self) -> Option<DataType> {
        match self {
            Chunks::Stream(stream) => Some(stream.field().data_type().clone()),
            Chunks::Array(array) => array.as_ref().map(|it| it.data_type().clone()),
        }
    }

    /// The next chunk, of bytes in place of text; what makes it may run Python.
    pub(super) fn next(&mut self, py: Python<'_>) -> PyResult<Option<ArrayRef>> {
        let next = match self {
            Chunks::Stream(stream) => py.detach(|| stream.next()),
            Chunks::Array(array) => array.take().map(Ok),
        };
        next.map(|it| it.map(as_bytes).map_err(broken)).transpose()
    }
}

/// The result of the method of this name; `None` without it, or where it needs a package that is missing.
fn capsule<'py>(object: &Bound<'py, PyAny>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = object.py();
    if !object.get_type().hasattr(name)? {
        return Ok(None);
    }
    match object.call_method0(name) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_instance_of::<pyo3::exceptions::PyImportError>(py) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_text(kind: &DataType) -> bool {
    use DataType::*;
    match kind {
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | Null => true,
        Dictionary(_, values) => !matches!(**values, Dictionary(..)) && is_text(values),
        _ => false,
    }
}

fn refused(kind: &DataType, class: &str) -> PyErr {
    PyTypeError::new_err(match kind {
        DataType::Struct(fields) => {
            let names: Vec<_> = fields.iter().take(8).map(|it| it.name().as_str()).collect();
            format!(
                "{class} is a table or a column of structs, with the fields {}; pass one column of text or bytes",
                names.join(", ")
            )
        }
        kind => format!(
            "{class} is a column of {kind}; it must be one of text or bytes (string, binary, their large and \
             view types, or a dictionary of them)"
        ),
    })
}

fn broken(error: ArrowError) -> PyErr {
    PyValueError::new_err(format!("the Arrow column cannot be read: {error}"))
}

/// The same column with bytes in place of text, nothing of it copied.
fn as_bytes(array: ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8 => Arc::new(BinaryArray::from(array.as_string::<i32>().clone())),
        DataType::LargeUtf8 => Arc::new(LargeBinaryArray::from(array.as_string::<i64>().clone())),
        DataType::Utf8View => Arc::new(array.as_string_view().clone().to_binary_view()),
        DataType::Dictionary(..) => {
            let values = as_bytes(array.as_any_dictionary().values().clone());
            array.as_any_dictionary().with_values(values)
        }
        _ => array,
    }
}

/// The bytes of each row of a chunk from [`Chunks::next`]; `None` for null.
pub(super) fn rows(array: &dyn Array) -> Vec<Option<&[u8]>> {
    match array.data_type() {
        DataType::Binary => array.as_binary::<i32>().iter().collect(),
        DataType::LargeBinary => array.as_binary::<i64>().iter().collect(),
        DataType::BinaryView => array.as_binary_view().iter().collect(),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let values = rows(&**dictionary.values());
            let is_null = |row: usize| dictionary.keys().is_null(row);
            // Without values every row is null, and there are no keys to speak of.
            let keys = match values.is_empty() {
                true => vec![0; array.len()],
                false => dictionary.normalized_keys(),
            };
            let keys = keys.into_iter().enumerate();
            keys.map(|(row, key)| match is_null(row) {
                true => None,
                false => values.get(key).copied().flatten(),
            })
            .collect()
        }
        _ => vec![None; array.len()],
    }
}

/// The capsules of `array` for others: its schema, and itself.
pub(super) fn capsules<'py>(py: Python<'py>, array: &dyn Array) -> PyResult<Bound<'py, PyTuple>> {
    let (array, schema) = to_ffi(&array.to_data()).map_err(broken)?;
    // What nobody takes over is released when the capsule dies.
    let array = PyCapsule::new_with_value(py, array, ARRAY)?;
    (self::schema(py, schema)?, array).into_pyobject(py)
}

fn schema(py: Python<'_>, schema: FFI_ArrowSchema) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, schema, SCHEMA)
}

/// The capsule of the type of `array`.
pub(super) fn schema_capsule<'py>(
    py: Python<'py>,
    array: &dyn Array,
) -> PyResult<Bound<'py, PyCapsule>> {
    schema(
        py,
        FFI_ArrowSchema::try_from(array.data_type()).map_err(broken)?,
    )
}
