//! Drift: whether a provider has begun to count otherwise, told from bills.
//!
//! Requests differ, and so do the errors of their counts; what a request's own kind was off by before
//! differs less. So a bill is compared with the usual error of its context: system prompt and tools, or
//! the tools alone where that system prompt is new. What has neither in common with others says nothing. A [`Watch`] adds up
//! by how much surprises in one direction outnumber what is usual: a cumulative sum (CUSUM) for each
//! profile at each host: log-likelihoods of many surprises against as many as are usual. The same
//! context counts for less each time, since one odd application is no change of the provider.
//!
//! Only requests of which nothing was known are looked at: in a difference of two bills what is constant
//! is gone, and calls of one conversation say the same thing again.
use crate::engine::guarded::Guarded;
use lru::LruCache;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};

/// Least share of bills that are surprises in one direction while nothing has changed.
const USUAL_SHARE: f64 = 0.12;

/// What is taken for usual is more than what was seen, since surprises come in runs.
const CAUTION: f64 = 1.25;

/// What was seen is an average of about so many bills.
const SLOW: f64 = 512.0;

/// Share of the bills that are no surprises now and would be none after a change, too.
const UNCHANGED_SHARE: f64 = 0.45;

/// Sum of log-likelihoods that is an alarm: one false alarm in e^18 bills, which is a month with 2,000,000 a day.
const ALARM: f64 = 18.0;

/// An alarm needs surprises of so many contexts, or more evidence: one application may change too.
const LEAST_CONTEXTS: u32 = 3;

/// Surprises of one context after which a further one counts for half.
const HALF_WEIGHT: f64 = 12.0;

/// What is usual in a context is told by so many bills, before which none is a surprise.
const MEMORY: usize = 24;

/// One in so many surprises becomes usual: what stays surprising is usual in the end.
const LEARNED_SURPRISES: u32 = 8;

/// A bill is a surprise that is further off than three of four are, times this.
const WIDTH: f64 = 2.0;

const HALF: (usize, usize) = (1, 2);
const WIDE: (usize, usize) = (3, 4);

/// What framing and rounding make, in tokens, and of a count.
const NOISE: (f64, f64) = (1.5, 0.002);

/// Bills after an alarm in which bounds are wider.
const UNSETTLED_BILLS: u32 = 200;

/// The size of a change is a median of the newest surprises.
const MAX_SURPRISES: usize = 64;

const SERIES: NonZeroUsize = NonZeroUsize::new(256).expect("not 0");
const CONTEXTS: NonZeroUsize = NonZeroUsize::new(4096).expect("not 0");

/// A change in how a provider counts, as its bills have told it.
///
/// ```
/// let told: Vec<tokenctx::Drift> = Vec::new(); // Engine::drifts, or Record::drift
/// assert!(told.iter().all(|drift| drift.bills > 0));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// What the models concerned are counted with.
    pub profile: String,
    /// Who answers, where that is known; else empty.
    pub host: String,
    /// When the first of the surprising bills came, in seconds since 1970.
    pub since_unix_seconds: u64,
    /// When it was told.
    pub told_unix_seconds: u64,
    /// How much more is billed for a request than before: the median, in tokens.
    pub tokens: i64,
    /// The same as permille of what is counted.
    pub permille: i64,
    /// Bills that have shown it.
    pub bills: u32,
}

/// One bill of a request of which nothing was known.
#[derive(Clone, Debug)]
pub(super) struct Observation {
    pub profile: String,
    pub host: String,
    /// Whose it is: what stands behind the names of its models where something is learned.
    pub tenant: String,
    /// System prompt and tools, then the tools alone if there are any; of its tenant.
    pub contexts: [u64; 2],
    pub counted: u64,
    pub billed: u64,
}

/// By how much the newest bills of one context exceed their counts.
#[derive(Clone, Copy, Debug, Default)]
struct Usual {
    /// Errors in tokens, and the counts they are of.
    newest: [(f64, f64); MEMORY],
    bills: usize,
    surprises: u32,
    /// Surprises in the runs of these numbers: more billed, and less.
    runs: [(u64, u32); 2],
}

