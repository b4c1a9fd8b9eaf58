//! A vendor's rule for the price of a picture, made from the fields of its entry in the table.

use std::fmt;

use super::PixelSize;
use super::tokens::{
    Anthropic, Canvas, DeepSeek, GeminiTiles, Levels, PatchLimit, PatchRows, Patches, Quadrants,
    Qwen, Tiles, gemini_grid_tokens,
};

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

/// What a picture of a given size costs with one family of models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageRule(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Flat(Levels<u64>),
    Tiles(Tiles),
    Patches(Patches),
    Anthropic(Anthropic),
    GeminiGrid(Levels<u64>),
    GeminiTiles(GeminiTiles),
    PatchRows(PatchRows),
    Qwen(Qwen),
    Quadrants(Quadrants),
    Canvas(Canvas),
    DeepSeek(DeepSeek),
}

impl ImageRule {
    /// The rule of this `kind`; `number` looks up a whole number of the table's entry by its path,
    /// with dots between names: `"base_tokens"`, `"levels.low.max_edge_px"`.
    ///
    /// # Errors
    ///
    /// The kind is unknown, or a constant is missing or outside 1 to 65,535. That range is what
    /// keeps all later arithmetic inside 64 bits.
    ///
    /// ```
    /// use tokenctx::media::{Detail, ImageRule, PixelSize};
    ///
    /// let rule = ImageRule::from_fields("flat", |path| (path == "levels.auto.tokens").then_some(258));
    /// let size = PixelSize::new(640, 480).unwrap();
    /// assert_eq!(rule.unwrap().tokens(size, Detail::High), 258);
    /// ```
    pub fn from_fields(
        kind: &str,
        number: impl Fn(&str) -> Option<u64>,
    ) -> Result<Self, RuleError> {
        let fields = Fields { number };
        let positive = |field| fields.positive(field);
        let extra = |field| fields.extra(field);
        let level_tokens = || fields.levels(|level| fields.positive(&format!("{level}.tokens")));
        Ok(Self(match kind {
            "flat" => Kind::Flat(level_tokens()?),
            "tiles" => Kind::Tiles(Tiles {
                base_tokens: positive("base_tokens")?,
                tile_tokens: positive("tile_tokens")?,
                box_px: positive("box_px")?,
                short_side_px: positive("short_side_px")?,
                tile_px: positive("tile_px")?,
            }),
            "patches" => Kind::Patches(Patches {
                patch_px: positive("patch_px")?,
                multiplier_percent: positive("multiplier_percent")?,
                extra_tokens: extra("extra_tokens")?,
                rejected_above_patches: positive("rejected_above_patches")?,
                limits: fields.levels(|level| fields.patch_limit(level))?,
            }),
            "anthropic" => Kind::Anthropic(Anthropic {
                patch_px: positive("patch_px")?,
                max_edge_px: positive("max_edge_px")?,
                max_tokens: positive("max_tokens")?,
                extra_tokens: extra("extra_tokens")?,
            }),
            "gemini-grid" => Kind::GeminiGrid(level_tokens()?),
            "gemini-tiles" => Kind::GeminiTiles(GeminiTiles {
                tile_tokens: positive("tile_tokens")?,
                small_px: positive("small_px")?,
                min_tile_px: positive("min_tile_px")?,
                max_tile_px: positive("max_tile_px")?,
                box_px: positive("box_px")?,
                overview_tiles: extra("overview_tiles")?,
            }),
            "patch-rows" => Kind::PatchRows(PatchRows {
                patch_px: positive("patch_px")?,
                max_edge_px: positive("max_edge_px")?,
            }),
            "qwen" => Kind::Qwen(Qwen {
                patch_px: positive("patch_px")?,
                min_tokens: positive("min_tokens")?,
                extra_tokens: extra("extra_tokens")?,
                max_tokens: level_tokens()?,
            }),
            "quadrants" => Kind::Quadrants(Quadrants {
                tile_px: positive("tile_px")?,
                tile_tokens: positive("tile_tokens")?,
            }),
            "canvas" => Kind::Canvas(Canvas {
                tile_px: positive("tile_px")?,
                tile_tokens: positive("tile_tokens")?,
                max_tiles: positive("max_tiles")?,
                extra_tokens: extra("extra_tokens")?,
            }),
            "deepseek" => Kind::DeepSeek(DeepSeek {
                patch_px: positive("patch_px")?,
                min_side_px: positive("min_side_px")?,
                max_patches: positive("max_patches")?,
                max_tokens: positive("max_tokens")?,
                extra_tokens: extra("extra_tokens")?,
            }),
            _ => return Err(RuleError::UnknownKind(kind.to_owned())),
        }))
    }

    /// Input tokens of a picture of this size; constant work, never panics.
    ///
    /// A detail that the rule does not list costs what [`Detail::Auto`] costs.
    #[must_use]
    pub fn tokens(&self, size: PixelSize, detail: Detail) -> u64 {
        match &self.0 {
            Kind::Flat(levels) => *levels.at(detail),
            Kind::Tiles(rule) => rule.tokens(size, detail),
            Kind::Patches(rule) => rule.tokens(size, detail),
            Kind::Anthropic(rule) => rule.tokens(size),
            Kind::GeminiGrid(levels) => gemini_grid_tokens(size, *levels.at(detail)),
            Kind::GeminiTiles(rule) => rule.tokens(size),
            Kind::PatchRows(rule) => rule.tokens(size),
            Kind::Qwen(rule) => rule.tokens(size, detail),
            Kind::Quadrants(rule) => rule.tokens(size),
            Kind::Canvas(rule) => rule.tokens(size),
            Kind::DeepSeek(rule) => rule.tokens(size),
        }
    }
}

/// The numbers of one entry of the table, checked as they are read.
struct Fields<F> {
    number: F,
}

impl<F: Fn(&str) -> Option<u64>> Fields<F> {
    fn extra(&self, field: &str) -> Result<u64, RuleError> {
        match (self.number)(field) {
            Some(value) if value <= u64::from(u16::MAX) => Ok(value),
            Some(value) => Err(RuleError::OutOfRange {
                field: field.to_owned(),
                value,
            }),
            None => Err(RuleError::MissingField(field.to_owned())),
        }
    }

    fn positive(&self, field: &str) -> Result<u64, RuleError> {
        match self.extra(field)? {
            0 => Err(RuleError::OutOfRange {
                field: field.to_owned(),
                value: 0,
            }),
            value => Ok(value),
        }
    }

    /// Limits of one level; without `max_patches` there is no budget.
    fn patch_limit(&self, level: &str) -> Result<PatchLimit, RuleError> {
        let max_patches = format!("{level}.max_patches");
        Ok(PatchLimit {
            max_edge_px: self.positive(&format!("{level}.max_edge_px"))?,
            max_patches: match (self.number)(&max_patches) {
                Some(_) => Some(self.positive(&max_patches)?),
                None => None,
            },
        })
    }

    /// What `read` finds for each detail, and for an unlisted one what it finds for `auto`.
    fn levels<T: Clone>(
        &self,
        read: impl Fn(&str) -> Result<T, RuleError>,
    ) -> Result<Levels<T>, RuleError> {
        let auto = read("levels.auto")?;
        let mut levels = Levels::all(auto);
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
