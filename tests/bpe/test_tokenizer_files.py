"""Vocabularies of files that the core counts by tables, beside tiktoken and tokenizers."""

from __future__ import annotations

import base64
import json
import random
from typing import TYPE_CHECKING, Any

import pytest
import tiktoken
import tokenizers
from hypothesis import given, settings

from reference import bpe
from texts import texts
from tokenctx import HybridTokenEstimator
from tokenctx.encodings import Encoding
from user_vocabularies import GPT_2, LLAMA_3, QWEN, unigram_tokenizer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SINGLES = [bytes([byte]) for byte in range(256)]
VISIBLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
MOVED = [byte for byte in range(256) if byte not in VISIBLE]
LETTERS = {byte: chr(byte) for byte in VISIBLE} | {
    byte: chr(0x100 + place) for place, byte in enumerate(MOVED)
}
"""GPT-2's alphabet: a letter for each byte."""
ALPHABETS = ("ab", "abc", "a\xe9\u4e2d", "\u4e2d\u6587\u5b57", "ab \xe9", "\u0430\u0301\u0431")
DEEPSEEK = (
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    (
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^<ends>\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
        r"| ?[\p{P}\p{S}]+[<ends>]*|\s*[<ends>]+|\s+(?!\S)|\s+"
    ).replace("<ends>", "\r\n"),
)


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}


def spelled(token: bytes) -> str:
    return "".join(LETTERS[byte] for byte in token)


def split(*patterns: str) -> dict[str, Any]:
    """The pre-tokenizer that cuts by regular expressions, one after the other."""
    steps: list[dict[str, Any]] = [
        {"type": "Split", "pattern": {"Regex": it}, "behavior": "Isolated", "invert": False}
        for it in patterns
    ]
    steps.append({**BYTE_LEVEL, "use_regex": False})
    return {"type": "Sequence", "pretokenizers": steps}


RULES = {
    "gpt2": BYTE_LEVEL,
    "llama3": split(LLAMA_3),
    "qwen": split(QWEN),
    "o200k": split(bpe.O200K),
    "deepseek": split(*DEEPSEEK),
    "tekken": split(
        bpe.O200K.replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace("{1,3}", ""),
    ),
}


def small_tokens(random_: random.Random) -> tuple[str, list[bytes]]:
    """An alphabet, and tokens of it that are not made to fit each other."""
    alphabet = random_.choice(ALPHABETS)
    tokens = set()
    for _ in range(random_.randrange(4, 60)):
        length = random_.choice((1, 2, 2, 3, 3, 4, 6, 12))
        token = "".join(random_.choices(alphabet, k=length)).encode()
        tokens.add(token[random_.randrange(2) :] if random_.random() < 0.3 else token)
    made = sorted(token for token in tokens if len(token) > 1)
    random_.shuffle(made)
    return alphabet, made


def small_texts(random_: random.Random, alphabet: str, tokens: list[bytes]) -> Iterator[str]:
    """Texts that are tokens, have tokens inside, or repeat something."""
    for length in (2, 5, 20, 40, 100, 300, 3000):
        yield "".join(random_.choices(alphabet + " ", k=length))
        yield "".join(random_.choices(alphabet, k=random_.randrange(1, 7))) * length
    for token in tokens:
        text, other = token.decode("utf-8", "ignore"), random_.choice(alphabet)
        yield from (text, text + other, other + text, f"{text} {text}")


def merged(ranks: dict[bytes, int], token: bytes) -> tuple[list[int], int]:
    """Ranks of the joins in a token's text, by the definition, and how many tokens are left."""
    spans, joined = [bytes([byte]) for byte in token], []
    while len(spans) > 1:
        pairs = [spans[at] + spans[at + 1] for at in range(len(spans) - 1)]
        rank, at = min((ranks.get(pair, 1 << 30), at) for at, pair in enumerate(pairs))
        if rank == 1 << 30:
            break
        joined.append(rank)
        spans[at : at + 2] = [pairs[at]]
    return joined, len(spans)


def saved(path: Path, content: dict[str, Any]) -> Path:
    path.write_text(json.dumps(content), "utf-8")
    return path


def oracle(path: Path) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    tokenizer.encode_special_tokens = True
    return tokenizer


def check(encoding: Encoding, text: str, expected: list[int]) -> None:
    """Both ways to count, the second time by what was remembered."""
    assert encoding.encode(text) == expected
    assert [encoding.count(text), encoding.count(text)] == [len(expected)] * 2
    assert encoding.count_at_most(text, 3) == min(len(expected), 4)


