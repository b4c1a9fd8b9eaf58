//! The tokens of a text.
//!
//! Pieces are found as where they are counted ([`Borders`]); one that is a token is that token, any other is merged
//! by itself ([`piece`]). Nothing is remembered.

use crate::bpe::borders::Borders;
use crate::bpe::merge::piece;
use crate::bpe::split::{Base, Rule};
use crate::bpe::table::{NONE, Vocabulary};
use crate::interrupt;

/// Bytes of text of a token: few texts have less for each.
const BYTES_OF_TOKEN: usize = 3;

/// Appends the tokens of `text`.
pub(super) fn encode<R: Rule>(vocabulary: &Vocabulary, text: &[u8], tokens: &mut Vec<u32>) {
    tokens.reserve(text.len() / BYTES_OF_TOKEN);
    let (mut borders, mut start) = (Borders::new(), 0);
    while start < text.len() {
        interrupt::poll();
        start = borders.find::<R, Base>(text, start);
        for border in borders.pairs() {
            let (from, to) = (border[0], border[1]);
            match vocabulary.rank(text, from, to) {
                NONE => piece::encode(vocabulary, text, from, to, tokens),
                rank => tokens.push(rank),
            }
        }
        borders.go_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpe::random_texts::{ATOMS, random_texts};
    use crate::bpe::split::deepseek::DeepSeek;
    use crate::bpe::split::{Cl100k, Kimi, Llama3, O200k, Qwen, R50k, Tekken};
    use crate::bpe::table::ranks::tests::ODD;
    use crate::bpe::table::{CL100K, DEEPSEEK_V3, MISTRAL_V3, O200K, P50K, QWEN2, R50K};

    /// The tokens by the definition, with nothing remembered.
    fn one_by_one<R: Rule>(vocabulary: &Vocabulary, text: &[u8]) -> Vec<u32> {
        let (mut start, mut tokens) = (0, Vec::new());
        while start < text.len() {
            let end = R::end(text, start);
            match vocabulary.rank(text, start, end) {
                NONE => piece::encode(vocabulary, text, start, end, &mut tokens),
                rank => tokens.push(rank),
            }
            start = end;
        }
        tokens
    }

    fn encoded<R: Rule>(vocabulary: &Vocabulary, text: &[u8]) -> Vec<u32> {
        let mut tokens = vec![7];
        encode::<R>(vocabulary, text, &mut tokens);
        assert_eq!(tokens.remove(0), 7, "the earlier tokens stay");
        tokens
    }

    fn check<R: Rule>(vocabulary: &Vocabulary, text: &str) {
        let expected = one_by_one::<R>(vocabulary, text.as_bytes());
        let encoded = encoded::<R>(vocabulary, text.as_bytes());
        assert_eq!(encoded, expected, "{text:?}");
    }

    fn check_all(text: &str) {
        check::<O200k>(&O200K, text);
        check::<Cl100k>(&CL100K, text);
        check::<R50k>(R50K.get(), text);
        check::<R50k>(P50K.get(), text);
        check::<Llama3>(&CL100K, text);
        check::<DeepSeek>(DEEPSEEK_V3.get(), text);
        check::<Kimi>(QWEN2.get(), text);
        check::<Qwen>(QWEN2.get(), text);
        check::<Tekken>(MISTRAL_V3.get(), text);
        check::<O200k>(&ODD, text);
        check::<R50k>(&ODD, text);
    }

    #[test]
    fn test_texts_are_encoded_as_the_definition_says() {
        random_texts(ATOMS, 11, 3_000).for_each(|text| check_all(&text));
    }

    #[test]
    fn test_texts_of_many_pieces_and_cells_are_encoded_the_same() {
        let joined: String = random_texts(ATOMS, 13, 300).collect();
        check_all(&joined);
        for (word, times) in [
            ("中文字符編碼測試漢語", 700),
            ("абвгдежзийклмн", 100),
            ("ไทยภาษา", 300),
            ("xqzjw", 2_000),
            ("x中é", 3_000),
            ("한국어 문장을 씁니다 ", 400),
        ] {
            check_all(&word.repeat(times));
        }
        check_all("");
    }

    #[test]
    fn test_an_encoding_is_ended_from_outside() {
        fn end() {
            std::panic::resume_unwind(Box::new("ended"));
        }
        let text = "qzxvj wkqxz\u{e9}bvq jjxqk password ".repeat(500);
        let encode_on = || loop {
            encoded::<O200k>(&O200K, text.as_bytes());
        };
        let ended = std::panic::catch_unwind(|| interrupt::watched(end, encode_on));
        assert!(ended.expect_err("it was ended").is::<&str>());
    }

    /// `benches/exactness.py` writes the file: encoding, text, tokens of `tiktoken`.
    #[test]
    fn test_texts_are_encoded_as_the_file_says() {
        let Ok(path) = std::env::var("TOKENCTX_TOKENS") else {
            println!("skipped: TOKENCTX_TOKENS names no file");
            return;
        };
        let file = std::fs::read(path).expect("a file");
        let rows: Vec<(String, String, Vec<u32>)> = serde_json::from_slice(&file).expect("rows");
        for (encoding, text, tokens) in rows {
            let bytes = text.as_bytes();
            let made = match encoding.as_bytes()[0] {
                b'o' => encoded::<O200k>(&O200K, bytes),
                b'c' => encoded::<Cl100k>(&CL100K, bytes),
                b'p' => encoded::<R50k>(P50K.get(), bytes),
                b'd' => encoded::<DeepSeek>(DEEPSEEK_V3.get(), bytes),
                b'm' => encoded::<Tekken>(MISTRAL_V3.get(), bytes),
                b'q' => encoded::<Qwen>(QWEN2.get(), bytes),
                _ => encoded::<R50k>(R50K.get(), bytes),
            };
            assert_eq!(made, tokens, "{encoding}: {text:?}");
        }
    }
}
