//! Tables of facts, each in the program, or a newer one in its place before it is first read.
use std::borrow::Cow;
use std::sync::OnceLock;

/// A table as JSON text.
#[derive(Debug)]
pub(crate) struct DataTable {
    bundled: &'static str,
    chosen: OnceLock<Cow<'static, str>>,
}

impl DataTable {
    /// The table that is in the program.
    pub(crate) const fn new(bundled: &'static str) -> DataTable {
        DataTable {
            bundled,
            chosen: OnceLock::new(),
        }
    }

    /// The table; from now on it stays.
    pub(crate) fn text(&self) -> &str {
        self.chosen.get_or_init(|| Cow::Borrowed(self.bundled))
    }

    /// True if it may still be replaced.
    pub(crate) fn is_open(&self) -> bool {
        self.chosen.get().is_none()
    }

    /// Puts `newer` in its place; whether it was not read before.
    pub(crate) fn replace(&self, newer: String) -> bool {
        self.chosen.set(Cow::Owned(newer)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_stays() {
        let [one, other] = [DataTable::new("old"), DataTable::new("old")];
        assert_eq!(
            (one.text(), one.is_open(), one.replace("new".into())),
            ("old", false, false)
        );
        assert_eq!(
            (other.is_open(), other.replace("new".into()), other.text()),
            (true, true, "new")
        );
    }
}
