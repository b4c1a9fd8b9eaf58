//! Layouts of prompts: what models of one layout cost and no others, each a type with its own fields.
use crate::json::{Kind, Value};
use crate::layout::{CallText, GeminiForm, OpenAiForm, ToolText};
use crate::profile::field::{
    Fault, FieldValue, Fields, fields, named, none_of, text, write_member,
};
use crate::profile::prices::{ReasoningRule, ToolPrices};

/// How the prompt of a family of models is laid out, with the numbers that only this layout has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Unknown: numbers that are linear in the request.
    Linear(ToolPrices, Linear),
    /// OpenAI's.
    OpenAi(OpenAiForm, Box<OpenAi>),
    /// Anthropic's.
    Anthropic(ToolPrices, Anthropic),
    /// Gemini's.
    Gemini(GeminiForm, Gemini),
}

/// The field of a row that holds the numbers of Anthropic's layout, of which few rows set many.
const TURNS: &str = "turns";

/// Names of the layouts in the table.
const NAMES: [&str; 7] = [
    "linear",
    "openai",
    "openai-2023",
    "anthropic",
    "gemini-names",
    "gemini-python",
    "gemini-declarations",
];

named!(ToolText {
    Parts = "parts",
    Compact = "compact",
    Spaced = "spaced",
    List = "list",
    Ollama = "ollama",
    TypeScript = "typescript",
});

named!(CallText {
    Json = "json",
    JsonTwice = "json-twice",
    Elements = "elements",
    Spaced = "spaced",
    MistralList = "mistral-list",
    Free = "free",
});

fields! {
    /// Tokens of an unknown layout besides the prices of tools.
    pub struct Linear {
        /// More if no system prompt leads: many templates bring their own.
        pub no_system_tokens: i64 = 0,
        /// How a tool is shown.
        pub tool_text: ToolText = ToolText::Parts,
        /// More for having tools if no system prompt leads.
        pub tools_without_system_tokens: i64 = 0,
        /// True if the tool choice `none` takes the tools out of the prompt.
        pub none_choice_drops_tools: bool = false,
        /// Tokens of tools where a result at the end takes them out of the prompt.
        pub tools_after_result_tokens: Option<u64> = None,
        /// How a call is shown.
        pub call_text: CallText = CallText::Json,
        /// Per argument of a call, besides its name and its value, where each is an element.
        pub argument_tokens: u64 = 0,
        /// Around the calls of a message.
        pub calls_tokens: u64 = 0,
        /// Per tool result.
        pub result_tokens: u64 = 0,
    }
}

fields! {
    /// Tokens of OpenAI's layout besides the rendered text.
    pub struct OpenAi {
        /// The numbers of Chat Completions.
        pub chat: ApiPrices = ApiPrices::default(),
        /// The numbers of Responses.
        pub responses: ApiPrices = ApiPrices::default(),
    }
}

