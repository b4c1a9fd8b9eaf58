"""Vocabularies that the user brings: from files, or any object that counts."""

from __future__ import annotations

import base64
import hashlib
import json
import random
from typing import TYPE_CHECKING, Any

import pytest
import tiktoken
import tokenizers
from hypothesis import given, settings

import tokenctx
from reference import bpe
from texts import HOSTILE, texts
from tokenctx import _core
from tokenctx.encodings import Encoding
from user_vocabularies import GPT_2, LLAMA_3, QWEN, bpe_tokenizer, unigram_tokenizer

if TYPE_CHECKING:
    from pathlib import Path

GEMINI: Any = {
    "model": "gemini-2.5-pro",
    "systemInstruction": {"parts": [{"text": "Answer in one sentence."}]},
    "contents": [
        {"role": "user", "parts": [{"text": "Why is the sky blue? <bos>"}]},
        {"role": "model", "parts": [{"text": "Because air scatters blue light."}]},
        {"role": "user", "parts": [{"text": "And red at dusk?" * 200}]},
    ],
}


@pytest.fixture(scope="module", params=[bpe_tokenizer, unigram_tokenizer])
def saved(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, tokenizers.Tokenizer]:
    """A `tokenizer.json` that would cut and pad, and the same tokenizer, which does not."""
    tokenizer = request.param()
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=100)
    tokenizer.save(str(path))
    plain = tokenizers.Tokenizer.from_file(str(path))
    plain.no_truncation()
    plain.no_padding()
    plain.encode_special_tokens = True
    return path, plain


@settings(max_examples=200)
@given(text=texts)
def test_a_tokenizer_json_counts_as_tokenizers_does(
    saved: tuple[Path, tokenizers.Tokenizer], text: str
) -> None:
    path, plain = saved
    encoding = loaded(path)
    expected = plain.encode(bpe.plain_text(text), add_special_tokens=False).ids
    assert encoding.encode(text) == expected
    assert encoding.count(text) == len(expected)
    assert encoding.count_batch([text, text.encode("utf-8", "replace")])[0] == len(expected)
    assert encoding.count_at_most(text, 5) == min(len(expected), 6)
    assert encoding.exceeds(text, 5) == (len(expected) > 5)
    assert encoding.decode(expected) == plain.decode(expected, skip_special_tokens=False)
    assert encoding.decode_bytes(expected).decode() == encoding.decode(expected)


LOADED: dict[Path, Encoding] = {}


def loaded(path: Path) -> Encoding:
    """Loaded once."""
    if path not in LOADED:
        LOADED[path] = Encoding.from_tokenizer_json(path)
    return LOADED[path]


def test_special_spellings_are_text(saved: tuple[Path, tokenizers.Tokenizer]) -> None:
    encoding = loaded(saved[0])
    assert encoding.count("<bos>") > 1
    assert encoding.count("") == 0


def test_a_file_is_known_by_name_and_hash(saved: tuple[Path, tokenizers.Tokenizer]) -> None:
    path, _ = saved
    encoding = Encoding.from_tokenizer_json(str(path), name="mine")
    fingerprint = hashlib.sha256(path.read_bytes()).hexdigest()
    assert encoding.fingerprint == fingerprint
    assert repr(encoding) == f'<Encoding "mine" sha256={fingerprint[:16]}>'
    assert loaded(path).name == "tokenizer.json"
    assert encoding == Encoding.from_tokenizer_json(path, name="mine") != loaded(path)
    with pytest.raises(TypeError, match="load its file again"):
        encoding.__reduce__()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff\xfe\xfd", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "has no vocabulary"),
        (b'{"model": null}', "has no vocabulary"),
        (b'{"model": {"vocab": {}}}', "has no vocabulary"),
        (b'{"model": {"vocab": 7}}', "has no vocabulary"),
        (b'{"model": {"type": "BPE", "vocab": {"a": 0}}}', "tokenizers cannot read"),
    ],
)
def test_a_file_that_is_no_tokenizer_is_refused(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"tokenizer.json.*{message}|{message} tokenizer.json"):
        Encoding.from_tokenizer_json(path)


