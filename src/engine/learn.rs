//! Learning: the constants of a model, from recorded calls.
//!
//! A [`Lesson`] is one recorded call: what was counted, by feature, and by how much the bill
//! differs. A [`Learner`] explains the differences by one correction for each feature, with
//! recursive least squares. The corrections start at 0 with a prior spread, an outlier moves them
//! no further than [`OUTLIER_SIGMA`] says, and what is old is forgotten, since providers change how
//! they count. Nothing is corrected until corrected counts have been nearer to the bill than plain
//! ones; so a model whose constants are right is left alone.
use crate::known::digest::Digest;
use lru::LruCache;
use std::num::NonZeroUsize;

/// Number of features; see [`Features`].
pub const FEATURE_COUNT: usize = 9;

/// How wrong each constant may be before anything is recorded: standard deviations, as shares of
/// what was counted for text, tools, schema and media, in tokens for the others.
const PRIOR_SPREAD: [f64; FEATURE_COUNT] = [20.0, 0.15, 3.0, 0.3, 150.0, 8.0, 15.0, 0.5, 0.5];

/// Standard deviations that a surprise counts for at most.
const OUTLIER_SIGMA: f64 = 3.0;

/// The weight of older calls after one more call, as a share of their weight before.
const FORGETTING: f64 = 0.98;

/// The error that no constant explains: a token, and shares of the counted and of the derived tokens.
const NOISE: (f64, f64, f64) = (1.0, 0.01, 0.02);

/// Wins over the plain count, less losses, are kept up to this number.
const MAX_WINS: i32 = 8;

/// Calls without a dispute after which bounds are those of corrected counts alone.
const UNDISPUTED_CALLS: u32 = 32;

/// A plain count disputes a correction if it is off by no more than these tokens and this share, or nearer by more.
const DISPUTE_TOKENS: u64 = 2;
const DISPUTE_SHARE: u64 = 50;

/// Models that are remembered; the least recently used goes first.
const MODELS: NonZeroUsize = NonZeroUsize::new(1024).expect("not 0");

/// Corrections leave the process after these numbers of calls, and after each multiple of the last.
const SHARED_AFTER: [u32; 4] = [2, 4, 8, 16];

/// Other processes are asked about a model once in this time.
const ASK_SECONDS: f64 = 60.0;

/// The counted parts of a call, by the constants of a profile that apply to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// 1 if all but the messages was counted, else 0.
    pub requests: u64,
    /// Tokens of text and of all that is not below.
    pub text_tokens: u64,
    /// Messages.
    pub messages: u64,
    /// Tokens of tool definitions and tool choice.
    pub tools_tokens: u64,
    /// 1 if tools were counted, else 0.
    pub tool_sets: u64,
    /// Tool definitions.
    pub tools: u64,
    /// Tool calls and tool results.
    pub calls: u64,
    /// Tokens of an output schema.
    pub schema_tokens: u64,
    /// Tokens of images and files.
    pub media_tokens: u64,
}

impl Features {
    #[allow(
        clippy::cast_precision_loss,
        reason = "a count of tokens is below 2^53"
    )]
    fn vector(&self) -> [f64; FEATURE_COUNT] {
        [
            self.requests,
            self.text_tokens,
            self.messages,
            self.tools_tokens,
            self.tool_sets,
            self.tools,
            self.calls,
            self.schema_tokens,
            self.media_tokens,
        ]
        .map(|number| number.min(1 << 40) as f64)
    }
}

/// One recorded call, as far as it was counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Lesson {
    /// The name of all models that share its constants.
    pub model: String,
    /// The counted parts.
    pub features: Features,
    /// Tokens that were counted.
    pub counted: u64,
    /// Billed tokens of the same.
    pub billed: u64,
    /// Tokens of the known prefix that were not billed as input when they became known.
    pub derived: u64,
    /// Comparisons that corrected counts have lost before anything is recorded.
    pub prior_losses: i32,
}

/// The corrections of one model.
#[derive(Clone, Debug, PartialEq)]
pub struct Learner {
    corrections: [f64; FEATURE_COUNT],
    covariance: [[f64; FEATURE_COUNT]; FEATURE_COUNT],
    wins: i32,
    calls: u32,
    /// Calls since a plain count was right, or clearly nearer to the bill than the corrected one.
    undisputed: u32,
}

impl Learner {
    /// A learner that knows nothing, and whose corrections have lost `prior_losses` comparisons.
    pub fn new(prior_losses: i32) -> Learner {
        Learner {
            corrections: [0.0; FEATURE_COUNT],
            covariance: prior(),
            wins: -prior_losses,
            calls: 0,
            undisputed: UNDISPUTED_CALLS,
        }
    }

    /// Calls that it has learned from.
    pub fn calls(&self) -> u32 {
        self.calls
    }

