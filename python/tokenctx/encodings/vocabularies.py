"""Vocabularies that the user brings: files, and any object that counts."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from tokenctx._results.estimates import TextCounter

MAX_FILE_BYTES: Final = 256 << 20
"""Largest vocabulary file that is read; that of Gemma 3 has 33 MB."""


def named_vocabularies(
    vocabularies: Mapping[str, TextCounter], method: str
) -> list[tuple[str, TextCounter]]:
    """The vocabularies for an engine; names of models are lower case there."""
    if method != "profile":
        raise ValueError(f"method is {method!r}; only 'profile' counts by vocabularies")
    for name, vocabulary in vocabularies.items():
        if not name:
            raise ValueError("a vocabulary is named ''; name a model, a profile or a provider")
        if not callable(getattr(vocabulary, "count", None)) or not hasattr(vocabulary, "name"):
            kind = type(vocabulary).__name__
            raise TypeError(f"vocabulary {name!r} is a {kind}; it needs name and count(text)")
    return [(name.lower(), vocabulary) for name, vocabulary in vocabularies.items()]


def read_file(path: str | os.PathLike[str], name: str | None) -> tuple[bytes, str, str]:
    """Content of a vocabulary file, its name and the SHA-256 of the content."""
    path = Path(path)
    with path.open("rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise ValueError(f"{path.name} has more than {MAX_FILE_BYTES >> 20} MiB; is it the file?")
    return content, path.name if name is None else name, hashlib.sha256(content).hexdigest()


def load_tokenizer_json(content: bytes, name: str) -> Tokenizer:
    """The tokenizer in a `tokenizer.json` that the core does not count by itself."""
    _check_tokenizer(content, name)
    return Tokenizer(content, name)


def _check_tokenizer(content: bytes, name: str) -> None:
    """Raise ValueError unless `content` looks like a `tokenizer.json` with a vocabulary."""
    try:
        tokenizer = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} is not JSON: {error}") from None
    model = tokenizer.get("model") if isinstance(tokenizer, dict) else None
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if not vocabulary or not isinstance(vocabulary, dict | list):
        raise ValueError(f"{name} has no vocabulary in 'model.vocab'; it must be a tokenizer.json")


class Tokenizer:
    """A tokenizer of the package tokenizers; text is only text, and nothing is added or cut."""

    def __init__(self, content: bytes, name: str) -> None:
        try:
            import tokenizers
        except ImportError:
            raise ImportError(
                "a tokenizer.json needs the package tokenizers: pip install 'tokenctx[tokenizers]'"
            ) from None
        try:
            self._tokenizer: Any = tokenizers.Tokenizer.from_buffer(content)
        except Exception as error:
            raise ValueError(f"tokenizers cannot read {name}: {error}") from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True

    def count(self, text: str) -> int:
        """Number of tokens of `text`."""
        return len(self._tokenizer.encode(text, add_special_tokens=False))

    def encode(self, text: str) -> list[int]:
        """Tokens of `text`."""
        tokens: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return tokens

    def decode(self, tokens: list[int]) -> str:
        """The text of `tokens`, as far as the tokenizer keeps it."""
        text: str = self._tokenizer.decode(tokens, skip_special_tokens=False)
        return text
