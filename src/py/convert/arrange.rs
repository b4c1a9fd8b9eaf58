//! Pairs calls with results and brings messages into the order that a dialect demands, where
//! nothing is lost or repaired by it: the plain half of `tools.py` and `arrange.py`.
use super::fields::{Plain, Stop};
use super::message::{Message, Part, Role};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySet};
use std::collections::HashSet;

/// Places of messages in the input and in a list.
pub(super) type Places = Vec<(usize, usize)>;

/// What `tokenctx.convert.rules.Rules` demand of plain messages.
pub(super) struct Rules {
    pub(super) name: String,
    /// Results stand in messages of the user.
    has_user_results: bool,
    alternates: bool,
    /// Which ids of calls may stay as they are; None: all.
    pub(super) ids: Option<IdRule>,
}

impl Rules {
    pub(super) fn of(rules: &Bound<'_, PyAny>) -> PyResult<Rules> {
        let py = rules.py();
        let ids = rules.getattr(intern!(py, "ids"))?;
        let results = rules.getattr(intern!(py, "results"))?;
        Ok(Rules {
            name: rules.getattr(intern!(py, "name"))?.extract()?,
            has_user_results: results.eq(intern!(py, "user"))?,
            alternates: rules.getattr(intern!(py, "alternates"))?.is_truthy()?,
            ids: match ids.is_none() {
                true => None,
                false => Some(IdRule::of(&ids)?),
            },
        })
    }
}

/// Which ids of calls a dialect takes: `tokenctx.convert.rules.IdRule`.
pub(super) struct IdRule {
    longest: usize,
    /// By character of ASCII; None: all letters.
    letters: Option<[bool; 128]>,
}

impl IdRule {
    fn of(rule: &Bound<'_, PyAny>) -> PyResult<IdRule> {
        let py = rule.py();
        let letters: Option<HashSet<char>> = rule.getattr(intern!(py, "letters"))?.extract()?;
        let letters = letters.map(|letters| {
            let mut table = [false; 128];
            for letter in letters.into_iter().filter(char::is_ascii) {
                table[letter as usize] = true;
            }
            table
        });
        let longest = rule.getattr(intern!(py, "longest"))?.extract()?;
        Ok(IdRule { longest, letters })
    }

    /// Whether `id` may stay as it is; its bytes may not be more than its characters may.
    fn takes(&self, id: &str) -> bool {
        let is_letter = |letter: u8| match &self.letters {
            Some(letters) => letters.get(usize::from(letter)) == Some(&true),
            None => true,
        };
        id.len() <= self.longest && id.bytes().all(is_letter)
    }
}

/// The names of tools by the id of the call. Stops unless each call has an id of its own that the
/// target takes, and one result right behind it.
pub(super) fn tool_names<'py>(
    py: Python<'py>,
    messages: &[Message<'py>],
    ids: Option<&IdRule>,
) -> Plain<Bound<'py, PyDict>> {
    let names = PyDict::new(py);
    let waiting = PySet::empty(py)?;
    for message in messages {
        if message.role != Role::Tool && !waiting.is_empty() {
            return Err(Stop::NotPlain);
        }
        for part in &message.parts {
            let is_paired = match part {
                Part::Text(_) => true,
                Part::Call(call) => {
                    let id = &call.id;
                    let is_taken = match ids {
                        Some(ids) => ids.takes(id.to_str()?),
                        None => true,
                    };
                    let is_new = is_taken && !id.is_empty()? && !names.contains(id)?;
                    names.set_item(id, &call.name)?;
                    waiting.add(id)?;
                    is_new && !call.name.is_empty()?
                }
                Part::Result(result) => waiting.discard(&result.call_id)?,
            };
            if !is_paired {
                return Err(Stop::NotPlain);
            }
        }
    }
    match waiting.is_empty() {
        true => Ok(names),
        false => Err(Stop::NotPlain),
    }
}

/// The messages as `rules` demand them, and the places, among those given and those returned, of messages that
/// become one with the message before. Stops at a last message of the assistant, which may have to be noted.
pub(super) fn arranged<'py>(
    messages: Vec<Message<'py>>,
    rules: &Rules,
) -> Plain<(Vec<Message<'py>>, Places)> {
    let mut done: Vec<Message<'py>> = Vec::with_capacity(messages.len());
    let mut merged = Vec::new();
    for (place, mut message) in messages.into_iter().enumerate() {
        match done.last_mut() {
            Some(last) if message.role == Role::Tool && last.role == Role::Tool => {
                last.parts.append(&mut message.parts);
                continue;
            }
            Some(last)
                if rules.alternates && rules.shown(last.role) == rules.shown(message.role) =>
            {
                merged.push((place, done.len()));
            }
            _ => {}
        }
        done.push(message);
    }
    match done.last() {
        Some(last) if last.role == Role::Assistant => Err(Stop::NotPlain),
        _ => Ok((done, merged)),
    }
}

impl Rules {
    /// The role as the dialect has it.
    fn shown(&self, role: Role) -> Role {
        match role == Role::Tool && self.has_user_results {
            true => Role::User,
            false => role,
        }
    }
}
