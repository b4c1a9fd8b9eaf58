"""Instructions a byte of new text on aarch64, in a process that has counted 1 MB of the same kind.

    python3 dev.py study arm_instructions

`count_file.rs` runs under qemu-user with a plugin that counts. A row is what 2.2 MB take less
what the first 1 MB of them take: start, tables and the first meeting of words are in both. This
tells instructions, not time. The corpora differ between installations (see README.md).
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from corpora import fingerprint, take

ENCODING: Final = "o200k_base"
KNOWN_BYTES: Final = 1_000_000
NEW_BYTES: Final = 1_200_000
MUST: Final = {"english": 36, "code": 36, "json": 40, "messages": 56}


def spent(command: list[str], text: bytes) -> int:
    """Instructions of a process that counts `text` once."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "text")
        path.write_bytes(text)
        words = [*command, ENCODING, str(path), "1"]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    [found] = re.findall(r"^instructions: (\d+)$", done.stderr, re.MULTILINE)
    return int(found)


def whole_characters(text: bytes) -> bytes:
    """`text` without the part of a character at its end."""
    return text.decode("utf-8", "ignore").encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("command", nargs="+", help="what runs and counts count_file; of dev.py")
    command = parser.parse_args().command
    print(f"{'instructions a byte':<24}{'now':>8}{'must':>8}  text")
    for kind, must in MUST.items():
        blocks = take(kind, KNOWN_BYTES + NEW_BYTES)
        text = "\n".join(blocks).encode()
        known, both = (
            whole_characters(text[:end]) for end in (KNOWN_BYTES, KNOWN_BYTES + NEW_BYTES)
        )
        found = (spent(command, both) - spent(command, known)) / (len(both) - len(known))
        print(f"{kind:<24}{found:>8.1f}{must:>8}  {fingerprint(blocks)}", flush=True)


if __name__ == "__main__":
    main()
