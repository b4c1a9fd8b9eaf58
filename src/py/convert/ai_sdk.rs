//! AI SDK `ModelMessage[]`.
use super::content::{read_texts, text_list};
use super::fields::{Fields, NotPlain, Plain, Stop, object, text};
use super::message::{Arguments, Message, Part, Role, Texts, ToolCall, ToolResult};
use super::{Dialect, each};
use crate::request::{PartKind, converted_kind};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

pub(super) static DIALECT: Dialect = Dialect {
    name: "ai-sdk",
    read: |messages| each(messages, read),
    write,
};

fn read<'py>(message: &Bound<'py, PyAny>) -> Plain<Message<'py>> {
    let py = message.py();
    let mut fields = Fields::of(message)?;
    let role = match fields.text(intern!(py, "role"))?.to_str()? {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        _ => return Err(Stop::NotPlain),
    };
    let content = fields.take(intern!(py, "content"))?.ok_or(NotPlain)?;
    fields.end()?;
    if let Ok(text) = content.cast_exact::<PyString>() {
        let message = Message::of_parts(role, vec![Part::text(text.clone())?])?;
        return Ok(Message {
            is_plain: true,
            ..message
        });
    }
    let parts = content.cast_exact::<PyList>().map_err(|_| NotPlain)?;
    let parts = parts.iter().map(|part| read_part(&part));
    let parts: Vec<_> = parts.collect::<Plain<_>>()?;
    if role == Role::User && parts.iter().any(Part::is_result) {
        return Err(Stop::NotPlain);
    }
    Message::of_parts(role, parts)
}

fn read_part<'py>(part: &Bound<'py, PyAny>) -> Plain<Part<'py>> {
    let py = part.py();
    let mut fields = Fields::of(part)?;
    let kind = fields.text(intern!(py, "type"))?;
    let part = match converted_kind(DIALECT.name, kind.to_str()?) {
        Some(PartKind::Text) => Part::text(fields.text(intern!(py, "text"))?)?,
        Some(PartKind::Call) => Part::Call(ToolCall {
            id: fields.text(intern!(py, "toolCallId"))?,
            name: fields.text(intern!(py, "toolName"))?,
            arguments: Arguments::Object(fields.dict(intern!(py, "input"))?),
        }),
        Some(PartKind::Result) => Part::Result(ToolResult {
            call_id: fields.text(intern!(py, "toolCallId"))?,
            name: Some(fields.text(intern!(py, "toolName"))?),
            texts: read_output(&fields.dict(intern!(py, "output"))?)?,
        }),
        _ => return Err(Stop::NotPlain),
    };
    fields.end()?;
    Ok(part)
}

fn read_output<'py>(output: &Bound<'py, PyDict>) -> Plain<Texts<'py>> {
    let py = output.py();
    let mut fields = Fields::of(output)?;
    let kind = fields.text(intern!(py, "type"))?;
    let value = fields.take(intern!(py, "value"))?.ok_or(NotPlain)?;
    fields.end()?;
    match kind.to_str()? {
        "text" => Ok(Texts::one(text(value)?)),
        "content" if value.is_exact_instance_of::<PyList>() => read_texts(value, DIALECT.name),
        _ => Err(Stop::NotPlain),
    }
}

fn write<'py>(
    message: &Message<'py>,
    names: &Bound<'py, PyDict>,
    messages: &Bound<'py, PyList>,
) -> Plain<()> {
    let py = messages.py();
    let role = match message.role {
        Role::User => intern!(py, "user"),
        Role::Assistant => intern!(py, "assistant"),
        Role::Tool => intern!(py, "tool"),
    };
    let content = match message.string() {
        Some(text) => text.clone().into_any(),
        None => {
            let parts = PyList::empty(py);
            for part in &message.parts {
                parts.append(write_part(py, part, names)?)?;
            }
            parts.into_any()
        }
    };
    messages.append(object!(py, "role": role, "content": content))?;
    Ok(())
}

fn write_part<'py>(
    py: Python<'py>,
    part: &Part<'py>,
    names: &Bound<'py, PyDict>,
) -> Plain<Bound<'py, PyDict>> {
    Ok(match part {
        Part::Text(text) => object!(py, "type": intern!(py, "text"), "text": text),
        Part::Call(call) => object!(
            py,
            "type": intern!(py, "tool-call"),
            "toolCallId": &call.id,
            "toolName": &call.name,
            "input": call.arguments.as_object(py)?,
        ),
        Part::Result(result) => object!(
            py,
            "type": intern!(py, "tool-result"),
            "toolCallId": &result.call_id,
            "toolName": result.tool_name(names)?,
            "output": write_output(py, &result.texts)?,
        ),
    })
}

fn write_output<'py>(py: Python<'py>, texts: &Texts<'py>) -> Plain<Bound<'py, PyDict>> {
    let text = match texts.items.is_empty() {
        true => Some(intern!(py, "")),
        false => texts.string(),
    };
    Ok(match text {
        Some(text) => object!(py, "type": intern!(py, "text"), "value": text),
        None => {
            let list = text_list(py, texts.items.iter(), intern!(py, "text"))?;
            object!(py, "type": intern!(py, "content"), "value": list)
        }
    })
}
