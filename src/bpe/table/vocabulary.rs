//! The tables of one vocabulary, and the look-ups in them.

use std::hint::select_unpredictable;

use crate::bpe::prefetch::prefetch;
use crate::bpe::split::unicode::character_at;
use crate::bpe::table::joins::Exceptions;
use crate::bpe::table::key::{self, Bucket, Join, Key, Token, bytes_at};
use crate::bpe::table::made::Tables;
use crate::bpe::table::memo;

/// Rank of what is no token.
pub(in crate::bpe) const NONE: u32 = u32::MAX;

/// Rank of no token that may be looked up in the joins: it has none.
pub(in crate::bpe) const NOTHING: u32 = (1 << 18) - 1;

/// The tables of one vocabulary.
pub(crate) struct Vocabulary<'v> {
    /// Tells it from the others in what they share.
    pub(in crate::bpe) number: u64,
    /// Text of all tokens, by rank.
    pub(in crate::bpe::table) bytes: &'v [u8],
    /// The [`Token`] of each rank.
    pub(in crate::bpe::table) tokens: &'v [[u8; 8]],
    /// The rank of the token of each join, marked by its hash; before the first, what no hash marks.
    pub(in crate::bpe) join_slots: &'v [[u8; 4]],
    pub(in crate::bpe) join_buckets: &'v [[u8; 4]],
    /// Rank of every byte.
    pub(in crate::bpe::table) singles: &'v [[u8; 4]; 1 << 8],
    /// Bit set of characters that are neighbours in a token that is UTF-8, by hash: a bit may also
    /// be set by others, which costs time and nothing else.
    pub(in crate::bpe::table) neighbours: &'v [u8],
    /// Bit set of bytes on both sides of the start of a character, in a token that is not UTF-8.
    pub(in crate::bpe::table) split_neighbours: &'v [u8],
    /// Rank of every two bytes.
    pub(in crate::bpe::table) pairs: &'v [[u8; 4]; 1 << 16],
    /// Bit set of the first bytes of long tokens, by hash: one bit in ten is set by others, which costs
    /// time and nothing else.
    pub(in crate::bpe::table) long_filter: &'v [u8; key::LONG_FILTER_BYTES],
    /// Tokens of at most [`TINY_BYTES`](key::TINY_BYTES), a word each; then, from the next line on,
    /// those of at most [`SHORT_BYTES`](key::SHORT_BYTES), two words each.
    pub(in crate::bpe) words: &'v [[u8; 8]],
    /// Slots of the former.
    pub(in crate::bpe) tiny_slots: usize,
    /// Buckets of the former, then of the latter.
    pub(in crate::bpe) short_buckets: &'v [[u8; 4]; 2 * key::BUCKETS],
    /// The rank of each long token, marked by its hash.
    pub(in crate::bpe::table) long: &'v [[u8; 4]],
    pub(in crate::bpe::table) long_pilots: &'v [[u8; 2]],
    pub(in crate::bpe::table) exceptions: &'v Exceptions,
}

impl<'v> Vocabulary<'v> {
    /// Reads a byte of each page of the tables that most pieces are looked up in.
    pub(in crate::bpe::table) fn read_pages(&self) {
        let tables = [
            self.words.as_flattened(),
            self.short_buckets.as_flattened(),
            self.pairs.as_flattened(),
            self.join_slots.as_flattened(),
            self.join_buckets.as_flattened(),
            self.neighbours,
        ];
        for table in tables {
            table.iter().step_by(memo::PAGE_BYTES).for_each(|byte| {
                std::hint::black_box(*byte);
            });
        }
    }

