//! The merge of windows of long cells, side by side.
//!
//! It is the definition (see [`merge`](crate::bpe::merge::cell)). Spans are known by their tokens, not by their
//! text. Of all pairs of tokens whose text is a token, only the pair that is joined last when that
//! text is merged alone can ever be neighbours: joins inside of a text happen in the same order wherever
//! it stands. So one join for each token is all that has to be looked up, and a token of 100 bytes takes
//! no longer than one of two.
//!
//! A step waits more than it computes, so that windows take their steps in turn, and the pairs that all
//! of them make are looked up together: by AVX-512 sixteen in one vector ([`gather`](crate::bpe::merge::gather)),
//! elsewhere all ask the memory before any looks. What a look-up says is checked when the pair is joined,
//! which few are: the line that proves it is not waited for. In a run of one byte all joins of a rank are
//! one step.
//!
//! # Tried and lost (2026-11-22)
//!
//! - One cell of 59 bytes after the other, by its text: 3 to 4 times the time. Four windows at a time,
//!   which look up at once: 1.1 to 1.4 times that of eight which ask first. Sixteen: 1.0 to 1.3 times.
//! - Joins in groups of sixteen with a tag of a byte for each, instead of filter and pilot: fewer
//!   instructions, but the two tables are 2.5 MB instead of 1.2; 1.05 to 1.3 times the time.
//! - A window that starts with all pairs joined that have a lower rank than any join that one of their
//!   bytes may have, a third of all: as many look-ups, 1.05 times the time.

use crate::bpe::table::{NONE, NOTHING, Vocabulary};

/// Windows that take a step at once, and so the readers that do.
pub(in crate::bpe) const WINDOWS_AT_ONCE: usize = 8;

/// A window that is merged beside others.
pub(crate) type SmallWindow = MergeWindow<128>;

/// Low bits of a word, which hold a place.
const PLACE_BITS: u32 = 8;

/// Word of a place without a pair. Words are signed: SSE2 compares no others.
const NO_PAIR: i32 = i32::MAX;

/// Pairs that are looked up at once: two for each window.
pub(in crate::bpe) const CANDIDATES: usize = 2 * WINDOWS_AT_ONCE;

/// Pairs of tokens that the steps of all windows make: each may have a join.
pub(crate) struct Candidates {
    pub(in crate::bpe) left: [u32; CANDIDATES],
    pub(in crate::bpe) right: [u32; CANDIDATES],
    /// Place of each left token in its window.
    places: [u8; CANDIDATES],
}

impl Candidates {
    const NONE: Candidates = Candidates {
        left: [NOTHING; CANDIDATES],
        right: [NOTHING; CANDIDATES],
        places: [0; CANDIDATES],
    };

    /// These tokens on the left and on the right.
    #[cfg(all(test, target_arch = "x86_64"))]
    pub(in crate::bpe) fn of(pairs: &[(u32, u32)]) -> Candidates {
        let mut asked = Candidates::NONE;
        for (at, &(left, right)) in pairs.iter().enumerate() {
            asked.set(at, 0, left, right);
        }
        asked
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "places are at most 255")]
    fn set(&mut self, at: usize, place: usize, left: u32, right: u32) {
        let at = at % CANDIDATES;
        (self.left[at], self.right[at], self.places[at]) = (left, right, place as u8);
    }
}

/// How candidates are looked up.
pub(crate) trait LookUp {
    /// [`Vocabulary::likely_joined`] of the first `number` of them, at least.
    fn joined(vocabulary: &Vocabulary, asked: &Candidates, number: usize) -> [u32; CANDIDATES];
}

/// On any machine. All ask the memory for what they will look up before any looks it up.
pub(crate) struct OneByOne;

impl LookUp for OneByOne {
    #[inline(always)]
    fn joined(vocabulary: &Vocabulary, asked: &Candidates, number: usize) -> [u32; CANDIDATES] {
        let (mut hashes, mut places, mut ranks) =
            ([0; CANDIDATES], [0; CANDIDATES], [NONE; CANDIDATES]);
        for (at, hash) in hashes.iter_mut().enumerate().take(number) {
            *hash = vocabulary.join_hash(asked.left[at], asked.right[at]);
        }
        for (place, &hash) in places.iter_mut().zip(&hashes).take(number) {
            *place = vocabulary.join_place(hash);
        }
        for (at, rank) in ranks.iter_mut().enumerate().take(number) {
            *rank = vocabulary.joined_at(hashes[at], places[at]);
        }
        ranks
    }
}

/// Merges all `windows`, at most [`WINDOWS_AT_ONCE`].
#[inline(always)]
pub(in crate::bpe) fn merge<L: LookUp, const PLACES: usize>(
    vocabulary: &Vocabulary,
    windows: &mut [MergeWindow<PLACES>],
) {
    loop {
        let (mut asked, mut busy) = (Candidates::NONE, false);
        for (at, window) in windows.iter_mut().enumerate() {
            busy |= window.step(vocabulary, &mut asked, 2 * at);
        }
        if !busy {
            return;
        }
        // What is no pair has a place before the first byte.
        let ranks = L::joined(vocabulary, &asked, 2 * windows.len());
        let found = ranks
            .as_chunks::<2>()
            .0
            .iter()
            .zip(asked.places.as_chunks::<2>().0);
        for (window, (ranks, places)) in windows.iter_mut().zip(found) {
            for (&rank, &place) in ranks.iter().zip(places) {
                vocabulary.prefetch_token(rank);
                window.words[usize::from(place) % PLACES] = word(rank, place.into());
            }
            window.words[0] = NO_PAIR;
        }
    }
}

