//! The crate tiktoken-rs as a library that `counters.py` loads: one C function for each encoding.
#![allow(
    unsafe_code,
    reason = "Python hands over an address and a length, and finds functions by name"
)]

use std::panic::catch_unwind;
use std::{slice, str};

use tiktoken_rs::CoreBPE;

/// What a function returns if the text is not UTF-8, or if tiktoken-rs gives up on it.
const FAILED: u64 = u64::MAX;

/// Tokens of `text` as ordinary text, or [`FAILED`].
fn count(encoding: fn() -> &'static CoreBPE, text: &[u8]) -> u64 {
    catch_unwind(|| {
        let text = str::from_utf8(text).ok()?;
        u64::try_from(encoding().count_ordinary(text)).ok()
    })
    .unwrap_or(None)
    .unwrap_or(FAILED)
}

macro_rules! counting {
    ($($function:ident $encoding:ident)*) => { $(
        /// Tokens of the text as ordinary text; `u64::MAX` if it is not UTF-8 or cannot be counted.
        /// The first call loads the vocabulary.
        ///
        /// # Safety
        ///
        /// `text` is the address of `length` bytes that nobody changes during the call.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $function(text: *const u8, length: usize) -> u64 {
            // SAFETY: the caller promises that the bytes are there and stay as they are.
            count(tiktoken_rs::$encoding, unsafe { slice::from_raw_parts(text, length) })
        }
    )* };
}

counting! {
    count_o200k_base o200k_base_singleton
    count_o200k_harmony o200k_harmony_singleton
    count_cl100k_base cl100k_base_singleton
    count_p50k_base p50k_base_singleton
    count_r50k_base r50k_base_singleton
}
