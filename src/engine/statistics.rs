//! Numbers of the questions to an engine, and of all that it keeps.
use crate::engine::estimate::Source;
use crate::known::StoreStats;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers with their names: answers by source, those of them that read only what was new, recorded calls,
/// and what is kept.
///
/// ```
/// # use tokenctx::{Engine, Settings};
/// # let engine = Engine::new(b"a secret of 16 bytes or more", Settings::default());
/// let all = engine.statistics();
/// assert!(all.0.contains(&("recorded", 0)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics(pub [(&'static str, u64); 15 + UNRECORDED.len()]);

/// Numbers of calls that were not recorded, by reason, of bills that were doubted or not read in whole, of replies
/// likewise, and of calls back that failed.
///
/// ```
/// # use tokenctx::{Engine, Settings};
/// # let engine = Engine::new(b"a secret of 16 bytes or more", Settings::default());
/// assert!(tokenctx::UNRECORDED.iter().all(|reason| engine.note(reason)));
/// assert!(!engine.note("the moon"));
/// ```
pub const UNRECORDED: [&str; 19] = [
    "not_recorded_no_usage",
    "not_recorded_no_input",
    "not_recorded_no_messages",
    "not_recorded_out_of_range",
    "not_recorded_partial",
    "not_recorded_scaled",
    "not_recorded_failed",
    "not_recorded_unreadable",
    "not_recorded_too_large",
    "not_recorded_truncated_by_server",
    "not_recorded_inconsistent",
    "not_recorded_not_of_provider",
    "far_from_count",
    "unknown_usage_field",
    "reply_missing",
    "reply_unreadable",
    "reply_not_understood",
    "reply_without_output",
    "failed_callbacks",
];

/// Counters of the questions to an engine.
#[derive(Debug, Default)]
pub(super) struct Counters {
    exact: AtomicU64,
    delta: AtomicU64,
    estimated: AtomicU64,
    resumed: AtomicU64,
    recorded: AtomicU64,
    unrecorded: [AtomicU64; UNRECORDED.len()],
}

impl Counters {
    /// Counts an answer from this source.
    pub(super) fn count(&self, source: Source) {
        let counter = match source {
            Source::Exact => &self.exact,
            Source::Delta => &self.delta,
            Source::Estimated => &self.estimated,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an answer that read only what was new.
    pub(super) fn count_resumed(&self) {
        self.resumed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a recorded call.
    pub(super) fn count_record(&self) {
        self.recorded.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts under one of [`UNRECORDED`]; true if `reason` is one.
    pub(super) fn note(&self, reason: &str) -> bool {
        let place = UNRECORDED.iter().position(|name| *name == reason);
        let counter = place.map(|place| self.unrecorded[place].fetch_add(1, Ordering::Relaxed));
        counter.is_some()
    }

    /// All numbers, with those of the store, of shapes and of models.
    pub(super) fn statistics(
        &self,
        store: StoreStats,
        (shapes, models): (usize, usize),
    ) -> Statistics {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut all = [("", 0); 15 + UNRECORDED.len()];
        let (kept, unrecorded) = all.split_at_mut(15);
        kept.copy_from_slice(&[
            ("exact", count(&self.exact)),
            ("delta", count(&self.delta)),
            ("estimated", count(&self.estimated)),
            ("resumed", count(&self.resumed)),
            ("recorded", count(&self.recorded)),
            ("known_shapes", shapes as u64),
            ("learned_models", models as u64),
            ("known_prefixes", store.entries as u64),
            ("used_bytes", store.used_bytes as u64),
            ("capacity_bytes", store.capacity_bytes as u64),
            ("lookup_hits", store.hits),
            ("lookup_misses", store.misses),
            ("superseded", store.superseded),
            ("evicted", store.evicted),
            ("expired", store.expired),
        ]);
        let counters = UNRECORDED.into_iter().zip(&self.unrecorded);
        for (place, (name, counter)) in unrecorded.iter_mut().zip(counters) {
            *place = (name, count(counter));
        }
        Statistics(all)
    }
}
