//! Anthropic Messages.
use super::content::{read_texts, text_list};
use super::fields::{Fields, NotPlain, Plain, Stop, object};
use super::message::{Arguments, Message, Part, Role, Texts, ToolCall, ToolResult, is_blank};
use super::{Dialect, each};
use crate::request::{PartKind, converted_kind};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

pub(super) static DIALECT: Dialect = Dialect {
    name: "anthropic",
    read: |messages| each(messages, read),
    write,
};

fn read<'py>(message: &Bound<'py, PyAny>) -> Plain<Message<'py>> {
    let py = message.py();
    let mut fields = Fields::of(message)?;
    let role = match fields.text(intern!(py, "role"))?.to_str()? {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        _ => return Err(Stop::NotPlain),
    };
    let content = fields.take(intern!(py, "content"))?.ok_or(NotPlain)?;
    fields.end()?;
    if let Ok(text) = content.cast_exact::<PyString>() {
        return Message::new(role, vec![Part::text(text.clone())?], true);
    }
    let blocks = content.cast_exact::<PyList>().map_err(|_| NotPlain)?;
    let parts = blocks.iter().map(|block| read_block(&block));
    Message::of_parts(role, parts.collect::<Plain<_>>()?)
}

fn read_block<'py>(block: &Bound<'py, PyAny>) -> Plain<Part<'py>> {
    let py = block.py();
    let mut fields = Fields::of(block)?;
    let kind = fields.text(intern!(py, "type"))?;
    let part = match converted_kind(DIALECT.name, kind.to_str()?) {
        Some(PartKind::Text) => Part::text(fields.text(intern!(py, "text"))?)?,
        Some(PartKind::Call) => Part::Call(ToolCall {
            id: fields.text(intern!(py, "id"))?,
            name: fields.text(intern!(py, "name"))?,
            arguments: Arguments::Object(fields.dict(intern!(py, "input"))?),
        }),
        Some(PartKind::Result) => Part::Result(read_result(&mut fields)?),
        _ => return Err(Stop::NotPlain),
    };
    fields.end()?;
    Ok(part)
}

fn read_result<'py>(fields: &mut Fields<'_, 'py>) -> Plain<ToolResult<'py>> {
    let py = fields.py();
    let call_id = fields.text(intern!(py, "tool_use_id"))?;
    let content = fields.take(intern!(py, "content"))?;
    let is_error = fields.take(intern!(py, "is_error"))?;
    if is_error.is_some_and(|flag| flag.is_truthy().unwrap_or(true)) {
        return Err(Stop::NotPlain);
    }
    let texts = match content.filter(|content| !content.is_none()) {
        Some(content) => read_texts(content, DIALECT.name)?,
        None => Texts {
            items: Vec::new(),
            is_plain: true,
        },
    };
    Ok(ToolResult {
        call_id,
        name: None,
        texts,
    })
}

fn write<'py>(
    message: &Message<'py>,
    _: &Bound<'py, PyDict>,
    messages: &Bound<'py, PyList>,
) -> Plain<()> {
    let py = messages.py();
    let role = match message.role {
        Role::Assistant => intern!(py, "assistant"),
        Role::User | Role::Tool => intern!(py, "user"),
    };
    let content = match message.string() {
        Some(text) => text.clone().into_any(),
        None => {
            let blocks = PyList::empty(py);
            for part in &message.parts {
                blocks.append(write_block(py, part)?)?;
            }
            blocks.into_any()
        }
    };
    messages.append(object!(py, "role": role, "content": content))?;
    Ok(())
}

fn write_block<'py>(py: Python<'py>, part: &Part<'py>) -> Plain<Bound<'py, PyDict>> {
    Ok(match part {
        Part::Text(text) => object!(py, "type": intern!(py, "text"), "text": text),
        Part::Call(call) => object!(
            py,
            "type": intern!(py, "tool_use"),
            "id": &call.id,
            "name": &call.name,
            "input": call.arguments.as_object(py)?,
        ),
        Part::Result(result) => write_result(py, result)?,
    })
}

/// Empty texts are left out; white space alone is refused, which is not plain.
fn write_result<'py>(py: Python<'py>, result: &ToolResult<'py>) -> Plain<Bound<'py, PyDict>> {
    let kind = intern!(py, "tool_result");
    let block = object!(py, "type": kind, "tool_use_id": &result.call_id);
    let mut texts = Vec::with_capacity(result.texts.items.len());
    for text in &result.texts.items {
        if !text.is_empty()? {
            texts.push(text);
            if is_blank(text)? {
                return Err(Stop::NotPlain);
            }
        }
    }
    let name = intern!(py, "content");
    match texts.as_slice() {
        [] => {}
        [text] if result.texts.is_plain => block.set_item(name, text)?,
        _ => {
            let list = text_list(py, texts.into_iter(), intern!(py, "text"))?;
            block.set_item(name, list)?;
        }
    }
    Ok(block)
}