fields! {
    /// Tokens of one of OpenAI's APIs beside the rendered text: what no rendering explains.
    pub struct ApiPrices {
        /// True if gateways that name the model by a vendor path call Responses in place of this.
        pub is_rerouted_by_gateways: bool = false,
        /// True if tools and schema are appended to a leading system message; else they are a message
        /// of their own.
        pub joins_system: bool = false,
        /// More per request.
        pub request_tokens: i64 = 0,
        /// For having tools, without a leading system message.
        pub tools_tokens: i64 = 0,
        /// The same behind a leading system message.
        pub tools_with_system_tokens: i64 = 0,
        /// More if the first tool has a description.
        pub described_tokens: i64 = 0,
        /// For an output schema, without a leading system message.
        pub schema_tokens: i64 = 0,
        /// The same behind a leading system message.
        pub schema_with_system_tokens: i64 = 0,
        /// The same where there are tools.
        pub schema_with_tools_tokens: i64 = 0,
        /// Without tools, each answer in the history names the output schema: this and the name.
        pub reply_schema_tokens: i64 = 0,
        /// True if the answer to come names it too.
        pub prompt_has_reply_schema: bool = false,
        /// For the tool choice `none`.
        pub none_choice_tokens: i64 = 0,
        /// For a tool choice that names a tool, besides `.name`; 0: nothing at all.
        pub forced_choice_tokens: i64 = 0,
        /// True if the tool choice `required` names the tool if there is only one.
        pub forces_lone_tool: bool = false,
        /// Per call, besides arguments and twice the name.
        pub call_tokens: i64 = 0,
        /// The same for a call in the form of 2023.
        pub legacy_call_tokens: i64 = 0,
        /// True if calls and results in the form of 2023 are billed as they are written: the call with
        /// its own name alone, the result with the name of its message.
        pub has_legacy_messages: bool = false,
        /// Per such result, besides its text and name.
        pub legacy_result_tokens: i64 = 0,
        /// How many of the two names of a call stand behind a dot, as in `functions.name`.
        pub dotted_name_count: i64 = 0,
        /// More for a lone call of Responses with an id of its own.
        pub item_id_tokens: i64 = 0,
        /// More for a call right behind another.
        pub next_call_tokens: i64 = 0,
        /// Calls side by side are one call of a wrapper with a JSON list of calls, their results one
        /// JSON list: this much besides both. 0: there is no wrapper.
        pub wrapper_tokens: i64 = 0,
        /// For the reasoning mode `pro`.
        pub pro_tokens: i64 = 0,
        /// True if a call and its result name the namespace of the tool.
        pub names_namespaces: bool = false,
        /// Around tools that an item adds.
        pub added_tools_tokens: i64 = 0,
        /// For the vendor's search for tools, besides names and descriptions of those that it may find; 0: not measured.
        pub tool_search_tokens: u64 = 0,
        /// For a search of the client's, besides its definition.
        pub own_search_tokens: u64 = 0,
        /// More around tools that a search has found, and its call.
        pub found_tools_tokens: i64 = 0,
        /// More for a page of a PDF.
        pub page_tokens: i64 = 0,
    }
}

fields! {
    /// Tokens of Anthropic's layout besides the rendered text and the prices of tools.
    pub struct Anthropic {
        /// A conversation that begins with the assistant.
        pub opening_tokens: i64 = 0,
        /// Before each further block, and before a message of the same speaker.
        pub joined_tokens: i64 = 0,
        /// Around the results of a turn, in place of `message_tokens`.
        pub results_tokens: i64 = 0,
        /// The same if the request forces a call.
        pub forced_results_tokens: i64 = 0,
        /// Tokens of the user's words behind results, in place of `message_tokens`.
        pub after_results_tokens: i64 = 0,
        /// More for an answer in text right behind results.
        pub answer_tokens: i64 = 0,
        /// True if an element stands around the calls of a message.
        pub encloses_calls: bool = true,
        /// For parallel calls switched off, with a free choice.
        pub no_parallel_calls_tokens: i64 = 0,
        /// The same with a forced choice.
        pub forced_no_parallel_calls_tokens: i64 = 0,
        /// True if deferred tools are shown in the list of tools, and again once they are loaded.
        pub lists_deferred_tools: bool = false,
        /// For citations of documents.
        pub citations_tokens: u64 = 0,
        /// Around a document that is text, besides its name.
        pub document_tokens: u64 = 0,
        /// For a budget of the task.
        pub task_budget_tokens: u64 = 0,
        /// Around the examples of a tool's input, besides their JSON.
        pub examples_tokens: u64 = 0,
    }
}

fields! {
    /// Tokens of Gemini's layouts besides the rendered text.
    pub struct Gemini {
        /// True if a result has the id of its call for a name, and is read as JSON.
        pub names_results_by_id: bool = false,
        /// How signatures of thoughts are billed on calls that are sent back.
        pub signatures: ReasoningRule = ReasoningRule::Loop,
    }
}

/// A field that is an object of fields; members that a row does not have stay as they are.
macro_rules! object_field {
    ($name:ident) => {
        impl FieldValue for $name {
            fn assign(&mut self, value: Value<'_>) -> Result<(), Fault> {
                assign_members(self, value)
            }

            fn write(&self, json: &mut String) {
                json.push('{');
                self.write_members(json);
                json.push('}');
            }
        }
    };
}

object_field!(ApiPrices);
object_field!(Anthropic);

fn assign_members(fields: &mut dyn Fields, value: Value<'_>) -> Result<(), Fault> {
    if value.kind() != Kind::Object {
        return Err(Fault::of_type(value, "an object"));
    }
    for (key, member) in value.members() {
        let done = fields.set(key, member);
        let done = done.unwrap_or_else(|| Err(no_member(&fields.names())));
        done.map_err(|fault| fault.below(key))?;
    }
    Ok(())
}

