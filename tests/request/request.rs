//! Reading of requests: the recorded views, and what holds for every body.
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use tokenctx::json::{Builder, Document, Limits, Value};
use tokenctx::request::{
    Content, Data, Dialect, MAX_NESTING, Message, Part, read_reply, read_request, reply_view,
    request_view,
};

const FILES: [&str; 7] = [
    "openai-chat",
    "openai-responses",
    "anthropic",
    "gemini",
    "bedrock-converse",
    "vscode",
    "generated",
];
const REPLIES: [&str; 2] = ["replies", "replies-generated"];

fn cases(name: &str) -> String {
    let root = env!("CARGO_MANIFEST_DIR");
    let path = format!("{root}/tests/data/requests/{name}.json");
    fs::read_to_string(path).expect("the data is part of the repository")
}

fn parse(text: &str) -> Document<'_> {
    Document::parse(text, &Limits::default()).expect("valid JSON")
}

fn string<'d>(case: Value<'d>, key: &str) -> Option<&'d str> {
    case.get(key).and_then(Value::as_str)
}

/// The JSON text of a case's body: text as it is, any other value written out.
fn body(case: Value<'_>) -> String {
    string(case, "body").map_or_else(|| compact(case.get("body")), str::to_owned)
}

fn compact(value: Option<Value<'_>>) -> String {
    let mut text = String::new();
    value.expect("every case has it").write_compact(&mut text);
    text
}

fn view(body: &str) -> String {
    request_view(&read_request(&parse(body), None, None).expect("a request"))
}

