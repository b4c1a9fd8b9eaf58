//! Model names, as vendors, clouds and gateways write them.

/// Words in names of models beside the model's own.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameParts {
    /// How a provider is written, and what it is called here.
    pub(crate) providers: Vec<(String, String)>,
    /// Vendors in front of a model's name, with their separators.
    pub(crate) vendors: Vec<String>,
    /// Other spellings of beginnings of names, and how they are written here.
    pub(crate) aliases: Vec<(String, String)>,
}

impl NameParts {
    /// The name used here for the provider written as `name`.
    pub(crate) fn provider(&self, name: &str) -> Option<&str> {
        let name = name.replace('-', "_");
        let found = self.providers.iter().find(|(written, _)| *written == name);
        found.map(|(_, provider)| provider.as_str())
    }

    /// `own` as it is written here.
    fn spelled(&self, own: &str) -> String {
        let own = own.replace('_', "-");
        let alias = |(other, name): &(String, String)| {
            let rest = own.strip_prefix(other.as_str())?;
            Some(format!("{name}{rest}"))
        };
        self.aliases.iter().find_map(alias).unwrap_or(own)
    }
}

/// The parts of a model's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName {
    /// The whole name in lower case, `-` for `@`.
    pub text: String,
    /// The model's own name with `-` for `_`, without provider, path, region, vendor, fine-tune, tag.
    pub own: String,
    /// The own name behind its vendor, as in `deepseek.v3`.
    pub with_vendor: String,
    /// Who answers, in the words of `profiles.json`; empty if the name does not say.
    pub provider: String,
    /// True for a name with `[1m]` behind it, by which agents ask for a window of a million tokens.
    pub asks_million: bool,
}

impl ModelName {
    /// Splits the name `model` by the words in `parts`. Linear in the name.
    pub(crate) fn read(model: &str, parts: &NameParts) -> ModelName {
        let text = model.trim_ascii().to_ascii_lowercase().replace('@', "-");
        let (name, level) = split_level(&text);
        let (provider, rest) = split_provider(name, parts);
        let segment = rest.rsplit('/').next().unwrap_or_default();
        let segment = segment.strip_prefix("ft:").unwrap_or(segment);
        let name = segment.split(':').next().unwrap_or_default();
        let (vendor, mut own) = split_vendor(name, parts);
        let with_vendor = &name[name.len() - vendor.len() - own.len()..];
        // Hosts stand before makers, as in `azure-openai-gpt-4o`.
        loop {
            let (inner, rest) = split_vendor(own, parts);
            if inner.is_empty() {
                break;
            }
            own = rest;
        }
        // Bedrock's ids are the ones with a dot behind the vendor.
        let is_bedrock = provider.is_none() && vendor.ends_with('.');
        let provider = if is_bedrock {
            Some("bedrock")
        } else {
            provider
        };
        ModelName {
            own: parts.spelled(own),
            with_vendor: with_vendor.to_owned(),
            provider: provider.unwrap_or_default().to_owned(),
            asks_million: level == "1m",
            text: text.clone(),
        }
    }

    /// The own name with `-` for `.`: hosts write `claude-sonnet-4.5` for `claude-sonnet-4-5`.
    pub fn plain(&self) -> String {
        self.own.replace('.', "-")
    }

    /// Where the words of the name begin, at most 32 of them.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        let is_break = |byte: u8| b"/:.-_ ".contains(&byte);
        let bytes = self.text.as_bytes();
        (0..bytes.len())
            .filter(move |&at| !is_break(bytes[at]) && (at == 0 || is_break(bytes[at - 1])))
            .filter_map(|at| self.text.get(at..))
            .take(32)
    }
}

/// A name, and the window or the level of effort that agents and proxies write behind it: `[1m]`, `(high)`.
fn split_level(text: &str) -> (&str, &str) {
    for (open, close) in [('[', ']'), ('(', ')')] {
        let inside = text.strip_suffix(close).and_then(|it| it.rsplit_once(open));
        if let Some((name, level)) = inside.filter(|(name, _)| !name.trim_end().is_empty()) {
            return (name.trim_end(), level);
        }
    }
    (text, "")
}

/// The provider that `text` begins with, as in `vertex_ai/` or `openai:`, and what follows a colon.
fn split_provider<'t>(text: &'t str, parts: &'t NameParts) -> (Option<&'t str>, &'t str) {
    let path = text.split('/').next().unwrap_or_default();
    if let Some((head, _)) = path.split_once(':') {
        let head = &text[..=head.len()];
        if let Some(provider) = parts.provider(head) {
            return (Some(provider), &text[head.len()..]);
        }
    }
    let has_path = path.len() < text.len();
    (parts.provider(path).filter(|_| has_path), text)
}

/// The vendor in front of `name`, or behind its region, with its separator, and the rest.
fn split_vendor<'n>(name: &'n str, parts: &NameParts) -> (&'n str, &'n str) {
    let behind_region = name.split_once('.').map(|(_, rest)| rest);
    [Some(name), behind_region]
        .into_iter()
        .flatten()
        .find_map(|rest| {
            let is_vendor =
                |vendor: &&String| rest.starts_with(vendor.as_str()) && rest.len() > vendor.len();
            let vendor = parts.vendors.iter().find(is_vendor)?;
            Some(rest.split_at(vendor.len()))
        })
        .unwrap_or(("", name))
}

/// True if `name` begins with `prefix`, be it with `-` for its `.`; then the word must end there, since
/// `gpt-4-1106` is no `gpt-4.1`.
pub(crate) fn begins(name: &str, prefix: &str) -> bool {
    if name.starts_with(prefix) {
        return true;
    }
    let Some((start, rest)) = name.as_bytes().split_at_checked(prefix.len()) else {
        return false;
    };
    let same = |one: u8, other: u8| one == other || (one == b'-' && other == b'.');
    let ends = rest
        .first()
        .is_none_or(|byte| !byte.is_ascii_alphanumeric());
    ends && start
        .iter()
        .zip(prefix.as_bytes())
        .all(|(one, other)| same(*one, *other))
}
