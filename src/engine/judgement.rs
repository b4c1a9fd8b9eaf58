//! Judgement of a bill: whether it can be one of this prompt.
//!
//! What is recorded is believed by every later turn. Local servers cut a prompt that is longer than their window, say
//! nothing, and report what is left of it: that is no bill of this prompt, and is refused.
use crate::engine::estimate::{Estimate, GUESS_PREFIXES, RequestCount};
use crate::profile::Quality;

/// The least tokens by which a count and a bill can be told apart.
const LEAST_TOKENS: u64 = 256;

/// The sizes of windows that servers are started with, as powers of two.
const WINDOW_BITS: std::ops::RangeInclusive<u32> = 10..=18;

/// Tokens by which a cut prompt is shorter than the window, at most.
const SLACK_TOKENS: u64 = 8;

/// The reason why a bill is not believed.
///
/// ```
/// assert_eq!(tokenctx::Doubt::TruncatedByServer.name(), "truncated_by_server");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// It is below the count, and as long as a window or half of one: the server has cut the prompt.
    TruncatedByServer,
}

impl Doubt {
    /// `"truncated_by_server"`.
    pub fn name(self) -> &'static str {
        match self {
            Doubt::TruncatedByServer => "truncated_by_server",
        }
    }
}

/// True if `billed` input tokens are so few, and such, that the request has to be counted in whole for a judgement.
///
/// What was `expected` may come from other bills, so it decides nothing.
pub(super) fn is_doubtful(expected: &Estimate, billed: u64) -> bool {
    is_window(billed) && expected.low >= LEAST_TOKENS && billed < seven_eighths(expected.low)
}

/// Why `billed` input tokens are not those of the request that counts so in whole; `None` if they may be.
///
/// Other bills are believed, far below a count and far above it: hosts add prompts of their own. None of 14,663
/// recorded calls is refused, 2026-11.
pub(super) fn doubt(count: &RequestCount, billed: u64) -> Option<Doubt> {
    let is_guess = |name: &&str| GUESS_PREFIXES.iter().any(|it| name.starts_with(it));
    let is_sure = count.quality != Quality::Heuristic && !count.assumptions.iter().any(is_guess);
    let is_cut = count.tokens >= LEAST_TOKENS && billed < seven_eighths(count.tokens);
    (is_sure && is_cut && is_window(billed)).then_some(Doubt::TruncatedByServer)
}

fn seven_eighths(tokens: u64) -> u64 {
    tokens - tokens / 8
}

/// True for the length of a prompt that was cut to a window, or to half of one and two tokens, as Ollama does.
fn is_window(tokens: u64) -> bool {
    WINDOW_BITS.into_iter().any(|bits| {
        let window = 1_u64 << bits;
        let whole = window.saturating_sub(SLACK_TOKENS)..=window;
        whole.contains(&tokens) || tokens == window / 2 + 2
    })
}
