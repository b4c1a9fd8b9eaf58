//! The JSON document: what is accepted, what is refused, and what either costs.
use std::fs;
use tokenctx::Error;
use tokenctx::json::{Builder, Document, Kind, Limits, Value, decode_body};

fn cases(name: &str) -> String {
    let path = format!("{}/tests/data/json/{name}.json", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(path).expect("the data is part of the repository")
}

fn parse(body: &[u8]) -> Result<Document<'_>, Error> {
    Document::from_bytes(body, &Limits::default())
}

fn string<'d>(case: Value<'d>, key: &str) -> &'d str {
    case.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn body(case: Value<'_>) -> Vec<u8> {
    match case.get("hex").and_then(Value::as_str) {
        Some(hex) => (0..hex.len() / 2)
            .map(|nth| u8::from_str_radix(&hex[nth * 2..nth * 2 + 2], 16).expect("hex"))
            .collect(),
        None => string(case, "body").into(),
    }
}

fn compact(value: Value<'_>) -> String {
    let mut text = String::new();
    value.write_compact(&mut text);
    text
}

fn canonical(value: Value<'_>) -> String {
    let mut text = String::new();
    value.write_canonical(&mut text);
    text
}

#[test]
fn accepted_bodies_have_one_compact_text_and_their_anomalies() {
    let cases = cases("accepted");
    let cases = Document::parse(&cases, &Limits::default()).expect("valid");
    for case in cases.root().items() {
        let (name, body) = (string(case, "name"), body(case));
        let document = parse(&body).unwrap_or_else(|error| panic!("{name}: {error}"));
        let anomalies: Vec<_> = document.anomalies().names().collect();
        let expected: Vec<_> = case.get("anomalies").expect(name).items().collect();
        let expected: Vec<_> = expected.into_iter().filter_map(Value::as_str).collect();
        assert_eq!(compact(document.root()), string(case, "compact"), "{name}");
        assert_eq!(anomalies, expected, "{name}");
    }
}

#[test]
fn refused_bodies_say_why_and_where() {
    let cases = cases("refused");
    let cases = Document::parse(&cases, &Limits::default()).expect("valid");
    for case in cases.root().items() {
        let (name, body) = (string(case, "name"), body(case));
        let error = parse(&body).expect_err(name);
        let offset = case.get("offset").and_then(Value::as_u64);
        assert_eq!(error.code(), string(case, "code"), "{name}");
        assert_eq!(error.offset().map(|offset| offset as u64), offset, "{name}");
    }
}

#[test]
fn every_cut_of_a_body_is_refused_as_truncated() {
    let body = r#"{"a":[1.5e3,"x\ud83d\ude00é",{"b":null,"c":[]}],"d":-Infinity,"e":"\n"}"#;
    for end in 1..body.len() {
        let error = parse(&body.as_bytes()[..end]).expect_err("cut");
        assert_eq!(error.code(), "truncated", "{end}");
    }
}

#[test]
fn one_changed_byte_never_panics_and_what_is_accepted_reads_back_equal() {
    let body = br#"{"a":[1.5e3,"x\ud83d\ude00",{"b":null,"a":[-0]}],"a":NaN,"e":"\n\\"}"#;
    for place in 0..body.len() {
        for byte in 0..=255 {
            let mut body = body.to_vec();
            body[place] = byte;
            let Ok(document) = parse(&body) else { continue };
            let text = compact(document.root());
            let again = parse(text.as_bytes()).expect("written text is JSON");
            assert_eq!(compact(again.root()), text);
        }
    }
}

#[test]
fn values_are_read_by_kind() {
    let body =
        r#"{"s":"x","n":7,"f":7.0,"big":1e999,"b":true,"z":null,"a":[1,[2],3],"o":{"k":[]}}"#;
    let document = parse(body.as_bytes()).expect("valid");
    let root = document.root();
    let get = |key| root.get(key).expect("present");
    assert_eq!((root.kind(), root.len()), (Kind::Object, 8));
    assert_eq!(get("s").as_str(), Some("x"));
    assert_eq!(get("n").as_u64(), Some(7));
    assert_eq!((get("f").as_u64(), get("f").as_f64()), (None, Some(7.0)));
    assert_eq!(get("big").as_f64(), Some(f64::INFINITY));
    assert_eq!(get("big").as_number_text(), Some("Infinity"));
    assert_eq!(get("b").as_bool(), Some(true));
    assert!(get("z").is_null() && get("z").as_str().is_none());
    let kinds: Vec<_> = get("a").items().map(Value::kind).collect();
    assert_eq!(kinds, [Kind::Number, Kind::Array, Kind::Number]);
    let keys: Vec<_> = get("o").members().map(|(key, _)| key).collect();
    assert_eq!(keys, ["k"]);
    assert!(root.get("missing").is_none() && get("s").get("x").is_none());
    assert_eq!(get("a").members().count() + get("o").items().count(), 0);
}