def test_a_file_that_is_not_there_or_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileNotFoundError):
        Encoding.from_tokenizer_json(tmp_path / "none.json")
    path = tmp_path / "large.json"
    path.write_bytes(bytes(1 << 20))
    monkeypatch.setattr("tokenctx.encodings.vocabularies.MAX_FILE_BYTES", (1 << 20) - 1)
    with pytest.raises(ValueError, match=r"large.json has more than"):
        Encoding.from_tokenizer_json(path)


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokenizer.json"
    unigram_tokenizer().save(str(path))
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(ImportError, match=r"pip install 'tokenctx\[tokenizers\]'"):
        Encoding.from_tokenizer_json(path)


RULES = [
    *bpe.PATTERNS.items(),
    *(("llama3", LLAMA_3), ("qwen", QWEN), ("gpt2", GPT_2)),
]


def unordered_ranks() -> dict[bytes, int]:
    """A vocabulary as after surgery: gaps, and tokens that their own text does not merge to."""
    numbers = random.Random(7)
    tokens = list(bpe.ranks("r50k_base"))
    words = numbers.sample([token for token in tokens if len(token) > 1], 20_000)
    pairs = [bytes([left, right]) for left in b"abcdef 's\n" for right in b"abcdef \n"]
    chosen = list(dict.fromkeys([*words, *pairs, *(bytes([byte]) for byte in range(256))]))
    numbers.shuffle(chosen)
    return {token: 3 * place + 5 for place, token in enumerate(chosen)}


def rank_file(ranks: dict[bytes, int]) -> bytes:
    lines = (b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in ranks.items())
    return b"".join(lines)


@pytest.fixture(scope="module", params=["whole", "unordered"])
def ranks(request: pytest.FixtureRequest) -> dict[bytes, int]:
    return bpe.ranks("cl100k_base") if request.param == "whole" else unordered_ranks()


@pytest.fixture(scope="module", params=RULES, ids=[name for name, _ in RULES])
def pair(
    request: pytest.FixtureRequest,
    ranks: dict[bytes, int],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Encoding, tiktoken.Encoding]:
    """The encoding of a rank file, and tiktoken's of the same ranks and pattern."""
    split, pattern = request.param
    path = tmp_path_factory.mktemp("ranks") / "mine.tiktoken"
    path.write_bytes(rank_file(ranks))
    oracle = tiktoken.Encoding(
        "mine", pat_str=pattern, mergeable_ranks=ranks, special_tokens={"<bos>": 10**6}
    )
    encoding = Encoding.from_tiktoken(path, split=split)
    assert encoding == Encoding.from_tiktoken(path, split=pattern)
    return encoding, oracle


@pytest.mark.slow
@settings(max_examples=300)
@given(text=texts)
def test_a_rank_file_counts_as_tiktoken_does(
    pair: tuple[Encoding, tiktoken.Encoding], text: str
) -> None:
    encoding, oracle = pair
    tokens = oracle.encode_ordinary(text)
    assert encoding.encode(text) == tokens
    assert encoding.count(text) == len(tokens)
    assert encoding.count_batch([text, text]) == [len(tokens)] * 2
    assert encoding.count_at_most(text, 5) == min(len(tokens), 6)
    assert encoding.decode_bytes(tokens) == oracle.decode_bytes(tokens)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_rank_file_takes_a_long_piece(tmp_path: Path, name: str) -> None:
    path = tmp_path / "o200k.tiktoken"
    path.write_bytes(_core.rank_file("o200k_base"))
    encoding = Encoding.from_tiktoken(path, split="o200k_base")
    text = HOSTILE[name][:100_000]
    assert encoding.encode(text) == tokenctx.encodings.encode(text)
    assert encoding.exceeds(HOSTILE[name], 1000)


