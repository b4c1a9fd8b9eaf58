//! Options that cost input tokens: forced tools, structured output, extended thinking.
use super::data::Data;
use super::field::{array, first, has, is_truthy, object, present, string};
use super::media::{MEDIA_LEVEL, plain_level};
use super::model::{Tool, ToolChoice};
use crate::json::Value;
use std::borrow::Cow;

/// Where Gemini and Bedrock Converse have what concerns tools.
pub(super) const TOOL_CONFIG: [&str; 2] = ["toolConfig", "tool_config"];

/// The names of the most output in each dialect, the one that counts first; and its other places.
const MAX_OUTPUT: [&str; 10] = [
    "max_completion_tokens",
    "max_output_tokens",
    "maxOutputTokens",
    "max_tokens",
    "maxTokens",
    "max_tokens_to_sample",
    "maxTokenCount",
    "max_new_tokens",
    "max_gen_len",
    "num_predict",
];
const MAX_OUTPUT_OWNERS: [&str; 8] = [
    "generationConfig",
    "generation_config",
    "inferenceConfig",
    "inference_config",
    "textGenerationConfig",
    "config",
    "options",
    "parameters",
];

/// The most output that the body asks for; `None` if it says no positive number.
pub(super) fn read_max_output(fields: Value<'_>) -> Option<u64> {
    let said = |owner| first(owner, &MAX_OUTPUT)?.as_u64().filter(|it| *it > 0);
    said(fields).or_else(|| said(object(first(fields, &MAX_OUTPUT_OWNERS))?))
}

/// The window that a server is told to have, as Ollama's `num_ctx`.
pub(super) fn read_window(fields: Value<'_>) -> Option<u64> {
    let options = object(fields.get("options"))?;
    options.get("num_ctx")?.as_u64().filter(|it| *it > 0)
}

/// The names of what changes prices, the member that says it where it is an object, and what it is called here.
const PRICE_WORDS: [(&str, &str, &str); 7] = [
    ("service_tier", "type", "service_tier"),
    ("serviceTier", "type", "service_tier"),
    ("speed", "", "speed"),
    ("performanceConfig", "latency", "speed"),
    ("inference_geo", "", "inference_geo"),
    ("web_search_options", "", "web_search"),
    ("search_parameters", "mode", "web_search"),
];

/// Beginnings of built-in tools that cost something beside their tokens, and what is billed.
const CHARGED_TOOLS: [(&str, &str); 11] = [
    ("web_search", "web_search"),
    ("google_search", "web_search"),
    ("googleSearch", "web_search"),
    ("x_search", "x_search"),
    ("google_maps", "google_maps"),
    ("googleMaps", "google_maps"),
    ("file_search", "file_search"),
    ("collections_search", "file_search"),
    ("code_interpreter", "code_interpreter"),
    ("code_execution_", "code_execution"),
    ("image_generation", "image_generation"),
];

/// What of the request changes its price, as `service_tier` and `flex`; or is billed by the use, as `web_search`.
pub(super) fn read_price_words<'d>(
    fields: Value<'d>,
    tools: &[Tool<'d>],
) -> Vec<(&'static str, Cow<'d, str>)> {
    let mut words: Vec<(&'static str, Cow<'d, str>)> = Vec::new();
    for (key, value) in fields.members() {
        let Some((_, inner, name)) = PRICE_WORDS.iter().find(|(written, ..)| *written == key)
        else {
            continue;
        };
        let member = object(Some(value)).and_then(|it| it.get(inner));
        let word = string(Some(member.unwrap_or(value)));
        match *name {
            "web_search" if word != "off" => words.push((name, Cow::default())),
            "web_search" => {}
            _ => words.push((name, word.into())),
        }
    }
    for tool in tools.iter().filter(|it| it.builtin.is_some()) {
        let charged = CHARGED_TOOLS
            .iter()
            .find(|(start, _)| tool.name.starts_with(start));
        if let Some((_, name)) = charged
            && words.iter().all(|(it, _)| it != name)
        {
            words.push((name, Cow::default()));
        }
    }
    words
}

/// True if a personality is asked for, whose words are not public.
pub(super) fn has_personality(fields: Value<'_>) -> bool {
    !matches!(string(fields.get("personality")), "" | "none")
}

