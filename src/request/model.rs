//! The neutral request that every dialect is read into.
use super::data::Data;
use super::dialect::Evidence;
use super::edit::ContextEdit;
use super::kind::{Dialect, MediaKind};
use super::signature::Signature;
use super::unread::UNKNOWN_FIELD;
use crate::json::{Value, write_string};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Deref;

/// System, tools, messages and the options that cost input tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'d> {
    /// The format it was written in.
    pub dialect: Dialect,
    /// The model as the body or the caller names it; empty if neither does.
    pub model: Cow<'d, str>,
    /// The system prompt that stands outside of the messages.
    pub system: Vec<Part<'d>>,
    /// True if the messages are a prompt as the model reads it, without a chat template.
    pub is_raw: bool,
    /// False where Gemini's system prompt does not say whose it is.
    pub has_system_role: bool,
    /// Tool definitions in their order: those that the model sees from the start, and deferred
    /// ones that a message refers to.
    pub tools: Vec<Tool<'d>>,
    /// All with `defer_loading`, whether a message refers to them or not.
    pub deferred_tools: Vec<Tool<'d>>,
    /// Those of each item of the Responses API that adds tools.
    pub added_tools: Vec<AddedTools<'d>>,
    /// Messages in their order.
    pub messages: Vec<Message<'d>>,
    /// Which tool the model must call.
    pub tool_choice: ToolChoice<'d>,
    /// The structured output's schema.
    pub response_schema: Option<Data<'d>>,
    /// True if that schema stands where Gemini takes one as JSON Schema instead of its own form.
    pub has_json_schema: bool,
    /// The name of the structured output, where the dialect gives one.
    pub schema_name: Cow<'d, str>,
    /// The client's words about the structured output.
    pub schema_description: Cow<'d, str>,
    /// True if extended thinking with a budget is switched on.
    pub has_thinking: bool,
    /// True if less thinking than the most is asked for, or none.
    pub limits_thinking: bool,
    /// True if the chat template is told that the model does not think.
    pub has_thinking_off: bool,
    /// True if the model is asked to cite a document.
    pub has_citations: bool,
    /// True if the model may make but one call at a time.
    pub is_serial: bool,
    /// True if a mode of reasoning with a hidden prompt is asked for.
    pub is_pro: bool,
    /// The window that it tells the server to have.
    pub window_tokens: Option<u64>,
    /// The most output that it asks for.
    pub max_output_tokens: Option<u64>,
    /// What of it changes its price, with its word, such as `service_tier` and `flex`; or is billed by the use.
    pub price_words: Vec<(&'static str, Cow<'d, str>)>,
    /// Edits that the provider is asked for before it answers.
    pub edits: Vec<ContextEdit<'d>>,
    /// True if the request sets how closely the model looks at media that do not say it themselves.
    pub has_media_level: bool,
    /// The tokens that what the provider keeps for it may add.
    pub state_tokens: u64,
    /// Fields before or behind the messages that may add tokens which nobody counts.
    pub unread: Vec<Data<'d>>,
    /// Assumptions made while reading.
    pub assumptions: Assumptions,
    /// The evidence for the dialect of its body, even if the caller names the dialect.
    pub(crate) evidence: Evidence,
}

impl<'d> Request<'d> {
    /// True if anything but model, prompt, tools and messages is billed.
    pub fn has_options(&self) -> bool {
        let is_free = self.tool_choice == ToolChoice::Free;
        let has_later_tools = self.later_tools().next().is_some();
        let is_plain = is_free && !self.has_thinking && !self.is_pro && !has_later_tools;
        let is_plain = is_plain && self.unread.is_empty() && !self.has_thinking_off;
        !is_plain || self.response_schema.is_some()
    }

    /// True if no assumption but of fields around the messages was made, and the messages are what their texts say: so
    /// what is known of those texts is known of them.
    pub(crate) fn is_plain(&self) -> bool {
        let is_beside = |name: &&str| *name == UNKNOWN_FIELD;
        let has_unread = self.messages.iter().any(|it| !it.unread.is_empty());
        self.assumptions.iter().all(is_beside) && !has_unread && !self.has_media_level
    }

