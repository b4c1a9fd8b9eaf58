//! Many rows by one call: read here, attached, a block at a time; counted by the core, detached.
use super::arrow::{Chunks, rows};
use super::call::CallContext;
use super::column::Column;
use super::document::from_object;
use super::encoding::{named, of_model};
use super::errors::{guard, interruptible};
use super::object::{Name, as_bytes, with_text};
use super::profile::table;
use crate::batch::{
    EstimateRow, Fault, Row, SeenPrefixes, Threads, WRAPPERS, counts, engine, estimates, lines,
};
use crate::engine::{self, Engine, Method, Settings};
use crate::json::Anomalies;
use pyo3::exceptions::{PyException, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyInt, PyString};

/// Rows that are held at once, so that a stream of any length takes little memory.
const MOST_ROWS: usize = 8192;

/// Bytes that are held at once, but for a row that has more.
const MOST_BYTES: usize = 16 << 20;

/// The columns of [`estimate_batch`]: tokens, low, high, output, quality, dialect, model, profile, assumptions, reason.
type EstimateColumns = (
    (Column, Column, Column, Column),
    (Column, Column, Column, Column, Column),
    Column,
);

/// The estimates of requests as columns.
#[pyfunction(name = "_estimate_batch")]
#[pyo3(signature = (secret, bodies, call, threads=None, *, method="profile", profile_rows=None))]
pub(super) fn estimate_batch(
    py: Python<'_>,
    secret: &[u8],
    bodies: &Bound<'_, PyAny>,
    call: &CallContext,
    threads: Option<usize>,
    method: &str,
    profile_rows: Option<&str>,
) -> PyResult<EstimateColumns> {
    let (engine, threads) = (alone(secret, method, profile_rows)?, chosen(threads)?);
    let call = call.at(0.0, 0);
    let mut done: Vec<Result<EstimateRow, Fault>> = Vec::new();
    each_block(py, bodies, Wants::Requests, |rows| {
        done.extend(estimates(&engine, rows, &call, threads));
    })?;
    let number = |of: fn(&EstimateRow) -> u64| {
        Column::numbers(
            done.iter()
                .map(|it| it.as_ref().ok().map(|it| signed(of(it))))
                .collect(),
        )
    };
    let word = |of: fn(&EstimateRow) -> &str| {
        Column::words(done.iter().map(|it| it.as_ref().ok().map(of)))
    };
    let output = |it: &Result<EstimateRow, Fault>| {
        it.as_ref()
            .ok()
            .and_then(|it| it.requested_output_tokens)
            .map(signed)
    };
    Ok((
        (
            number(|it| it.tokens),
            number(|it| it.low),
            number(|it| it.high),
            Column::numbers(done.iter().map(output).collect()),
        ),
        (
            word(|it| it.quality),
            word(|it| it.dialect),
            word(|it| &it.model),
            word(|it| &it.profile),
            word(|it| &it.assumptions),
        ),
        reasons(&done),
    ))
}

/// The tokens of texts, and why a row has none.
#[pyfunction(name = "_count_batch")]
#[pyo3(signature = (texts, encoding=None, model=None, threads=None))]
pub(super) fn count_batch(
    py: Python<'_>,
    texts: &Bound<'_, PyAny>,
    encoding: Option<&str>,
    model: Option<Name>,
    threads: Option<usize>,
) -> PyResult<(Column, Column)> {
    let encoding = match &model {
        Some(model) => of_model(&model.0)?,
        None => named(encoding.unwrap_or("o200k_base"))?,
    };
    let threads = chosen(threads)?;
    let mut done = Vec::new();
    each_block(py, texts, Wants::Texts, |rows| {
        let texts: Vec<_> = rows.iter().map(text_of).collect();
        done.extend(counts(&encoding, &texts, threads));
    })?;
    Ok((numbers(&done), reasons(&done)))
}

/// The tokens of requests that no request before them in the log had, and why a row has none.
#[pyfunction(name = "_unique_batch")]
#[pyo3(signature = (secret, bodies, call, threads=None))]
pub(super) fn unique_batch(
    py: Python<'_>,
    secret: &[u8],
    bodies: &Bound<'_, PyAny>,
    call: &CallContext,
    threads: Option<usize>,
) -> PyResult<(Column, Column)> {
    let (engine, threads) = (alone(secret, "profile", None)?, chosen(threads)?);
    let call = call.at(0.0, 0);
    let (mut seen, mut done) = (SeenPrefixes::default(), Vec::new());
    each_block(py, bodies, Wants::Requests, |rows| {
        done.extend(seen.unique(&engine, rows, &call, threads));
    })?;
    Ok((numbers(&done), reasons(&done)))
}

