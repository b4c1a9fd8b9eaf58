"""Counts of Gemma's encoding are those of SentencePiece."""

from __future__ import annotations

import json
import zlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenctx

if TYPE_CHECKING:
    from tokenizers import Tokenizer

HERE = Path(__file__).parents[1]
COUNTS = json.loads((HERE / "data/gemma/counts.json").read_text("utf-8"))["counts"]
VOCABULARY = HERE.parent / "src/bpe/gemma/gemma_vocabulary.z"
RUNS = [character * length for character in "\n\t" for length in range(1, 32)]
SPACES = ["▁" * length for length in range(2, 32)]
ATOMS = sorted({text for text, _ in COUNTS if len(text) <= 6})
SIZE = 255_470
UNKNOWN = "<unk>"
TEXT = st.characters(exclude_categories=["Cs"])


@cache
def oracle() -> Tokenizer:
    """The same pieces in another engine: joins of characters in the order of the pieces."""
    text = zlib.decompress(VOCABULARY.read_bytes()).decode().replace(" ", "▁")
    pieces = text.split("\n")
    assert len(pieces) == SIZE
    known = set(pieces)
    splits = ((piece, at) for piece in pieces for at in range(1, len(piece)))
    pairs = ((piece[:at], piece[at:]) for piece, at in splits)
    merges = [pair for pair in pairs if known.issuperset(pair)]
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    numbers = {piece: number for number, piece in enumerate([*bytes_, UNKNOWN, *pieces])}
    model = tokenizers.models.BPE(numbers, merges, byte_fallback=True, unk_token=UNKNOWN)
    made = tokenizers.Tokenizer(model)
    made.normalizer = tokenizers.normalizers.Replace(" ", "▁")
    made.add_tokens([tokenizers.AddedToken(text, normalized=False) for text in RUNS])
    made.add_tokens([tokenizers.AddedToken(text, normalized=True) for text in SPACES])
    return made


def test_recorded_counts_hold() -> None:
    wrong = [
        (text, tokens)
        for text, tokens in COUNTS
        if tokenctx.count_tokens(text, encoding="gemma") != tokens
    ]
    assert not wrong
    assert len(COUNTS) > 1500


@pytest.mark.slow
@settings(max_examples=1000)
@given(st.lists(st.sampled_from(ATOMS) | st.text(TEXT, max_size=6), max_size=12).map("".join))
def test_another_engine_counts_the_same(text: str) -> None:
    # Tags of HTML are tokens as they stand, which the other engine is not told.
    text = text.replace("<", "(")
    counted = tokenctx.count_tokens(text, encoding="gemma")
    assert counted == len(oracle().encode(text, add_special_tokens=False).ids)


def test_gemini_is_counted_with_it() -> None:
    texts = ["Why is the sky blue?", "日本語の文章をトークンに分割する方法。", "x" * 5000]
    for text in texts:
        body = {"contents": [{"role": "user", "parts": [{"text": text}]}]}
        count = tokenctx.HybridTokenEstimator().count_request(body, model="gemini-2.0-flash")
        assert count.encoding == "gemma"
        assert count.tokens == tokenctx.count_tokens(text, encoding="gemma")