    /// Tools that the model sees because of a message.
    pub fn later_tools(&self) -> impl Iterator<Item = &Tool<'d>> {
        let loaded = self.tools.iter().filter(|tool| tool.is_loaded);
        loaded.chain(self.added_tools.iter().flat_map(|it| &it.tools))
    }

    /// Tools that the model sees whatever the messages are.
    pub fn first_tools(&self) -> impl Iterator<Item = &Tool<'d>> {
        self.tools.iter().filter(|tool| !tool.is_loaded)
    }

    /// The context of the messages of this request, without its options.
    pub fn context_without_options(&self) -> Request<'d> {
        Request {
            dialect: self.dialect,
            model: self.model.clone(),
            system: self.system.clone(),
            is_raw: self.is_raw,
            has_system_role: self.has_system_role,
            tools: self.first_tools().cloned().collect(),
            deferred_tools: self.deferred_tools.clone(),
            added_tools: Vec::new(),
            messages: self.messages.first().cloned().into_iter().collect(),
            tool_choice: ToolChoice::Free,
            response_schema: None,
            has_json_schema: false,
            schema_name: Cow::default(),
            schema_description: Cow::default(),
            has_thinking: false,
            limits_thinking: false,
            has_thinking_off: false,
            has_citations: false,
            is_serial: false,
            is_pro: false,
            window_tokens: None,
            max_output_tokens: None,
            price_words: Vec::new(),
            edits: Vec::new(),
            has_media_level: false,
            state_tokens: 0,
            unread: Vec::new(),
            assumptions: Assumptions::new(),
            evidence: Evidence::default(),
        }
    }
}

/// Names of what had to be guessed, sorted, each once.
///
/// ```
/// use tokenctx::Assumptions;
///
/// assert!(Assumptions::from(["unknown_model"]).contains("unknown_model"));
/// ```
pub type Assumptions = BTreeSet<&'static str>;

/// Which tool the model must call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolChoice<'d> {
    /// The model decides, or nothing is said.
    Free,
    /// No tool.
    None,
    /// Any tool, but some tool.
    Required,
    /// The tool of this name.
    Tool(Cow<'d, str>),
}

/// One message: who speaks, and its parts in order, adjacent text merged, empty text left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'d> {
    /// `system`, `developer`, `user`, `assistant`, `tool`, or an unknown role as it is.
    pub role: Cow<'d, str>,
    /// The name of the speaker; empty if there is none.
    pub name: Cow<'d, str>,
    /// Its content.
    pub parts: Vec<Part<'d>>,
    /// False for Gemini's content that does not say whose it is; no part of the identity.
    pub has_role: bool,
    /// Of the thoughts that Gemini had on the way to it; no part of the identity either.
    pub signature: Signature,
    /// Fields of it and of its parts that may add tokens which nobody counts.
    pub unread: Vec<Data<'d>>,
    /// True if a summary behind it stands for it: then it says nothing, and is in no prefix.
    pub is_dropped: bool,
}

impl Message<'_> {
    /// A turn of the user that says nothing.
    pub(crate) fn of_user() -> Message<'static> {
        Message {
            role: "user".into(),
            name: Cow::default(),
            parts: Vec::new(),
            has_role: true,
            signature: Signature::default(),
            unread: Vec::new(),
            is_dropped: false,
        }
    }
}

