//! Every encoding against `tiktoken-rs` and `tiktoken`, which run the published regular expressions.

use std::panic::catch_unwind;
use std::sync::LazyLock;

use sha2::{Digest, Sha256};
use tokenctx::bpe::Encoding;

/// What tells the tokens of a text.
enum Oracle {
    OpenAi(Box<tiktoken_rs::CoreBPE>),
    Vendor(&'static tiktoken::CoreBpe),
    /// The same for the one that cuts a run of what no expression takes into its characters, where the
    /// vendor's own tokenizer leaves it whole: such texts are none of its.
    DeepSeek(&'static tiktoken::CoreBpe),
}

impl Oracle {
    fn of(encoding: Encoding) -> Oracle {
        let open_ai = match encoding.name() {
            "o200k_base" => tiktoken_rs::o200k_base(),
            "o200k_harmony" => tiktoken_rs::o200k_harmony(),
            "cl100k_base" => tiktoken_rs::cl100k_base(),
            "p50k_base" => tiktoken_rs::p50k_base(),
            "p50k_edit" => tiktoken_rs::p50k_edit(),
            "r50k_base" | "gpt2" => tiktoken_rs::r50k_base(),
            name => {
                let vendor = tiktoken::get_encoding(name).expect("a name of the crate");
                return match name {
                    "deepseek_v3" => Oracle::DeepSeek(vendor),
                    _ => Oracle::Vendor(vendor),
                };
            }
        };
        Oracle::OpenAi(Box::new(open_ai.expect("embedded")))
    }

    fn tokens(&self, text: &str) -> Option<Vec<u32>> {
        match self {
            Oracle::OpenAi(oracle) => catch_unwind(|| oracle.encode_ordinary(text)).ok(),
            Oracle::Vendor(oracle) => Some(oracle.encode(text)),
            Oracle::DeepSeek(oracle) => {
                let untaken = |it: char| UNTAKEN.contains(&it);
                let mut pairs = text.chars().zip(text.chars().skip(1));
                let has_run = pairs.any(|(left, right)| untaken(left) && untaken(right));
                (!has_run).then(|| oracle.encode(text))
            }
        }
    }
}

/// The characters of [`ATOMS`] that are no letter, mark, number, punctuation, symbol or white space.
const UNTAKEN: [char; 7] = [
    '\0',
    '\u{1c}',
    '\u{200b}',
    '\u{200d}',
    '\u{feff}',
    '\u{378}',
    '\u{10ffff}',
];

static ORACLES: LazyLock<[Oracle; 10]> = LazyLock::new(|| Encoding::ALL.map(Oracle::of));

/// What split rules look at: contractions, line ends, white space of all kinds, marks, numbers of
/// all scripts, letters of all cases, slashes after punctuation, special tokens, long runs.
const ATOMS: &[&str] = &[
    "'s",
    "'S",
    "'\u{17f}",
    "'RE",
    "'ve",
    "'lL",
    "'",
    "''",
    "can't",
    "\u{17f}",
    "\r",
    "\n",
    "\r\n",
    "\n\r",
    " ",
    "  ",
    "   ",
    "\t",
    "\x0b",
    "\x1c",
    "\u{85}",
    "\u{a0}",
    "\u{1680}",
    "\u{2028}",
    "\u{202f}",
    "\u{3000}",
    "\u{200b}",
    "\u{200d}",
    "\u{feff}",
    "\u{300}",
    "\u{940}",
    "\u{20dd}",
    "\u{fe0f}",
    "0",
    "12",
    "345",
    "67890",
    "\u{663}",
    "\u{966}",
    "\u{2167}",
    "\u{bd}",
    "\u{1d7d8}",
    "a",
    "abc",
    "A",
    "ABC",
    "Abc",
    "aB",
    "\u{1c5}",
    "\u{2b0}",
    "\u{aa}",
    "\u{df}",
    "\u{c9}",
    "e\u{301}",
    "E\u{301}",
    "中",
    "文字",
    "ひらがな",
    "カタカナ",
    "한국어",
    "ไทย",
    "हिन्दी",
    "العربية",
    "עברית",
    "русский",
    "РУС",
    "👨\u{200d}👩\u{200d}👧",
    "🇩🇪",
    "❤\u{fe0f}",
    "!",
    "/",
    "//",
    "?/",
    "://",
    "...",
    "—",
    "“",
    "$",
    "_",
    "====",
    "<|endoftext|>",
    "<|",
    "|>",
    "{\"",
    "\":",
    "();",
    "\0",
    "\u{378}",
    "\u{10ffff}",
    "\u{20000}",
    "\u{1e900}",
    "\u{1c89}",
    "\u{a7cb}",
    "\u{10d50}",
    "the",
    " the",
    "tion",
    "aaaaaaaaaaaaaaaaaaaaaaaa",
    "\t\t",
    " \n",
    "\n \n",
    "x\n/\n/",
];

/// One character of every class.
const CLASSES: &[&str] = &[
    "", "A", "\u{1c5}", "a", "\u{2b0}", "中", "\u{301}", "1", "\u{bd}", " ", "\t", "\u{3000}",
    "\n", "\r", "!", "'", "/", "'s", "👍",
];

/// A small generator of numbers that look random, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).expect("below a usize")
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

fn assert_same(text: &str) {
    for (encoding, oracle) in Encoding::ALL.into_iter().zip(&*ORACLES) {
        let Some(expected) = oracle.tokens(text) else {
            continue;
        };
        assert_eq!(
            encoding.encode(text),
            expected,
            "{} of {text:?}",
            encoding.name()
        );
        let count = expected.len() as u64;
        assert_eq!(
            encoding.count(text),
            count,
            "{} of {text:?}",
            encoding.name()
        );
        assert_eq!(encoding.count_at_most(text, count), count);
        if let Some(less) = count.checked_sub(1) {
            assert_eq!(encoding.count_at_most(text, less), count);
            assert_eq!(encoding.count_at_most(text, less / 2), less / 2 + 1);
        }
        assert_eq!(encoding.decode(&expected).as_deref(), Some(text.as_bytes()));
    }
}

#[test]
fn test_transitions_between_classes() {
    for first in CLASSES {
        for second in CLASSES {
            for third in CLASSES {
                assert_same(&format!("{first}{second}{third}"));
            }
        }
    }
}

#[test]
fn test_random_atoms() {
    let mut numbers = Numbers(0x5EED);
    for _ in 0..3_000 {
        let atoms = 1 + numbers.below(12);
        assert_same(&(0..atoms).map(|_| numbers.pick(ATOMS)).collect::<String>());
    }
}

#[test]
fn test_long_runs() {
    let mut numbers = Numbers(0xBEE);
    for alphabet in [
        "a",
        " ",
        "=",
        "\n",
        "ab",
        "=-",
        " \t",
        "aeiou",
        "ETAOIN",
        "中文的一是",
        "é\u{301}",
    ] {
        let alphabet: Vec<char> = alphabet.chars().collect();
        for length in [127, 128, 129, 1_000, 3_000] {
            assert_same(
                &(0..length)
                    .map(|_| numbers.pick(&alphabet))
                    .collect::<String>(),
            );
        }
    }
}

#[test]
fn test_characters_of_every_block() {
    for start in (0..0x11_0000).step_by(128) {
        let block = (start..start + 128).step_by(11).filter_map(char::from_u32);
        assert_same(
            &block
                .flat_map(|character| ['a', character, ' '])
                .collect::<String>(),
        );
    }
}

#[test]
fn test_every_token_decodes_and_encodes_to_itself() {
    for encoding in Encoding::ALL {
        for token in 0..=200_100 {
            let Some(bytes) = encoding.decode(&[token]) else {
                continue;
            };
            let Ok(text) = String::from_utf8(bytes) else {
                continue;
            };
            assert_eq!(
                encoding.decode(&encoding.encode(&text)),
                Some(text.into_bytes())
            );
        }
    }
}

#[test]
fn test_a_special_token_is_decoded_and_no_other_number() {
    for encoding in Encoding::ALL {
        for (text, number) in encoding.special_tokens() {
            assert_eq!(encoding.token(text.as_bytes()), Some(number));
            assert!(encoding.decode(&[number]).is_some());
        }
        assert_eq!(encoding.decode(&[0, u32::MAX]), None);
    }
}

/// Hashes that `tiktoken` 0.14 expects of the published files.
#[test]
fn test_rank_files_are_the_published_ones() {
    for (name, expected) in [
        (
            "o200k_base",
            "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        ),
        (
            "o200k_harmony",
            "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        ),
        (
            "cl100k_base",
            "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        ),
        (
            "p50k_base",
            "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069",
        ),
        (
            "r50k_base",
            "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
        ),
    ] {
        let file = Encoding::named(name).expect("a known name").rank_file();
        let digest: String = Sha256::digest(file)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        assert_eq!(digest, expected, "{name}");
    }
}

#[test]
fn test_names() {
    for encoding in Encoding::ALL {
        assert_eq!(Encoding::named(encoding.name()), Some(encoding));
    }
    assert_eq!(Encoding::named("gpt3"), None);
    assert_eq!(Encoding::named(""), None);
}

#[test]
fn test_a_limit_is_found_without_reading_the_text() {
    let text = "x y ".repeat(1 << 20);
    for encoding in Encoding::ALL {
        assert_eq!(encoding.count_at_most(&text, 10), 11);
        assert_eq!(
            encoding.count_at_most(&text, u64::MAX),
            encoding.count(&text)
        );
        assert_eq!(encoding.count_at_most("", 0), 0);
        assert_eq!(encoding.count_at_most("a", 0), 1);
    }
}
