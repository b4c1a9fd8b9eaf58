//! Members of an object by name.
//!
//! Each look-up is one pass over the members. Objects of a request have a few; one with a
//! million costs a constant number of passes, since a reader asks for a constant number of names.
use super::part::Fields;
use crate::json::{Kind, Value};
use std::borrow::Cow;

/// The first of `keys` that `object` has and that is not null.
pub(super) fn first<'d>(object: Value<'d>, keys: &[&str]) -> Option<Value<'d>> {
    least(object, keys.len(), |name, rank| {
        keys[..rank].iter().position(|key| *key == name)
    })
}

/// The same for fields of the table of parts.
pub(super) fn first_named<'d>(object: Value<'d>, fields: &Fields) -> Option<Value<'d>> {
    least(object, fields.names.len(), |name, rank| {
        fields.position(name, rank)
    })
}

/// The member of the least rank that is not null; `rank_below` says which rank a name has, if it
/// is less than another.
#[inline]
fn least<'d>(
    object: Value<'d>,
    count: usize,
    rank_below: impl Fn(&str, usize) -> Option<usize>,
) -> Option<Value<'d>> {
    let mut found = None;
    let mut rank = count;
    for (name, value) in object.members() {
        let nth = rank_below(name, rank);
        if let Some(nth) = nth.filter(|_| !value.is_null()) {
            (found, rank) = (Some(value), nth);
            if rank == 0 {
                break;
            }
        }
    }
    found
}

/// True if `object` has one of `keys`, be it null.
pub(super) fn has(object: Value<'_>, keys: &[&str]) -> bool {
    object.members().any(|(name, _)| keys.contains(&name))
}

/// `value` if it is text, else empty text.
pub(super) fn string(value: Option<Value<'_>>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

/// `value` if it is an object.
pub(super) fn object(value: Option<Value<'_>>) -> Option<Value<'_>> {
    value.filter(|value| value.kind() == Kind::Object)
}

/// `value` if it is an array.
pub(super) fn array(value: Option<Value<'_>>) -> Option<Value<'_>> {
    value.filter(|value| value.kind() == Kind::Array)
}

/// `value` if it is not null.
pub(super) fn present(value: Option<Value<'_>>) -> Option<Value<'_>> {
    value.filter(|value| !value.is_null())
}

/// True if Python takes `value` for true: it is not null, false, zero or empty.
pub(super) fn is_truthy(value: Value<'_>) -> bool {
    match value.kind() {
        Kind::Null => false,
        Kind::Bool => value.as_bool() == Some(true),
        Kind::Number => value.as_f64() != Some(0.0),
        Kind::String => value.as_str() != Some(""),
        Kind::Bytes => value.as_bytes() != Some(b""),
        Kind::Array | Kind::Object => !value.is_empty(),
    }
}

/// Text of a string, or of an array of strings and text blocks.
pub(super) fn joined_text(value: Option<Value<'_>>) -> Cow<'_, str> {
    let Some(list) = array(value) else {
        return Cow::Borrowed(string(value));
    };
    join(list.items().map(|item| match item.kind() {
        Kind::Object => string(item.get("text")),
        _ => string(Some(item)),
    }))
}

/// All `texts` in one, borrowed if only one is not empty.
pub(super) fn join<'d>(texts: impl Iterator<Item = &'d str>) -> Cow<'d, str> {
    let mut joined = Cow::Borrowed("");
    for text in texts.filter(|text| !text.is_empty()) {
        match joined.is_empty() {
            true => joined = Cow::Borrowed(text),
            false => joined.to_mut().push_str(text),
        }
    }
    joined
}
