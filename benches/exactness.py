"""Compare counts and tokens of tokenctx with those of tiktoken, fed with the same ranks.

    python benches/exactness.py                       # some minutes, all eight encodings
    python benches/exactness.py --nightly             # 200 MB and 1,000,000 strings for each
    python benches/exactness.py --megabytes 200 --encodings o200k_base --seed 7

Compared are: natural text of all corpora, half of it disfigured, in parts of 1 to 16 KB; every
scalar value alone; vocabulary entries alone and beside one character of every class; strings of
awkward atoms; the adversarial set; all of a sample again by eight threads at once; with `--levels`,
which `--nightly` implies, a part of the sample by each level of vector instructions, in the Rust
tests. The exit code is 1 if one differs; the shortest strings that differ are printed.
"""

from __future__ import annotations

import argparse
import base64
import functools
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import adversarial_texts
import corpora
from counters import ENCODINGS, VENDORS, tiktoken_encoding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

ALL: Final = (*ENCODINGS, *VENDORS)
PART_CHARACTERS: Final = (1_000, 16_000)
THREADS: Final = 8
LEVEL_TEXTS: Final = 2_000
ROOT: Final = Path(__file__).resolve().parents[1]
SHOWN: Final = 5
ADVERSARIAL_BYTES: Final = (1_000, 20_000)  # tiktoken panics at 1,000,000 white space characters

# One character of every class that a split rule knows, and what changes the rule beside it.
CLASSES: Final = (
    *("A", "\u01c5", "a", "\u02b0", "\u4e2d", "\u0301", "1", "\xbd", " ", "\t", "\u3000"),
    *("\n", "\r", "!", "'", "/", "'s", "\U0001f44d"),
)
ATOMS: Final = (
    *CLASSES,
    *("'S", "'\u017f", "'RE", "'ve", "'lL", "''", "can't", "\u017f", "\r\n", "\n\r", "  ", "   "),
    *("\x0b", "\x1c", "\x85", "\xa0", "\u1680", "\u2028", "\u202f", "\u200b", "\u200d", "\ufeff"),
    *("\u0940", "\u20dd", "\ufe0f", "0", "12", "345", "67890", "\u0663", "\u0966", "\u2167"),
    *("\U0001d7d8", "abc", "ABC", "Abc", "aB", "\xaa", "\xdf", "\xc9", "e\u0301", "E\u0301"),
    *("\u6587\u5b57", "\u3072\u3089", "\u30ab\u30bf", "\ud55c\uad6d", "\u0e44\u0e17\u0e22"),
    *("\u0939\u093f\u0928\u094d\u0926\u0940", "\u0627\u0644\u0639", "\u05e2\u05d1", "\u0420\u0423"),
    *(
        "\u0440\u0443\u0441",
        "\U0001f468\u200d\U0001f469",
        "\U0001f1e9\U0001f1ea",
        "//",
        "?/",
        "://",
    ),
    *("...", "\u2014", "\u201c", "$", "_", "====", "<|endoftext|>", "<|", "|>", '{"', '":', "();"),
    *("\0", "\u0378", "\U0010ffff", "\U00020000", "\U0001e900", "\u1c89", "\ua7cb", "\U00010d50"),
    *("the", " the", "tion", "a" * 24, "\t\t", " \n", "\n \n", "x\n/\n/", "\ud7a3", "\u1100\u1161"),
)