/// What one profile at one host has shown.
#[derive(Clone, Debug, Default)]
struct Series {
    /// More is billed, and less is billed.
    sums: [Sum; 2],
    /// Unlike all others, and another after each change: what was usual before it is forgotten.
    number: u64,
    last: Option<Drift>,
    /// Tenants whose bills have shown the last change; it changes nothing for others.
    tenants: Vec<String>,
    bills_since: u32,
}

/// A cumulative sum since it was 0.
#[derive(Clone, Debug, Default)]
struct Sum {
    evidence: f64,
    /// Share of surprises so far, and when the run began.
    usual_share: f64,
    share_before: f64,
    run: u64,
    since_unix_seconds: u64,
    bills: u32,
    /// Contexts whose bills they are.
    contexts: u32,
    /// The newest surprises: tokens and shares.
    surprises: Vec<(f64, f64)>,
    tenants: Vec<String>,
}

/// Bills of all profiles, bounded.
#[derive(Debug)]
struct Watch {
    series: LruCache<(String, String), Series>,
    usual: LruCache<(u64, u64), Usual>,
    /// The last of the numbers that tell series and runs apart.
    numbers: u64,
}

impl Default for Watch {
    fn default() -> Watch {
        Watch {
            series: LruCache::new(SERIES),
            usual: LruCache::new(CONTEXTS),
            numbers: 0,
        }
    }
}

impl Watch {
    /// Looks at one bill; the change that it shows to have happened, if it does, with the tenants whose
    /// bills have shown it.
    fn observe(&mut self, seen: &Observation, unix_seconds: u64) -> Option<(Drift, Vec<String>)> {
        let key = (seen.profile.clone(), seen.host.clone());
        let numbers = &mut self.numbers;
        let series = self.series.get_or_insert_mut(key, || Series {
            number: next(numbers),
            ..Series::default()
        });
        series.bills_since = series.bills_since.saturating_add(1);
        let [own, tools] = seen.contexts.map(|context| (context, series.number));
        let has_own = self.usual.peek(&own).is_some_and(Usual::is_known);
        let asked = if has_own { own } else { tools };
        let mut surprise = None;
        let all = [own, tools];
        for key in all.into_iter().take(1 + usize::from(tools != own)) {
            let usual = self.usual.get_or_insert_mut(key, Usual::default);
            if key == asked && usual.is_known() {
                surprise = Some(usual.surprise(seen.counted, seen.billed));
            }
            let is_surprised = key == asked && surprise.is_some_and(|it| it.is_beyond);
            usual.surprises = usual.surprises.wrapping_add(u32::from(is_surprised));
            if !is_surprised || usual.surprises.is_multiple_of(LEARNED_SURPRISES) {
                usual.learn(seen.counted, seen.billed);
            }
        }
        let surprise = surprise?;
        let usual = self.usual.get_mut(&asked)?;
        let sides = series.sums.iter_mut().zip(&mut usual.runs);
        for ((sum, run), sign) in sides.zip([1.0, -1.0]) {
            let is_surprise = surprise.is_beyond && surprise.tokens * sign > 0.0;
            sum.add(
                is_surprise.then_some(surprise),
                run,
                &mut self.numbers,
                unix_seconds,
            );
            if is_surprise {
                sum.join(&seen.tenant);
            }
            if sum.is_alarm() {
                let tenants = std::mem::take(&mut sum.tenants);
                let drift = sum.drift(seen, unix_seconds);
                *series = Series {
                    number: next(&mut self.numbers),
                    last: Some(drift.clone()),
                    tenants: tenants.clone(),
                    ..Series::default()
                };
                return Some((drift, tenants));
            }
        }
        None
    }