def test_a_rank_file_of_any_tokens_counts_as_tiktoken_does(tmp_path: Path) -> None:
    random_, wholes, unordered = random.Random(7), 0, 0
    for number in range(60):
        alphabet, tokens = small_tokens(random_)
        ranks = {token: rank for rank, token in enumerate([*SINGLES, *tokens])}
        path = tmp_path / f"{number}.tiktoken"
        lines = (b"%s %d\n" % (base64.b64encode(it), rank) for it, rank in ranks.items())
        path.write_bytes(b"".join(lines))
        encoding = Encoding.from_tiktoken(path, split="gpt2")
        theirs = tiktoken.Encoding(
            "mine", pat_str=GPT_2, mergeable_ranks=ranks, special_tokens={"<bos>": 10**6}
        )
        for text in small_texts(random_, alphabet, tokens):
            check(encoding, text, theirs.encode_ordinary(text))
        for token in tokens:
            joined, left = merged(ranks, token)
            wholes += left > 1
            unordered += left == 1 and joined != sorted(joined)
    assert wholes > 100
    assert unordered > 10


def file_of(tokens: list[bytes], merges: list[tuple[bytes, bytes]], **model: Any) -> dict[str, Any]:
    """A `tokenizer.json` whose tokens have the numbers of their places, after the bytes."""
    vocabulary = {spelled(it): place for place, it in enumerate([*SINGLES, *tokens])}
    pairs = [[spelled(left), spelled(right)] for left, right in merges]
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": BYTE_LEVEL,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": pairs, **model},
    }


def small_file(random_: random.Random) -> tuple[str, list[bytes], dict[str, Any]]:
    """One whose merges make tokens of earlier ones; some make one twice, some tokens have none."""
    alphabet, others = small_tokens(random_)
    parts = [bytes([byte]) for byte in {*alphabet.encode()}]
    tokens: list[bytes] = []
    merges: list[tuple[bytes, bytes]] = []
    for _ in range(random_.randrange(5, 80)):
        pair = random_.choice(parts), random_.choice(parts)
        token = b"".join(pair)
        if len(token) > 12 or (token in tokens and random_.random() < 0.9) or pair in merges:
            continue
        merges.append(pair)
        if token not in tokens:
            tokens.append(token)
            parts.append(token)
    if random_.random() < 0.3:
        tokens += [token for token in others[:3] if token not in tokens]
    if random_.random() < 0.2:
        random_.shuffle(merges)
    content = file_of(tokens, merges, ignore_merges=random_.random() < 0.5)
    return alphabet, tokens, content


@pytest.mark.slow
def test_a_file_of_any_merges_counts_as_tokenizers_does(tmp_path: Path) -> None:
    random_, counted_by = random.Random(11), []
    for number in range(80):
        alphabet, tokens, content = small_file(random_)
        path = saved(tmp_path / f"{number}.json", content)
        encoding, theirs = Encoding.from_tokenizer_json(path), oracle(path)
        counted_by.append(encoding.counted_by)
        for text in small_texts(random_, alphabet, tokens):
            check(encoding, text, theirs.encode(text, add_special_tokens=False).ids)
    # The others have merges in another order than their tokens, or tokens that no merge makes.
    assert counted_by.count("core") > 40
    assert counted_by.count("tokenizers") > 5


ADDED = {
    "<|end|>": {"special": True, "normalized": False},
    "<|end|>x": {"special": False, "normalized": False},
    "<think>": {"special": False, "normalized": False},
    "<thinking>": {"special": True, "normalized": False},
    "thinkx": {"special": False, "normalized": True},
    "\xe9\u4e2d": {"special": False, "normalized": True},
    "[PAD]": {"special": True, "normalized": False, "lstrip": True},
    "  ": {"special": False, "normalized": True},
}
PARTS = [
    *ADDED,
    *("e\u0301", "\u4e2d", "\u1112\u1161\u11ab", "a\u0323\u0307", "<", "|end|>", "x", " ", "\n"),
    *(
        "ing>",
        "think",
        "the cat's 1234",
        "I'LL",
        "\U0001f600",
        "\u0301",
        "\u212b",
        "\u304b\u306a!",
        "//",
        "\r\n",
    ),
]


def vendor_file(rule: str, *, normal_form: bool) -> dict[str, Any]:
    """One as vendors have it: the first tokens of r50k_base, with added ones."""
    ranks = bpe.ranks("r50k_base")
    tokens = [token for token in ranks if len(token) > 1][:20_000]
    known = {*tokens, *SINGLES}
    merges = []
    for token in tokens:
        cuts = ((token[:cut], token[cut:]) for cut in range(1, len(token)))
        whole = [pair for pair in cuts if known.issuperset(pair)]
        merges += sorted(whole, key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))
    content = file_of(tokens, merges)
    flags = {"single_word": False, "lstrip": False, "rstrip": False}
    content["added_tokens"] = [
        {**flags, **kind, "content": text, "id": len(SINGLES) + len(tokens) + place}
        for place, (text, kind) in enumerate(ADDED.items())
    ]
    content["normalizer"] = {"type": "NFC"} if normal_form else None
    content["pre_tokenizer"] = RULES[rule]
    return content


@pytest.fixture(scope="module", params=RULES)
def vendor(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Encoding, tokenizers.Tokenizer]:
    content = vendor_file(request.param, normal_form=request.param != "llama3")
    path = saved(tmp_path_factory.mktemp("vendor") / "tokenizer.json", content)
    encoding = Encoding.from_tokenizer_json(path)
    assert encoding.counted_by == "core"
    return encoding, oracle(path)


