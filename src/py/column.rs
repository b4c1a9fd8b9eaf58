//! A column of results: for lists, numpy and Arrow.
use super::arrow::{capsules, schema_capsule};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, StringArray, StructArray};
use arrow_schema::{DataType, Field};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList, PyTuple};
use std::sync::Arc;

/// A column of numbers or words, in which a row may be null.
#[pyclass(frozen, sequence, module = "tokenctx._core")]
pub(super) struct Column(ArrayRef);

impl Column {
    pub(super) fn numbers(numbers: Vec<Option<i64>>) -> Column {
        Column(Arc::new(Int64Array::from(numbers)))
    }

    pub(super) fn words<'w>(words: impl Iterator<Item = Option<&'w str>>) -> Column {
        Column(Arc::new(words.collect::<StringArray>()))
    }

    fn value<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Bound<'py, PyAny>> {
        if self.0.is_null(row) {
            return Ok(py.None().into_bound(py));
        }
        match self.0.data_type() {
            DataType::Int64 => self
                .0
                .as_primitive::<Int64Type>()
                .value(row)
                .into_bound_py_any(py),
            _ => self.0.as_string::<i32>().value(row).into_bound_py_any(py),
        }
    }
}

#[pymethods]
impl Column {
    /// A column of these numbers or words, as `kind` says: `int` or `str`; `None` is null.
    #[new]
    fn new(kind: &str, values: &Bound<'_, PyAny>) -> PyResult<Column> {
        match kind {
            "int" => Ok(Column::numbers(values.extract()?)),
            "str" => {
                let words: Vec<Option<String>> = values.extract()?;
                Ok(Column::words(words.iter().map(Option::as_deref)))
            }
            _ => Err(PyValueError::new_err(format!(
                "kind is {kind:?}; it must be int or str"
            ))),
        }
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, row: isize) -> PyResult<Bound<'py, PyAny>> {
        let origin = if row < 0 { self.0.len() } else { 0 };
        let place = origin
            .checked_add_signed(row)
            .filter(|&it| it < self.0.len());
        let place = place.ok_or_else(|| {
            PyIndexError::new_err(format!("row {row} of a column of {}", self.0.len()))
        })?;
        self.value(py, place)
    }

    #[getter]
    fn null_count(&self) -> usize {
        self.0.null_count()
    }

    /// The sum of the numbers that are there.
    fn sum(&self) -> PyResult<i128> {
        let numbers = self.0.as_primitive_opt::<Int64Type>().ok_or_else(|| {
            PyTypeError::new_err("a column of words has no sum; a column of numbers has")
        })?;
        Ok(numbers.iter().flatten().map(i128::from).sum())
    }

    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let rows = 0..self.0.len();
        let values: Vec<_> = rows
            .map(|row| self.value(py, row))
            .collect::<PyResult<_>>()?;
        PyList::new(py, values)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let _ = requested_schema; // a wish, and who asks must cope without
        capsules(py, &*self.0)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &*self.0)
    }

    /// A numpy array: int64, or float64 with NaN if a row is null; of words an array of objects.
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if copy == Some(false) {
            return Err(PyValueError::new_err(
                "a column cannot be a numpy array without a copy; leave copy out",
            ));
        }
        let numpy = py.import("numpy")?;
        let array = match self.0.as_primitive_opt::<Int64Type>() {
            Some(numbers) if numbers.null_count() == 0 => {
                let bytes = PyBytes::new_with(py, numbers.len() * 8, |bytes| {
                    let places = bytes.as_chunks_mut().0.iter_mut();
                    places
                        .zip(numbers.values())
                        .for_each(|(place, number)| *place = number.to_ne_bytes());
                    Ok(())
                })?;
                numpy.call_method1("frombuffer", (bytes, "int64"))?
            }
            Some(_) => numpy.call_method1("array", (self.tolist(py)?, "float64"))?,
            None => numpy.call_method1("array", (self.tolist(py)?, "object"))?,
        };
        match dtype.filter(|it| !it.is_none()) {
            Some(dtype) => array.call_method1("astype", (dtype,)),
            None => Ok(array),
        }
    }

    fn __eq__(&self, other: &Column) -> bool {
        self.0.to_data() == other.0.to_data()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let kind = match self.0.data_type() {
            DataType::Int64 => "int",
            _ => "str",
        };
        let class = py.get_type::<Column>();
        (class, (kind, self.tolist(py)?)).into_pyobject(py)
    }

    fn __repr__(&self) -> String {
        let (rows, nulls) = (self.0.len(), self.0.null_count());
        format!("<Column of {rows} rows, {nulls} null>")
    }
}

/// The capsules of a table of these columns.
#[pyfunction(name = "_table_capsules")]
pub(super) fn table_capsules<'py>(
    py: Python<'py>,
    columns: Vec<(String, Py<Column>)>,
) -> PyResult<Bound<'py, PyTuple>> {
    let columns = columns.iter().map(|(name, column)| {
        let array = column.get().0.clone();
        let field = Field::new(name, array.data_type().clone(), true);
        (Arc::new(field), array)
    });
    capsules(py, &StructArray::from(columns.collect::<Vec<_>>()))
}