    /// What has changed lately at a host with a profile, as tokens of a count of `counted`; 0 for a tenant
    /// whose own bills have not shown it.
    fn unsettled_tokens(
        &mut self,
        (profile, host): (&str, &str),
        tenant: &str,
        counted: u64,
    ) -> u64 {
        let key = (profile.to_owned(), host.to_owned());
        let series = self.series.peek(&key);
        let series = series.filter(|it| {
            it.bills_since < UNSETTLED_BILLS && it.tenants.iter().any(|it| it == tenant)
        });
        let Some(drift) = series.and_then(|it| it.last.as_ref()) else {
            return 0;
        };
        let share = counted.saturating_mul(drift.permille.unsigned_abs()) / 1000;
        share.max(drift.tokens.unsigned_abs())
    }

    /// Whether bounds are wider anywhere.
    fn is_unsettled(&self) -> bool {
        let mut all = self.series.iter().map(|(_, series)| series);
        all.any(|it| it.last.is_some() && it.bills_since < UNSETTLED_BILLS)
    }

    /// The last change of each profile at each host.
    fn drifts(&self) -> impl Iterator<Item = &Drift> {
        self.series.iter().filter_map(|(_, it)| it.last.as_ref())
    }
}

/// A [`Watch`] that threads share.
#[derive(Debug, Default)]
pub(super) struct DriftWatch {
    watch: Guarded<Watch>,
    /// True if a provider has lately changed how it counts. Mostly none has, and the lock is not needed then.
    is_unsettled: AtomicBool,
}

impl DriftWatch {
    /// As [`Watch::observe`].
    pub(super) fn observe(
        &self,
        seen: &Observation,
        unix_seconds: u64,
    ) -> Option<(Drift, Vec<String>)> {
        self.watch.with(|watch| {
            let change = watch.observe(seen, unix_seconds);
            self.is_unsettled
                .store(watch.is_unsettled(), Ordering::Relaxed);
            change
        })
    }

    /// As [`Watch::unsettled_tokens`].
    pub(super) fn unsettled_tokens(
        &self,
        provider: (&str, &str),
        tenant: &str,
        counted: u64,
    ) -> u64 {
        if !self.is_unsettled.load(Ordering::Relaxed) {
            return 0;
        }
        self.watch
            .with(|watch| watch.unsettled_tokens(provider, tenant, counted))
    }

    /// The last change of each profile at each host.
    pub(super) fn drifts(&self) -> Vec<Drift> {
        self.watch.with(|watch| watch.drifts().cloned().collect())
    }

    pub(super) fn clear(&self) {
        self.watch.with(|watch| *watch = Watch::default());
        self.is_unsettled.store(false, Ordering::Relaxed);
    }
}

fn next(numbers: &mut u64) -> u64 {
    *numbers = numbers.wrapping_add(1);
    *numbers
}

/// What a bill has that its context has usually not.
#[derive(Clone, Copy, Debug)]
struct Surprise {
    tokens: f64,
    share: f64,
    is_beyond: bool,
}

impl Usual {
    fn is_known(&self) -> bool {
        self.bills >= MEMORY
    }

    /// What is left of the error of a bill.
    ///
    /// Errors grow with the request or do not: the nearer of both is what was to be expected.
    fn surprise(&self, counted: u64, billed: u64) -> Surprise {
        let bill = error(counted, billed);
        let errors = self.newest.iter();
        let tokens = quantile(errors.clone().map(|it| it.0), HALF);
        let share = quantile(errors.clone().map(|it| it.0 / it.1), HALF);
        let rest = |(error, scale): (f64, f64)| {
            let (fixed, grown) = (error - tokens, error - share * scale);
            if fixed.abs() < grown.abs() {
                fixed
            } else {
                grown
            }
        };
        let usual = quantile(errors.map(|it| rest(*it).abs() / it.1), WIDE);
        let (tokens, scale) = (rest(bill), bill.1);
        let reach = NOISE.0.max(NOISE.1 * scale).max(WIDTH * usual * scale);
        Surprise {
            tokens,
            share: tokens / scale,
            is_beyond: tokens.abs() > reach,
        }
    }

    fn learn(&mut self, counted: u64, billed: u64) {
        self.newest[self.bills % MEMORY] = error(counted, billed);
        self.bills = self.bills.saturating_add(1);
    }
}

