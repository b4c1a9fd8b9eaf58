//! A vendor's rule for the price of a picture, made from the fields of its entry in the table.

use super::entry::{Detail, Entry, Levels, RuleError};
use super::image::PixelSize;
use super::tokens::{
    Anthropic, Canvas, DeepSeek, GeminiTiles, PatchRows, Patches, Quadrants, Qwen, Tiles,
    gemini_grid_tokens,
};

/// The price of a picture by its size, for one family of models.
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

/// Reads the constants of a formula from an entry.
type ReadKind = fn(&Entry<'_>) -> Result<Kind, RuleError>;

/// The formulas by their names in the table; each says beside its constants how they are read.
const KINDS: [(&str, ReadKind); 11] = [
    ("flat", |entry| entry.level_tokens("").map(Kind::Flat)),
    ("tiles", |entry| Tiles::read(entry).map(Kind::Tiles)),
    ("patches", |entry| Patches::read(entry).map(Kind::Patches)),
    ("anthropic", |entry| {
        Anthropic::read(entry).map(Kind::Anthropic)
    }),
    ("gemini-grid", |entry| {
        entry.level_tokens("").map(Kind::GeminiGrid)
    }),
    ("gemini-tiles", |entry| {
        GeminiTiles::read(entry).map(Kind::GeminiTiles)
    }),
    ("patch-rows", |entry| {
        PatchRows::read(entry).map(Kind::PatchRows)
    }),
    ("qwen", |entry| Qwen::read(entry).map(Kind::Qwen)),
    ("quadrants", |entry| {
        Quadrants::read(entry).map(Kind::Quadrants)
    }),
    ("canvas", |entry| Canvas::read(entry).map(Kind::Canvas)),
    ("deepseek", |entry| {
        DeepSeek::read(entry).map(Kind::DeepSeek)
    }),
];

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
        let entry = Entry { number: &number };
        let read = KINDS.iter().find(|(name, _)| *name == kind);
        let (_, read) = read.ok_or_else(|| RuleError::UnknownKind(kind.to_owned()))?;
        read(&entry).map(Self)
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
