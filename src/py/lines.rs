//! Lines of requests, many by one call: the counts as the JSON lines that `tokenctx count --json` prints.
use super::document::Attaching;
use super::engine::{PyEngine, text};
use super::errors::guard;
use super::object::Name;
use super::request;
use crate::engine::{Body, Call, Engine, Estimate, RequestCount};
use crate::json::{write_float, write_string};
use memchr::{memchr, memmem};
use pyo3::prelude::*;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Lines of one call, so that output, progress and signals have their turn.
const MOST_LINES: usize = 64;

/// A longer line is left to the caller, who can be interrupted while it is counted.
const MOST_BYTES: usize = 32 << 10;

/// A line that has this may wrap the request.
const WRAPPING: &[u8] = b"\"request\"";

/// The counts, the lines that cannot be read with the reasons, and where what was not read begins: the byte,
/// the number of its line, and whether that line is left to the caller.
type Counted<'py> = (String, Vec<(usize, Bound<'py, PyAny>)>, usize, usize, bool);

/// Counts the lines of `content` from the byte `start` on, the first of which has the number `number`.
#[pyfunction(name = "_count_lines")]
#[allow(clippy::too_many_arguments)]
pub(super) fn count_lines<'py>(
    py: Python<'py>,
    engine: &PyEngine,
    content: &[u8],
    start: usize,
    number: usize,
    name: Name,
    model: Option<Name>,
    dialect: Option<&str>,
    provider: Option<Name>,
    now_seconds: f64,
) -> PyResult<Counted<'py>> {
    let call = Call {
        model: text(&model),
        dialect: request::dialect(dialect)?,
        provider: text(&provider),
        now_seconds,
        ..Call::default()
    };
    let mut lines = Lines {
        engine: &engine.0,
        call,
        name: &name.0,
        out: String::new(),
        bad: Vec::new(),
        at: start,
        number,
    };
    let is_left = guard(|| Ok(py.detach(|| lines.count(content))))?;
    let Lines {
        out,
        bad,
        at,
        number,
        ..
    } = lines;
    let bad = bad.into_iter().map(|(number, error)| {
        let error = PyErr::from(error).into_value(py);
        (number, error.into_bound(py).into_any())
    });
    Ok((out, bad.collect(), at, number, is_left))
}

struct Lines<'a> {
    engine: &'a Engine,
    call: Call<'a>,
    name: &'a str,
    out: String,
    bad: Vec<(usize, crate::Error)>,
    at: usize,
    number: usize,
}

impl Lines<'_> {
    /// Counts lines until they are many, or one is left to the caller.
    fn count(&mut self, content: &[u8]) -> bool {
        for _ in 0..MOST_LINES {
            let Some(rest) = content.get(self.at..).filter(|rest| !rest.is_empty()) else {
                return false;
            };
            let line = &rest[..memchr(b'\n', rest).unwrap_or(rest.len())];
            let is_blank = line.iter().all(|&b| b == 0x0b || b.is_ascii_whitespace());
            if !is_blank {
                if line.len() > MOST_BYTES || memmem::find(line, WRAPPING).is_some() {
                    return true;
                }
                // What panics is left to the caller too, to whom it will be an error.
                let body = Body::Bytes(line);
                let both = || {
                    self.engine
                        .count_and_estimate(&body, &self.call, &Attaching)
                };
                match catch_unwind(AssertUnwindSafe(both)) {
                    Ok(Ok((count, estimate))) => self.write(&count, &estimate),
                    Ok(Err(error)) => self.bad.push((self.number, error)),
                    Err(_) => return true,
                }
            }
            self.at = content.len().min(self.at + line.len() + 1);
            self.number += 1;
        }
        false
    }

    /// The fields of `Count.as_json` in `tokenctx._cli.inputs`. Writing to a string cannot fail.
    fn write(&mut self, count: &RequestCount, estimate: &Estimate) {
        let (out, about) = (&mut self.out, &estimate.about);
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str("{\"name\":");
        write_string(self.name, out);
        out.pop();
        let _ = write!(
            out,
            ":{}\",\"kind\":\"jsonl\",\"tokens\":{},\"low\":{},\"high\":{},\"quality\":\"{}\"",
            self.number,
            estimate.tokens,
            estimate.low,
            estimate.high,
            estimate.quality.name(),
        );
        for (key, value) in [
            (",\"counted_with\":", &*count.encoding),
            (",\"profile\":", &about.profile),
            (",\"dialect\":", about.dialect.name()),
            (",\"model\":", &about.model),
        ] {
            out.push_str(key);
            write_string(value, out);
        }
        let _ = write!(out, ",\"context_tokens\":{}", count.context_tokens);
        out.push_str(",\"message_tokens\":[");
        for (nth, tokens) in count.message_tokens.iter().enumerate() {
            let comma = if nth == 0 { "" } else { "," };
            let _ = write!(out, "{comma}{tokens}");
        }
        let window = about.limits.window_tokens.filter(|&window| window != 0);
        out.push_str("],\"context_window_tokens\":");
        write_or_null(window, out, |window, out| out.push_str(&window.to_string()));
        out.push_str(",\"assumptions\":[");
        for (nth, name) in estimate.assumptions.iter().enumerate() {
            out.push_str(if nth == 0 { "" } else { "," });
            write_string(name, out);
        }
        out.push_str("],\"note\":\"\",\"window_share\":");
        let share = window.map(|window| share(estimate.tokens, window));
        write_or_null(share, out, write_float);
        out.push('}');
    }
}

/// Tokens by the window to six decimals, of two that are as near the even one, as Python rounds.
#[allow(clippy::cast_precision_loss, reason = "numbers of tokens are exact")]
fn share(tokens: u64, window: u64) -> f64 {
    let share = tokens as f64 / window as f64;
    format!("{share:.6}").parse().unwrap_or(share)
}

fn write_or_null<T>(value: Option<T>, out: &mut String, write: impl FnOnce(T, &mut String)) {
    match value {
        Some(value) => write(value, out),
        None => out.push_str("null"),
    }
}
