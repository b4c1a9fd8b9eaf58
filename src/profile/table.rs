//! Which profile a model's name means.
//!
//! The longest known beginning of the name wins; among equal ones the profile that is made for the
//! provider of the request. A name that nothing is known of falls to the nearest family: the
//! longest known name that stands inside it, what the provider serves, what the dialect means.
use crate::json::{Document, Kind, Limits, Value, write_string};
use crate::profile::field::{Fault, none_of, text, texts, write_list, write_member};
use crate::profile::limits::ModelLimits;
use crate::profile::model_name::{ModelName, NameParts, begins};
use crate::profile::newer::DataTable;
use crate::profile::{Profile, Quality};
use crate::request::Dialect;
use std::sync::OnceLock;

pub(crate) static DATA: DataTable =
    DataTable::new(include_str!("../../python/tokenctx/data/profiles.json"));

/// Shorter names say nothing inside of a longer one.
const MIN_INNER_NAME_BYTES: usize = 3;

/// Keys of a row that no number depends on: where it is from, which models it is for.
pub(crate) const NOTES: [&str; 5] = ["models", "like", "source", "date", "confidence"];

/// How sure a row may be: a public fact or exact on three projects; fitted to bills; neither.
/// Fields of a row that change no count.
const OF_LIMITS: [&str; 3] = ["name", "window_tokens", "max_output_tokens"];

const CONFIDENCES: [&str; 3] = ["verified", "fitted", "guessed"];

/// Why rows are no profiles: which profile and field, what it says and what it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileError {
    message: String,
    /// True if a value is of another type; else it is out of range, or a name is not known.
    pub is_type: bool,
}

impl std::fmt::Display for ProfileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ProfileError {}

impl ProfileError {
    fn new(message: String) -> ProfileError {
        ProfileError {
            message,
            is_type: false,
        }
    }

    fn of(profile: &str, fault: Fault) -> ProfileError {
        let Fault {
            path,
            complaint,
            is_type,
        } = fault;
        let field = path.trim_start_matches('.');
        let message = format!("profile '{profile}': {field} {complaint}");
        ProfileError { message, is_type }
    }
}

/// Where the numbers of a profile are from, and the models that it is for.
#[derive(Clone, Debug, Default)]
struct Notes {
    models: Vec<String>,
    source: String,
    date: String,
    confidence: String,
    /// True if it is the user who says how long the context, and the output may be.
    tells_limits: (bool, bool),
}

/// Tokens of the window that `[1m]` behind a name asks for.
const MILLION: u64 = 1_000_000;

/// The profile of a model, and its limits.
#[derive(Clone, Debug)]
pub struct Resolved<'t> {
    /// The profile.
    pub profile: &'t Profile,
    /// True if the model's name is known; if not, the nearest family was taken.
    pub is_known_model: bool,
    /// Who answers, in the words of the table; empty if that is not known.
    pub host: String,
    /// True if the caller names a provider of whom nothing is known.
    pub has_ignored_provider: bool,
    /// Limits from the user's profile, else the table of limits, else the profile of a known model.
    pub limits: ModelLimits,
}

/// All profiles and the names that lead to them.
#[derive(Clone, Debug, Default)]
pub struct Table {
    profiles: Vec<Profile>,
    /// Of each profile.
    notes: Vec<Notes>,
    /// Beginning of a model name and index of its profile, the one to prefer first.
    prefixes: Vec<(String, usize)>,
    /// Provider or dialect, and profile name.
    fallbacks: Vec<(String, String)>,
    name_parts: NameParts,
    /// True if rows of the user are among the profiles.
    is_custom: bool,
}

/// Why `text` is no table of profiles; `None` if it is one.
pub(crate) fn fault(text: &str) -> Option<String> {
    let document = match Document::parse(text, &Limits::default()) {
        Ok(document) => document,
        Err(error) => return Some(error.to_string()),
    };
    match Table::read(document.root()) {
        Err(error) => Some(error.to_string()),
        Ok(table) if table.profiles.iter().all(|it| it.name != "universal") => {
            Some("it has no profile 'universal'".to_owned())
        }
        Ok(_) => None,
    }
}

