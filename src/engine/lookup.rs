//! What an engine knows of a request: its deepest known prefix, what it may be an edit of, its model.
use super::{Engine, Reading};
use crate::engine::learn::Learner;
use crate::engine::shape::Shape;
use crate::known::KnownPrefix;
use std::sync::Arc;

/// What is known of a request before it is counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// Its deepest known prefix.
    pub prefix: Option<KnownPrefix>,
    /// What was learned about its model.
    pub learner: Option<Learner>,
    /// Known conversations that it may be a branch or an edit of.
    pub near: Vec<Arc<Shape>>,
    /// If none of these is known: a call of another model that it goes on from.
    pub other: Option<Arc<Shape>>,
}

impl Engine {
    /// What is known of what was read.
    pub(super) fn known(&self, reading: &Reading<'_>, now_seconds: f64) -> Known {
        let prefix = self.store.deepest(&reading.prefixes, now_seconds);
        self.known_from(reading, prefix, now_seconds)
    }

    /// As [`Engine::known`], without a trace in the statistics or in what goes first.
    pub(super) fn peek_known(&self, reading: &Reading<'_>, now_seconds: f64) -> Known {
        let prefix = self.store.find(&reading.prefixes, now_seconds);
        self.known_from(reading, prefix, now_seconds)
    }

    fn known_from(
        &self,
        reading: &Reading<'_>,
        prefix: Option<KnownPrefix>,
        now_seconds: f64,
    ) -> Known {
        let model = self.model(reading);
        let start = prefix.map_or(0, |prefix| prefix.message_count);
        let near = self.near(reading, start, now_seconds);
        let is_new = prefix.is_none() && near.is_empty();
        let other = || {
            let families = (reading.family, reading.any_family());
            let digests = &reading.digests;
            self.with_shapes(|shapes| shapes.of_other_family(families, digests, now_seconds))
        };
        Known {
            prefix,
            learner: model.and_then(|model| self.with_learners(|learners| learners.get(&model))),
            near,
            other: is_new.then(other).flatten(),
        }
    }

    /// What is known of what was read before it is recorded: its prefix, and its shape so far.
    pub(super) fn known_before(&self, reading: &Reading<'_>, now_seconds: f64) -> Known {
        let prefix = self.store.deepest(&reading.prefixes, now_seconds);
        let digests = prefix.map(|prefix| &reading.digests[..prefix.message_count]);
        let (family, context) = (reading.family, reading.prefixes[0]);
        let shape = digests.and_then(|digests| {
            self.with_shapes(|shapes| shapes.beginning(family, context, digests))
        });
        Known {
            prefix,
            learner: None,
            near: shape.into_iter().collect(),
            other: None,
        }
    }
}
