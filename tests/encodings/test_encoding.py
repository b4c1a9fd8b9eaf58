"""`Encoding`: every way to ask for a count gives the count of tiktoken."""

from __future__ import annotations

import base64
import os
import pickle
import random
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenctx
from texts import ATOMS, ENCODINGS, HOSTILE, published, texts
from tokenctx import _core
from tokenctx.encodings import Encoding

VENDORS = ("deepseek_v3", "mistral_v3", "qwen2")
COUNT_ONLY = ("claude_v3", "claude_v4_7", "claude_v4_8", "gemma")
NAMES = (*ENCODINGS, *VENDORS, *COUNT_ONLY)
LONG_TEXT = "Why is the sky blue, and red at dusk?\n" * 1000


@pytest.fixture(scope="module", params=NAMES)
def encoding(request: pytest.FixtureRequest) -> Encoding:
    return tokenctx.get_encoding(request.param)


@pytest.fixture(scope="module", params=ENCODINGS)
def oracle(request: pytest.FixtureRequest) -> tuple[Encoding, tiktoken.Encoding]:
    """Ours, and tiktoken's with the ranks that we ship."""
    return Encoding(request.param), published(request.param)[0]


def test_all_encodings_are_listed() -> None:
    assert tokenctx.encodings.list_encodings() == list(NAMES)
    assert [tokenctx.get_encoding(name).name for name in NAMES] == list(NAMES)


@settings(max_examples=300)
@given(text=texts)
def test_tokens_are_those_of_tiktoken(
    oracle: tuple[Encoding, tiktoken.Encoding], text: str
) -> None:
    encoding, published_encoding = oracle
    tokens = published_encoding.encode_ordinary(text)
    assert encoding.encode(text) == tokens
    assert encoding.count(text) == len(tokens)
    assert encoding.decode(tokens) == published_encoding.decode(tokens)
    assert encoding.decode_bytes(tokens) == published_encoding.decode_bytes(tokens)


@pytest.fixture(scope="module", params=VENDORS)
def vendor(request: pytest.FixtureRequest) -> tuple[Encoding, tiktoken.Encoding]:
    """Another vendor's encoding, and the same by tiktoken with pattern and ranks that we ship."""
    name = request.param
    lines = (line.split() for line in _core.rank_file(name).splitlines())
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    pattern = _core.split_pattern(name)
    made = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return Encoding(name), made


@settings(max_examples=300)
@given(text=texts)
def test_tokens_of_other_vendors_are_those_of_their_pattern_and_ranks(
    vendor: tuple[Encoding, tiktoken.Encoding], text: str
) -> None:
    encoding, oracle = vendor
    tokens = oracle.encode_ordinary(text)
    assert encoding.encode(text) == tokens
    assert encoding.count(text) == len(tokens)


@settings(max_examples=100)
@given(tokens=st.lists(st.integers(0, 50_000), max_size=20))
def test_any_tokens_are_decoded_as_by_tiktoken(
    oracle: tuple[Encoding, tiktoken.Encoding], tokens: list[int]
) -> None:
    encoding, published_encoding = oracle
    assert encoding.decode_bytes(tokens) == published_encoding.decode_bytes(tokens)
    assert encoding.decode(tokens) == published_encoding.decode(tokens)


@settings(max_examples=200)
@given(text=texts, limit=st.integers(0, 40))
def test_a_limited_count_is_the_count_up_to_the_limit(
    encoding: Encoding, text: str, limit: int
) -> None:
    count = encoding.count(text)
    assert count == tokenctx.count_tokens(text, encoding=encoding.name)  # type: ignore[arg-type]
    assert encoding.count_at_most(text, limit) == min(count, limit + 1)
    assert encoding.exceeds(text, limit) == (count > limit)
    assert encoding.exceeds(text, -1)


@settings(max_examples=100)
@given(batch=st.lists(texts | st.binary(max_size=40), max_size=8))
def test_a_batch_is_its_texts_one_by_one(encoding: Encoding, batch: list[str | bytes]) -> None:
    counts = [encoding.count(text) for text in batch]
    assert encoding.count_batch(batch) == counts
    assert encoding.count_batch(iter(batch)) == counts
    name: Any = encoding.name
    assert tokenctx.encodings.count_tokens_batch(tuple(batch), encoding=name) == counts


