//! The memory of an engine, and what is found in it for a request before it is counted.
use crate::engine::drift::{DriftWatch, Unsettled};
use crate::engine::guarded::Guarded;
use crate::engine::learn::{Learner, Learners};
use crate::engine::reading::Reading;
use crate::engine::shape::{Shape, Shapes};
use crate::known::{Boundary, KnownPrefix, PrefixStore};
use std::sync::Arc;

/// If a prefix is known, a difference must save more tokens than this from being counted: a short
/// message that many conversations have makes none of them near.
pub(super) const LEAST_GAIN_TOKENS: u64 = 64;

/// The memory of recorded calls: totals of prefixes, shapes of conversations, corrections by model, changes of
/// providers. Locks are taken here alone, so that a caller can do it where no fork can happen.
pub(super) struct Memory {
    pub store: PrefixStore,
    pub shapes: Guarded<Shapes>,
    pub learners: Guarded<Learners>,
    pub watch: DriftWatch,
}

/// The knowledge of a request before it is counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// Its deepest known prefix.
    pub prefix: Option<KnownPrefix>,
    /// The corrections of its model.
    pub learner: Option<Learner>,
    /// Known conversations that it may be a branch or an edit of.
    pub near: Vec<Arc<Shape>>,
    /// If none of these is known: a call of another model that it goes on from.
    pub other: Option<Arc<Shape>>,
    /// A late change of its provider.
    pub unsettled: Option<Unsettled>,
}

impl Memory {
    /// Finds all that is known of the request that was read. It counts in no statistics.
    pub(super) fn find(&self, reading: &Reading<'_>, now_seconds: f64) -> Known {
        let prefix = self.store.find(&reading.prefixes, now_seconds);
        let start = prefix.map_or(0, |prefix| prefix.message_count);
        let near = self.near(reading, start, now_seconds);
        let other = || {
            let families = (reading.family, reading.any_family());
            let digests = &reading.digests;
            self.shapes
                .with(|shapes| shapes.of_other_family(families, digests, now_seconds))
        };
        let is_new = prefix.is_none() && near.is_empty();
        let model = reading.learned_name.as_ref();
        let provider = (&*reading.profile.name, &*reading.host);
        Known {
            prefix,
            learner: model.and_then(|model| self.learners.with(|all| all.get(model))),
            near,
            other: is_new.then(other).flatten(),
            unsettled: self.watch.unsettled(provider, &reading.tenant.suffix),
        }
    }

    /// The shape of the call that the request goes on from, of which `prefix` is known.
    pub(super) fn shape_before(
        &self,
        reading: &Reading<'_>,
        prefix: Option<KnownPrefix>,
    ) -> Option<Arc<Shape>> {
        let digests = &reading.digests[..prefix?.message_count];
        let (family, context) = (reading.family, reading.prefixes[0]);
        self.shapes
            .with(|shapes| shapes.beginning(family, context, digests))
    }

    /// Makes the totals at `boundaries` of the request known.
    pub(super) fn keep(&self, reading: &Reading<'_>, boundaries: &[Boundary], now_seconds: f64) {
        let (tenant, prefixes) = (reading.tenant.number, &reading.prefixes);
        self.store.record(tenant, prefixes, boundaries, now_seconds);
    }

    /// Forgets all.
    pub(super) fn clear(&self) {
        self.shapes.with(Shapes::clear);
        self.store.clear();
        self.learners.with(Learners::clear);
        self.watch.clear();
    }

    /// Known conversations that share enough with the request beyond its first `start` messages.
    fn near(&self, reading: &Reading<'_>, start: usize, now: f64) -> Vec<Arc<Shape>> {
        let new = &reading.digests[start..];
        let mut near = self.shapes.with(|all| all.near(reading.family, new, now));
        if start > 0 {
            near.retain(|shape| shape.shared_at_most(new) > LEAST_GAIN_TOKENS);
        }
        near
    }
}
