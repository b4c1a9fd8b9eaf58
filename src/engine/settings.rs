//! How an engine counts, and how much it keeps.
use crate::count::Vocabularies;
use crate::profile::table::Table;
use std::borrow::Cow;

/// How text is counted.
///
/// ```
/// # use tokenctx::{Alone, Body, Call, Engine, Settings};
/// use tokenctx::Method;
///
/// let settings = Settings { method: Method::Universal, ..Settings::default() };
/// let engine = Engine::new(b"a secret of 16 bytes or more", settings);
/// # let body = Body::Bytes(br#"{"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}"#);
/// assert_eq!(engine.count(&body, &Call::default(), &Alone)?.encoding, "o200k_base");
/// # Ok::<(), tokenctx::Error>(())
/// ```
#[derive(Clone, Debug)]
pub enum Method {
    /// By the profile of the model.
    Profile,
    /// The token counting strategy: o200k_base for all, 4 per message.
    Universal,
    /// RFC 006: characters over characters per token, times a factor.
    Characters {
        /// Characters per 1,000 tokens.
        milli_characters_per_token: u64,
        /// The same for single providers.
        milli_by_provider: Vec<(String, u64)>,
        /// 1,100 to be conservative, 1,000 not to be.
        factor_permille: u64,
    },
}

/// How an [`Engine`](crate::Engine) counts.
///
/// ```
/// use tokenctx::Settings;
///
/// let settings = Settings { is_learning: true, capacity_bytes: 256 << 20, ..Settings::default() };
/// assert_eq!(settings.ttl_seconds, 86_400.0);
/// ```
pub struct Settings {
    /// How text is counted.
    pub method: Method,
    /// Count text where there is one for the model. If one cannot count a text, the request is
    /// counted as if it were not there, and `failed_vocabulary` is assumed.
    pub vocabularies: Vocabularies,
    /// True if recorded calls teach; only with [`Method::Profile`].
    pub is_learning: bool,
    /// The profiles.
    pub table: Cow<'static, Table>,
    /// Memory for known prefixes.
    pub capacity_bytes: usize,
    /// Memory for the beginnings of recorded bodies.
    pub body_prefixes_bytes: usize,
    /// Memory for the shapes of recorded calls, by which edits are known.
    pub shapes_bytes: usize,
    /// How long prefixes and shapes are kept.
    pub ttl_seconds: f64,
}

impl Default for Settings {
    /// By the profile of the model, without learning.
    fn default() -> Settings {
        Settings {
            method: Method::Profile,
            vocabularies: Vocabularies::default(),
            is_learning: false,
            table: Cow::Borrowed(Table::bundled()),
            capacity_bytes: 64 << 20,
            body_prefixes_bytes: 1 << 20,
            shapes_bytes: 1 << 20,
            ttl_seconds: 86_400.0,
        }
    }
}
