"""Texts that a vocabulary may get wrong, and the vocabularies as tiktoken has them."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import tiktoken
from hypothesis import strategies as st
from tiktoken_ext import openai_public

from strategies import ASSIGNED
from tokenctx import _core

ENCODINGS = (
    *("o200k_base", "o200k_harmony", "cl100k_base", "p50k_base", "p50k_edit", "r50k_base", "gpt2"),
)


ATOMS = [
    *("'s 'S 'T 're 'VE 'm 'll 'Ll 'd 'x ' '' \u2019s".split(" ")),
    "'\u017f",
    "\u017f",
    "\u212a",
    "can't",
    *("\r \n \r\n \n\n \t \x0b \x0c \x85 \x1c \x1f".split(" ")),
    *(" ", "  ", "   ", " " * 40, "\u00a0", "\u1680", "\u2000", "\u200a", "\u2028", "\u2029"),
    *("\u202f", "\u205f", "\u3000", "\u200b", "\u200d", "\ufeff", "\u180e", "\u0000"),
    *("\u0301", "\u0e31", "\u0903", "\u20dd", "\u093f", "e\u0301", "\u01c5", "\u02b0", "\u00aa"),
    *("0 1 12 123 1234 ٣ ५ \U0001d7d7 ½ ² Ⅷ ㊿ \u3007 一".split()),
    *("a A b aB Ab ABC abc hello World HTTPServer İ ß ẞ ﬁ ǅ Ω ё 漢字 かな 한국어 العربية".split()),
    *('. , / // /\n - — = == ( ) { } [ ] " \\ _ __ # @ € « »'.split(" ")),
    *("😀 👩‍👩‍👧 🇩🇪 👍🏽 ❤️".split()),
    *("<|endoftext|>", "<|endofprompt|>", "<|start|>", "<|fim_prefix|>", "<|reserved_200013|>"),
    *("\ud800", "\udfff", "\ud83d\ude00", "\U0010ffff", "\uffff", "\ufffd", "\u0378"),
    *("aaaaaaaa", "========", "zzzz", "00000000", "\n\n\n\n", "a1b2c3", "x_y", "https://a.b/c?d=e"),
    "def f(x):\n        return x\n",
]


atoms = st.sampled_from(ATOMS)


def texts_of(characters: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Text of what the split rules look at, and of these characters."""
    return st.one_of(
        st.lists(atoms, max_size=24).map("".join),
        st.lists(atoms | characters, max_size=12).map("".join),
        st.tuples(atoms, st.integers(1, 300)).map(lambda pair: pair[0] * pair[1]),
        st.text(characters, max_size=30),
    )


texts = texts_of(st.characters(codec=None, exclude_categories=()))


reference_texts = texts_of(ASSIGNED)


def published(encoding: Any) -> tuple[tiktoken.Encoding, str]:
    """tiktoken's encoding without a download, and the SHA-256 that it expects of the ranks."""
    expected = []

    def load(url: str, expected_hash: str) -> dict[bytes, int]:
        expected.append(expected_hash)
        name: Any = url.rsplit("/", 1)[-1].removesuffix(".tiktoken")
        lines = (line.split() for line in _core.rank_file(name).splitlines())
        return {base64.b64decode(token): int(rank) for token, rank in lines}

    def load_gpt2(**_files: str) -> dict[bytes, int]:
        return load("r50k_base.tiktoken", published("r50k_base")[1])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openai_public, "load_tiktoken_bpe", load)
        patch.setattr(openai_public, "data_gym_to_mergeable_bpe_ranks", load_gpt2)
        made = tiktoken.Encoding(**getattr(openai_public, encoding)())
    return made, expected[0]


HOSTILE = {
    "spaces": " " * 1_000_000,
    "letters": "a" * 1_000_000,
    "upper and lower": "aB" * 500_000,
    "equals": "=" * 1_000_000,
    "line ends": "\n" * 1_000_000,
    "digits": "7" * 1_000_000,
    "marks": "\u0301" * 500_000,
    "emoji": "👩\u200d" * 140_000,
    "base64": base64.b64encode(bytes(range(256)) * 3000).decode(),
    "han": "漢字" * 166_000,
    "contractions": "'s'll" * 200_000,
}
