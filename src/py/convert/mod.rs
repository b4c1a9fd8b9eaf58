//! Plain messages from one dialect to another, from Python objects to Python objects.
//!
//! What a conversion is, `tokenctx.convert` says, in Python. This is its short cut for messages
//! that every dialect has: texts, tool calls and their results, in order, without any field more.
//! What else the user says, as with an image or a cache marker, it leaves to Python, message by message.
//! Whatever else it meets, and whatever would be a loss or a warning, it declines; then all of it
//! is converted in Python. tests/convert/test_plain_conversion.py compares the two.
//!
//! It is not in the core, because nothing of it is left without Python: texts and arguments stay
//! the objects that they are and pass from one dict to another.
mod ai_sdk;
mod anthropic;
mod arrange;
mod chat;
mod content;
mod fields;
mod gemini;
mod json;
mod message;
mod responses;

use self::arrange::{Places, Rules, arranged, tool_names};
use self::fields::{Fields, NotPlain, Plain, Stop};
use self::message::Message;
use super::errors::guard;
use super::object::unless_raised;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

pub(super) use self::json::is_json;

/// How plain messages of a dialect are read and written.
struct Dialect {
    name: &'static str,
    read: for<'py> fn(&[Bound<'py, PyAny>]) -> Plain<Vec<Message<'py>>>,
    write: for<'py> fn(&Message<'py>, &Bound<'py, PyDict>, &Bound<'py, PyList>) -> Plain<()>,
}

static DIALECTS: [&Dialect; 5] = [
    &chat::DIALECT,
    &responses::DIALECT,
    &anthropic::DIALECT,
    &gemini::DIALECT,
    &ai_sdk::DIALECT,
];

impl Dialect {
    fn named(name: &str) -> Plain<&'static Dialect> {
        let found = DIALECTS.iter().find(|dialect| dialect.name == name);
        Ok(found.ok_or(NotPlain)?)
    }
}

/// Whether the role says that `message` is a system prompt.
fn is_system(message: &Bound<'_, PyAny>) -> Plain<bool> {
    let role = Fields::of(message)?.take(intern!(message.py(), "role"))?;
    let role = role.and_then(|role| role.cast_into_exact::<PyString>().ok());
    Ok(role.is_some_and(|role| matches!(role.to_str(), Ok("system" | "developer"))))
}

/// The messages that `read` reads; what it does not of the user is left over.
fn each<'py>(
    messages: &[Bound<'py, PyAny>],
    read: fn(&Bound<'py, PyAny>) -> Plain<Message<'py>>,
) -> Plain<Vec<Message<'py>>> {
    let all = messages.iter().map(|message| match read(message) {
        Err(Stop::NotPlain) if is_of_user(message)? => Ok(Message::left_over()),
        found => found,
    });
    all.collect()
}

fn is_of_user(message: &Bound<'_, PyAny>) -> Plain<bool> {
    let role = Fields::of(message)?.text(intern!(message.py(), "role"))?;
    Ok(role.to_str()? == "user")
}

/// How many messages are leading system prompts, the others, the places of those that are left over, and of those
/// that are to become one with the message before.
type Converted<'py> = (usize, Bound<'py, PyList>, Places, Places);

/// How many of `messages` are leading system prompts, which are not looked at, and what the others
/// are in the dialect of `rules`, a `tokenctx.convert.rules.Rules`; None if they are not plain.
///
/// In place of a message of the user that is not plain stands None; its places come third. Last come those of messages
/// that the dialect wants to be one with the message before.
#[pyfunction(name = "_convert_plain")]
pub(super) fn convert_plain<'py>(
    messages: &Bound<'py, PyList>,
    source: &str,
    rules: &Bound<'py, PyAny>,
) -> PyResult<Option<Converted<'py>>> {
    guard(|| {
        let rules = Rules::of(rules)?;
        match converted(messages, source, &rules) {
            Ok(found) => Ok(Some(found)),
            Err(Stop::NotPlain) => Ok(None),
            Err(Stop::Raised(error)) => unless_raised(messages.py(), Err(error)),
        }
    })
}

fn converted<'py>(
    messages: &Bound<'py, PyList>,
    source: &str,
    rules: &Rules,
) -> Plain<Converted<'py>> {
    let py = messages.py();
    let from = Dialect::named(source)?;
    let is_same = rules.name == from.name;
    let messages: Vec<_> = messages.iter().collect();
    let mut head = 0;
    while head < messages.len() && is_system(&messages[head])? {
        head += 1;
    }
    let others = &messages[head..];
    let read = (from.read)(others)?;
    let names = tool_names(py, &read, rules.ids.as_ref().filter(|_| !is_same))?;
    let read_places = read.iter().zip(head..).filter(|(it, _)| it.is_left_over());
    let read_places: Vec<_> = read_places.map(|(_, place)| place).collect();
    if is_same {
        let list = PyList::new(py, others)?;
        return match read_places.is_empty() {
            true => Ok((head, list, Vec::new(), Vec::new())),
            false => Err(Stop::NotPlain),
        };
    }
    let to = Dialect::named(&rules.name)?;
    let written = PyList::empty(py);
    let mut places = Vec::with_capacity(read_places.len());
    let read_count = read.len();
    let (arranged, mut merged) = arranged(read, rules)?;
    if !merged.is_empty() && read_count != others.len() {
        return Err(Stop::NotPlain); // what several items make has no place of its own
    }
    for message in &arranged {
        if message.is_left_over() {
            places.push(written.len());
            written.append(py.None())?;
        } else {
            (to.write)(message, &names, &written)?;
        }
    }
    merged.iter_mut().for_each(|(place, _)| *place += head);
    let left_over = read_places.into_iter().zip(places).collect();
    Ok((head, written, left_over, merged))
}
