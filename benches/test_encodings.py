"""Encodings beside another way to the same answer.

`rust` is the way that is promised to be fast, `reference` the other: a loop over single texts, the
count of the whole text, tiktoken with the same ranks.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
import tiktoken
from tokenizers import Tokenizer

from conversations import prose_and_code
from counters import write_vocabulary
from reference import bpe
from tokenctx import _core
from tokenctx.encodings import Encoding

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

Work = Callable[[], object]
Pair = tuple[Work, Work]


def new(text: str, count: Callable[[str], int]) -> Work:
    """Count `text` with another beginning each time, so that it is not remembered as a whole."""
    numbers = itertools.count()
    return lambda: count(f"{next(numbers)} {text}")


def batch(_: Path) -> Pair:
    """2,000 texts of 64 bytes, in one call and in a loop."""
    encoding, text = Encoding("o200k_base"), prose_and_code(128_000)
    texts = [text[start : start + 64] for start in range(0, len(text), 64)]
    return (
        functools.partial(encoding.count_batch, texts),
        lambda: [encoding.count(text) for text in texts],
    )


def limited(_: Path) -> Pair:
    """Whether 2 MB exceed 1,000 tokens, and their count."""
    encoding, text = Encoding("claude_v4_8"), prose_and_code(2_000_000)
    return (
        functools.partial(encoding.exceeds, text, 1_000),
        lambda: encoding.count(text) > 1_000,
    )


def rank_file(folder: Path) -> Pair:
    """64 KB in a vocabulary from a file, and in tiktoken's."""
    path, text = folder / "o200k.tiktoken", prose_and_code(64_000)
    path.write_bytes(_core.rank_file("o200k_base"))
    encoding = Encoding.from_tiktoken(path, split="o200k_base")
    oracle = tiktoken.Encoding(
        "o200k_base",
        pat_str=bpe.PATTERNS["o200k_base"],
        mergeable_ranks=bpe.ranks("o200k_base"),
        special_tokens={},
    )
    return new(text, encoding.count), new(text, lambda it: len(oracle.encode_ordinary(it)))


def tokenizer_json(folder: Path) -> Pair:
    """64 KB in the vocabulary of a `tokenizer.json`, and in that of tokenizers."""
    text = prose_and_code(64_000)
    write_vocabulary("o200k_base", folder)
    path = folder / "o200k_base.json"
    encoding, oracle = Encoding.from_tokenizer_json(path), Tokenizer.from_file(str(path))
    assert encoding.counted_by == "core"
    return new(text, encoding.count), new(text, lambda it: len(oracle.encode(it).ids))


GROUPS: dict[str, Callable[[Path], Pair]] = {
    "count-batch": batch,
    "count-limited": limited,
    "count-rank-file": rank_file,
    "count-tokenizer-json": tokenizer_json,
}


@pytest.mark.parametrize("implementation", ["rust", "reference"])
@pytest.mark.parametrize("group", GROUPS)
def test_encoding(
    benchmark: BenchmarkFixture, tmp_path: Path, group: str, implementation: str
) -> None:
    rust, reference = GROUPS[group](tmp_path)
    assert rust() == reference()
    benchmark.group = group
    work = rust if implementation == "rust" else reference
    benchmark.pedantic(work, rounds=30, warmup_rounds=1)  # type: ignore[no-untyped-call]
