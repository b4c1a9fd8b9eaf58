//! OpenAI Responses: the calls and the text of one answer are items side by side.
use super::Dialect;
use super::content::{read_texts, text_list};
use super::fields::{Fields, NotPlain, Plain, Stop, object, text};
use super::message::{Arguments, Message, Part, Role, Texts, ToolCall, ToolResult};
use crate::request::{PartKind, converted_kind};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

pub(super) static DIALECT: Dialect = Dialect {
    name: "openai-responses",
    read,
    write,
};

fn read<'py>(items: &[Bound<'py, PyAny>]) -> Plain<Vec<Message<'py>>> {
    let mut messages: Vec<Message<'py>> = Vec::with_capacity(items.len());
    for item in items {
        let message = read_item(item)?;
        match messages.last_mut() {
            Some(last) if is_more(last, &message) => {
                last.is_plain |= message.is_plain;
                last.parts.extend(message.parts);
            }
            _ => messages.push(message),
        }
    }
    Ok(messages)
}

/// Whether `message` goes on with the answer in `last`, which has one item of text at most.
fn is_more(last: &Message<'_>, message: &Message<'_>) -> bool {
    let is_second = message.texts().next().is_some() && last.texts().next().is_some();
    last.role == Role::Assistant && message.role == Role::Assistant && !is_second
}

fn read_item<'py>(item: &Bound<'py, PyAny>) -> Plain<Message<'py>> {
    let py = item.py();
    let mut fields = Fields::of(item)?;
    let kind = fields.take(intern!(py, "type"))?;
    let kind = kind.map(text).transpose()?;
    let kind = kind.as_ref().map_or(Ok("message"), |kind| kind.to_str())?;
    let message = match converted_kind(DIALECT.name, kind) {
        _ if kind == "message" => read_message(&mut fields),
        Some(PartKind::Call) => read_call(&mut fields),
        Some(PartKind::Result) => read_output(&mut fields),
        _ => Err(Stop::NotPlain),
    }?;
    fields.end()?;
    Ok(message)
}

fn texts(content: Bound<'_, PyAny>) -> Plain<Texts<'_>> {
    read_texts(content, DIALECT.name)
}

fn read_message<'py>(fields: &mut Fields<'_, 'py>) -> Plain<Message<'py>> {
    let py = fields.py();
    let role = match fields.text(intern!(py, "role"))?.to_str()? {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        _ => return Err(Stop::NotPlain),
    };
    let texts = texts(fields.take(intern!(py, "content"))?.ok_or(NotPlain)?)?;
    let is_plain = texts.is_plain;
    Message::new(role, texts.into_parts()?, is_plain)
}

fn read_call<'py>(fields: &mut Fields<'_, 'py>) -> Plain<Message<'py>> {
    let py = fields.py();
    let call = ToolCall {
        id: fields.text(intern!(py, "call_id"))?,
        name: fields.text(intern!(py, "name"))?,
        arguments: Arguments::Text(fields.text(intern!(py, "arguments"))?),
    };
    Message::new(Role::Assistant, vec![Part::Call(call)], false)
}

fn read_output<'py>(fields: &mut Fields<'_, 'py>) -> Plain<Message<'py>> {
    let py = fields.py();
    let result = ToolResult {
        call_id: fields.text(intern!(py, "call_id"))?,
        name: None,
        texts: texts(fields.take(intern!(py, "output"))?.ok_or(NotPlain)?)?,
    };
    Message::new(Role::Tool, vec![Part::Result(result)], false)
}

fn write<'py>(
    message: &Message<'py>,
    _: &Bound<'py, PyDict>,
    items: &Bound<'py, PyList>,
) -> Plain<()> {
    let py = items.py();
    if message.role == Role::User {
        let content = match message.string() {
            Some(text) => text.clone().into_any(),
            None => text_list(py, message.texts(), intern!(py, "input_text"))?.into_any(),
        };
        items.append(object!(py, "role": intern!(py, "user"), "content": content))?;
        return Ok(());
    }
    for part in &message.parts {
        items.append(match part {
            Part::Text(text) => {
                object!(py, "role": intern!(py, "assistant"), "content": text)
            }
            Part::Call(call) => object!(
                py,
                "type": intern!(py, "function_call"),
                "call_id": &call.id,
                "name": &call.name,
                "arguments": call.arguments.as_text(py)?,
            ),
            Part::Result(result) => object!(
                py,
                "type": intern!(py, "function_call_output"),
                "call_id": &result.call_id,
                "output": write_output(py, &result.texts)?,
            ),
        })?;
    }
    Ok(())
}

fn write_output<'py>(py: Python<'py>, texts: &Texts<'py>) -> Plain<Bound<'py, PyAny>> {
    Ok(match texts.string() {
        Some(text) => text.clone().into_any(),
        None if texts.items.is_empty() => intern!(py, "").clone().into_any(),
        None => text_list(py, texts.items.iter(), intern!(py, "input_text"))?.into_any(),
    })
}
