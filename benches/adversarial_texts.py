"""Texts that are made to be slow to count, by name: for the gates and for the study of them."""

from __future__ import annotations

import base64
import functools
import random
from typing import TYPE_CHECKING, Final

from corpora import SCRIPTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MADE_BYTES: Final = 8 << 20


def repeated(unit: str) -> Callable[[random.Random, int], str]:
    return lambda _, length: unit * (length // len(unit.encode()) + 1)


def drawn(alphabet: Iterable[str]) -> Callable[[random.Random, int], str]:
    """Random draws from `alphabet`."""
    units = list(alphabet)

    def fill(random_: random.Random, length: int) -> str:
        mean = sum(len(unit.encode()) for unit in units) / len(units)
        text = "".join(random_.choices(units, k=int(length / mean) + 8))
        return text + units[0] * length if len(text.encode()) < length else text

    return fill


def letters(first: str, last: str) -> list[str]:
    return [chr(code) for code in range(ord(first), ord(last) + 1)]


def periodic(period: int) -> Callable[[random.Random, int], str]:
    """Random lower case letters that repeat after `period`."""

    def fill(random_: random.Random, length: int) -> str:
        return repeated("".join(random_.choices(letters("a", "z"), k=period)))(random_, length)

    return fill


def fibonacci(random_: random.Random, length: int) -> str:
    """The word that is periodic nowhere and repeats itself everywhere."""
    del random_
    word, longer = "a", "ab"
    while len(longer) < length:
        word, longer = longer, longer + word
    return longer


def thue_morse(random_: random.Random, length: int) -> str:
    del random_
    word = "a"
    while len(word) < length:
        word += word.translate({97: "b", 98: "a"})
    return word


def base64_text(random_: random.Random, length: int) -> str:
    return base64.b64encode(random_.randbytes(length)).decode()


def growing_runs(random_: random.Random, length: int) -> str:
    """Runs of one to 300 of a letter, apart by another."""
    return drawn("a" * run + "b" for run in range(1, 300))(random_, length)


def words_of_scripts(random_: random.Random, length: int) -> str:
    """Short made-up words of many scripts, some of which recur."""
    words = []
    for first, last, joint in SCRIPTS:
        for _ in range(60):
            size = random_.randrange(1, 8)
            words.append("".join(chr(random_.randint(first, last)) for _ in range(size)) + joint)
    return drawn(words)(random_, length)


@functools.cache
def vocabulary(encoding: str = "o200k_base") -> tuple[str, ...]:
    """The tokens that are UTF-8, the longest last."""
    from tokenctx._core import rank_file

    lines = rank_file(encoding).splitlines()  # type: ignore[arg-type]
    tokens = (base64.b64decode(line.split()[0]) for line in lines)
    decoded = (token.decode("utf-8", "ignore") for token in tokens)
    return tuple(sorted((token for token in set(decoded) if token), key=lambda t: (len(t), t)))


def tokens_of(
    accepts: Callable[[str], bool], change: Callable[[str], str] = str
) -> Callable[[random.Random, int], str]:
    """Tokens that `accepts` takes, changed, in random order."""

    def fill(random_: random.Random, length: int) -> str:
        return drawn([c for token in vocabulary() if accepts(token) and (c := change(token))])(
            random_, length
        )

    return fill


def is_word(token: str) -> bool:
    return token.isascii() and token.isalpha()


def is_lower(token: str) -> bool:
    return is_word(token) and token.islower()


def is_symbols(token: str) -> bool:
    return token.isascii() and not any(c.isalnum() or c.isspace() for c in token)


def chains(random_: random.Random, length: int) -> str:
    """Lower case tokens of which each begins with the end of the one before."""
    followers: dict[str, list[str]] = {}
    for token in vocabulary():
        if is_lower(token) and len(token) > 2:
            followers.setdefault(token[:2], []).append(token)
    parts, done, last = [], 0, "th"
    while done < length:
        token = random_.choice(followers.get(last) or followers["th"])
        parts.append(token[2:] if last in followers else token)
        done += len(parts[-1])
        last = token[-2:]
    return "".join(parts)


LOWER, UPPER, DIGITS = letters("a", "z"), letters("A", "Z"), letters("0", "9")
PUNCTUATION: Final = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
WHITE: Final = " \t\n\r\x0b\x0c\x85\xa0\u1680\u2003\u2028\u202f\u3000"
FAMILY: Final = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
HAN: Final = letters("\u4e00", "\u9fa5")
MARKS: Final = letters("\u0300", "\u036f")

GENERATORS: Final[dict[str, Callable[[random.Random, int], str]]] = {
    # Runs of one character of every class.
    "a": repeated("a"),
    "z": repeated("z"),
    "A": repeated("A"),
    "title-case-letter": repeated("\u01c5"),
    "modifier-letter": repeated("\u02b0"),
    "digit": repeated("0"),
    "other-digit": repeated("\u0663"),
    "fraction": repeated("\xbd"),
    "space": repeated(" "),
    "tab": repeated("\t"),
    "newline": repeated("\n"),
    "carriage-return": repeated("\r"),
    "ideographic-space": repeated("\u3000"),
    "no-break-space": repeated("\xa0"),
    "equals": repeated("="),
    "dash": repeated("-"),
    "slash": repeated("/"),
    "quote": repeated("'"),
    "underscore": repeated("_"),
    "nul": repeated("\0"),
    "combining-mark": repeated("\u0301"),
    "joiner": repeated("\u200d"),
    "e-acute": repeated("\xe9"),
    "cyrillic": repeated("\u0430"),
    "han": repeated("\u4e2d"),
    "hiragana": repeated("\u3042"),
    "hangul": repeated("\uac00"),
    "thai": repeated("\u0e01"),
    "emoji": repeated("\U0001f600"),
    "unassigned": repeated("\u0378"),
    "last-scalar": repeated("\U0010ffff"),
    # White space beside other classes.
    "spaces-letter": repeated(" " * 99 + "a"),
    "spaces-newline": repeated(" " * 99 + "\n"),
    "spaces-tab": repeated(" " * 200 + "\t"),
    "crlf": repeated("\r\n"),
    "lf-cr-mix": drawn(["\n", "\r", "\r\n", "\n\r"]),
    "newline-space": repeated("\n "),
    "white-mix": drawn(WHITE),
    "tabbed-spaces": drawn([" " * run + "\t" for run in (15, 130, 146, 182, 200, 385, 454)]),
    "long-space-runs": drawn(
        [" " * run + end for run in range(100, 4_000, 97) for end in "\n\u3000!"]
    ),
    "wide-space-runs": drawn(["\u3000" * run + " " for run in range(300, 10_000, 331)]),
    "white-run-growing": drawn([" " * run + "x" for run in range(1, 400, 7)]),
    # Letters and their cases.
    "case-flip": repeated("aBaB"),
    "case-random": drawn(LOWER + UPPER),
    "lower-random": drawn(LOWER),
    "upper-random": drawn(UPPER),
    "vowels": drawn("aeiou"),
    "two-letters": drawn("ab"),
    "rare-letters": drawn("jqxzvkw"),
    "contractions": drawn(["'s", "'T", "'re", "'LL", "'\u017f", "can't", "''"]),
    "latin-accents": drawn(letters("\xe0", "\xff")),
    "letters-marks": drawn([*LOWER, *MARKS]),
    "stacked-marks": repeated("e" + "".join(MARKS)),
    "cyrillic-random": drawn(letters("\u0430", "\u044f")),
    "greek-random": drawn(letters("\u03b1", "\u03c9")),
    "arabic-random": drawn(letters("\u0621", "\u064a")),
    "devanagari-random": drawn(letters("\u0904", "\u094d")),
    "thai-random": drawn(letters("\u0e01", "\u0e3a")),
    "georgian-random": drawn(letters("\u10d0", "\u10f0")),
    # East Asia, emoji and rare planes.
    "han-random": drawn(HAN),
    "han-frequent": drawn(
        "\u7684\u4e00\u662f\u4e0d\u4e86\u4eba\u6211\u5728\u6709\u4ed6\u8fd9\u4e2d\u5927"
    ),
    "kana-random": drawn([*letters("\u3041", "\u3096"), *letters("\u30a1", "\u30fa")]),
    "hangul-random": drawn(letters("\uac00", "\ud7a3")),
    "han-plane-2": drawn(letters("\U00020000", "\U00020fff")),
    "emoji-family": repeated(FAMILY),
    "emoji-random": drawn(letters("\U0001f300", "\U0001f64f")),
    "emoji-joined": drawn([*letters("\U0001f466", "\U0001f469"), "\u200d", "\ufe0f"]),
    "flags": drawn(letters("\U0001f1e6", "\U0001f1ff")),
    # What a block of 64 bytes has to look up most for, or cannot tell.
    "alphabets": drawn([chr(c) for c in range(0xE80, 0xE000, 128) if chr(c).isalpha()]),
    "alphabets-words": drawn([" " + chr(c) + "\u0301A" for c in range(0xE80, 0xAC00, 128)]),
    "caseless-upper": drawn([chr(c) + "A " for c in range(0x4E00, 0x4E80)]),
    "lone-marks": drawn([*MARKS, " \u0301", "a ", "!"]),
    "any-scalar": drawn([chr(c) for c in range(0, 0x110000, 97) if not 0xD800 <= c < 0xE000]),
    # Digits, punctuation and what machines write.
    "digits-random": drawn(DIGITS),
    "digits-of-scripts": drawn(["0", "\u0663", "\u0966", "\u0e52", "\uff11", "\U0001d7d8"]),
    "punctuation-random": drawn(PUNCTUATION),
    "punctuation-slash": drawn(["/", "?/", "//", "!\n", ":/"]),
    "brackets": drawn("()[]{}<>"),
    "equals-dash": drawn("=-"),
    "escaped-json": repeated('\\\\\\"'),
    "hex": drawn("0123456789abcdef"),
    "base64": base64_text,
    "url-escapes": drawn([f"%{byte:02X}" for byte in range(256)]),
    "table-rule": repeated("+" + "-" * 30),
    # Repetition with and without a period.
    "period-2": repeated("ab"),
    "period-3": repeated("the"),
    "period-17": periodic(17),
    "period-127": periodic(127),
    "period-129": periodic(129),
    "period-1023": periodic(1023),
    "period-4099": periodic(4099),
    "fibonacci": fibonacci,
    "thue-morse": thue_morse,
    "growing-runs": growing_runs,
    "runs-of-letters": drawn([letter * 40 for letter in LOWER]),
    # Made of the vocabulary.
    "word-tokens": tokens_of(is_word),
    "lower-tokens": tokens_of(is_lower),
    "long-tokens": tokens_of(lambda token: is_lower(token) and len(token) > 12),
    "near-misses": tokens_of(lambda t: is_lower(t) and len(t) > 10, lambda token: token[:-1]),
    "near-misses-front": tokens_of(lambda t: is_lower(t) and len(t) > 10, lambda t: t[1:]),
    "symbol-tokens": tokens_of(is_symbols),
    "symbol-near-misses": tokens_of(lambda t: is_symbols(t) and len(t) > 8, lambda t: t[:-1]),
    "longest-tokens": tokens_of(lambda token: len(token) > 40),
    "merge-chains": chains,
}


def make(name: str, length: int, turn: int = 0) -> str:
    """Text of that generator, at most `length` bytes; the same in every run.
    Random draws repeat above 8 MB, which no table or cache of a counter holds.
    """
    own_length = min(length, MADE_BYTES)
    random_ = random.Random(f"{name} {turn}" if turn else name)
    part = clipped(GENERATORS[name](random_, own_length), own_length)
    return clipped(part * (length // len(part.encode()) + 1), length)


def clipped(text: str, length: int) -> str:
    return text.encode()[:length].decode("utf-8", "ignore")
