//! The counter of text: the profile's encoding, or the one that the user has put in its place.
use crate::bpe::MemoKey;
use crate::bpe::table::memo;
use crate::encoding::Encoding;
use crate::profile::Profile;
use crate::profile::table::Table;
use std::cell::Cell;
use std::fmt::Debug;

/// Counts by form are remembered apart from those of texts.
const FORMS: u64 = 1 << 63 | 1;

/// A counter of text in place of a profile's encoding.
pub trait TextCounter: Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// Number of tokens of `text`; `None` if it cannot tell.
    fn count(&self, text: &str) -> Option<u64>;

    /// The same; what it remembers is found under the same `key` alone.
    fn count_in(&self, key: MemoKey, text: &str) -> Option<u64> {
        let _ = key;
        self.count(text)
    }

    /// True if [`TextCounter::count_in`] estimates `text` from samples of it.
    fn has_sampled(&self, text: &str) -> bool {
        let _ = text;
        false
    }
}

impl TextCounter for Encoding {
    fn name(&self) -> &str {
        self.name()
    }

    fn count(&self, text: &str) -> Option<u64> {
        Some(self.count(text))
    }

    fn count_in(&self, key: MemoKey, text: &str) -> Option<u64> {
        Some(self.count_in(key, text))
    }

    fn has_sampled(&self, text: &str) -> bool {
        matches!(self, Encoding::Ranked(ranked) if ranked.has_sampled(text))
    }
}

/// The user's vocabularies, by what they are for.
#[derive(Debug, Default)]
pub struct Vocabularies(Vec<(String, Box<dyn TextCounter>)>);

impl Vocabularies {
    /// Each with the beginning of a model's or profile's name, or the name of a provider.
    pub fn new(mut named: Vec<(String, Box<dyn TextCounter>)>) -> Vocabularies {
        named.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        Vocabularies(named)
    }

    /// The one for `model`: the longest beginning of its plain name wins, else of the profile's
    /// name, else the provider decides.
    pub fn of(&self, model: &str, profile: &Profile) -> Option<&dyn TextCounter> {
        if self.0.is_empty() {
            return None;
        }
        let model = Table::bundled().model_name(model).own;
        let first = |fits: &dyn Fn(&str) -> bool| self.0.iter().find(|(name, _)| fits(name));
        let found = first(&|name| model.starts_with(name))
            .or_else(|| first(&|name| profile.name.starts_with(name)))
            .or_else(|| first(&|name| profile.provider == name))?;
        Some(&*found.1)
    }
}

/// The source of a counter's counts of text.
#[derive(Debug)]
pub(super) enum Vocabulary<'p> {
    Encoding(Encoding, MemoKey),
    Characters,
    Custom {
        counter: &'p dyn TextCounter,
        key: MemoKey,
        has_failed: Cell<bool>,
        has_sampled: Cell<bool>,
    },
}

impl<'p> Vocabulary<'p> {
    /// `custom` if there is one, else the encoding of this name, else characters; remembers under `key`.
    pub(super) fn new(
        name: &str,
        custom: Option<&'p dyn TextCounter>,
        key: MemoKey,
    ) -> Vocabulary<'p> {
        if let Some(counter) = custom {
            return Vocabulary::Custom {
                counter,
                key,
                has_failed: Cell::new(false),
                has_sampled: Cell::new(false),
            };
        }
        let named = |encoding| Vocabulary::Encoding(encoding, key);
        Encoding::named(name).map_or(Vocabulary::Characters, named)
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Vocabulary::Encoding(encoding, _) => encoding.name(),
            Vocabulary::Characters => "characters",
            Vocabulary::Custom { counter, .. } => counter.name(),
        }
    }

    /// Number of tokens of `text`; 0 once it has failed.
    pub(super) fn count(&self, text: &str) -> u64 {
        match self {
            Vocabulary::Encoding(encoding, key) => encoding.count_in(*key, text),
            Vocabulary::Characters => text.chars().count() as u64,
            Vocabulary::Custom { has_failed, .. } if has_failed.get() => 0,
            Vocabulary::Custom {
                counter,
                key,
                has_failed,
                has_sampled,
            } => {
                has_sampled.set(has_sampled.get() || counter.has_sampled(text));
                counter.count_in(*key, text).unwrap_or_else(|| {
                    has_failed.set(true);
                    0
                })
            }
        }
    }

    /// The result of `count`, which is remembered for what has this `form`, if an encoding counts.
    pub(super) fn remembered(&self, form: &[u8], count: impl FnOnce() -> u64) -> u64 {
        let Vocabulary::Encoding(encoding, key) = self else {
            return count();
        };
        let mixed = |number: u64, byte| number.wrapping_mul(31) ^ u64::from(byte);
        let number = encoding.name().bytes().fold(FORMS, mixed);
        memo::remembered(number, *key, form, u64::MAX, count)
    }

    pub(super) fn is_custom(&self) -> bool {
        matches!(self, Vocabulary::Custom { .. })
    }

    pub(super) fn has_sampled(&self) -> bool {
        matches!(self, Vocabulary::Custom { has_sampled, .. } if has_sampled.get())
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self, Vocabulary::Custom { has_failed, .. } if has_failed.get())
    }
}