    /// The vocabulary of tables that were made at run time.
    pub(in crate::bpe) fn of(
        number: u64,
        tables: &'v Tables,
        exceptions: &'v Exceptions,
    ) -> Vocabulary<'v> {
        let whole = "tables of the sizes that they are made with";
        Vocabulary {
            number,
            bytes: &tables.bytes,
            tokens: &tables.tokens,
            join_slots: &tables.join_slots,
            join_buckets: &tables.join_buckets,
            singles: tables.singles.first_chunk().expect(whole),
            neighbours: &tables.neighbours,
            split_neighbours: &tables.split_neighbours,
            pairs: tables.pairs.first_chunk().expect(whole),
            long_filter: tables.long_filter.first_chunk().expect(whole),
            words: &tables.words,
            tiny_slots: tables.tiny_slots,
            short_buckets: tables.short_buckets.first_chunk().expect(whole),
            long: &tables.long,
            long_pilots: &tables.long_pilots,
            exceptions,
        }
    }

    /// Rank of `text[start..end]`, or [`NONE`]; the range is not empty.
    #[inline(always)]
    pub(in crate::bpe) fn rank(&self, text: &[u8], start: usize, end: usize) -> u32 {
        let length = end - start;
        if length > key::SHORT_BYTES {
            return self.long_rank(&text[start..end]);
        }
        self.short_rank(&bytes_at(text, start), length)
    }

    /// Rank of the first `length` bytes of `text`, or [`NONE`]; they are one at least, and
    /// [`SHORT_BYTES`](key::SHORT_BYTES) at most.
    #[inline(always)]
    pub(in crate::bpe) fn short_rank(&self, text: &[u8; 16], length: usize) -> u32 {
        let key = Key::new(text, length);
        self.rank_at(self.place(key), key)
    }

    /// Where `key` ends, if it is a token; mostly a place that is always near, if it is none.
    #[inline(always)]
    pub(in crate::bpe) fn place(&self, key: Key) -> usize {
        let (hash, is_tiny) = (key.hash(), key.is_tiny());
        let bucket = key::bucket(hash, key::BUCKETS) + key::BUCKETS * usize::from(!is_tiny);
        let bucket = Bucket(u32::from_le_bytes(
            self.short_buckets[bucket % (2 * key::BUCKETS)],
        ));
        let slots = select_unpredictable(is_tiny, self.tiny_slots, self.short_slots());
        let slot = key::slot(hash, bucket.pilot(), slots);
        let place = select_unpredictable(is_tiny, slot, self.short_start() + 2 * slot + 1);
        select_unpredictable(bucket.may_have(hash), place, 1)
    }

    #[inline(always)]
    pub(in crate::bpe) fn word(&self, place: usize) -> &'v [u8; 8] {
        &self.words[place]
    }

    /// Rank of `key` if it is the token that ends at that place, else [`NONE`]; without a branch.
    #[inline(always)]
    pub(in crate::bpe) fn rank_at(&self, place: usize, key: Key) -> u32 {
        let is_tiny = key.is_tiny();
        let low = u64::from_le_bytes(self.words[place - usize::from(!is_tiny)]);
        let high = u64::from_le_bytes(self.words[place]);
        let low = select_unpredictable(is_tiny, 0, low);
        let differs = (low ^ key.low) | (high ^ key.high) << (u64::BITS - key::RANK_SHIFT);
        let rank = (high >> key::RANK_SHIFT) as u32;
        select_unpredictable(differs == 0, rank, NONE)
    }

    /// The first word of the tokens that have two.
    #[inline(always)]
    pub(in crate::bpe) fn short_start(&self) -> usize {
        self.tiny_slots.next_multiple_of(8)
    }

    #[inline(always)]
    pub(in crate::bpe) fn short_slots(&self) -> usize {
        (self.words.len() - self.short_start()) / 2
    }

    /// Rank of `text[start..end]`, or [`NONE`]; the range has at least two bytes.
    ///
    /// The same as [`rank`](Self::rank), but faster if the answer is no, as it is for most
    /// candidates.
    #[inline(always)]
    pub(in crate::bpe) fn candidate_rank(&self, text: &[u8], start: usize, end: usize) -> u32 {
        let length = end - start;
        if length > key::SHORT_BYTES {
            let beginning = Key::new(&bytes_at(text, start), key::SHORT_BYTES + 1);
            let bit = key::filter_bit(beginning.hash(), self.long_filter.len());
            return if has_bit(self.long_filter, bit) {
                self.long_rank(&text[start..end])
            } else {
                NONE
            };
        }
        if length == 2 {
            return self.pair_rank([text[start], text[start + 1]]);
        }
        self.short_rank(&bytes_at(text, start), length)
    }

    /// Rank of two bytes, or [`NONE`].
    #[inline(always)]
    pub(in crate::bpe) fn pair_rank(&self, pair: [u8; 2]) -> u32 {
        u32::from_le_bytes(self.pairs[usize::from(u16::from_be_bytes(pair))])
    }

    /// A cell of at most [`CELL_BYTES`].
    #[inline(always)]
    pub(in crate::bpe) fn cell(&self, text: &[u8], start: usize, end: usize) -> Cell<'_> {
        let mut cell = Cell {
            vocabulary: self,
            text: [0; CELL_BYTES + 16],
        };
        if end - start <= 16 {
            cell.text[..16].copy_from_slice(&bytes_at(text, start));
        } else {
            cell.text[..end - start].copy_from_slice(&text[start..end]);
        }
        cell
    }

    #[inline(never)]
    fn long_rank(&self, token: &[u8]) -> u32 {
        if token.len() > key::MAX_TOKEN_BYTES {
            return NONE;
        }
        let hash = key::hash_long(token);
        let pilot = self.long_pilots[key::bucket(hash, self.long_pilots.len())];
        let slot = key::slot(hash, u16::from_le_bytes(pilot), self.long.len());
        let entry = u32::from_le_bytes(self.long[slot]);
        let rank = key::unmarked(entry);
        let marked = key::marked(hash, rank, key::LONG_MARK_BITS);
        if marked == entry && self.token(rank) == Some(token) {
            rank
        } else {
            NONE
        }
    }

    /// End of the cell at `start`: the first border of characters before `end` that is inside no
    /// token, else `end`. Merges never cross it.
    #[inline]
    pub(in crate::bpe) fn cell_end(&self, text: &[u8], start: usize, end: usize) -> usize {
        let (mut left, mut length) = character_at(text, start);
        let mut at = start + length;
        while at < end {
            let right;
            (right, length) = character_at(text, at);
            let bytes = u16::from_be_bytes([text[at - 1], text[at]]);
            if !has_bit(self.neighbours, key::neighbours(left, right))
                && !has_bit(self.split_neighbours, bytes.into())
            {
                return at;
            }
            left = right;
            at += length;
        }
        end
    }

    /// Text of the token `rank`.
    #[inline(always)]
    pub(in crate::bpe) fn token(&self, rank: u32) -> Option<&'v [u8]> {
        let token = self.known(rank)?;
        self.bytes.get(token.start()..)?.get(..token.length())
    }

    /// Bytes of the text of the token `rank`, or 0.
    #[inline(always)]
    pub(in crate::bpe) fn length(&self, rank: u32) -> usize {
        self.known(rank).map_or(0, Token::length)
    }

    /// True if some tokens are none but as a whole piece.
    #[inline(always)]
    pub(in crate::bpe) fn has_wholes(&self) -> bool {
        self.exceptions.has_wholes
    }

    /// True if merges make the token `rank`, or it is a single byte: not one that only a whole piece is.
    #[inline(always)]
    pub(in crate::bpe) fn is_merged(&self, rank: u32) -> bool {
        !self.exceptions.has_wholes || self.join(rank).is_some() || self.length(rank) == 1
    }

    /// See [`Exceptions::unordered`].
    #[inline(always)]
    pub(in crate::bpe) fn is_unordered(&self, rank: u32) -> bool {
        let word = self.exceptions.unordered.get(rank as usize / 64);
        word.is_some_and(|word| word >> (rank % 64) & 1 != 0)
    }

    /// The two tokens whose join is the token `rank`; nothing for a single byte, and for a token that no
    /// merge makes.
    #[inline(always)]
    pub(in crate::bpe) fn join(&self, rank: u32) -> Option<Join> {
        let join = self.known(rank)?.join();
        (join != Join::NONE).then_some(join)
    }

    #[inline(always)]
    fn known(&self, rank: u32) -> Option<Token> {
        let token = Token(u64::from_le_bytes(*self.tokens.get(rank as usize)?));
        (token != Token::NONE).then_some(token)
    }

    /// Rank of the token whose last join is that of `left` and `right`, or [`NONE`]. Either may be
    /// [`NOTHING`].
    #[inline(always)]
    pub(in crate::bpe) fn joined(&self, left: u32, right: u32) -> u32 {
        let rank = self.likely_joined(left, right);
        if rank == NONE || self.is_joined(rank, left, right) {
            rank
        } else {
            NONE
        }
    }

    /// The same, or once in some 40 times a rank that [`is_joined`](Self::is_joined) denies: one
    /// line less to wait for. Without a branch.
    #[inline(always)]
    pub(in crate::bpe) fn likely_joined(&self, left: u32, right: u32) -> u32 {
        let hash = Join::new(left, right).hash();
        self.joined_at(hash, self.join_place(hash))
    }

    /// The hash of a join whose [`join_place`](Self::join_place) is wanted soon.
    #[inline(always)]
    pub(in crate::bpe) fn join_hash(&self, left: u32, right: u32) -> u64 {
        let hash = Join::new(left, right).hash();
        prefetch(&self.join_buckets[key::bucket(hash, self.join_buckets.len())]);
        hash
    }

    /// Where the join of that hash is, if anywhere; [`joined_at`](Self::joined_at) is wanted soon.
    #[inline(always)]
    pub(in crate::bpe) fn join_place(&self, hash: u64) -> usize {
        let bucket = self.join_buckets[key::bucket(hash, self.join_buckets.len())];
        let bucket = Bucket(u32::from_le_bytes(bucket));
        let slot = key::slot(hash, bucket.pilot(), self.join_slots.len() - 1);
        let place = select_unpredictable(bucket.may_have(hash), slot + 1, 0);
        prefetch(&self.join_slots[place]);
        place
    }

    /// [`likely_joined`](Self::likely_joined) of the join of that hash and place.
    #[inline(always)]
    pub(in crate::bpe) fn joined_at(&self, hash: u64, place: usize) -> u32 {
        let slot = u32::from_le_bytes(self.join_slots[place]);
        let rank = key::unmarked(slot);
        let marked = key::marked(hash, rank, key::JOIN_MARK_BITS);
        select_unpredictable(slot == marked, rank, NONE)
    }

    /// Asks the memory for what [`is_joined`](Self::is_joined) reads, if that is a rank.
    #[inline(always)]
    pub(in crate::bpe) fn prefetch_token(&self, rank: u32) {
        let rank = select_unpredictable(rank == NONE, 0, rank);
        prefetch(&self.tokens[rank as usize]);
    }

    /// True if the last join of the token `rank` is that of `left` and `right`.
    #[inline(always)]
    pub(in crate::bpe) fn is_joined(&self, rank: u32, left: u32, right: u32) -> bool {
        Token(u64::from_le_bytes(self.tokens[rank as usize])).join() == Join::new(left, right)
    }

    /// Asks the memory for all that joins are looked up in, line after line: that takes a tenth of the
    /// time that it takes to come upon them one by one.
    #[inline(never)]
    pub(in crate::bpe) fn fetch_joins(&self) {
        let tables = [
            self.join_buckets.as_flattened(),
            self.join_slots.as_flattened(),
            self.tokens.as_flattened(),
        ];
        for line in tables.into_iter().flat_map(|table| table.chunks(64)) {
            prefetch(&line[0]);
        }
    }

    /// Rank of a byte.
    #[inline(always)]
    pub(in crate::bpe) fn single(&self, byte: u8) -> u32 {
        u32::from_le_bytes(self.singles[usize::from(byte)])
    }

    /// Rank and text of every token, by rank.
    pub(in crate::bpe) fn tokens(&self) -> impl Iterator<Item = (u32, &'v [u8])> {
        (0..)
            .zip(self.tokens)
            .filter_map(|(rank, _)| Some((rank, self.token(rank)?)))
    }
}

