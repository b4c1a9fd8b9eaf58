# ruff: noqa: RUF001  # characters that look alike are what it is about
"""Write `tests/data/claude/counts.json`: texts of our own, counted by ctok 1.3.0.

Run with Python 3.12 or 3.13 and ctok: `python tests/rigs/record_claude.py`.
"""

from __future__ import annotations

import importlib
import json
from importlib import metadata
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "data" / "claude" / "counts.json"
VERSIONS = {"claude_v3": "3.0", "claude_v4_7": "4.7", "claude_v4_8": "4.8"}
FRAMES = {"claude_v3": 7, "claude_v4_7": 11, "claude_v4_8": 6}

ATOMS = [
    *(" ", "  ", "\n", "\n\n", "\t", "\r\n", "\0", "\x7f", "\u00a0", "\u3000", "\u2028", "\ue000"),
    *("a", "Ab", "ABCD", "aBc", "ß", "ẞ", "İ", "Σ", "ǅ", "ϴ", "Ⓐ", "Ⅳ", "ℂ", "ж", "ツ", "ש"),
    *(
        "\u0301",
        "e\u0301",
        "\u0345",
        "\u0bcd",
        "\u093e",
        "\u0711",
        "\u0e4d\u0e32",
        "\ufe0f",
        "\u200d",
    ),
    *("1", "2345", "٣", "१", "²", "½", "𝟗", "〇", "中", "한", "。", "々", "（", "😀", "\U000e0100"),
    *(
        "'",
        "'s",
        "'ll",
        "’",
        "“",
        '"',
        ".",
        "...",
        "==",
        "—",
        "»",
        "€",
        "\ufdd0",
        "\u0378",
        "\u1c89",
    ),
]
TEXTS = [
    "hello, world",
    "Hello, Claude",
    "You are a scientist",
    "What's the weather like in San Francisco?",
    "I don't know; they'll say it's what we've DONE, isn't it? 'Tis so.",
    "The 3 quick-brown foxes (really!) jumped over 12,345.67 lazy dogs...",
    "def count(text: str) -> int:\n    return len(text.split(' '))  # naive\n",
    '{"name": "get_weather", "input": {"city": "Zürich", "days": [1, 2, 3]}, "ok": true}',
    '| a | b |\n|---|---|\n| 1 | 2 |\n\n```rust\nfn main() { println!("{}", 1 << 20); }\n```\n\n\n',
    "Größe, Straße und Übermut sind deutsche Wörter.",
    "Ceci est une phrase française, élégante à souhait : n'est-ce pas ?",
    "Москва — столица России, а СССР был государством.",
    "Το ελληνικό κείμενο έχει τόνους και ΤΕΛΙΚΟ ΣΙΓΜΑΣ.",
    "我们正在讨论人工智能的发展，以及它对社会的影响。",
    "日本語の文章をトークンに分割する方法ヶ月ー。",
    "한국어 문장을 토큰으로 나누는 방법입니다.",
    "हिन्दी में एक वाक्य लिखना आसान है।",
    "هذه جملة باللغة العربية لاختبار العد ١٢٣.",
    "שָׁלוֹם עולם",
    "ภาษาไทยไม่มีการเว้นวรรคระหว่างคำ น้ํา",
    "👩‍👩‍👧‍👦 🇩🇪 👍🏽 ❤️ family & flags",
    "https://example.org/a/b?c=d&e=%20f#g",
    "getElementsByClassName HTTPServer XMLHttpRequest snake_case SCREAMING_SNAKE kebab-case",
    "d41d8cd98f00b204e9800998ecf8427e QmFzZTY0IGlzIGZ1bg==",
    "antidisestablishmentarianism Donaudampfschifffahrtsgesellschaft",
    *(atom * times for atom in "a .=-'\n1é中😀" for times in (3, 17, 64, 129, 700)),
]


def texts() -> list[str]:
    """Every text that is recorded: atoms in pairs, bare and with a space between, and prose."""
    pairs = [left + right for left in ATOMS for right in ATOMS]
    spaced = [f"{left} {right}" for left in ATOMS[12:] for right in ATOMS[12:]]
    return sorted({"", *ATOMS, *pairs, *spaced, *TEXTS})


def main() -> None:
    ctok: Any = importlib.import_module("ctok")
    rows = [
        [text, *(ctok.token_count(text, VERSIONS[name]) - FRAMES[name] for name in VERSIONS)]
        for text in texts()
    ]
    about = {
        "source": f"ctok {metadata.version('ctok')} (PyPI, MIT): token_count less the frame",
        "date": "2026-11-21",
        "columns": ["text", *VERSIONS],
    }
    lines = ",\n".join(json.dumps(row) for row in rows)
    head = json.dumps(about, indent=1)[:-2]
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(f'{head},\n "counts": [\n{lines}\n]\n}}\n', "utf-8")


if __name__ == "__main__":
    main()
