//! Input tokens of many requests.
use crate::Error;
use crate::batch::fault::Fault;
use crate::batch::split::Threads;
use crate::batch::wrapped::inside;
use crate::engine::{Alone, Answer, Body, Call, Engine, Estimate};

/// The assumption about what may be no request at all.
const NO_REQUEST: &str = "unknown_request";

/// A row of a batch of requests.
pub type Row<'b> = Result<Body<'b>, Fault>;

/// The columns of an estimate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EstimateRow {
    /// Input tokens.
    pub tokens: u64,
    /// Lower bound.
    pub low: u64,
    /// Upper bound.
    pub high: u64,
    /// The most output that the body asks for, if it says so.
    pub requested_output_tokens: Option<u64>,
    /// How it was counted.
    pub quality: &'static str,
    /// The format of the body.
    pub dialect: &'static str,
    /// The model as the body or the caller names it.
    pub model: String,
    /// The profile that it is counted with.
    pub profile: String,
    /// The names of all guesses, joined by commas.
    pub assumptions: String,
}

impl EstimateRow {
    fn of(estimate: Estimate) -> EstimateRow {
        let names: Vec<_> = estimate.assumptions.iter().copied().collect();
        EstimateRow {
            tokens: estimate.tokens,
            low: estimate.low,
            high: estimate.high,
            requested_output_tokens: estimate.about.requested_output_tokens,
            quality: estimate.quality.name(),
            dialect: estimate.about.dialect.name(),
            model: estimate.about.model,
            profile: estimate.about.profile,
            assumptions: names.join(","),
        }
    }
}

/// The estimate of each of `bodies`, as [`Engine::estimate`] gives it, and of the request in a line of a vendor's
/// batch file; `engine` is that of [`super::engine`]. Linear in them.
///
/// ```
/// use tokenctx::batch::{Fault, Threads, engine, estimates};
/// use tokenctx::{Body, Call, Settings};
///
/// let engine = engine(b"a secret of 16 bytes or more", Settings::default());
/// let body = br#"{"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}"#;
/// let rows = [Ok(Body::Bytes(body)), Ok(Body::Bytes(b"{")), Err(Fault::Null)];
/// let done = estimates(&engine, &rows, &Call::default(), Threads::all());
/// assert_eq!(done[0].as_ref().map(|it| it.tokens), Ok(8));
/// assert_eq!(done[1], Err(Fault::Refused("truncated")));
/// assert_eq!(done[2], Err(Fault::Null));
/// ```
pub fn estimates(
    engine: &Engine,
    bodies: &[Row<'_>],
    call: &Call<'_>,
    threads: Threads,
) -> Vec<Result<EstimateRow, Fault>> {
    threads.run((bodies.len(), byte_count(bodies)), |row| {
        let body = bodies[row].as_ref().map_err(|fault| *fault)?;
        let found = estimate(engine, body, call)?;
        // What is no request may be a line of a vendor's batch file.
        let inner = is_no_request(&found).then(|| inside(body)).flatten();
        let inner = inner.and_then(|it| estimate(engine, &it, call).ok());
        let inner = inner.filter(|it| !is_no_request(it));
        Ok(EstimateRow::of(inner.unwrap_or(found)))
    })
}

fn estimate(engine: &Engine, body: &Body<'_>, call: &Call<'_>) -> Result<Estimate, Error> {
    match engine.estimate(body, call, 0, &Alone)? {
        Answer::Estimate(estimate) => Ok(estimate),
        Answer::Wanted(_) => unreachable!("no prefix is wanted"),
    }
}

fn is_no_request(estimate: &Estimate) -> bool {
    estimate.assumptions.iter().any(|&it| it == NO_REQUEST)
}

pub(super) fn byte_count(bodies: &[Row<'_>]) -> usize {
    bodies.iter().flatten().map(Body::byte_count).sum()
}
