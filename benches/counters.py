"""Every implementation that counts tokens, behind one shape: a name, a version, a count.

All are fed with the vocabulary of `tokenctx`, so that nothing is downloaded. Those that cannot take
one bring their own. Special tokens count as plain text where an implementation has the choice.
"""

from __future__ import annotations

import base64
import ctypes
import functools
import importlib.metadata
import importlib.util
import json
import operator
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import tiktoken

Count = Callable[[str], int]
ENCODINGS: Final = ("o200k_base", "o200k_harmony", "cl100k_base", "p50k_base", "r50k_base")
VENDORS: Final = ("deepseek_v3", "mistral_v3", "qwen2")
OURS: Final = "tokenctx"
ROOT: Final = Path(__file__).parents[1]


@dataclass(frozen=True)
class Counter:
    """An implementation; `load` returns its counting function for (encoding, vocabulary folder)."""

    name: str
    module: str
    load: Callable[[str, Path], Count]
    encodings: tuple[str, ...] = ENCODINGS

    def is_installed(self) -> bool:
        return importlib.util.find_spec(self.module) is not None

    def version(self) -> str:
        return importlib.metadata.version(self.name)

    def prepare(self, folder: Path) -> None:
        """Put what `load` needs into the vocabulary folder; a RuntimeError says why it cannot."""


class Crate(Counter):
    """A Rust crate that the example `peer_<crate>` makes a C library of; `module` loads it."""

    @property
    def example(self) -> str:
        return f"peer_{self.name.replace('-', '_')}"

    def version(self) -> str:
        lock = (ROOT / "Cargo.lock").read_text("utf-8")
        found = re.search(rf'name = "{self.name}"\nversion = "(.+)"', lock)
        assert found, f"Cargo.lock has no {self.name}"
        return found[1]

    def prepare(self, folder: Path) -> None:
        """Have cargo build the library: a minute the first time."""
        library = folder / f"{self.example}.so"
        library.unlink(missing_ok=True)  # not overwritten: another process may run it
        if not shutil.which("cargo"):
            raise RuntimeError("cargo is missing, which builds it; install Rust")
        flags = ("--release", "--locked", "--no-default-features", "--crate-type", "cdylib")
        command = ("cargo", "rustc", "--example", self.example, *flags, "--message-format", "json")
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"cargo could not build it:\n{done.stderr[-2000:]}")
        messages = [json.loads(line) for line in done.stdout.splitlines()]
        made = (m for m in messages if m.get("target", {}).get("name") == self.example)
        shutil.copy(next(made)["filenames"][0], library)


def vocabulary_folder() -> Path:
    """Where `write_vocabulary` puts files and `Counter.load` looks for them."""
    return Path(tempfile.gettempdir()) / f"tokenctx-vocabularies-{sys.version_info.minor}"


def write_vocabulary(encoding: str, folder: Path) -> None:
    """Write `<encoding>.tiktoken` and, if anything reads it, `<encoding>.json`.

    Nothing for an encoding of Claude.
    """
    from tokenctx._core import rank_file

    if encoding not in ENCODINGS:
        return
    folder.mkdir(exist_ok=True)
    ranks = rank_file(encoding)  # type: ignore[arg-type]
    (folder / f"{encoding}.tiktoken").write_bytes(ranks)
    readers = ("fastokens", "tokie", "tokenizers")
    if any(map(importlib.util.find_spec, readers)) and importlib.util.find_spec("tiktoken"):
        made = json.dumps(_tokenizer_json(encoding), ensure_ascii=False)
        (folder / f"{encoding}.json").write_text(made, "utf-8")


def _parsed(ranks: bytes) -> dict[bytes, int]:
    rows = (line.split() for line in ranks.splitlines())
    return {base64.b64decode(token): int(rank) for token, rank in rows}


def tiktoken_encoding(encoding: str) -> tiktoken.Encoding:
    """The encoding as `tiktoken` defines it, with our ranks, whose hash `tiktoken` knows.

    Another vendor's has our pattern and ranks, whose hash is known when they are built.
    """
    import tiktoken
    from tiktoken_ext import openai_public

    if encoding in VENDORS:
        from tokenctx._core import rank_file, split_pattern

        ranks, pattern = _parsed(rank_file(encoding)), split_pattern(encoding)  # type: ignore[arg-type]
        return tiktoken.Encoding(
            encoding, pat_str=pattern, mergeable_ranks=ranks, special_tokens={}
        )
    original = openai_public.load_tiktoken_bpe
    openai_public.load_tiktoken_bpe = functools.partial(_our_ranks, encoding)
    try:
        return tiktoken.Encoding(**getattr(openai_public, encoding)())
    finally:
        openai_public.load_tiktoken_bpe = original


def _our_ranks(encoding: str, _url: str, expected_hash: str | None = None) -> dict[bytes, int]:
    import hashlib

    from tokenctx._core import rank_file

    ranks = rank_file(encoding)  # type: ignore[arg-type]
    if hashlib.sha256(ranks).hexdigest() != expected_hash:
        raise ValueError(f"{encoding}: the rank file is not the one that tiktoken expects")
    return _parsed(ranks)


