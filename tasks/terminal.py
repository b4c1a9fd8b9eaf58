"""A terminal without a window: what a program leaves on a screen of some columns."""

import os
import re
import struct
import subprocess
from pathlib import Path
from typing import Any

ROWS = 200
ORDER = re.compile(rb"\x1b(?:\[([0-9;?]*)([A-Za-z])|\][^\x07]*\x07|[()].|.)")


def has_terminals() -> bool:
    """Whether this system has pseudo-terminals."""
    return os.name == "posix"


class Screen:
    """Rows of text, a cursor, and the few orders that rich and typer give; nothing scrolls off."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.rows: list[list[str]] = [[]]
        self.row = self.column = 0

    def feed(self, output: bytes) -> None:
        place = 0
        for found in ORDER.finditer(output):
            self._write(output[place : found.start()].decode())
            self._obey(found[1] or b"", found[2] or b"")
            place = found.end()
        self._write(output[place:].decode())

    def text(self) -> list[str]:
        """The rows without what follows the last letter."""
        rows = ["".join(row).rstrip() for row in self.rows]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def _write(self, text: str) -> None:
        for letter in text:
            if letter == "\r":
                self.column = 0
            elif letter == "\n":
                self._move(self.row + 1)
            elif letter == "\b":
                self.column = max(0, self.column - 1)
            else:
                self._put(letter)

    def _put(self, letter: str) -> None:
        if self.column == self.columns:
            self._move(self.row + 1)
            self.column = 0
        row = self.rows[self.row]
        row += [" "] * (self.column + 1 - len(row))
        row[self.column] = letter
        self.column += 1

    def _move(self, row: int) -> None:
        self.row = max(0, row)
        self.rows += [[] for _ in range(self.row + 1 - len(self.rows))]

    def _obey(self, words: bytes, order: bytes) -> None:
        number = int(words) if words.isdigit() else 0
        if order == b"A":
            self._move(self.row - (number or 1))
        elif order == b"B":
            self._move(self.row + (number or 1))
        elif order == b"G":
            self.column = max(0, number - 1)
        elif order == b"K":
            start = self.column if number == 0 else 0
            self.rows[self.row][start:] = []
        elif order == b"J":
            self.rows[self.row][self.column :] = []
            self.rows[self.row + 1 :] = []


def environment(columns: int) -> dict[str, str]:
    """What a user's shell has, with a width that only a pipe needs to be told."""
    left_out = {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "PYTHONPATH"}
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    told = {"COLUMNS": str(columns)} if columns else {}
    return {**kept, "TERM": "xterm-256color", "PYTHONWARNINGS": "ignore", **told}


def shown(words: list[str], folder: Path, columns: int) -> tuple[list[str], int]:
    """The rows that a command leaves on a terminal of `columns`, and its exit code."""
    import fcntl
    import pty
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    process = subprocess.Popen(
        words, cwd=folder, env=environment(0), stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    output = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux's way to say that the other end is closed
            break
        if not part:
            break
        output += part
    os.close(ours)
    screen = Screen(columns)
    screen.feed(output)
    return screen.text(), process.wait()


def piped(words: list[str], folder: Path, columns: int) -> tuple[list[str], int]:
    """The lines that a command writes into a pipe of `columns`, and its exit code."""
    told = {**environment(columns), "PYTHONUNBUFFERED": "1"}
    both: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(words, cwd=folder, env=told, check=False, **both)
    return [line.rstrip() for line in done.stdout.decode().splitlines()], done.returncode
