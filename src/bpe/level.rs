//! The vector level: which instructions texts are counted with. It is the best that this machine has, unless
//! a lower one is chosen; counts are the same on each.
use std::sync::atomic::{AtomicU8, Ordering};

#[cfg(target_arch = "x86_64")]
use crate::bpe::split::{avx512::Avx512, simd::Avx2};

/// Instructions that texts are counted with, by how many bytes they look at together.
///
/// ```
/// use tokenctx::VectorLevel;
///
/// let best = VectorLevel::used();
/// assert!(best.is_available() && VectorLevel::Base.choose());
/// assert_eq!(VectorLevel::used(), VectorLevel::Base);
/// assert!(best.choose());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VectorLevel {
    /// What every machine of its kind has: SSE2, NEON, or bytes one by one.
    Base,
    /// AVX2 with BMI1, BMI2, LZCNT and POPCNT.
    Avx2,
    /// AVX-512 F, BW, CD, DQ, VBMI, VBMI2, VL.
    Avx512,
}

/// No higher level is used.
static HIGHEST: AtomicU8 = AtomicU8::new(VectorLevel::Avx512 as u8);

impl VectorLevel {
    /// All, the lowest first.
    pub const ALL: [VectorLevel; 3] = [VectorLevel::Base, VectorLevel::Avx2, VectorLevel::Avx512];

    /// `"sse2"`, `"avx2"`, `"avx512"`; on aarch64 `"neon"`; elsewhere `"portable"`.
    pub fn name(self) -> &'static str {
        match self {
            VectorLevel::Base if cfg!(target_arch = "x86_64") => "sse2",
            VectorLevel::Base if cfg!(target_arch = "aarch64") => "neon",
            VectorLevel::Base => "portable",
            VectorLevel::Avx2 => "avx2",
            VectorLevel::Avx512 => "avx512",
        }
    }

    /// Whether this machine has it.
    #[inline]
    pub fn is_available(self) -> bool {
        match self {
            VectorLevel::Base => true,
            #[cfg(target_arch = "x86_64")]
            VectorLevel::Avx2 => Avx2::is_available(),
            #[cfg(target_arch = "x86_64")]
            VectorLevel::Avx512 => Avx512::is_available(),
            #[cfg(not(target_arch = "x86_64"))]
            VectorLevel::Avx2 | VectorLevel::Avx512 => false,
        }
    }

    /// The one that texts are counted with.
    pub fn used() -> VectorLevel {
        let mut all = VectorLevel::ALL.into_iter().rev();
        let used = all.find(|level| level.is_used());
        used.unwrap_or(VectorLevel::Base)
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

    /// Whether this machine has it, and no lower one was chosen.
    #[inline]
    pub(crate) fn is_used(self) -> bool {
        self.is_admitted() && self.is_available()
    }

    /// Whether no lower one was chosen.
    #[inline]
    pub(in crate::bpe) fn is_admitted(self) -> bool {
        self as u8 <= HIGHEST.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_levels_of_a_machine_are_the_lowest_ones() {
        let available = VectorLevel::ALL.map(VectorLevel::is_available);
        assert!(available[0]);
        assert!(available.is_sorted_by(|lower, higher| lower >= higher));
        assert!(VectorLevel::used().is_available());
    }
}
