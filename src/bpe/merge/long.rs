//! The encoding of a long cell.
//!
//! Eight readers ([`windows`]) start at once, each with a part of its own. A reader goes on into the next
//! part until what both have read fits together, by the lemma of [`windows`]; mostly that is soon. In a run
//! it would be at its end, so that no part starts within one.

use crate::bpe::merge::window::{LookUp, WINDOWS_AT_ONCE};
use crate::bpe::merge::windows::{Reader, Windows, run_before, step};
use crate::bpe::table::Vocabulary;
use crate::interrupt;

/// Shortest part that has a reader of its own.
const PART: usize = 512;

/// Bytes that a reader reads of the next part, at first.
const BEYOND: usize = 64;

/// Longest cell that is not read in parts if others can be read beside it.
pub(in crate::bpe) const PARTED_BYTES: usize = PART * WINDOWS_AT_ONCE;

/// Bytes of long cells that are worth fetching all joins for.
pub(in crate::bpe) const FETCH_BYTES: usize = 8 << 10;

/// Number of tokens of a cell.
#[inline(always)]
pub(in crate::bpe) fn count<L: LookUp>(vocabulary: &Vocabulary, cell: &[u8]) -> u64 {
    let parts = read::<L>(vocabulary, cell);
    parts.iter().map(|part| part.tokens().len() as u64).sum()
}

/// Tokens of a cell.
#[inline(always)]
pub(in crate::bpe) fn encode<L: LookUp>(vocabulary: &Vocabulary, cell: &[u8]) -> Vec<u32> {
    let parts = read::<L>(vocabulary, cell);
    parts.iter().flat_map(Reader::tokens).copied().collect()
}

/// The parts of a cell, in order; one that another has read through is left out.
#[inline(always)]
fn read<'a, L: LookUp>(vocabulary: &Vocabulary, cell: &'a [u8]) -> Vec<Reader<'a>> {
    if cell.len() >= FETCH_BYTES {
        vocabulary.fetch_joins();
    }
    let starts = part_starts(cell);
    let goals = starts[1..].iter().map(|next| next + BEYOND);
    let parts = starts.iter().zip(goals.chain([cell.len()]));
    let mut readers: Vec<Reader> = parts
        .map(|(&start, goal)| Reader::new(cell, start, goal))
        .collect();
    let mut windows = Windows::new();
    while step::<L>(vocabulary, &mut readers, &mut windows) {
        interrupt::poll();
    }
    // From the last on, so that none reads on whose beginning is joined already.
    let mut parts: Vec<Reader> = Vec::new();
    for mut part in readers.into_iter().rev() {
        let mut more = BEYOND;
        while let Some(next) = parts.last_mut() {
            if part.end() >= next.end() {
                parts.pop();
            } else if part.join(vocabulary, next) {
                break;
            } else {
                part.read_on(more);
                while step::<L>(vocabulary, std::slice::from_mut(&mut part), &mut windows) {
                    interrupt::poll();
                }
                more *= 2;
            }
        }
        parts.push(part);
    }
    parts.reverse();
    parts
}

