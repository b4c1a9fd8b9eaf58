//! Google Gemini, generateContent, as on the wire and with the ids of calls.
use super::fields::{Fields, NotPlain, Plain, Stop, object, text};
use super::message::{Arguments, Message, Part, Role, Texts, ToolCall, ToolResult};
use super::{Dialect, each};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

pub(super) static DIALECT: Dialect = Dialect {
    name: "gemini",
    read: |contents| each(contents, read),
    write,
};

/// How ids begin that stand for none: `MADE_ID`.
const MADE_ID: &str = "tokenctx_call_";

fn read<'py>(content: &Bound<'py, PyAny>) -> Plain<Message<'py>> {
    let py = content.py();
    let mut fields = Fields::of(content)?;
    let role = match fields.text(intern!(py, "role"))?.to_str()? {
        "user" => Role::User,
        "model" => Role::Assistant,
        _ => return Err(Stop::NotPlain),
    };
    let parts = fields.list(intern!(py, "parts"))?;
    fields.end()?;
    let parts = parts.iter().map(|part| read_part(&part));
    let mut message = Message::of_parts(role, parts.collect::<Plain<_>>()?)?;
    message.is_plain = message.only_text().is_some();
    Ok(message)
}

fn read_part<'py>(part: &Bound<'py, PyAny>) -> Plain<Part<'py>> {
    let py = part.py();
    let mut fields = Fields::of(part)?;
    let part = if let Some(found) = fields.take(intern!(py, "text"))? {
        Part::text(text(found)?)?
    } else if let Some(call) = fields.take(intern!(py, "functionCall"))? {
        Part::Call(read_call(&call)?)
    } else {
        let response = fields.take(intern!(py, "functionResponse"))?;
        Part::Result(read_response(&response.ok_or(NotPlain)?)?)
    };
    fields.end()?;
    Ok(part)
}

fn read_call<'py>(call: &Bound<'py, PyAny>) -> Plain<ToolCall<'py>> {
    let py = call.py();
    let mut fields = Fields::of(call)?;
    let id = fields.text(intern!(py, "id"))?;
    let name = fields.text(intern!(py, "name"))?;
    let arguments = Arguments::Object(fields.dict(intern!(py, "args"))?);
    fields.end()?;
    Ok(ToolCall {
        id,
        name,
        arguments,
    })
}

fn read_response<'py>(response: &Bound<'py, PyAny>) -> Plain<ToolResult<'py>> {
    let py = response.py();
    let mut fields = Fields::of(response)?;
    let call_id = fields.text(intern!(py, "id"))?;
    let name = Some(fields.text(intern!(py, "name"))?);
    let response = fields.dict(intern!(py, "response"))?;
    fields.end()?;
    let mut fields = Fields::of(&response)?;
    let texts = Texts::one(fields.text(intern!(py, "output"))?);
    fields.end()?;
    Ok(ToolResult {
        call_id,
        name,
        texts,
    })
}

fn write<'py>(
    message: &Message<'py>,
    names: &Bound<'py, PyDict>,
    contents: &Bound<'py, PyList>,
) -> Plain<()> {
    let py = contents.py();
    let role = match message.role {
        Role::Assistant => intern!(py, "model"),
        Role::User | Role::Tool => intern!(py, "user"),
    };
    let parts = PyList::empty(py);
    for part in &message.parts {
        parts.append(match part {
            Part::Text(text) => object!(py, "text": text),
            Part::Call(call) => object!(py, "functionCall": write_call(py, call)?),
            Part::Result(result) => {
                object!(py, "functionResponse": write_response(py, result, names)?)
            }
        })?;
    }
    contents.append(object!(py, "role": role, "parts": parts))?;
    Ok(())
}

fn write_call<'py>(py: Python<'py>, call: &ToolCall<'py>) -> Plain<Bound<'py, PyDict>> {
    let arguments = call.arguments.as_object(py)?;
    let value = object!(py, "name": &call.name, "args": arguments);
    write_id(&value, &call.id)?;
    Ok(value)
}

/// One text at most: how several become one is not plain.
fn write_response<'py>(
    py: Python<'py>,
    result: &ToolResult<'py>,
    names: &Bound<'py, PyDict>,
) -> Plain<Bound<'py, PyDict>> {
    let value = object!(py, "name": result.tool_name(names)?);
    write_id(&value, &result.call_id)?;
    let output = match result.texts.items.as_slice() {
        [] => intern!(py, ""),
        [text] => text,
        _ => return Err(Stop::NotPlain),
    };
    value.set_item(intern!(py, "response"), object!(py, "output": output))?;
    Ok(value)
}

fn write_id<'py>(value: &Bound<'py, PyDict>, id: &Bound<'py, PyString>) -> Plain<()> {
    if !id.to_str()?.starts_with(MADE_ID) {
        value.set_item(intern!(value.py(), "id"), id)?;
    }
    Ok(())
}