/// How much more is billed than counted, and the scale of that: some more than the count.
fn error(counted: u64, billed: u64) -> (f64, f64) {
    (number(billed) - number(counted), number(counted) + 20.0)
}

/// The number below which `share` of `numbers` are; 0 of none.
fn quantile(numbers: impl Iterator<Item = f64>, (part, whole): (usize, usize)) -> f64 {
    let mut sorted: Vec<f64> = numbers.collect();
    sorted.sort_by(f64::total_cmp);
    let place = sorted.len() * part / whole;
    sorted.get(place).copied().unwrap_or_default()
}

impl Sum {
    fn is_alarm(&self) -> bool {
        let is_of_few = self.contexts < LEAST_CONTEXTS;
        self.evidence >= if is_of_few { 1.25 * ALARM } else { ALARM }
    }

    fn add(
        &mut self,
        surprise: Option<Surprise>,
        run: &mut (u64, u32),
        numbers: &mut u64,
        now: u64,
    ) {
        if self.evidence == 0.0 {
            self.share_before = self.usual_share;
        }
        let before = (CAUTION * self.share_before).clamp(USUAL_SHARE, 0.9);
        let after = 1.0 - UNCHANGED_SHARE * (1.0 - before);
        let is_surprise = f64::from(u8::from(surprise.is_some()));
        self.usual_share += (is_surprise - self.usual_share) / SLOW;
        let Some(surprise) = surprise else {
            self.evidence = (self.evidence + UNCHANGED_SHARE.ln()).max(0.0);
            return;
        };
        if self.evidence == 0.0 {
            *self = Sum {
                run: next(numbers),
                since_unix_seconds: now,
                usual_share: self.usual_share,
                share_before: self.share_before,
                ..Sum::default()
            };
        }
        if run.0 != self.run {
            *run = (self.run, 0);
            self.contexts = self.contexts.saturating_add(1);
        }
        let weight = HALF_WEIGHT / (HALF_WEIGHT + f64::from(run.1));
        run.1 = run.1.saturating_add(1);
        self.evidence += weight * (after / before).ln();
        self.bills = self.bills.saturating_add(1);
        if self.surprises.len() == MAX_SURPRISES {
            self.surprises.remove(0);
        }
        self.surprises.push((surprise.tokens, surprise.share));
    }

    /// Counts a tenant in.
    fn join(&mut self, tenant: &str) {
        if self.tenants.len() < MAX_SURPRISES && !self.tenants.iter().any(|it| it == tenant) {
            self.tenants.push(tenant.to_owned());
        }
    }

    fn drift(&self, seen: &Observation, unix_seconds: u64) -> Drift {
        let surprises = self.surprises.iter();
        let tokens = quantile(surprises.clone().map(|it| it.0), HALF);
        let share = quantile(surprises.map(|it| it.1), HALF);
        Drift {
            profile: seen.profile.clone(),
            host: seen.host.clone(),
            since_unix_seconds: self.since_unix_seconds,
            told_unix_seconds: unix_seconds,
            tokens: rounded(tokens),
            permille: rounded(1000.0 * share),
            bills: self.bills,
        }
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "a float that is too large saturates"
)]
fn rounded(number: f64) -> i64 {
    number.round() as i64
}

