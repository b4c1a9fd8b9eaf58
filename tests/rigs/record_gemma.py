"""Write `tests/data/gemma/counts.json`: texts of our own, counted by SentencePiece.

Run with sentencepiece and the file that Google's SDK counts Gemini with, which may not be shipped:
`python tests/rigs/record_gemma.py gemma3_cleaned_262144_v2.spiece.model`.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from record_claude import texts as claude_texts

TARGET = Path(__file__).parents[1] / "data" / "gemma" / "counts.json"
DIGEST = "1299c11d7cf632ef3b4e11937501358ada021bbdf7c47638d13c0ee982f2e79c"
EVERY = 4
"""Of Claude's texts, so many have one that is taken: they are the same kinds again and again."""
RUNS = (" ", "\n", "\t", "=", " =", "S", ":", "-", "y", "<", "\r\n", "中", "😀", "▁")
TEXTS = [
    *(
        before + atom * times
        for atom in RUNS
        for before in ("", "x", " ")
        for times in (1, 2, 6, 31)
    ),
    *(atom * times + "end" for atom in RUNS for times in (10, 32, 33, 63, 700)),
    *(" ======", " ==========", " =======", " SSSR", " SSSRS", " YYYY", " yyyy", " ::::::::"),
    *("x> </div", "<p> </p>", "a > </b", "> </", ">  </", "1> </x", " > </>"),
    *(
        "<div>",
        "</div>",
        "<td>1</td>",
        "<tr><td> </td></tr>",
        "<h1>T</h1>",
        "<p>",
        "<DIV>",
        "<div >",
    ),
    *(
        "12,345.67",
        "x1y2",
        "٣٤",
        "a\x00b",
        "a\rb",
        "\u200dx",
        "ꙮ",
        "\U0001d539",
        "\U000e0100",
        "\U0010fffd",
    ),
    "▁a▁b c",
    "def f(x):\n\tif x:\n\t\treturn [i for i in range(10)]\n\n\n    # done\r\n",
]


def texts() -> list[str]:
    """Every text that is recorded."""
    return sorted({*TEXTS, *claude_texts()[::EVERY]})


def main() -> None:
    path = Path(sys.argv[1])
    if hashlib.sha256(path.read_bytes()).hexdigest() != DIGEST:
        sys.exit(f"{path} is not the file that Google's SDK names")
    sentencepiece: Any = importlib.import_module("sentencepiece")
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    about = {
        "source": f"sentencepiece {metadata.version('sentencepiece')}, Gemma 3's model {DIGEST}",
        "date": "2026-11-24",
        "columns": ["text", "gemma"],
    }
    rows = ",\n".join(json.dumps([text, len(model.encode(text))]) for text in texts())
    head = json.dumps(about, indent=1)[:-2]
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(f'{head},\n "counts": [\n{rows}\n]\n}}\n', "utf-8")


if __name__ == "__main__":
    main()