#[test]
fn equal_values_have_equal_canonical_texts() {
    let one = parse(br#"{"b":[{"z":1,"a":1e2}],"a\u0000":0,"\ue000":1,"\ud83d\ude00":2}"#);
    let other =
        parse("{\"😀\":2,\"\u{e000}\":1,\"a\\u0000\":0,\"b\":[{\"a\":100.0,\"z\":1}]}".as_bytes());
    let one = canonical(one.expect("valid").root());
    assert_eq!(one, canonical(other.expect("valid").root()));
    assert_eq!(
        one,
        "{\"a\\u0000\":0,\"b\":[{\"a\":100.0,\"z\":1}],\"\u{e000}\":1,\"😀\":2}"
    );
}

#[test]
fn spaced_text_has_the_default_separators_of_python() {
    let mut text = String::new();
    let document = parse(br#"{"a":[1,2],"b":{}}"#).expect("valid");
    document.root().write_spaced(&mut text);
    assert_eq!(text, r#"{"a": [1, 2], "b": {}}"#);
}

#[test]
fn built_and_parsed_documents_are_equal() -> Result<(), Error> {
    let mut builder = Builder::new(&Limits::default());
    builder.begin_object()?;
    builder.key("a")?;
    builder.begin_array()?;
    builder.null()?;
    builder.bool(false)?;
    builder.number("12")?;
    builder.float(-0.5)?;
    builder.end();
    for bytes in [&b""[..], b"f", b"fo", b"foo", b"\xfb\xff\xfe"] {
        builder.key(&format!("b{}", bytes.len()))?;
        builder.bytes(bytes)?;
    }
    builder.end();
    let document = builder.finish();
    let text = r#"{"a":[null,false,12,-0.5],"b0":"","b1":"Zg==","b2":"Zm8=","b3":"+//+"}"#;
    assert_eq!(compact(document.root()), text);
    assert_eq!(compact(parse(text.as_bytes())?.root()), text);
    Ok(())
}

#[test]
fn limits_refuse_what_is_beyond_and_accept_what_is_at_them() {
    let mut limits = Limits::default();
    limits.max_bytes = 7;
    assert!(Document::from_bytes(b"[[1,2]]", &limits).is_ok());
    let error = Document::from_bytes(b"[[1, 2]]", &limits).expect_err("8 bytes");
    assert_eq!(error, Error::TooLarge { bytes: 8, limit: 7 });

    let mut limits = Limits::default();
    limits.max_depth = 2;
    assert!(Document::parse("[[1,2]]", &limits).is_ok());
    let error = Document::parse("[[1,{}]]", &limits).expect_err("3 levels");
    assert_eq!(
        (error.code(), error.offset(), error.limit()),
        ("too_deep", Some(4), Some(2))
    );

    let mut limits = Limits::default();
    limits.max_values = 4;
    assert!(Document::parse(r#"[{"a":1}]"#, &limits).is_ok());
    let error = Document::parse(r#"[{"a":1},2]"#, &limits).expect_err("5 values and keys");
    assert_eq!((error.code(), error.limit()), ("too_many_values", Some(4)));
}

#[test]
fn strings_of_a_built_document_together_are_limited() {
    let mut limits = Limits::default();
    limits.max_bytes = 10;
    let mut builder = Builder::new(&limits);
    builder.begin_array().expect("fits");
    builder.string("12345").expect("fits");
    builder.bytes(b"12345").expect("fits");
    assert_eq!(
        builder.string("6").expect_err("11 bytes").code(),
        "too_large"
    );
    let held = builder.held_string(Box::new("6".to_owned()));
    assert_eq!(held.expect_err("11 bytes").code(), "too_large");
}

#[test]
fn held_strings_read_as_copied_ones() -> Result<(), Error> {
    let mut builder = Builder::new(&Limits::default());
    builder.begin_object()?;
    for (key, text) in [("a", "long"), ("b", ""), ("a", "last")] {
        builder.key(key)?;
        builder.held_string(Box::new(text.to_owned()))?;
    }
    builder.end();
    let document = builder.finish();
    assert_eq!(compact(document.root()), r#"{"a":"last","b":""}"#);
    assert_eq!(document.byte_count(), "aba".len() + "longlast".len());
    Ok(())
}

#[test]
fn copies_are_equal() -> Result<(), Error> {
    let text = r#"{"a":[1,-2.5,"\u00e9",[],{}],"b":{"c":null,"d":[true,{"e":"f"}]},"a2":""}"#;
    let document = parse(text.as_bytes())?;
    let mut builder = Builder::new(&Limits::default());
    builder.begin_array()?;
    builder.copy_of(document.root())?;
    builder.copy_of(document.root())?;
    builder.end();
    let root = compact(document.root());
    assert_eq!(compact(builder.finish().root()), format!("[{root},{root}]"));
    Ok(())
}

#[test]
fn errors_and_debug_texts_hold_nothing_of_the_body() {
    let secret = br#"{"secret": "secret", "a": secret}"#;
    let error = parse(secret).expect_err("no JSON");
    assert!(!format!("{error} {error:?}").contains("secret"));
    let document = parse(br#"{"secret": ["secret"]}"#).expect("valid");
    assert!(!format!("{document:?} {:?}", document.root()).contains("secret"));
}

#[test]
fn valid_utf8_is_borrowed() {
    let (text, anomalies) = decode_body("é".as_bytes()).expect("UTF-8");
    assert!(matches!(text, std::borrow::Cow::Borrowed("é")) && anomalies.is_empty());
}

/// Nodes, bytes and written text: a quadratic search would not show here, but in the two tests
/// below, which would not end.
#[test]
fn twice_the_body_makes_twice_the_document() {
    let shapes: [fn(usize) -> String; 5] = [
        |n| format!("[{}0]", "0,".repeat(n)),
        |n| format!("[{}0]", r#"{"a":"\n","a":[1e5]},"#.repeat(n)),
        |n| format!("\"{}\"", r"\u00e9\ud800".repeat(n)),
        |n| {
            format!(
                "{{{}\"\":0}}",
                (0..n).map(|i| format!("\"{i}\":0,")).collect::<String>()
            )
        },
        |n| format!("{{{}\"\":0}}", "\"same\":[0],".repeat(n)),
    ];
    for (nth, shape) in shapes.into_iter().enumerate() {
        let work = |size| {
            let body = shape(size);
            let document = parse(body.as_bytes()).expect("valid");
            let written = compact(document.root()).len();
            document.value_count() + document.byte_count() + written
        };
        let ratio = work(20_000) as f64 / work(10_000) as f64;
        assert!(ratio <= 2.2, "shape {nth}: {ratio}");
    }
}

#[test]
fn wide_and_deep_bodies_are_read_and_written() {
    let wide: String = (0..200_000)
        .map(|i| format!("\"key {i}\":[{i}],"))
        .collect();
    let wide = format!("{{{wide}\"key 7\":null}}");
    let document = parse(wide.as_bytes()).expect("valid");
    assert_eq!(document.root().len(), 200_000);
    assert!(document.root().get("key 7").expect("present").is_null());
    assert!(canonical(document.root()).starts_with(r#"{"key 0":[0],"key 1":[1],"key 10":[10]"#));

    let mut limits = Limits::default();
    limits.max_depth = usize::MAX;
    let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
    let document = Document::parse(&deep, &limits).expect("valid");
    assert_eq!(compact(document.root()), deep);
}

/// Each level has an equal key: the dropped halves must not be read again at every level.
#[test]
fn equal_keys_at_every_level_are_merged_once() {
    let mut limits = Limits::default();
    limits.max_depth = usize::MAX;
    let levels = 100_000;
    let body = r#"{"a":0,"a":"#.repeat(levels) + "1" + &"}".repeat(levels);
    let document = Document::parse(&body, &limits).expect("valid");
    let text = r#"{"a":"#.repeat(levels) + "1" + &"}".repeat(levels);
    assert_eq!(compact(document.root()), text);
}
