//! The story of an estimate and of a record, told by the core alone.
use tokenctx::json::{Anomalies, Builder, Document, Limits};
use tokenctx::{
    Alone, Answer, Billed, Body, Call, Engine, Error, Estimate, Record, ReplyFault, Settings,
    Source, Wanted,
};

const SECRET: &[u8] = b"sixteen bytes or more";
const BILLED: Billed = Billed {
    input_tokens: 1_000,
    output_tokens: 20,
    reasoning_tokens: 0,
};
const REPLY: &str = r#"{"role": "assistant", "content": "At dusk it is red."}"#;
const SENTENCE: &str = "The quick brown fox jumps over the lazy dog. ";

fn engine() -> Engine {
    Engine::new(SECRET, Settings::default())
}

/// A request to a model of OpenAI with these messages.
fn body(messages: &[&str]) -> String {
    let messages = messages.join(", ");
    format!(r#"{{"model": "gpt-4o", "messages": [{messages}]}}"#)
}

fn user(text: &str) -> String {
    format!(r#"{{"role": "user", "content": "{text}"}}"#)
}

fn answer(engine: &Engine, body: &str, call: &Call<'_>, wanted: usize) -> Answer {
    let body = Body::Bytes(body.as_bytes());
    let answer = engine.estimate(&body, call, wanted, &Alone);
    answer.expect("the body is JSON")
}

fn estimate(engine: &Engine, body: &str, call: &Call<'_>) -> Estimate {
    match answer(engine, body, call, 0) {
        Answer::Estimate(estimate) => estimate,
        Answer::Wanted(_) => panic!("nothing was asked for"),
    }
}

fn record(engine: &Engine, body: &str, call: &Call<'_>) -> Option<Record> {
    let (body, reply) = (Body::Bytes(body.as_bytes()), Body::Bytes(REPLY.as_bytes()));
    let record = engine.record(&body, BILLED, Some(&reply), call, &Alone);
    record.expect("the body is JSON")
}

fn statistic(engine: &Engine, name: &str) -> u64 {
    let all = engine.statistics().0;
    let found = all.iter().find(|(key, _)| *key == name);
    found.expect("a number of this name").1
}

#[test]
fn a_recorded_request_is_exact_and_the_next_turn_a_delta() {
    let (engine, call) = (engine(), Call::default());
    let first = body(&[&user("Why is the sky blue?")]);
    let before = estimate(&engine, &first, &call);
    assert_eq!((before.source, before.known_tokens), (Source::Estimated, 0));
    let recorded = record(&engine, &first, &call).expect("it was billed");
    assert_eq!((recorded.expected, recorded.reply_fault), (before, None));
    let again = estimate(&engine, &first, &call);
    assert_eq!((again.source, again.tokens), (Source::Exact, 1_000));
    let next = body(&[&user("Why is the sky blue?"), REPLY, &user("And at noon?")]);
    let next = estimate(&engine, &next, &call);
    assert_eq!((next.source, next.new_message_count), (Source::Delta, 1));
    assert!((1_020..1_040).contains(&next.known_tokens));
    let counts = ["estimated", "exact", "delta", "recorded"].map(|it| statistic(&engine, it));
    assert_eq!(counts, [1, 1, 1, 1]);
}

#[test]
fn a_body_that_begins_as_a_recorded_one_is_read_from_there() {
    let (engine, call) = (engine(), Call::default());
    // What is said again is read again, so each turn says something of its own.
    let [one, two, three] =
        ["One", "Two", "Three"].map(|it| user(&(it.to_owned() + &SENTENCE.repeat(200))));
    let turns = [&*one, REPLY, &*two, REPLY, &*three];
    assert!(record(&engine, &body(&turns), &call).is_some());
    let go_on = user("Go on.");
    let more = [&turns[..], &[REPLY, &go_on]].concat();
    let resumed = estimate(&engine, &body(&more), &call);
    assert_eq!(
        (resumed.source, resumed.new_message_count),
        (Source::Delta, 1)
    );
    assert_eq!(statistic(&engine, "resumed"), 1);
    // With other white space between them its messages are the same bytes.
    let spaced = estimate(&engine, &body(&more).replace("}, {", "},  {"), &call);
    assert_eq!(statistic(&engine, "resumed"), 2);
    // With other white space in them they are not, and it is read in whole.
    let whole = estimate(
        &engine,
        &body(&more).replace("{\"role\"", "{ \"role\""),
        &call,
    );
    assert_eq!(statistic(&engine, "resumed"), 2);
    assert_eq!((&resumed, &resumed), (&spaced, &whole));
}

#[test]
fn an_edited_history_is_a_difference() {
    let (engine, call) = (engine(), Call::default());
    let (hello, long, more) = (user("Hello"), user(&SENTENCE.repeat(50)), user("More?"));
    let turns = [&*hello, REPLY, &*long, REPLY, &*more];
    assert!(record(&engine, &body(&turns), &call).is_some());
    let edited = estimate(&engine, &body(&turns[2..]), &call);
    assert_eq!(edited.source, Source::Delta);
    assert!(edited.assumptions.contains("edited_history"));
}

#[test]
fn a_tenant_knows_nothing_of_another() {
    let engine = engine();
    let acme = Call {
        tenant: Some(b"acme"),
        ..Call::default()
    };
    let first = body(&[&user("Why is the sky blue?")]);
    assert!(record(&engine, &first, &acme).is_some());
    assert_eq!(estimate(&engine, &first, &acme).source, Source::Exact);
    let other = estimate(&engine, &first, &Call::default());
    assert_eq!(other.source, Source::Estimated);
}

#[test]
fn what_one_process_recorded_another_takes_over() {
    let (here, there) = (engine(), engine());
    let call = Call {
        wants_entries: true,
        ..Call::default()
    };
    let first = body(&[&user("Why is the sky blue?")]);
    let recorded = record(&here, &first, &call).expect("it was billed");
    let next = body(&[&user("Why is the sky blue?"), REPLY, &user("And at noon?")]);
    let Answer::Wanted(Wanted { root, prefixes, .. }) = answer(&there, &next, &call, 16) else {
        panic!("an answer stands behind what is known: others may know more");
    };
    let entry = recorded.entries.last().expect("the prefix with the reply");
    assert_eq!(entry.root, root);
    assert!(prefixes.contains(&entry.prefix));
    let insert = |sealed: &[u8]| there.insert(None, entry.prefix, sealed, 0.0, 0);
    assert!(!insert(&entry.sealed[1..]));
    assert!(insert(&entry.sealed));
    let known = estimate(&there, &next, &call);
    assert_eq!(known.source, Source::Delta);
    assert_eq!(known.tokens, estimate(&here, &next, &call).tokens);
}

#[test]
fn an_export_is_known_to_another_engine() {
    let (here, there) = (engine(), engine());
    let call = Call {
        wants_entries: true,
        ..Call::default()
    };
    let first = body(&[&user("Why is the sky blue?")]);
    assert!(record(&here, &first, &call).is_some());
    let imported = there.import::<Alone>(&here.export::<Alone>(0.0), 0.0);
    assert_eq!(imported, Ok(2));
    assert_eq!(estimate(&there, &first, &call).source, Source::Exact);
}

/// The document of `body` with one message of `text`, built as from objects.
fn built(text: &str) -> Result<Document<'static>, Error> {
    let mut builder = Builder::new(&Limits::default());
    builder.begin_object()?;
    builder.key("model")?;
    builder.string("gpt-4o")?;
    builder.key("messages")?;
    builder.begin_array()?;
    builder.begin_object()?;
    builder.key("role")?;
    builder.string("user")?;
    builder.key("content")?;
    builder.string(text)?;
    (0..3).for_each(|_| builder.end());
    Ok(builder.finish())
}

#[test]
fn bytes_text_and_objects_are_one() {
    let (engine, call) = (engine(), Call::default());
    let text = body(&[&user("Grüße")]);
    let bodies = [
        Body::Bytes(text.as_bytes()),
        Body::Text(&text, Anomalies::default()),
        Body::Document(built("Grüße").expect("few values")),
    ];
    let answers = bodies.map(|it| engine.estimate(&it, &call, 0, &Alone));
    assert!(answers[0].is_ok());
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
}

#[test]
fn what_is_not_billed_or_no_json_is_not_remembered() {
    let (engine, call) = (engine(), Call::default());
    let text = body(&[&user("Why?")]);
    let (fine, broken) = (
        Body::Bytes(text.as_bytes()),
        Body::Bytes(&text.as_bytes()[..20]),
    );
    let failed = engine.record(&fine, Billed::default(), None, &call, &Alone);
    assert_eq!(failed, Ok(None));
    assert!(engine.estimate(&broken, &call, 0, &Alone).is_err());
    assert!(engine.count(&broken, &call, &Alone).is_err());
    let of_body = engine.record(&broken, BILLED, None, &call, &Alone);
    assert!(of_body.is_err());
    assert_eq!((engine.len(), statistic(&engine, "recorded")), (0, 0));
    let of_reply = engine.record(&fine, BILLED, Some(&broken), &call, &Alone);
    let recorded = of_reply.expect("the body is JSON").expect("it was billed");
    assert_eq!(recorded.reply_fault, Some(ReplyFault::Unreadable));
}
