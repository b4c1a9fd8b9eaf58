//! Lines of requests, many by one call: the counts as the JSON lines that `tokenctx count --json` prints.
use crate::Error;
use crate::engine::estimate::{Estimate, RequestCount};
use crate::engine::input::Body;
use crate::json::{write_float, write_string};
use memchr::{memchr, memmem};
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Lines of one call, so that output, progress and signals have their turn.
const MOST_LINES: usize = 64;

/// A longer line is left to the caller, who can be interrupted while it is counted.
const MOST_BYTES: usize = 32 << 10;

/// A line that has this may wrap the request.
const WRAPPING: &[u8] = b"\"request\"";

/// The assumption about what may be no request at all: the caller looks.
const NO_MESSAGES: &str = "unknown_request";

/// The counts of some lines.
#[derive(Debug, Default)]
pub(crate) struct CountedLines {
    /// One JSON line for each line that was counted.
    pub text: String,
    /// Numbers of the lines that cannot be read, and the reasons.
    pub faults: Vec<(usize, Error)>,
    /// The byte at which the first line begins that was not counted.
    pub start: usize,
    /// The number of that line.
    pub number: usize,
    /// True if that line is left to the caller.
    pub is_left: bool,
}

impl CountedLines {
    /// Counts by `count` the lines of `content`, which has this name, from the byte `start` on, the first of which
    /// has the number `number`: until they are many, or one is left to the caller.
    pub(crate) fn new(
        content: &[u8],
        name: &str,
        (start, number): (usize, usize),
        count: impl Fn(&Body<'_>) -> Result<(RequestCount, Estimate), Error>,
    ) -> CountedLines {
        let mut lines = CountedLines {
            start,
            number,
            ..CountedLines::default()
        };
        for _ in 0..MOST_LINES {
            let Some(rest) = content.get(lines.start..).filter(|it| !it.is_empty()) else {
                break;
            };
            let line = &rest[..memchr(b'\n', rest).unwrap_or(rest.len())];
            let is_blank = line.iter().all(|&b| b == 0x0b || b.is_ascii_whitespace());
            if !is_blank {
                let is_hard = line.len() > MOST_BYTES || memmem::find(line, WRAPPING).is_some();
                // A line that panics is left to the caller too, to whom it will be an error.
                let counted = || catch_unwind(AssertUnwindSafe(|| count(&Body::Bytes(line)))).ok();
                match (!is_hard).then(counted).flatten() {
                    Some(Ok((count, estimate)))
                        if !estimate.assumptions.iter().any(|&it| it == NO_MESSAGES) =>
                    {
                        lines.write(name, &count, &estimate);
                    }
                    Some(Err(error)) => lines.faults.push((lines.number, error)),
                    _ => {
                        lines.is_left = true;
                        break;
                    }
                }
            }
            lines.start = content.len().min(lines.start + line.len() + 1);
            lines.number += 1;
        }
        lines
    }

    /// The fields of `Count.as_json` in `tokenctx._cli.inputs`. Writing to a string cannot fail.
    fn write(&mut self, name: &str, count: &RequestCount, estimate: &Estimate) {
        let (out, about) = (&mut self.text, &estimate.about);
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str("{\"name\":");
        write_string(name, out);
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
        out.push_str("],\"window_tokens\":");
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
