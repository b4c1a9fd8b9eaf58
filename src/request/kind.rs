//! Names that everything else refers to: dialects, and kinds of media.

/// A request format.
///
/// ```
/// assert_eq!(tokenctx::Dialect::ALL.len(), 7);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI Chat Completions, and the many servers that speak it.
    OpenAiChat,
    /// OpenAI Responses.
    OpenAiResponses,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini `generateContent`.
    Gemini,
    /// Amazon Bedrock Converse.
    BedrockConverse,
    /// Messages of the VS Code language model API, or of a chat store with typed parts.
    VsCode,
    /// Gemini Interactions: a list of steps.
    GeminiInteractions,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Dialect; 7] = [
        Dialect::OpenAiChat,
        Dialect::OpenAiResponses,
        Dialect::Anthropic,
        Dialect::Gemini,
        Dialect::BedrockConverse,
        Dialect::VsCode,
        Dialect::GeminiInteractions,
    ];

    /// Its name: `"openai-chat"`, ...
    pub fn name(self) -> &'static str {
        match self {
            Dialect::OpenAiChat => "openai-chat",
            Dialect::OpenAiResponses => "openai-responses",
            Dialect::Anthropic => "anthropic",
            Dialect::Gemini => "gemini",
            Dialect::BedrockConverse => "bedrock-converse",
            Dialect::VsCode => "vscode",
            Dialect::GeminiInteractions => "gemini-interactions",
        }
    }

    /// The dialect of this name.
    pub fn named(name: &str) -> Option<Dialect> {
        Dialect::ALL
            .into_iter()
            .find(|dialect| dialect.name() == name)
    }
}

/// The kind of media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaKind {
    /// A picture.
    Image,
    /// A document of any other type.
    File,
    /// Sound.
    Audio,
    /// Moving pictures.
    Video,
}

impl MediaKind {
    /// `"image"`, `"file"`, `"audio"`, `"video"`.
    pub fn name(self) -> &'static str {
        match self {
            MediaKind::Image => "image",
            MediaKind::File => "file",
            MediaKind::Audio => "audio",
            MediaKind::Video => "video",
        }
    }
}