class Comparison:
    """Counts and tokens of one encoding by both; keeps the texts that differ."""

    def __init__(self, encoding: str) -> None:
        import tokenctx

        self.encoding = encoding
        self.ours = functools.partial(tokenctx.count_tokens, encoding=encoding)  # type: ignore[arg-type]
        self.tokens = functools.partial(tokenctx.encodings.encode, encoding=encoding)  # type: ignore[arg-type]
        self.theirs = tiktoken_encoding(encoding).encode_ordinary
        self.differing: list[str] = []
        self.sample: list[str] = []
        self.texts = 0
        self.bytes = 0

    def run(self, title: str, texts: Iterable[str]) -> None:
        """Compare all of `texts`; print one row."""
        start, texts_before, bytes_before = time.monotonic(), self.texts, self.bytes
        differing_before = len(self.differing)
        for text in texts:
            self.compare(text)
        cells = (
            f"{self.texts - texts_before:>12,}",
            f"{(self.bytes - bytes_before) / 1e6:>9.1f}",
            f"{len(self.differing) - differing_before:>12,}",
            f"{time.monotonic() - start:>7.1f}",
        )
        print(f"{self.encoding:<15}{title:<26}{''.join(cells)}", flush=True)

    def compare(self, text: str) -> None:
        self.texts += 1
        self.bytes += len(text) if text.isascii() else len(text.encode())
        expected = self.theirs(text)
        if self.ours(text) != len(expected) or self.tokens(text) != expected:
            self.differing.append(text)

    def by_threads(self, texts: list[str]) -> None:
        """The same tokens when eight threads take the same texts, each from another place."""
        expected = [self.tokens(text) for text in texts]
        wrong: set[int] = set()
        places = range(0, len(texts), max(1, len(texts) // THREADS))
        threads = [
            threading.Thread(target=self._again, args=(texts, expected, place, wrong))
            for place in list(places)[:THREADS]
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.run(f"{THREADS} threads, wrong: {len(wrong)}", texts)
        self.differing += [texts[place] for place in wrong]

    def _again(
        self, texts: list[str], expected: list[list[int]], first: int, wrong: set[int]
    ) -> None:
        for place in itertools.chain(range(first, len(texts)), range(first)):
            text, tokens = texts[place], expected[place]
            if self.ours(text) != len(tokens) or self.tokens(text) != tokens:
                wrong.add(place)


def natural(random_: random.Random, byte_count: int) -> Iterator[str]:
    """Parts of all corpora, in turn; every second one disfigured."""
    sources = _sources(min(byte_count // 5, 6 * corpora.MB))
    done = 0
    while done < byte_count:
        for blocks in sources.values():
            for part in _parts(random_, random_.choice(blocks)):
                text = disfigured(random_, part, sources) if random_.random() < 0.5 else part
                done += len(text.encode())
                yield text


@functools.cache
def _sources(byte_count: int) -> dict[str, list[str]]:
    """Blocks of every corpus that the installed packages can give."""
    made = {kind: corpora.take(kind, byte_count) for kind in corpora.KINDS}
    return {kind: blocks for kind, blocks in made.items() if blocks}


def _parts(random_: random.Random, text: str) -> Iterator[str]:
    start = random_.randrange(500)
    while start < len(text):
        end = start + random_.randrange(*PART_CHARACTERS)
        yield text[start:end]
        start = end


def disfigured(random_: random.Random, text: str, sources: dict[str, list[str]]) -> str:
    """`text` with another case, other white space, in another order, or mixed with another."""
    other = random_.choice(sources[random_.choice(list(sources))])
    at, cut = random_.randrange(len(other)), random_.randrange(len(text))
    words = text.split(" ")
    changes: list[Callable[[], str]] = [
        text.upper,
        text.title,
        text.swapcase,
        lambda: text[::-1],
        lambda: text.replace(" ", random_.choice(ATOMS)),
        lambda: text.replace("\n", random_.choice(("\r\n", "\n\n \n", "", " \n", "\u2028"))),
        lambda: text.replace(random_.choice(text), random_.choice(ATOMS)),
        lambda: "".join(words),
        lambda: " ".join(random_.sample(words, len(words))),
        lambda: random_.choice(ATOMS).join(words),
        lambda: text[:cut] + other[at : at + 500] + text[cut:],
        lambda: "".join(map("".join, zip(text, other[at:], strict=False))),
    ]
    return random_.choice(changes)()


def scalars() -> Iterator[str]:
    """All 1,112,064 scalar values."""
    return (chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)


def vocabulary(encoding: str, stride: int) -> Iterator[str]:
    """Entries alone and beside every class; what is no UTF-8 counts as U+FFFD in its place."""
    from tokenctx._core import rank_file

    lines = rank_file(encoding).splitlines()[::stride]  # type: ignore[arg-type]
    for line in lines:
        entry = base64.b64decode(line.split()[0]).decode("utf-8", "replace")
        yield entry
        for neighbour in CLASSES:
            yield neighbour + entry
            yield entry + neighbour


def generated(random_: random.Random, number: int) -> Iterator[str]:
    """Strings of one to 16 atoms; one in eight repeats one of them."""
    for _ in range(number):
        atoms = random_.choices(ATOMS, k=random_.randrange(1, 17))
        if random_.random() < 0.125:
            atoms.insert(0, atoms[0] * random_.randrange(1, 60))
        yield "".join(atoms)


def hostile(lengths: Iterable[int]) -> Iterator[str]:
    for length in lengths:
        yield from (adversarial_texts.make(name, length) for name in adversarial_texts.GENERATORS)


def compare(encoding: str, options: argparse.Namespace) -> Comparison:
    comparison = Comparison(encoding)
    random_ = random.Random(f"{encoding} {options.seed}")
    comparison.run("natural text", natural(random_, int(options.megabytes * corpora.MB)))
    comparison.run("scalar values", itertools.islice(scalars(), 0, None, options.scalar_stride))
    comparison.run("vocabulary", vocabulary(encoding, options.vocabulary_stride))
    comparison.run("generated strings", generated(random_, options.strings))
    comparison.run("adversarial", hostile(ADVERSARIAL_BYTES))
    sample = [*generated(random_, 5_000), *hostile(ADVERSARIAL_BYTES[:1])]
    comparison.by_threads(sample)
    comparison.sample = random_.sample(sample, min(LEVEL_TEXTS, len(sample)))
    return comparison


def by_levels(done: list[Comparison]) -> bool:
    """True if each level of vector instructions has the samples right, by the Rust tests."""
    rows = [(made.encoding, text, made.theirs(text)) for made in done for text in made.sample]
    command = ("cargo", "test", "--quiet", "--locked", "--no-default-features", "--lib")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tokens.json")
        path.write_text(json.dumps(rows), "utf-8")
        environment = {**os.environ, "TOKENCTX_TOKENS": str(path)}
        test = (*command, "as_the_file_says")
        run = subprocess.run(test, cwd=ROOT, env=environment, capture_output=True, check=False)
    print(f"every level, {len(rows):,} texts: {'as tiktoken' if not run.returncode else 'WRONG'}")
    if run.returncode:
        print(run.stdout.decode()[-2000:] + run.stderr.decode()[-2000:])
    return not run.returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--encodings", nargs="+", default=ALL, choices=ALL)
    parser.add_argument("--megabytes", type=float, default=4, help="natural text")
    parser.add_argument("--strings", type=int, default=20_000, help="generated")
    parser.add_argument("--vocabulary-stride", type=int, default=50, help="1 for all entries")
    parser.add_argument("--scalar-stride", type=int, default=3, help="1 for all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--levels", action="store_true", help="each level of instructions; cargo")
    parser.add_argument("--nightly", action="store_true", help="200 MB, 10^6 strings, all entries")
    options = parser.parse_args()
    if options.nightly:
        options.megabytes, options.strings = 200, 1_000_000
        options.vocabulary_stride = options.scalar_stride = 1
        options.levels = True
    titles = f"{'texts':>12}{'MB':>9}{'different':>12}{'s':>7}"
    print(f"{'encoding':<15}{'compared':<26}{titles}")
    done = [compare(encoding, options) for encoding in options.encodings]
    texts, length = sum(made.texts for made in done), sum(made.bytes for made in done)
    differing = [(made.encoding, text) for made in done for text in made.differing]
    print(f"\n{texts:,} texts, {length / 1e6:,.0f} MB, {len(differing):,} different")
    for encoding, text in sorted(differing, key=lambda pair: len(pair[1]))[:SHOWN]:
        print(f"{encoding}: {text[:200]!r}")
    same = by_levels(done) if options.levels else True
    return 1 if differing or not same else 0


if __name__ == "__main__":
    sys.exit(main())
