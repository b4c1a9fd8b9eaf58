//! Vocabularies that the package has as their joins alone, deflated: their tables are built when they are first needed.
//!
//! The text of a token is the texts of both tokens of its last join, one after the other, so the joins tell all.
//! They take a tenth of the tables in the package; building takes some 50 ms, Gemma's 120, once a process, and a
//! process that builds has the tables for itself. `build.rs` has proved the vocabulary, so nothing is checked here.
//!
//! # Threads and forks
//!
//! One thread builds, and those that need the same vocabulary wait for it; no other thread does. A process may fork
//! while a thread of it builds. That thread is not in the child, where a mutex or `OnceLock` would stay locked for
//! ever. So the builder leaves the id of its process, which a child does not share, and publishes the result by
//! one atomic store. If a thread waits longer than [`PATIENCE`], because an id came again or the builder panicked, it builds
//! too; the first result stays.
//!
//! The interpreter is left while a thread builds or waits ([`build_aside`]): a builder never needs it.

#![allow(unsafe_code, reason = "a vocabulary is published by its address")]

use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use miniz_oxide::inflate::decompress_to_vec;

use crate::bpe::table::joins::NO_EXCEPTIONS;
use crate::bpe::table::key::{Join, NO_PART, PART_BYTES};
use crate::bpe::table::made::{SLOTS_PERCENT, Tables};
use crate::bpe::table::vocabulary::Vocabulary;

/// A thread waits no longer for one that builds the same.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time between two looks at what another thread builds.
const PERIOD: Duration = Duration::from_millis(1);

/// The binding's way to let other threads of its interpreter run meanwhile; none without an interpreter.
static ASIDE: OnceLock<fn(&mut (dyn FnMut() + Send))> = OnceLock::new();

/// From now on vocabularies are built inside of `aside`, which calls its argument once.
#[cfg_attr(
    not(feature = "python"),
    allow(dead_code, reason = "the binding has an interpreter")
)]
pub(crate) fn build_aside(aside: fn(&mut (dyn FnMut() + Send))) {
    ASIDE.get_or_init(|| aside);
}

/// A vocabulary of the package that is built when it is needed.
pub(in crate::bpe) struct CompactVocabulary {
    number: u64,
    /// The joins as `build.rs` packed them.
    file: &'static [u8],
    /// The ranks below this one are the vocabulary: the tokens of another may be the first of the same file.
    ranks: usize,
    built: AtomicPtr<Vocabulary<'static>>,
    /// Id of the process whose thread builds, or 0.
    builder: AtomicU32,
}

impl CompactVocabulary {
    pub(in crate::bpe) const fn new(number: u64, file: &'static [u8], ranks: usize) -> Self {
        CompactVocabulary {
            number,
            file,
            ranks,
            built: AtomicPtr::new(ptr::null_mut()),
            builder: AtomicU32::new(0),
        }
    }

    /// The vocabulary, built if it is not yet.
    #[inline]
    pub(in crate::bpe) fn get(&self) -> &'static Vocabulary<'static> {
        self.published().unwrap_or_else(|| self.built_aside())
    }

    fn published(&self) -> Option<&'static Vocabulary<'static>> {
        // SAFETY: the address is null or that of a vocabulary which is never freed nor changed, and whoever stored
        // it had made it before (release and acquire).
        unsafe { self.built.load(Ordering::Acquire).as_ref() }
    }

    #[cold]
    fn built_aside(&self) -> &'static Vocabulary<'static> {
        let mut built = None;
        let mut build = || built = Some(self.built_or_awaited());
        match ASIDE.get() {
            Some(aside) => aside(&mut build),
            None => build(),
        }
        built.expect("built by what was given")
    }

    /// The vocabulary that this thread builds, or another one of this process meanwhile.
    fn built_or_awaited(&self) -> &'static Vocabulary<'static> {
        let (start, process) = (Instant::now(), std::process::id());
        while self.builder.swap(process, Ordering::AcqRel) == process && start.elapsed() < PATIENCE
        {
            if let Some(vocabulary) = self.published() {
                return vocabulary;
            }
            sleep(PERIOD);
        }
        let tables = Box::leak(Box::new(tables(self.file, self.ranks)));
        let vocabulary = Box::leak(Box::new(Vocabulary::of(
            self.number,
            tables,
            &NO_EXCEPTIONS,
        )));
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let _first = self
            .built
            .compare_exchange(ptr::null_mut(), vocabulary, success, failure);
        self.published()
            .expect("this thread's, or another's before")
    }
}

/// The tables of the vocabulary in a file, up to that rank.
fn tables(file: &[u8], ranks: usize) -> Tables {
    let parts = unpacked(file, ranks);
    // The text of a token is in front of those that have it as a part.
    let (mut bytes, mut places) = (Vec::new(), Vec::with_capacity(parts.len()));
    for &(left, right) in &parts {
        let start = bytes.len();
        if right != NO_PART {
            bytes.extend_from_within(Range::clone(&places[left as usize]));
            bytes.extend_from_within(Range::clone(&places[right as usize]));
        } else if let Ok(byte) = u8::try_from(left) {
            bytes.push(byte);
        }
        places.push(start..bytes.len());
    }
    let ranked: Vec<(&[u8], u32)> = places
        .into_iter()
        .map(|place| &bytes[place])
        .zip(0..)
        .filter(|(token, _)| !token.is_empty())
        .collect();
    let joins: Vec<Option<Join>> = parts
        .iter()
        .map(|&(left, right)| (right != NO_PART).then(|| Join::new(left, right)))
        .collect();
    Tables::new(&ranked, &joins, SLOTS_PERCENT).expect("hashes that differ, as build.rs has found")
}

/// Both parts of each token, by rank, as `build.rs` packs them: the lowest bytes of all left parts, then the
/// next ones, then the highest; the same of the right parts. A byte is itself and [`NO_PART`], what is no token is
/// [`NO_PART`] twice.
fn unpacked(file: &[u8], ranks: usize) -> Vec<(u32, u32)> {
    let planes = decompress_to_vec(file).expect("what build.rs has deflated");
    let count = planes.len() / (2 * PART_BYTES);
    let planes: Vec<&[u8]> = planes.chunks_exact(count).collect();
    let part = |planes: &[&[u8]], rank: usize| {
        u32::from_le_bytes([planes[0][rank], planes[1][rank], planes[2][rank], 0])
    };
    let (left, right) = planes.split_at(PART_BYTES);
    (0..ranks.min(count))
        .map(|rank| (part(left, rank), part(right, rank)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpe::table::packaged::{MISTRAL_V3, R50K};

    #[test]
    fn test_threads_that_need_one_vocabulary_get_the_same() {
        let find = || std::ptr::from_ref(MISTRAL_V3.get()).addr();
        let found: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(find)).collect();
            threads
                .into_iter()
                .map(|it| it.join().expect("built"))
                .collect()
        });
        assert_eq!(found, [find(); 4]);
    }

    /// As it is in a child that was forked while another thread built: the id is that of the parent.
    #[test]
    fn test_a_builder_of_another_process_is_not_waited_for() {
        static CHILD: CompactVocabulary = CompactVocabulary::new(4, R50K.file, R50K.ranks);
        CHILD
            .builder
            .store(std::process::id() + 1, Ordering::Relaxed);
        assert_eq!(CHILD.get().token(50_255), R50K.get().token(50_255));
        assert!(CHILD.get().token(50_256).is_none());
        assert_eq!(CHILD.builder.load(Ordering::Relaxed), std::process::id());
    }
}
