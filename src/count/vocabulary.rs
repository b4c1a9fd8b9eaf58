//! What counts text: the profile's encoding, or what the user has put in its place.
use crate::encoding::Encoding;
use crate::profile::{Profile, plain_model_name};
use std::cell::Cell;
use std::fmt::Debug;
use std::sync::Arc;

/// What counts text in place of a profile's encoding.
pub trait TextCounter: Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// Number of tokens of `text`; `None` if it cannot tell.
    fn count(&self, text: &str) -> Option<u64>;
}

impl TextCounter for Encoding {
    fn name(&self) -> &str {
        self.name()
    }

    fn count(&self, text: &str) -> Option<u64> {
        Some(self.count(text))
    }
}

/// The user's vocabularies, by what they are for.
#[derive(Debug, Default)]
pub struct Vocabularies(Vec<(String, Arc<dyn TextCounter>)>);

impl Vocabularies {
    /// Each with the beginning of a model's or profile's name, or the name of a provider.
    pub fn new(mut named: Vec<(String, Arc<dyn TextCounter>)>) -> Vocabularies {
        named.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        Vocabularies(named)
    }

    /// The one for `model`: the longest beginning of its plain name wins, else of the profile's
    /// name, else the provider decides.
    pub fn of(&self, model: &str, profile: &Profile) -> Option<Own> {
        if self.0.is_empty() {
            return None;
        }
        let model = plain_model_name(model);
        let first = |fits: &dyn Fn(&str) -> bool| self.0.iter().find(|(name, _)| fits(name));
        let (_, counter) = first(&|name| model.starts_with(name))
            .or_else(|| first(&|name| profile.name.starts_with(name)))
            .or_else(|| first(&|name| profile.provider == name))?;
        Some(Own {
            counter: Arc::clone(counter),
            has_failed: Cell::new(false),
        })
    }
}

/// The user's vocabulary for one request.
#[derive(Debug)]
pub struct Own {
    counter: Arc<dyn TextCounter>,
    has_failed: Cell<bool>,
}

impl Own {
    /// Its name.
    pub fn name(&self) -> &str {
        self.counter.name()
    }

    /// Whether it could not count a text; then what was counted with it is no answer.
    pub fn has_failed(&self) -> bool {
        self.has_failed.get()
    }

    /// Number of tokens of `text`; 0 once it has failed.
    fn count(&self, text: &str) -> u64 {
        if self.has_failed() {
            return 0;
        }
        self.counter.count(text).unwrap_or_else(|| {
            self.has_failed.set(true);
            0
        })
    }
}

/// What a counter counts text with.
#[derive(Debug)]
pub(super) enum Vocabulary<'p> {
    Encoding(Encoding),
    Characters,
    Own(&'p Own),
}

impl<'p> Vocabulary<'p> {
    /// `own` if there is one, else the encoding of this name, else characters.
    pub(super) fn new(name: &str, own: Option<&'p Own>) -> Vocabulary<'p> {
        let named = || Encoding::named(name).map_or(Vocabulary::Characters, Vocabulary::Encoding);
        own.map_or_else(named, Vocabulary::Own)
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Vocabulary::Encoding(encoding) => encoding.name(),
            Vocabulary::Characters => "characters",
            Vocabulary::Own(own) => own.name(),
        }
    }

    /// Number of tokens of `text`.
    pub(super) fn count(&self, text: &str) -> u64 {
        match self {
            Vocabulary::Encoding(encoding) => encoding.count(text),
            Vocabulary::Characters => text.chars().count() as u64,
            Vocabulary::Own(own) => own.count(text),
        }
    }

    pub(super) fn is_own(&self) -> bool {
        matches!(self, Vocabulary::Own(_))
    }
}