    /// True if other processes should know of it now: its corrections are in use, and it has learned
    /// enough since they last left the process.
    pub fn is_to_be_shared(&self) -> bool {
        let [.., last] = SHARED_AFTER;
        let is_due = self.calls.is_multiple_of(last) || SHARED_AFTER.contains(&self.calls);
        self.wins > 0 && self.calls > 0 && is_due && !self.is_disputed()
    }

    /// `counted` tokens after correction: at least a quarter, at most four times and 1,000 more.
    pub fn corrected(&self, features: &Features, counted: u64) -> u64 {
        match self.wins > 0 {
            true => bounded(counted, self.surplus(&features.vector())),
            false => counted,
        }
    }

    /// True if bills have lately contradicted its corrections: some of them may be no bills of their requests.
    pub fn is_disputed(&self) -> bool {
        self.undisputed < UNDISPUTED_CALLS
    }

    /// Learns from one call.
    #[allow(
        clippy::cast_precision_loss,
        reason = "a count of tokens is below 2^53"
    )]
    pub fn learn(&mut self, lesson: &Lesson) {
        let features = lesson.features.vector();
        let surplus = self.surplus(&features);
        let corrected = bounded(lesson.counted, surplus).abs_diff(lesson.billed);
        let plain = lesson.counted.abs_diff(lesson.billed);
        let won = i32::from(corrected < plain) - i32::from(corrected > plain);
        self.wins = (self.wins + won).clamp(-MAX_WINS, MAX_WINS);
        self.calls = self.calls.saturating_add(1);
        let slack = DISPUTE_TOKENS + lesson.counted / DISPUTE_SHARE;
        let is_dispute = plain <= slack || plain.saturating_add(slack) < corrected;
        self.undisputed = match is_dispute {
            true => 0,
            false => UNDISPUTED_CALLS.min(self.undisputed + 1),
        };

        let spread: [f64; FEATURE_COUNT] =
            std::array::from_fn(|row| dot(&self.covariance[row], &features));
        let (token, counted, derived) = NOISE;
        let noise = token + counted * lesson.counted as f64 + derived * lesson.derived as f64;
        let variance = dot(&features, &spread) + noise * noise;
        let limit = OUTLIER_SIGMA * variance.sqrt();
        let surprise = lesson.billed as f64 - lesson.counted as f64 - surplus;
        let surprise = surprise.clamp(-limit, limit);
        let prior = prior();
        for row in 0..FEATURE_COUNT {
            let gain = spread[row] / variance;
            self.corrections[row] += gain * surprise;
            for column in 0..FEATURE_COUNT {
                let known = self.covariance[row][column] - gain * spread[column];
                self.covariance[row][column] =
                    FORGETTING * known + (1.0 - FORGETTING) * prior[row][column];
            }
        }
    }

    fn surplus(&self, features: &[f64; FEATURE_COUNT]) -> f64 {
        dot(&self.corrections, features)
    }

    /// Calls, lead, then corrections and covariance, row by row.
    pub fn export(&self) -> (u32, i32, Vec<f64>) {
        let covariance = self.covariance.iter().flatten();
        let numbers = self.corrections.iter().chain(covariance).copied();
        (self.calls, self.wins, numbers.collect())
    }

    /// The learner that [`Learner::export`] gave the numbers of; `None` if the numbers cannot be such.
    pub fn import(calls: u32, wins: i32, numbers: &[f64]) -> Option<Learner> {
        let (corrections, covariance) = numbers.split_at_checked(FEATURE_COUNT)?;
        let is_sane = |number: &f64| number.abs() <= MAX_NUMBER;
        if covariance.len() != FEATURE_COUNT * FEATURE_COUNT || !numbers.iter().all(is_sane) {
            return None;
        }
        let mut learner = Learner::new(0);
        learner.wins = wins.clamp(-MAX_WINS, MAX_WINS);
        learner.calls = calls;
        learner.corrections.copy_from_slice(corrections);
        for (row, numbers) in covariance.chunks(FEATURE_COUNT).enumerate() {
            learner.covariance[row].copy_from_slice(numbers);
        }
        Some(learner)
    }

    /// Calls, lead, corrections, and the half of the covariance that its symmetry leaves open: 32 bits
    /// each, low bytes first.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a correction is not known to 24 bits"
    )]
    pub fn pack(&self) -> Vec<u8> {
        let half = self.covariance.iter().enumerate();
        let half = half.flat_map(|(row, numbers)| &numbers[row..]);
        let numbers = self.corrections.iter().chain(half);
        let head = [self.calls.to_le_bytes(), self.wins.to_le_bytes()];
        let numbers = numbers.map(|number| (*number as f32).to_le_bytes());
        head.into_iter().chain(numbers).flatten().collect()
    }

    /// The learner that [`Learner::pack`] gave the bytes of; `None` if the bytes cannot be such.
    pub fn unpack(packed: &[u8]) -> Option<Learner> {
        let (words, []) = packed.as_chunks::<4>() else {
            return None;
        };
        let (calls, rest) = words.split_first()?;
        let (wins, rest) = rest.split_first()?;
        let numbers = rest.iter().map(|it| f64::from(f32::from_le_bytes(*it)));
        let numbers: Vec<f64> = numbers.collect();
        let (corrections, half) = numbers.split_at_checked(FEATURE_COUNT)?;
        let places =
            (0..FEATURE_COUNT).flat_map(|row| (row..FEATURE_COUNT).map(move |it| (row, it)));
        let mut half = half.iter();
        let mut covariance = [[0.0; FEATURE_COUNT]; FEATURE_COUNT];
        for (row, column) in places {
            covariance[row][column] = *half.next()?;
            covariance[column][row] = covariance[row][column];
        }
        let all = [corrections, covariance.as_flattened()].concat();
        let [calls, wins] = [calls, wins].map(|it| u32::from_le_bytes(*it));
        let learner = Learner::import(calls, wins.cast_signed(), &all);
        learner.filter(|_| half.next().is_none())
    }
}

