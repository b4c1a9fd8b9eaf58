//! The merge of a window of any width, by its definition (see [`merge`](crate::bpe::merge::cell)): n log n.
//!
//! # Tried and lost
//!
//! A tournament of two instead of a tree of sixteens: 1,490 instructions per byte against 740 on runs
//! of 1 to 100 equal bytes, spaces and tabs 1,800 against 900 (2026-11-21).

use crate::bpe::table::{NONE, NOTHING, Vocabulary};

/// Appends start and token of every span of the encoding of `text`.
#[inline(always)]
pub(in crate::bpe) fn merge(vocabulary: &Vocabulary, text: &[u8], spans: &mut Vec<(usize, u32)>) {
    let ranks = text
        .windows(2)
        .map(|pair| vocabulary.pair_rank([pair[0], pair[1]]));
    let mut pairs = Lowest::new(ranks);
    let mut tokens: Vec<u32> = text.iter().map(|&byte| vocabulary.single(byte)).collect();
    tokens.push(NOTHING);
    let mut links = Links::new(text.len());
    while let Some((at, token)) = pairs.lowest() {
        let joined = links.next[at];
        links.join(joined);
        tokens[at] = token;
        // The last byte begins no pair.
        if joined + 1 < text.len() {
            pairs.set(joined, NONE);
        }
        pairs.set(at, vocabulary.joined(token, tokens[links.next[at]]));
        if at > 0 {
            let before = links.previous[at];
            pairs.set(before, vocabulary.joined(tokens[before], token));
        }
    }
    let mut at = 0;
    while at < text.len() {
        spans.push((at, tokens[at]));
        at = links.next[at];
    }
}

/// A tree of pairs by rank: every word of a level but the first is the lowest of [`FAN`] words of
/// the level before. The last level has [`FAN`] words.
///
/// The low bits of a word are its place among its [`FAN`], so that the lowest word tells its place,
/// and of equal ranks the leftmost is the lowest.
struct Lowest {
    levels: Vec<Vec<i32>>,
}

/// Few vectors, so that the lowest is found at once.
const FAN: usize = 16;

/// Bits of a word below its rank.
const PLACE_BITS: u32 = FAN.ilog2();

/// Rank of what is no pair.
const NO_PAIR: u32 = (i32::MAX >> PLACE_BITS).cast_unsigned();

impl Lowest {
    #[inline(always)]
    fn new(ranks: impl Iterator<Item = u32>) -> Lowest {
        let leaves = ranks.enumerate().map(|(at, rank)| word(at, rank));
        let mut levels = vec![leaves.collect::<Vec<i32>>()];
        while let Some(level) = levels.last_mut() {
            let full = level.len().next_multiple_of(FAN).max(FAN);
            level.extend((level.len()..full).map(|at| word(at, NONE)));
            if level.len() == FAN {
                break;
            }
            let chunks = level.as_chunks().0.iter().enumerate();
            let above = chunks
                .map(|(at, chunk)| word(at, rank(lowest(chunk))))
                .collect();
            levels.push(above);
        }
        Lowest { levels }
    }

    /// Sets the rank of the pair at `position`, [`NONE`] to remove it.
    #[inline(always)]
    fn set(&mut self, mut position: usize, mut lowest_rank: u32) {
        for level in &mut self.levels {
            let word = word(position, lowest_rank);
            if level[position] == word {
                break;
            }
            #[cfg(test)]
            crate::bpe::steps::add(1);
            level[position] = word;
            position /= FAN;
            lowest_rank = rank(lowest(&level.as_chunks().0[position]));
        }
    }

    /// Position and rank of the lowest, leftmost pair.
    #[inline(always)]
    fn lowest(&self) -> Option<(usize, u32)> {
        let (mut position, mut lowest_rank) = (0, NO_PAIR);
        for level in self.levels.iter().rev() {
            let word = lowest(&level.as_chunks().0[position]);
            lowest_rank = rank(word);
            position = position * FAN + word.cast_unsigned() as usize % FAN;
        }
        (lowest_rank != NO_PAIR).then_some((position, lowest_rank))
    }
}

/// Words are signed: SSE2 compares no others.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "a place has few bits")]
fn word(position: usize, rank: u32) -> i32 {
    (rank.min(NO_PAIR) << PLACE_BITS | (position % FAN) as u32).cast_signed()
}

#[inline(always)]
fn rank(word: i32) -> u32 {
    word.cast_unsigned() >> PLACE_BITS
}

#[inline(always)]
fn lowest(words: &[i32; FAN]) -> i32 {
    words
        .iter()
        .fold(i32::MAX, |lowest, &word| lowest.min(word))
}

/// The list of starts, linked in both directions.
struct Links {
    next: Vec<usize>,
    previous: Vec<usize>,
}

impl Links {
    fn new(length: usize) -> Links {
        // Nothing is before the first start: its link is never followed.
        Links {
            next: (1..=length).collect(),
            previous: (0..=length).map(|at| at.max(1) - 1).collect(),
        }
    }
}

impl Links {
    /// Joins the span at `start` to the one before it.
    fn join(&mut self, start: usize) {
        let (before, after) = (self.previous[start], self.next[start]);
        self.next[before] = after;
        self.previous[after] = before;
    }
}
