//! Tokens of the tools of a request, and of what it says about their choice.
use super::{Counter, permille, plus};
use crate::layout::{self, ToolText};
use crate::profile::Layout;
use crate::request::{Request, Tool, ToolChoice};
use std::borrow::Cow;

/// Beginning of the types of Claude's tools that find deferred ones: then those are not listed.
const TOOL_SEARCH: &str = "tool_search_tool";

impl Counter<'_> {
    pub(super) fn tools(&mut self, request: &Request<'_>) -> u64 {
        self.counted_only_text = false;
        let prices = self.profile.tools();
        let lists_deferred = match &self.profile.layout {
            Layout::Anthropic(_, prices) => prices.lists_deferred_tools,
            _ => false,
        };
        let has_search =
            |tool: &Tool<'_>| tool.builtin.is_some() && tool.name.starts_with(TOOL_SEARCH);
        let lists_deferred = lists_deferred && !request.tools.iter().any(has_search);
        let deferred = request.deferred_tools.iter().filter(|_| lists_deferred);
        let mut tokens = prices.tools_tokens;
        if self.profile.linear().tool_text == ToolText::List {
            return tokens + self.scaled(self.listed_tools(&request.tools));
        }
        for tool in request.tools.iter().chain(deferred) {
            let listed = tool
                .builtin
                .as_ref()
                .and_then(|_| prices.vendor_tools.tokens(&tool.name));
            if let Some(listed) = listed {
                tokens += listed;
                continue;
            }
            tokens = plus(tokens + self.scaled(self.tool(tool)), prices.tool_tokens);
        }
        permille(tokens, prices.tools_permille)
    }

    /// Tokens of a JSON list of tools: no token spans the space between two.
    fn listed_tools(&self, tools: &[Tool<'_>]) -> u64 {
        let text = |(nth, tool): (usize, &Tool<'_>)| {
            if tool.builtin.is_some() {
                return self.tool(tool);
            }
            let open = if nth == 0 { '[' } else { ' ' };
            let close = if nth + 1 == tools.len() { ']' } else { ',' };
            let text = layout::function_text(tool, ToolText::List);
            self.text(&format!("{open}{text}{close}"))
        };
        tools.iter().enumerate().map(text).sum()
    }

    /// The result of `count` for `tools` that are written in this `way`; they are not written again to be counted again.
    pub(super) fn remembered_tools<'t, 'd: 't>(
        &self,
        way: &str,
        tools: impl IntoIterator<Item = &'t Tool<'d>>,
        count: impl FnOnce() -> u64,
    ) -> u64 {
        let mut form = format!("{} {} {way}", self.is_raw, way.len()).into_bytes();
        for tool in tools {
            let Some(schema) = tool.plain_schema() else {
                return count();
            };
            for text in [&tool.name, &tool.description] {
                form.extend((text.len() as u64).to_le_bytes());
                form.extend_from_slice(text.as_bytes());
            }
            schema.write_nodes(&mut form);
        }
        self.vocabulary.remembered(&form, count)
    }

    /// Text of one tool definition.
    fn tool(&self, tool: &Tool<'_>) -> u64 {
        let (form, is_line) = (self.profile.linear().tool_text, self.prompt.is_some());
        let way = format!("tool {form:?} {is_line}");
        self.remembered_tools(&way, [tool], || self.written_tool(tool))
    }

    fn written_tool(&self, tool: &Tool<'_>) -> u64 {
        if self.prompt.is_some() && tool.builtin.is_none() {
            return self.text(&layout::function_line(tool));
        }
        let form = self.profile.linear().tool_text;
        if form != ToolText::Parts && tool.builtin.is_none() {
            return self.text(&layout::function_text(tool, form));
        }
        let schema = tool.schema.map(|schema| schema.compact());
        let schema = schema.unwrap_or_default();
        let texts = [&*tool.name, &*tool.description, &*schema];
        texts.into_iter().map(|text| self.text(text)).sum()
    }

    pub(super) fn choice(&self, choice: &ToolChoice<'_>) -> u64 {
        match choice {
            ToolChoice::Free | ToolChoice::None => 0,
            ToolChoice::Required => self.profile.tools().required_choice_tokens,
            ToolChoice::Tool(name) => {
                let name = match self.prompt {
                    Some(_) => format!("\"{name}\"").into(),
                    None => Cow::Borrowed(&**name),
                };
                self.profile.tools().forced_choice_tokens + self.scaled(self.text(&name))
            }
        }
    }
}
