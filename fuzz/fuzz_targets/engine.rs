//! Estimates and records of arbitrary bodies, by the core alone.
//!
//! An input is a body, the body of the next turn and an answer, parted by zero bytes. Whatever they hold, nothing
//! panics; bounds hold the estimate; a recorded request is exact; what another engine takes over it knows.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use tokenctx::{Alone, Answer, Billed, Body, Call, Engine, Estimate, Settings, Source};

/// Prefixes that another process is asked for at once.
const WANTED: usize = 16;

fn engine() -> Engine {
    let settings = Settings {
        is_learning: true,
        capacity_bytes: 1 << 16,
        ..Settings::default()
    };
    Engine::new(b"sixteen bytes or more", settings)
}

/// One for all inputs, so that what earlier ones recorded is known; and one that knows what it takes over.
static HERE: LazyLock<Engine> = LazyLock::new(engine);
static THERE: LazyLock<Engine> = LazyLock::new(engine);

fn estimate(engine: &Engine, body: &Body<'_>, wanted: usize) -> Option<Estimate> {
    match engine.estimate(body, &Call::default(), wanted, &Alone) {
        Ok(Answer::Estimate(estimate)) => {
            assert!(estimate.low <= estimate.tokens && estimate.tokens <= estimate.high);
            Some(estimate)
        }
        Ok(Answer::Wanted(wanted)) => {
            assert!(wanted.prefixes.len() <= WANTED);
            assert!(!wanted.prefixes.is_empty() || wanted.learned.is_some());
            None
        }
        Err(_) => None,
    }
}

fuzz_target!(|input: &[u8]| {
    let mut bodies = input.splitn(3, |&byte| byte == 0).map(Body::Bytes);
    let Some(body) = bodies.next() else { return };
    let next = bodies.next();
    let reply = bodies.next();
    let call = Call {
        wants_entries: true,
        ..Call::default()
    };
    let billed = Billed {
        input_tokens: 1 + input.len() as u64,
        output_tokens: 20,
        reasoning_tokens: 5,
    };
    estimate(&HERE, &body, 0);
    let _ = HERE.count(&body, &call, &Alone);
    if let Ok(Some(record)) = HERE.record(&body, billed, reply.as_ref(), &call, &Alone) {
        let again = estimate(&HERE, &body, 0).expect("it was read before");
        assert_eq!(again.source, Source::Exact);
        assert_eq!(again.tokens, billed.input_tokens);
        for entry in record.entries {
            let is_total = THERE.insert(None, entry.prefix, &entry.sealed, 0.0, 0);
            assert!(is_total != THERE.insert_learned(entry.prefix, &entry.sealed));
        }
        let taken_over = estimate(&THERE, &body, WANTED);
        assert!(taken_over.is_none_or(|it| it.source == Source::Exact));
    }
    if let Some(next) = next {
        estimate(&HERE, &next, WANTED);
        let _ = HERE.record(&next, billed, None, &call, &Alone);
    }
    assert!(THERE.import::<Alone>(input, 0.0).is_err());
});
