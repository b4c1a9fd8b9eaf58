//! An encoding whose vocabulary comes at run time.
//!
//! If every token is what its own text merges to, as in most vocabularies, its tables are made when the
//! file is read ([`last_joins`]), and it counts as those of the package do.
//!
//! Else, as with Llama 3's, there are no cells and no windows, but the definition: a piece
//! that is a token is one token; any other is merged, lowest rank first, by a heap: n log n. Texts are
//! remembered as those of every vocabulary; where a request is counted, of a piece above
//! [`SAMPLED_BYTES`] only samples are merged, so that no text that a stranger sends is slow for long.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::bpe::merge::piece;
use crate::bpe::split::rule::SplitRule;
use crate::bpe::table::joins::last_joins;
use crate::bpe::table::key::{self, Key, SHORT_BYTES};
use crate::bpe::table::made::Tables;
use crate::bpe::table::memo::{self, MemoKey};
use crate::bpe::table::packed::SLOTS_PERCENT;
use crate::bpe::table::rank_file::{self, RankFileError};
use crate::bpe::table::{NONE, Vocabulary, bytes_at};
use crate::interrupt::Steps;

/// Longest piece to merge at once; a longer one is cut there.
const MAX_PIECE_BYTES: usize = 1 << 30;

/// Longest piece that a request's count merges in whole.
const SAMPLED_BYTES: usize = 64 << 10;

/// Bytes of a sample of a longer one, and how many samples are taken.
const SAMPLE_BYTES: usize = 8 << 10;
const SAMPLES: usize = 8;

/// An encoding that was read from a rank file.
///
/// ```
/// use tokenctx::{Ranked, SplitRule};
///
/// // A file with the 256 bytes and nothing to merge: in each line a token in base64, and its rank.
/// let letters: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['+', '/']).collect();
/// let line = |byte: usize| format!("{}{}== {byte}\n", letters[byte >> 2], letters[(byte & 3) << 4]);
/// let content: String = (0..256).map(line).collect();
/// let bytes = Ranked::read("bytes".to_owned(), SplitRule::O200k, content.as_bytes()).expect("ranks");
/// assert_eq!(bytes.count("hello"), 5);
/// ```
pub struct Ranked {
    name: String,
    number: u64,
    rule: SplitRule,
    table: Table,
    /// What the encodings of the package have, if every token merges to itself.
    tables: Option<Tables>,
}

impl Ranked {
    /// The encoding of a `.tiktoken` file. Linear in its content.
    pub fn read(name: String, rule: SplitRule, content: &[u8]) -> Result<Ranked, RankFileError> {
        let table = Table::read(content)?;
        Ok(Ranked {
            name,
            number: memo::new_number(),
            rule,
            tables: table.tables(),
            table,
        })
    }

    /// The vocabulary to count with as those of the package, if its tables are there.
    fn vocabulary(&self) -> Option<Vocabulary<'_>> {
        let tables = self.tables.as_ref()?;
        Some(Vocabulary::of(self.number, tables))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of tokens in `text`. Never fails; n log n in a piece that is no token.
    pub fn count(&self, text: &str) -> u64 {
        self.count_until(MemoKey::default(), text.as_bytes(), u64::MAX)
    }

    /// About the same, remembered under `key`: of a piece above 64 KiB, eight samples are counted
    /// ([`Ranked::has_sampled`]). Linear.
    pub fn count_in(&self, key: MemoKey, text: &str) -> u64 {
        if self.tables.is_some() {
            return self.count_until(key, text.as_bytes(), u64::MAX);
        }
        memo::remembered(self.number, key, text.as_bytes(), u64::MAX, || {
            let mut merge = Merge::default();
            let pieces = self.pieces(text.as_bytes());
            let count = |piece: &[u8]| match piece.len() > SAMPLED_BYTES {
                true => self.sampled(&mut merge, piece),
                false => self.count_piece(&mut merge, piece),
            };
            pieces.map(count).sum()
        })
    }

