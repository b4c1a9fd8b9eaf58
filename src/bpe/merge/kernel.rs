//! Merges, compiled for the instructions of a machine.
#![allow(
    unsafe_code,
    reason = "calls what was compiled for the machine that this is"
)]

use crate::bpe::merge::batch::{BatchKernel, MergeBatch};
use crate::bpe::merge::long;
use crate::bpe::merge::long_batch::{LongCellBatch, LongCellKernel};
use crate::bpe::merge::window::OneByOne;
#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
use crate::bpe::split::block::Portable;
#[cfg(target_arch = "aarch64")]
use crate::bpe::split::neon::Neon;
#[cfg(target_arch = "x86_64")]
use crate::bpe::split::simd::{Avx2, Sse2};
use crate::bpe::table::Vocabulary;

/// How cells are merged by the instructions that classify the text.
pub(crate) trait MergeKernel: BatchKernel + LongCellKernel {
    /// Longest piece that is not cut into cells, since these instructions merge it in the same time.
    const WHOLE_BYTES: usize = 0;
    /// [`long::count`](crate::bpe::merge::long::count), compiled for these instructions.
    fn count_long(vocabulary: &Vocabulary, cell: &[u8]) -> u64;
}

/// A level that needs no detection is compiled as the rest is.
#[cfg(any(test, not(target_arch = "x86_64")))]
macro_rules! compiled_as_the_rest {
    ($name:ident) => {
        impl MergeKernel for $name {
            fn count_long(vocabulary: &Vocabulary, cell: &[u8]) -> u64 {
                long::count::<OneByOne>(vocabulary, cell)
            }
        }

        impl BatchKernel for $name {
            fn join(batch: &mut MergeBatch, vocabulary: &Vocabulary) {
                batch.join(vocabulary);
            }
        }

        impl LongCellKernel for $name {
            fn read(long_cells: &mut LongCellBatch<'_>, vocabulary: &Vocabulary) {
                long_cells.read::<OneByOne>(vocabulary);
            }
        }
    };
}

#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
compiled_as_the_rest!(Portable);
#[cfg(target_arch = "aarch64")]
compiled_as_the_rest!(Neon);

#[cfg(target_arch = "x86_64")]
impl MergeKernel for Sse2 {
    #[inline(always)]
    fn count_long(vocabulary: &Vocabulary, cell: &[u8]) -> u64 {
        count_sse2(vocabulary, cell)
    }
}

#[cfg(target_arch = "x86_64")]
impl BatchKernel for Sse2 {
    #[inline(always)]
    fn join(batch: &mut MergeBatch, vocabulary: &Vocabulary) {
        join_sse2(batch, vocabulary);
    }
}

#[cfg(target_arch = "x86_64")]
impl LongCellKernel for Sse2 {
    #[inline(always)]
    fn read(long_cells: &mut LongCellBatch<'_>, vocabulary: &Vocabulary) {
        read_sse2(long_cells, vocabulary);
    }
}

// SAFETY of every block: functions of `Avx2` are reached only through `count_avx2` of `scan.rs`, after
// detection.
#[cfg(target_arch = "x86_64")]
impl MergeKernel for Avx2 {
    #[inline(always)]
    fn count_long(vocabulary: &Vocabulary, cell: &[u8]) -> u64 {
        // SAFETY: see above.
        unsafe { count_avx2(vocabulary, cell) }
    }
}

#[cfg(target_arch = "x86_64")]
impl BatchKernel for Avx2 {
    #[inline(always)]
    fn join(batch: &mut MergeBatch, vocabulary: &Vocabulary) {
        // SAFETY: see above.
        unsafe { join_avx2(batch, vocabulary) }
    }
}

#[cfg(target_arch = "x86_64")]
impl LongCellKernel for Avx2 {
    #[inline(always)]
    fn read(long_cells: &mut LongCellBatch<'_>, vocabulary: &Vocabulary) {
        // SAFETY: see above.
        unsafe { read_avx2(long_cells, vocabulary) }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn count_sse2(vocabulary: &Vocabulary, cell: &[u8]) -> u64 {
    long::count::<OneByOne>(vocabulary, cell)
}

#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn count_avx2(vocabulary: &Vocabulary, cell: &[u8]) -> u64 {
    long::count::<OneByOne>(vocabulary, cell)
}

#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn join_sse2(batch: &mut MergeBatch, vocabulary: &Vocabulary) {
    batch.join(vocabulary);
}

#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn join_avx2(batch: &mut MergeBatch, vocabulary: &Vocabulary) {
    batch.join(vocabulary);
}

#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn read_sse2(long_cells: &mut LongCellBatch<'_>, vocabulary: &Vocabulary) {
    long_cells.read::<OneByOne>(vocabulary);
}

#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn read_avx2(long_cells: &mut LongCellBatch<'_>, vocabulary: &Vocabulary) {
    long_cells.read::<OneByOne>(vocabulary);
}
