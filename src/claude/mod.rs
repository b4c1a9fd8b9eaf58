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
//! one by one, and is never written down. Where the text is ASCII, 64 bytes at a time tell their cells
//! ([`ascii`]). Cells are counted many at once ([`cells`], [`counter`]): most were counted before and are
//! remembered by hash, as the pieces of [`bpe`](crate::bpe) are; frequent ones are in a table
//! ([`entry`]); the others are tiled, four side by side ([`batch`]).
//!
//! # Tried and lost
//!
//! - *The whole table of 2^16 places to remember in*: a third faster once its pages are there, but the
//!   first 15 KB of a process take twice as long, because a page fault costs more than 100 look-ups.
//!   2^13 places are as fast as none at first, and a tenth slower than all later.
//! - *A short word as the join of a beginning and an ending that are pieces*, looked up instead of
//!   tiled: three of five words outside of the table in v3, one of eight in v4.7.
//! - *The least of sixteen bytes in plain Rust*: the compiler makes 16 branches or as many moves, and
//!   four texts side by side took as long as one after the other.
//! - *Words one by one where the text is not ASCII*: look-ups then wait for each other; in rounds, a
//!   sixth faster.
//!
//! The kind of a character (word, punctuation, capital, ...) is a table of [`character`]: Unicode 15.0
//! as `ctok` sees it, with the exceptions that were measured.

mod ascii;
mod batch;
mod cells;
mod character;
mod clump;
mod costs;
mod counter;
mod encoding;
mod entry;
mod family;
mod kind;
mod layout;
mod marked;
mod marker;
mod normal;
mod scan;
mod tiling;
mod vocabulary;
mod word;

pub use family::ClaudeFamily;
