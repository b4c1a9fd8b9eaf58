"""Files cost what their pages and seconds say."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenctx import HybridTokenEstimator

ESTIMATOR = HybridTokenEstimator(learning=False)
MOST_TOKENS = 1 << 40
TEXT = b"BT /F1 12 Tf (Hello \\(world) Tj [<00480069> -250 (there)] TJ ET"


def pdf(pages: int, text: bytes = TEXT, *, is_compressed: bool = False) -> bytes:
    page = b"1 0 obj << /Type /Page /Parent 2 0 R >> endobj\n"
    filters = b"/Filter /FlateDecode" if is_compressed else b""
    content = zlib.compress(text) if is_compressed else text
    stream = b"3 0 obj << " + filters + b" >>\nstream\n" + content + b"\nendstream endobj\n"
    objects = b"4 0 obj << /Type /ObjStm >> stream\n<< /Type /Pages >>\nendstream endobj\n"
    return b"%PDF-1.4\n" + page * pages + stream + objects + b"%%EOF\n"


def wav(seconds: float, rate: int = 16_000) -> bytes:
    data = b"\0" * int(seconds * rate)
    head = struct.pack("<IHHIIHH", 16, 1, 1, rate // 2, rate, 2, 16)
    return b"RIFF\0\0\0\0WAVEfmt " + head + b"data" + struct.pack("<I", len(data)) + data


def mp4(seconds: int) -> bytes:
    header = b"\0" * 12 + struct.pack(">II", 1000, 1000 * seconds)
    box = struct.pack(">I4s", 8 + len(header), b"mvhd") + header
    return b"\0\0\0\x0cftypisom" + struct.pack(">I4s", 8 + len(box), b"moov") + box


MP3 = b"ID3\3\0\0\0\0\0\2..\xff\xfb\x90\0" + b"\1" * 15_996
XING = b"\xff\xfb\x90\0" + b"\0" * 32 + b"Xing\0\0\0\1\0\0\0\x64" + b"\0" * 50
OPUS = b"OggS" + b"\0" * 24 + b"OpusHead" + b"OggS\0\4" + struct.pack("<Q", 144_000)
VORBIS = b"OggS" + b"\0" * 24 + b"\1vorbis\0\0\0\0\2" + struct.pack("<I", 44_100) + OPUS[-14:]
FLAC = b"fLaC\0\0\0\x22" + b"\0" * 10 + b"\x0a\xc4\x40\0\0\2\xb1\x10"
WEBM = b"\x1a\x45\xdf\xa3....\x2a\xd7\xb1\x83\x0f\x42\x40\x44\x89\x84" + struct.pack(">f", 4000)
SEEDS = [
    pdf(1), pdf(3, is_compressed=True), pdf(2, b"x"), wav(0.5), mp4(3), MP3, XING, OPUS, VORBIS,
    FLAC, WEBM, b"PK\3\4" + b"x" * 3000, b"",
]  # fmt: skip


def body(content: bytes, mime: str) -> dict[str, Any]:
    data = {"mimeType": mime, "data": base64.b64encode(content).decode()}
    return {"contents": [{"role": "user", "parts": [{"inlineData": data}, {"text": "?"}]}]}


def tokens(content: bytes, mime: str, model: str) -> tuple[int, tuple[str, ...]]:
    count = ESTIMATOR.count_request(body(content, mime), model=model)
    base = ESTIMATOR.count_request(body(b"", "text/plain"), model=model).tokens
    return count.tokens - base, count.assumptions


PRICES = [
    (pdf(1), "application/pdf", "gemini-2.5-flash", 258),
    (pdf(3, is_compressed=True), "application/pdf", "gemini-2.5-flash", 3 * 258),
    (pdf(1), "application/pdf", "gemini-2.0-flash", 1290),
    (pdf(2), "application/pdf", "gemini-2.0-flash", 2 * 258),
    (
        pdf(1, b"BT (" + b"a" * 1000 + b") Tj ET"),
        "application/pdf",
        "claude-sonnet-4-5",
        1595 + 373,
    ),
    (pdf(1, b"BT (" + b"a" * 1000 + b") Tj ET"), "application/pdf", "gpt-4o", 213 + 258),
    (wav(1.5), "audio/wav", "gemini-2.5-flash", 48),
    (wav(1.5), "audio/wav", "gpt-4o-audio-preview", 15 + 4),
    (MP3, "audio/mpeg", "gemini-2.0-flash", 25),
    (XING, "audio/mpeg", "gemini-2.5-flash", 84),
    (OPUS, "audio/ogg", "gemini-2.5-flash", 96),
    (VORBIS, "audio/ogg", "gemini-2.5-flash", 105),
    (FLAC, "audio/flac", "gemini-2.5-flash", 128),
    (mp4(2), "video/mp4", "gemini-2.5-flash", 590),
    (WEBM, "video/webm", "gemini-2.5-flash", 1180),
]


@pytest.mark.parametrize(("content", "mime", "model", "price"), PRICES)
def test_a_file_costs_what_its_header_says(
    content: bytes, mime: str, model: str, price: int
) -> None:
    found, assumptions = tokens(content, mime, model)
    assert (found, assumptions) == (price, ())


@pytest.mark.parametrize("mime", ["application/pdf", "audio/mpeg", "video/mp4"])
def test_a_file_that_says_nothing_has_a_flat_price(mime: str) -> None:
    found, assumptions = tokens(b"no header", mime, "gemini-2.5-flash")
    assert found > 100
    assert len(assumptions) == 1


EDITS = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 3), st.binary(max_size=9)), max_size=4
)
MIMES = st.sampled_from(["application/pdf", "audio/mpeg", "video/mp4", "application/zip"])
MODELS = st.sampled_from(["gemini-2.5-flash", "gemini-2.0-flash", "gpt-4o", "claude-sonnet-4-5"])


@settings(deadline=None)
@given(st.sampled_from(SEEDS), EDITS, MIMES, MODELS)
def test_a_damaged_file_has_a_price_and_says_if_it_is_flat(
    seed: bytes, edits: list[tuple[int, int, bytes]], mime: str, model: str
) -> None:
    content = bytearray(seed)
    for at, removed, added in edits:
        content[at : at + removed] = added
    price, assumptions = tokens(bytes(content), mime, model)
    assert 0 <= price < MOST_TOKENS
    assert set(assumptions) <= {"flat_file", "flat_audio", "flat_video"}


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(0, 40), st.booleans())
def test_more_pages_never_cost_less(pages: int, more: int, is_compressed: bool) -> None:  # noqa: FBT001
    for model in ("gemini-2.5-flash", "gpt-4o", "claude-sonnet-4-5"):
        few, many = (
            tokens(pdf(count, is_compressed=is_compressed), "application/pdf", model)[0]
            for count in (pages, pages + more)
        )
        assert few <= many
        if model == "gemini-2.5-flash":
            assert (few, many) == (258 * pages, 258 * (pages + more))