/// Which tool the model must call.
pub(super) fn read_tool_choice(fields: Value<'_>) -> ToolChoice<'_> {
    let choice = first(fields, &["tool_choice", "function_call"]);
    let Some(choice) = choice.or_else(|| configured_choice(fields)) else {
        return ToolChoice::Free;
    };
    let mut word = string(Some(choice));
    if let Some(choice) = object(Some(choice)) {
        let inner = object(first(choice, &["function", "tool", "custom"]));
        let name = string(inner.unwrap_or(choice).get("name"));
        if !name.is_empty() {
            return ToolChoice::Tool(Cow::Borrowed(name));
        }
        let keys = choice.members().map(|(key, _)| key);
        let kind = Some(string(choice.get("type"))).filter(|kind| !kind.is_empty());
        word = kind.or(keys.min()).unwrap_or_default();
    }
    match word.to_ascii_lowercase().as_str() {
        "any" | "required" => ToolChoice::Required,
        "none" => ToolChoice::None,
        _ => ToolChoice::Free,
    }
}

/// The choice in the tool configuration of Gemini or Bedrock Converse, or in that of an interaction.
fn configured_choice(fields: Value<'_>) -> Option<Value<'_>> {
    if let Some(choice) = generation_config(fields).and_then(|it| present(it.get("tool_choice"))) {
        let allowed = object(choice.get("allowed_tools"));
        return allowed.map_or(Some(choice), |it| present(it.get("mode")));
    }
    let config = object(first(fields, &TOOL_CONFIG))?;
    let keys = ["functionCallingConfig", "function_calling_config"];
    match object(first(config, &keys)) {
        Some(calling) => present(calling.get("mode")),
        None => present(config.get("toolChoice")),
    }
}

/// How closely the model is to look at media that do not say it themselves.
pub(super) fn read_media_level(fields: Value<'_>) -> Option<&'static str> {
    plain_level(string(first(generation_config(fields)?, &MEDIA_LEVEL)))
}

/// Where Gemini has options of the answer.
fn generation_config(fields: Value<'_>) -> Option<Value<'_>> {
    object(first(fields, &["generationConfig", "generation_config"]))
}

/// Where Gemini has the schema of the structured output, in its own form and as JSON Schema.
const OWN_SCHEMA: [&str; 2] = ["responseSchema", "response_schema"];
const JSON_SCHEMA: [&str; 2] = ["responseJsonSchema", "response_json_schema"];

/// True if Gemini's structured output is described by JSON Schema.
pub(super) fn has_json_schema(fields: Value<'_>) -> bool {
    let config = generation_config(fields);
    config.is_some_and(|config| first(config, &JSON_SCHEMA).is_some()) || has_step_format(fields)
}

/// The schema of the structured output.
pub(super) fn read_response_schema(fields: Value<'_>) -> Option<Data<'_>> {
    let config_keys = [
        "generationConfig",
        "generation_config",
        "output_config",
        "outputConfig",
    ];
    let config = object(first(fields, &config_keys));
    let text = object(fields.get("text"));
    let form = first(fields, &["response_format", "output_format"])
        .or_else(|| present(text.and_then(|text| text.get("format"))));
    if let (None, Some(config)) = (form, config) {
        let schema = first(config, &OWN_SCHEMA).or_else(|| first(config, &JSON_SCHEMA));
        return schema
            .map(Data::value)
            .or_else(|| schema_of_form(first(config, &["format", "textFormat"])));
    }
    schema_of_form(form)
}

/// True if the output format is one of an interaction, which has its schema beside its MIME type.
fn has_step_format(fields: Value<'_>) -> bool {
    object(one_form(fields.get("response_format"))).is_some_and(|it| has(it, &["mime_type"]))
}

/// The form of the output; of a list of them the one with a schema.
fn one_form(form: Option<Value<'_>>) -> Option<Value<'_>> {
    match array(form) {
        Some(list) => list.items().find(|it| has(*it, &["schema"])),
        None => form,
    }
}

fn schema_of_form(form: Option<Value<'_>>) -> Option<Data<'_>> {
    let form = object(one_form(form))?;
    let form = object(form.get("structure")).unwrap_or(form);
    let inner = object(first(form, &["json_schema", "jsonSchema"])).unwrap_or(form);
    let schema = first(inner, &["schema"])?;
    let text = schema.as_str().map(Data::text).filter(Data::is_json);
    Some(text.unwrap_or(Data::value(schema)))
}

/// Name and description of the output format that OpenAI dialects ask for.
pub(super) fn read_output_format(fields: Value<'_>) -> (&str, &str) {
    let text = object(fields.get("text"));
    let form = present(fields.get("response_format"))
        .or_else(|| present(text.and_then(|text| text.get("format"))));
    let Some(form) = object(form) else {
        return ("", "");
    };
    let inner = object(form.get("json_schema")).unwrap_or(form);
    (string(inner.get("name")), string(inner.get("description")))
}

/// True if citations of a document or search result in the messages are switched on.
pub(super) fn has_citations(fields: Value<'_>) -> bool {
    let messages = array(fields.get("messages"))
        .into_iter()
        .flat_map(Value::items);
    let blocks = messages.filter_map(|message| array(message.get("content")));
    let mut blocks = blocks.flat_map(Value::items);
    blocks.any(|block| {
        let result = object(block.get("toolResult")).unwrap_or(block);
        let inner = array(result.get("content")).into_iter();
        is_cited(block) || inner.flat_map(Value::items).any(is_cited)
    })
}

fn is_cited(block: Value<'_>) -> bool {
    let document = object(first(block, &["document", "searchResult"])).unwrap_or(block);
    let citations = object(document.get("citations"));
    citations.and_then(|it| it.get("enabled")?.as_bool()) == Some(true)
}

/// True if the reasoning mode `pro` is asked for.
pub(super) fn read_pro(fields: Value<'_>) -> bool {
    let reasoning = object(fields.get("reasoning"));
    reasoning.is_some_and(|reasoning| string(reasoning.get("mode")) == "pro")
}

/// True if calls side by side are switched off.
pub(super) fn read_serial(fields: Value<'_>) -> bool {
    let choice = object(fields.get("tool_choice"));
    let is_off = choice.and_then(|choice| choice.get("disable_parallel_tool_use"));
    let parallel = fields.get("parallel_tool_calls");
    is_off.and_then(Value::as_bool) == Some(true)
        || parallel.and_then(Value::as_bool) == Some(false)
}

/// True if an effort below the largest is asked for, or no thinking.
pub(super) fn limits_thinking(fields: Value<'_>) -> bool {
    let thinking = object(fields.get("thinking"));
    let reasoning = object(fields.get("reasoning"));
    let effort = reasoning.and_then(|it| it.get("effort"));
    let effort = string(present(fields.get("reasoning_effort")).or(effort));
    let is_off = |owner: Option<Value<'_>>, key, off| {
        let value = owner.and_then(|it| it.get(key));
        value.is_some_and(|it| string(Some(it)) == off || it.as_bool() == Some(false))
    };
    !matches!(effort, "" | "max" | "xhigh")
        || is_off(thinking, "type", "disabled")
        || is_off(reasoning, "enabled", "false")
        || has_thinking_off(fields)
}

/// True if thinking is switched off by the option of chat templates, in its own field or beside others.
pub(super) fn has_thinking_off(fields: Value<'_>) -> bool {
    let switches = object(fields.get("chat_template_kwargs"));
    let mut owners = [Some(fields), switches].into_iter().flatten();
    let is_off = |it: Value<'_>| string(Some(it)) == "false" || it.as_bool() == Some(false);
    owners.any(|owner| owner.get("enable_thinking").is_some_and(is_off))
}

/// True if extended thinking with a budget is switched on.
pub(super) fn read_thinking(fields: Value<'_>) -> bool {
    let more = object(fields.get("additionalModelRequestFields"));
    let more = |key| more.and_then(|more| more.get(key));
    let owners = [
        fields.get("thinking"),
        more("thinking"),
        more("reasoning_config"),
    ];
    let is_enabled = |thinking: Value<'_>| string(thinking.get("type")) == "enabled";
    if owners.into_iter().filter_map(object).any(is_enabled) {
        return true;
    }
    let Some(reasoning) = object(fields.get("reasoning")) else {
        return false;
    };
    let is_on = |key| reasoning.get(key).is_some_and(is_truthy);
    !matches!(string(reasoning.get("effort")), "" | "none")
        || is_on("enabled")
        || is_on("max_tokens")
}
