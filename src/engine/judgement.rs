//! Judgement of a bill: whether it can be one of this prompt.
//!
//! What is recorded is believed by every later turn. Local servers cut a prompt that is longer than their window, say
//! nothing, and report what is left of it: that is no bill of this prompt, and is refused. Other bills may be sums of
//! several calls, counts of a framework, or half of the truth: what is far outside of the bounds of a sure count
//! teaches nothing. The next turn of its conversation goes on from it all the same: of the recorded conversations whose
//! bill is so, all went on at that total.
//!
//! A host may add a prompt of its own, which is in every bill and never grows. So a bill far above its count teaches
//! if another one of its context or conversation is above its count by as much, and the counts differ.
use crate::engine::drift::DriftWatch;
use crate::engine::estimate::{Estimate, GUESS_PREFIXES};
use crate::engine::guarded::Guarded;
use crate::engine::reading::Reading;
use crate::profile::Quality;
use crate::request::Part;
use lru::LruCache;
use std::num::NonZeroUsize;

/// The least tokens by which a count and a bill can be told apart: of a cut prompt, and of another bill, since what
/// hosts add is most of a short request.
const LEAST_TOKENS: u64 = 256;
const LEAST_FAR_TOKENS: u64 = 512;

/// The sizes of windows that servers are started with, as powers of two.
const WINDOW_BITS: std::ops::RangeInclusive<u32> = 10..=18;

/// Tokens by which a cut prompt is shorter than the window, at most.
const SLACK_TOKENS: u64 = 8;

/// A bill is far outside that is a quarter and 64 tokens beyond the bounds of a count. Of 12,453 recorded calls with a
/// sure count, 103 are, most by a prompt of their host, 2026-11; with half in place of a quarter 85 are, so what
/// is outside is mostly far outside.
const FAR_SHARE: u64 = 4;
const FAR_TOKENS: u64 = 64;

/// Two counts tell a prompt of the host from a bill that grows with its request if they differ by so many tokens.
const LEAST_GROWTH: u64 = 24;

/// What a host adds is the same in two bills, but for these tokens and this share of the difference of their counts.
const SURPLUS_TOKENS: u64 = 4;
const SURPLUS_SHARE: u64 = 8;

/// Beginnings of the assumptions about what a count does not hold, though it is sure of the rest.
const OPEN_PREFIXES: [&str; 6] = [
    "builtin_tool",
    "opaque_",
    "flat_",
    "compacted_",
    "edited_",
    "failed_",
];

const SURPLUSES: NonZeroUsize = NonZeroUsize::new(4096).expect("not 0");

/// The reason why a bill is not believed.
///
/// ```
/// let doubt = tokenctx::Doubt::TruncatedByServer;
/// assert_eq!((doubt.name(), doubt.is_refusal()), ("truncated_by_server", true));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// It is below the count, and as long as a window or half of one: the server has cut the prompt.
    TruncatedByServer,
    /// It is far outside of the bounds of a sure count. A host may add to a prompt or cut it, so the next turn goes on
    /// from it; but it may be a sum of calls, or half of one, so it teaches nothing.
    FarFromCount,
}

impl Doubt {
    /// `"truncated_by_server"`, `"far_from_count"`.
    pub fn name(self) -> &'static str {
        match self {
            Doubt::TruncatedByServer => "truncated_by_server",
            Doubt::FarFromCount => "far_from_count",
        }
    }

    /// True if the bill is not even kept for its own request.
    pub fn is_refusal(self) -> bool {
        self == Doubt::TruncatedByServer
    }
}

/// Count and bill of the last bill far above its count, by context and by conversation.
#[derive(Debug)]
struct Surpluses(LruCache<u64, (u64, u64)>);

impl Default for Surpluses {
    fn default() -> Surpluses {
        Surpluses(LruCache::new(SURPLUSES))
    }
}

/// What a judge remembers, shared by threads.
#[derive(Debug, Default)]
pub(super) struct Judge(Guarded<Surpluses>);

