//! Fields that are in no row of `fields.json`, and what those are that point outside of the request.
use super::data::Data;
use super::field::{is_truthy, object};
use super::part::Name;
use crate::json::{Document, Kind, Limits, Value};
use std::collections::HashMap;
use std::sync::OnceLock;

const TABLE: &str = include_str!("../../python/tokenctx/data/fields.json");

/// Assumed if a field may add tokens that nobody counts.
pub(crate) const UNKNOWN_FIELD: &str = "unknown_field";

/// Where a field stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Request,
    Configuration,
    Message,
    Part,
    Tool,
    VendorTool,
}

impl Owner {
    const ALL: [(Owner, &'static str); 6] = [
        (Owner::Request, "request"),
        (Owner::Configuration, "configuration"),
        (Owner::Message, "message"),
        (Owner::Part, "part"),
        (Owner::Tool, "tool"),
        (Owner::VendorTool, "vendor_tool"),
    ];
}

/// Names in slots by their keys, so that a look-up costs what a comparison does.
#[derive(Debug, Default)]
struct NameSet {
    /// At least twice as many as there are names, a power of two.
    slots: Vec<Option<Name>>,
}

impl NameSet {
    fn new(names: &[&'static str]) -> NameSet {
        let mut slots = vec![None; (names.len() * 2).next_power_of_two()];
        for name in names.iter().map(|name| Name::of(name)) {
            let mut at = name.slot() % slots.len();
            while slots[at].is_some_and(|other| other != name) {
                at = (at + 1) % slots.len();
            }
            slots[at] = Some(name);
        }
        NameSet { slots }
    }

    #[inline]
    fn contains(&self, name: &str) -> bool {
        let (key, mut at) = Name::key_and_slot(name);
        loop {
            match &self.slots[at % self.slots.len()] {
                None => return false,
                Some(found) if found.is(name, key) => return true,
                Some(_) => at += 1,
            }
        }
    }
}

/// A field of the body that names something that the provider keeps.
#[derive(Debug)]
struct State {
    name: &'static str,
    /// The most that it adds to most bills.
    tokens: u64,
    /// True if it is read where it is no object.
    is_object: bool,
}

/// All that the table says: a set for each of [`Owner::ALL`].
#[derive(Debug)]
struct Table {
    read: [NameSet; Owner::ALL.len()],
    state: Vec<State>,
    configurations: NameSet,
    /// What a configuration holds that is one; what a part or a tool holds whose members are its fields.
    inner: [NameSet; 3],
    /// The members of objects that stand under a name in a request, a configuration or a tool.
    members: HashMap<&'static str, Members>,
}

/// The members of an object, or of each of its members where those have free names.
#[derive(Debug)]
struct Members {
    known: NameSet,
    are_named_freely: bool,
}

/// The table, read on first use.
#[inline]
fn table() -> &'static Table {
    static CELL: OnceLock<Table> = OnceLock::new();
    CELL.get_or_init(|| {
        let document = Document::parse(TABLE, &Limits::default());
        let document: &'static _ = Box::leak(Box::new(document.expect("the table is JSON")));
        read(document.root())
    })
}

/// Reads the table, once in a process.
pub(super) fn read_table() {
    table();
}

fn read(root: Value<'static>) -> Table {
    let names = |place: &str, meaning: &str| -> Vec<&'static str> {
        let dialects = root.get("dialects").into_iter().flat_map(Value::members);
        let lists = dialects.filter_map(|(_, about)| about.get(place)?.get(meaning));
        lists
            .flat_map(Value::items)
            .filter_map(Value::as_str)
            .collect()
    };
    let own =
        |(_, place): (Owner, &str)| [names(place, "read"), names(place, "no_tokens")].concat();
    let request = own(Owner::ALL[0]);
    let dialects = root.get("dialects").into_iter().flat_map(Value::members);
    let states = dialects.filter_map(|(_, about)| about.get("request")?.get("state"));
    let state = states.flat_map(Value::members);
    let state = state.map(|(name, tokens)| State {
        name,
        tokens: tokens.as_u64().unwrap_or_default(),
        is_object: request.contains(&name),
    });
    let listed = |list| -> NameSet {
        let names = root.get(list).into_iter().flat_map(Value::items);
        NameSet::new(&names.filter_map(Value::as_str).collect::<Vec<_>>())
    };
    Table {
        read: Owner::ALL.map(|owner| NameSet::new(&own(owner))),
        state: state.collect(),
        configurations: listed("owners"),
        inner: ["inner_owners", "holders", "vendor_tools"].map(listed),
        members: root
            .get("inner")
            .into_iter()
            .flat_map(Value::members)
            .map(members)
            .collect(),
    }
}

fn members((name, row): (&'static str, Value<'static>)) -> (&'static str, Members) {
    let names: Vec<_> = row.items().filter_map(Value::as_str).collect();
    let members = Members {
        are_named_freely: names.contains(&"*"),
        known: NameSet::new(&names),
    };
    (name, members)
}

