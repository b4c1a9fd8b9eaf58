//! Limits of a document, and oddities that it may have.

/// Limits of a document. A body beyond a limit is refused with that limit in the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of the body, or of all strings in the objects; 1 GiB at most.
    pub max_bytes: usize,
    /// Levels of arrays and objects.
    pub max_depth: usize,
    /// Values and keys together.
    pub max_values: usize,
}

impl Default for Limits {
    /// 128 MiB, 1,024 levels (as deep as any parser in use), 4 Mi values and keys: a value is a token at least, so
    /// more fill any window.
    fn default() -> Limits {
        Limits {
            max_bytes: 128 << 20,
            max_depth: 1024,
            max_values: 4 << 20,
        }
    }
}

/// Oddities of a body that were accepted: a set of flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anomalies(u8);

impl Anomalies {
    /// An object had a key twice; the last value was taken.
    pub const DUPLICATE_KEY: Anomalies = Anomalies(1);
    /// Half of a surrogate pair stood alone; it was read as U+FFFD.
    pub const LONE_SURROGATE: Anomalies = Anomalies(2);
    /// A number is NaN or infinite.
    pub const NON_FINITE_NUMBER: Anomalies = Anomalies(4);
    /// An object cannot be read as JSON; it was read as null, or its key left out.
    pub const UNREADABLE_VALUE: Anomalies = Anomalies(8);
    /// The body began with a byte order mark.
    pub const BYTE_ORDER_MARK: Anomalies = Anomalies(16);
    /// The body was not valid UTF-8; each bad sequence was read as U+FFFD.
    pub const INVALID_UTF8: Anomalies = Anomalies(32);

    const NAMES: [(Anomalies, &'static str); 6] = [
        (Anomalies::DUPLICATE_KEY, "duplicate_key"),
        (Anomalies::LONE_SURROGATE, "lone_surrogate"),
        (Anomalies::NON_FINITE_NUMBER, "non_finite_number"),
        (Anomalies::UNREADABLE_VALUE, "unreadable_value"),
        (Anomalies::BYTE_ORDER_MARK, "byte_order_mark"),
        (Anomalies::INVALID_UTF8, "invalid_utf8"),
    ];

    /// True if nothing was odd.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if every flag of `other` is set.
    pub fn contains(self, other: Anomalies) -> bool {
        self.0 & other.0 == other.0
    }

    /// The names of the flags that are set, in a fixed order: `"duplicate_key"`, ...
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let set = Anomalies::NAMES.into_iter();
        set.filter(move |(flag, _)| self.contains(*flag))
            .map(|(_, name)| name)
    }
}

impl std::ops::BitOrAssign for Anomalies {
    fn bitor_assign(&mut self, other: Anomalies) {
        self.0 |= other.0;
    }
}
