//! Estimates, records or rewrites a file, for instruction counts under valgrind:
//! `call_file <estimate|next_turn|record|scale_stream> <file> <times>`.
//!
//! The file has a body and, on the second line, that of its next turn; or it is a stream of events.

use std::{env, fs, process};
use tokenctx::bpe::fix_hashes;
use tokenctx::{Alone, Answer, Billed, Body, Call, Engine, Rewriter, Rounding, Scale, Settings};

const CHUNK_BYTES: usize = 4096;

fn engine() -> Engine {
    Engine::new(b"sixteen bytes or more", Settings::default())
}

fn estimate(engine: &Engine, body: &str) -> u64 {
    let body = Body::Bytes(body.as_bytes());
    match engine.estimate(&body, &Call::default(), 0, &Alone) {
        Ok(Answer::Estimate(estimate)) => estimate.tokens,
        _ => panic!("the body is no request"),
    }
}

fn record(engine: &Engine, body: &str) -> u64 {
    let billed = Billed {
        input_tokens: 200_000,
        output_tokens: 100,
        ..Billed::default()
    };
    let body = Body::Bytes(body.as_bytes());
    let record = engine.record(&body, billed, None, &Call::default(), &Alone);
    record
        .expect("a request")
        .expect("with messages")
        .expected
        .tokens
}

fn scale_stream(stream: &[u8]) -> u64 {
    let scale = Scale::new(vec![(128_000, 200_000)], Rounding::Floor).expect("a line that rises");
    let mut rewriter = Rewriter::new(scale, None);
    let sent: usize = stream
        .chunks(CHUNK_BYTES)
        .map(|it| rewriter.push(it).len())
        .sum();
    (sent + rewriter.finish().len()) as u64
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [operation, path, times] = arguments.as_slice() else {
        eprintln!("usage: call_file <estimate|next_turn|record|scale_stream> <file> <times>");
        process::exit(2);
    };
    fix_hashes();
    let text = fs::read_to_string(path).expect("a file of UTF-8");
    let (body, next) = text.split_once('\n').unwrap_or((&text, ""));
    let times: usize = times.parse().expect("a number");
    let engine = engine();
    let told: u64 = match operation.as_str() {
        "estimate" => (0..times).map(|_| estimate(&engine, body)).sum(),
        "next_turn" => {
            record(&engine, body);
            (0..times).map(|_| estimate(&engine, next)).sum()
        }
        "record" => (0..times).map(|_| record(&engine, body)).sum(),
        "scale_stream" => (0..times).map(|_| scale_stream(text.as_bytes())).sum(),
        _ => panic!("no operation is called {operation:?}"),
    };
    println!("{told}");
}
