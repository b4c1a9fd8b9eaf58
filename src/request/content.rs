//! Content of a message, whatever the dialect: its blocks are told apart by type or by shape.
use super::bound::Notes;
use super::data::Data;
use super::field::{first_named, has, joined_text, object, string};
use super::model::{CallForm, Part, ToolCall, ToolResult};
use super::part::{Columns, PartKind, parts};
use super::signature::Signature;
use super::summary::COMPACTED;
use super::unread::{Owner, unread};
use crate::json::{Kind, Value};
use std::borrow::Cow;

/// How deep content inside of content is read (results of tools, documents made of blocks);
/// deeper content counts as its JSON text.
pub const MAX_NESTING: usize = 8;

/// Reads content into parts, adjacent text merged and empty text left out.
pub(super) struct Reader<'a, 'd> {
    pub(super) parts: Vec<Part<'d>>,
    pub(super) assumptions: &'a mut Notes,
    /// Of the thoughts behind what was read.
    pub(super) signature: Signature,
    /// Fields of blocks that may add tokens which nobody counts.
    pub(super) unread: Vec<Data<'d>>,
    nesting: usize,
}

impl<'a, 'd> Reader<'a, 'd> {
    pub(super) fn new(assumptions: &'a mut Notes) -> Reader<'a, 'd> {
        Reader {
            parts: Vec::new(),
            assumptions,
            signature: Signature::default(),
            unread: Vec::new(),
            nesting: 0,
        }
    }

    /// Appends a part that is not text to be joined.
    pub(super) fn push(&mut self, part: Part<'d>) {
        self.assumptions.push(&mut self.parts, part);
    }

    /// Appends text.
    pub(super) fn text(&mut self, text: impl Into<Cow<'d, str>>) {
        let text = text.into();
        match self.parts.last_mut() {
            _ if text.is_empty() => {}
            Some(Part::Text(before)) => before.join(&text),
            _ => self.push(Part::Text(text.into())),
        }
    }

    /// Appends a value of unknown meaning.
    pub(super) fn unknown(&mut self, value: Value<'d>) {
        self.assumptions.insert("unknown_part");
        self.push(Part::Data(Data::billed(value)));
    }

    /// Appends a tool's own data.
    pub(super) fn data(&mut self, value: Value<'d>) {
        self.push(Part::Data(Data::value(value)));
    }

    /// Appends reasoning.
    pub(super) fn reasoning(&mut self, text: Cow<'d, str>, opaque: impl Into<Cow<'d, str>>) {
        let opaque = opaque.into();
        self.push(Part::Reasoning { text, opaque });
    }

    /// Appends a summary of what was said before it; one without content is of an attempt that failed.
    pub(super) fn summary(&mut self, block: Value<'d>, fields: &Columns) {
        let text = joined_text(first_named(block, &fields.content));
        let opaque = match text.is_empty() {
            true => string(first_named(block, &fields.opaque)),
            false => "",
        };
        if !text.is_empty() || !opaque.is_empty() {
            self.assumptions.insert(COMPACTED);
            let opaque = opaque.into();
            self.push(Part::Summary { text, opaque });
        }
    }

    /// Appends what a message contains: null, text, one block or a list of blocks.
    pub(super) fn content(&mut self, value: Option<Value<'d>>) {
        let Some(value) = value else { return };
        match value.kind() {
            Kind::Array => value.items().for_each(|item| self.element(item)),
            _ => self.element(value),
        }
    }

    /// Appends one block.
    pub(super) fn element(&mut self, value: Value<'d>) {
        match value.kind() {
            Kind::Null => {}
            Kind::String => self.text(string(Some(value))),
            Kind::Object => self.block(value),
            Kind::Array => self.nested(Some(value)),
            _ => self.unknown(value),
        }
    }

    /// Appends content that stands inside of a block.
    pub(super) fn nested(&mut self, value: Option<Value<'d>>) {
        if self.nesting < MAX_NESTING {
            self.nesting += 1;
            self.content(value);
            self.nesting -= 1;
        } else if let Some(value) = value.filter(|value| !value.is_null()) {
            self.unknown(value);
        }
    }

    /// Appends one content block; one of an unknown kind counts as its JSON text, all its fields too.
    fn block(&mut self, block: Value<'d>) {
        if self.known_block(block) {
            self.unread.extend(unread(Owner::Part, block));
        }
    }

