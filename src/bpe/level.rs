//! The SIMD level: which instructions texts are counted with. It is the best that this machine has, unless
//! a lower one is chosen; counts are the same on each.
use std::sync::atomic::{AtomicU8, Ordering};

/// Instructions that texts are counted with, by how many bytes they look at together.
///
/// ```
/// use tokenctx::SimdLevel;
///
/// let best = SimdLevel::used();
/// assert!(best.is_available() && SimdLevel::Base.choose());
/// assert_eq!(SimdLevel::used(), SimdLevel::Base);
/// assert!(best.choose());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SimdLevel {
    /// The instructions that every machine of its kind has: SSE2, NEON, or bytes one by one.
    Base,
    /// AVX2 with BMI1, BMI2, LZCNT and POPCNT.
    Avx2,
    /// AVX-512 F, BW, CD, DQ, VBMI, VBMI2, VL.
    Avx512,
}

/// No higher level is used.
static HIGHEST: AtomicU8 = AtomicU8::new(SimdLevel::Avx512 as u8);

impl SimdLevel {
    /// All, the lowest first.
    pub const ALL: [SimdLevel; 3] = [SimdLevel::Base, SimdLevel::Avx2, SimdLevel::Avx512];

    /// `"sse2"`, `"avx2"`, `"avx512"`; on aarch64 `"neon"`; elsewhere `"portable"`.
    pub fn name(self) -> &'static str {
        match self {
            SimdLevel::Base if cfg!(target_arch = "x86_64") => "sse2",
            SimdLevel::Base if cfg!(target_arch = "aarch64") => "neon",
            SimdLevel::Base => "portable",
            SimdLevel::Avx2 => "avx2",
            SimdLevel::Avx512 => "avx512",
        }
    }

    /// True if this machine has it.
    #[inline]
    pub fn is_available(self) -> bool {
        match self {
            SimdLevel::Base => true,
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx2 => has_avx2(),
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx512 => has_avx512(),
            #[cfg(not(target_arch = "x86_64"))]
            SimdLevel::Avx2 | SimdLevel::Avx512 => false,
        }
    }

    /// The one that texts are counted with.
    pub fn used() -> SimdLevel {
        let mut all = SimdLevel::ALL.into_iter().rev();
        let used = all.find(|level| level.is_used());
        used.unwrap_or(SimdLevel::Base)
    }

    /// Counts with this one from now on, in the whole process; `false`, and nothing changes, if this machine
    /// has it not.
    pub fn choose(self) -> bool {
        let is_available = self.is_available();
        if is_available {
            HIGHEST.store(self as u8, Ordering::Relaxed);
        }
        is_available
    }

    /// True if this machine has it, and no lower one was chosen.
    #[inline]
    pub(crate) fn is_used(self) -> bool {
        self as u8 <= HIGHEST.load(Ordering::Relaxed) && self.is_available()
    }
}

/// True if this machine has AVX2 and the bit instructions that came with it.
#[cfg(target_arch = "x86_64")]
#[inline]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt")
}

/// True if this machine has all that is used of AVX-512.
#[cfg(target_arch = "x86_64")]
#[inline]
fn has_avx512() -> bool {
    has_avx2()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512vbmi2")
        && is_x86_feature_detected!("avx512vl")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_levels_of_a_machine_are_the_lowest_ones() {
        let available = SimdLevel::ALL.map(SimdLevel::is_available);
        assert!(available[0]);
        assert!(available.is_sorted_by(|lower, higher| lower >= higher));
        assert!(SimdLevel::used().is_available());
    }
}
