//! Texts for a counter that is slow on long stretches, of white space or without any: samples of a stretch stand
//! for the whole, so that no text that a stranger sends is slow for long.

/// Longest stretch that is counted in whole.
const SAMPLED_BYTES: usize = 64 << 10;

/// Bytes of a sample of a longer one, and how many samples are taken.
const SAMPLE_BYTES: usize = 8 << 10;
const SAMPLES: usize = 8;

/// About the tokens of `text`, of which `count` tells those of parts; nothing if one of them fails. It is asked for
/// the text itself if that has no long stretch.
pub(crate) fn count(text: &str, mut count: impl FnMut(&str) -> Option<u64>) -> Option<u64> {
    let (mut tokens, mut done, mut at) = (0, 0, 0);
    for stretch in stretches(text) {
        let start = at;
        at += stretch.len();
        if stretch.len() > SAMPLED_BYTES {
            tokens += count(&text[done..start])? + sampled_count(stretch, &mut count)?;
            done = at;
        }
    }
    Some(tokens + count(&text[done..])?)
}

/// True if [`count`] takes samples of `text`.
pub(crate) fn has_long_stretch(text: &str) -> bool {
    text.len() > SAMPLED_BYTES && stretches(text).any(|it| it.len() > SAMPLED_BYTES)
}

/// White space and what is between, in turn.
fn stretches(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let is_space = rest.chars().next()?.is_whitespace();
        let end = rest.find(|it: char| it.is_whitespace() != is_space);
        let (stretch, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        Some(stretch)
    })
}

/// The tokens of `stretch` by samples that are evenly apart, rounded up.
fn sampled_count(stretch: &str, count: &mut impl FnMut(&str) -> Option<u64>) -> Option<u64> {
    let step = (stretch.len() - SAMPLE_BYTES) / (SAMPLES - 1);
    let (mut tokens, mut bytes) = (0, 0);
    for start in (0..SAMPLES).map(|nth| nth * step) {
        let border = |at: usize| (0..=at).rev().find(|&at| stretch.is_char_boundary(at));
        let sample = &stretch[border(start)?..border(start + SAMPLE_BYTES)?];
        tokens += count(sample)?;
        bytes += sample.len() as u64;
    }
    Some((tokens * stretch.len() as u64).div_ceil(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_samples_are_the_whole_where_every_part_costs_the_same() {
        for letter in ["a", "é", "漢", "\t"] {
            for bytes in [10, SAMPLED_BYTES, SAMPLED_BYTES + 8, 3 * SAMPLED_BYTES] {
                let text = format!("one two{} three", letter.repeat(bytes / letter.len()));
                let (mut asked, mut parts) = (0, 0);
                let tokens = count(&text, |part| {
                    (asked, parts) = (asked + part.len(), parts + 1);
                    Some(part.len() as u64)
                });
                assert_eq!(tokens, Some(text.len() as u64));
                assert_eq!(has_long_stretch(&text), parts > 1);
                assert!(asked <= SAMPLED_BYTES + 20);
            }
        }
        let long = "x".repeat(SAMPLED_BYTES + 1);
        assert_eq!(count(&long, |part| (!part.is_empty()).then_some(1)), None);
    }
}