/// No correction or covariance is larger.
const MAX_NUMBER: f64 = 1e6;

/// The corrections of many models, bounded.
#[derive(Debug)]
pub struct Learners {
    learned: LruCache<String, Learner>,
    asked: LruCache<String, Asked>,
}

/// When other processes were asked about a model, and by what name.
#[derive(Debug)]
struct Asked {
    name: Digest,
    seconds: f64,
}

impl Default for Learners {
    fn default() -> Learners {
        Learners {
            learned: LruCache::new(MODELS),
            asked: LruCache::new(MODELS),
        }
    }
}

impl Learners {
    /// The learner of `model`.
    pub fn get(&mut self, model: &str) -> Option<Learner> {
        self.learned.get(model).cloned()
    }

    /// Learns from one call; what is known of its model then.
    pub fn learn(&mut self, lesson: &Lesson) -> &Learner {
        let new = || Learner::new(lesson.prior_losses);
        let learner = self.learned.get_or_insert_mut(lesson.model.clone(), new);
        learner.learn(lesson);
        learner
    }

    /// The `name` by which other processes know `model`, if they are to be asked about it now: they were not
    /// asked lately. Then they have been.
    pub fn ask(
        &mut self,
        model: &str,
        name: impl FnOnce() -> Digest,
        now_seconds: f64,
    ) -> Option<Digest> {
        if let Some(asked) = self.asked.get_mut(model) {
            let is_due = now_seconds - asked.seconds >= ASK_SECONDS;
            return is_due.then(|| {
                asked.seconds = now_seconds;
                asked.name
            });
        }
        let (name, seconds) = (name(), now_seconds);
        self.asked.put(model.to_owned(), Asked { name, seconds });
        Some(name)
    }

    /// Takes over what another process has learned of the model that was asked for by `name`, if it has
    /// learned from more calls.
    pub fn take(&mut self, name: Digest, learner: Learner) {
        let asked = self.asked.iter().find(|(_, it)| it.name == name);
        let Some((model, _)) = asked else { return };
        let own = self.learned.peek(model).map_or(0, Learner::calls);
        if learner.calls > own {
            let model = model.clone();
            self.set(model, learner);
        }
    }

    /// Lets all models of `profile` that one of the tenants uses learn quickly again, since their provider
    /// has changed.
    pub fn reopen(&mut self, profile: &str, tenants: &[String]) {
        let is_its = |model: &str| {
            let tenant = model.rfind('@').map_or("", |at| &model[at..]);
            model.split('/').next() == Some(profile) && tenants.iter().any(|it| it == tenant)
        };
        for (_, learner) in self.learned.iter_mut().filter(|(model, _)| is_its(model)) {
            learner.covariance = prior();
            learner.wins = learner.wins.max(0);
        }
    }

    /// Sets the learner of `model`.
    pub fn set(&mut self, model: String, learner: Learner) {
        self.learned.put(model, learner);
    }

    /// All models, the least recently used first.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Learner)> {
        let all = self.learned.iter().rev();
        all.map(|(model, it)| (&**model, it))
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Learners::default();
    }
}

fn prior() -> [[f64; FEATURE_COUNT]; FEATURE_COUNT] {
    let mut prior = [[0.0; FEATURE_COUNT]; FEATURE_COUNT];
    for (index, spread) in PRIOR_SPREAD.iter().enumerate() {
        prior[index][index] = spread * spread;
    }
    prior
}

fn dot(left: &[f64; FEATURE_COUNT], right: &[f64; FEATURE_COUNT]) -> f64 {
    left.iter().zip(right).fold(0.0, |sum, (a, b)| sum + a * b)
}