    /// Appends a block of a known kind; false if it counts as its JSON text.
    fn known_block(&mut self, block: Value<'d>) -> bool {
        let kind = string(block.get("type"));
        let fields = &parts().typed;
        let Some(part) = fields.get(kind) else {
            match kind {
                "search_result" => self.search_result(block),
                _ if kind.ends_with("_tool_result") => self.result_block(block),
                _ => return self.untyped_block(block),
            }
            return true;
        };
        match part.kind {
            PartKind::Text => self.text_block(block),
            PartKind::Reasoning if kind == "thinking" && has(block, &["text"]) => {
                self.text_block(block);
            }
            PartKind::Reasoning => {
                let text = joined_text(first_named(block, &fields.reasoning.content));
                self.reasoning(text, string(first_named(block, &fields.reasoning.opaque)));
            }
            PartKind::Call => {
                let arguments = first_named(block, &fields.call.arguments);
                self.call(string(first_named(block, &fields.call.name)), arguments);
                if part.is_run_by_vendor {
                    self.run_by_vendor();
                }
            }
            PartKind::Result => self.result_block(block),
            PartKind::Summary => self.summary(block, &fields.summary),
            PartKind::Media(_) => self.media_block(part, block),
            PartKind::Data | PartKind::Content | PartKind::Other => {
                return self.untyped_block(block);
            }
        }
        true
    }

    fn text_block(&mut self, block: Value<'d>) {
        let text = first_named(block, &parts().typed.text.content);
        match text.map(Value::as_str) {
            None => {}
            Some(Some(text)) => self.text(text),
            Some(None) => self.unknown(block),
        }
    }

    /// Appends a tool call; arguments are JSON text or a value.
    pub(super) fn call(&mut self, name: &'d str, arguments: Option<Value<'d>>) {
        let arguments = match arguments.filter(|value| !value.is_null()) {
            None => Data::text(""),
            Some(value) => value.as_str().map_or(Data::value(value), Data::text),
        };
        self.push(Part::ToolCall(ToolCall {
            name: name.into(),
            arguments,
            namespace: Cow::Borrowed(""),
            form: CallForm::Plain,
            is_run_by_vendor: false,
        }));
    }

    /// Sets how the call that was appended last stands in the body.
    pub(super) fn form(&mut self, form: CallForm) {
        if let Some(Part::ToolCall(call)) = self.parts.last_mut() {
            call.form = form;
        }
    }

    /// Says in which namespace the tool of the call that was appended last is.
    pub(super) fn namespace(&mut self, name: &'d str) {
        if let Some(Part::ToolCall(call)) = self.parts.last_mut() {
            call.namespace = name.into();
        }
    }

    /// Says that the vendor ran the call that was appended last.
    pub(super) fn run_by_vendor(&mut self) {
        if let Some(Part::ToolCall(call)) = self.parts.last_mut() {
            call.is_run_by_vendor = true;
        }
    }

    /// Appends a tool result of Anthropic or the AI SDK.
    fn result_block(&mut self, block: Value<'d>) {
        let is_error = block.get("is_error").and_then(Value::as_bool) == Some(true);
        let fields = &parts().typed.result;
        let content = first_named(block, &fields.content);
        let name = string(first_named(block, &fields.name));
        let output = object(content);
        let kind = string(output.and_then(|output| output.get("type")));
        match (kind, output.and_then(|output| output.get("value"))) {
            ("text" | "content", Some(value)) => self.result(name, Some(value), is_error),
            ("error-text", Some(value)) => self.result(name, Some(value), true),
            ("json", Some(value)) => self.result_of(name, is_error, |inner| inner.data(value)),
            ("error-json", Some(value)) => self.result_of(name, true, |inner| inner.data(value)),
            _ => self.result(name, content, is_error),
        }
    }

    /// Appends a tool result; an object that is no block is the tool's own data.
    pub(super) fn result(&mut self, name: &'d str, content: Option<Value<'d>>, is_error: bool) {
        self.result_of(name, is_error, |inner| match object(content) {
            Some(own) if !is_block(own) => inner.data(own),
            _ => inner.nested(content),
        });
    }

    /// Appends a tool result with the parts that `read` makes.
    pub(super) fn result_of(
        &mut self,
        name: &'d str,
        is_error: bool,
        read: impl FnOnce(&mut Reader<'_, 'd>),
    ) {
        let mut inner = Reader {
            parts: Vec::new(),
            assumptions: self.assumptions,
            signature: Signature::default(),
            unread: Vec::new(),
            nesting: self.nesting,
        };
        read(&mut inner);
        let (name, parts, mut unread) = (name.into(), inner.parts, inner.unread);
        self.unread.append(&mut unread);
        self.push(Part::ToolResult(ToolResult {
            is_legacy: false,
            name,
            parts,
            is_error,
            call_id: Cow::Borrowed(""),
        }));
    }
}

/// True if a tool result's object is a content block rather than the tool's own data.
fn is_block(value: Value<'_>) -> bool {
    value
        .get("type")
        .is_some_and(|kind| kind.kind() == Kind::String)
        && has(value, &["text", "source", "image_url", "content", "data"])
}