@settings(max_examples=100)
@given(content=st.binary(max_size=60))
def test_bytes_and_lone_surrogates_are_mended(encoding: Encoding, content: bytes) -> None:
    expected = encoding.count(content.decode("utf-8", "replace"))
    assert [encoding.count(content), *encoding.count_batch([content])] == [expected] * 2
    assert encoding.count_batch(["a\ud800b"]) == [encoding.count("a\ufffdb")]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_limit_holds_for_a_megabyte_of_anything(encoding: Encoding, name: str) -> None:
    count = encoding.count(HOSTILE[name])
    for limit in (0, 100, count - 1, count, count + 1):
        assert encoding.count_at_most(HOSTILE[name], limit) == min(count, limit + 1)


@pytest.mark.parametrize("seed", range(20))
def test_a_limit_holds_for_long_texts(encoding: Encoding, seed: int) -> None:
    numbers = random.Random(seed)
    atoms = numbers.sample(ATOMS, numbers.randint(1, 30))
    text = "".join(numbers.choices(atoms, k=6000))
    count = encoding.count(text)
    for limit in (0, count // 9, count // 4, count // 2, count - 1, count, count + 1):
        assert encoding.count_at_most(text, limit) == min(count, limit + 1)


def test_threads_count_alike(encoding: Encoding) -> None:
    texts = [LONG_TEXT[start:] for start in range(16)]
    expected = encoding.count_batch(texts)
    barrier = threading.Barrier(8)

    def count(_: int) -> list[int]:
        barrier.wait()
        return [encoding.count(text) for text in texts]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(count, range(8))) == [expected] * 8


@pytest.mark.parametrize("name", COUNT_ONLY)
def test_what_only_counts_has_no_tokens_to_show(name: str) -> None:
    encoding = tokenctx.get_encoding(name)
    for call in (lambda: encoding.encode("a"), lambda: encoding.decode([1])):
        with pytest.raises(NotImplementedError, match=f"{name} counts tokens but has none to show"):
            call()


def test_a_number_that_is_no_token_is_refused() -> None:
    encoding = Encoding("o200k_base")
    for token in (199_998, 200_019, 2**32 - 1):
        with pytest.raises(ValueError, match=f"{token} is no token of o200k_base"):
            encoding.decode([24912, token])


def test_an_unknown_name_lists_the_known(implementation: Any) -> None:
    with pytest.raises(ValueError, match=r"gpt3.*o200k_base.*claude_v4_8"):
        tokenctx.get_encoding("gpt3")
    assert implementation.count_tokens("hello world") == 2


def test_what_is_preloaded_is_named_as_an_encoding_is() -> None:
    """An unknown name is the same error, and nothing is built for it; no name means all."""
    unknown: Any = "gpt3"
    with pytest.raises(ValueError, match=r"gpt3.*o200k_base.*claude_v4_8"):
        tokenctx.encodings.preload_encodings("qwen2", unknown)
    tokenctx.encodings.preload_encodings("qwen2", "claude_v3")
    tokenctx.encodings.preload_encodings()
    assert tokenctx.count_tokens("hello world", encoding="qwen2") == 2


# Special tokens, and the rest of tiktoken's names

SPECIAL = ("<|endoftext|>", "<|endofprompt|>", "<|fim_prefix|>", "<|start|>", "<|reserved_200013|>")
special_texts = st.lists(
    st.sampled_from([*SPECIAL, "<|", "|>", "<|end", "<|fim_suffix|>"]) | texts, max_size=8
).map("".join)


def special_sets(oracle: tiktoken.Encoding) -> list[Any]:
    known = sorted(oracle.special_tokens_set)
    return ["all", set(), {known[0]}, set(known[-2:]), set(known)]


@settings(max_examples=200)
@given(text=special_texts, choices=st.tuples(st.integers(0, 4), st.integers(0, 4)))
def test_special_tokens_are_allowed_and_disallowed_as_by_tiktoken(
    oracle: tuple[Encoding, tiktoken.Encoding], text: str, choices: tuple[int, int]
) -> None:
    encoding, other = oracle
    allowed, disallowed = (special_sets(other)[choice] for choice in choices)
    try:
        expected = other.encode(text, allowed_special=allowed, disallowed_special=disallowed)
    except ValueError:
        with pytest.raises(ValueError, match="is disallowed"):
            encoding.encode(text, allowed_special=allowed, disallowed_special=disallowed)
        return
    tokens = encoding.encode(text, allowed_special=allowed, disallowed_special=disallowed)
    assert tokens == expected
    assert encoding.encode_batch([text], allowed_special=allowed) == [
        encoding.encode(text, allowed_special=allowed)
    ]
    assert encoding.decode_tokens_bytes(tokens) == other.decode_tokens_bytes(tokens)
    assert encoding.decode_bytes(tokens) == other.decode_bytes(tokens)
    if "\ufffd" not in encoding.decode(tokens):
        assert encoding.decode_with_offsets(tokens) == other.decode_with_offsets(tokens)