fn no_member(names: &[&str]) -> Fault {
    Fault {
        path: String::new(),
        complaint: format!("is no field; the fields are {}", names.join(", ")),
        is_type: false,
    }
}

impl Default for Layout {
    fn default() -> Layout {
        Layout::Linear(ToolPrices::default(), Linear::default())
    }
}

impl Layout {
    /// Its name in the table.
    pub fn name(&self) -> &'static str {
        match self {
            Layout::Linear(..) => "linear",
            Layout::OpenAi(OpenAiForm::Of2024, _) => "openai",
            Layout::OpenAi(OpenAiForm::Of2023, _) => "openai-2023",
            Layout::Anthropic(..) => "anthropic",
            Layout::Gemini(GeminiForm::Names, _) => "gemini-names",
            Layout::Gemini(GeminiForm::Python, _) => "gemini-python",
            Layout::Gemini(GeminiForm::Declarations, _) => "gemini-declarations",
        }
    }

    /// The layout of this name with the fields of this one that it has too; the others are gone.
    fn changed(&self, name: &str) -> Option<Layout> {
        let tools = || match self {
            Layout::Linear(tools, _) | Layout::Anthropic(tools, _) => tools.clone(),
            _ => ToolPrices::default(),
        };
        let openai = |form| match self {
            Layout::OpenAi(_, openai) => Layout::OpenAi(form, openai.clone()),
            _ => Layout::OpenAi(form, Box::default()),
        };
        let gemini = |form| match self {
            Layout::Gemini(_, gemini) => Layout::Gemini(form, gemini.clone()),
            _ => Layout::Gemini(form, Gemini::default()),
        };
        Some(match (name, self) {
            ("linear", Layout::Linear(..)) | ("anthropic", Layout::Anthropic(..)) => self.clone(),
            ("linear", _) => Layout::Linear(tools(), Linear::default()),
            ("anthropic", _) => Layout::Anthropic(tools(), Anthropic::default()),
            ("openai", _) => openai(OpenAiForm::Of2024),
            ("openai-2023", _) => openai(OpenAiForm::Of2023),
            ("gemini-names", _) => gemini(GeminiForm::Names),
            ("gemini-python", _) => gemini(GeminiForm::Python),
            ("gemini-declarations", _) => gemini(GeminiForm::Declarations),
            _ => return None,
        })
    }

    /// Changes to the layout that `value` names.
    pub(crate) fn change(&mut self, value: Value<'_>) -> Result<(), Fault> {
        *self = self
            .changed(text(value)?)
            .ok_or_else(|| none_of(value, NAMES))?;
        Ok(())
    }

    /// Names of the layouts that have the field `key`.
    pub(crate) fn with_field(key: &str) -> Vec<&'static str> {
        let all = NAMES
            .iter()
            .filter_map(|name| Layout::default().changed(name));
        let has = |layout: &Layout| layout.names().contains(&key);
        all.filter(has).map(|layout| layout.name()).collect()
    }
}

impl Fields for Layout {
    fn names(&self) -> Vec<&'static str> {
        match self {
            Layout::Linear(tools, linear) => [tools.names(), linear.names()].concat(),
            Layout::OpenAi(_, openai) => openai.names(),
            Layout::Anthropic(tools, _) => [tools.names(), vec![TURNS]].concat(),
            Layout::Gemini(_, gemini) => gemini.names(),
        }
    }

    fn set(&mut self, key: &str, value: Value<'_>) -> Option<Result<(), Fault>> {
        match self {
            Layout::Linear(tools, linear) => {
                tools.set(key, value).or_else(|| linear.set(key, value))
            }
            Layout::OpenAi(_, openai) => openai.set(key, value),
            Layout::Anthropic(_, turns) if key == TURNS => Some(turns.assign(value)),
            Layout::Anthropic(tools, _) => tools.set(key, value),
            Layout::Gemini(_, gemini) => gemini.set(key, value),
        }
    }

    fn write_members(&self, json: &mut String) {
        match self {
            Layout::Linear(tools, linear) => {
                tools.write_members(json);
                linear.write_members(json);
            }
            Layout::OpenAi(_, openai) => openai.write_members(json),
            Layout::Anthropic(tools, turns) => {
                tools.write_members(json);
                write_member(TURNS, turns, json);
            }
            Layout::Gemini(_, gemini) => gemini.write_members(json),
        }
    }
}