def _tokenizer_json(encoding: str) -> dict[str, Any]:
    """The encoding in the format of `tokenizers`, converted as `transformers` does it."""
    definition = tiktoken_encoding(encoding)
    letters = _byte_letters()
    ranks = definition._mergeable_ranks  # noqa: SLF001  # the only way to them
    merges: list[tuple[int, int, int, bytes, bytes]] = []
    for token, rank in ranks.items():
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in ranks and right in ranks:
                merges.append((rank, ranks[left], ranks[right], left, right))
    merges.sort()

    def spelled(token: bytes) -> str:
        return "".join(letters[byte] for byte in token)

    pattern = definition._pat_str  # noqa: SLF001
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"}
    bytes_ = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": True,
        "vocab": {spelled(token): rank for token, rank in ranks.items()},
        "merges": [[spelled(left), spelled(right)] for _, _, _, left, right in merges],
    }
    splits = [{**split, "invert": False}, {**bytes_, "use_regex": False}]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": splits},
        "post_processor": None,
        "decoder": {**bytes_, "use_regex": True},
        "model": model,
    }


def _byte_letters() -> list[str]:
    """The letter that stands for each byte in a `tokenizer.json`, as GPT-2 chose them."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(256) if byte not in printable)
    places = {byte: 256 + place for place, byte in enumerate(others)}
    return [chr(places.get(byte, byte)) for byte in range(256)]


def _tokenctx(encoding: str, _: Path) -> Count:
    import tokenctx

    return functools.partial(tokenctx.count_tokens, encoding=encoding)  # type: ignore[arg-type]


def _tiktoken(encoding: str, _: Path) -> Count:
    encode = tiktoken_encoding(encoding).encode_ordinary
    return lambda text: len(encode(text))


def gigatoken_encode(encoding: str, ranks: Path) -> Callable[[str], Any]:
    """Its encode, which gives an array of numpy; fed with a `.tiktoken` file."""
    from gigatoken.gigatoken_rs import BPETokenizer

    rule = {"o": "o200k", "c": "gpt4", "r": "gpt2"}[encoding[0]]
    encode: Callable[[str], Any] = BPETokenizer.from_tiktoken(ranks, rule, {}).encode
    return encode


def _gigatoken(encoding: str, folder: Path) -> Count:
    encode = gigatoken_encode(encoding, folder / f"{encoding}.tiktoken")
    return lambda text: len(encode(text))


def _fastokens(encoding: str, folder: Path) -> Count:
    import fastokens

    tokenizer = fastokens.Tokenizer.from_file(str(folder / f"{encoding}.json"))
    return lambda text: len(tokenizer.encode_ordinary(text))


def _tokie(encoding: str, folder: Path) -> Count:
    import tokie

    count: Count = tokie.Tokenizer.from_json(str(folder / f"{encoding}.json")).count_tokens
    return count


def _wordchipper(encoding: str, _: Path) -> Count:
    import wordchipper

    tokenizer = wordchipper.Tokenizer.from_pretrained(encoding)
    if tokenizer.vocab_size < 1000:  # the wheels of 0.9.0 to 0.9.2 hold the 256 bytes only
        raise ValueError(f"its {encoding} has {tokenizer.vocab_size} tokens")
    none = wordchipper.SpecialFilter.include_none()
    return lambda text: len(tokenizer.encode(text, none))


def _rs_bpe(encoding: str, _: Path) -> Count:
    from rs_bpe.bpe import openai

    count: Count = getattr(openai, encoding)().count
    return count


def _tiktoken_rs(encoding: str, folder: Path) -> Count:
    function = getattr(ctypes.CDLL(str(folder / "peer_tiktoken_rs.so")), f"count_{encoding}")
    function.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
    function.restype = ctypes.c_uint64
    failed = 2**64 - 1

    def count(text: str) -> int:
        utf8 = text.encode()
        tokens: int = function(utf8, len(utf8))
        if tokens == failed:
            raise ValueError(f"tiktoken-rs does not count this text of {len(utf8)} bytes")
        return tokens

    count("")  # the first call loads the vocabulary
    return count


def _tokenizers(encoding: str, folder: Path) -> Count:
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(folder / f"{encoding}.json"))
    encode = functools.partial(tokenizer.encode, add_special_tokens=False)
    return lambda text: len(encode(text))


def _ctok(encoding: str, _: Path) -> Count:
    import ctok

    version, frame_tokens = CLAUDE_VERSIONS[encoding]
    return lambda text: operator.index(ctok.token_count(text, version)) - frame_tokens


OPENAI: Final = ("o200k_base", "cl100k_base")
# What ctok calls a version, and the tokens of the frame of a message, which it counts too.
CLAUDE_VERSIONS: Final = {
    "claude_v3": ("3.0", 7),
    "claude_v4_7": ("4.7", 11),
    "claude_v4_8": ("4.8", 6),
}
COUNTERS: Final = (
    Counter(OURS, "tokenctx", _tokenctx),
    Counter("fastokens", "fastokens", _fastokens),
    Counter("gigatoken", "gigatoken", _gigatoken, (*OPENAI, "r50k_base")),
    Counter("tokie", "tokie", _tokie),
    Counter("wordchipper", "wordchipper", _wordchipper),
    Counter("rs-bpe", "rs_bpe", _rs_bpe, OPENAI),
    Counter("tiktoken", "tiktoken", _tiktoken),
    Crate("tiktoken-rs", "ctypes", _tiktoken_rs),
    Counter("tokenizers", "tokenizers", _tokenizers),
    Counter("ctok", "ctok", _ctok, tuple(CLAUDE_VERSIONS)),
)


def installed(encoding: str) -> list[Counter]:
    """Ours first, then the peers of `encoding` that can be imported here."""
    known = [counter for counter in COUNTERS if encoding in counter.encodings]
    ours = [counter for counter in COUNTERS if counter.name == OURS and counter not in known]
    return ours + [counter for counter in known if counter.is_installed()]


def named(name: str) -> Counter:
    return next(counter for counter in COUNTERS if counter.name == name)
