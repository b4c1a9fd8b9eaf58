//! The ranks of a vocabulary that comes at run time.

use crate::bpe::table::joins::{Exceptions, last_joins};
use crate::bpe::table::key::bytes_at;
use crate::bpe::table::key::{self, Key, SHORT_BYTES};
use crate::bpe::table::made::{SLOTS_PERCENT, Tables};
use crate::bpe::table::rank_file::RankFileError;

/// The ranks of a vocabulary: hash tables with open places, at most half full.
pub(in crate::bpe) struct Ranks {
    bytes: Vec<u8>,
    /// By rank.
    tokens: Vec<Token>,
    /// Tokens of at most [`SHORT_BYTES`].
    short: Vec<Short>,
    /// For longer ones, half of the hash, and one more than the place among the tokens.
    long: Vec<(u32, u32)>,
    pub(in crate::bpe) max_token_bytes: usize,
}

/// Tables like those of the package, and how the vocabulary differs from those.
pub(in crate::bpe) type BuiltTables = (Tables, Exceptions);

/// Takes line, bytes and rank of a token.
pub(in crate::bpe) type Add<'a> = dyn FnMut(usize, &[u8], u32) -> Result<(), RankFileError> + 'a;

/// A token, whose bytes are from `start` to `end`.
struct Token {
    rank: u32,
    start: u32,
    end: u32,
}

/// A short token as its [`Key`], which is never zero.
#[derive(Clone, Copy)]
struct Short {
    low: u64,
    high: u64,
    rank: u32,
}

