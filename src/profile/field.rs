//! Fields of the rows of the table: each is declared once, with its type, its default and its meaning.
use crate::json::{Kind, Value, write_string};
use crate::request::Dialect;
use std::fmt::Write;
use std::num::NonZeroU64;

/// No number of a row is larger, or smaller than its negative.
const MAX_NUMBER: i64 = 1_000_000_000;

/// Why a field cannot have a value: what it says, and what it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Names of members below the field, each behind a dot.
    pub(crate) path: String,
    /// The complaint, to be read behind the name of the field.
    pub(crate) complaint: String,
    /// True if the value is of another type; else it is out of range.
    pub(crate) is_type: bool,
}

impl Fault {
    /// `value` is of another type than `wanted`.
    pub(crate) fn of_type(value: Value<'_>, wanted: &str) -> Fault {
        Fault {
            path: String::new(),
            complaint: format!("is {}; it must be {wanted}", shown(value)),
            is_type: true,
        }
    }

    /// The fault of the member `name`.
    pub(crate) fn below(mut self, name: &str) -> Fault {
        self.path.insert_str(0, &format!(".{name}"));
        self
    }

    /// `value` is none of those allowed.
    pub(crate) fn of_value(value: Value<'_>, wanted: &str) -> Fault {
        Fault {
            is_type: false,
            ..Fault::of_type(value, wanted)
        }
    }
}

/// A value in an error: as JSON, texts in single quotes, cut off if it is long.
fn shown(value: Value<'_>) -> String {
    const MAX_CHARACTERS: usize = 60;
    let text = match value.as_str() {
        Some(text) => format!("'{text}'"),
        None => {
            let mut json = String::new();
            value.write_compact(&mut json);
            json
        }
    };
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// The values that a field of a row may hold.
pub(crate) trait FieldValue {
    /// Takes over what the row says.
    fn assign(&mut self, value: Value<'_>) -> Result<(), Fault>;

    /// Appends it as JSON, in the form that [`FieldValue::assign`] takes.
    fn write(&self, json: &mut String);
}

fn whole_number(value: Value<'_>, minimum: i64) -> Result<i64, Fault> {
    let fault = |wanted: &str| Fault::of_type(value, wanted);
    let text = value
        .as_number_text()
        .ok_or_else(|| fault("a whole number"))?;
    let is_whole = text
        .trim_start_matches('-')
        .bytes()
        .all(|it| it.is_ascii_digit());
    if !is_whole {
        return Err(fault("a whole number"));
    }
    let number = text.parse().ok();
    let number = number.filter(|it| (minimum..=MAX_NUMBER).contains(it));
    number.ok_or_else(|| Fault::of_value(value, &format!("{minimum} to {MAX_NUMBER}")))
}

impl FieldValue for u64 {
    fn assign(&mut self, value: Value<'_>) -> Result<(), Fault> {
        *self = whole_number(value, 0)?.unsigned_abs();
        Ok(())
    }

    fn write(&self, json: &mut String) {
        let _ = write!(json, "{self}");
    }
}

impl FieldValue for NonZeroU64 {
    fn assign(&mut self, value: Value<'_>) -> Result<(), Fault> {
        let number = whole_number(value, 1)?.unsigned_abs();
        *self = NonZeroU64::new(number).unwrap_or(NonZeroU64::MIN);
        Ok(())
    }

    fn write(&self, json: &mut String) {
        let _ = write!(json, "{self}");
    }
}

impl FieldValue for i64 {
    fn assign(&mut self, value: Value<'_>) -> Result<(), Fault> {
        *self = whole_number(value, -MAX_NUMBER)?;
        Ok(())
    }

    fn write(&self, json: &mut String) {
        let _ = write!(json, "{self}");
    }
}

/// `null` is none.
impl<T: FieldValue + Default> FieldValue for Option<T> {
    fn assign(&mut self, value: Value<'_>) -> Result<(), Fault> {
        *self = match value.kind() {
            Kind::Null => None,
            _ => {
                let mut some = T::default();
                some.assign(value)?;
                Some(some)
            }
        };
        Ok(())
    }

    fn write(&self, json: &mut String) {
        match self {
            Some(some) => some.write(json),
            None => json.push_str("null"),
        }
    }
}

impl FieldValue for bool {
    fn assign(&mut self, value: Value<'_>) -> Result<(), Fault> {
        let found = value.as_bool();
        *self = found.ok_or_else(|| Fault::of_type(value, "true or false"))?;
        Ok(())
    }

    fn write(&self, json: &mut String) {
        let _ = write!(json, "{self}");
    }
}

impl FieldValue for String {
    fn assign(&mut self, value: Value<'_>) -> Result<(), Fault> {
        *self = text(value)?.to_owned();
        Ok(())
    }

    fn write(&self, json: &mut String) {
        write_string(self, json);
    }
}

impl FieldValue for Vec<String> {
    fn assign(&mut self, value: Value<'_>) -> Result<(), Fault> {
        *self = texts(value)?
            .map(|it| it.map(str::to_owned))
            .collect::<Result<_, _>>()?;
        Ok(())
    }

    fn write(&self, json: &mut String) {
        write_list(self.iter().map(String::as_str), json);
    }
}

impl FieldValue for Vec<Dialect> {
    fn assign(&mut self, value: Value<'_>) -> Result<(), Fault> {
        let dialect = |item: Value<'_>| {
            let names = || Dialect::ALL.map(Dialect::name);
            Dialect::named(text(item)?).ok_or_else(|| none_of(item, names()))
        };
        *self = items(value)?.map(dialect).collect::<Result<_, _>>()?;
        Ok(())
    }

    fn write(&self, json: &mut String) {
        write_list(self.iter().map(|it| it.name()), json);
    }
}

/// The text that `value` is.
pub(crate) fn text<'d>(value: Value<'d>) -> Result<&'d str, Fault> {
    value
        .as_str()
        .ok_or_else(|| Fault::of_type(value, "a text"))
}

