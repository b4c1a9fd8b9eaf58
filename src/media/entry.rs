//! An entry of the table of rules: the numbers in it, checked as they are read.

use std::fmt;

/// How closely the model is asked to look: OpenAI's `detail`, Gemini's media resolution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Detail {
    /// The vendor chooses; also what an absent value means.
    #[default]
    Auto,
    /// OpenAI `low`, Gemini `MEDIA_RESOLUTION_LOW`.
    Low,
    /// Gemini `MEDIA_RESOLUTION_MEDIUM`.
    Medium,
    /// OpenAI `high`, Gemini `MEDIA_RESOLUTION_HIGH`.
    High,
    /// Gemini `MEDIA_RESOLUTION_ULTRA_HIGH`.
    UltraHigh,
    /// OpenAI `original`.
    Original,
}

impl Detail {
    /// Every detail, in the order of the enum.
    pub const ALL: [Self; 6] = [
        Self::Auto,
        Self::Low,
        Self::Medium,
        Self::High,
        Self::UltraHigh,
        Self::Original,
    ];

    /// The name in the table of rules: `"auto"`, `"ultra-high"` and so on.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::UltraHigh => "ultra-high",
            Self::Original => "original",
        }
    }

    /// The detail with this [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|detail| detail.name() == name)
    }
}

/// Why an entry of the table is not a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuleError {
    /// The entry's `kind` names no formula.
    UnknownKind(String),
    /// The formula needs this field.
    MissingField(String),
    /// A constant is outside 1 to 65,535, or an extra above 65,535.
    OutOfRange {
        /// The field's name.
        field: String,
        /// Its value.
        value: u64,
    },
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKind(kind) => write!(f, "no image rule is of kind {kind:?}"),
            Self::MissingField(field) => write!(f, "the image rule lacks the number {field:?}"),
            Self::OutOfRange { field, value } => {
                write!(
                    f,
                    "{field} of the image rule is {value}; it must be 1 to {}",
                    u16::MAX
                )
            }
        }
    }
}

impl std::error::Error for RuleError {}

/// One value per detail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Levels<T>([T; Detail::ALL.len()]);

impl<T: Clone> Levels<T> {
    pub(super) fn all(level: T) -> Self {
        Self(std::array::from_fn(|_| level.clone()))
    }

    pub(super) fn set(&mut self, detail: Detail, level: T) {
        self.0[detail as usize] = level;
    }

    pub(super) fn at(&self, detail: Detail) -> &T {
        &self.0[detail as usize]
    }
}

/// How far a picture is shrunk at one detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PatchLimit {
    pub(super) max_edge_px: u64,
    pub(super) max_patches: Option<u64>,
}

/// The numbers of one entry of the table, by their paths.
pub(super) struct Entry<'n> {
    pub(super) number: &'n dyn Fn(&str) -> Option<u64>,
}

impl Entry<'_> {
    /// The number in `field`, which may be 0.
    pub(super) fn extra(&self, field: &str) -> Result<u64, RuleError> {
        match (self.number)(field) {
            Some(value) if value <= u64::from(u16::MAX) => Ok(value),
            Some(value) => Err(RuleError::OutOfRange {
                field: field.to_owned(),
                value,
            }),
            None => Err(RuleError::MissingField(field.to_owned())),
        }
    }

    /// The number in `field`, at least 1.
    pub(super) fn positive(&self, field: &str) -> Result<u64, RuleError> {
        match self.extra(field)? {
            0 => Err(RuleError::OutOfRange {
                field: field.to_owned(),
                value: 0,
            }),
            value => Ok(value),
        }
    }

    /// The tokens of each detail. They stand in `levels`, whatever the field of the formula.
    pub(super) fn level_tokens(&self, _field: &str) -> Result<Levels<u64>, RuleError> {
        self.levels(|level| self.positive(&format!("{level}.tokens")))
    }

    /// The limits of each detail; without `max_patches` there is no budget.
    pub(super) fn level_limits(&self, _field: &str) -> Result<Levels<PatchLimit>, RuleError> {
        self.levels(|level| {
            let max_patches = format!("{level}.max_patches");
            let has_budget = (self.number)(&max_patches).is_some();
            Ok(PatchLimit {
                max_edge_px: self.positive(&format!("{level}.max_edge_px"))?,
                max_patches: match has_budget {
                    true => Some(self.positive(&max_patches)?),
                    false => None,
                },
            })
        })
    }

    /// The value that `read` finds for each detail; an unlisted detail has that of `auto`.
    fn levels<T: Clone>(
        &self,
        read: impl Fn(&str) -> Result<T, RuleError>,
    ) -> Result<Levels<T>, RuleError> {
        let mut levels = Levels::all(read("levels.auto")?);
        for detail in Detail::ALL {
            match read(&format!("levels.{}", detail.name())) {
                Ok(level) => levels.set(detail, level),
                Err(RuleError::MissingField(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(levels)
    }
}