/// The tokens that what the provider keeps for the request may add to it; `None` if it names nothing of the kind.
pub(super) fn state_tokens(fields: Value<'_>) -> Option<u64> {
    let members = fields.members().filter(|(_, value)| is_truthy(*value));
    let tokens = members.filter_map(|(name, value)| Some(state(name, value)?.tokens));
    tokens.max()
}

/// The row of a field of the body that names something that the provider keeps.
fn state(name: &str, value: Value<'_>) -> Option<&'static State> {
    let is_held = |it: &&State| !it.is_object || value.kind() == Kind::Object;
    table()
        .state
        .iter()
        .filter(|it| it.name == name)
        .find(is_held)
}

/// True if a field that stands there may add tokens that nobody counts.
#[inline]
pub(super) fn is_unread(owner: Owner, name: &str, value: Value<'_>) -> bool {
    !table().read[owner as usize].contains(name) && !value.is_null()
}

/// The members of `object` that may add tokens which nobody counts, each as an object of its own; those of the objects
/// that it holds too.
pub(super) fn unread<'d>(owner: Owner, object: Value<'d>) -> Vec<Data<'d>> {
    let mut found = Vec::new();
    add_unread(owner, object, MAX_DEPTH, &mut found);
    found
}

/// How deep objects that hold others of their kind are looked into; deeper ones are in no dialect.
const MAX_DEPTH: usize = 4;

fn add_unread<'d>(owner: Owner, owned: Value<'d>, depth: usize, found: &mut Vec<Data<'d>>) {
    let [in_configurations, in_parts, in_tools] = &table().inner;
    let holders = match owner {
        Owner::Configuration => Some(in_configurations),
        Owner::Part => Some(in_parts),
        Owner::VendorTool => Some(in_tools),
        _ => None,
    };
    for (name, value) in owned.members() {
        if is_unread(owner, name, value) {
            found.push(Data::member(name, value));
        } else if let Some(inner) = object(Some(value))
            && depth > 0
            && holders.is_some_and(|it| it.contains(name))
        {
            add_unread(owner, inner, depth - 1, found);
        } else if !matches!(owner, Owner::Message | Owner::Part) {
            add_members(name, value, depth, found);
        }
    }
}

/// The members that no row has of the objects in the `value` of a field of this `name`.
fn add_members<'d>(name: &str, value: Value<'d>, depth: usize, found: &mut Vec<Data<'d>>) {
    if !matches!(value.kind(), Kind::Object | Kind::Array) || depth == 0 {
        return;
    }
    let Some(row) = table().members.get(name) else {
        return;
    };
    let own = object(Some(value)).filter(|_| !row.are_named_freely);
    let each = value.members().map(|(_, value)| value);
    let each = each.filter(|_| row.are_named_freely).chain(value.items());
    let each = each.filter(|it| it.kind() == Kind::Object);
    let free = value.members().filter(|_| row.are_named_freely);
    let odd = free.filter(|(_, value)| !value.is_null() && value.kind() != Kind::Object);
    found.extend(odd.map(|(name, value)| Data::member(name, value)));
    for object in own.into_iter().chain(each) {
        for (name, value) in object.members() {
            match row.known.contains(name) || value.is_null() {
                true => add_members(name, value, depth - 1, found),
                false => found.push(Data::member(name, value)),
            }
        }
    }
}

/// Fields of a body of Ollama and llama.cpp, a schema and a text, that have a namesake in tools.
const NAMESAKES: [&str; 2] = ["format", "grammar"];

/// Those of a body and of its configurations.
pub(super) fn unread_of_request<'d>(fields: Value<'d>) -> impl Iterator<Item = Data<'d>> {
    let members = fields.members();
    members.flat_map(|(name, value)| {
        let is_own = is_unread(Owner::Request, name, value) && state(name, value).is_none();
        let own = is_own.then(|| Data::member(name, value));
        let inner = object(Some(value)).filter(|_| table().configurations.contains(name));
        let mut held = inner.map_or_else(Vec::new, |it| unread(Owner::Configuration, it));
        if own.is_none() && inner.is_none() && !NAMESAKES.contains(&name) {
            add_members(name, value, MAX_DEPTH, &mut held);
        }
        own.into_iter().chain(held)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_in_its_place_alone() {
        let document = Document::parse("true", &Limits::default()).expect("JSON");
        let is_known = |owner, name| !is_unread(owner, name, document.root());
        assert!(is_known(Owner::Request, "temperature"));
        assert!(is_known(Owner::Part, "prompt_cache_breakpoint"));
        assert!(!is_known(Owner::Message, "temperature"));
        for (owner, _) in Owner::ALL {
            assert!(!is_known(owner, "frobnicate") && !is_known(owner, ""));
        }
    }

    #[test]
    fn a_stored_prompt_is_state_and_a_text_is_none() {
        for (body, is_state) in [
            (r#"{"prompt":{"id":"p"}}"#, true),
            (r#"{"prompt":"p"}"#, false),
            (r#"{"conversation":"c"}"#, true),
            (r#"{"conversation":""}"#, false),
        ] {
            let document = Document::parse(body, &Limits::default()).expect("JSON");
            assert_eq!(state_tokens(document.root()).is_some(), is_state, "{body}");
        }
    }
}