fn items<'d>(value: Value<'d>) -> Result<impl Iterator<Item = Value<'d>>, Fault> {
    match value.kind() {
        Kind::Array => Ok(value.items()),
        _ => Err(Fault::of_type(value, "a list of texts")),
    }
}

/// The texts in the list that `value` is.
pub(crate) fn texts<'d>(
    value: Value<'d>,
) -> Result<impl Iterator<Item = Result<&'d str, Fault>>, Fault> {
    Ok(items(value)?.map(text))
}

/// `value` is none of these names.
pub(crate) fn none_of(value: Value<'_>, names: impl IntoIterator<Item = impl AsRef<str>>) -> Fault {
    let names: Vec<_> = names.into_iter().map(|it| it.as_ref().to_owned()).collect();
    Fault::of_value(value, &format!("one of {}", names.join(", ")))
}

pub(crate) fn write_list<'t>(texts: impl Iterator<Item = &'t str>, json: &mut String) {
    json.push('[');
    for (nth, text) in texts.enumerate() {
        if nth > 0 {
            json.push(',');
        }
        write_string(text, json);
    }
    json.push(']');
}

/// Appends the member `name` to the object that is being written.
pub(crate) fn write_member(name: &str, value: &dyn FieldValue, json: &mut String) {
    if !json.ends_with('{') {
        json.push(',');
    }
    write_string(name, json);
    json.push(':');
    value.write(json);
}

/// Some of the fields of a row.
pub(crate) trait Fields {
    /// Their names.
    fn names(&self) -> Vec<&'static str>;

    /// Sets the field `key`; `None` if it is not among these.
    fn set(&mut self, key: &str, value: Value<'_>) -> Option<Result<(), Fault>>;

    /// Appends them as members of the object that is being written.
    fn write_members(&self, json: &mut String);
}

/// A struct of fields with their defaults, which a row sets by name; those of its parts are beside them.
macro_rules! fields {
    ($(#[$about:meta])* pub struct $name:ident {
        $($(#[$doc:meta])* pub $field:ident: $type:ty = $default:expr,)*
    } $(with {
        $($(#[$part_doc:meta])* pub $part:ident: $part_type:ty,)*
    })?) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
            $($($(#[$part_doc])* pub $part: $part_type,)*)?
        }

        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $default,)* $($($part: Default::default(),)*)? }
            }
        }

        impl $crate::profile::field::Fields for $name {
            fn names(&self) -> Vec<&'static str> {
                [vec![$(stringify!($field)),*], $($(self.$part.names(),)*)?].concat()
            }

            fn set(
                &mut self,
                key: &str,
                value: $crate::json::Value<'_>,
            ) -> Option<Result<(), $crate::profile::field::Fault>> {
                use $crate::profile::field::FieldValue;
                match key {
                    $(stringify!($field) => return Some(self.$field.assign(value)),)*
                    _ => {}
                }
                $($(if let Some(done) = $crate::profile::field::Fields::set(&mut self.$part, key, value) {
                    return Some(done);
                })*)?
                None
            }

            fn write_members(&self, json: &mut String) {
                $($crate::profile::field::write_member(stringify!($field), &self.$field, json);)*
                $($(self.$part.write_members(json);)*)?
            }
        }
    };
}

/// The names that the variants of an enum have in the table.
macro_rules! named {
    ($name:ident { $($variant:ident = $text:literal,)* }) => {
        impl $name {
            /// Its name in the table.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }
        }

        impl $crate::profile::field::FieldValue for $name {
            fn assign(
                &mut self,
                value: $crate::json::Value<'_>,
            ) -> Result<(), $crate::profile::field::Fault> {
                *self = match $crate::profile::field::text(value)? {
                    $($text => $name::$variant,)*
                    _ => return Err($crate::profile::field::none_of(value, [$($text),*])),
                };
                Ok(())
            }

            fn write(&self, json: &mut String) {
                $crate::json::write_string(self.name(), json);
            }
        }
    };
}

pub(crate) use {fields, named};
