//! The tokens that OpenAI's prompt layout adds: tools, output schema, calls and results.
use super::turn::calls;
use super::{Counter, Sum, plus};
use crate::layout::{self, OpenAiForm};
use crate::profile::{ApiPrices, Layout};
use crate::request::{
    CallForm, Message, NAMESPACE, Part, Request, TOOL_SEARCH, Tool, ToolCall, ToolChoice,
    ToolResult,
};

/// How far the prompt of a search for tools was off in the calls of the one project that has some: 1 to 8.
const SEARCH_DOUBT: u64 = 12;

/// The same for tools that an item adds, in the calls of two projects.
const ADDED_DOUBT: u64 = 4;

/// The same for tools that a search has found, by their block.
const FOUND_DOUBT: u64 = 24;

/// The most that a search within the call adds besides what it finds: 168 to 205 with one or two small tools.
const SEARCH_TOKENS: u64 = 256;

impl Counter<'_> {
    /// The header of an answer names the output schema, unless the model may call tools.
    pub(super) fn reply_schema(&self, request: &Request<'_>) -> u64 {
        let named = self.api.map_or(0, |api| api.reply_schema_tokens);
        match named > 0 && request.response_schema.is_some() && request.tools.is_empty() {
            true => plus(self.scaled(self.text(&request.schema_name)), named),
            false => 0,
        }
    }

    /// True if the calls of `message` stand in one wrapper.
    pub(super) fn wraps(&self, message: &Message<'_>) -> bool {
        self.api.is_some_and(|api| api.wrapper_tokens > 0) && calls(message).nth(1).is_some()
    }

    /// A call that stands by itself; its name is billed with it and with its result.
    pub(super) fn call(
        &mut self,
        api: &ApiPrices,
        call: &ToolCall<'_>,
        all: &[Message<'_>],
        index: usize,
        sum: &mut Sum,
    ) {
        self.counted_only_text = false;
        if call.form == CallForm::Legacy {
            self.assume_legacy(api);
            if api.has_legacy_messages {
                sum.add_signed(api.legacy_call_tokens);
                sum.text += self.text(&call.name) + self.text(&call.arguments.written());
                return;
            }
        }
        let is_call = |message: &Message<'_>| calls(message).next().is_some();
        let follows = index > 0 && is_call(&all[index - 1]);
        let is_alone = !follows && !all.get(index + 1).is_some_and(is_call);
        let mut tokens = match call.form {
            CallForm::Legacy => api.legacy_call_tokens,
            CallForm::Item if is_alone => api.call_tokens + api.item_id_tokens,
            _ => api.call_tokens,
        };
        if follows {
            tokens += api.next_call_tokens;
        }
        sum.add_signed(tokens);
        let dotted = api.dotted_name_count.clamp(0, 2).unsigned_abs();
        sum.text += dotted * self.dotted(&call.name) + (2 - dotted) * self.text(&call.name);
        sum.text += self.text(&call.arguments.compact());
        if !call.namespace.is_empty() {
            let places = if api.names_namespaces { 2 } else { 0 };
            // In place of `functions`, which is one token.
            sum.text += places * self.text(&call.namespace).saturating_sub(1);
            self.doubt(SEARCH_DOUBT);
        }
    }

    /// The tokens of a result in the form of 2023 besides its content.
    pub(super) fn legacy_result(
        &mut self,
        api: &ApiPrices,
        result: &ToolResult<'_>,
        sum: &mut Sum,
    ) {
        self.assume_legacy(api);
        if api.has_legacy_messages {
            sum.text += self.text(&result.name);
            sum.add_signed(api.legacy_result_tokens);
        }
    }

    fn assume_legacy(&mut self, api: &ApiPrices) {
        if !api.has_legacy_messages {
            self.assume("legacy_function_call");
        }
    }

    /// A result among those of a wrapper, which are one JSON array with a space after each comma.
    ///
    /// No token spans a space that follows something else, so the elements can be counted alone.
    pub(super) fn wrapped_result(
        &mut self,
        result: &ToolResult<'_>,
        open: char,
        close: char,
        sum: &mut Sum,
    ) {
        self.counted_only_text = false;
        let text = self.text_of(result, sum);
        let text = format!("{open}{}{close}", layout::result_text(&text));
        sum.text += self.text(&text);
    }

    /// Tokens of `name` as it stands behind a dot, as in `functions.name`.
    pub(super) fn dotted(&self, name: &str) -> u64 {
        self.text(&format!(".{name}"))
    }

    /// Tokens of tools, output schema and options in the OpenAI layout.
    pub(super) fn layout(&mut self, api: &ApiPrices, request: &Request<'_>) -> i64 {
        let form = match self.profile.layout {
            Layout::OpenAi(form, _) => form,
            _ => OpenAiForm::Of2024,
        };
        let mut tokens = api.request_tokens;
        if request.is_pro && api.pro_tokens > 0 {
            self.counted_only_text = false;
            tokens += api.pro_tokens;
        }
        let own = |tool: &&Tool<'_>| tool.builtin.is_none();
        let first = request.tools.iter().find(own);
        let system = leading_system(request);
        let mut schema_text = None;
        if let Some(tool) = first {
            tokens += match system {
                Some(_) => api.tools_with_system_tokens,
                None => api.tools_tokens,
            };
            if !tool.description.is_empty() {
                tokens += api.described_tokens;
            }
            tokens += self.layout_choice(api, request);
        }
        if let Some(schema) = &request.response_schema {
            let (name, description) = (&request.schema_name, &request.schema_description);
            schema_text = Some(layout::schema_text(name, description, schema));
            tokens += match (first, system) {
                (Some(_), _) => api.schema_with_tools_tokens,
                (None, Some(_)) => api.schema_with_system_tokens,
                (None, None) => api.schema_tokens,
            };
            if api.prompt_has_reply_schema {
                tokens = tokens.saturating_add_unsigned(self.reply_schema_tokens);
            }
        }
        let builtin = request.tools.iter().filter(|tool| !own(tool));
        let builtin = builtin.filter(|tool| tool.name != TOOL_SEARCH);
        let mut text = 0;
        for tool in builtin {
            text += self.names(tool);
            if tool.name == NAMESPACE {
                self.doubt(FOUND_DOUBT);
            }
        }
        for added in &request.added_tools {
            let Some(_) = added.tools.iter().find(own) else {
                continue;
            };
            self.counted_only_text = false;
            let tools = added.tools.iter().filter(own);
            text += self.text(&layout::tools_text(form, tools));
            tokens += api.added_tools_tokens;
            self.doubt(ADDED_DOUBT);
            if added.is_found {
                tokens += api.found_tools_tokens;
                self.doubt(FOUND_DOUBT);
            }
        }
        text += self.tool_search(api, request);
        self.counted_only_text &= request.tools.is_empty() && schema_text.is_none();
        if first.is_some() || schema_text.is_some() {
            // All blocks are one text with the system prompt: a token may span the border between the two.
            let end = system.filter(|_| api.joins_system).map(end_of_parts);
            let count = || {
                let tools =
                    first.map(|_| layout::tools_text(form, request.tools.iter().filter(own)));
                let blocks: Vec<_> = tools.into_iter().chain(schema_text.clone()).collect();
                self.joined(end, &blocks.join("\n\n"))
            };
            let way = || format!("{form:?} {} {}", end.is_some(), end.unwrap_or_default());
            text += match schema_text {
                Some(_) => count(),
                None => self.remembered_tools(&way(), request.tools.iter().filter(own), count),
            };
            if end.is_none() {
                tokens = tokens.saturating_add_unsigned(self.profile.message_tokens);
            }
        }
        tokens.saturating_add_unsigned(self.scaled(text))
    }

    /// Tokens of a search for tools. The vendor's is in the prompt until all are loaded, with their names and descriptions;
    /// the client's is a function.
    fn tool_search(&mut self, api: &ApiPrices, request: &Request<'_>) -> u64 {
        let Some(search) = request.tools.iter().find(|it| it.name == TOOL_SEARCH) else {
            return 0;
        };
        let is_loaded = |name: &str| {
            let mut added = request.added_tools.iter().flat_map(|it| &it.tools);
            added.any(|tool| tool.name == name)
        };
        let hidden = request.deferred_tools.iter();
        let hidden: Vec<_> = hidden.filter(|it| !is_loaded(&it.name)).collect();
        // A function of this name is a search only where there is something to find.
        if search.builtin.is_none() && request.deferred_tools.is_empty() {
            return 0;
        }
        if search.builtin.is_none() {
            self.doubt(SEARCH_DOUBT);
            return api.own_search_tokens;
        }
        if hidden.is_empty() || api.tool_search_tokens == 0 {
            return 0;
        }
        self.assume("tool_search");
        self.doubt(SEARCH_DOUBT);
        for tool in &hidden {
            let schema = tool.schema.map(|schema| schema.compact());
            self.tally.unread += self.text(&schema.unwrap_or_default());
        }
        self.tally.unread += SEARCH_TOKENS;
        let names: u64 = hidden.iter().map(|tool| self.names(tool)).sum();
        api.tool_search_tokens + names
    }

    /// Tokens of the name of a tool and of what is said about it.
    fn names(&self, tool: &Tool<'_>) -> u64 {
        self.text(&tool.name) + self.text(&tool.description)
    }

    fn layout_choice(&self, api: &ApiPrices, request: &Request<'_>) -> i64 {
        let own = |tool: &&Tool<'_>| tool.builtin.is_none();
        let mut tools = request.tools.iter().filter(own);
        let forced = match (&request.tool_choice, tools.next(), tools.next()) {
            (ToolChoice::None, _, _) => return api.none_choice_tokens,
            (ToolChoice::Tool(name), _, _) => name,
            (ToolChoice::Required, Some(tool), None) if api.forces_lone_tool => &tool.name,
            _ => return 0,
        };
        match api.forced_choice_tokens {
            0 => 0,
            tokens => tokens.saturating_add_unsigned(self.scaled(self.dotted(forced))),
        }
    }

    /// The tokens that `block` adds behind this `end` of a system prompt and a blank line; all of its own without one.
    fn joined(&self, end: Option<&str>, block: &str) -> u64 {
        let Some(end) = end else {
            return self.text(block);
        };
        let both = self.text(&format!("{end}\n\n{block}"));
        both.saturating_sub(self.text(end))
    }
}

/// The system prompt or system message that the prompt begins with.
pub(super) fn leading_system<'r, 'd>(request: &'r Request<'d>) -> Option<&'r [Part<'d>]> {
    if !request.system.is_empty() {
        return Some(&request.system);
    }
    let first = request.messages.first();
    let first = first.filter(|first| matches!(&*first.role, "system" | "developer"));
    first.map(|first| &*first.parts)
}

/// The end of a system prompt, which alone can share a token with what follows: from a space that follows something else
/// on, since no token spans such a place.
fn end_of_parts<'p>(system: &'p [Part<'_>]) -> &'p str {
    match system.last() {
        Some(Part::Text(text)) => end_of(text),
        _ => "",
    }
}

/// `text` from its last space on that follows something else than white space.
fn end_of(text: &str) -> &str {
    let bytes = text.as_bytes();
    let is_cut = |place: &usize| bytes[*place] == b' ' && bytes[place - 1].is_ascii_graphic();
    let place = (1..bytes.len()).rev().find(is_cut);
    &text[place.unwrap_or(0)..]
}