    /// Whether [`Ranked::count_in`] takes samples of `text`.
    pub fn has_sampled(&self, text: &str) -> bool {
        text.len() > SAMPLED_BYTES
            && self.tables.is_none()
            && self
                .pieces(text.as_bytes())
                .any(|it| it.len() > SAMPLED_BYTES)
    }

    /// Number of tokens in `text` if it is at most `limit`, else `limit + 1`; stops early.
    pub fn count_at_most(&self, text: &str, limit: u64) -> u64 {
        let beyond = limit.saturating_add(1);
        if text.len().div_ceil(self.table.max_token_bytes) as u64 > limit {
            return beyond;
        }
        self.count_until(MemoKey::default(), text.as_bytes(), limit)
            .min(beyond)
    }

    /// The tokens of `text`.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let (mut tokens, mut merge) = (Vec::new(), Merge::default());
        if let Some(vocabulary) = self.vocabulary() {
            for piece in self.pieces(text.as_bytes()) {
                match vocabulary.rank(piece, 0, piece.len()) {
                    NONE => piece::encode(&vocabulary, piece, 0, piece.len(), &mut tokens),
                    rank => tokens.push(rank),
                }
            }
            return tokens;
        }
        for piece in self.pieces(text.as_bytes()) {
            match self.table.rank(piece, 0, piece.len()) {
                Some(rank) => tokens.push(rank),
                None => {
                    merge.merge(&self.table, piece);
                    let ranks = merge
                        .spans()
                        .map(|(from, to)| self.table.rank(piece, from, to));
                    tokens.extend(ranks.flatten());
                }
            }
        }
        tokens
    }

    /// The bytes of `token`; `None` if it is none of this encoding.
    pub fn decode(&self, token: u32) -> Option<Vec<u8>> {
        let tokens = &self.table.tokens;
        let place = tokens
            .binary_search_by_key(&token, |token| token.rank)
            .ok()?;
        Some(self.table.text(place).to_vec())
    }

    /// The token that is `bytes`.
    pub fn token(&self, bytes: &[u8]) -> Option<u32> {
        let length = bytes.len();
        (length > 0).then(|| self.table.rank(bytes, 0, length))?
    }

    /// The tokens, in the order of their numbers.
    pub fn tokens(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.table.tokens.len()).map(|place| self.table.text(place))
    }

    /// The count, or any number above `limit` if that is where it leads.
    fn count_until(&self, key: MemoKey, text: &[u8], limit: u64) -> u64 {
        if let Some(vocabulary) = self.vocabulary() {
            return self.rule.count(&vocabulary, key, text, limit);
        }
        let (mut count, mut merge) = (0, Merge::default());
        for piece in self.pieces(text) {
            count += self.count_piece(&mut merge, piece);
            if count > limit {
                break;
            }
        }
        count
    }

    fn count_piece(&self, merge: &mut Merge, piece: &[u8]) -> u64 {
        match self.table.rank(piece, 0, piece.len()) {
            Some(_) => 1,
            None => merge.merge(&self.table, piece),
        }
    }

    /// What samples of `piece`, evenly apart, tell of the whole, rounded up.
    fn sampled(&self, merge: &mut Merge, piece: &[u8]) -> u64 {
        let step = (piece.len() - SAMPLE_BYTES) / (SAMPLES - 1);
        let samples = (0..SAMPLES).map(|nth| &piece[nth * step..][..SAMPLE_BYTES]);
        let tokens: u64 = samples.map(|it| merge.merge(&self.table, it)).sum();
        (tokens * piece.len() as u64).div_ceil((SAMPLES * SAMPLE_BYTES) as u64)
    }

    fn pieces<'t>(&self, text: &'t [u8]) -> impl Iterator<Item = &'t [u8]> {
        let (rule, mut start, mut steps) = (self.rule, 0, Steps::default());
        let pieces = std::iter::from_fn(move || {
            steps.step();
            let from = start;
            (from < text.len()).then(|| {
                start = rule.end(text, from);
                &text[from..start]
            })
        });
        pieces.flat_map(|piece| piece.chunks(MAX_PIECE_BYTES))
    }
}

