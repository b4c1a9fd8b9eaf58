//! Rank files of the user: the same tokens as the tables that are built in.

use tokenctx::bpe::{Encoding, RankEncoding, RankFileError, SplitRule};

const TEXTS: [&str; 6] = [
    "",
    "hello world, it's 12345 o'clock\n\n  ",
    "naïve 漢字かな交じり文 👩\u{200d}👩\u{200d}👧",
    "                                                  x",
    "----------------------------------------------------------------------------",
    "pneumonoultramicroscopicsilicovolcanoconiosis",
];

#[test]
fn a_published_vocabulary_gives_its_tokens() {
    for name in ["o200k_base", "cl100k_base", "r50k_base"] {
        let encoding = Encoding::named(name).expect("a known name");
        let rule = SplitRule::named(name).expect("a known name");
        let ranked = RankEncoding::read("mine".into(), rule, &encoding.rank_file()).expect("ranks");
        for text in TEXTS.map(|text| text.repeat(9)) {
            let tokens = encoding.encode(&text);
            assert_eq!(ranked.encode(&text), tokens, "{name} {text:?}");
            assert_eq!(ranked.count(&text), tokens.len() as u64);
            assert_eq!(
                ranked.count_at_most(&text, 3),
                encoding.count_at_most(&text, 3)
            );
        }
        assert_eq!(ranked.decode(100), encoding.decode(&[100]));
        assert_eq!(ranked.decode(u32::MAX), None);
    }
}

#[test]
fn a_file_without_a_byte_is_refused() {
    let read = |content: &[u8]| RankEncoding::read("mine".into(), SplitRule::Qwen, content).err();
    assert_eq!(read(b""), Some(RankFileError::MissingByte(0)));
    assert_eq!(read(b"AA== 0\nAA== 1\n"), Some(RankFileError::Repeated(2)));
    assert_eq!(read(b"AA== 0\nAQ== 0\n"), Some(RankFileError::Repeated(2)));
    assert_eq!(read(b"AA== 0\nAQ== x\n"), Some(RankFileError::Line(2)));
    assert_eq!(
        read(b"AA== 0\nAQ== 7\n"),
        Some(RankFileError::MissingByte(2))
    );
}

#[test]
fn every_rule_has_a_name() {
    for name in SplitRule::names() {
        assert!(SplitRule::named(name).is_some());
    }
    assert_eq!(SplitRule::named("p100k"), None);
}
