//! The published token counts of OpenAI requests; one that is not met has a reason.
use std::fs;
use tokenctx::json::{Document, Limits, Value};
use tokenctx::{Alone, Body, Call, Engine, Settings};

const FILES: [&str; 3] = ["documented", "hmarr", "pamelafox"];

fn count(body: &str) -> u64 {
    let engine = Engine::new(&[0; 32], Settings::default());
    let body = Body::Bytes(body.as_bytes());
    let count = engine.count(&body, &Call::default(), &Alone);
    count.expect("valid JSON").tokens
}

#[test]
fn published_counts_are_met_or_have_a_reason() {
    for file in FILES {
        let root = env!("CARGO_MANIFEST_DIR");
        let path = format!("{root}/tests/data/openai/{file}.json");
        let text = fs::read_to_string(path).expect("the data is part of the repository");
        let document = Document::parse(&text, &Limits::default()).expect("valid JSON");
        let cases = document.root().get("cases").expect("a list of cases");
        for case in cases.items() {
            let number = |key| case.get(key).and_then(Value::as_u64);
            let name = case.get("name").and_then(Value::as_str);
            let mut body = String::new();
            let value = case.get("body").expect("every case has it");
            value.write_compact(&mut body);
            let tokens = count(&body);
            let expected = number("counted").or(number("tokens"));
            assert_eq!(Some(tokens), expected, "{file}: {name:?}");
            let has_reason = case.get("reason").is_some();
            assert_eq!(has_reason, number("tokens") != Some(tokens), "{name:?}");
        }
    }
}
