//! The answers of an engine: to an estimate, and to a record.
use super::drift::Drift;
use super::estimate::Estimate;
use super::judgement::Doubt;
use super::lesson::{Billed, Reply};
use super::shared::{SharedEntry, Wanted};
use crate::known::digest::Digest;

/// The answer of an engine for a request.
///
/// ```
/// # use tokenctx::{Alone, Answer, Body, Call, Engine, Settings};
/// # let engine = Engine::new(b"a secret of 16 bytes or more", Settings::default());
/// # let body = Body::Bytes(br#"{"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}"#);
/// match engine.estimate(&body, &Call::default(), 8, &Alone)? {
///     Answer::Estimate(estimate) => assert_eq!(estimate.tokens, 8),
///     Answer::Wanted(wanted) => println!("ask a store for {} prefixes", wanted.prefixes.len()),
/// }
/// # Ok::<(), tokenctx::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "nearly all are estimates")]
pub enum Answer {
    /// Its cost.
    Estimate(Estimate),
    /// A question to others, who may know more than this process.
    Wanted(Wanted),
}

/// A prefix of a request, and the tokens up to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedPrefix {
    pub digest: Digest,
    pub tokens: u64,
}

/// A recorded call.
///
/// ```
/// # use tokenctx::{Alone, Billed, Body, Call, Engine, ReplyFault, Settings};
/// # let engine = Engine::new(b"a secret of 16 bytes or more", Settings::default());
/// # let body = Body::Bytes(br#"{"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}"#);
/// let billed = Billed { input_tokens: 9, output_tokens: 5, ..Billed::default() };
/// let reply = Body::Bytes(b"not JSON");
/// let record = engine.record(&body, billed, Some(&reply), &Call::default(), &Alone)?;
/// let record = record.expect("input was billed");
/// assert_eq!((record.expected.tokens, record.reply_fault), (8, Some(ReplyFault::Unreadable)));
/// # Ok::<(), tokenctx::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The estimate that the request would have had before.
    pub expected: Estimate,
    /// The reason why its reply is not known with it, if one was given.
    pub reply_fault: Option<ReplyFault>,
    /// Entries that other processes may take over, if the call wants them.
    pub entries: Vec<SharedEntry>,
    /// The change of the provider that its bill has shown, if it was the one to do so.
    pub drift: Option<Drift>,
    /// The reason why the bill is not believed: then nothing is learned from it, and nothing recorded if it is refused.
    pub doubt: Option<Doubt>,
}

/// The reason why a call is recorded without its reply.
///
/// ```
/// assert_eq!(tokenctx::ReplyFault::WithoutOutput.name(), "reply_without_output");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyFault {
    /// No JSON, or beyond a limit.
    Unreadable,
    /// JSON in which there is no answer, or more than one.
    NotUnderstood,
    /// The usage has no output, so the tokens of the reply are not known.
    WithoutOutput,
}

impl ReplyFault {
    /// `"reply_unreadable"`, `"reply_not_understood"`, `"reply_without_output"`.
    pub fn name(self) -> &'static str {
        match self {
            ReplyFault::Unreadable => "reply_unreadable",
            ReplyFault::NotUnderstood => "reply_not_understood",
            ReplyFault::WithoutOutput => "reply_without_output",
        }
    }

    pub(super) fn of(reply: &Reply<'_, '_>, billed: Billed) -> Option<ReplyFault> {
        match reply.is_understood {
            false => Some(ReplyFault::NotUnderstood),
            true => (billed.output_tokens == 0).then_some(ReplyFault::WithoutOutput),
        }
    }
}
