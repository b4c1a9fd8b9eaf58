//! Profiles: what a family of models is counted with, as dated data.
//!
//! The table is `profiles.json`; [`table`] finds the profile of a model. A row is flat: some fields are
//! common to all models, the others belong to the layout that it names ([`Layout`]) and are refused in
//! the row of another.
mod field;
mod layout;
pub(crate) mod limits;
pub mod model_name;
pub(crate) mod newer;
mod prices;
pub mod table;

pub use layout::{Anthropic, ApiPrices, Gemini, Layout, Linear, OpenAi};
pub use limits::ModelLimits;
pub use prices::{ImageRuleName, MediaPrices, ReasoningPrices, ReasoningRule, ToolPrices};

use crate::encoding::Encoding;
use crate::json::Value;
use crate::layout::GeminiForm;
use crate::request::{Dialect, Request, Signature};
use field::{Fault, FieldValue, Fields, fields, named, none_of, text};
use std::num::NonZeroU64;
use std::sync::LazyLock;

/// How good a count of text is.
///
/// ```
/// # use tokenctx::{Alone, Body, Call, Engine, Quality, Settings};
/// # let engine = Engine::new(b"a secret of 16 bytes or more", Settings::default());
/// # let body = Body::Bytes(br#"{"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}"#);
/// let count = engine.count(&body, &Call::default(), &Alone)?;
/// assert_eq!(count.quality, Quality::Exact);
/// # Ok::<(), tokenctx::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quality {
    /// By the vocabulary of the model.
    Exact,
    /// By another one, scaled to recorded bills.
    Calibrated,
    /// A guess.
    Heuristic,
}

named!(Quality {
    Exact = "exact",
    Calibrated = "calibrated",
    Heuristic = "heuristic",
});

/// The counter of text: an encoding of the package, or characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncodingName(String);

/// The name of no encoding: a character is a token.
const CHARACTERS: &str = "characters";

impl EncodingName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FieldValue for EncodingName {
    fn assign(&mut self, value: Value<'_>) -> Result<(), Fault> {
        let name = text(value)?;
        let mut known = Encoding::names().chain([CHARACTERS]);
        if known.all(|known| known != name) {
            return Err(none_of(value, Encoding::names().chain([CHARACTERS])));
        }
        self.0 = name.to_owned();
        Ok(())
    }

    fn write(&self, json: &mut String) {
        self.0.write(json);
    }
}

fields! {
    /// How the input tokens of a family of models are counted. Counts are in tokens.
    pub struct Profile {
        /// The name of the profile.
        pub name: String = String::new(),
        /// The vendor of the family.
        pub provider: String = String::new(),
        /// The providers that it is for, by the name of who answers; empty: all.
        pub providers: Vec<String> = Vec::new(),
        /// The dialects that it is for; empty: all.
        pub dialects: Vec<Dialect> = Vec::new(),
        /// The counter of its text.
        pub encoding: EncodingName = EncodingName::default(),
        /// How good a count of text is.
        pub quality: Quality = Quality::Heuristic,
        /// Tokens of the provider for `text_denominator` tokens of the encoding.
        pub text_numerator: u64 = 1,
        /// See `text_numerator`; rounded up per message.
        pub text_denominator: NonZeroU64 = NonZeroU64::MIN,
        /// Framing of a request.
        pub request_tokens: u64 = 0,
        /// Framing of a message.
        pub message_tokens: u64 = 0,
        /// More for a message of the assistant.
        pub assistant_tokens: i64 = 0,
        /// More for a name of a message, besides its text.
        pub name_tokens: i64 = 0,
        /// Framing of a system prompt outside of the messages.
        pub system_tokens: u64 = 0,
        /// Per tool call, besides its name and arguments, where no layout renders it.
        pub call_tokens: u64 = 0,
        /// Framing of an answer that comes back.
        pub reply_tokens: u64 = 0,
        /// Largest input and output of the model, if known.
        pub window_tokens: Option<u64> = None,
        /// Largest output of the model, if known.
        pub max_output_tokens: Option<u64> = None,
    } with {
        /// Reasoning that is sent back.
        pub reasoning: ReasoningPrices,
        /// Images, files, sound and video.
        pub media: MediaPrices,
        /// How tools, output schema and calls are rendered, and what that costs.
        pub layout: Layout,
    }
}

impl Profile {
    /// Sets what `row` says; the keys of notes and names of models are left to the table.
    pub(crate) fn apply(&mut self, row: Value<'_>) -> Result<(), Fault> {
        if let Some(layout) = row.get("layout") {
            self.layout
                .change(layout)
                .map_err(|it| it.below("layout"))?;
        }
        let fields = row.members().filter(|(key, _)| *key != "layout");
        for (key, value) in fields.filter(|(key, _)| !table::NOTES.contains(key)) {
            let done = self.set(key, value);
            let done = done.unwrap_or_else(|| Err(self.no_field(key)));
            done.map_err(|it| it.below(key))?;
        }
        Ok(())
    }

