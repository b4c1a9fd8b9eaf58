"""Write the two data files of Claude's count model out of an installed ctok 1.3.0.

Run with Python 3.12 or 3.13, whose `unicodedata` has Unicode 15: `python src/claude/extract.py`.
The SHA-256 of what is read and of what is written are in `licenses/manifest.json`.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import re
import sys
import unicodedata
from collections import defaultdict
from importlib.resources import files
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parent
SOURCES = {
    "v3": ("pieces_v3.json", "4c6db216062ef01e70ba033ff52ad3b97f886e79877235f2c7bbbd40d09ffb9b"),
    "v4_7": (
        "pieces_v4_7.json",
        "a785fc240010c855f3d9a498fbd422ee389752dd151f1d5eef57ca8c85c19993",
    ),
}
MEASURED = {"v3": {"none": ['"]}', ')"}', '."}'], "bow": ["[]}"]}}
"""Pieces that ctok does not have: with them, the ends of tool schemas count as they are billed
(recorded calls of 8 projects)."""
MARKERS = {"\ufdd0": "bow", "\ufdd1": "eow", "\ufdd3": "shift", "\ufdd4": "caps"}

notation = importlib.import_module("ctok.notation")
normalize = importlib.import_module("ctok.normalize")
constants = importlib.import_module("ctok.constants")


def vocabulary(name: str, digest: str) -> dict[str, Any]:
    """The pieces of one family, grouped by the markers around their text."""
    source = files("ctok").joinpath("data", name).read_bytes()
    if hashlib.sha256(source).hexdigest() != digest:
        sys.exit(f"{name} is not the file of ctok 1.3.0")
    document = json.loads(source)
    tokens = document["tokens"]
    pieces = {
        notation.parse_marked(piece)
        for group in tokens.keys() - {"bytes_fallback"}
        for piece in tokens[group]
    }
    pieces |= {suffix + "\ufdd1" for suffix in tokens["contractions"]}
    groups = defaultdict(list)
    ordered = re.compile("[\ufdd3\ufdd4]?\ufdd0?[^\ufdd0-\ufdd4]+\ufdd1?")
    for piece in sorted(pieces - MARKERS.keys()):
        if not ordered.fullmatch(piece):
            sys.exit(f"markers are not around the text of {piece!a}")
        around = " ".join(MARKERS[c] for c in piece if c in MARKERS)
        text = "".join(c for c in piece if c not in MARKERS)
        groups[around or "none"].append(text)
    return {
        "source": {"file": name, "sha256": digest, "built": document["meta"]["built"]},
        "markers": sorted(MARKERS[piece] for piece in pieces & MARKERS.keys()),
        "pieces": dict(sorted(groups.items())),
        "byte_prefixes": sorted(tokens["bytes_fallback"]),
    }


def composing() -> set[str]:
    """Every character that NFC may join to the one before it."""
    seconds = {chr(code) for code in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))}
    for code in range(sys.maxunicode + 1):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            pair = "".join(chr(int(part, 16)) for part in parts)
            if unicodedata.normalize("NFC", pair) == chr(code):
                seconds.add(pair[1])
    return seconds


def kind(c: str, seconds: set[str]) -> str:
    """All that the model looks at in one character, as words; the first is its class."""
    words = [character_class(c)]
    if words[0] == "word":
        category = unicodedata.category(c)
        caseless = category[0] in "LM" or c in normalize._NEW_CASED
        upper, lowers = normalize._is_upper(c), normalize._lower(c) != c
        words += ["stray"] * normalize._stray_mark(c)
        words += ["upper"] * upper + ["lower"] * normalize._is_lower(c) + ["lowers"] * lowers
        words += ["caseless"] * (caseless and not normalize._is_lower(c) and not (upper and lowers))
        words += ["symbolic"] * normalize._marks_like_punct(c)
    if unicodedata.normalize("NFC", c) != c or c in seconds:
        words.append("composing")
    elif unicodedata.combining(c):
        words.append("combining")
    if unicodedata.category(c) == "Cn":
        words.append("unassigned")
    return " ".join(words)


def character_class(c: str) -> str:
    """The class of one character; of a removed or folded one, how it goes."""
    if constants.STRIP_CONTROL.match(c):
        return "control"
    if constants.STRIP_PRIVATE.match(c):
        return "private"
    if c == "\0" or constants.FUNNY_SPACE.match(c):
        return "blank"
    found = normalize.classify(c)
    if found == constants.DIGIT:
        return "digit" if c.isascii() else "border_digit"
    if found != constants.HARD:
        return {"wordy": "word", "punct": "punctuation", "space": "space"}[found]
    if normalize._is_selector(c):
        return "selector"
    name = {"letter": "ideograph", "punct": "symbol"}.get(normalize._hard_kind(c))
    return name or {"Nd": "decimal", "No": "number"}[unicodedata.category(c)]


def characters() -> dict[str, list[list[int]]]:
    """Ranges of code points, by kind; surrogates are in none."""
    seconds = composing()
    ranges = defaultdict(list)
    previous = None
    for code in (*range(0xD800), *range(0xE000, sys.maxunicode + 1)):
        found = kind(chr(code), seconds)
        if found == previous and code != 0xE000:
            ranges[found][-1][1] = code
        else:
            ranges[found].append([code, code])
        previous = found
    return dict(sorted(ranges.items()))


def write(name: str, about: dict[str, Any], parts: dict[str, Any]) -> None:
    """One part to a line, so that a change can be read."""
    compact = {"ensure_ascii": False, "separators": (",", ":")}
    lines = [f'"about":{json.dumps(about, **compact)}']
    lines += [f"{json.dumps(key)}:{json.dumps(part, **compact)}" for key, part in parts.items()]
    (TARGET / name).write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    print(name, hashlib.sha256((TARGET / name).read_bytes()).hexdigest())


def main() -> None:
    about = {"source": "ctok 1.3.0, PyPI", "licence": "MIT, Copyright (c) 2026 Sander Land"}
    vocabularies = {name: vocabulary(*SOURCES[name]) for name in SOURCES}
    for name, pieces in MEASURED.items():
        vocabularies[name]["measured"] = pieces
    write("claude_vocabulary.json", about, vocabularies)
    about["unicode"] = unicodedata.unidata_version
    write("claude_characters.json", about, characters())


if __name__ == "__main__":
    main()