fn alone(secret: &[u8], method: &str, profile_rows: Option<&str>) -> PyResult<Engine> {
    let method = match method {
        "profile" => Method::Profile,
        "universal" => Method::Universal,
        _ => {
            return Err(PyValueError::new_err(format!(
                "method is {method:?}; of a batch it must be profile or universal"
            )));
        }
    };
    let settings = Settings {
        method,
        table: guard(|| table(profile_rows))?,
        ..Settings::default()
    };
    Ok(engine(secret, settings))
}

fn chosen(threads: Option<usize>) -> PyResult<Threads> {
    match threads {
        None => Ok(Threads::all()),
        Some(count) => Threads::new(count).ok_or_else(|| {
            PyValueError::new_err("threads is 0; it must be at least 1, or None for one a core")
        }),
    }
}

fn signed(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}

fn numbers(rows: &[Result<u64, Fault>]) -> Column {
    Column::numbers(rows.iter().map(|it| it.ok().map(signed)).collect())
}

fn reasons<T>(rows: &[Result<T, Fault>]) -> Column {
    Column::words(rows.iter().map(|it| it.as_ref().err().map(|it| it.code())))
}

/// The bytes of a text in a row.
fn text_of<'r>(row: &'r Row<'_>) -> Result<&'r [u8], Fault> {
    match row.as_ref().map_err(|fault| *fault)? {
        engine::Body::Bytes(bytes) => Ok(bytes),
        engine::Body::Text(text, _) => Ok(text.as_bytes()),
        engine::Body::Document(_) => Err(Fault::Type),
    }
}

/// The rows that a call takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wants {
    Requests,
    Texts,
}

/// Calls `work`, detached, with the rows of `column`, some at a time and in order.
fn each_block(
    py: Python<'_>,
    column: &Bound<'_, PyAny>,
    wants: Wants,
    mut work: impl FnMut(&[Row<'_>]) + Send,
) -> PyResult<()> {
    let mut detached = |rows: &[Row<'_>]| {
        let work = &mut work;
        // A signal is asked for from the first row on: all of them together are never few.
        guard(|| {
            interruptible(py, usize::MAX, || py.detach(|| work(rows)));
            Ok(())
        })
    };
    if let Some(mut chunks) = Chunks::of(column)? {
        while let Some(chunk) = chunks.next(py)? {
            for rows in rows(&*chunk).chunks(MOST_ROWS) {
                let bodies = rows
                    .iter()
                    .map(|it| it.map(engine::Body::Bytes).ok_or(Fault::Null));
                detached(&bodies.collect::<Vec<_>>())?;
            }
        }
        return Ok(());
    }
    let is_text = column.is_instance_of::<PyString>();
    if let (Wants::Requests, Some(content)) = (wants, buffer(column)?) {
        let mut lines = lines(content.as_bytes()).peekable();
        while lines.peek().is_some() {
            let rows = lines.by_ref().take(MOST_ROWS);
            let rows: Vec<_> = rows.map(|it| Ok(engine::Body::Bytes(it))).collect();
            detached(&rows)?;
        }
        return Ok(());
    }
    if is_text || as_bytes(column)?.is_some() || column.is_instance_of::<PyDict>() {
        return Err(PyTypeError::new_err(match wants {
            Wants::Texts => "texts is one text; it must be a list or a column of them",
            Wants::Requests => "bodies is one request; it must be a list or a column of them",
        }));
    }
    let mut items = column.try_iter().map_err(|error| no_rows(column, error))?;
    loop {
        let (mut held, mut bytes) = (Vec::new(), 0);
        while held.len() < MOST_ROWS && bytes < MOST_BYTES {
            let Some(item) = items.next() else { break };
            let row = Held::of(item?, wants)?;
            bytes += row.byte_count();
            held.push(row);
        }
        if held.is_empty() {
            return Ok(());
        }
        py.check_signals()?;
        let rows = held
            .iter_mut()
            .map(Held::row)
            .collect::<PyResult<Vec<_>>>()?;
        detached(&rows)?;
    }
}

fn no_rows(column: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    let class = column.get_type().name();
    let class = class.map_or_else(|_| "unknown".to_owned(), |it| it.to_string());
    match error.is_instance_of::<PyTypeError>(column.py()) {
        true => PyTypeError::new_err(format!(
            "a {class} has no rows; it must be an iterable of rows, JSON lines as bytes, or a column of Arrow"
        )),
        false => error,
    }
}

/// JSON lines in one buffer.
fn buffer<'py>(column: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    match column.cast::<PyString>() {
        Ok(text) => with_text(text, |text, _| {
            Some(PyBytes::new(column.py(), text.as_bytes()))
        }),
        Err(_) => as_bytes(column),
    }
}

