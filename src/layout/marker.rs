//! Markers of chat templates that a client has written into a prompt itself.

/// A marker has no more bytes.
const MAX_MARKER_BYTES: usize = 40;

/// The sum of `count` over the stretches of `text` between markers, each of which is one token.
///
/// A marker is a word between `<|` and `|>`, as in the templates of Llama, Qwen and GPT. Linear.
pub(crate) fn with_markers(text: &str, count: impl Fn(&str) -> u64) -> u64 {
    let (mut rest, mut at, mut sum) = (text, 0, 0_u64);
    while let Some(place) = rest[at..].find("<|") {
        let start = at + place;
        match marker_end(&rest[start..]) {
            Some(length) => {
                sum = sum.saturating_add(count(&rest[..start])).saturating_add(1);
                (rest, at) = (&rest[start + length..], 0);
            }
            None => at = start + 2,
        }
    }
    sum.saturating_add(count(rest))
}

/// How long the marker is that `text`, which begins with `<|`, begins with.
fn marker_end(text: &str) -> Option<usize> {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let word = text.as_bytes()[2..].iter().take(MAX_MARKER_BYTES);
    let length = 2 + word.take_while(|byte| is_word(byte)).count();
    (length > 2 && text[length..].starts_with("|>")).then_some(length + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_a_token_and_all_else_is_text() {
        let bytes = |text: &str| text.len() as u64;
        assert_eq!(with_markers("<|user|>hi<|end_of_text|>", bytes), 4);
        assert_eq!(with_markers("a <| b |> <||> <|x", bytes), 18);
        assert_eq!(with_markers("", bytes), 0);
        assert_eq!(with_markers("<|<|é<|a|>", bytes), 7);
    }
}
