//! Streams of answers: the first byte of the input says where the rest is cut, which makes no difference.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tokenctx::usage::events::Documents;
use tokenctx::{Rewriter, Rounding, Scale};

fn documents(chunks: &[&[u8]]) -> (Vec<Vec<u8>>, bool) {
    let mut stream = Documents::default();
    let mut found: Vec<_> = chunks.iter().flat_map(|chunk| stream.push(chunk)).collect();
    found.extend(stream.finish());
    (found, stream.has_lost())
}

fn scaled(points: &[(u64, u64)], chunks: &[&[u8]]) -> Vec<u8> {
    let scale = Scale::new(points.to_vec(), Rounding::Floor).expect("the points rise");
    let mut stream = Rewriter::new(scale, Some(77));
    let mut out = Vec::new();
    for chunk in chunks {
        out.extend_from_slice(&stream.push(chunk));
    }
    out.extend(stream.finish());
    out
}

fuzz_target!(|input: &[u8]| {
    let Some((&cut, stream)) = input.split_first() else {
        return;
    };
    let (before, behind) = stream.split_at(usize::from(cut).min(stream.len()));
    assert_eq!(documents(&[stream]), documents(&[before, behind]));
    let points = [(128_000, 200_000)];
    let whole = scaled(&points, &[stream]);
    assert_eq!(scaled(&points, &[before, behind]), whole);
    let bytes: Vec<&[u8]> = stream.chunks(1).collect();
    assert_eq!(documents(&bytes), documents(&[stream]));
    assert_eq!(scaled(&points, &bytes), whole);
});