/// A request of one user message with `content`.
fn with_content(content: &str) -> String {
    format!(r#"{{"messages":[{{"role":"user","content":{content}}}]}}"#)
}

#[test]
fn every_dialect_is_read_as_recorded() {
    for file in FILES {
        let text = cases(file);
        for case in parse(&text).root().items() {
            let dialect = string(case, "dialect").and_then(Dialect::named);
            let body = body(case);
            let document = parse(&body);
            let request =
                read_request(&document, string(case, "model"), dialect).expect("a request");
            let name = string(case, "name");
            assert_eq!(
                request_view(&request),
                compact(case.get("view")),
                "{file}: {name:?}"
            );
        }
    }
}

#[test]
fn replies_are_read_as_recorded() {
    for file in REPLIES {
        let text = cases(file);
        for case in parse(&text).root().items() {
            let body = body(case);
            let view = reply_view(&read_reply(&parse(&body)).expect("a reply"));
            let name = string(case, "name");
            assert_eq!(view, compact(case.get("view")), "{file}: {name:?}");
        }
    }
}

#[test]
fn every_dialect_has_one_name() {
    let names: BTreeSet<_> = Dialect::ALL.map(Dialect::name).into_iter().collect();
    assert_eq!(names.len(), Dialect::ALL.len());
    for dialect in Dialect::ALL {
        assert_eq!(Dialect::named(dialect.name()), Some(dialect));
    }
    assert_eq!(Dialect::named("telegraph"), None);
}

#[test]
fn string_content_equals_one_text_part() {
    for text in [r#""""#, r#""x""#, r#""a\nb \ud83d\ude00""#] {
        let part = format!(r#"[{{"type":"text","text":{text}}}]"#);
        assert_eq!(view(&with_content(text)), view(&with_content(&part)));
    }
}

#[test]
fn adjacent_text_is_merged_however_it_is_cut() {
    let whole = "one two three";
    for cut in 0..=whole.len() {
        let (before, behind) = whole.split_at(cut);
        let parts = format!(r#"["{before}",{{"type":"text","text":"{behind}"}}]"#);
        assert_eq!(
            view(&with_content(&parts)),
            view(&with_content(&format!("\"{whole}\"")))
        );
    }
}

#[test]
fn text_is_borrowed_from_the_body() {
    let body = with_content(r#""hello""#);
    let document = parse(&body);
    let request = read_request(&document, None, None).expect("a request");
    let [Message { parts, .. }] = &request.messages[..] else {
        panic!("one message");
    };
    let [Part::Text(text)] = &parts[..] else {
        panic!("one text");
    };
    assert!(body.as_bytes().as_ptr_range().contains(&text.as_ptr()));
}

/// `{"contents":[{"parts":[{"inlineData":{"data": ...}}]}]}` with bytes that are no text.
fn document_with_bytes(bytes: &[u8]) -> Result<Document<'static>, tokenctx::Error> {
    let mut builder = Builder::new(&Limits::default());
    for key in ["contents", "parts"] {
        builder.begin_object()?;
        builder.key(key)?;
        builder.begin_array()?;
    }
    for key in ["inlineData", "data"] {
        builder.begin_object()?;
        builder.key(key)?;
    }
    builder.bytes(bytes)?;
    (0..6).for_each(|_| builder.end());
    Ok(builder.finish())
}

#[test]
fn bytes_and_their_base64_are_the_same_media() {
    let document = document_with_bytes(b"hello").expect("no limit");
    let request = read_request(&document, None, None).expect("a request");
    let Some(Part::Media(media)) = request.messages[0].parts.first() else {
        panic!("media");
    };
    assert_eq!(media.content, Content::Bytes(b"hello"));
    let text = r#"{"contents":[{"parts":[{"inlineData":{"data":"aGVsbG8="}}]}]}"#;
    assert_eq!(request_view(&request), view(text));
}

#[test]
fn nesting_ends_at_the_limit_in_every_dialect() {
    let shapes = [
        (r#"[{"type":"tool_result","content":"#, "}]"),
        (r#"[{"toolResult":{"content":"#, "}}]"),
        (r#"[{"functionResponse":{"parts":"#, "}}]"),
        (r#"[{"callId":"1","content":"#, "}]"),
        (r#"[{"kind":"tool_result","content":"#, "}]"),
        (r#"[{"guardContent":{"content":"#, "}}]"),
        (r#"[{"document":{"source":{"content":"#, "}}}]"),
        (
            r#"[{"type":"document","source":{"type":"content","content":"#,
            "}}]",
        ),
    ];
    for (open, close) in shapes {
        for (depth, is_read) in [(MAX_NESTING, true), (MAX_NESTING + 1, false), (200, false)] {
            let content = format!("{}[\"end\"]{}", open.repeat(depth), close.repeat(depth));
            let view = view(&with_content(&content));
            assert_eq!(!view.contains("unknown_part"), is_read, "{open} {depth}");
            assert!(view.contains("end"), "{open} {depth}");
        }
    }
}

#[test]
fn data_is_equal_when_its_text_is() {
    let body = with_content(r#"[{"odd":[1,2.0]},{"odd":[1, 2.0], "id":"x"},{"odd":[2]}]"#);
    let document = parse(&body);
    let request = read_request(&document, None, None).expect("a request");
    let data: Vec<&Data<'_>> = request.messages[0]
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::Data(data) => Some(data),
            _ => None,
        })
        .collect();
    assert_eq!(data[0], data[1]);
    assert_ne!(data[0], data[2]);
    assert_eq!(format!("{:?}", data[2]), r#"{"odd":[2]}"#);
}

#[test]
fn any_json_is_read() {
    let mut words = BTreeSet::new();
    for file in FILES.iter().chain(&REPLIES) {
        let text = cases(file);
        words.extend(strings_in(&parse(&text)));
    }
    let words: Vec<_> = words.into_iter().collect();
    for seed in 0..20_000 {
        let mut random = Random(seed);
        let mut body = String::new();
        write_random(&mut random, &words, 0, &mut body);
        let document = parse(&body);
        let request = read_request(&document, None, None).expect("a request");
        parse(&request_view(&request));
        parse(&reply_view(&read_reply(&document).expect("a reply")));
    }
}

/// Every key and short string of the recorded cases: the words that readers know.
fn strings_in(document: &Document<'_>) -> Vec<String> {
    let mut words = Vec::new();
    let mut pending = vec![document.root()];
    while let Some(value) = pending.pop() {
        words.extend(
            value
                .as_str()
                .filter(|text| text.len() < 200)
                .map(str::to_owned),
        );
        pending.extend(value.items());
        for (key, member) in value.members() {
            words.push(key.to_owned());
            pending.push(member);
        }
    }
    words
}

/// splitmix64: the same bodies on every run and machine.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((bits ^ (bits >> 31)) >> 33).expect("31 bits") % limit
    }
}

/// Appends a random value whose keys and strings are taken from `words`.
fn write_random(random: &mut Random, words: &[String], depth: usize, out: &mut String) {
    let scalars = [
        "null", "true", "0", "1", "2.5", "-7e300", "[]", "{}", "\"\"",
    ];
    let kinds = if depth > 6 { 4 } else { 10 };
    match random.below(kinds) {
        0 => out.push_str(scalars[random.below(scalars.len())]),
        1..=3 => write_word(random, words, out),
        4..=5 => {
            out.push('[');
            for nth in 0..random.below(4) {
                out.push_str(if nth > 0 { "," } else { "" });
                write_random(random, words, depth + 1, out);
            }
            out.push(']');
        }
        _ => {
            out.push('{');
            for nth in 0..random.below(5) {
                out.push_str(if nth > 0 { "," } else { "" });
                write_word(random, words, out);
                out.push(':');
                write_random(random, words, depth + 1, out);
            }
            out.push('}');
        }
    }
}

fn write_word(random: &mut Random, words: &[String], out: &mut String) {
    out.push('"');
    for character in words[random.below(words.len())].chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\0'..='\x1f' => write!(out, "\\u{:04x}", u32::from(character)).expect("a string"),
            _ => out.push(character),
        }
    }
    out.push('"');
}
