"""How long audio and video play, from their headers: WAV, MP3, FLAC, Ogg, MP4 and M4A, WebM."""

from __future__ import annotations

import re
import struct
from typing import Final

SEARCHED_BYTES: Final = 4096
"""Where an Ogg file has its rate, and a WebM file its duration."""
MP3_KBPS: Final = (
    (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
)
"""Bit rates of MP3 in kbit/s by index, for MPEG 1 and for MPEG 2 and 2.5."""
MP3_RATES: Final = (44_100, 48_000, 32_000)
MP3_FRAME: Final = re.compile(rb"\0*(\xff[\xe2\xe3\xea\xeb\xf2\xf3\xfa\xfb])")


def duration_ms(content: bytes) -> int | None:
    """Milliseconds that `content` plays; None if its format is another or it says nothing."""
    readers = {b"RIFF": _wav, b"fLaC": _flac, b"OggS": _ogg, b"\x1a\x45\xdf\xa3": _webm}
    read = readers.get(content[:4])
    if read is None or (read is _wav and content[8:12] != b"WAVE"):
        read = _mp4 if content[4:8] == b"ftyp" else _mp3
    try:
        return read(content)
    except (_CutError, ZeroDivisionError):
        return None


class _CutError(Exception):
    """A header ends too soon, or says nothing."""


def _big(content: bytes, at: int, count: int) -> int:
    return int.from_bytes(_bytes(content, at, count), "big")


def _little(content: bytes, at: int, count: int) -> int:
    return int.from_bytes(_bytes(content, at, count), "little")


def _bytes(content: bytes, at: int, count: int) -> bytes:
    if at + count > len(content):
        raise _CutError
    return content[at : at + count]


def _wav(content: bytes) -> int:
    at, bytes_per_second = 12, 0
    while True:
        length = _little(content, at + 4, 4)
        kind = content[at : at + 4]
        if kind == b"fmt ":
            bytes_per_second = _little(content, at + 16, 4)
        elif kind == b"data":
            return min(length, max(0, len(content) - at - 8)) * 1000 // bytes_per_second
        at += 8 + length + length % 2


def _flac(content: bytes) -> int:
    rate = _big(content, 18, 3) >> 4
    return (_big(content, 21, 5) & ((1 << 36) - 1)) * 1000 // rate


def _ogg(content: bytes) -> int:
    place = content.find(b"\x01vorbis", 0, SEARCHED_BYTES)
    if place < 0 and content.find(b"OpusHead", 0, SEARCHED_BYTES) < 0:
        raise _CutError
    rate = 48_000 if place < 0 else _little(content, place + 12, 4)
    return _within(_little(content, content.rfind(b"OggS") + 6, 8) * 1000) // rate


def _within(number: int) -> int:
    """`number`, if it has no more than 64 bits."""
    if number >= 1 << 64:
        raise _CutError
    return number


def _mp4(content: bytes) -> int:
    header = _child(_child(content, b"moov"), b"mvhd")
    if _big(header, 0, 1) == 0:
        units, ticks = _big(header, 12, 4), _big(header, 16, 4)
    else:
        units, ticks = _big(header, 20, 4), _big(header, 24, 8)
    return _within(ticks * 1000) // units


def _child(boxes: bytes, kind: bytes) -> bytes:
    """The content of the first box of this type."""
    at = 0
    while True:
        start, length = 8, _big(boxes, at, 4)
        if length == 0:
            length = len(boxes) - at
        elif length == 1:
            start, length = 16, _big(boxes, at + 8, 8)
        end = min(at + length, len(boxes))
        if _bytes(boxes, at + 4, 4) == kind:
            if at + start > end:
                raise _CutError
            return boxes[at + start : end]
        at += max(length, 8)
        if at > len(boxes):
            raise _CutError


def _webm(content: bytes) -> int:
    head = content[:SEARCHED_BYTES]
    place = head.find(b"\x2a\xd7\xb1\x83")
    scale = 1_000_000
    if 0 <= place <= len(head) - 7:
        scale = _big(head, place + 4, 3)
    at = head.find(b"\x44\x89") + 2
    width = {0x84: 4, 0x88: 8}.get(_big(head, at, 1)) if at > 1 else None
    if width is None:
        raise _CutError
    (ticks,) = struct.unpack(">f" if width == 4 else ">d", _bytes(head, at + 1, width))
    milliseconds = ticks * scale / 1e6
    if not 0 <= milliseconds < 1e15:
        raise _CutError
    return int(milliseconds)


def _mp3(content: bytes) -> int:
    tag = 0
    if content[:3] == b"ID3" and len(content) >= 10:
        for byte in content[6:10]:
            tag = tag << 7 | byte & 0x7F
        tag += 10
    found = MP3_FRAME.match(content, tag)
    if found is None:
        raise _CutError
    start = found.start(1)
    frame = _bytes(content, start, 4)
    version = frame[1] >> 3 & 3
    is_mpeg_1 = version == 3
    if frame[2] >> 4 == 15 or frame[2] >> 2 & 3 == 3 or version == 1:
        raise _CutError
    kbps = MP3_KBPS[not is_mpeg_1][frame[2] >> 4]
    rate = MP3_RATES[frame[2] >> 2 & 3] // {3: 1, 2: 2, 0: 4}[version]
    is_mono = frame[3] >> 6 == 3
    info = 36 if is_mpeg_1 and not is_mono else 13 if not is_mpeg_1 and is_mono else 21
    at = start + info
    if content[at : at + 4] in (b"Xing", b"Info") and _big(content, at + 4, 4) & 1:
        return _big(content, at + 8, 4) * (1152 if is_mpeg_1 else 576) * 1000 // rate
    return (len(content) - start) * 8 // kbps
