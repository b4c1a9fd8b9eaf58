"""Counts of text are those of tiktoken, on every input."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenctx
from reference import bpe
from texts import ENCODINGS, HOSTILE, published, reference_texts, texts
from tokenctx import _core

if TYPE_CHECKING:
    from collections.abc import Callable

    import tiktoken

COUNT = 2000


@pytest.fixture(scope="module", params=ENCODINGS)
def encoding(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def oracle(encoding: Any) -> tiktoken.Encoding:
    """tiktoken with the patterns that it publishes and the ranks that we ship."""
    return published(encoding)[0]


def ordinary(oracle: tiktoken.Encoding, text: str) -> list[int]:
    return oracle.encode_ordinary(text)


def test_the_ranks_are_the_published_ones(encoding: Any) -> None:
    _, expected = published(encoding)
    assert hashlib.sha256(_core.rank_file(encoding)).hexdigest() == expected


def test_the_reference_splits_by_the_published_pattern(
    encoding: Any, oracle: tiktoken.Encoding
) -> None:
    assert bpe.PATTERNS[encoding] == oracle._pat_str


@pytest.mark.slow
def test_generated_texts_are_encoded_as_by_tiktoken(
    encoding: Any, oracle: tiktoken.Encoding
) -> None:
    compared = 0

    @settings(max_examples=COUNT)
    @given(texts)
    def compare(text: str) -> None:
        nonlocal compared
        tokens = ordinary(oracle, text)
        assert tokenctx.encodings.encode(text, encoding=encoding) == tokens
        assert tokenctx.count_tokens(text, encoding=encoding) == len(tokens)
        compared += 1

    compare()
    assert compared >= COUNT


@pytest.mark.slow
@settings(max_examples=300)
@given(text=reference_texts)
def test_the_reference_encodes_alike(encoding: Any, text: str) -> None:
    tokens = tokenctx.encodings.encode(text, encoding=encoding)
    assert bpe.encode(text, encoding=encoding) == tokens
    assert bpe.count_tokens(text, encoding=encoding) == len(tokens)


@settings(max_examples=300)
@given(
    content=st.binary(max_size=60)
    | reference_texts.map(lambda text: text.encode("utf-8", "replace"))
)
def test_bytes_are_read_as_utf_8(encoding: Any, content: bytes) -> None:
    text = content.decode("utf-8", "replace")
    expected = tokenctx.encodings.encode(text, encoding=encoding)
    kinds: tuple[Any, ...] = (bytes, bytearray, memoryview)
    for kind in kinds:
        assert tokenctx.encodings.encode(kind(content), encoding=encoding) == expected
    assert bpe.encode(content, encoding=encoding) == expected


@settings(max_examples=300)
@given(text=texts)
def test_tokens_are_the_text_again(encoding: Any, oracle: tiktoken.Encoding, text: str) -> None:
    mended = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert oracle.decode(tokenctx.encodings.encode(text, encoding=encoding)) == mended


# No encoding joins a letter with a line end before it, nor a line end with the letter after it.
@pytest.mark.slow
@settings(max_examples=300)
@given(parts=st.lists(st.from_regex(r"[a-z]+( [a-z]+){0,5}\n", fullmatch=True), max_size=8))
def test_counts_of_lines_add_up(
    implementation_count: Callable[..., int], encoding: Any, parts: list[str]
) -> None:
    def count(text: str) -> int:
        return implementation_count(text, encoding=encoding)

    assert count("".join(parts)) == sum(map(count, parts))


@pytest.fixture(
    scope="module", params=[tokenctx.count_tokens, bpe.count_tokens], ids=["rust", "reference"]
)
def implementation_count(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_a_megabyte_of_anything_gives_a_number(encoding: Any, name: str) -> None:
    # tiktoken itself takes minutes or runs out of stack on some of these.
    text = HOSTILE[name]
    tokens = tokenctx.encodings.encode(text, encoding=encoding)
    assert tokenctx.count_tokens(text, encoding=encoding) == len(tokens)
    assert decoded(encoding, tokens) == text.encode()


def decoded(encoding: Any, tokens: list[int]) -> bytes:
    table = {rank: token for token, rank in bpe.ranks(encoding).items()}
    return b"".join(table[token] for token in tokens)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_long_run_is_encoded_as_by_tiktoken(
    encoding: Any, oracle: tiktoken.Encoding, name: str
) -> None:
    for length in (1, 2, 3, 63, 64, 65, 999, 5000):
        text = HOSTILE[name][:length]
        assert tokenctx.encodings.encode(text, encoding=encoding) == ordinary(oracle, text)


def test_o200k_is_the_encoding_of_no_choice(implementation: Any) -> None:
    assert implementation.count_tokens("hello world") == 2
    assert implementation.encode("hello world") == [24912, 2375]
    assert implementation.count_tokens("") == 0
    assert implementation.encode(b"") == []


def test_special_tokens_are_plain_text(implementation: Any) -> None:
    for spelling in ("<|endoftext|>", "<|start|>", "<|im_end|>"):
        tokens = implementation.encode(spelling, encoding="o200k_harmony")
        assert len(tokens) > 1
        assert max(tokens) < 199_998


def test_a_lone_surrogate_is_one_replacement_character(implementation: Any) -> None:
    assert implementation.encode("a\ud800b") == implementation.encode("a\ufffdb")
    assert implementation.encode("\ud83d\ude00") == implementation.encode("😀")


@pytest.mark.parametrize("wrong", [None, 1, 1.5, ["a"], {"a": 1}])
def test_what_is_no_text_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError):
        tokenctx.count_tokens(wrong)
    with pytest.raises(TypeError):
        tokenctx.encodings.encode(wrong)


def test_an_unknown_encoding_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="o200k_base"):
        tokenctx.count_tokens("canary", encoding="gpt3")  # type: ignore[arg-type]