/// A row as Python has it, held while it is counted.
enum Held<'py> {
    Bytes(Bound<'py, PyBytes>),
    Text(Bound<'py, PyString>),
    Repaired(String, Anomalies),
    Document(Option<engine::Body<'static>>),
    Fault(Fault),
}

impl<'py> Held<'py> {
    fn of(item: Bound<'py, PyAny>, wants: Wants) -> PyResult<Held<'py>> {
        if item.is_none() || item.cast::<PyFloat>().is_ok_and(|it| it.value().is_nan()) {
            return Ok(Held::Fault(Fault::Null));
        }
        if let Ok(text) = item.cast::<PyString>() {
            return match text.to_str() {
                Ok(_) => Ok(Held::Text(text.clone())),
                Err(_) => with_text(text, |text, anomalies| {
                    Held::Repaired(text.to_owned(), anomalies)
                }),
            };
        }
        if let Some(bytes) = as_bytes(&item)? {
            return Ok(Held::Bytes(bytes));
        }
        let is_number = item.is_instance_of::<PyInt>() || item.is_instance_of::<PyFloat>();
        if wants == Wants::Texts || is_number {
            return Ok(Held::Fault(Fault::Type));
        }
        let item = inside(&item)?.unwrap_or(item);
        match guard(|| from_object(&item)) {
            Ok(document) => Ok(Held::Document(Some(engine::Body::Document(document)))),
            Err(error) if error.is_instance_of::<PyException>(item.py()) => {
                Ok(Held::Fault(fault_of(item.py(), &error)))
            }
            Err(error) => Err(error),
        }
    }

    fn byte_count(&self) -> usize {
        match self {
            Held::Bytes(bytes) => bytes.as_bytes().len(),
            Held::Text(text) => text.len().unwrap_or(0),
            Held::Repaired(text, _) => text.len(),
            Held::Document(document) => document.as_ref().map_or(0, engine::Body::byte_count),
            Held::Fault(_) => 0,
        }
    }

    fn row(&mut self) -> PyResult<Row<'_>> {
        Ok(match self {
            Held::Bytes(bytes) => Ok(engine::Body::Bytes(bytes.as_bytes())),
            Held::Text(text) => Ok(engine::Body::Text(text.to_str()?, Anomalies::default())),
            Held::Repaired(text, anomalies) => Ok(engine::Body::Text(text, *anomalies)),
            Held::Document(document) => document.take().ok_or(Fault::Internal),
            Held::Fault(fault) => Err(*fault),
        })
    }
}

/// The request in the line of a vendor's batch file, if `item` can be one: a dict that is no request itself.
fn inside<'py>(item: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Ok(item) = item.cast_exact::<PyDict>() else {
        return Ok(None);
    };
    for field in ["messages", "contents", "input", "prompt"] {
        if item.contains(field)? {
            return Ok(None);
        }
    }
    for name in WRAPPERS {
        if let Some(inner) = item
            .get_item(name)?
            .filter(|it| it.is_instance_of::<PyDict>())
        {
            return Ok(Some(inner));
        }
    }
    Ok(None)
}

/// The fault of an object that was refused.
fn fault_of(py: Python<'_>, error: &PyErr) -> Fault {
    const CODES: [&str; 4] = ["too_deep", "too_large", "too_many_values", "no_messages"];
    let code = error
        .value(py)
        .getattr("code")
        .and_then(|it| it.extract::<String>());
    let known = code
        .ok()
        .and_then(|code| CODES.into_iter().find(|it| *it == code));
    known.map_or(Fault::Internal, Fault::Refused)
}

/// The rows of a column of Arrow as bytes; `None` for what is none.
#[pyfunction(name = "_arrow_rows")]
pub(super) fn arrow_rows<'py>(
    py: Python<'py>,
    column: &Bound<'py, PyAny>,
) -> PyResult<Option<Vec<Option<Bound<'py, PyBytes>>>>> {
    let Some(mut chunks) = Chunks::of(column)? else {
        return Ok(None);
    };
    let mut all = Vec::new();
    while let Some(chunk) = chunks.next(py)? {
        let bytes = rows(&*chunk).into_iter();
        all.extend(bytes.map(|it| it.map(|it| PyBytes::new(py, it))));
    }
    Ok(Some(all))
}
