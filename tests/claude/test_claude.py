"""Counts of Claude's families are those of ctok, but where four measured pieces stand."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenctx
from reference import claude, count_tokens
from strategies import ASSIGNED

if TYPE_CHECKING:
    from collections.abc import Iterable

RECORDED = json.loads((Path(__file__).parents[1] / "data/claude/counts.json").read_text("utf-8"))
FAMILIES: list[Any] = RECORDED["columns"][1:]
VERSIONS = {"claude_v3": "3.0", "claude_v4_7": "4.7", "claude_v4_8": "4.8"}
MARKERS = dict.fromkeys(range(0xD800, 0xD804))
PIECES = sorted({text.translate(MARKERS) for text in claude.vocabulary("v3").pieces})
MEASURED = ('"]}', ')"}', '."}', "[]}")
ATOMS = sorted({text for text, *_ in RECORDED["counts"] if len(text) <= 3})
CHARACTERS = [chr(first) for first in claude.kind_ranges()[0]]
"""The first of every range of one kind."""

known = st.sampled_from(ATOMS) | st.sampled_from(CHARACTERS) | st.sampled_from(PIECES)
repeated = st.tuples(known, st.integers(1, 40)).map(lambda pair: pair[0] * pair[1])
texts = st.lists(known | st.text(ASSIGNED, max_size=4) | repeated, max_size=8).map("".join)


@pytest.mark.parametrize("family", FAMILIES)
def test_recorded_counts_hold(implementation: Any, family: Any) -> None:
    column = RECORDED["columns"].index(family)
    wrong = [
        (row[0], row[column])
        for row in RECORDED["counts"]
        if implementation.count_tokens(row[0], encoding=family) != row[column]
    ]
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=400)
@given(text=texts)
def test_the_core_equals_the_reference(family: Any, text: str) -> None:
    assert tokenctx.count_tokens(text, encoding=family) == count_tokens(text, encoding=family)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_pieces_of_a_long_text_are_remembered_far_enough(implementation: Any, family: Any) -> None:
    # A piece of 128 bytes is the longest; the text is longer than what the core keeps of it.
    for atom in (".", "=", "\n", " ", "ing", "x.", "9", "中", "Я", "'"):
        for times in (127, 128, 129, 255, 256, 257, 1000):
            text = "a" + atom * times + "b"
            counted = implementation.count_tokens(text, encoding=family)
            assert counted == claude.count(text, family)


def test_ends_of_json_count_as_they_are_billed(implementation: Any) -> None:
    counts = {
        text: implementation.count_tokens(text, encoding="claude_v3")
        for text in ('for."}}, "r', 'in)"}}, "r', 'x"]}}</f', "[]}}</f")
    }
    assert counts == {'for."}}, "r': 5, 'in)"}}, "r': 5, 'x"]}}</f': 4, "[]}}</f": 3}


@pytest.mark.parametrize("family", FAMILIES)
def test_bytes_and_lone_surrogates_count_as_other_text(implementation: Any, family: Any) -> None:
    def count(text: str | bytes) -> Any:
        return implementation.count_tokens(text, encoding=family)

    assert count(b"caf\xc3\xa9 \xff") == count("café \ufffd")
    assert count("a\ud83db") == count("a\ufffdb")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_has_no_tokens_to_show(family: Any) -> None:
    with pytest.raises(NotImplementedError, match=f"{family} counts tokens but has none to show"):
        tokenctx.encodings.encode("text", encoding=family)


def test_an_unknown_name_is_answered_with_all_names() -> None:
    name: Any = "claude_v5"
    known = r"gpt2, .*, qwen2, claude_v3, claude_v4_7, claude_v4_8, gemma$"
    with pytest.raises(ValueError, match=known):
        tokenctx.count_tokens("text", encoding=name)


# ------------------------------------------------------------------------------ ctok itself


@pytest.fixture(scope="module")
def ctok() -> Any:
    """The package that the counts are those of, on an interpreter with its Unicode."""
    if not (3, 12) <= sys.version_info < (3, 14):
        pytest.skip("ctok needs Python 3.12; Unicode 15 is that of Python 3.12 and 3.13")
    return pytest.importorskip("ctok", reason="pip install ctok==1.3.0 compares with ctok itself")


def differences(ctok: Any, family: Any, cases: Iterable[str]) -> list[tuple[str, int, int]]:
    """Text, count and count of ctok where the two are not the same."""
    frame = claude.FAMILIES[family].frame_tokens
    found = []
    for text in cases:
        counted = tokenctx.count_tokens(text, encoding=family)
        expected = ctok.token_count(text, VERSIONS[family]) - frame
        if counted != expected and not any(piece in text for piece in MEASURED):
            found.append((text, counted, expected))
    return found


def cases_of(name: str) -> Iterable[str]:
    """A set of texts by name."""
    scalars = [chr(c) for c in (*range(0xD800), *range(0xE000, sys.maxunicode + 1))]
    if name == "every scalar value":
        return scalars
    if name == "every character of the basic plane between letters and spaces":
        return [text for c in scalars[:0xF800] for text in (f"x{c}y", f"x {c} y")]
    if name == "every piece, bare and in between":
        frames = ("a{}b", "x {} y", " {}", "{} ", "中{}文", "1{}2", ", {} ,")
        cased = sorted({text for piece in PIECES for text in (piece, piece.title())})
        return cased + [frames[at % 7].format(text) for at, text in enumerate(cased)]
    if name == "every pair of kinds":
        return [text for a in CHARACTERS[::200] for b in ATOMS[::3] for text in (a + b, b + a)]
    sources = sorted(Path(importlib.import_module("json").__file__ or "").parent.glob("*.py"))
    return [path.read_text("utf-8") for path in sources]


CASES = [
    "every scalar value",
    "every character of the basic plane between letters and spaces",
    "every piece, bare and in between",
    "every pair of kinds",
    "sources",
]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", CASES)
def test_counts_are_those_of_ctok(ctok: Any, family: Any, name: str) -> None:
    assert not differences(ctok, family, cases_of(name))


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=500)
@given(text=texts)
def test_any_text_counts_as_ctok_counts_it(ctok: Any, family: Any, text: str) -> None:
    assert not differences(ctok, family, [text])