def test_what_a_vocabulary_holds_is_what_tiktokens_does(
    oracle: tuple[Encoding, tiktoken.Encoding],
) -> None:
    encoding, other = oracle
    for name in ("special_tokens_set", "eot_token", "n_vocab", "max_token_value", "name"):
        assert getattr(encoding, name) == getattr(other, name), name
    assert sorted(encoding.token_byte_values()) == sorted(other.token_byte_values())
    for special in other.special_tokens_set:
        number = other.encode_single_token(special)
        assert encoding.encode_single_token(special) == number
        assert encoding.is_special_token(number)
        assert encoding.encode_single_token(encoding.decode_single_token_bytes(number)) == number
    assert not encoding.is_special_token(0)
    byte = encoding.decode_single_token_bytes(255)
    assert encoding.encode_single_token(byte) == other.encode_single_token(byte) == 255


def test_batches_and_errors_are_tiktokens(oracle: tuple[Encoding, tiktoken.Encoding]) -> None:
    encoding, other = oracle
    lines = ["hello world", "goodbye world", "", "漢字 👩‍👩‍👧", "<|endoftext|>"]
    batch = other.encode_ordinary_batch(lines)
    assert encoding.encode_ordinary_batch(lines) == encoding.encode_batch(lines) == batch
    assert [encoding.encode_ordinary(line) for line in lines] == batch
    assert encoding.decode_batch(batch) == other.decode_batch(batch) == lines
    assert encoding.decode_bytes_batch(batch) == other.decode_bytes_batch(batch)
    torn = encoding.encode("\U000102a0")[:1]
    for errors in ("replace", "ignore", "backslashreplace"):
        assert encoding.decode(torn, errors=errors) == other.decode(torn, errors=errors)
    with pytest.raises(UnicodeDecodeError):
        encoding.decode(torn, errors="strict")
    for call in (encoding.decode_with_offsets, other.decode_with_offsets):
        with pytest.raises(UnicodeDecodeError):
            call(torn)


@pytest.mark.parametrize("field", ["allowed_special", "disallowed_special"])
def test_a_wrong_set_of_special_tokens_is_named(field: str) -> None:
    encoding = Encoding("cl100k_base")
    with pytest.raises(ValueError, match=f"{field} has .*hello.*special_tokens_set"):
        encoding.encode("hello", **{field: {"hello"}})
    with pytest.raises(TypeError, match=f'{field} is a str; it must be "all"'):
        encoding.encode("hello", **{field: "<|endoftext|>"})


def test_what_is_no_token_is_told() -> None:
    encoding = Encoding("o200k_base")
    for number in (2**31, 250_000):
        with pytest.raises(KeyError, match=str(number)):
            encoding.decode_single_token_bytes(number)
    for number in (-1, 10**30):
        for call in (lambda it: encoding.decode([it]), encoding.decode_single_token_bytes):
            with pytest.raises(ValueError, match="a token is below 0 or above"):
                call(number)
    for text in ("", "no token at all"):
        with pytest.raises(KeyError, match=f"a text of {len(text)} bytes"):
            encoding.encode_single_token(text)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("gpt-4o", "o200k_base"),
        ("openai/gpt-4.1-mini", "o200k_base"),
        ("gpt-oss-120b", "o200k_harmony"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("text-davinci-003", "p50k_base"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude_v3"),
        ("claude-opus-4-8", "claude_v4_8"),
    ],
)
def test_a_model_has_the_encoding_of_its_profile(model: str, name: str) -> None:
    assert tokenctx.encoding_for_model(model).name == name
    assert tokenctx.encodings.encoding_name_for_model(model) == name
    count = tokenctx.HybridTokenEstimator().count_request({"messages": []}, model=model)
    assert count.encoding == name


