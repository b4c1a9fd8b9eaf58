//! Claude's families against recorded counts of `ctok`, and against what must hold for any text.

use serde_json::Value;
use tokenctx::claude::ClaudeFamily;

fn recorded() -> Value {
    serde_json::from_str(include_str!("../data/claude/counts.json")).expect("valid JSON")
}

#[test]
fn recorded_counts_hold() {
    let recorded = recorded();
    let rows = recorded["counts"].as_array().expect("rows");
    assert!(rows.len() > 5000);
    for row in rows {
        let text = row[0].as_str().expect("a text");
        for (family, column) in ClaudeFamily::ALL.into_iter().zip(1..) {
            assert_eq!(
                Some(family.count(text)),
                row[column].as_u64(),
                "{family:?} {text:?}"
            );
        }
    }
}

#[test]
fn names_lead_back() {
    for family in ClaudeFamily::ALL {
        assert_eq!(ClaudeFamily::named(family.name()), Some(family));
    }
    assert_eq!(ClaudeFamily::named("claude"), None);
}

#[test]
fn the_frame_is_what_is_left_of_a_known_request() {
    let frames = ClaudeFamily::ALL.map(|family| family.count("a") + family.frame_tokens());
    assert_eq!(frames, [8, 12, 7]);
}

/// Long runs of what would overflow a memory of 128 bytes, a table of lengths, or the stack.
#[test]
fn long_runs_cost_what_their_parts_cost() {
    let family = ClaudeFamily::V3;
    // Pieces of 16 spaces, of 128 line feeds and of 128 dots are the longest of their kind.
    for (atom, period) in [(" ", 16), (".", 128), ("1", 3), ("中", 1)] {
        let count = |times: usize| family.count(&format!("a{}a", atom.repeat(times)));
        let (short, long) = (period * 600, period * 60_000);
        assert_eq!(
            count(long) - count(short),
            (60_000 - 600) as u64,
            "{atom:?}"
        );
    }
    let trailing = |times: usize| family.count(&format!("a{}", "\n".repeat(times)));
    assert_eq!(trailing(1_280_000) - trailing(128_000), 9_000);
}

#[test]
fn a_limit_is_met_wherever_the_text_is_cut() {
    let joined = [
        "e\u{301}",
        "\u{e4d}\u{7}\u{e32}",
        "x\u{301}\u{327}",
        "'s",
        " ",
        "\n",
        "a\0b",
    ];
    for family in ClaudeFamily::ALL {
        for shift in 0..64 {
            let text = "y".repeat(shift) + &joined.concat().repeat(500);
            let count = family.count(&text);
            for limit in [0, count / 3, count / 2, count - 1, count] {
                let expected = count.min(limit + 1);
                assert_eq!(family.count_at_most(&text, limit), expected, "{family:?}");
            }
        }
    }
}

#[test]
fn words_are_one_cell_each() {
    for family in ClaudeFamily::ALL {
        let word = family.count("tokenizer naïveté");
        for times in [2, 10, 1000] {
            let text = vec!["tokenizer naïveté"; times].join(" ");
            assert_eq!(family.count(&text), word * times as u64, "{family:?}");
        }
    }
}

#[test]
fn a_normal_text_counts_as_its_normal_form() {
    let family = ClaudeFamily::V3;
    for (text, normal) in [
        ("e\u{301}", "é"),
        ("a\r\nb", "a\nb"),
        ("a\u{a0}b", "a b"),
        ("“it’s”", "\"it's\""),
        ("a\u{e000}b\u{7f}c\0d", "abc d"),
        ("\u{e4d}\u{7}\u{e32}", "\u{e33}"),
        ("\u{1100}\u{1161}\u{11a8}", "각"),
        ("x\u{301}\u{327}", "x\u{327}\u{301}"),
    ] {
        assert_eq!(family.count(text), family.count(normal), "{text:?}");
    }
}