/// A window that is being merged. Its byte `n` has place `n + 1`; before and after its bytes is
/// a place for nothing.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct MergeWindow<const PLACES: usize> {
    /// Rank of the pair that starts at each place, above the place itself.
    words: [i32; PLACES],
    /// Token of the span that starts at each place.
    tokens: [u32; PLACES],
    /// The spans, linked in both directions.
    next: [u8; PLACES],
    previous: [u8; PLACES],
    length: usize,
}

impl<const PLACES: usize> MergeWindow<PLACES> {
    /// Bytes of the widest.
    pub(in crate::bpe) const BYTES: usize = PLACES - 2;

    pub(in crate::bpe) const EMPTY: MergeWindow<PLACES> = MergeWindow {
        words: [NO_PAIR; PLACES],
        tokens: [NOTHING; PLACES],
        next: [0; PLACES],
        previous: [0; PLACES],
        length: 0,
    };

    /// Starts with the bytes of `text`, at most [`BYTES`](Self::BYTES).
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "places are at most 255")]
    pub(in crate::bpe) fn set(&mut self, vocabulary: &Vocabulary, text: &[u8]) {
        self.length = text.len();
        self.words = [NO_PAIR; PLACES];
        for (at, &byte) in (1..PLACES - 1).zip(text) {
            self.tokens[at] = vocabulary.single(byte);
        }
        for (at, pair) in (1..PLACES - 1).zip(text.windows(2)) {
            self.words[at] = word(vocabulary.pair_rank([pair[0], pair[1]]), at);
        }
        for at in 0..PLACES {
            self.next[at] = (at as u8).wrapping_add(1);
            self.previous[at] = (at as u8).saturating_sub(1);
        }
        self.tokens[(text.len() + 1) % PLACES] = NOTHING;
    }

    /// Start and token of every span.
    #[inline(always)]
    pub(in crate::bpe) fn spans(&self) -> impl Iterator<Item = (usize, u32)> {
        let mut at = 1;
        std::iter::from_fn(move || {
            let span = (at - 1, self.tokens[at % PLACES]);
            let more = at <= self.length;
            at = usize::from(self.next[at % PLACES]);
            more.then_some(span)
        })
    }

    /// Joins the lowest pair, and sets the pairs that this makes; false if there is none.
    #[inline(always)]
    fn step(&mut self, vocabulary: &Vocabulary, asked: &mut Candidates, at: usize) -> bool {
        // The lowest word is the pair of the lowest rank, of equal ones the leftmost.
        let lowest = self.words.iter().fold(NO_PAIR, |low, &word| low.min(word));
        if lowest == NO_PAIR {
            return false;
        }
        let token = lowest.cast_unsigned() >> PLACE_BITS;
        let first = lowest.cast_unsigned() as usize % (1 << PLACE_BITS) % PLACES;
        // A look-up may be wrong: then the pair is none, and the step is spent.
        if !self.join(vocabulary, first, token) {
            self.words[first] = NO_PAIR;
            return true;
        }
        let (mut last, mut after) = (first, self.after(first));
        // In a run, the next pair is the same, and no pair that this makes comes before it; its new pairs
        // are the same too.
        let is_ordered = !vocabulary.is_unordered(token);
        while is_ordered
            && self.words[after] >> PLACE_BITS == token.cast_signed()
            && self.join(vocabulary, after, token)
        {
            (last, after) = (after, self.after(after));
        }
        // Neighbours in the run are equal, so that one look-up tells the pairs of all.
        if last != first {
            let twins = vocabulary.likely_joined(token, token);
            let mut place = first;
            while place != last {
                self.words[place] = word(twins, place);
                place = self.after(place);
            }
        }
        // Two new pairs are not known yet: behind the last joined span, and before the first.
        let before = usize::from(self.previous[first]) % PLACES;
        asked.set(at, last, token, self.tokens[after]);
        asked.set(at + 1, before, self.tokens[before], token);
        true
    }

    /// Joins the pair at the place `at` to `token`, if that is its last join.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "places are at most 255")]
    fn join(&mut self, vocabulary: &Vocabulary, at: usize, token: u32) -> bool {
        let joined = self.after(at);
        if !vocabulary.is_joined(token, self.tokens[at], self.tokens[joined]) {
            return false;
        }
        #[cfg(test)]
        crate::bpe::steps::add(1);
        let after = self.after(joined);
        self.tokens[at] = token;
        self.next[at] = after as u8;
        self.previous[after] = at as u8;
        self.words[joined] = NO_PAIR;
        true
    }

    /// The place after that at `at`.
    #[inline(always)]
    fn after(&self, at: usize) -> usize {
        usize::from(self.next[at]) % PLACES
    }
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "a place is below 256")]
fn word(rank: u32, place: usize) -> i32 {
    if rank == NONE {
        NO_PAIR
    } else {
        (rank << PLACE_BITS | place as u32).cast_signed()
    }
}
