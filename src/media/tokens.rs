//! The vendors' formulas, on whole numbers only.
//!
//! Vendors publish scale factors as real numbers, often square roots. Here every formula is reduced
//! to integer division and integer roots: the result is what the published formula gives without
//! rounding error, and the same on every platform. Constants are 1 to 65,535 and sides are 32 bits,
//! so every product below fits 64 bits; [`Canvas`], with three factors, uses 128.

use super::entry::{Detail, Entry, Levels, PatchLimit, RuleError};
use super::image::PixelSize;

/// A formula: its constants, each with the method of [`Entry`] that reads it from the field of its name.
macro_rules! formula {
    ($(#[$about:meta])* $name:ident { $($field:ident: $type:ty = $read:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(super) struct $name {
            $($field: $type,)*
        }

        impl $name {
            /// Reads the constants of an entry; fails if one is missing or out of range.
            pub(super) fn read(entry: &Entry<'_>) -> Result<Self, RuleError> {
                Ok(Self { $($field: entry.$read(stringify!($field))?,)* })
            }
        }
    };
}

/// Sides while a formula scales them; both are kept at 1 or more.
#[derive(Clone, Copy)]
struct Sides {
    width_px: u64,
    height_px: u64,
}

impl From<PixelSize> for Sides {
    fn from(size: PixelSize) -> Self {
        Self {
            width_px: size.width_px().into(),
            height_px: size.height_px().into(),
        }
    }
}

impl Sides {
    fn new(width_px: u64, height_px: u64) -> Self {
        Self {
            width_px: width_px.max(1),
            height_px: height_px.max(1),
        }
    }

    fn long_px(self) -> u64 {
        self.width_px.max(self.height_px)
    }

    fn short_px(self) -> u64 {
        self.width_px.min(self.height_px)
    }

    /// Scaled so that a side of `side_px` becomes `limit_px`, fractions dropped; never enlarged.
    fn floor_to(self, side_px: u64, limit_px: u64) -> Self {
        if side_px <= limit_px {
            return self;
        }
        Self::new(
            self.width_px * limit_px / side_px,
            self.height_px * limit_px / side_px,
        )
    }

    /// Number of squares of `cell_px` that cover the picture.
    fn cells(self, cell_px: u64) -> u64 {
        self.width_px.div_ceil(cell_px) * self.height_px.div_ceil(cell_px)
    }

    /// Columns and rows of the largest grid of square cells, at most `cells`, of this aspect.
    ///
    /// `floor(sqrt(cells * w / h))`: the floor of a root is the integer root of the floor.
    fn grid(self, cells: u64) -> (u64, u64) {
        (
            (cells * self.width_px / self.height_px).isqrt(),
            (cells * self.height_px / self.width_px).isqrt(),
        )
    }
}

/// The nearest whole number; a half goes to the even one, as vendors' Python `round` does.
fn round_div(dividend: u64, divisor: u64) -> u64 {
    let (quotient, rest) = (dividend / divisor, dividend % divisor);
    match (2 * rest).cmp(&divisor) {
        std::cmp::Ordering::Less => quotient,
        std::cmp::Ordering::Equal => quotient + quotient % 2,
        std::cmp::Ordering::Greater => quotient + 1,
    }
}

/// `ceil(sqrt(dividend / divisor))`; at least 1.
fn ceil_root(dividend: u64, divisor: u64) -> u64 {
    (dividend.div_ceil(divisor).max(1) - 1).isqrt() + 1
}

formula! {
    /// OpenAI's tiles: into a box, then the shorter side down, then a price per tile.
    Tiles {
        base_tokens: u64 = positive,
        tile_tokens: u64 = positive,
        box_px: u64 = positive,
        short_side_px: u64 = positive,
        tile_px: u64 = positive,
    }
}

impl Tiles {
    pub(super) fn tokens(&self, size: PixelSize, detail: Detail) -> u64 {
        if detail == Detail::Low {
            return self.base_tokens;
        }
        let sides = Sides::from(size);
        let sides = sides.floor_to(sides.long_px(), self.box_px);
        let sides = sides.floor_to(sides.short_px(), self.short_side_px);
        self.base_tokens + self.tile_tokens * sides.cells(self.tile_px)
    }
}

formula! {
    /// OpenAI's patches: down to an edge, down to a budget of patches, then a price per patch.
    Patches {
        patch_px: u64 = positive,
        multiplier_percent: u64 = positive,
        extra_tokens: u64 = extra,
        rejected_above_patches: u64 = positive,
        limits: Levels<PatchLimit> = level_limits,
    }
}

