//! Which profile a model's name means.
//!
//! The longest known beginning of the name wins; among equal ones the profile that is made for the
//! provider of the request. A name that nothing is known of falls to the nearest family: the
//! longest known name that stands inside it, what the provider serves, what the dialect means.
use crate::Error;
use crate::json::{Document, Limits, Value};
use crate::profile::Profile;
use crate::profile::model_name::ModelName;
use crate::request::Dialect;
use std::sync::OnceLock;

const TABLE: &str = include_str!("../../python/tokenctx/data/profiles.json");

/// Shorter names say nothing inside of a longer one.
const MIN_INNER_NAME_BYTES: usize = 3;

/// The profile of a model.
#[derive(Clone, Copy, Debug)]
pub struct Resolved<'t> {
    /// The profile.
    pub profile: &'t Profile,
    /// Whether the model's name is known; if not, the nearest family was taken.
    pub is_known_model: bool,
}

/// All profiles and the names that lead to them.
#[derive(Clone, Debug, Default)]
pub struct Table {
    profiles: Vec<Profile>,
    /// Beginning of a model name and index of its profile, the one to prefer first.
    prefixes: Vec<(String, usize)>,
    /// Provider or dialect, and profile name.
    fallbacks: Vec<(String, String)>,
    /// How a provider is written, and what it is called here.
    providers: Vec<(String, String)>,
    /// Vendors in front of a model's name, with their separators.
    pub(crate) vendors: Vec<String>,
}

impl Table {
    /// The table of the package, read on first use.
    pub fn bundled() -> &'static Table {
        static TABLE_ONCE: OnceLock<Table> = OnceLock::new();
        TABLE_ONCE.get_or_init(|| {
            let document = Document::parse(TABLE, &Limits::default());
            document.map_or_else(|_| Table::default(), |it| Table::read(it.root()))
        })
    }

    /// The profile of `model`, asked of `provider` if that is known.
    ///
    /// What the name says about the provider counts only where the caller says nothing.
    pub fn resolve(&self, model: &str, dialect: Dialect, provider: Option<&str>) -> Resolved<'_> {
        let name = ModelName::read(model, self);
        let hint = provider.map(|it| it.trim_ascii().to_ascii_lowercase());
        let hint = hint.filter(|it| !it.is_empty());
        let provider = match &hint {
            Some(hint) => self.provider(hint).unwrap_or(hint),
            None => &name.provider,
        };
        let asked = (provider, dialect);
        let known = self.beginning(&name.own, asked, 0);
        let known = known.or_else(|| self.beginning(&name.with_vendor, asked, 0));
        let nearest = || {
            let inner = name.words();
            inner
                .filter_map(|word| self.beginning(word, asked, MIN_INNER_NAME_BYTES))
                .max_by_key(|(length, _)| *length)
        };
        let found = known.or_else(nearest);
        Resolved {
            profile: found.map_or_else(|| self.fallback(dialect, provider), |(_, it)| it),
            is_known_model: known.is_some(),
        }
    }

    /// The profile called `name`; the first one if there is none.
    pub fn named(&self, name: &str) -> &Profile {
        static EMPTY: OnceLock<Profile> = OnceLock::new();
        let found = self.profiles.iter().find(|profile| profile.name == name);
        let found = found.or_else(|| self.profiles.first());
        found.unwrap_or_else(|| EMPTY.get_or_init(Profile::default))
    }

    /// What the provider written as `name` is called here.
    pub(crate) fn provider(&self, name: &str) -> Option<&str> {
        let name = name.replace('-', "_");
        let found = self.providers.iter().find(|(written, _)| *written == name);
        found.map(|(_, provider)| provider.as_str())
    }

    /// The profile to prefer whose beginning of a name `name` has, and the length of that.
    fn beginning(
        &self,
        name: &str,
        (provider, dialect): (&str, Dialect),
        min_bytes: usize,
    ) -> Option<(usize, &Profile)> {
        let fits = |prefix: &str, profile: &Profile| {
            prefix.len() >= min_bytes
                && name.starts_with(prefix)
                && profile.is_for(provider, dialect)
        };
        let all = self.prefixes.iter();
        all.map(|(prefix, index)| (prefix, &self.profiles[*index]))
            .find(|(prefix, profile)| fits(prefix, profile))
            .map(|(prefix, profile)| (prefix.len(), profile))
    }

    fn fallback(&self, dialect: Dialect, provider: &str) -> &Profile {
        let of = |key: &str| self.fallbacks.iter().find(|(name, _)| name == key);
        let found = of(provider).or_else(|| of(dialect.name()));
        self.named(found.map_or("unknown", |(_, profile)| profile))
    }

    fn read(root: Value<'_>) -> Table {
        let mut table = Table::default();
        for row in root.get("profiles").into_iter().flat_map(Value::items) {
            table.add(row);
        }
        table.fallbacks = pairs(root.get("fallbacks"));
        table.providers = pairs(root.get("providers"));
        table.vendors = texts(root.get("vendors")).collect();
        table.sort();
        table
    }

    /// This table with the profiles in `rows`, a JSON list, which [`Table::read`] would take.
    ///
    /// A row named as a profile changes that one: what it does not say stays as it is, its models
    /// too, unless it is `like` another. Profiles that are like the changed one do not change.
    pub fn with_rows(&self, rows: &str) -> Result<Table, Error> {
        let document = Document::parse(rows, &Limits::default())?;
        let mut table = self.clone();
        document.root().items().for_each(|row| table.add(row));
        table.sort();
        Ok(table)
    }

    fn add(&mut self, row: Value<'_>) {
        let text = |key| row.get(key).and_then(Value::as_str);
        let index_of = |name| {
            let mut profiles = self.profiles.iter();
            profiles.position(|profile| profile.name == name)
        };
        let own = text("name").and_then(index_of);
        let base = text("like").and_then(index_of).or(own);
        let mut profile = base.map_or_else(Profile::default, |base| self.profiles[base].clone());
        let scope = |list: fn(&Profile) -> &Vec<String>| {
            own.map_or_else(Vec::new, |own| list(&self.profiles[own]).clone())
        };
        profile.providers = scope(|own| &own.providers);
        profile.dialects = scope(|own| &own.dialects);
        row.members()
            .for_each(|(key, value)| profile.set(key, value));
        let index = own.unwrap_or(self.profiles.len());
        if let Some(models) = row.get("models") {
            self.prefixes.retain(|(_, old)| *old != index);
            let prefixes = texts(Some(models)).map(|name| (name.to_ascii_lowercase(), index));
            self.prefixes.extend(prefixes);
        }
        match own {
            Some(own) => self.profiles[own] = profile,
            None => self.profiles.push(profile),
        }
    }

    /// The longest beginning first, of equal ones those for single providers or dialects.
    fn sort(&mut self) {
        let profiles = &self.profiles;
        self.prefixes.sort_by_key(|(prefix, index)| {
            let is_for_all = !profiles[*index].is_special();
            (usize::MAX - prefix.len(), is_for_all, prefix.clone())
        });
    }
}

pub(crate) fn texts(list: Option<Value<'_>>) -> impl Iterator<Item = String> {
    let items = list.into_iter().flat_map(Value::items);
    items.filter_map(|item| item.as_str().map(str::to_owned))
}

fn pairs(members: Option<Value<'_>>) -> Vec<(String, String)> {
    let all = members.into_iter().flat_map(Value::members);
    all.map(|(key, value)| {
        (
            key.to_owned(),
            value.as_str().unwrap_or_default().to_owned(),
        )
    })
    .collect()
}
