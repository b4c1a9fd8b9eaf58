//! An encoding whose vocabulary comes at run time.
//!
//! Its tables are made when the file is read ([`last_joins`](crate::bpe::table::joins::last_joins)), and it
//! counts as those of the package do.
//!
//! A rank file that the tables cannot hold, as one of 300,000 tokens or with a token of 1 KB, is counted by the
//! definition: a piece that is a token is one token; any other is merged, lowest rank first, by a heap: n log n.
//! Texts are remembered as those of every vocabulary; where a request is counted, of a long stretch only samples
//! are merged ([`sampling`]).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::bpe::prepare::{Part, Preparation};
use crate::bpe::sampling;
use crate::bpe::split::rule::SplitRule;
use crate::bpe::table::Vocabulary;
use crate::bpe::table::memo::{self, MemoKey};
use crate::bpe::table::rank_file::{self, RankFileError};
use crate::bpe::table::ranks::{BuiltTables, Ranks};
use crate::bpe::table::tokenizer_file::TokenizerFile;
use crate::interrupt::Steps;

/// Longest piece to merge at once; a longer one is cut there.
const MAX_PIECE_BYTES: usize = 1 << 30;

/// An encoding that was read from a rank file or a `tokenizer.json`.
///
/// ```
/// use tokenctx::{RankEncoding, SplitRule};
///
/// // A file with the 256 bytes and nothing to merge: in each line a token in base64, and its rank.
/// let letters: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['+', '/']).collect();
/// let line = |byte: usize| format!("{}{}== {byte}\n", letters[byte >> 2], letters[(byte & 3) << 4]);
/// let content: String = (0..256).map(line).collect();
/// let bytes = RankEncoding::read("bytes".to_owned(), SplitRule::O200k, content.as_bytes()).expect("ranks");
/// assert_eq!(bytes.count("hello"), 5);
/// ```
pub struct RankEncoding {
    name: String,
    number: u64,
    rule: SplitRule,
    ranks: Ranks,
    /// The tables that the encodings of the package have, if they can hold these ranks.
    made: Option<BuiltTables>,
    /// The changes that are made to a text first, if any.
    preparation: Option<Preparation>,
    /// Number and text of tokens that no ranks have, by number.
    named: Vec<(u32, String)>,
}

impl RankEncoding {
    /// The encoding of a `.tiktoken` file. Linear in its content.
    pub fn read(
        name: String,
        rule: SplitRule,
        content: &[u8],
    ) -> Result<RankEncoding, RankFileError> {
        let ranks = Ranks::new(|add| rank_file::read(content, add))?;
        Ok(RankEncoding {
            name,
            number: memo::new_number(),
            rule,
            made: ranks.tables(),
            ranks,
            preparation: None,
            named: Vec::new(),
        })
    }

    /// The encoding of a Hugging Face `tokenizer.json`; nothing if it is no byte-level BPE with a split rule of
    /// [`SplitRule`], and normal form C or none. Special tokens are text, other added tokens are one token.
    /// Linear in its content.
    pub fn read_tokenizer(name: String, content: &[u8]) -> Option<RankEncoding> {
        let file = TokenizerFile::read(content)?;
        Some(RankEncoding {
            name,
            number: memo::new_number(),
            rule: file.rule,
            made: Some(file.made),
            ranks: file.ranks,
            preparation: Some(file.preparation).filter(|it| !it.does_nothing()),
            named: file.named,
        })
    }

    /// The vocabulary to count with as those of the package, if its tables are there.
    fn vocabulary(&self) -> Option<Vocabulary<'_>> {
        let (tables, exceptions) = self.made.as_ref()?;
        Some(Vocabulary::of(self.number, tables, exceptions))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of tokens in `text`. Never fails; n log n in a piece that is no token.
    pub fn count(&self, text: &str) -> u64 {
        self.count_until(MemoKey::default(), text, u64::MAX)
    }

    /// About the same, remembered under `key`: if it has no tables, of a stretch above 64 KiB eight samples are counted
    /// ([`RankEncoding::has_sampled`]). Linear.
    pub fn count_in(&self, key: MemoKey, text: &str) -> u64 {
        if self.made.is_some() {
            return self.count_until(key, text, u64::MAX);
        }
        memo::remembered(self.number, key, text.as_bytes(), u64::MAX, || {
            let whole = |part: &str| Some(self.count_merged(part.as_bytes(), u64::MAX));
            sampling::count(text, whole).unwrap_or_default()
        })
    }

