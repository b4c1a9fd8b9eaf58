"""Write the vocabulary of Gemma 4 out of the source distribution of llama-cpp-python 0.3.36.

    pip download --no-deps --no-binary :all: llama-cpp-python==0.3.36; pip install gguf
    python src/bpe/gemma/extract.py llama_cpp_python-0.3.36.tar.gz

Its merges are those of Gemma 3, so it counts for every Gemini since 1.5. What is written are the
pieces in the order of their merges, one a line, deflated: build.rs reads them. A space stands for
SentencePiece's mark of one. The SHA-256 of what is read and written are in
`licenses/manifest.json`.
"""

from __future__ import annotations

import hashlib
import sys
import tarfile
import tempfile
import zlib
from itertools import pairwise
from pathlib import Path

from gguf import GGUFReader

MEMBER = "llama_cpp_python-0.3.36/vendor/llama.cpp/models/ggml-vocab-gemma-4.gguf"
DIGEST = "58b1ba0b57f3b4d7c468ba4ffd91ad85190346a3d7ad7e71d1cabaae8a14bb65"
TARGET = Path(__file__).resolve().parent / "gemma_vocabulary.z"
FIRST, LAST = 494, 255_967
"""Numbers of the pieces that are merged. Before them are markers, bytes, and runs of white space
and tags of HTML that are taken from the text as they stand (`mod.rs` has these); behind them, runs
of tabs."""
SPACE = "\u2581"


def pieces(archive: Path) -> list[str]:
    """The pieces that are merged, by number."""
    with tarfile.open(archive) as tar, tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        member = tar.extractfile(MEMBER)
        data = member.read() if member else b""
        if hashlib.sha256(data).hexdigest() != DIGEST:
            sys.exit(f"{MEMBER} is not the file of 2026-11-24")
        file.write(data)
        file.flush()
        tokens: list[str] = GGUFReader(file.name).fields["tokenizer.ggml.tokens"].contents()
    return tokens[FIRST : LAST + 1]


def merged(piece: str, ranks: dict[str, int]) -> tuple[list[str], int]:
    """What the characters of `piece` merge to, and the highest rank of a merge but the last."""
    parts, highest, last = list(piece), -1, -1
    while True:
        pairs = ((ranks.get(a + b), at) for at, (a, b) in enumerate(pairwise(parts)))
        found = min(((rank, at) for rank, at in pairs if rank is not None), default=None)
        if found is None:
            return parts, highest
        highest, last = max(highest, last), found[0]
        at = found[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


def in_order(named: list[str]) -> list[str]:
    """The pieces that their characters merge to, each behind those that it is merged from.

    Four are left out, which no text merges to. Three are merged from pieces with higher numbers;
    each begins with a space, so that a word has one of it at most, and it is moved behind them.
    """
    ranks = {piece: rank for rank, piece in enumerate(named)}
    places: list[tuple[float, str]] = []
    for rank, piece in enumerate(named):
        parts, highest = merged(piece, ranks)
        if len(parts) == 1:
            places.append((highest + 0.5 if highest > rank else rank, piece))
        else:
            sys.stdout.write(f"left out: {piece}\n")
        if highest > rank:
            sys.stdout.write(f"moved: {piece}, {rank} behind {highest}\n")
    return [piece for _, piece in sorted(places)]


def main() -> None:
    """Read the archive that is named, and write the pieces beside this file."""
    ordered = [piece.replace(SPACE, " ") for piece in in_order(pieces(Path(sys.argv[1])))]
    data = zlib.compress("\n".join(ordered).encode(), 9)
    TARGET.write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    sys.stdout.write(f"{len(ordered)} pieces, {len(data)} bytes, SHA-256 {digest}\n")


if __name__ == "__main__":
    main()
