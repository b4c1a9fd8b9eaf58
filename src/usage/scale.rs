//! Tokens of a real context window in the measure of an assumed one, in whole numbers.
//!
//! ```
//! use tokenctx::usage::scale::{Rounding, Scale};
//!
//! let scale = Scale::new(vec![(128_000, 200_000)], Rounding::Floor).unwrap();
//! assert_eq!(scale.tokens(50_000), 78_125);
//! assert_eq!(scale.after(50_000, 1), 1);
//! ```

/// The rounding of the part of a token.
///
/// ```
/// use tokenctx::Rounding;
///
/// assert_eq!(Rounding::named("nearest"), Some(Rounding::Nearest));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// It is dropped.
    Floor,
    /// A half and more is a token.
    Nearest,
    /// It is a token.
    Ceil,
}

impl Rounding {
    /// The rounding of this name: `floor`, `nearest` or `ceil`.
    pub fn named(name: &str) -> Option<Rounding> {
        match name {
            "floor" => Some(Rounding::Floor),
            "nearest" => Some(Rounding::Nearest),
            "ceil" => Some(Rounding::Ceil),
            _ => None,
        }
    }

    fn quotient(self, dividend: u128, divisor: u128) -> u128 {
        let (quotient, rest) = (dividend / divisor, dividend % divisor);
        let is_up = match self {
            Rounding::Floor => false,
            Rounding::Nearest => rest >= divisor - rest,
            Rounding::Ceil => rest > 0,
        };
        quotient + u128::from(is_up)
    }
}

/// A line through points (real tokens, scaled tokens) from (0, 0) on; the last piece goes on.
///
/// It never falls, so that parts which are differences of scaled sums are never negative, and
/// add up to the scaled whole.
///
/// ```
/// use tokenctx::{Rounding, Scale};
///
/// let scale = Scale::new(vec![(128_000, 200_000)], Rounding::Floor).expect("it rises");
/// assert_eq!(scale.tokens(64_000), 100_000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    points: Vec<(u64, u64)>,
    rounding: Rounding,
}

impl Scale {
    /// The scale through `points`; `None` if there is none, if the first number of one is not
    /// above that of the one before, or the second is below.
    pub fn new(points: Vec<(u64, u64)>, rounding: Rounding) -> Option<Scale> {
        let mut before = (0, 0);
        for &point in &points {
            if point.0 <= before.0 || point.1 < before.1 {
                return None;
            }
            before = point;
        }
        let is_line = !points.is_empty();
        is_line.then_some(Scale { points, rounding })
    }

    /// True if one factor holds for all numbers, however full the window is.
    pub fn is_linear(&self) -> bool {
        self.points.len() == 1
    }

    /// `tokens` in the assumed measure; at most `u64::MAX`. Never falls as `tokens` grows.
    pub fn tokens(&self, tokens: u64) -> u64 {
        let last = self.points.len() - 1;
        let piece = self.points[..last]
            .iter()
            .take_while(|(end, _)| *end < tokens)
            .count();
        let start = piece.checked_sub(1).map_or((0, 0), |at| self.points[at]);
        let end = self.points[piece];
        let run = u128::from(end.0 - start.0);
        let rise = u128::from(end.1 - start.1);
        let scaled = self
            .rounding
            .quotient(u128::from(tokens - start.0) * rise, run);
        u64::try_from(u128::from(start.1) + scaled).unwrap_or(u64::MAX)
    }

    /// The number that `tokens` more add to `before`, both real, in the assumed measure.
    pub fn after(&self, before: u64, tokens: u64) -> u64 {
        self.tokens(before.saturating_add(tokens)) - self.tokens(before)
    }
}
