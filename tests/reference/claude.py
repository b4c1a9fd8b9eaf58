"""Claude's count model: normalise, mark words and case, tile with the fewest pieces.

It writes the marked text down and tiles it whole, where the core
counts cell by cell. Vocabularies and character tables are the same two data files, taken from
ctok 1.3.0 (MIT, Sander Land). Form C is that of the interpreter's Unicode, for characters that
Unicode 15.0 has; an interpreter before 3.12 does not know the newest of them.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from bisect import bisect_right
from typing import Final, NamedTuple

from reference.tables import claude_table

BOW, EOW, SHIFT, CAPS = "\ud800", "\ud801", "\ud802", "\ud803"
"""Markers, as code points that no text holds: a word begins, ends, is capitalised, is capitals."""

MARKERS: Final = {"bow": BOW, "eow": EOW, "shift": SHIFT, "caps": CAPS}
HARD: Final = {"ideograph", "symbol", "number"}
SUFFIXES: Final = {"s", "t", "d", "m", "ll", "re", "ve"}
"""What a contraction has after its apostrophe."""

CAPS_CHARACTERS: Final = 4
"""Least length of a word in capitals that is marked as such."""

FRAME_LINE_FEEDS: Final = 2
"""Line feeds of the frame after a message; those at the end of the message join them."""

STRAIGHT: Final = {0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"'}
NOT_LOWERED: Final = "\u1e9e"
"""A word with a capital sharp s stays as it is."""

DOTTED_I: Final = "\u0130"
"""Stays as it is within a word whose case is marked."""


class Family(NamedTuple):
    """A generation of the tokenizer."""

    vocabulary: str
    frame_tokens: int
    absorbs_space: bool
    marks_capitals: bool
    folds_quotes: bool


FAMILIES: Final = {
    "claude_v3": Family(
        "v3", frame_tokens=7, absorbs_space=True, marks_capitals=True, folds_quotes=True
    ),
    "claude_v4_7": Family(
        "v4_7", frame_tokens=11, absorbs_space=True, marks_capitals=False, folds_quotes=False
    ),
    "claude_v4_8": Family(
        "v4_7", frame_tokens=6, absorbs_space=False, marks_capitals=False, folds_quotes=False
    ),
}


class Vocabulary(NamedTuple):
    """Pieces with their markers, every beginning of a piece, and byte prefixes that are tokens."""

    pieces: frozenset[str]
    beginnings: frozenset[str]
    byte_prefixes: frozenset[bytes]


class Run(NamedTuple):
    """A stretch of one class."""

    name: str
    text: str


# ------------------------------------------------------------------------------ data


@functools.cache
def vocabulary(name: str) -> Vocabulary:
    """The vocabulary of that name."""
    found = claude_table("claude_vocabulary")[name]
    pieces = {MARKERS[marker] for marker in found["markers"]}
    for around, texts in [*found["pieces"].items(), *found.get("measured", {}).items()]:
        names = [] if around == "none" else around.split()
        head = "".join(MARKERS[marker] for marker in names if marker != "eow")
        pieces |= {head + text + EOW * ("eow" in names) for text in texts}
    beginnings = {piece[:end] for piece in pieces for end in range(1, len(piece) + 1)}
    prefixes = map(bytes.fromhex, found["byte_prefixes"])
    return Vocabulary(frozenset(pieces), frozenset(beginnings), frozenset(prefixes))


@functools.cache
def kind_ranges() -> tuple[list[int], list[frozenset[str]]]:
    """First code point and kind of every range, in order."""
    ranges = sorted(
        (first, words)
        for words, found in claude_table("claude_characters").items()
        if words != "about"
        for first, _ in found
    )
    return [first for first, _ in ranges], [frozenset(words.split()) for _, words in ranges]


@functools.cache
def kind(character: str) -> frozenset[str]:
    """All that the model looks at in one character."""
    firsts, kinds = kind_ranges()
    return kinds[bisect_right(firsts, ord(character)) - 1]


# ------------------------------------------------------------------------------ normalisation


def normal(text: str, family: Family) -> str:
    """`text` without what the model forgets."""
    parts = [""]
    for character in text:  # what Unicode 15.0 does not know keeps its neighbours apart
        if "unassigned" in kind(character):
            parts += [character, ""]
        else:
            parts[-1] += character
    text = "".join(unicodedata.normalize("NFC", part) if part else "" for part in parts)
    text = "".join(c for c in text if "control" not in kind(c)).replace("\0", " ")
    text = text.replace("\u0e4d\u0e32", "\u0e33")
    text = "".join(c for c in text if "private" not in kind(c))
    if family.folds_quotes:
        text = text.translate(STRAIGHT)
    return "".join(" " if "blank" in kind(c) else c for c in text)


# ------------------------------------------------------------------------------ runs


def runs(text: str) -> list[Run]:
    """`text` in stretches of one class; marks without a letter before them are `stray`."""
    found: list[Run] = []
    for character in text:
        before = found[-1].name if found else ""
        name = class_after(before, kind(character))
        if name == before:
            found[-1] = Run(name, found[-1].text + character)
        else:
            found.append(Run(name, character))
    return found


def class_after(before: str, words: frozenset[str]) -> str:
    """Class of a character of this kind after a run of the class `before`."""
    if "word" in words:
        return "stray" if "stray" in words and before != "word" else "word"
    if "selector" in words:
        return before if before in HARD else "ideograph"
    if words & {"number", "decimal"}:
        return "number"
    if words & {"digit", "border_digit"}:
        return "digit"
    return next(name for name in ("ideograph", "symbol", "punctuation", "space") if name in words)


def is_marked(run: Run, edge: str) -> bool:
    """Whether `edge`, the first or last character of a run, is marked beside a space."""
    words = kind(edge)
    if words & {"punctuation", "symbol", "symbolic", "selector"}:
        return True
    kinds = {"".join(kind(c) & {"number", "decimal", "selector"}) for c in run.text}
    uniform = run.name == "digit" or len(kinds) == 1
    return uniform and bool(words & {"number", "decimal", "border_digit"})


# ------------------------------------------------------------------------------ marking


def marked(text: str, family: Family) -> str:
    """Normal text with its markers; a single space between two words is not written."""
    found = runs(text)
    parts = [frame_space(found)] if family.absorbs_space else []
    for at, run in enumerate(found):
        if run.name == "word":
            parts.append(marked_word(found, at, family))
        elif run.name == "stray":
            parts.append(BOW + run.text + EOW * (after(found, at) != "word"))
        elif run.name == "space":
            parts.append(run.text)
        else:
            parts.append(marked_other(found, at, family))
    return re.sub(f"{EOW} ([{SHIFT}{CAPS}]*){BOW}", rf"{EOW}\1{BOW}", "".join(parts))


def after(found: list[Run], at: int) -> str:
    """Class of the run after `at`."""
    return found[at + 1].name if at + 1 < len(found) else ""


def frame_space(found: list[Run]) -> str:
    """What the frame's last marker becomes unless the first run takes it as its own."""
    if not found:
        return BOW
    first = found[0]
    if opens_word(found, 0):
        return " "
    own = first.name in {"word", "stray"} or first.text[0] == " " or is_marked(first, first.text[0])
    return "" if own else BOW