def test_models_of_tiktoken_have_the_ranks_that_it_takes_for_them() -> None:
    tiktoken = pytest.importorskip("tiktoken.model")
    names = [*tiktoken.MODEL_TO_ENCODING]
    names += [f"{prefix}x" for prefix in tiktoken.MODEL_PREFIX_TO_ENCODING]
    same_ranks = {"gpt2": "r50k_base", "p50k_edit": "p50k_base"}
    wanted = {name: tiktoken.encoding_name_for_model(name) for name in names}
    assert {name: tokenctx.encoding_for_model(name).name for name in names} == {
        name: same_ranks.get(encoding, encoding) for name, encoding in wanted.items()
    }


def test_a_model_that_no_profile_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="mystery-1"):
        tokenctx.encoding_for_model("mystery-1")


@pytest.mark.parametrize("wrong", [None, 1, ["a"], {"a": 1}])
def test_what_is_no_text_is_refused(encoding: Encoding, wrong: Any) -> None:
    for call in (encoding.count, encoding.encode, lambda it: encoding.count_at_most(it, 1)):
        with pytest.raises(TypeError, match="str or bytes"):
            call(wrong)
    with pytest.raises(TypeError):
        encoding.count_batch([wrong])


@pytest.mark.parametrize("wrong", ["text", b"text", bytearray(b"text")])
def test_one_text_is_no_batch(encoding: Encoding, wrong: Any) -> None:
    with pytest.raises(TypeError, match="list of str or bytes"):
        encoding.count_batch(wrong)


def test_encodings_are_values(encoding: Encoding) -> None:
    name = encoding.name
    assert Encoding(name) == encoding
    assert {Encoding(name), encoding} == {encoding}
    assert pickle.loads(pickle.dumps(encoding)) == encoding  # noqa: S301
    assert repr(encoding) == f'Encoding("{name}")'
    assert encoding.fingerprint is None
    assert encoding != Encoding("r50k_base" if name != "r50k_base" else "o200k_base")
    with pytest.raises(AttributeError):
        encoding.name = "other"  # type: ignore[misc]


@settings(max_examples=50)
@given(text=texts)
def test_a_buffer_has_the_same_tokens(encoding: Encoding, text: str) -> None:
    if encoding.name in COUNT_ONLY:
        with pytest.raises(NotImplementedError):
            encoding.encode_to_buffer(text)
        return
    buffer = encoding.encode_to_buffer(text)
    assert (buffer.format, buffer.readonly, buffer.itemsize) == ("I", True, 4)
    assert buffer.tolist() == encoding.encode(text)


def test_a_buffer_knows_special_tokens_as_a_list_does() -> None:
    encoding, text = tokenctx.get_encoding("o200k_base"), "a<|endoftext|>"
    buffer = encoding.encode_to_buffer(text, allowed_special="all")
    assert buffer.tolist() == encoding.encode(text, allowed_special="all")
    with pytest.raises(ValueError, match="disallowed"):
        encoding.encode_to_buffer(text, disallowed_special="all")


PATHS = {"PYTHONPATH": os.pathsep.join(sys.path)}
LEVELS = """
import hashlib, tokenctx
from corpora import take
text = "".join(take("code", 60_000) + take("multilingual", 60_000)) + "\\u00e9" * 900 + " " * 900
counts = [get(text[at:]) for at in range(0, 4000, 371) for get in (
    tokenctx.count_tokens, tokenctx.get_encoding("cl100k_base").count,
    tokenctx.get_encoding("claude_v4_8").count)]
print(tokenctx.encodings.simd_level(), counts)
"""


def test_counts_are_the_same_on_every_simd_level() -> None:
    def run(level: str) -> str:
        environment = {
            **os.environ,
            "TOKENCTX_LEVEL": level,
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        command = [sys.executable, "-c", LEVELS]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        name, _, counts = done.stdout.partition(" ")
        assert name == (level or tokenctx.encodings.simd_level())
        return counts

    levels = tokenctx.encodings.simd_levels()
    assert levels[0] in {"sse2", "neon", "portable"}
    assert len({run(level) for level in (*levels, "")}) == 1


def test_a_level_that_the_machine_has_not_is_refused() -> None:
    command = [sys.executable, "-c", "import tokenctx"]
    environment = {**os.environ, **PATHS, "TOKENCTX_LEVEL": "sse9"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode
    assert 'TOKENCTX_LEVEL) is "sse9"; this machine has ' in done.stderr