#[allow(
    clippy::cast_precision_loss,
    reason = "a count of tokens is below 2^53"
)]
fn number(tokens: u64) -> f64 {
    tokens.min(1 << 40) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random: 0 to `below`.
    fn draws(below: u64) -> impl FnMut() -> u64 {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        }
    }

    /// One of `contexts` applications, each off by a share of its own.
    fn seen(
        draw: &mut impl FnMut() -> u64,
        contexts: u64,
        billed: impl Fn(u64) -> u64,
    ) -> Observation {
        let context = draw() % contexts;
        let counted = 200 + draw() % 3000;
        let usual = counted + context * 3 + counted * (draw() % 4) / 100;
        Observation {
            profile: "any".to_owned(),
            host: String::new(),
            tenant: String::new(),
            contexts: [1000 + context; 2],
            counted,
            billed: billed(usual),
        }
    }

    /// Bills until the alarm, after 2,000 that are usual.
    fn delay(contexts: u64, billed: impl Fn(u64) -> u64) -> Option<(usize, Drift)> {
        let (mut watch, mut draw) = (Watch::default(), draws(1 << 40));
        for _ in 0..2000 {
            assert_eq!(watch.observe(&seen(&mut draw, contexts, |it| it), 10), None);
        }
        (1..400).find_map(|nth| {
            let (drift, _) = watch.observe(&seen(&mut draw, contexts, &billed), 20)?;
            Some((nth, drift))
        })
    }

    #[test]
    fn a_hidden_prompt_is_seen_by_few_bills_and_measured() {
        for contexts in [1, 3, 50] {
            let (bills, drift) = delay(contexts, |it| it + 300).expect("a change");
            assert!(bills <= 60, "{bills} bills of {contexts} contexts");
            assert!((260..=340).contains(&drift.tokens), "{drift:?}");
            assert!((10..=20).contains(&drift.since_unix_seconds) && drift.told_unix_seconds == 20);
        }
    }

    #[test]
    fn another_tokenizer_is_seen_in_both_directions() {
        let (_, more) = delay(20, |it| it * 13 / 10).expect("a change");
        let (_, less) = delay(20, |it| it * 8 / 10).expect("a change");
        assert!((250..=350).contains(&more.permille) && (-250..=-150).contains(&less.permille));
    }

    #[test]
    fn a_new_application_is_no_change() {
        let (mut watch, mut draw) = (Watch::default(), draws(1 << 40));
        for context in 0..300 {
            for _ in 0..10 {
                let mut one = seen(&mut draw, 5, |it| it);
                one.contexts = [50_000 + context; 2];
                one.billed += context % 7 * 100;
                assert_eq!(watch.observe(&one, 0), None);
            }
        }
    }

    #[test]
    fn one_odd_bill_in_ten_is_no_change() {
        let (mut watch, mut draw) = (Watch::default(), draws(1 << 40));
        for _ in 0..200_000 {
            let odd = if draw() % 10 == 0 { 900 } else { 0 };
            assert_eq!(watch.observe(&seen(&mut draw, 40, |it| it + odd), 0), None);
        }
    }

    #[test]
    fn bounds_are_wider_until_it_has_settled() {
        let (mut watch, mut draw) = (Watch::default(), draws(1 << 40));
        let told = |watch: &mut Watch, draw: &mut _, more| {
            watch.observe(&seen(draw, 9, |it| it + more), 0).is_some()
        };
        for _ in 0..400 {
            assert!(!told(&mut watch, &mut draw, 0));
        }
        assert!((0..60).any(|_| told(&mut watch, &mut draw, 500)));
        assert!(watch.is_unsettled());
        assert!(watch.unsettled_tokens(("any", ""), "", 1000) >= 450);
        assert_eq!(watch.unsettled_tokens(("other", ""), "", 1000), 0);
        assert_eq!(watch.unsettled_tokens(("any", ""), "@alice", 1000), 0);
        for _ in 0..UNSETTLED_BILLS {
            assert!(!told(&mut watch, &mut draw, 500));
        }
        assert_eq!((watch.is_unsettled(), watch.drifts().count()), (false, 1));
    }

    #[test]
    fn stays_finite_whatever_is_billed() {
        let mut watch = Watch::default();
        for nth in 0..2000_u64 {
            let one = Observation {
                profile: format!("profile {}", nth % 600),
                host: "any".to_owned(),
                tenant: format!("@{nth}"),
                contexts: [nth, nth % 3],
                counted: nth * (u64::MAX / 2000),
                billed: u64::MAX >> (nth % 64),
            };
            watch.observe(&one, nth);
        }
        assert!(watch.series.len() <= SERIES.get() && watch.usual.len() <= CONTEXTS.get());
    }
}