/// The first `count` of the `all` pieces in `parts`: blocks of text, and other parts. `None` if they have not as
/// many, or nothing is before the end.
pub(crate) fn first_pieces<'d>(
    parts: &[Part<'d>],
    (count, all): (usize, usize),
) -> Option<Vec<Part<'d>>> {
    let pieces = |part: &Part<'_>| match part {
        Part::Text(text) => text.ends.len() + 1,
        _ => 1,
    };
    if count == 0 || parts.iter().map(pieces).sum::<usize>() != all {
        return None;
    }
    let mut left = count;
    let mut first = Vec::new();
    for part in parts {
        match part {
            _ if left == 0 => break,
            Part::Text(text) if pieces(part) > left => {
                first.push(Part::Text(text.first_blocks(left)?));
                left = 0;
            }
            _ => {
                first.push(part.clone());
                left -= pieces(part);
            }
        }
    }
    Some(first)
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part<'d> {
    /// Text as it is.
    Text(Text<'d>),
    /// An image, file, audio or video.
    Media(Media<'d>),
    /// A call of a tool by the model.
    ToolCall(ToolCall<'d>),
    /// The result of a tool call.
    ToolResult(ToolResult<'d>),
    /// Reasoning that the client sends back: readable text, or an opaque blob.
    Reasoning {
        /// Readable text, empty if it is opaque.
        text: Cow<'d, str>,
        /// An encrypted or redacted blob, empty if there is none.
        opaque: Cow<'d, str>,
    },
    /// What the provider made of all that was said before it: readable text, or an opaque blob.
    Summary {
        /// Readable text, empty if it is opaque.
        text: Cow<'d, str>,
        /// An encrypted blob, empty if there is text.
        opaque: Cow<'d, str>,
    },
    /// Anything else, counted as its JSON text.
    Data(Data<'d>),
}

/// Text as it is, adjacent blocks of text joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text<'d> {
    text: Cow<'d, str>,
    /// Where the blocks end, in bytes, all but the last; no part of the identity.
    ends: Vec<usize>,
    /// File names of the documents in it, empty where it has the name; no part of the identity.
    documents: Vec<String>,
    /// The blocks up to the end of each document.
    document_ends: Vec<usize>,
}

impl<'d> Text<'d> {
    /// Appends a block.
    pub(super) fn join(&mut self, block: &str) {
        self.ends.push(self.text.len());
        self.text.to_mut().push_str(block);
    }

    /// The first `count` blocks; `None` unless there are more.
    fn first_blocks(&self, count: usize) -> Option<Text<'d>> {
        let end = *self.ends.get(count.checked_sub(1)?)?;
        let documents = self.document_ends.partition_point(|it| *it <= count);
        Some(Text {
            text: Cow::Owned(self.text[..end].to_owned()),
            ends: self.ends[..count - 1].to_vec(),
            documents: self.documents[..documents].to_vec(),
            document_ends: self.document_ends[..documents].to_vec(),
        })
    }

    /// Says that it ends with a document.
    pub(super) fn end_document(&mut self, name: String) {
        self.documents.push(name);
        self.document_ends.push(self.ends.len() + 1);
    }

    /// File names of the documents in it, empty where the text has the name.
    pub fn documents(&self) -> &[String] {
        &self.documents
    }

    /// The blocks that it was joined from.
    pub fn blocks(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(&0).chain(&self.ends);
        let ends = self.ends.iter().copied().chain([self.text.len()]);
        starts.zip(ends).map(|(start, end)| &self.text[*start..end])
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl<'d, T: Into<Cow<'d, str>>> From<T> for Text<'d> {
    fn from(text: T) -> Text<'d> {
        Text {
            text: text.into(),
            ends: Vec::new(),
            documents: Vec::new(),
            document_ends: Vec::new(),
        }
    }
}

/// A call of a tool by the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall<'d> {
    /// The tool.
    pub name: Cow<'d, str>,
    /// Its arguments.
    pub arguments: Data<'d>,
    /// The namespace of Responses that the tool is in, else empty: no part of the identity, since not all clients send it back.
    pub namespace: Cow<'d, str>,
    /// How it stands in the body: neither identity nor part of the view.
    pub form: CallForm,
    /// True if the vendor ran the tool on the way to its answer; no part of the identity either.
    pub is_run_by_vendor: bool,
}

/// How a tool call stands in the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallForm {
    /// As any dialect has it.
    Plain,
    /// As an item with an id of the provider's own.
    Item,
    /// As a `function_call` of Chat.
    Legacy,
}

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult<'d> {
    /// The tool, where the dialect names it in the result; else empty.
    pub name: Cow<'d, str>,
    /// The result.
    pub parts: Vec<Part<'d>>,
    /// True if the tool failed.
    pub is_error: bool,
    /// The id of the call, where a message of Chat has it; no part of the identity.
    pub call_id: Cow<'d, str>,
    /// True if it stands in a message with the role `function`; no part of the identity either.
    pub is_legacy: bool,
}