impl Ranks {
    /// The ranks of a file, which `read` gives to what it is called with: line, bytes and rank of each token.
    pub(in crate::bpe) fn new(
        read: impl FnOnce(&mut Add<'_>) -> Result<(), RankFileError>,
    ) -> Result<Ranks, RankFileError> {
        let mut table = Ranks {
            bytes: Vec::new(),
            tokens: Vec::new(),
            short: Vec::new(),
            long: Vec::new(),
            max_token_bytes: 1,
        };
        let mut lines = Vec::new();
        read(&mut |line, token, rank| {
            let start = offset(table.bytes.len(), line)?;
            table.bytes.extend_from_slice(token);
            let end = offset(table.bytes.len(), line)?;
            lines.push((Token { rank, start, end }, line));
            Ok(())
        })?;
        lines.sort_by_key(|(token, line)| (token.rank, *line));
        let same = |pair: &&[(Token, usize)]| pair[0].0.rank == pair[1].0.rank;
        if let Some(pair) = lines.windows(2).find(same) {
            return Err(RankFileError::Repeated(pair[1].1));
        }
        let slots = (2 * lines.len()).next_power_of_two();
        let free = Short {
            low: 0,
            high: 0,
            rank: 0,
        };
        table.short = vec![free; slots];
        table.long = vec![(0, 0); slots];
        for (token, line) in lines {
            table.tokens.push(token);
            table.place(line)?;
        }
        match (0..=u8::MAX).find(|&byte| table.rank(&[byte], 0, 1).is_none()) {
            Some(byte) => Err(RankFileError::MissingByte(byte)),
            None => Ok(table),
        }
    }

    /// The tables, if they can hold the vocabulary.
    pub(in crate::bpe) fn tables(&self) -> Option<BuiltTables> {
        let ranked: Vec<(&[u8], u32)> = self.ranked().collect();
        let rank = |text: &[u8]| self.rank(text, 0, text.len());
        let (joins, exceptions) = last_joins(&ranked, rank, |text, _| rank(text))?;
        let tables = Tables::new(&ranked, &joins, SLOTS_PERCENT)?;
        Some((tables, exceptions))
    }

    /// Text and rank of each token, by rank.
    pub(in crate::bpe) fn ranked(&self) -> impl Iterator<Item = (&[u8], u32)> {
        let bytes = |token: &Token| &self.bytes[token.start as usize..token.end as usize];
        self.tokens.iter().map(move |it| (bytes(it), it.rank))
    }

    /// The text of the token of that rank.
    pub(in crate::bpe) fn text_of(&self, rank: u32) -> Option<&[u8]> {
        let place = self.tokens.binary_search_by_key(&rank, |it| it.rank).ok()?;
        Some(self.text(place))
    }

    /// Puts the last token into the table.
    fn place(&mut self, line: usize) -> Result<(), RankFileError> {
        let place = self.tokens.len() - 1;
        let (text, rank) = (self.text(place), self.tokens[place].rank);
        let length = text.len();
        if self.rank(text, 0, length).is_some() {
            return Err(RankFileError::Repeated(line));
        }
        if length <= SHORT_BYTES {
            let key = Key::new(&bytes_at(text, 0), length);
            let Key { low, high } = key;
            let free = probe(key.hash(), &self.short).find(|&slot| self.short[slot].high == 0);
            free.into_iter()
                .for_each(|slot| self.short[slot] = Short { low, high, rank });
        } else {
            let hash = key::hash_long(text);
            let entry = (tag(hash), offset(place + 1, line)?);
            let free = probe(hash, &self.long).find(|&slot| self.long[slot].1 == 0);
            free.into_iter().for_each(|slot| self.long[slot] = entry);
        }
        self.max_token_bytes = self.max_token_bytes.max(length);
        Ok(())
    }

    fn text(&self, place: usize) -> &[u8] {
        let token = &self.tokens[place];
        &self.bytes[token.start as usize..token.end as usize]
    }

    /// Rank of `text[start..end]`, which is not empty.
    #[inline]
    pub(in crate::bpe) fn rank(&self, text: &[u8], start: usize, end: usize) -> Option<u32> {
        if end - start > SHORT_BYTES {
            return self.long_rank(&text[start..end]);
        }
        let key = Key::new(&bytes_at(text, start), end - start);
        for slot in probe(key.hash(), &self.short) {
            let entry = &self.short[slot];
            if (entry.low, entry.high) == (key.low, key.high) {
                return Some(entry.rank);
            }
            if entry.high == 0 {
                break;
            }
        }
        None
    }

    fn long_rank(&self, text: &[u8]) -> Option<u32> {
        if text.len() > self.max_token_bytes {
            return None;
        }
        let hash = key::hash_long(text);
        for slot in probe(hash, &self.long) {
            let (other, next) = self.long[slot];
            let place = (next as usize).checked_sub(1)?;
            if other == tag(hash) && self.text(place) == text {
                return Some(self.tokens[place].rank);
            }
        }
        None
    }
}

/// A number of the file, at a line; 32 bits hold it if the file is not above 4 GiB.
fn offset(number: usize, line: usize) -> Result<u32, RankFileError> {
    u32::try_from(number).map_err(|_| RankFileError::Line(line))
}

#[allow(clippy::cast_possible_truncation, reason = "a half is what is meant")]
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// The places to look at for `hash` among `slots`, a power of two.
#[allow(clippy::cast_possible_truncation, reason = "the low bits are meant")]
#[inline]
fn probe<T>(hash: u64, slots: &[T]) -> impl Iterator<Item = usize> + use<T> {
    let mask = slots.len().wrapping_sub(1);
    (0..slots.len()).map(move |step| (hash as usize).wrapping_add(step) & mask)
}

#[cfg(test)]
pub(in crate::bpe) mod tests {
    use super::*;
    use crate::bpe::table::packaged::R50K;
    use crate::bpe::table::vocabulary::Vocabulary;
    use std::sync::LazyLock;

    /// A vocabulary with exceptions of both kinds: every third token of `r50k_base`, in another order.
    pub(in crate::bpe) static ODD: LazyLock<Vocabulary<'static>> = LazyLock::new(|| {
        let chosen: Vec<&[u8]> = R50K
            .get()
            .tokens()
            .filter(|(rank, token)| rank % 3 == 0 || token.len() < 3)
            .map(|(_, token)| token)
            .collect();
        let ranks = Ranks::new(|add| {
            let mut tokens = chosen.iter().zip(0..);
            // The factor has no divisor in common with the number of tokens, so no rank comes twice.
            tokens.try_for_each(|(token, at)| {
                let rank = at * 7_919 % chosen.len();
                add(at, token, u32::try_from(rank).expect("a small number"))
            })
        });
        let (tables, exceptions) = ranks
            .expect("no token twice")
            .tables()
            .expect("small tokens");
        Vocabulary::of(
            14,
            Box::leak(Box::new(tables)),
            Box::leak(Box::new(exceptions)),
        )
    });

    #[test]
    fn test_the_odd_vocabulary_has_all_exceptions() {
        let wholes = ODD.tokens().filter(|&(rank, _)| !ODD.is_merged(rank));
        let unordered = ODD.tokens().filter(|&(rank, _)| ODD.is_unordered(rank));
        assert!(ODD.has_wholes() && wholes.count() > 1_000);
        assert!(unordered.count() > 1_000);
    }
}