/// Where the parts of a cell start: not within a run, whose tokens depend on where it starts.
fn part_starts(cell: &[u8]) -> Vec<usize> {
    let number = (cell.len() / PART).clamp(1, WINDOWS_AT_ONCE);
    let (length, mut starts) = (cell.len() / number, vec![0]);
    for start in (1..number).map(|part| part * length) {
        let before = starts[starts.len() - 1];
        let border = start - run_before(cell, before, start);
        if border > before {
            starts.push(border);
        }
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpe::merge::window::{OneByOne, SmallWindow};
    use crate::bpe::merge::windows::stay_apart;
    use crate::bpe::merge::{piece, tree_window, window};
    use crate::bpe::steps;
    use crate::bpe::table::ranks::tests::ODD;
    use crate::bpe::table::{CL100K, NONE, O200K, R50K};

    /// Numbers that look random, below `limit`.
    fn numbers(mut seed: u64, limit: usize) -> impl Iterator<Item = usize> {
        std::iter::repeat_with(move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as usize % limit
        })
    }

    /// Text of `length` bytes, from an alphabet of single characters or words.
    fn text(alphabet: &[&str], length: usize) -> String {
        let mut text = String::new();
        let mut picks = numbers(7, alphabet.len());
        while text.len() < length {
            text.push_str(alphabet[picks.next().unwrap_or(0)]);
        }
        text
    }

    const ALPHABETS: &[&[&str]] = &[
        &["a"],
        &[" "],
        &["="],
        &["\n"],
        &["\u{301}"],
        &["\t"],
        &["/"],
        &["a", "b"],
        &["a", "B"],
        &[" ", "\t"],
        &["=", "-"],
        &["a", "e", "i", "o", "u", "n", "t", "s"],
        &["E", "T", "A", "O", "I", "N"],
        &["的", "一", "是", "不", "了"],
        &["ก", "ข", "ไ", "ท", "ย"],
        &["the", "tion", "ing", "er", "pre", "con"],
        &[
            "                                                  ",
            "\t\t\t\t",
            "\t",
        ],
        &["-----------------------", "=====================", "*"],
        &["👨\u{200d}👩\u{200d}👧"],
        &["0", "1", "a", "f"],
        &[
            "                                                                    \n",
            "                               \n",
        ],
        &[
            "                                ",
            "\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t",
        ],
        &[
            "================================",
            "--------------------------------",
        ],
    ];

    fn definition(vocabulary: &Vocabulary, text: &[u8]) -> Vec<u32> {
        let mut starts: Vec<usize> = (0..=text.len()).collect();
        let rank = |from, to| vocabulary.rank(text, from, to);
        let lowest = |starts: &[usize]| {
            let pairs = starts.windows(3).map(|pair| rank(pair[0], pair[2]));
            pairs.enumerate().map(|(at, rank)| (rank, at)).min()
        };
        while let Some((_, at)) = lowest(&starts).filter(|&(rank, _)| rank != NONE) {
            starts.remove(at + 1);
        }
        starts
            .windows(2)
            .map(|span| rank(span[0], span[1]))
            .collect()
    }

    #[test]
    fn test_every_way_to_encode_gives_the_same_tokens() {
        for vocabulary in [&O200K, &CL100K, R50K.get(), &*ODD] {
            for alphabet in ALPHABETS {
                for length in [1, 2, 15, 16, 17, 32, 33, 63, 64, 65, 128, 129, 256, 400] {
                    let text = text(alphabet, length);
                    let text = &text.as_bytes()[..length];
                    let expected = definition(vocabulary, text);
                    assert_eq!(encode::<OneByOne>(vocabulary, text), expected, "{text:?}");
                    let mut spans = Vec::new();
                    tree_window::merge(vocabulary, text, &mut spans);
                    let merged = |spans: &[(usize, u32)]| -> Vec<u32> {
                        spans.iter().map(|&(_, token)| token).collect()
                    };
                    assert_eq!(merged(&spans), expected, "{text:?}");
                    if length <= SmallWindow::BYTES {
                        let mut window = SmallWindow::EMPTY;
                        window.set(vocabulary, text);
                        window::merge::<OneByOne, _>(vocabulary, std::slice::from_mut(&mut window));
                        let spans: Vec<_> = window.spans().collect();
                        assert_eq!(merged(&spans), expected, "{text:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn test_parts_are_joined_to_the_same_tokens() {
        for vocabulary in [&O200K, &CL100K, R50K.get(), &*ODD] {
            for alphabet in ALPHABETS {
                for length in [1_023, 1_024, 1_700, 2_048, 9_000] {
                    let text = text(alphabet, length);
                    let text = &text.as_bytes()[..length];
                    let mut spans = Vec::new();
                    tree_window::merge(vocabulary, text, &mut spans);
                    let expected: Vec<u32> = spans.iter().map(|&(_, token)| token).collect();
                    assert_eq!(encode::<OneByOne>(vocabulary, text), expected, "{text:?}");
                }
            }
        }
    }

    #[test]
    fn test_tokens_stay_apart_if_their_text_is_encoded_so() {
        for vocabulary in [&O200K, &CL100K, R50K.get(), &*ODD] {
            let tokens = vocabulary.tokens();
            let tokens: Vec<(u32, &[u8])> =
                tokens.filter(|it| vocabulary.is_merged(it.0)).collect();
            let mut apart = 0;
            for (index, pick) in (0..tokens.len()).step_by(7).zip(numbers(7, tokens.len())) {
                for (left, right) in [(index, pick), (index, index), (pick, index / 7)] {
                    let (left, right) = (tokens[left], tokens[right]);
                    let text = [left.1, right.1].concat();
                    let same = definition(vocabulary, &text) == [left.0, right.0];
                    assert_eq!(stay_apart(vocabulary, left.0, right.0), same);
                    apart += usize::from(same);
                }
            }
            assert!(apart > 0);
        }
    }

    #[test]
    fn test_work_is_linear_in_the_piece() {
        for vocabulary in [&O200K, &CL100K, R50K.get(), &*ODD] {
            for alphabet in ALPHABETS {
                let steps = |length| {
                    let text = text(alphabet, length);
                    steps::of(|| {
                        assert!(piece::count(vocabulary, text.as_bytes(), 0, text.len()) > 0);
                    })
                };
                let (one, two, four) = (steps(8_000), steps(16_000), steps(32_000));
                let all = format!("{alphabet:?}: {one} {two} {four}");
                assert!(two <= one * 5 / 2 + 1_000, "{all}");
                assert!(four <= two * 5 / 2 + 1_000, "{all}");
                assert!(four <= 32_000 * 40, "{all}");
                if let [run] = alphabet
                    && run.len() == 1
                    && !vocabulary.has_wholes()
                {
                    assert!(four <= 32_000, "{all}");
                }
            }
        }
    }

    #[test]
    fn test_a_wide_window_is_linear() {
        for alphabet in ALPHABETS {
            let steps = |length| {
                let text = text(alphabet, length);
                let mut spans = Vec::new();
                steps::of(|| tree_window::merge(&O200K, text.as_bytes(), &mut spans))
            };
            let (one, two) = (steps(4_096), steps(8_192));
            assert!(two <= one * 5 / 2, "{alphabet:?}: {one} {two}");
        }
    }
}