BYTES = {bytes([byte]): byte for byte in range(256)}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no token is the byte 0"),
        (rank_file({token: byte for token, byte in BYTES.items() if byte != 7}), "the byte 7;"),
        (rank_file(BYTES) + b"YWI= 256\nYWI= 257", "line 258 has a token or a rank"),
        (rank_file(BYTES) + b"YWI= 255", "line 257 has a token or a rank"),
        (b"YWI=\n", "line 1 is not base64"),
        (b"YWI= \n", "line 1 is not base64"),
        (b"YWI= -1\n", "line 1 is not base64"),
        (b"YWI= 4294967295\n", "line 1 is not base64"),
        (b"\n\n!!! 1\n", "line 3 is not base64"),
        (b" 1\n", "line 1 is not base64"),
        (b"\xff\xfe 1\n", "line 1 is not base64"),
        (b'{"model": {}}', "line 1 is not base64"),
    ],
)
def test_a_file_that_is_no_rank_file_is_refused(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "mine.tiktoken"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"^mine.tiktoken: .*{message}"):
        Encoding.from_tiktoken(path, split="llama3")


def test_an_unknown_split_rule_lists_the_known(tmp_path: Path) -> None:
    for split in ("", "p100k", LLAMA_3 + "|x"):
        known = r"known are o200k_base.*llama3, .*deepseek_v3; for another"
        with pytest.raises(ValueError, match=known):
            Encoding.from_tiktoken(tmp_path / "none", split=split)
    with pytest.raises(FileNotFoundError):
        Encoding.from_tiktoken(tmp_path / "none", split="llama3")


def test_a_rank_file_may_count_for_a_model(tmp_path: Path) -> None:
    path = tmp_path / "bytes.tiktoken"
    path.write_bytes(rank_file(BYTES).replace(b"\n", b"\r\n"))
    encoding = Encoding.from_tiktoken(path, split="gpt2", name="bytes")
    estimator = tokenctx.HybridTokenEstimator(vocabularies={"gemini": encoding})
    characters = tokenctx.HybridTokenEstimator(vocabularies={"gemini": Characters()})
    count = estimator.count_request(GEMINI)
    assert count.encoding == "bytes"
    assert count.message_tokens == characters.count_request(GEMINI).message_tokens


class Characters:
    """A vocabulary of the user: a token is a character."""

    name = "my-characters"

    def count(self, text: str) -> int:
        return len(text)