impl Table {
    /// The table of the package, read on first use.
    pub fn bundled() -> &'static Table {
        static TABLE_ONCE: OnceLock<Table> = OnceLock::new();
        TABLE_ONCE.get_or_init(|| {
            let document = Document::parse(DATA.text(), &Limits::default());
            let table = document.map(|it| Table::read(it.root()));
            table
                .unwrap_or_else(|_| Ok(Table::default()))
                .unwrap_or_default() // a test reads it
        })
    }

    /// The profile of `model`, asked of `provider` if that is known.
    ///
    /// What the name says about the provider counts only where the caller says nothing.
    pub fn resolve(&self, model: &str, dialect: Dialect, provider: Option<&str>) -> Resolved<'_> {
        let name = self.model_name(model);
        let hint = provider.map(|it| it.trim_ascii().to_ascii_lowercase());
        let hint = hint.filter(|it| !it.is_empty());
        let provider = match &hint {
            Some(hint) => self.name_parts.provider(hint).unwrap_or(hint),
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
        let profile = found.map_or_else(|| self.fallback(dialect, provider), |(_, it)| it);
        let is_known_model = known.is_some();
        let is_known_provider = hint.is_none() || self.knows_provider(provider);
        Resolved {
            profile,
            is_known_model,
            host: String::from(if is_known_provider { provider } else { "" }),
            has_ignored_provider: !is_known_provider,
            limits: self.limits(&name, profile, is_known_model),
        }
    }

    /// True if anything depends on that it is `provider` who answers.
    fn knows_provider(&self, provider: &str) -> bool {
        let is_asked = |profile: &Profile| {
            profile.provider == provider || profile.providers.iter().any(|it| it == provider)
        };
        let mut named = self.name_parts.providers.iter();
        named.any(|(_, it)| it == provider) || self.profiles.iter().any(is_asked)
    }

    /// The limits of the model `name`, which has `profile`.
    fn limits(&self, name: &ModelName, profile: &Profile, is_known_model: bool) -> ModelLimits {
        let of_profile = || ModelLimits {
            window_tokens: profile.window_tokens,
            source: format!("profile {}", profile.name).into(),
            ..ModelLimits::UNKNOWN
        };
        let has_window = is_known_model && profile.window_tokens.is_some();
        let mut limits = ModelLimits::of(name)
            .or_else(|| has_window.then(of_profile))
            .unwrap_or(ModelLimits::UNKNOWN);
        if name.asks_million && limits.window_tokens.is_none_or(|it| it < MILLION) {
            limits.window_tokens = Some(MILLION);
            limits.max_input_tokens = None;
        }
        let index = self.index_of(&profile.name).filter(|_| self.is_custom);
        let (tells_window, tells_output) =
            index.map_or((false, false), |it| self.notes[it].tells_limits);
        if tells_window {
            let max_output_tokens = limits.max_output_tokens;
            limits = ModelLimits {
                max_output_tokens,
                ..of_profile()
            };
        }
        if tells_output {
            limits.max_output_tokens = profile.max_output_tokens;
        }
        limits
    }

    /// The profile called `name`; the first one if there is none.
    pub fn named(&self, name: &str) -> &Profile {
        static EMPTY: OnceLock<Profile> = OnceLock::new();
        let found = self.profiles.iter().find(|profile| profile.name == name);
        let found = found.or_else(|| self.profiles.first());
        found.unwrap_or_else(|| EMPTY.get_or_init(Profile::default))
    }

    /// Splits the name of `model`. Linear in the name.
    pub fn model_name(&self, model: &str) -> ModelName {
        ModelName::read(model, &self.name_parts)
    }

    /// The profile to prefer whose beginning of a name `name` has, and the length of that.
    fn beginning(
        &self,
        name: &str,
        (provider, dialect): (&str, Dialect),
        min_bytes: usize,
    ) -> Option<(usize, &Profile)> {
        let fits = |prefix: &str, profile: &Profile| {
            prefix.len() >= min_bytes && begins(name, prefix) && profile.is_for(provider, dialect)
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

    fn read(root: Value<'_>) -> Result<Table, ProfileError> {
        let mut table = Table {
            fallbacks: pairs(root.get("fallbacks")),
            name_parts: NameParts {
                providers: pairs(root.get("providers")),
                vendors: root.get("vendors").map(list).unwrap_or_default(),
                aliases: pairs(root.get("aliases")),
            },
            ..Table::default()
        };
        for row in root.get("profiles").into_iter().flat_map(Value::items) {
            table.add(row)?;
        }
        table.sort();
        Ok(table)
    }

    /// This table with the profiles in `rows`: a JSON list, in any order. Quadratic in the rows.
    ///
    /// A row named as a profile changes that one: what it does not say stays as it is, its models
    /// too, unless it is `like` another. Profiles that are like the changed one do not change. A new
    /// profile is like `unknown` if it says nothing. Fails if a row is no profile.
    pub fn with_rows(&self, rows: &str) -> Result<Table, ProfileError> {
        let document = Document::parse(rows, &Limits::default());
        let document = document.map_err(|error| ProfileError::new(format!("profiles: {error}")))?;
        let mut table = self.clone();
        table.is_custom = true;
        for row in table.ordered(document.root().items().collect())? {
            table.add(row)?;
        }
        table.sort();
        Ok(table)
    }

    /// `rows`, each behind the one that it is like.
    fn ordered<'d>(&self, rows: Vec<Value<'d>>) -> Result<Vec<Value<'d>>, ProfileError> {
        let mut waiting: Vec<(&str, Value<'d>)> = Vec::new();
        for (number, row) in (1..).zip(rows) {
            let name = name_of(row, number)?;
            if waiting.iter().any(|(other, _)| *other == name) {
                let message = format!("profile '{name}' is there twice; each may be there once");
                return Err(ProfileError::new(message));
            }
            waiting.push((name, row));
        }
        let like = |row: &Value<'d>| row.get("like").and_then(Value::as_str);
        let mut done: Vec<(&str, Value<'d>)> = Vec::new();
        while !waiting.is_empty() {
            let (ready, rest): (Vec<_>, Vec<_>) = waiting.iter().partition(|(_, row)| {
                let base = like(row);
                !waiting.iter().any(|(name, _)| base == Some(*name))
            });
            if ready.is_empty() {
                let names: Vec<_> = rest.iter().map(|(name, _)| *name).collect();
                let names = names.join(", ");
                let message = format!("profiles are like each other in a circle: {names}");
                return Err(ProfileError::new(message));
            }
            for (name, row) in &ready {
                let is_known = |base| {
                    self.index_of(base).is_some() || done.iter().any(|(other, _)| *other == base)
                };
                if let Some(base) = like(row).filter(|base| !is_known(base)) {
                    return Err(ProfileError::new(format!(
                        "profile '{name}': like is '{base}'; it must be the name of a profile of \
                         the package or of yours"
                    )));
                }
            }
            done.extend(ready);
            waiting = rest;
        }
        Ok(done.into_iter().map(|(_, row)| row).collect())
    }

    fn index_of(&self, name: &str) -> Option<usize> {
        self.profiles
            .iter()
            .position(|profile| profile.name == name)
    }

    fn add(&mut self, row: Value<'_>) -> Result<(), ProfileError> {
        let name = name_of(row, self.profiles.len() + 1)?;
        let fail = |fault: Fault| ProfileError::of(name, fault);
        let own = self.index_of(name);
        let base = match row.get("like") {
            Some(like) => self.index_of(text(like).map_err(|it| fail(it.below("like")))?),
            None => own.or_else(|| self.index_of("unknown")),
        };
        let mut profile = base.map_or_else(Profile::default, |base| self.profiles[base].clone());
        let own_scope = own.map(|own| &self.profiles[own]);
        profile.providers = own_scope.map_or_else(Vec::new, |own| own.providers.clone());
        profile.dialects = own_scope.map_or_else(Vec::new, |own| own.dialects.clone());
        let applied = profile.apply(row);
        applied.map_err(fail)?;
        let index = own.unwrap_or(self.profiles.len());
        let mut notes = Notes::read(row).map_err(fail)?;
        let inherited = base.map_or((false, false), |base| self.notes[base].tells_limits);
        let counts = row
            .members()
            .any(|(key, _)| !NOTES.contains(&key) && !OF_LIMITS.contains(&key));
        // A row of the user's own was never compared with bills, unless it only says more about one that was.
        let is_confirmed = if self.is_custom {
            own.is_some() && !counts && row.get("like").is_none()
        } else {
            notes.confidence == "verified"
        };
        if profile.quality == Quality::Exact && !is_confirmed {
            profile.quality = Quality::Calibrated;
        }
        let tells = |key| self.is_custom && row.get(key).is_some();
        notes.tells_limits = (
            inherited.0 || tells("window_tokens"),
            inherited.1 || tells("max_output_tokens"),
        );
        match row.get("models") {
            Some(_) => self.prefixes.retain(|(_, old)| *old != index),
            None => notes.models = own.map_or_else(Vec::new, |own| self.notes[own].models.clone()),
        }
        if row.get("models").is_some() {
            let prefixes = notes.models.iter().map(|name| (name.clone(), index));
            self.prefixes.extend(prefixes);
        }
        match own {
            Some(own) => (self.profiles[own], self.notes[own]) = (profile, notes),
            None => {
                self.profiles.push(profile);
                self.notes.push(notes);
            }
        }
        Ok(())
    }

    /// Every profile with all of its fields and where it is from, as a JSON object by name.
    pub fn to_json(&self) -> String {
        let mut json = String::from("{");
        for (profile, notes) in self.profiles.iter().zip(&self.notes) {
            if json.len() > 1 {
                json.push(',');
            }
            write_string(&profile.name, &mut json);
            json.push(':');
            profile.write(&mut json);
            notes.write(&mut json);
            json.push('}');
        }
        json.push('}');
        json
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

impl Notes {
    fn read(row: Value<'_>) -> Result<Notes, Fault> {
        let mut notes = Notes::default();
        for (key, value) in row.members().filter(|(key, _)| NOTES.contains(key)) {
            notes.set(key, value).map_err(|fault| fault.below(key))?;
        }
        Ok(notes)
    }

    fn set(&mut self, key: &str, value: Value<'_>) -> Result<(), Fault> {
        match key {
            "models" => {
                let lower = |name: Result<&str, Fault>| name.map(str::to_ascii_lowercase);
                self.models = texts(value)?.map(lower).collect::<Result<_, _>>()?;
            }
            "source" => self.source = text(value)?.to_owned(),
            "date" => self.date = text(value)?.to_owned(),
            "confidence" => {
                self.confidence = text(value)?.to_owned();
                if !CONFIDENCES.contains(&&*self.confidence) {
                    return Err(none_of(value, CONFIDENCES));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn write(&self, json: &mut String) {
        json.push_str(",\"models\":");
        write_list(self.models.iter().map(String::as_str), json);
        let texts = [
            ("source", &self.source),
            ("date", &self.date),
            ("confidence", &self.confidence),
        ];
        for (key, text) in texts {
            write_member(key, text, json);
        }
    }
}

fn name_of<'d>(row: Value<'d>, number: usize) -> Result<&'d str, ProfileError> {
    if row.kind() != Kind::Object {
        let Fault { complaint, .. } = Fault::of_type(row, "an object");
        return Err(ProfileError {
            message: format!("profile {number} {complaint}"),
            is_type: true,
        });
    }
    let name = row.get("name").and_then(Value::as_str);
    name.filter(|name| !name.is_empty()).ok_or_else(|| {
        let message = format!("profile {number}: name must be a text that is not empty");
        ProfileError::new(message)
    })
}

fn list(value: Value<'_>) -> Vec<String> {
    value
        .items()
        .filter_map(|item| item.as_str().map(str::to_owned))
        .collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(rows: &str) -> String {
        let refused = Table::bundled().with_rows(rows).err();
        refused.map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn the_table_of_the_package_has_no_fault() {
        let document = Document::parse(DATA.text(), &Limits::default()).expect("JSON");
        let read = Table::read(document.root()).map(|table| table.profiles.len());
        assert_eq!(
            read,
            Ok(document
                .root()
                .get("profiles")
                .expect("rows")
                .items()
                .count())
        );
    }

    #[test]
    fn what_is_written_is_read_as_the_same() {
        let bundled = Table::bundled();
        let json = bundled.to_json();
        let rows = Document::parse(&json, &Limits::default()).expect("JSON");
        let rows: Vec<_> = rows.root().members().map(|(_, row)| row).collect();
        let mut again = Table::default();
        rows.iter()
            .for_each(|row| again.add(*row).expect("a profile"));
        assert_eq!(again.profiles, bundled.profiles);
    }

    #[test]
    fn a_field_of_another_layout_is_refused() {
        assert_eq!(
            refusal(r#"[{"name": "a", "layout": "openai", "turns": {}}]"#),
            "profile 'a': turns is a field of the layout anthropic, and the layout is openai"
        );
        let typo = refusal(r#"[{"name": "a", "openning_tokens": 1}]"#);
        assert!(typo.starts_with("profile 'a': openning_tokens is no field of a profile; "));
    }
}
