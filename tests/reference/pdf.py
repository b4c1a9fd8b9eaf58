"""Pages and characters of a PDF, as far as they can be read without a PDF library."""

from __future__ import annotations

import re
import zlib
from typing import Final, NamedTuple

MAX_INFLATED_BYTES: Final = 8 << 20
"""Bytes that all streams of one file may inflate to; what is beyond is not read."""
MAX_RATIO: Final = 1032
"""Bytes that one byte of a compressed stream can become at most."""
HEAD_BYTES: Final = 1024
UNREAD: Final = (
    b"/Image", b"/FontFile", b"/Length1", b"/XRef", b"/Metadata", b"/ASCII85Decode",
    b"/ASCIIHexDecode",
)  # fmt: skip
"""Of a stream's dictionary: contents that are no text of a page."""
PAGE: Final = re.compile(rb"/Type[ \t\n\f\r]*/Page(?![0-9A-Za-z])")
LITERAL: Final = re.compile(rb"\\[\s\S]?|[\s\S]")
SHOWN: Final = re.compile(rb"\(|<([^>]*)>?|ET")


class PdfLength(NamedTuple):
    """How long a PDF is."""

    pages: int
    characters: int


def pdf_length(content: bytes) -> PdfLength | None:
    """How long the PDF in `content` is; None if it is no PDF or shows no page."""
    if b"%PDF-" not in content[:HEAD_BYTES]:
        return None
    pages = characters = at = 0
    left_bytes = MAX_INFLATED_BYTES
    while (place := content.find(b"stream", at)) >= 0:
        objects = content[at:place]
        start = place + len(b"stream")
        end = content.find(b"endstream", start)
        end = len(content) if end < 0 else end
        pages += len(PAGE.findall(objects))
        dictionary = objects[max(0, objects.rfind(b" obj")) :]
        shown, left_bytes = _decoded(dictionary, content[start:end], left_bytes)
        if b"/ObjStm" in dictionary:
            pages += len(PAGE.findall(shown))
        else:
            characters += _characters(shown)
        at = end + len(b"endstream")
    pages += len(PAGE.findall(content[at:]))
    return PdfLength(pages, characters) if pages else None


def _decoded(dictionary: bytes, stream: bytes, left_bytes: int) -> tuple[bytes, int]:
    """What a stream holds, empty if it is not read; and the bytes left to inflate to."""
    stream = stream.removeprefix(b"\r").removeprefix(b"\n")
    if any(name in dictionary for name in UNREAD):
        return b"", left_bytes
    if b"/Filter" not in dictionary:
        return stream, left_bytes
    if b"/FlateDecode" not in dictionary:
        return b"", left_bytes
    try:
        inflater = zlib.decompressobj()
        shown = inflater.decompress(stream, left_bytes + 1)
        if inflater.eof and len(shown) <= left_bytes:
            return shown, left_bytes - len(shown)
    except zlib.error:
        pass
    return b"", max(0, left_bytes - len(stream) * MAX_RATIO)


def _characters(content: bytes) -> int:
    """Characters of the strings between the operators `BT` and `ET`."""
    count, at = 0, content.find(b"BT")
    while at >= 0:
        at += 2
        while True:
            found = SHOWN.search(content, at)
            if found is None:
                return count
            at = found.end()
            if found[0] == b"ET":
                break
            if found[0] == b"(":
                length, at = _literal(content, at)
                count += length
            else:
                digits = re.sub(rb"[^0-9A-Fa-f]", b"", found[1])
                count += -(-len(digits) // 4)
        at = content.find(b"BT", at)
    return count


def _literal(content: bytes, at: int) -> tuple[int, int]:
    """Characters of the literal string that begins before `at`, and where it ends."""
    count, depth = 0, 1
    for found in LITERAL.finditer(content, at):
        byte = found[0]
        if byte == b"(":
            depth += 1
        elif byte == b")":
            depth -= 1
            if depth == 0:
                return count, found.end()
        elif byte != b"\0":
            count += 1
    return count, len(content)
