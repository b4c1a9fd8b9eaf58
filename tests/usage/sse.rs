//! Streams are scaled alike however they are cut; the numbers are compared in Python.
use serde_json::Value;
use tokenctx::usage::scale::{Rounding, Scale};
use tokenctx::usage::sse::{MAX_EVENT_BYTES, Rewriter};

fn streams() -> Vec<(String, Vec<u8>)> {
    let text = include_str!("../data/usage/streams.json");
    let cases: Value = serde_json::from_str(text).expect("the cases are JSON");
    let streams = cases["streams"].as_array().expect("a list");
    let line = |line: &Value| line.as_str().unwrap_or_default().to_owned() + "\n";
    let stream = |case: &Value| {
        let lines = case["lines"].as_array().expect("a list").iter();
        (
            case["name"].to_string(),
            lines.map(line).collect::<String>().into(),
        )
    };
    streams.iter().map(stream).collect()
}

fn rewriter() -> Rewriter {
    let scale = Scale::new(vec![(128_000, 200_000)], Rounding::Floor);
    Rewriter::new(scale.expect("the points rise"), Some(77))
}

fn scaled(chunks: &[&[u8]]) -> Vec<u8> {
    let mut stream = rewriter();
    let mut out = Vec::new();
    for chunk in chunks {
        out.extend_from_slice(&stream.push(chunk));
    }
    out.extend(stream.finish());
    out
}

#[test]
fn every_cut_gives_the_same_bytes() {
    for (name, stream) in streams() {
        let whole = scaled(&[&stream]);
        for place in 0..=stream.len() {
            let (before, behind) = stream.split_at(place);
            assert_eq!(scaled(&[before, behind]), whole, "{name} at {place}");
            assert_eq!(scaled(&[before, b"", behind]), whole, "{name} at {place}");
        }
    }
}

#[test]
fn what_is_held_back_is_bounded() {
    let mut stream = rewriter();
    let chunk = [b'x'; 1000];
    let mut sent = 0;
    for pushed in 1..=2 * MAX_EVENT_BYTES / chunk.len() {
        sent += stream.push(&chunk).len();
        assert!(pushed * chunk.len() - sent <= MAX_EVENT_BYTES);
    }
    assert_eq!(stream.long_event_count(), 1);
    assert!(stream.finish().is_empty());
}

#[test]
fn a_scale_must_rise() {
    for points in [
        vec![],
        vec![(0, 1)],
        vec![(2, 2), (2, 3)],
        vec![(2, 2), (3, 1)],
    ] {
        assert_eq!(Scale::new(points, Rounding::Floor), None);
    }
}

#[test]
fn no_number_overflows() {
    for rounding in [Rounding::Floor, Rounding::Nearest, Rounding::Ceil] {
        let steepest = Scale::new(vec![(1, u64::MAX)], rounding).expect("it rises");
        assert_eq!(steepest.tokens(u64::MAX), u64::MAX);
        assert_eq!(steepest.after(u64::MAX, u64::MAX), 0);
        let flattest = Scale::new(vec![(u64::MAX, 1)], rounding).expect("it rises");
        assert_eq!(flattest.tokens(u64::MAX), 1);
    }
}