impl std::fmt::Debug for Ranked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ranked")
            .field("name", &self.name)
            .field("rule", &self.rule)
            .finish_non_exhaustive()
    }
}

/// The ranks of a vocabulary: hash tables with open places, at most half full.
struct Table {
    bytes: Vec<u8>,
    /// By rank.
    tokens: Vec<Token>,
    /// Tokens of at most [`SHORT_BYTES`].
    short: Vec<Short>,
    /// For longer ones, half of the hash, and one more than the place among the tokens.
    long: Vec<(u32, u32)>,
    max_token_bytes: usize,
}

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

impl Table {
    fn read(content: &[u8]) -> Result<Table, RankFileError> {
        let mut table = Table {
            bytes: Vec::new(),
            tokens: Vec::new(),
            short: Vec::new(),
            long: Vec::new(),
            max_token_bytes: 1,
        };
        let mut lines = Vec::new();
        rank_file::read(content, |line, token, rank| {
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

    /// The tables of a vocabulary of whose tokens each merges to itself.
    fn tables(&self) -> Option<Tables> {
        let texts = (0..self.tokens.len()).map(|place| self.text(place));
        let ranks = self.tokens.iter().map(|token| token.rank);
        let ranked: Vec<(&[u8], u32)> = texts.zip(ranks).collect();
        let joins = last_joins(&ranked, |text| self.rank(text, 0, text.len()))?;
        Tables::new(&ranked, &joins, SLOTS_PERCENT)
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
    fn rank(&self, text: &[u8], start: usize, end: usize) -> Option<u32> {
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

/// The merge of one piece after another.
#[derive(Default)]
struct Merge {
    /// Start of the span after that at each byte; [`INSIDE`] at a byte that starts none.
    next: Vec<u32>,
    /// Start of the span before.
    previous: Vec<u32>,
    /// Rank of the join of a span and its next, its start and its end. Some are outdated.
    pairs: BinaryHeap<Reverse<(u32, u32, u32)>>,
    steps: Steps,
}

/// A byte inside of a span.
const INSIDE: u32 = u32::MAX;

impl Merge {
    /// Number of tokens of `piece`, which is no longer than [`MAX_PIECE_BYTES`].
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a piece has less than 2^32 bytes"
    )]
    fn merge(&mut self, table: &Table, piece: &[u8]) -> u64 {
        let length = piece.len() as u32;
        self.next.clear();
        self.next.extend(1..=length);
        self.previous.clear();
        self.previous
            .extend((0..length).map(|at| at.wrapping_sub(1)));
        self.pairs.clear();
        (0..length).for_each(|at| self.offer(table, piece, at));
        let mut count = u64::from(length);
        while let Some(Reverse((_, at, end))) = self.pairs.pop() {
            self.steps.step();
            if self.joined_end(at) != Some(end) {
                continue;
            }
            let joined = self.next[at as usize] as usize;
            let after = std::mem::replace(&mut self.next[joined], INSIDE);
            self.next[at as usize] = after;
            if after < length {
                self.previous[after as usize] = at;
            }
            count -= 1;
            self.offer(table, piece, at);
            if at > 0 {
                self.offer(table, piece, self.previous[at as usize]);
            }
        }
        count
    }

    /// End of the join of the span at `at` and its next.
    fn joined_end(&self, at: u32) -> Option<u32> {
        let next = self.next[at as usize] as usize;
        self.next.get(next).copied()
    }

    fn offer(&mut self, table: &Table, piece: &[u8], at: u32) {
        self.steps.step();
        let Some(end) = self.joined_end(at) else {
            return;
        };
        if let Some(rank) = table.rank(piece, at as usize, end as usize) {
            self.pairs.push(Reverse((rank, at, end)));
        }
    }

    /// Start and end of the tokens of the last piece.
    fn spans(&self) -> impl Iterator<Item = (usize, usize)> {
        let starts = (0..).zip(&self.next).filter(|(_, next)| **next != INSIDE);
        starts.map(|(at, &next)| (at, next as usize))
    }
}