@settings(max_examples=100)
@given(text=texts)
def test_each_rule_counts_as_tokenizers_does(
    vendor: tuple[Encoding, tokenizers.Tokenizer], text: str
) -> None:
    encoding, theirs = vendor
    text = bpe.plain_text(text)
    check(encoding, text, theirs.encode(text, add_special_tokens=False).ids)


def test_added_tokens_and_normal_form_are_those_of_tokenizers(
    vendor: tuple[Encoding, tokenizers.Tokenizer],
) -> None:
    encoding, theirs = vendor
    random_ = random.Random(5)
    for length in (1, 2, 3, 8, 40) * 60:
        text = "".join(random_.choices(PARTS, k=length))
        check(encoding, text, theirs.encode(text, add_special_tokens=False).ids)
    assert encoding.decode(encoding.encode("<think>so<|end|>x")) == "<think>so<|end|>x"


def changed(**values: Any) -> dict[str, Any]:
    """A file of three tokens that the core counts, but for `values`."""
    content = file_of([b"ab", b"abc", b"bc"], [(b"a", b"b"), (b"ab", b"c"), (b"b", b"c")])
    content["model"] |= values.pop("model", {})
    return content | values


AB = {"single_word": False, "rstrip": False, "normalized": False, "content": "ab", "id": 300}
LOWER = {"type": "Sequence", "normalizers": [{"type": "Lowercase"}]}
OTHER_FILES = {
    "normal form": changed(normalizer={"type": "NFKC"}),
    "lower case": changed(normalizer=LOWER),
    "unknown rule": changed(pre_tokenizer=split(r"\w+|\W+")),
    "rule with an end of line": changed(pre_tokenizer=split(bpe.CL100K)),
    "prefix space": changed(pre_tokenizer={**BYTE_LEVEL, "add_prefix_space": True}),
    "no bytes": changed(pre_tokenizer={"type": "Whitespace"}),
    "dropout": changed(model={"dropout": 1.0}),
    "prefix": changed(model={"continuing_subword_prefix": "#", "merges": []}),
    "order": changed(model={"merges": [["ab", "c"], ["a", "b"], ["b", "c"]]}),
    "a whole by merges": changed(model={"merges": [["a", "b"], ["b", "c"]], "ignore_merges": True}),
    "white space": changed(added_tokens=[{**AB, "lstrip": True, "special": False}]),
    "word": changed(added_tokens=[{**AB, "lstrip": False, "single_word": True, "special": False}]),
}


@pytest.mark.parametrize("kind", OTHER_FILES)
def test_other_files_stay_with_tokenizers(tmp_path: Path, kind: str) -> None:
    path = saved(tmp_path / "tokenizer.json", OTHER_FILES[kind])
    encoding, theirs = Encoding.from_tokenizer_json(path), oracle(path)
    assert encoding.counted_by == "tokenizers"
    for text in ("", "abc abcab", "Ab cab 123", "a bcab"):
        expected = theirs.encode(text, add_special_tokens=False).ids
        assert kind == "dropout" or encoding.encode(text) == expected


def test_a_key_that_comes_twice_stays_with_tokenizers(tmp_path: Path) -> None:
    path = saved(tmp_path / "tokenizer.json", changed())
    assert Encoding.from_tokenizer_json(path).counted_by == "core"
    path.write_text(path.read_text().replace('"ab":', '"abc": 257, "ab":'), "utf-8")
    assert Encoding.from_tokenizer_json(path).counted_by == "tokenizers"


def test_a_file_of_bytes_needs_no_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    path = saved(tmp_path / "tokenizer.json", changed())
    encoding = Encoding.from_tokenizer_json(path)
    assert encoding.counted_by == "core"
    assert encoding.encode("abcab") == [257, 256]
    assert encoding.decode([257, 256]) == "abcab"
    assert encoding.encode_single_token("abc") == 257
    with pytest.raises(KeyError):
        encoding.decode_single_token_bytes(999)
    assert Encoding("gpt2").counted_by == "core"
    asked = {"model": "llama-3.3-70b", "messages": [{"role": "user", "content": "abc" * 99}]}
    count = HybridTokenEstimator(vocabularies={"llama": encoding}).count_request(asked)
    assert 99 <= count.message_tokens[0] < 120


def test_of_a_long_stretch_tokenizers_counts_samples(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    unigram_tokenizer().save(str(path))
    encoding = Encoding.from_tokenizer_json(path)
    letters = "".join(random.Random(3).choices("abcdefghijklmnopqrstuvwxyz", k=200_000))
    for text, is_sampled in ((letters, True), (letters[:60_000], False), ("a b " * 50_000, False)):
        asked = {"model": "llama-3.3-70b", "messages": [{"role": "user", "content": text}]}
        estimator = HybridTokenEstimator(vocabularies={"llama": encoding})
        count = estimator.count_request(asked)
        assert ("unknown_run" in count.assumptions) == is_sampled
        framing = count.message_tokens[0] - encoding.count(text)
        assert abs(framing) < (0.01 * count.tokens if is_sampled else 20)