    /// True if [`RankEncoding::count_in`] takes samples of `text`.
    pub fn has_sampled(&self, text: &str) -> bool {
        self.made.is_none() && sampling::has_long_stretch(text)
    }

    /// Number of tokens in `text` if it is at most `limit`, else `limit + 1`; stops early.
    pub fn count_at_most(&self, text: &str, limit: u64) -> u64 {
        let beyond = limit.saturating_add(1);
        // What is prepared may become shorter.
        let tokens = text.len().div_ceil(self.ranks.max_token_bytes) as u64;
        if self.preparation.is_none() && tokens > limit {
            return beyond;
        }
        self.count_until(MemoKey::default(), text, limit)
            .min(beyond)
    }

    /// The tokens of `text`.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut tokens = Vec::new();
        match &self.preparation {
            None => self.encode_into(text.as_bytes(), &mut tokens),
            Some(preparation) => preparation.each(text, |part| {
                match part {
                    Part::Text(text) => self.encode_into(text.as_bytes(), &mut tokens),
                    Part::Token(token) => tokens.push(token),
                }
                true
            }),
        }
        tokens
    }

    fn encode_into(&self, text: &[u8], tokens: &mut Vec<u32>) {
        if let Some(vocabulary) = self.vocabulary() {
            return self.rule.encode(&vocabulary, text, tokens);
        }
        let mut merge = Merge::default();
        for piece in self.pieces(text) {
            match self.ranks.rank(piece, 0, piece.len()) {
                Some(rank) => tokens.push(rank),
                None => {
                    merge.merge(&self.ranks, piece);
                    let ranks = merge
                        .spans()
                        .map(|(from, to)| self.ranks.rank(piece, from, to));
                    tokens.extend(ranks.flatten());
                }
            }
        }
    }

    /// The bytes of `token`; `None` if it is none of this encoding.
    pub fn decode(&self, token: u32) -> Option<Vec<u8>> {
        let named = || {
            let place = self.named.binary_search_by_key(&token, |it| it.0).ok()?;
            Some(self.named[place].1.as_bytes())
        };
        let text = self.ranks.text_of(token).or_else(named);
        text.map(<[u8]>::to_vec)
    }

    /// The token that is `bytes`.
    pub fn token(&self, bytes: &[u8]) -> Option<u32> {
        let length = bytes.len();
        (length > 0).then(|| self.ranks.rank(bytes, 0, length))?
    }

    /// The tokens, in the order of their numbers.
    pub fn tokens(&self) -> impl Iterator<Item = &[u8]> {
        self.ranks.ranked().map(|(text, _)| text)
    }

    /// The count, or any number above `limit` if that is where it leads.
    fn count_until(&self, key: MemoKey, text: &str, limit: u64) -> u64 {
        match (self.vocabulary(), &self.preparation) {
            (None, _) => self.count_merged(text.as_bytes(), limit),
            (Some(vocabulary), None) => self.rule.count(&vocabulary, key, text.as_bytes(), limit),
            (Some(vocabulary), Some(preparation)) => {
                memo::remembered(self.number, key, text.as_bytes(), limit, || {
                    let mut tokens = 0;
                    preparation.each(text, |part| {
                        tokens += match part {
                            Part::Text(text) => {
                                let text = text.as_bytes();
                                self.rule.count_part(&vocabulary, key, text, limit - tokens)
                            }
                            Part::Token(_) => 1,
                        };
                        tokens <= limit
                    });
                    tokens
                })
            }
        }
    }

    /// The same by the definition.
    fn count_merged(&self, text: &[u8], limit: u64) -> u64 {
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
        match self.ranks.rank(piece, 0, piece.len()) {
            Some(_) => 1,
            None => merge.merge(&self.ranks, piece),
        }
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

impl std::fmt::Debug for RankEncoding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RankEncoding")
            .field("name", &self.name)
            .field("rule", &self.rule)
            .finish_non_exhaustive()
    }
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
    fn merge(&mut self, table: &Ranks, piece: &[u8]) -> u64 {
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

    fn offer(&mut self, table: &Ranks, piece: &[u8], at: u32) {
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