/// An image, file, audio or video: its bytes, or only where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media<'d> {
    /// Its content.
    pub kind: MediaKind,
    /// MIME type in lower case without parameters; empty if unknown.
    pub mime: Cow<'d, str>,
    /// The bytes or where they are.
    pub content: Content<'d>,
    /// The level of detail that the client asks for; empty if it does not.
    pub detail: Cow<'d, str>,
    /// File name; not part of the identity.
    pub name: Cow<'d, str>,
}

/// Where the bytes of media are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content<'d> {
    /// Raw bytes of a caller's object.
    Bytes(&'d [u8]),
    /// Base64 text, well-formed to its end, and BLAKE3 of its bytes, if that was asked for on reading.
    Base64(&'d str, Option<Box<[u8; 32]>>),
    /// Text that stands for the bytes but is not base64 to its end: the bytes that can be
    /// decoded tell the size of a picture at most, the text is the identity.
    Malformed(&'d str),
    /// Percent-encoded text of a data URL.
    Percent(&'d str),
    /// Not in the request: a URL, a file id, the JSON of some other place, or `?`. Never fetched.
    Remote(Cow<'d, str>),
}

/// Tools that one item of a conversation adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedTools<'d> {
    /// In their order.
    pub tools: Vec<Tool<'d>>,
    /// True if a search has found them.
    pub is_found: bool,
}

/// A tool definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool<'d> {
    /// Its name; the type of a built-in tool.
    pub name: Cow<'d, str>,
    /// Its description; empty if there is none.
    pub description: Cow<'d, str>,
    /// The JSON Schema of its parameters.
    pub schema: Option<Data<'d>>,
    /// True if the schema stands where Gemini takes one as JSON Schema instead of its own form.
    pub is_json_schema: bool,
    /// The JSON Schema of its result, which Gemini alone takes.
    pub response: Option<Data<'d>>,
    /// True if the schema of its result stands where Gemini takes one as JSON Schema.
    pub is_json_response: bool,
    /// The definition of a tool that runs at the provider and is known only by its type.
    pub builtin: Option<Data<'d>>,
    /// True if the model sees it only because a message refers to it.
    pub is_loaded: bool,
}

impl Tool<'_> {
    /// The definition as canonical JSON without unbilled keys: its identity.
    pub fn canonical(&self) -> String {
        let mut out = String::new();
        match &self.builtin {
            Some(definition) => definition.write_canonical(&mut out),
            None => self.write_definition(&mut out),
        }
        out
    }

    /// The schema of its parameters, if that is all it has beside name and description.
    pub(crate) fn plain_schema(&self) -> Option<Value<'_>> {
        let is_plain = self.builtin.is_none() && self.response.is_none();
        self.schema.filter(|_| is_plain)?.node()
    }

    fn write_definition(&self, out: &mut String) {
        out.push_str("{\"description\":");
        write_string(&self.description, out);
        out.push_str(",\"name\":");
        write_string(&self.name, out);
        out.push_str(",\"parameters\":");
        match &self.schema {
            Some(schema) => schema.write_canonical(out),
            None => out.push_str("null"),
        }
        if let Some(response) = &self.response {
            out.push_str(",\"response\":");
            response.write_canonical(out);
        }
        out.push('}');
    }
}