impl Patches {
    pub(super) fn tokens(&self, size: PixelSize, detail: Detail) -> u64 {
        let limit = self.limits.at(detail);
        let sides = Sides::from(size);
        let sides = sides.floor_to(sides.long_px(), limit.max_edge_px);
        let patches = match limit.max_patches {
            Some(budget) if sides.cells(self.patch_px) > budget => {
                self.fit(sides, budget).cells(self.patch_px)
            }
            _ => sides.cells(self.patch_px),
        };
        // Such a request is refused, so no bill can be higher.
        let patches = patches.min(self.rejected_above_patches);
        (patches * self.multiplier_percent).div_ceil(100) + self.extra_tokens
    }

    /// The size within `budget` patches.
    ///
    /// The guide scales by `sqrt(32^2 B / (w h))`, then by the factor that makes one side a whole
    /// number of patches. With `c = floor(sqrt(B w / h))` and `r = floor(sqrt(B h / w))` the result
    /// is exactly `32 c` wide or `32 r` high, whichever is smaller: no root remains.
    fn fit(&self, sides: Sides, budget: u64) -> Sides {
        let (columns, rows) = sides.grid(budget);
        let (width_px, height_px) = (columns * self.patch_px, rows * self.patch_px);
        Sides::new(
            width_px.min(height_px * sides.width_px / sides.height_px),
            height_px.min(width_px * sides.height_px / sides.width_px),
        )
    }
}

formula! {
    /// Claude's patches: the largest size of this aspect within an edge and a number of patches.
    Anthropic {
        patch_px: u64 = positive,
        max_edge_px: u64 = positive,
        max_tokens: u64 = positive,
        extra_tokens: u64 = extra,
    }
}

impl Anthropic {
    pub(super) fn tokens(&self, size: PixelSize) -> u64 {
        let sides = Sides::from(size);
        let whole_patches_px = self.max_edge_px / self.patch_px * self.patch_px;
        // The number of patches grows with the long edge: the largest that fits, by halving.
        let (mut fits_px, mut too_long_px) = (1, sides.long_px().min(whole_patches_px) + 1);
        while too_long_px - fits_px > 1 {
            let middle_px = u64::midpoint(fits_px, too_long_px);
            if self.patches(sides, middle_px) <= self.max_tokens {
                fits_px = middle_px;
            } else {
                too_long_px = middle_px;
            }
        }
        self.patches(sides, fits_px) + self.extra_tokens
    }

    fn patches(&self, sides: Sides, edge_px: u64) -> u64 {
        let other_px = round_div(sides.short_px() * edge_px, sides.long_px());
        Sides::new(edge_px, other_px).cells(self.patch_px)
    }
}

/// Gemini 3: the grid of at most `max_tokens` cells that has the picture's aspect.
pub(super) fn gemini_grid_tokens(size: PixelSize, max_tokens: u64) -> u64 {
    let (columns, rows) = Sides::from(size).grid(max_tokens);
    // Only a strip thinner than one cell can exceed the budget, by having one column all the same.
    (columns.max(1) * rows.max(1)).min(max_tokens)
}

formula! {
    /// Gemini 2.0: tiles whose side follows the shorter side of the picture, and one of the whole.
    GeminiTiles {
        tile_tokens: u64 = positive,
        small_px: u64 = positive,
        min_tile_px: u64 = positive,
        max_tile_px: u64 = positive,
        box_px: u64 = positive,
        overview_tiles: u64 = extra,
    }
}

impl GeminiTiles {
    pub(super) fn tokens(&self, size: PixelSize) -> u64 {
        let sides = Sides::from(size);
        if sides.long_px() <= self.small_px {
            return self.tile_tokens;
        }
        let sides = sides.floor_to(sides.long_px(), self.box_px);
        // floor(shorter side / 1.5)
        let tile_px = (sides.short_px() * 2 / 3)
            .max(self.min_tile_px)
            .min(self.max_tile_px);
        self.tile_tokens * (sides.cells(tile_px) + self.overview_tiles)
    }
}

formula! {
    /// Mistral: rows of patches, each with a token at its end.
    PatchRows {
        patch_px: u64 = positive,
        max_edge_px: u64 = positive,
    }
}

impl PatchRows {
    pub(super) fn tokens(&self, size: PixelSize) -> u64 {
        let sides = Sides::from(size);
        let long_px = sides.long_px();
        let scaled = |side_px: u64| {
            if long_px > self.max_edge_px {
                round_div(side_px * self.max_edge_px, long_px).max(1)
            } else {
                side_px
            }
        };
        let columns = scaled(sides.width_px).div_ceil(self.patch_px);
        (columns + 1) * scaled(sides.height_px).div_ceil(self.patch_px)
    }
}