def opens_word(found: list[Run], at: int) -> bool:
    """Whether the run is an apostrophe alone before a word."""
    return found[at].text == "'" and after(found, at) in {"word", "stray"}


def marked_other(found: list[Run], at: int, family: Family) -> str:
    """Punctuation, digits, symbols or ideographs, marked on the sides that touch a space."""
    run = found[at]
    if at:
        left = found[at - 1].name == "space" and found[at - 1].text[-1] == " "
    else:
        left = family.absorbs_space
    right = ""
    if after(found, at) == "space":
        right = found[at + 1].text
    before_space = right[:1] == " " and right[:2] != "  "
    bow = left and is_marked(run, run.text[0]) and not opens_word(found, at)
    eow = before_space and is_marked(run, run.text[-1])
    return BOW * bow + run.text + EOW * eow


def marked_word(found: list[Run], at: int, family: Family) -> str:
    """A word; after a stray mark or the apostrophe of a contraction it is open on the left."""
    text = found[at].text
    if at and found[at - 1].name == "stray":
        return text + EOW
    if contracts(found, at):
        return text + EOW
    case, written = written_word(text, family)
    return case + BOW + written + EOW


def contracts(found: list[Run], at: int) -> bool:
    """Whether the word is the suffix of a contraction, whose apostrophe is a run of its own."""
    if found[at].text not in SUFFIXES or not at or found[at - 1].text != "'":
        return False
    return at < 2 or not is_marked(found[at - 2], found[at - 2].text[-1])


