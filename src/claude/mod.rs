//! Claude's count model: how many tokens a text has for Claude.
//!
//! Anthropic publishes no vocabulary. The package `ctok` 1.3.0 (MIT, Sander Land) has
//! reconstructed one by measurement, and a model that predicts the service's counts; its
//! vocabularies and character tables are used here under its licence, the code is our own. The
//! model tells how many tokens there are, not which: only counts were ever measured. Four pieces
//! of v3 are from what recorded calls were billed for the ends of their tool schemas.
//!
//! A count takes three steps.
//!
//! 1. **Normalisation** ([`normal`]). Form C, no controls, one kind of space.
//! 2. **Marking** ([`marker`]). Words are written in lower case between markers: `<bow>` begins a
//!    word, `<eow>` ends it, `<shift>` says that its first letter is a capital and `<caps>` (v3)
//!    that all are. Punctuation beside a space gets the marker of that side. A single space between
//!    `<eow>` and `<bow>` disappears, because the markers already say that it is there: the reason
//!    why `the`, ` the` and `The` share their pieces. `Hello, big world` becomes
//!    `<shift><bow>hello<eow>,<eow><bow>big<eow><bow>world<eow>`.
//! 3. **Tiling** ([`tiling`]). The count is the least number of pieces of the vocabulary that the
//!    marked text can be cut into. A marker is a piece; a character that is none is paid for by its
//!    bytes, with some frequent prefixes of two or three bytes as one.
//!
//! No piece crosses the border of a word, a run of white space, a run of ASCII digits or an
//! ideograph, which the build checks. So the marked text falls into small cells that can be counted
//! one by one, and is never written down: frequent cells are looked up whole ([`vocabulary`]), the
//! others are tiled as they go by.
//!
//! What a character is (word, punctuation, capital, ...) is a table of [`character`]: Unicode 15.0
//! as `ctok` sees it, with the exceptions that were measured.

mod character;
mod encoding;
#[allow(dead_code, reason = "some parts serve the build only")]
mod key;
mod kind;
mod layout;
mod marker;
mod normal;
mod tiling;
mod vocabulary;
mod word;

pub use encoding::ClaudeFamily;