/// `counted` and `surplus`, rounded and bounded.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count of tokens is below 2^53, and a float that is too large saturates"
)]
fn bounded(counted: u64, surplus: f64) -> u64 {
    let corrected = (counted as f64 + surplus + 0.5).floor().max(0.0) as u64;
    let most = counted.saturating_mul(4).saturating_add(1000);
    corrected.clamp(counted / 4, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lesson(text: u64, messages: u64, bill: impl Fn(u64, u64) -> u64) -> Lesson {
        let counted = 3 + text + 4 * messages;
        Lesson {
            model: "any".to_owned(),
            features: Features {
                requests: 1,
                text_tokens: counted,
                messages,
                ..Features::default()
            },
            counted,
            billed: bill(text, messages),
            derived: 0,
            prior_losses: 0,
        }
    }

    #[test]
    fn finds_the_constants() {
        let bill = |text: u64, messages: u64| 40 + text * 11 / 10 + 6 * messages;
        let mut learner = Learner::new(0);
        for nth in 0..40 {
            learner.learn(&lesson(100 + nth * 37 % 400, 1 + nth % 7, bill));
        }
        let next = lesson(250, 3, bill);
        let corrected = learner.corrected(&next.features, next.counted);
        assert!(corrected.abs_diff(next.billed) <= 4);
        assert!(next.counted.abs_diff(next.billed) > 40);
    }

    #[test]
    fn leaves_right_constants_alone() {
        let mut learner = Learner::new(0);
        for nth in 0..100 {
            let outlier = if nth % 10 == 0 { 500 } else { 0 };
            learner.learn(&lesson(100 + nth, 1 + nth % 5, |text, messages| {
                3 + text + 4 * messages + outlier
            }));
            let next = lesson(80, 2, |_, _| 0);
            assert_eq!(
                learner.corrected(&next.features, next.counted),
                next.counted
            );
        }
    }

    #[test]
    fn stays_finite_and_bounded_whatever_is_billed() {
        let mut learner = Learner::new(-8);
        for nth in 0..1000_u64 {
            let huge = if nth % 2 == 0 { u64::MAX >> 24 } else { 1 };
            learner.learn(&lesson(huge / (1 + nth), nth % 900, |_, _| huge));
            let (_, _, numbers) = learner.export();
            assert!(numbers.iter().all(|number| number.is_finite()));
            assert!(learner.corrected(&Features::default(), 100) <= 1400);
        }
    }

    #[test]
    fn a_copy_goes_on_as_the_original() {
        let mut learner = Learner::new(2);
        learner.learn(&lesson(10, 1, |_, _| 77));
        let (calls, wins, numbers) = learner.export();
        assert_eq!(Learner::import(calls, wins, &numbers), Some(learner));
        assert_eq!(Learner::import(0, 0, &numbers[1..]), None);
        assert_eq!(Learner::import(0, 0, &[f64::NAN; 90]), None);
    }

    #[test]
    fn what_leaves_the_process_corrects_alike() {
        let mut learner = Learner::new(0);
        for nth in 0..16 {
            assert!(nth < 2 || learner.is_to_be_shared() == SHARED_AFTER.contains(&nth));
            learner.learn(&lesson(400, 1 + u64::from(nth), |text, _| text + 900));
        }
        let packed = learner.pack();
        let copy = Learner::unpack(&packed).expect("it was packed");
        let next = lesson(700, 3, |_, _| 0);
        let corrected = |it: &Learner| it.corrected(&next.features, next.counted);
        assert_eq!(corrected(&copy), corrected(&learner));
        assert_eq!((copy.calls(), packed.len()), (16, 224));
        assert_eq!(copy.pack(), packed);
        let twice = [&packed[..], &packed].concat();
        for wrong in [&packed[..220], &packed[1..], &[0xff; 224], &twice] {
            assert_eq!(Learner::unpack(wrong), None);
        }
    }

    #[test]
    fn others_are_asked_once_a_minute_and_believed_if_they_know_more() {
        let (mut learners, name) = (Learners::default(), Digest([7; 16]));
        let ask = |learners: &mut Learners, now| learners.ask("any", || name, now);
        assert_eq!(ask(&mut learners, 5.0), Some(name));
        assert_eq!(ask(&mut learners, 64.0), None);
        assert_eq!(ask(&mut learners, 65.0), Some(name));
        let mut other = Learner::new(0);
        other.learn(&lesson(10, 1, |_, _| 77));
        learners.take(Digest([8; 16]), other.clone());
        assert_eq!(learners.get("any"), None);
        learners.take(name, other.clone());
        assert_eq!(learners.get("any").as_ref(), Some(&other));
        learners.learn(&lesson(10, 1, |_, _| 78));
        learners.take(name, other);
        assert_eq!(learners.get("any").map(|it| it.calls()), Some(2));
    }
}