def written_word(text: str, family: Family) -> tuple[str, str]:
    """The case marker of a word and how the word is written after it."""
    kinds = [kind(c) for c in text]
    capitals = [c for c, words in zip(text, kinds, strict=True) if "upper" in words]
    small = any("lower" in words for words in kinds)
    caseless = any("caseless" in words for words in kinds)
    if NOT_LOWERED in text or not capitals:
        return "", text
    if DOTTED_I in text:
        only_first = capitals[0] == text[0] and set(capitals[1:]) <= {DOTTED_I}
        return (SHIFT, lower(text)) if only_first and text[0] != DOTTED_I else ("", text)
    if family.marks_capitals and not small and not caseless and len(text) >= CAPS_CHARACTERS:
        return CAPS, lower(text)
    if "upper" in kinds[0] and len(capitals) == 1:
        return SHIFT, lower(text)
    return "", text


def lower(text: str) -> str:
    """Each character in lower case by itself, but a dotted I as it is."""
    new = {"\u1c89": "\u1c8a", "\ua7cb": "\u0264"}  # pairs of Unicode 16
    return "".join(
        c if c == DOTTED_I or "lowers" not in kind(c) else new.get(c, c.lower()) for c in text
    )


# ------------------------------------------------------------------------------ tiling


def fewest(text: str, pieces: Vocabulary) -> int:
    """Least number of tokens that a marked text can be tiled with."""
    best = [0] + [len(text) * 4 + 1] * len(text)
    for start, character in enumerate(text):
        alone = best[start] + character_tokens(character, pieces)
        best[start + 1] = min(best[start + 1], alone)
        end = start + 1
        while end <= len(text) and text[start:end] in pieces.beginnings:
            if text[start:end] in pieces.pieces:
                best[end] = min(best[end], best[start] + 1)
            end += 1
    return best[-1]


def character_tokens(character: str, pieces: Vocabulary) -> int:
    """Tokens of one character: itself, or its bytes with the longest known prefix as one."""
    if character in pieces.pieces or character in MARKERS.values():
        return 1
    octets = character.encode()
    prefix = (end for end in range(len(octets) - 1, 1, -1) if octets[:end] in pieces.byte_prefixes)
    return len(octets) - next(prefix, 1) + 1


# ------------------------------------------------------------------------------ counting


def count(text: str, encoding: str) -> int:
    """Number of tokens that `text`, without lone surrogates, adds to the frame of a message."""
    family = FAMILIES[encoding]
    pieces = vocabulary(family.vocabulary)
    whole = normal(text, family)
    content = whole.rstrip("\n")
    line_feeds = len(whole) - len(content)
    if family.absorbs_space and text[:1] == " " and re.match(" (?! )", content):
        content = content[1:]
    tokens = fewest(marked(content, family), pieces)
    if line_feeds:  # one token of the run is the frame's own
        tokens += fewest("\n" * (line_feeds + FRAME_LINE_FEEDS), pieces) - 1
    return tokens
