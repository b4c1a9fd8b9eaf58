"""Encodings beside another way to the same answer.

`rust` is the way that is promised to be fast, `reference` the other: a loop over single texts, the
count of the whole text, tiktoken with the same ranks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
import tiktoken

from conversations import prose_and_code
from reference import bpe
from tokenctx import Encoding, _core

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

Work = Callable[[], object]
Pair = tuple[Work, Work]


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
    return functools.partial(encoding.count, text), lambda: len(oracle.encode_ordinary(text))


GROUPS: dict[str, Callable[[Path], Pair]] = {
    "count-batch": batch,
    "count-limited": limited,
    "count-rank-file": rank_file,
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
