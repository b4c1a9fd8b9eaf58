//! Model names, as vendors, clouds and gateways write them.
use crate::profile::table::Table;

/// What a model's name says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName {
    /// The whole name in lower case, `-` for `@`.
    pub text: String,
    /// The model's own name, without provider, path, region, vendor, fine-tune and tag.
    pub own: String,
    /// The own name behind its vendor, as in `deepseek.v3`.
    pub with_vendor: String,
    /// Who answers, in the words of `profiles.json`; empty if the name does not say.
    pub provider: String,
}

impl ModelName {
    /// What `model` says, with the providers and vendors of `table`. Linear in the name.
    pub fn read(model: &str, table: &Table) -> ModelName {
        let text = model.trim_ascii().to_ascii_lowercase().replace('@', "-");
        let (provider, rest) = split_provider(&text, table);
        let segment = rest.rsplit('/').next().unwrap_or_default();
        let segment = segment.strip_prefix("ft:").unwrap_or(segment);
        let name = segment.split(':').next().unwrap_or_default();
        let (vendor, own) = split_vendor(name, table);
        let with_vendor = &name[name.len() - vendor.len() - own.len()..];
        // Bedrock's ids are the ones with a dot behind the vendor.
        let is_bedrock = provider.is_none() && vendor.ends_with('.');
        let provider = if is_bedrock {
            Some("bedrock")
        } else {
            provider
        };
        ModelName {
            own: own.to_owned(),
            with_vendor: with_vendor.to_owned(),
            provider: provider.unwrap_or_default().to_owned(),
            text: text.clone(),
        }
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

/// The provider that `text` begins with, as in `vertex_ai/` or `openai:`, and what follows a colon.
fn split_provider<'t>(text: &'t str, table: &'t Table) -> (Option<&'t str>, &'t str) {
    let path = text.split('/').next().unwrap_or_default();
    if let Some((head, _)) = path.split_once(':') {
        let head = &text[..=head.len()];
        if let Some(provider) = table.provider(head) {
            return (Some(provider), &text[head.len()..]);
        }
    }
    let has_path = path.len() < text.len();
    (table.provider(path).filter(|_| has_path), text)
}

/// The vendor in front of `name`, or behind its region, with its separator, and the rest.
fn split_vendor<'n>(name: &'n str, table: &Table) -> (&'n str, &'n str) {
    let behind_region = name.split_once('.').map(|(_, rest)| rest);
    [Some(name), behind_region]
        .into_iter()
        .flatten()
        .find_map(|rest| {
            let is_vendor =
                |vendor: &&String| rest.starts_with(vendor.as_str()) && rest.len() > vendor.len();
            let vendor = table.vendors.iter().find(is_vendor)?;
            Some(rest.split_at(vendor.len()))
        })
        .unwrap_or(("", name))
}
