//! Vocabularies: tables that `build.rs` wrote, used in place, or that are built at run time: of joins in the
//! package ([`compact`]), or of a user's file ([`ranks`]).
//!
//! Looking up bytes is one probe of a perfect hash. The hash of a key of up to 13 bytes selects a
//! bucket (4 bytes for every 2 to 4 tokens), which has a pilot, and bits of its keys that
//! reject 90 % of the misses without a probe. Hash and pilot select one slot, and the slot holds the key itself beside its rank: in one
//! word up to five bytes, else in two. So two cache lines answer yes and one answers no, and the same
//! tables serve whole pieces and merge candidates. Longer tokens (4 % of `o200k_base`, 2 % of
//! `cl100k_base`) are found through a second perfect hash of ranks and compared with their text.
//!
//! # Tried and lost, or not taken
//!
//! - A filter of all keys beside the pilots, one or two bytes for each token: another line to wait for.
//!   With the bits in the buckets, new text is 1.1 times as fast, multilingual text with cold caches 1.15
//!   to 1.2 times (2026-11-22).
//! - A fingerprint of a byte in each slot: needs the pilot first.
//! - The prototype's bucketed table of 8 MB (3.2 MB here), and its table of mergeable rank pairs
//!   (446,189 of them in `o200k_base`, 4 MB more): not timed against this; five encodings of that
//!   would not fit into the wheel.
//! - Frequent pieces outside the vocabulary, derived from what may be shipped: the pieces that are
//!   tokens of `cl100k_base` or `p50k_base` are 9 to 11 % of the pieces that `o200k_base` lacks in
//!   English, code and JSON, and 0.7 % in other languages; 400,000 more (words of all three with
//!   prefix, capitals or suffix) are 19 to 26 % (2026-11-21). [`memo`](crate::bpe::table::memo) finds more.

pub(crate) mod compact;
pub(in crate::bpe) mod joins;
pub(crate) mod key;
pub(in crate::bpe) mod made;
pub(crate) mod memo;
pub(in crate::bpe) mod packaged;
pub(in crate::bpe) mod rank_file;
pub(in crate::bpe) mod ranks;
pub(in crate::bpe) mod tokenizer_file;
mod vocabulary;

pub(crate) use key::bytes_at;
pub(crate) use packaged::make_ready;
pub(in crate::bpe) use packaged::{
    CL100K, DEEPSEEK_V3, GEMMA, MISTRAL_V3, O200K, P50K, QWEN2, R50K,
};
pub(crate) use vocabulary::Vocabulary;
pub(in crate::bpe) use vocabulary::{CELL_BYTES, Cell, NONE, NOTHING};
