//! Rows of a batch, one a line: each has the answer that it has alone, whatever stands beside it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use tokenctx::batch::{Row, Threads, counts, engine, estimates, lines};
use tokenctx::{Body, Call, Encoding, Engine, Settings};

static ENGINE: LazyLock<Engine> =
    LazyLock::new(|| engine(b"sixteen bytes or more", Settings::default()));

fuzz_target!(|input: &[u8]| {
    let found: Vec<&[u8]> = lines(input).collect();
    let rows: Vec<Row<'_>> = found.iter().map(|line| Ok(Body::Bytes(line))).collect();
    let call = Call::default();
    let one = Threads::new(1).expect("above 0");
    let together = estimates(&ENGINE, &rows, &call, one);
    assert_eq!(together.len(), rows.len());
    for (line, row) in found.iter().zip(&together) {
        let alone = estimates(&ENGINE, &[Ok(Body::Bytes(line))], &call, one);
        assert_eq!(format!("{:?}", alone[0]), format!("{row:?}"));
        if let Ok(row) = row {
            assert!(row.low <= row.tokens && row.tokens <= row.high);
        }
    }
    let encoding = Encoding::named("o200k_base").expect("of the crate");
    let texts: Vec<_> = found.iter().map(|line| Ok(*line)).collect();
    for (text, count) in found.iter().zip(counts(&encoding, &texts, one)) {
        assert_eq!(count, Ok(encoding.count(&String::from_utf8_lossy(text))));
    }
});
