//! The last joins of a vocabulary that comes at run time, if it is one that tables can hold.
//!
//! While a text is merged, what happens inside of a span does not depend on what is around it, up to the
//! moment when a join crosses its ends: the pairs inside are the same, and so is their order. So a token is
//! made by merges exactly if its own text merges to it, and always by the same last join. A token whose text
//! does not, as some 600 of Llama 3's, is found as a whole piece only ([`Exceptions::has_wholes`]): its two
//! parts are never neighbours, in no text, so that nothing is lost if the tables have it.
//!
//! `build.rs` proves more of the vocabularies of the package: there is no such token, and joins ascend.

use crate::bpe::table::key::{Join, LONG_TOKEN_BYTES, MAX_TOKEN_BYTES, RANK_BITS};

/// Bytes of all texts that a table can tell apart.
const MAX_TEXT_BYTES: usize = 1 << 21;

/// No place.
const NONE: u32 = u32::MAX;

/// Properties that the vocabularies of the package do not have.
#[derive(Default)]
pub(in crate::bpe) struct Exceptions {
    /// True if some tokens are not what their own text merges to.
    pub(in crate::bpe) has_wholes: bool,
    /// Bit set of the tokens that are made by joins whose ranks do not ascend, and of those that are parts of
    /// a token of a lower rank.
    pub(in crate::bpe) unordered: Vec<u64>,
}

/// Those of the vocabularies of the package.
pub(in crate::bpe) static NO_EXCEPTIONS: Exceptions = Exceptions {
    has_wholes: false,
    unordered: Vec::new(),
};

impl Exceptions {
    fn set_unordered(&mut self, rank: u32) {
        let word = rank as usize / 64;
        let words = self.unordered.len().max(word + 1);
        self.unordered.resize(words, 0);
        self.unordered[word] |= 1 << (rank % 64);
    }
}

/// The last join of each token, by rank, and what is unlike the vocabularies of the package; nothing if one of
/// the tokens, which are given in the order of their ranks, is none that tables can hold. Linear in their
/// texts, but quadratic in a single one.
///
/// `place` says when a text is joined at that byte, if ever: of two joins that of the lower place goes first. In
/// a rank file it is the rank of the text.
pub(in crate::bpe) fn last_joins(
    ranked: &[(&[u8], u32)],
    rank: impl Fn(&[u8]) -> Option<u32>,
    place: impl Fn(&[u8], usize) -> Option<u32>,
) -> Option<(Vec<Option<Join>>, Exceptions)> {
    let (_, highest) = *ranked.last()?;
    let bytes: usize = ranked.iter().map(|(token, _)| token.len()).sum();
    // The highest rank of all stands for what is no token.
    if highest >= (1 << RANK_BITS) - 1 || bytes > MAX_TEXT_BYTES {
        return None;
    }
    let (mut joins, mut merge) = (Vec::new(), TokenMerge::default());
    let mut exceptions = Exceptions::default();
    for (token, own) in ranked {
        let is_storable = token.len() < LONG_TOKEN_BYTES - 1
            || [LONG_TOKEN_BYTES, MAX_TOKEN_BYTES].contains(&token.len());
        if !is_storable {
            return None;
        }
        joins.resize(*own as usize, None);
        let join = merge.last_join(token, &place).and_then(|at| {
            let (left, right) = token.split_at(at);
            Some(Join::new(rank(left)?, rank(right)?))
        });
        joins.push(join);
        if join.is_some() && !merge.ascends {
            exceptions.set_unordered(*own);
        }
        exceptions.has_wholes |= join.is_none() && token.len() > 1;
    }
    for (own, join) in (0..).zip(&joins) {
        let parts = join.iter().flat_map(|join| [join.left(), join.right()]);
        let is_outranked = |&part: &u32| part > own && joins[part as usize].is_some();
        let outranked = parts.filter(is_outranked);
        outranked.for_each(|part| exceptions.set_unordered(part));
    }
    Some((joins, exceptions))
}

/// The merge of one token after another.
#[derive(Default)]
struct TokenMerge {
    /// Start of each span and, at last, the end of the text.
    starts: Vec<usize>,
    /// Place of the join of each span and its next.
    places: Vec<u32>,
    /// True if no join of the last token had a lower place than one before it.
    ascends: bool,
}

impl TokenMerge {
    /// The byte of the token that its last join is at; nothing of a byte, or if its text does not merge to it.
    fn last_join(
        &mut self,
        token: &[u8],
        place: impl Fn(&[u8], usize) -> Option<u32>,
    ) -> Option<usize> {
        let find = |from: usize, middle: usize, to: usize| {
            place(&token[from..to], middle - from).unwrap_or(NONE)
        };
        self.starts.clear();
        self.starts.extend(0..=token.len());
        self.places.clear();
        self.places
            .extend((2..=token.len()).map(|end| find(end - 2, end - 1, end)));
        self.ascends = true;
        let (mut join, mut highest) = (None, 0);
        while let Some((at, &lowest)) = (0..).zip(&self.places).min_by_key(|it| it.1) {
            if lowest == NONE {
                return None;
            }
            self.ascends &= lowest >= highest;
            highest = highest.max(lowest);
            let [from, middle, to] = *self.starts[at..].first_chunk()?;
            join = Some(middle);
            self.starts.remove(at + 1);
            self.places.remove(at);
            if let Some(&end) = self.starts.get(at + 2) {
                self.places[at] = find(from, to, end);
            }
            if at > 0 {
                self.places[at - 1] = find(self.starts[at - 1], from, to);
            }
        }
        join
    }
}
