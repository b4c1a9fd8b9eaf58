//! The last joins of a vocabulary that comes at run time, if it is one that tables can hold.
//!
//! `build.rs` proves of the vocabularies of the package what is tested here: each token is what its own text
//! merges to, by joins of ascending rank. So a piece that is a token is one token, and a token is made by
//! its last join alone, wherever it stands.

use crate::bpe::table::key::{Join, LONG_TOKEN_BYTES, MAX_TOKEN_BYTES, RANK_BITS};

/// Bytes of all texts that a table can tell apart.
const MAX_TEXT_BYTES: usize = 1 << 21;

/// No rank.
const NONE: u32 = u32::MAX;

/// The last join of each token, by rank; nothing if one of the tokens, which are given in the order of their
/// ranks, is none that tables can hold. Linear in their texts, but quadratic in a single one.
pub(in crate::bpe) fn last_joins(
    ranked: &[(&[u8], u32)],
    rank: impl Fn(&[u8]) -> Option<u32>,
) -> Option<Vec<Option<Join>>> {
    let (_, highest) = *ranked.last()?;
    let bytes: usize = ranked.iter().map(|(token, _)| token.len()).sum();
    // The highest rank of all stands for what is no token.
    if highest >= (1 << RANK_BITS) - 1 || bytes > MAX_TEXT_BYTES {
        return None;
    }
    let (mut joins, mut merge) = (Vec::new(), TokenMerge::default());
    for (token, own) in ranked {
        let is_storable = token.len() < LONG_TOKEN_BYTES - 1
            || [LONG_TOKEN_BYTES, MAX_TOKEN_BYTES].contains(&token.len());
        let join = is_storable.then(|| merge.last_join(token, *own, &rank))??;
        joins.resize(*own as usize, None);
        joins.push(join);
    }
    Some(joins)
}

/// The merge of one token after another.
#[derive(Default)]
struct TokenMerge {
    /// Start of each span and, at last, the end of the text.
    starts: Vec<usize>,
    /// Rank of the join of each span and its next.
    ranks: Vec<u32>,
}

impl TokenMerge {
    /// The last join of the token of that rank, none of a byte; nothing if it does not merge to itself by
    /// joins of ascending rank.
    fn last_join(
        &mut self,
        token: &[u8],
        own: u32,
        rank: impl Fn(&[u8]) -> Option<u32>,
    ) -> Option<Option<Join>> {
        let find = |from: usize, to: usize| rank(&token[from..to]).unwrap_or(NONE);
        self.starts.clear();
        self.starts.extend(0..=token.len());
        self.ranks.clear();
        self.ranks
            .extend((2..=token.len()).map(|end| find(end - 2, end)));
        let (mut join, mut highest) = (None, 0);
        while let Some((at, &lowest)) = (0..).zip(&self.ranks).min_by_key(|it| it.1) {
            if lowest == NONE || lowest < highest {
                return None;
            }
            highest = lowest;
            let [from, middle, to] = *self.starts[at..].first_chunk()?;
            join = Some(Join::new(find(from, middle), find(middle, to)));
            self.starts.remove(at + 1);
            self.ranks.remove(at);
            if let Some(&end) = self.starts.get(at + 2) {
                self.ranks[at] = find(from, end);
            }
            if at > 0 {
                self.ranks[at - 1] = find(self.starts[at - 1], to);
            }
        }
        (join.is_none() || highest == own).then_some(join)
    }
}
