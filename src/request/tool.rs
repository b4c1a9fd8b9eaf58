//! Tool definitions of any dialect.
use super::bound::Notes;
use super::data::{Data, is_unbilled};
use super::field::{array, first, has, object, present, string};
use super::model::{AddedTools, Tool};
use super::unread::{Owner, unread};
use crate::json::{Kind, Value};
use std::collections::BTreeSet;

/// Where Gemini lists definitions.
const DECLARATIONS: [&str; 2] = ["functionDeclarations", "function_declarations"];

/// Where a definition has the schema of its parameters.
const SCHEMA_KEYS: [&str; 6] = [
    "parameters",
    "input_schema",
    "inputSchema",
    JSON_SCHEMA_KEYS[0],
    JSON_SCHEMA_KEYS[1],
    "format",
];

/// Where Gemini has it as JSON Schema.
const JSON_SCHEMA_KEYS: [&str; 2] = ["parametersJsonSchema", "parameters_json_schema"];

/// Where Gemini has the schema of a result.
const RESPONSE_KEYS: [&str; 3] = ["response", JSON_RESPONSE_KEYS[0], JSON_RESPONSE_KEYS[1]];

/// Where Gemini has it as JSON Schema.
const JSON_RESPONSE_KEYS: [&str; 2] = ["responseJsonSchema", "response_json_schema"];

/// Tool definitions in their order, without those that are not loaded yet.
pub(super) fn read_tools<'d>(
    value: Option<Value<'d>>,
    fields: Value<'d>,
    assumptions: &mut Notes,
) -> Vec<Tool<'d>> {
    let mut tools = Vec::new();
    let has_deferred = elements(value).any(is_deferred);
    let loaded = has_deferred.then(|| loaded_names(fields));
    for item in elements(value) {
        let is_loaded = |names: &BTreeSet<_>| names.contains(string(item.get("name")));
        if !is_deferred(item) || loaded.as_ref().is_some_and(is_loaded) {
            let known = tools.len();
            read_tool(item, &mut tools);
            let new = tools.iter_mut().skip(known);
            new.for_each(|tool| tool.is_loaded = is_deferred(item));
        }
    }
    assume_builtin(&tools, assumptions);
    tools
}