    /// Why a row with this layout cannot have the field `key`.
    fn no_field(&self, key: &str) -> Fault {
        let others = Layout::with_field(key);
        let complaint = match others.is_empty() {
            true => {
                let all = [self.names(), vec!["layout"], table::NOTES.to_vec()].concat();
                format!(
                    "is no field of a profile; the fields are {}",
                    all.join(", ")
                )
            }
            false => format!(
                "is a field of the layout {}, and the layout is {}",
                others.join(" or "),
                self.layout.name()
            ),
        };
        Fault {
            path: String::new(),
            complaint,
            is_type: false,
        }
    }

    /// The row that says all of this, as a JSON object without its last brace.
    pub(crate) fn write(&self, json: &mut String) {
        json.push('{');
        field::write_member("layout", &self.layout.name().to_owned(), json);
        self.write_members(json);
    }

    /// True if it is made for a provider or a dialect.
    pub(crate) fn is_special(&self) -> bool {
        !self.providers.is_empty() || !self.dialects.is_empty()
    }

    /// True if it is for requests in `dialect` that `provider` answers; empty if not known.
    pub(crate) fn is_for(&self, provider: &str, dialect: Dialect) -> bool {
        let has_provider =
            self.providers.is_empty() || self.providers.iter().any(|it| it == provider);
        has_provider && (self.dialects.is_empty() || self.dialects.contains(&dialect))
    }

    /// The prices of tools where no layout renders them; 0 in layouts that do.
    pub fn tools(&self) -> &ToolPrices {
        static NONE: LazyLock<ToolPrices> = LazyLock::new(ToolPrices::default);
        match &self.layout {
            Layout::Linear(tools, _) | Layout::Anthropic(tools, _) => tools,
            Layout::OpenAi(..) | Layout::Gemini(..) => &NONE,
        }
    }

    /// The prices of an unknown layout; 0 in others.
    pub fn linear(&self) -> &Linear {
        static NONE: LazyLock<Linear> = LazyLock::new(Linear::default);
        match &self.layout {
            Layout::Linear(_, linear) => linear,
            _ => &NONE,
        }
    }

    /// True if its layout is one of Gemini's.
    pub fn is_gemini(&self) -> bool {
        matches!(self.layout, Layout::Gemini(..))
    }

    /// True if a result at the end takes the tools of `request` out of the prompt.
    pub fn hides_tools(&self, request: &Request<'_>) -> bool {
        let ends_with_result = request.messages.last().is_some_and(|it| it.role == "tool");
        let hides = self.linear().tools_after_result_tokens.is_some();
        hides && !request.tools.is_empty() && ends_with_result
    }

    /// How signatures of thoughts are billed; Gemini's Developer API alone bills them.
    pub fn signatures(&self) -> Option<ReasoningRule> {
        match &self.layout {
            Layout::Gemini(GeminiForm::Names, _) => None,
            Layout::Gemini(_, gemini) => Some(gemini.signatures),
            _ => None,
        }
    }

    /// How much of the signatures in a message is billed: with 2.5 only those in pieces.
    pub fn signature_bytes(&self, signature: Signature) -> usize {
        match &self.layout {
            Layout::Gemini(GeminiForm::Declarations, _) => signature.bytes,
            Layout::Gemini(GeminiForm::Python, _) => signature.pieced_bytes,
            _ => 0,
        }
    }

    /// True if a new turn of the user drops reasoning that was billed.
    pub fn drops_reasoning(&self) -> bool {
        self.reasoning.reasoning == ReasoningRule::Loop
            || self.signatures() == Some(ReasoningRule::Loop)
    }

    /// The numbers of OpenAI's layout for an API; none in any other layout.
    ///
    /// A `model` with a vendor path is a gateway's, which may call another API than the one it
    /// offers.
    pub fn api_prices(&self, dialect: Dialect, model: &str) -> Option<&ApiPrices> {
        let Layout::OpenAi(_, openai) = &self.layout else {
            return None;
        };
        let is_rerouted = openai.chat.is_rerouted_by_gateways && model.contains('/');
        match dialect {
            Dialect::OpenAiResponses => Some(&openai.responses),
            _ if is_rerouted => Some(&openai.responses),
            _ => Some(&openai.chat),
        }
    }

    /// This profile by the token counting strategy of `universal`: o200k_base for all, 4 per message,
    /// attachments as metadata.
    pub fn universal(&self, universal: &Profile) -> Profile {
        Profile {
            provider: self.provider.clone(),
            window_tokens: self.window_tokens,
            max_output_tokens: self.max_output_tokens,
            ..universal.clone()
        }
    }

    /// RFC 006: characters over characters per token, times a factor, and 4 per message.
    pub fn characters(
        &self,
        universal: &Profile,
        milli_characters_per_token: u64,
        factor_permille: u64,
    ) -> Profile {
        Profile {
            name: CHARACTERS.to_owned(),
            encoding: EncodingName(CHARACTERS.to_owned()),
            text_numerator: factor_permille,
            text_denominator: NonZeroU64::new(milli_characters_per_token)
                .unwrap_or(NonZeroU64::MIN),
            media: MediaPrices {
                image_rule: self.media.image_rule.clone(),
                file_tokens: self.media.file_tokens,
                audio_tokens: self.media.audio_tokens,
                video_tokens: self.media.video_tokens,
                ..universal.media.clone()
            },
            ..self.universal(universal)
        }
    }
}
