"""Vocabularies that the user brings: from files, or any object that counts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import tokenizers
from hypothesis import given, settings
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

import tokenctx
import tokenctx.reference
from test_counting import texts
from tokenctx import Encoding
from tokenctx.reference import bpe

if TYPE_CHECKING:
    from pathlib import Path

CORPUS = [
    "How many input tokens will the provider bill for this chat request?",
    "tokenctx answers before the request is sent, offline, in microseconds.",
    "Grüße aus Köln; 漢字かな交じり文; مرحبا بالعالم; 👩‍👩‍👧 🇩🇪",
    "def count(text):\n    return len(text.split())\n",
] * 4
GEMINI: Any = {
    "model": "gemini-2.5-pro",
    "systemInstruction": {"parts": [{"text": "Answer in one sentence."}]},
    "contents": [
        {"role": "user", "parts": [{"text": "Why is the sky blue? <bos>"}]},
        {"role": "model", "parts": [{"text": "Because air scatters blue light."}]},
        {"role": "user", "parts": [{"text": "And red at dusk?" * 200}]},
    ],
}


def bpe_tokenizer() -> tokenizers.Tokenizer:
    """As Llama 3 and Qwen: byte-level pieces."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=["<bos>", "<eos>"], initial_alphabet=alphabet
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def unigram_tokenizer() -> tokenizers.Tokenizer:
    """As T5 and XLM-R: pieces by likelihood, with a normal form."""
    tokenizer = tokenizers.Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=200,
        special_tokens=["<bos>", "<unk>"],
        unk_token="<unk>",  # noqa: S106
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


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
    import hashlib

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
    monkeypatch.setattr("tokenctx._vocabularies.MAX_FILE_BYTES", (1 << 20) - 1)
    with pytest.raises(ValueError, match=r"large.json has more than"):
        Encoding.from_tokenizer_json(path)


def test_a_missing_extra_is_named(
    saved: tuple[Path, tokenizers.Tokenizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(ImportError, match=r"pip install 'tokenctx\[tokenizers\]'"):
        Encoding.from_tokenizer_json(saved[0])


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


def test_a_vocabulary_counts_text_unscaled(implementation: Any) -> None:
    estimator = implementation.HybridTokenEstimator(vocabularies={"gemini": Characters()})
    count = estimator.count_request(GEMINI)
    parts = [content["parts"][0]["text"] for content in GEMINI["contents"]]
    frames = implementation.HybridTokenEstimator(vocabularies={"gemini": Nothing()})
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
def test_the_longest_name_of_the_model_wins(
    implementation: Any, names: list[str], winner: str | None
) -> None:
    vocabularies = {name: type(name, (Characters,), {"name": name})() for name in names}
    estimator = implementation.HybridTokenEstimator(vocabularies=vocabularies)
    assert estimator.count_request(GEMINI).encoding == (winner or "o200k_base")


def test_an_unknown_model_is_named_by_its_profile_or_provider(implementation: Any) -> None:
    body = {"model": "mystery-1", "messages": [{"role": "user", "content": "hello world"}]}
    for name in ("mystery", "unknown"):
        estimator = implementation.HybridTokenEstimator(vocabularies={name: Characters()})
        assert estimator.count_request(body).encoding == "my-characters"


def test_an_exact_profile_is_calibrated_at_most(implementation: Any) -> None:
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hello world"}]}
    estimator = implementation.HybridTokenEstimator(vocabularies={"gpt": Characters()})
    assert implementation.HybridTokenEstimator().estimate(body).quality == "exact"
    assert estimator.estimate(body).quality == "calibrated"


@pytest.mark.parametrize("answer", [RuntimeError("secret text"), "7", None, -1, 1 << 32, 1.5])
def test_a_vocabulary_that_fails_is_as_none(implementation: Any, answer: Any) -> None:
    plain = implementation.HybridTokenEstimator()
    estimator = implementation.HybridTokenEstimator(vocabularies={"gemini": Broken(answer)})
    count = estimator.count_request(GEMINI)
    assert count.assumptions == ("failed_vocabulary",)
    assert count.encoding == "o200k_base"
    assert count.message_tokens == plain.count_request(GEMINI).message_tokens
    estimate = implementation.HybridTokenEstimator(
        vocabularies={"gemini": Broken(answer)}
    ).estimate(json.dumps(GEMINI))
    assert estimate.tokens == plain.estimate(GEMINI).tokens
    assert estimate.assumptions == ("failed_vocabulary",)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_what_ends_the_program_is_raised(implementation: Any, error: BaseException) -> None:
    estimator = implementation.HybridTokenEstimator(vocabularies={"gemini": Broken(error)})
    with pytest.raises(type(error)):
        estimator.estimate(GEMINI)
    assert tokenctx.HybridTokenEstimator().estimate(GEMINI).tokens > 0


def test_both_implementations_count_alike_with_an_encoding(
    saved: tuple[Path, tokenizers.Tokenizer],
) -> None:
    for encoding in (loaded(saved[0]), Encoding("cl100k_base"), Encoding("claude_v4_8")):
        twins: list[Any] = [tokenctx, tokenctx.reference]
        counts = [
            twin.HybridTokenEstimator(vocabularies={"gemini": encoding}).count_request(GEMINI)
            for twin in twins
        ]
        assert counts[0] == counts[1]
        assert counts[0].encoding == encoding.name


def test_a_vocabulary_may_use_the_estimator_itself() -> None:
    class Nested(Characters):
        def count(self, text: str) -> int:
            return len(text) if len(text) > 100 else estimator.estimate({"messages": []}).tokens

    estimator = tokenctx.HybridTokenEstimator(vocabularies={"gemini": Nested()})
    assert estimator.estimate(GEMINI).assumptions == ()
    assert estimator.record(GEMINI, 10)


def test_vocabularies_are_checked(implementation: Any) -> None:
    with pytest.raises(TypeError, match=r"'gemini' is a str; it needs name and count"):
        implementation.HybridTokenEstimator(vocabularies={"gemini": "o200k_base"})
    with pytest.raises(ValueError, match="named ''"):
        implementation.HybridTokenEstimator(vocabularies={"": Characters()})
    with pytest.raises(ValueError, match="only 'profile' counts by vocabularies"):
        implementation.HybridTokenEstimator(
            method="universal", vocabularies={"gemini": Characters()}
        )
