//! OpenAI Chat Completions.
use super::content::{read_texts, text_list};
use super::fields::{Fields, NotPlain, Plain, Stop, object, text};
use super::message::{Arguments, Message, Part, Role, Texts, ToolCall, ToolResult};
use super::{Dialect, each};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

pub(super) static DIALECT: Dialect = Dialect {
    name: "openai-chat",
    read: |messages| each(messages, read),
    write,
};

fn read<'py>(message: &Bound<'py, PyAny>) -> Plain<Message<'py>> {
    let py = message.py();
    let mut fields = Fields::of(message)?;
    let role = fields.text(intern!(py, "role"))?;
    let content = fields.take(intern!(py, "content"))?;
    let message = match role.to_str()? {
        "user" => {
            let texts = texts(content.ok_or(NotPlain)?)?;
            let is_plain = texts.is_plain;
            Message::new(Role::User, texts.into_parts()?, is_plain)
        }
        "assistant" => read_answer(&mut fields, content),
        "tool" => read_result(&mut fields, content.ok_or(NotPlain)?),
        _ => Err(Stop::NotPlain),
    }?;
    fields.end()?;
    Ok(message)
}

fn texts(content: Bound<'_, PyAny>) -> Plain<Texts<'_>> {
    read_texts(content, DIALECT.name)
}

fn read_answer<'py>(
    fields: &mut Fields<'_, 'py>,
    content: Option<Bound<'py, PyAny>>,
) -> Plain<Message<'py>> {
    let mut parts = Vec::new();
    let mut is_plain = false;
    let py = fields.py();
    let calls = fields.take(intern!(py, "tool_calls"))?;
    let calls = calls.filter(|calls| !calls.is_none());
    if let Some(content) = content.filter(|content| !content.is_none()) {
        let texts = texts(content)?;
        is_plain = texts.is_plain;
        let is_silent = calls.is_some()
            && texts
                .string()
                .is_some_and(|text| text.is_empty().unwrap_or(false));
        if !is_silent {
            parts = texts.into_parts()?;
        }
    }
    if let Some(calls) = calls {
        let calls = calls.cast_into_exact::<PyList>().map_err(|_| NotPlain)?;
        for call in calls {
            parts.push(Part::Call(read_call(&call)?));
        }
    }
    fields.nothing(intern!(py, "refusal"))?;
    fields.nothing(intern!(py, "function_call"))?;
    Message::new(Role::Assistant, parts, is_plain)
}

fn read_call<'py>(call: &Bound<'py, PyAny>) -> Plain<ToolCall<'py>> {
    let py = call.py();
    let mut fields = Fields::of(call)?;
    let id = fields.text(intern!(py, "id"))?;
    let function = fields.dict(intern!(py, "function"))?;
    fields.word(intern!(py, "type"), intern!(py, "function"))?;
    fields.end()?;
    let mut fields = Fields::of(&function)?;
    let name = fields.text(intern!(py, "name"))?;
    let arguments = Arguments::Text(fields.text(intern!(py, "arguments"))?);
    fields.end()?;
    Ok(ToolCall {
        id,
        name,
        arguments,
    })
}

fn read_result<'py>(
    fields: &mut Fields<'_, 'py>,
    content: Bound<'py, PyAny>,
) -> Plain<Message<'py>> {
    let py = content.py();
    let call_id = fields.text(intern!(py, "tool_call_id"))?;
    let name = fields.take(intern!(py, "name"))?.map(text).transpose()?;
    let texts = texts(content)?;
    let result = ToolResult {
        call_id,
        name,
        texts,
    };
    Message::new(Role::Tool, vec![Part::Result(result)], true)
}

fn write<'py>(
    message: &Message<'py>,
    _: &Bound<'py, PyDict>,
    messages: &Bound<'py, PyList>,
) -> Plain<()> {
    let py = messages.py();
    match message.role {
        Role::User => {
            let content = content(py, message)?;
            messages.append(object!(py, "role": intern!(py, "user"), "content": content))?;
        }
        Role::Assistant => messages.append(write_answer(py, message)?)?,
        Role::Tool => {
            for part in &message.parts {
                if let Part::Result(result) = part {
                    messages.append(write_result(py, result)?)?;
                }
            }
        }
    }
    Ok(())
}

/// One text that was a string, or that stands beside calls, as a string; else a list.
fn content<'py>(py: Python<'py>, message: &Message<'py>) -> Plain<Bound<'py, PyAny>> {
    let mut texts = message.texts();
    let (first, second) = (texts.next(), texts.next());
    let is_string = message.is_plain || message.parts.len() > 1;
    match (first, second) {
        (None, _) => Ok(py.None().into_bound(py)),
        (Some(text), None) if is_string => Ok(text.clone().into_any()),
        _ => Ok(text_list(py, message.texts(), intern!(py, "text"))?.into_any()),
    }
}

fn write_answer<'py>(py: Python<'py>, message: &Message<'py>) -> Plain<Bound<'py, PyDict>> {
    let content = content(py, message)?;
    let answer = object!(py, "role": intern!(py, "assistant"), "content": content);
    let calls = PyList::empty(py);
    for part in &message.parts {
        if let Part::Call(call) = part {
            let arguments = call.arguments.as_text(py)?;
            let function = object!(py, "name": &call.name, "arguments": arguments);
            let kind = intern!(py, "function");
            calls.append(object!(py, "id": &call.id, "type": kind, "function": function))?;
        }
    }
    if !calls.is_empty() {
        answer.set_item(intern!(py, "tool_calls"), calls)?;
    }
    Ok(answer)
}

fn write_result<'py>(py: Python<'py>, result: &ToolResult<'py>) -> Plain<Bound<'py, PyDict>> {
    let texts = &result.texts;
    let content = match texts.string() {
        Some(text) => text.clone().into_any(),
        None if texts.items.is_empty() => PyString::intern(py, "").into_any(),
        None => text_list(py, texts.items.iter(), intern!(py, "text"))?.into_any(),
    };
    let role = intern!(py, "tool");
    Ok(object!(py, "role": role, "tool_call_id": &result.call_id, "content": content))
}
