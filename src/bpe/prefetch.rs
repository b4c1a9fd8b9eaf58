//! Asking the memory for what will be read soon.
#![allow(
    unsafe_code,
    reason = "an instruction that the language has no name for"
)]

/// Asks the memory for `soon`, and does not wait for it.
#[inline(always)]
pub(crate) fn prefetch<T>(soon: &T) {
    // SAFETY: every x86-64 machine has the instruction, and it reads nothing.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(soon).cast());
    }
    // SAFETY: every aarch64 machine has the instruction, and it reads nothing.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{soon}]",
            soon = in(reg) std::ptr::from_ref(soon),
            options(nostack, readonly, preserves_flags)
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = soon;
}
