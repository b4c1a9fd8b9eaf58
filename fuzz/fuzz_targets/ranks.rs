//! Files of ranks and tokenizers that a user brings, behind a zero byte: whatever is taken counts what it encodes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tokenctx::{RankEncoding, SplitRule};

fn check(encoding: &RankEncoding, text: &str) {
    let tokens = encoding.encode(text);
    assert_eq!(encoding.count(text), tokens.len() as u64);
    let limited = encoding.count_at_most(text, 3);
    assert!(limited <= 4 && (limited > 3) == (tokens.len() > 3));
    for token in tokens.iter().take(8) {
        assert!(encoding.decode(*token).is_some());
    }
}

fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(2, |&byte| byte == 0);
    let (Some(text), Some(content)) = (parts.next(), parts.next()) else {
        return;
    };
    let text = String::from_utf8_lossy(text);
    for rule in [SplitRule::Qwen, SplitRule::O200k] {
        if let Ok(encoding) = RankEncoding::read("fuzzed".into(), rule, content) {
            check(&encoding, &text);
        }
        // The 256 bytes make a file of anything: the rest are its merges.
        let mut whole = bytes_of_ranks();
        whole.extend_from_slice(content);
        if let Ok(encoding) = RankEncoding::read("fuzzed".into(), rule, &whole) {
            check(&encoding, &text);
        }
    }
    if let Some(encoding) = RankEncoding::read_tokenizer("fuzzed".into(), content) {
        assert!(encoding.count(&text) <= 4 * text.len() as u64 + 4);
    }
});

/// Lines of a rank file for each byte, in base64.
fn bytes_of_ranks() -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut lines = Vec::new();
    for byte in 0..=255_u8 {
        let (first, second) = (byte >> 2, (byte & 3) << 4);
        lines.extend_from_slice(&[DIGITS[usize::from(first)], DIGITS[usize::from(second)]]);
        lines.extend_from_slice(format!("== {byte}\n").as_bytes());
    }
    lines
}