fn assume_builtin(tools: &[Tool<'_>], assumptions: &mut Notes) {
    if tools.iter().any(|tool| tool.builtin.is_some()) {
        assumptions.insert("builtin_tool");
    }
}

/// Definitions of deferred tools in their order.
pub(super) fn read_deferred_tools(value: Option<Value<'_>>) -> Vec<Tool<'_>> {
    let mut tools = Vec::new();
    let deferred = elements(value).filter(|item| is_deferred(*item));
    deferred.for_each(|item| read_tool(item, &mut tools));
    tools
}

/// Fields of definitions that may add tokens which nobody counts.
pub(super) fn unread_fields(value: Option<Value<'_>>) -> impl Iterator<Item = Data<'_>> {
    elements(value).flat_map(|item| {
        let declared = array(first(item, &DECLARATIONS));
        let inner = object(first(item, &["function", "toolSpec", "custom"]));
        let owner = match declared.is_none() && (inner.is_some() || is_own(item)) {
            true => Owner::Tool,
            false => Owner::VendorTool,
        };
        let declared = declared.into_iter().flat_map(Value::items);
        // Bedrock Converse: {"inputSchema": {"json": {...}}}.
        let wrapper = object(inner.and_then(|it| it.get("inputSchema")));
        let wrapper = wrapper.filter(|it| has(*it, &["json"]));
        let inner = inner.into_iter().chain(declared).chain(wrapper);
        let inner = inner.flat_map(|it| unread(Owner::Tool, it));
        unread(owner, item).into_iter().chain(inner)
    })
}

/// Definitions in items that add tools, and fields of them that may add tokens which nobody counts.
pub(super) fn read_added_tools<'d>(
    items: Option<Value<'d>>,
    assumptions: &mut Notes,
    unread: &mut Vec<Data<'d>>,
) -> Vec<AddedTools<'d>> {
    let read = |(list, is_found)| {
        let mut tools = Vec::new();
        elements(Some(list)).for_each(|tool| read_tool(tool, &mut tools));
        unread.extend(unread_fields(Some(list)));
        assume_builtin(&tools, assumptions);
        AddedTools { tools, is_found }
    };
    added_lists(items).map(read).collect()
}

/// The lists of tools in items that add some: the client's, or what a search has found.
fn added_lists(items: Option<Value<'_>>) -> impl Iterator<Item = (Value<'_>, bool)> {
    let items = array(items).into_iter().flat_map(Value::items);
    items.filter_map(added_list)
}

/// The tools that an item adds, and whether a search has found them.
pub(super) fn added_list(item: Value<'_>) -> Option<(Value<'_>, bool)> {
    let is_found = match item.get("type")?.as_str()? {
        "additional_tools" => false,
        FOUND => true,
        _ => return None,
    };
    Some((array(item.get("tools"))?, is_found))
}

/// The type of the item of Responses that has the tools which a search found.
const FOUND: &str = "tool_search_output";

/// How many definitions there are in `value`, at least as many as are read.
pub(super) fn definition_count(value: Option<Value<'_>>) -> usize {
    elements(value).map(definitions_in).sum()
}

/// How many definitions there are in items that add tools.
pub(super) fn added_count(items: Option<Value<'_>>) -> usize {
    let added = added_lists(items).flat_map(|(list, _)| elements(Some(list)));
    added.map(definitions_in).sum()
}

/// One, or as many as Gemini lists, each beside members that are tools of its own.
fn definitions_in(item: Value<'_>) -> usize {
    match array(first(item, &DECLARATIONS)) {
        Some(declared) => declared.len() + item.len(),
        None => 1,
    }
}

/// The elements of a list, or the value that stands in place of one; behind a namespace of Responses the tools in it.
fn elements(value: Option<Value<'_>>) -> impl Iterator<Item = Value<'_>> {
    let list = array(value);
    let items = list.into_iter().flat_map(Value::items);
    let items = items.chain(value.filter(|_| list.is_none()));
    items.flat_map(|item| {
        let inner = array(item.get("tools")).filter(|_| is_namespace(item));
        std::iter::once(item).chain(inner.into_iter().flat_map(Value::items))
    })
}

fn is_namespace(item: Value<'_>) -> bool {
    string(item.get("type")) == NAMESPACE
}

/// The type of a tool of Responses that has others in it.
pub(crate) const NAMESPACE: &str = "namespace";

/// The type of the tool of Responses that finds deferred ones.
pub(crate) const TOOL_SEARCH: &str = "tool_search";

/// True if the model sees a tool only once a message refers to it.
fn is_deferred(item: Value<'_>) -> bool {
    item.get("defer_loading").and_then(Value::as_bool) == Some(true)
}

/// Names of deferred tools that a result or a message of the system refers to.
fn loaded_names(fields: Value<'_>) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    let messages = array(fields.get("messages")).into_iter();
    for block in messages.flat_map(Value::items).flat_map(content_blocks) {
        let found_by_search = block
            .get("content")
            .and_then(|it| array(it.get("tool_references")));
        let found_by_search = found_by_search.into_iter().flat_map(Value::items);
        let inner = content_blocks(block).chain(found_by_search);
        for inner in std::iter::once(block).chain(inner) {
            if string(inner.get("type")) == "tool_reference" {
                found.insert(string(inner.get("tool_name")));
            }
        }
        if let Some(tool) = object(block.get("tool")) {
            found.insert(string(tool.get("name")));
        }
    }
    found
}

/// The blocks in the content of a message or of a block.
fn content_blocks(owner: Value<'_>) -> impl Iterator<Item = Value<'_>> {
    let content = array(owner.get("content"));
    content.into_iter().flat_map(Value::items)
}

/// Appends the definitions in one element of a tool list.
fn read_tool<'d>(item: Value<'d>, tools: &mut Vec<Tool<'d>>) {
    if let Some(name) = item.as_str() {
        return tools.push(builtin(name, Data::value(item)));
    }
    if let Some(declared) = array(first(item, &DECLARATIONS)) {
        return read_declarations(item, declared, tools);
    }
    if let Some(inner) = object(first(item, &["function", "toolSpec", "custom"])) {
        return tools.push(define(inner));
    }
    if is_own(item) {
        return tools.push(define(item));
    }
    let builtin = read_builtin(item);
    match builtin.as_ref().map(|it| &*it.name) {
        // The client searches itself: a function under this name.
        Some(TOOL_SEARCH) if object(first(item, &SCHEMA_KEYS)).is_some() => tools.push(Tool {
            name: TOOL_SEARCH.into(),
            ..define(item)
        }),
        Some(NAMESPACE) => tools.extend(builtin.map(|it| Tool {
            description: namespace_text(item).into(),
            ..it
        })),
        _ => tools.extend(builtin),
    }
}

/// Name and description of a namespace.
fn namespace_text(item: Value<'_>) -> String {
    let [name, words] = ["name", "description"].map(|key| string(item.get(key)));
    format!("{name}\n{words}")
}

/// True if a definition that stands by itself is a tool of the client's own.
fn is_own(item: Value<'_>) -> bool {
    let is_named = item
        .get("name")
        .is_some_and(|name| name.kind() == Kind::String);
    let kind = present(item.get("type"));
    is_named && kind.is_none_or(|kind| matches!(kind.as_str(), Some("function" | "custom")))
}

/// Appends the functions in a tool of Gemini, then its built-in tools in the order of names.
fn read_declarations<'d>(item: Value<'d>, declared: Value<'d>, tools: &mut Vec<Tool<'d>>) {
    let functions = declared.items().filter(|tool| tool.kind() == Kind::Object);
    tools.extend(functions.map(|function| Tool {
        response: first(function, &RESPONSE_KEYS).map(Data::value),
        is_json_response: first(function, &JSON_RESPONSE_KEYS).is_some(),
        ..define(function)
    }));
    let others = item
        .members()
        .filter(|(key, _)| !DECLARATIONS.contains(key));
    let mut others: Vec<_> = others.collect();
    others.sort_unstable_by_key(|(key, _)| *key);
    tools.extend(
        others
            .into_iter()
            .map(|(key, value)| builtin(key, Data::member(key, value))),
    );
}

/// A tool that is known by its type, or by its first key; none if all keys are unbilled.
fn read_builtin(item: Value<'_>) -> Option<Tool<'_>> {
    let keys = item.members().map(|(key, _)| key);
    let least = keys.filter(|key| !is_unbilled(key)).min()?;
    let name = first(item, &["type", "name"]).and_then(Value::as_str);
    Some(builtin(name.unwrap_or(least), Data::billed(item)))
}

/// A tool of the client's own.
fn define(tool: Value<'_>) -> Tool<'_> {
    let schema = first(tool, &SCHEMA_KEYS);
    // Bedrock Converse: {"inputSchema": {"json": {...}}}.
    let wrapped = object(schema).and_then(|schema| object(schema.get("json")));
    Tool {
        is_loaded: false,
        name: string(tool.get("name")).into(),
        description: string(tool.get("description")).into(),
        schema: wrapped.or(schema).map(Data::value),
        is_json_schema: first(tool, &JSON_SCHEMA_KEYS).is_some(),
        response: None,
        is_json_response: false,
        builtin: None,
    }
}

/// A tool that runs at the provider.
fn builtin<'d>(name: &'d str, definition: Data<'d>) -> Tool<'d> {
    Tool {
        is_loaded: false,
        name: name.into(),
        description: "".into(),
        schema: None,
        is_json_schema: false,
        response: None,
        is_json_response: false,
        builtin: Some(definition),
    }
}
