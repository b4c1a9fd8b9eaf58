//! Gemma's encoding against recorded counts of SentencePiece, and against what must hold for any text.

use serde_json::Value;
use tokenctx::encoding::Encoding;

fn gemma() -> Encoding {
    Encoding::named("gemma").expect("a known name")
}

#[test]
fn recorded_counts_hold() {
    let recorded: Value =
        serde_json::from_str(include_str!("../data/gemma/counts.json")).expect("valid JSON");
    let rows = recorded["counts"].as_array().expect("rows");
    assert!(rows.len() > 1500);
    for row in rows {
        let text = row[0].as_str().expect("a text");
        assert_eq!(Some(gemma().count(text)), row[1].as_u64(), "{text:?}");
    }
}

#[test]
fn a_limit_is_met_wherever_the_text_is_cut() {
    for shift in 0..64 {
        let text = "y".repeat(shift) + &"<td>\u{10fffd} ▁x 12\n\n</td>".repeat(200);
        let count = gemma().count(&text);
        for limit in [0, 1, count / 3, count - 1, count, count + 1] {
            assert_eq!(gemma().count_at_most(&text, limit), count.min(limit + 1));
        }
    }
}

#[test]
fn an_unknown_character_is_its_bytes_and_parts_its_neighbours() {
    for (character, bytes) in [('\u{e0100}', 4), ('\u{a66e}', 3), ('\u{a0}', 2)] {
        let text = format!("one{character}two");
        let parts = gemma().count("one") + gemma().count("two");
        let known = gemma().count(&character.to_string()) == 1;
        assert!(known || gemma().count(&text) == parts + bytes, "{text:?}");
    }
}

#[test]
fn its_tokens_have_no_numbers() {
    assert_eq!(gemma().encode("a"), None);
    assert_eq!(gemma().tokens(), None);
    assert_eq!(gemma().name(), "gemma");
}
