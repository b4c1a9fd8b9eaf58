//! Vocabularies whose tables are made when they are first used.
//!
//! The tables of `build.rs` are 27 bytes for each token in a wheel, and ready from the start. Those of the
//! vendors beside OpenAI would take 15 MB so. Here are texts, lengths and last joins alone, 6 bytes a
//! token, which `build.rs` has checked: the tables are made of them once in a process, in some 50 ms.

use std::sync::OnceLock;

use hashbrown::HashTable;

use crate::bpe::table::joins::NO_EXCEPTIONS;
use crate::bpe::table::key::{Join, Key, SHORT_BYTES, hash_long};
use crate::bpe::table::made::Tables;
use crate::bpe::table::{Vocabulary, bytes_at};

/// Slots per 100 keys: more than in the tables of `build.rs`, so that they are found sooner.
pub(in crate::bpe) const SLOTS_PERCENT: usize = 125;

/// A vocabulary as `build.rs` has written it.
pub(in crate::bpe) struct Packed {
    number: u64,
    /// Rank of the first token.
    first: u32,
    texts: &'static [u8],
    /// One less than the length of each token.
    lengths: &'static [u8],
    /// Bytes of each token that are on the left of its last join; 0 for a single byte.
    lefts: &'static [u8],
    tables: OnceLock<Vocabulary<'static>>,
}

macro_rules! packed {
    ($name:literal, $number:literal, $first:literal) => {
        Packed {
            number: $number,
            first: $first,
            texts: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".texts")),
            lengths: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".lengths")),
            lefts: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".lefts")),
            tables: OnceLock::new(),
        }
    };
}

pub(in crate::bpe) static DEEPSEEK_V3: Packed = packed!("deepseek_v3", 9, 3);
pub(in crate::bpe) static MISTRAL_V3: Packed = packed!("mistral_v3", 11, 1_000);
pub(in crate::bpe) static QWEN2: Packed = packed!("qwen2", 12, 0);

impl Packed {
    #[cfg(test)]
    /// Its number in what is remembered.
    pub(in crate::bpe) fn number(&self) -> u64 {
        self.number
    }

    /// The vocabulary; who asks first makes the tables.
    ///
    /// They are made outside of the lock, so that no fork copies it locked: two threads that ask at once
    /// may both make them.
    pub(in crate::bpe) fn vocabulary(&'static self) -> &'static Vocabulary<'static> {
        match self.tables.get() {
            Some(vocabulary) => vocabulary,
            None => {
                let made = Box::new(self.make());
                let keep = || Vocabulary::of(self.number, Box::leak(made), &NO_EXCEPTIONS);
                self.tables.get_or_init(keep)
            }
        }
    }

    #[cold]
    fn make(&self) -> Tables {
        let ranked = self.ranked();
        let joins = self.joins(&ranked);
        Tables::new(&ranked, &joins, SLOTS_PERCENT).expect("tables as the tests make them")
    }

    /// Text and rank of every token, by rank.
    fn ranked(&self) -> Vec<(&'static [u8], u32)> {
        let (mut rest, mut ranked) = (self.texts, Vec::with_capacity(self.lengths.len()));
        for (&length, rank) in self.lengths.iter().zip(self.first..) {
            let (text, after) = rest.split_at(usize::from(length) + 1);
            ranked.push((text, rank));
            rest = after;
        }
        ranked
    }

    /// The last join of each token, by rank.
    fn joins(&self, ranked: &[(&[u8], u32)]) -> Vec<Option<Join>> {
        let mut ranks: HashTable<(&[u8], u32)> = HashTable::with_capacity(ranked.len());
        for &token in ranked {
            ranks.insert_unique(hash(token.0), token, |it| hash(it.0));
        }
        let rank = |text: &[u8]| {
            let token = ranks.find(hash(text), |it| it.0 == text);
            token.map(|it| it.1)
        };
        let joins = ranked.iter().zip(self.lefts).map(|((text, _), &left)| {
            let (left, right) = text.split_at(usize::from(left));
            Some(Join::new(rank(left)?, rank(right)?))
        });
        let before = (0..self.first).map(|_| None);
        before.chain(joins).collect()
    }
}

fn hash(token: &[u8]) -> u64 {
    match token.len() {
        length @ ..=SHORT_BYTES => Key::new(&bytes_at(token, 0), length).hash(),
        _ => hash_long(token),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_every_token_is_found_and_has_its_join() {
        for packed in [&DEEPSEEK_V3, &MISTRAL_V3, &QWEN2] {
            let vocabulary = packed.vocabulary();
            for (text, rank) in packed.ranked() {
                assert_eq!(vocabulary.token(rank), Some(text));
                assert_eq!(vocabulary.rank(text, 0, text.len()), rank);
                let join = vocabulary.join(rank);
                assert_eq!(join.is_none(), text.len() == 1, "{text:?}");
                let made = join.map(|it| vocabulary.joined(it.left(), it.right()));
                assert!(made.is_none_or(|made| made == rank));
            }
        }
    }
}