class Broken(Characters):
    """Fails as `answer` says, at the third text."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.calls = 0

    def count(self, text: str) -> int:
        self.calls += 1
        if self.calls < 3:
            return len(text)
        if isinstance(self.answer, BaseException):
            raise self.answer
        answer: int = self.answer
        return answer


def test_a_vocabulary_counts_text_unscaled() -> None:
    estimator = tokenctx.HybridTokenEstimator(vocabularies={"gemini": Characters()})
    count = estimator.count_request(GEMINI)
    parts = [content["parts"][0]["text"] for content in GEMINI["contents"]]
    frames = tokenctx.HybridTokenEstimator(vocabularies={"gemini": Nothing()})
    frame = frames.count_request(GEMINI)
    assert [
        tokens - alone
        for tokens, alone in zip(count.message_tokens, frame.message_tokens, strict=True)
    ] == [len(part) for part in parts]
    assert count.encoding == "my-characters"
    assert (count.profile, count.assumptions) == ("gemini-2.5", ())
    assert estimator.estimate(GEMINI).tokens == count.tokens


class Nothing(Characters):
    """Nothing is a token."""

    def count(self, text: str) -> int:
        return 0 * len(text)


@pytest.mark.parametrize(
    ("names", "winner"),
    [
        (["gemini", "google"], "gemini"),
        (["gemini", "gemini-2.5", "gemini-3"], "gemini-2.5"),
        (["gemini-2.5-pro-preview", "google"], "google"),
        (["GEMINI-2.5-Pro"], "GEMINI-2.5-Pro"),
        (["openai", "gpt"], None),
    ],
)
def test_the_longest_name_of_the_model_wins(names: list[str], winner: str | None) -> None:
    vocabularies = {name: type(name, (Characters,), {"name": name})() for name in names}
    estimator = tokenctx.HybridTokenEstimator(vocabularies=vocabularies)
    assert estimator.count_request(GEMINI).encoding == (winner or "gemma")


def test_an_unknown_model_is_named_by_its_profile_or_provider() -> None:
    body = {"model": "mystery-1", "messages": [{"role": "user", "content": "hello world"}]}
    for name in ("mystery", "unknown"):
        estimator = tokenctx.HybridTokenEstimator(vocabularies={name: Characters()})
        assert estimator.count_request(body).encoding == "my-characters"


def test_an_exact_profile_is_calibrated_at_most() -> None:
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hello world"}]}
    estimator = tokenctx.HybridTokenEstimator(vocabularies={"gpt": Characters()})
    assert tokenctx.HybridTokenEstimator().estimate(body).quality == "exact"
    assert estimator.estimate(body).quality == "calibrated"


@pytest.mark.parametrize("answer", [RuntimeError("secret text"), "7", None, -1, 1 << 32, 1.5])
def test_a_vocabulary_that_fails_is_as_none(answer: Any) -> None:
    plain = tokenctx.HybridTokenEstimator()
    estimator = tokenctx.HybridTokenEstimator(vocabularies={"gemini": Broken(answer)})
    count = estimator.count_request(GEMINI)
    assert count.assumptions == ("failed_vocabulary",)
    assert count.encoding == "gemma"
    assert count.message_tokens == plain.count_request(GEMINI).message_tokens
    estimate = tokenctx.HybridTokenEstimator(vocabularies={"gemini": Broken(answer)}).estimate(
        json.dumps(GEMINI)
    )
    assert estimate.tokens == plain.estimate(GEMINI).tokens
    assert estimate.assumptions == ("failed_vocabulary",)


def test_of_a_run_without_a_place_to_cut_samples_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "cl100k.tiktoken"
    # A rank of 18 bits and more: no tables can be made.
    stray = b"%s 300000\n" % base64.b64encode(b"the end of it")
    path.write_bytes(_core.rank_file("cl100k_base") + stray)
    encoding = Encoding.from_tiktoken(path, split="llama3")
    letters = "".join(random.Random(3).choices("abcdefghijklmnopqrstuvwxyz", k=300_000))
    for text, is_sampled in (
        (letters, True),
        (letters[: 64 << 10], False),
        ("a b " * 99_999, False),
    ):
        body = {"model": "llama-3.3-70b", "messages": [{"role": "user", "content": text}]}
        estimator = tokenctx.HybridTokenEstimator(vocabularies={"llama": encoding})
        count = estimator.count_request(body)
        assert ("unknown_run" in count.assumptions) == is_sampled
        assert (count.quality == "heuristic") == is_sampled
        framing = count.message_tokens[0] - encoding.count(text)
        assert abs(framing) < (0.01 * count.tokens if is_sampled else 20)
        again = estimator.estimate(body)
        assert (again.tokens, "unknown_run" in again.assumptions) == (count.tokens, is_sampled)


def test_a_run_is_counted_whole_by_tables(tmp_path: Path) -> None:
    path = tmp_path / "cl100k.tiktoken"
    path.write_bytes(_core.rank_file("cl100k_base"))
    encoding = Encoding.from_tiktoken(path, split="cl100k_base")
    letters = "".join(random.Random(3).choices("abcdefghijklmnopqrstuvwxyz", k=300_000))
    assert encoding.count(letters) == tokenctx.count_tokens(letters, encoding="cl100k_base")
    body = {"model": "llama-3.3-70b", "messages": [{"role": "user", "content": letters}]}
    estimator = tokenctx.HybridTokenEstimator(vocabularies={"llama": encoding})
    assert "unknown_run" not in estimator.count_request(body).assumptions


def test_what_is_remembered_of_a_tokenizer_is_its_own(tmp_path: Path) -> None:
    text = "Grüße aus Köln, and a few more words than one would need. " * 9
    body = {"model": "gemini-2.5-pro", "messages": [{"role": "user", "content": text}]}
    made = [bpe_tokenizer(), unigram_tokenizer()]
    encodings = []
    for nth, tokenizer in enumerate(made):
        tokenizer.save(str(tmp_path / f"{nth}.json"))
        encodings.append(Encoding.from_tokenizer_json(tmp_path / f"{nth}.json"))
    assert encodings[0].count(text) != encodings[1].count(text)
    for _ in range(2):  # the second time what was remembered answers
        for encoding in encodings:
            estimator = tokenctx.HybridTokenEstimator(
                vocabularies={"gemini": encoding}, secret=bytes(16)
            )
            [tokens] = estimator.count_request(body).message_tokens
            assert 0 <= tokens - encoding.count(text) < 20


def test_constants_are_learned_for_each_vocabulary() -> None:
    def recorded(vocabulary: Any) -> Any:
        estimator = tokenctx.HybridTokenEstimator(vocabularies={"gemini": vocabulary})
        for turn in range(30):
            text = f"{turn} and a few more words " * (turn + 3)
            contents = [{"role": "user", "parts": [{"text": text}]}]
            body = {"model": "gemini-2.5-pro", "contents": contents}
            estimator.record(body, 3 * estimator.count_request(body).tokens)
        return estimator

    models = list(recorded(Characters()).learned()["models"])
    assert [model.rsplit("/", 1)[-1] for model in models] == ["my-characters"]
    estimate = recorded(Characters()).estimate(GEMINI)
    assert "learned_correction" in estimate.assumptions
    broken = Broken(None)
    broken.calls = 3
    assert recorded(broken).learned()["models"] == {}


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_what_ends_the_program_is_raised(error: BaseException) -> None:
    estimator = tokenctx.HybridTokenEstimator(vocabularies={"gemini": Broken(error)})
    with pytest.raises(type(error)):
        estimator.estimate(GEMINI)
    assert tokenctx.HybridTokenEstimator().estimate(GEMINI).tokens > 0


def test_an_encoding_counts_every_text_of_a_request(
    saved: tuple[Path, tokenizers.Tokenizer],
) -> None:
    for encoding in (loaded(saved[0]), Encoding("cl100k_base"), Encoding("claude_v4_8")):
        estimator = tokenctx.HybridTokenEstimator(vocabularies={"gemini": encoding})
        count = estimator.count_request(GEMINI)
        assert count.encoding == encoding.name
        texts = [content["parts"][0]["text"] for content in GEMINI["contents"]]
        frames = [
            tokens - encoding.count(text)
            for tokens, text in zip(count.message_tokens, texts, strict=True)
        ]
        assert len(set(frames)) == 1


def test_a_vocabulary_may_use_the_estimator_itself() -> None:
    class Nested(Characters):
        def count(self, text: str) -> int:
            return len(text) if len(text) > 100 else estimator.estimate({"messages": []}).tokens

    estimator = tokenctx.HybridTokenEstimator(vocabularies={"gemini": Nested()})
    assert estimator.estimate(GEMINI).assumptions == ()
    assert estimator.record(GEMINI, 10)


def test_vocabularies_are_checked() -> None:
    with pytest.raises(TypeError, match=r"'gemini' is a str; it needs name and count"):
        tokenctx.HybridTokenEstimator(vocabularies={"gemini": "o200k_base"})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="named ''"):
        tokenctx.HybridTokenEstimator(vocabularies={"": Characters()})
    with pytest.raises(ValueError, match="only 'profile' counts by vocabularies"):
        tokenctx.HybridTokenEstimator(method="universal", vocabularies={"gemini": Characters()})
