//! The vocabularies of the package.

use crate::bpe::table::compact::CompactVocabulary;
use crate::bpe::table::joins::NO_EXCEPTIONS;
use crate::bpe::table::memo;
use crate::bpe::table::vocabulary::Vocabulary;

/// Keeps slots from straddling cache lines.
#[repr(C, align(64))]
struct Aligned<T: ?Sized>(T);

macro_rules! vocabulary {
    ($name:literal, $number:literal) => {
        Vocabulary {
            number: $number,
            bytes: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".bytes")),
            tokens: table!($name, ".tokens"),
            join_slots: table!($name, ".join_slots"),
            join_buckets: table!($name, ".join_buckets"),
            singles: &table!($name, ".singles").as_chunks().0[0],
            neighbours: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".neighbours")),
            split_neighbours: include_bytes!(concat!(
                env!("OUT_DIR"),
                "/",
                $name,
                ".split_neighbours"
            )),
            pairs: &table!($name, ".pairs").as_chunks().0[0],
            long_filter: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".long_filter")),
            words: table!($name, ".words"),
            tiny_slots: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".tiny")).len() / 8,
            short_buckets: &table!($name, ".short_buckets").as_chunks().0[0],
            long: table!($name, ".long"),
            long_pilots: table!($name, ".long_pilots"),
            exceptions: &NO_EXCEPTIONS,
        }
    };
}

macro_rules! table {
    ($name:literal, $part:literal) => {{
        static TABLE: &Aligned<[u8]> =
            &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/", $name, $part)));
        TABLE.0.as_chunks().0
    }};
}

macro_rules! compact {
    ($name:literal, $number:literal, $ranks:expr) => {
        CompactVocabulary::new(
            $number,
            include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".compact")),
            $ranks,
        )
    };
}

pub(in crate::bpe) static O200K: Vocabulary = vocabulary!("o200k", 1);
pub(in crate::bpe) static CL100K: Vocabulary = vocabulary!("cl100k", 2);
pub(in crate::bpe) static P50K: CompactVocabulary = compact!("p50k", 3, usize::MAX);

/// Its tokens are the first of `p50k`, which has runs of spaces besides: they are in the package once.
pub(in crate::bpe) static R50K: CompactVocabulary = compact!("p50k", 4, 50_256);

pub(in crate::bpe) static DEEPSEEK_V3: CompactVocabulary = compact!("deepseek_v3", 9, usize::MAX);
pub(in crate::bpe) static MISTRAL_V3: CompactVocabulary = compact!("mistral_v3", 11, usize::MAX);
pub(in crate::bpe) static QWEN2: CompactVocabulary = compact!("qwen2", 12, usize::MAX);

/// Its ranks are no numbers of tokens: see [`gemma`](crate::bpe::gemma).
pub(in crate::bpe) static GEMMA: CompactVocabulary = compact!("gemma", 15, usize::MAX);

/// Has the memory made and read that counting needs, so that no count waits for it: of what this thread remembers, and
/// of the vocabulary that most requests are counted with.
pub(crate) fn make_ready() {
    memo::make_pages();
    O200K.read_pages();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All but Gemma's, whose ranks are no numbers of tokens.
    #[test]
    fn test_every_token_is_found_and_has_its_join() {
        let all = [
            &O200K,
            &CL100K,
            P50K.get(),
            R50K.get(),
            DEEPSEEK_V3.get(),
            MISTRAL_V3.get(),
            QWEN2.get(),
        ];
        for vocabulary in all {
            for rank in 0..u32::try_from(vocabulary.tokens.len()).expect("18 bits") {
                let Some(text) = vocabulary.token(rank) else {
                    continue;
                };
                assert_eq!(vocabulary.rank(text, 0, text.len()), rank);
                let join = vocabulary.join(rank);
                assert_eq!(join.is_none(), text.len() == 1, "{text:?}");
                let made = join.map(|it| vocabulary.joined(it.left(), it.right()));
                assert!(made.is_none_or(|made| made == rank));
            }
        }
    }
}
