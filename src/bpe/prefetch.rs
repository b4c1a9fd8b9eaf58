//! Asking the memory for what will be read soon.
#![allow(
    unsafe_code,
    reason = "an instruction that the language has no name for"
)]

/// Asks the memory for `soon`, and does not wait for it.
#[inline(always)]
pub(crate) fn prefetch<T>(soon: &T) {
    prefetch_at(std::ptr::from_ref(soon));
}

/// Asks the memory for what is at `place`, if there is something.
#[inline(always)]
pub(crate) fn prefetch_at<T>(place: *const T) {
    // SAFETY: every x86-64 machine has the instruction, and it reads nothing.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    // SAFETY: every aarch64 machine has the instruction, and it reads nothing.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{place}]",
            place = in(reg) place,
            options(nostack, readonly, preserves_flags)
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = place;
}