/// Longest cell that a [`Cell`] holds.
pub(in crate::bpe) const CELL_BYTES: usize = 64;

/// A cell to merge.
pub(in crate::bpe) struct Cell<'a> {
    vocabulary: &'a Vocabulary<'a>,
    /// Its text, and whatever after it.
    text: [u8; CELL_BYTES + 16],
}

impl Cell<'_> {
    /// Rank of the two bytes from `at`, or [`NONE`].
    #[inline(always)]
    pub(in crate::bpe) fn pair(&self, at: usize) -> u32 {
        let at = at % CELL_BYTES;
        self.vocabulary
            .pair_rank([self.text[at], self.text[at + 1]])
    }

    /// Rank of the bytes from `from` to `to`, or [`NONE`]; they are two at least.
    #[inline(always)]
    pub(in crate::bpe) fn rank(&self, from: usize, to: usize) -> u32 {
        let length = to.wrapping_sub(from);
        match self.text[from % CELL_BYTES..].first_chunk() {
            Some(text) if length <= key::SHORT_BYTES => {
                let key = Key::new(text, length);
                self.vocabulary.rank_at(self.vocabulary.place(key), key)
            }
            _ => self.vocabulary.long_rank(&self.text[from..to]),
        }
    }
}

#[inline(always)]
fn has_bit(bits: &[u8], bit: usize) -> bool {
    bits[bit / 8] >> (bit % 8) & 1 != 0
}
