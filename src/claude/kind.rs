//! Kinds of characters: every fact that the model looks at, as bits of one word.
//!
//! `build.rs` includes this file too and writes the table: a block number for every 128 code
//! points, the different blocks of kind numbers, and the bits of each kind.

/// A letter, or a mark that stays with letters, of a script that is written in words.
pub(crate) const WORD: u32 = 1;
/// A character on its own: Han, Hangul, everything above U+FFFF, marks of no word.
pub(crate) const IDEOGRAPH: u32 = 1 << 1;
/// Punctuation and symbols that are no [`PUNCTUATION`], format characters, separating marks.
pub(crate) const SYMBOL: u32 = 1 << 2;
/// A number that is no decimal digit.
pub(crate) const NUMBER: u32 = 1 << 3;
/// A decimal digit of any other script than those of [`DIGIT`] and [`BORDER_DIGIT`].
pub(crate) const DECIMAL: u32 = 1 << 4;
/// `0` to `9`.
pub(crate) const DIGIT: u32 = 1 << 5;
/// The digits of Arabic, which share runs with [`DIGIT`] and are marked as [`DECIMAL`] is.
pub(crate) const BORDER_DIGIT: u32 = 1 << 6;
/// ASCII punctuation and a list of others.
pub(crate) const PUNCTUATION: u32 = 1 << 7;
/// Space, tab, line feed, ideographic space: the white space that normalisation leaves.
pub(crate) const SPACE: u32 = 1 << 8;
/// A variation selector, which belongs to the character before it.
pub(crate) const SELECTOR: u32 = 1 << 9;

/// Of a word: a mark that needs a letter before it.
pub(crate) const STRAY: u32 = 1 << 10;
/// Of a word: a capital.
pub(crate) const UPPER: u32 = 1 << 11;
/// Of a word: a small letter.
pub(crate) const LOWER: u32 = 1 << 12;
/// Of a word: lower case is another character.
pub(crate) const LOWERS: u32 = 1 << 13;
/// Of a word: a letter or mark without case, which no word in capitals may have.
pub(crate) const CASELESS: u32 = 1 << 14;
/// Of a word: also a symbol, so that no contraction follows.
pub(crate) const SYMBOLIC: u32 = 1 << 15;

/// Removed by normalisation: a control.
pub(crate) const CONTROL: u32 = 1 << 16;
/// Removed by normalisation: private use.
pub(crate) const PRIVATE: u32 = 1 << 17;
/// Becomes a space.
pub(crate) const BLANK: u32 = 1 << 18;
/// A curly quote.
pub(crate) const QUOTE: u32 = 1 << 19;
/// U+0E4D, which joins U+0E32.
pub(crate) const NIKHAHIT: u32 = 1 << 20;
/// Has a combining class, and is normal beside any character without one.
pub(crate) const COMBINING: u32 = 1 << 21;
/// Not in normal form by itself, or may join the character before it.
pub(crate) const COMPOSING: u32 = 1 << 22;
/// Unassigned in Unicode 15.0.
pub(crate) const UNASSIGNED: u32 = 1 << 23;

/// A run of digits mixes these.
pub(crate) const DIGITS: u32 = DIGIT | BORDER_DIGIT;
/// Numbers that are marked beside a space.
pub(crate) const NUMBERS: u32 = NUMBER | DECIMAL;
/// Anything that a clump is made of.
pub(crate) const CLUMP: u32 = PUNCTUATION | DIGITS | NUMBERS | IDEOGRAPH | SYMBOL | SELECTOR;

/// Tokens of the character alone, 1 to 4: three bits for each vocabulary.
pub(crate) const COST_SHIFTS: [u32; 2] = [24, 27];

/// Code points of a block.
pub(crate) const BLOCK: usize = 128;