impl Judge {
    /// Why `billed` input tokens are not those of the request that counts so in whole; `None` if they may be.
    ///
    /// A count that is a guess, or that does not hold all, refuses nothing; nor does one whose provider has lately begun
    /// to count otherwise.
    pub(super) fn doubt(
        &self,
        reading: &Reading<'_>,
        count: &Estimate,
        billed: u64,
        watch: &DriftWatch,
    ) -> Option<Doubt> {
        let has = |prefixes: &[&str]| {
            let begins = |name: &&str| prefixes.iter().any(|it| name.starts_with(it));
            count.assumptions.iter().any(begins)
        };
        if count.quality == Quality::Heuristic || has(&GUESS_PREFIXES) {
            return None;
        }
        if is_cut(count.tokens, billed) {
            return Some(Doubt::TruncatedByServer);
        }
        let provider = (&*reading.profile.name, &*reading.host);
        let is_far = is_far(count, billed)
            && !has(&OPEN_PREFIXES)
            && !lacks_tools(reading)
            && watch.unsettled(provider, &reading.tenant.suffix).is_none()
            && !self.has_same_surplus(reading, count.tokens, billed);
        is_far.then_some(Doubt::FarFromCount)
    }

    /// True if another bill is above its count by as much. Remembers this one.
    fn has_same_surplus(&self, reading: &Reading<'_>, counted: u64, billed: u64) -> bool {
        if billed <= counted {
            return false;
        }
        let keys = reading.prefixes.iter().take(2).map(|it| it.word());
        self.0.with(|Surpluses(all)| {
            let mut is_same = false;
            for key in keys {
                let other = all.put(key, (counted, billed));
                is_same |= other.is_some_and(|it| is_same_surplus(it, (counted, billed)));
            }
            is_same
        })
    }

    /// Forgets all.
    pub(super) fn clear(&self) {
        self.0.with(|Surpluses(all)| all.clear());
    }
}

/// True if `billed` input tokens are such that the request has to be counted in whole for a judgement.
///
/// What was `expected` may come from other bills, so it decides nothing.
pub(super) fn is_doubtful(expected: &Estimate, billed: u64) -> bool {
    is_cut(expected.low, billed) || is_far(expected, billed)
}

/// True if there are calls and no tools: no provider takes that, so what was sent had more.
fn lacks_tools(reading: &Reading<'_>) -> bool {
    let mut parts = reading.request.messages.iter().flat_map(|it| &it.parts);
    let is_call = |it: &Part<'_>| matches!(it, Part::ToolCall(_) | Part::ToolResult(_));
    reading.request.tools.is_empty() && parts.any(is_call)
}

/// True if `billed` is what a server leaves of a prompt of `counted` tokens that it cuts.
fn is_cut(counted: u64, billed: u64) -> bool {
    counted >= LEAST_TOKENS && billed < counted - counted / 8 && is_window(billed)
}

/// True if `billed` is far outside of the bounds of a `count`. None of no tokens is: that is a failed call.
fn is_far(count: &Estimate, billed: u64) -> bool {
    let beyond = |bound: u64| (bound / FAR_SHARE).saturating_add(FAR_TOKENS);
    let least = count.low.saturating_sub(beyond(count.low));
    let most = count.high.saturating_add(beyond(count.high));
    count.tokens >= LEAST_FAR_TOKENS && billed > 0 && (billed < least || billed > most)
}

/// True if both bills are above their counts by as much, and the counts differ.
fn is_same_surplus(one: (u64, u64), other: (u64, u64)) -> bool {
    let growth = one.0.abs_diff(other.0);
    let (one, other) = (one.1.saturating_sub(one.0), other.1.saturating_sub(other.0));
    growth >= LEAST_GROWTH && one.abs_diff(other) <= SURPLUS_TOKENS + growth / SURPLUS_SHARE
}

/// True for the length of a prompt that was cut to a window, or to half of one and two tokens, as Ollama does.
fn is_window(tokens: u64) -> bool {
    WINDOW_BITS.into_iter().any(|bits| {
        let window = 1_u64 << bits;
        let whole = window.saturating_sub(SLACK_TOKENS)..=window;
        whole.contains(&tokens) || tokens == window / 2 + 2
    })
}