formula! {
    /// Qwen-VL: sides rounded to whole patches, between a least and a greatest number of them.
    Qwen {
        patch_px: u64 = positive,
        min_tokens: u64 = positive,
        extra_tokens: u64 = extra,
        max_tokens: Levels<u64> = level_tokens,
    }
}

impl Qwen {
    pub(super) fn tokens(&self, size: PixelSize, detail: Detail) -> u64 {
        let sides = Sides::from(size);
        let max_tokens = *self.max_tokens.at(detail);
        let columns = round_div(sides.width_px, self.patch_px).max(1);
        let rows = round_div(sides.height_px, self.patch_px).max(1);
        let (columns, rows) = if columns * rows > max_tokens {
            sides.grid(max_tokens)
        } else if columns * rows < self.min_tokens {
            (
                ceil_root(self.min_tokens * sides.width_px, sides.height_px),
                ceil_root(self.min_tokens * sides.height_px, sides.width_px),
            )
        } else {
            (columns, rows)
        };
        (columns.max(1) * rows.max(1)).min(max_tokens) + self.extra_tokens
    }
}

formula! {
    /// Llama 3.2: one tile, doubled for each side that reaches a tile's.
    Quadrants {
        tile_px: u64 = positive,
        tile_tokens: u64 = positive,
    }
}

impl Quadrants {
    pub(super) fn tokens(&self, size: PixelSize) -> u64 {
        let sides = Sides::from(size);
        let along = |side_px: u64| if side_px >= self.tile_px { 2 } else { 1 };
        self.tile_tokens * along(sides.width_px) * along(sides.height_px)
    }
}

formula! {
    /// Llama 4: the best canvas of whole tiles, a separator after each, and the whole as one tile.
    Canvas {
        tile_px: u64 = positive,
        tile_tokens: u64 = positive,
        max_tiles: u64 = positive,
        extra_tokens: u64 = extra,
    }
}

impl Canvas {
    pub(super) fn tokens(&self, size: PixelSize) -> u64 {
        let tiles = self.tiles(size);
        let several = (self.tile_tokens + 1) * tiles + self.tile_tokens;
        let content = if tiles > 1 { several } else { self.tile_tokens };
        content + self.extra_tokens
    }

    /// Number of tiles of the canvas: the smallest that need not shrink the picture, else the one
    /// that shrinks it least, the one with fewer tiles if two are equal.
    fn tiles(&self, size: PixelSize) -> u64 {
        let (width_px, height_px) = (u128::from(size.width_px()), u128::from(size.height_px()));
        let area = width_px * height_px;
        let canvases = (1..=self.max_tiles)
            .flat_map(|columns| (1..=self.max_tiles / columns).map(move |rows| (columns, rows)));
        let rank = |(columns, rows): (u64, u64)| {
            // The scale of the picture on this canvas, times its area.
            let across = u128::from(columns * self.tile_px) * height_px;
            let down = u128::from(rows * self.tile_px) * width_px;
            let scale = across.min(down);
            let shrinks = scale < area;
            (
                shrinks,
                if shrinks { u128::MAX - scale } else { scale },
                columns * rows,
            )
        };
        canvases.map(rank).min().map_or(1, |(_, _, tiles)| tiles)
    }
}

formula! {
    /// DeepSeek: patch rows within a number of patches, small pictures enlarged.
    DeepSeek {
        patch_px: u64 = positive,
        min_side_px: u64 = positive,
        max_patches: u64 = positive,
        max_tokens: u64 = positive,
        extra_tokens: u64 = extra,
    }
}

impl DeepSeek {
    pub(super) fn tokens(&self, size: PixelSize) -> u64 {
        let mut sides = Sides::from(size);
        let min_area = self.min_side_px * self.min_side_px;
        if sides.width_px * sides.height_px < min_area {
            // An enlarged picture has this area: sqrt(area * w / h) by sqrt(area * h / w).
            let (width_px, height_px) = sides.grid(min_area);
            sides = Sides::new(width_px, height_px);
        }
        let columns = sides.width_px.div_ceil(self.patch_px);
        let rows = sides.height_px.div_ceil(self.patch_px);
        let tokens = self.rows_tokens(columns, rows);
        if tokens <= self.max_tokens {
            return tokens;
        }
        let (columns, rows) = sides.grid(self.max_patches);
        self.rows_tokens(columns.max(1), rows.max(1))
            .min(self.max_tokens)
    }

    fn rows_tokens(&self, columns: u64, rows: u64) -> u64 {
        rows.saturating_mul(columns + 1)
            .saturating_add(self.extra_tokens)
    }
}
