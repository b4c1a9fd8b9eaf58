"""Promises of the picture functions, kept by every implementation."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenctx
from reference import media as reference

DATA = Path(__file__).parents[1] / "data" / "images"
RULES = reference.image_rules()
CONFIDENCES = {"documented", "verified", "inferred"}

sides_px = st.one_of(st.integers(1, 4096), st.integers(1, reference.MAX_SIDE_PX))
details = st.sampled_from(reference.DETAILS)
# Speed is measured in benches/, never asserted here.
untimed = settings(deadline=None)

rule_names = st.sampled_from(sorted(RULES))


def cases(name: str, key: str = "cases") -> list[dict[str, Any]]:
    table: dict[str, list[dict[str, Any]]] = json.loads((DATA / name).read_text(encoding="utf-8"))
    return table[key]


class Core:
    """The core's functions under the names of the reference."""

    image_size = staticmethod(tokenctx.image_size)

    @staticmethod
    def image_tokens(
        rule: dict[str, Any], width_px: int, height_px: int, detail: str = "auto"
    ) -> int:
        (name,) = (name for name, row in RULES.items() if row is rule)
        return tokenctx.image_tokens(name, width_px, height_px, detail)


IMPLEMENTATIONS: dict[str, Any] = {"reference": reference, "rust": Core}


@pytest.fixture(params=sorted(IMPLEMENTATIONS), scope="module")
def implementation(request: pytest.FixtureRequest) -> Any:
    return IMPLEMENTATIONS[request.param]


def png(width_px: int, height_px: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(
        ">IIBBBBB", width_px, height_px, 8, 6, 0, 0, 0
    )


def segment(marker: int, body: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body


def jpeg(frame: int, width_px: int, height_px: int, exif_bytes: int = 30) -> bytes:
    sides = struct.pack(">BHHB", 8, height_px, width_px, 3)
    exif = segment(0xE1, b"\xff" * exif_bytes)
    return b"\xff\xd8" + exif + segment(0xC4, bytes(20)) + segment(frame, sides)


def bmp(width_px: int, height_px: int) -> bytes:
    return b"BM" + bytes(12) + struct.pack("<Iii", 40, width_px, height_px)


def webp(kind: bytes, body: bytes) -> bytes:
    return b"RIFF\0\0\0\0WEBP" + kind + bytes(4) + body


def atom(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body) + 8) + kind + body


def heif(brand: bytes) -> bytes:
    extents = b"".join(
        atom(b"ispe", struct.pack(">III", 0, *sides))
        for sides in ((512, 512), (640, 480), (160, 120))
    )
    meta = atom(b"meta", bytes(4) + atom(b"iprp", atom(b"ipco", extents)))
    return atom(b"ftyp", brand + bytes(4) + b"mif1") + meta


SAMPLES = [
    ("png", png(640, 480)),
    ("jpeg", jpeg(0xC0, 640, 480)),
    ("jpeg", jpeg(0xC2, 640, 480, exif_bytes=60_000)),
    ("gif", b"GIF89a" + struct.pack("<HH", 640, 480)),
    ("bmp", bmp(640, 480)),
    ("bmp", bmp(640, -480)),
    ("webp", webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 640 | 0x4000, 480))),
    ("webp", webp(b"VP8L", b"\x2f" + struct.pack("<I", 479 << 14 | 639))),
    ("webp", webp(b"VP8X", bytes(4) + b"\x7f\x02\0\xdf\x01\0")),
    ("tiff", b"MM\0*" + struct.pack(">IHHHIHHHHII", 8, 2, 256, 3, 1, 640, 0, 257, 4, 1, 480)),
    ("avif", heif(b"avif")),
    ("heic", heif(b"heic")),
]


# ------------------------------------------------------------------------------- prices


@pytest.mark.parametrize("case", cases("vectors.json", "vectors"), ids=str)
def test_every_vector_is_exact(implementation: Any, case: dict[str, Any]) -> None:
    """Every documented or recorded price of a picture is reproduced to the token."""
    rule = RULES[case["rule"]]
    size = case["width_px"], case["height_px"]
    assert implementation.image_tokens(rule, *size, detail=case["detail"]) == case["tokens"]


@pytest.mark.parametrize("name", sorted(RULES))
def test_a_rule_states_where_it_comes_from(name: str) -> None:
    """Each rule has a source, a date, a confidence and the models it is for."""
    rule = RULES[name]
    assert rule["confidence"] in CONFIDENCES
    assert len(rule["date"]) == len("2026-09")
    assert rule["source"]
    assert rule["for"]


def test_every_rule_has_a_vector_or_says_that_it_is_inferred() -> None:
    """No documented or verified rule is untested, but for those that only repeat another's form."""
    tested = {case["rule"] for case in cases("vectors.json", "vectors")}
    untested = {name for name, rule in RULES.items() if rule["confidence"] != "inferred"} - tested
    assert untested == {
        "gemini-1.5-flat",
        "openai-patches-gpt-4.1-mini",
        "openai-patches-gpt-5.4",
        "openai-patches-o4-mini",
    }


@untimed
@given(name=rule_names, width_px=sides_px, height_px=sides_px, detail=details)
def test_a_price_is_bounded_for_every_size(
    name: str, width_px: int, height_px: int, detail: str
) -> None:
    """No size, however absurd, raises, is free, or costs more than the dearest real picture."""
    for implementation in IMPLEMENTATIONS.values():
        tokens = implementation.image_tokens(RULES[name], width_px, height_px, detail=detail)
        assert 1 <= tokens <= 200_000


@untimed
@given(width_px=sides_px, height_px=sides_px, detail=details)
def test_implementations_agree_on_every_price(width_px: int, height_px: int, detail: str) -> None:
    """The price of a picture does not depend on the implementation."""
    for rule in RULES.values():
        prices = {
            implementation.image_tokens(rule, width_px, height_px, detail=detail)
            for implementation in IMPLEMENTATIONS.values()
        }
        assert len(prices) == 1


SYMMETRIC_KINDS = {
    "flat",
    "tiles",
    "patches",
    "anthropic",
    "gemini-grid",
    "gemini-tiles",
    "qwen",
    "quadrants",
    "canvas",
}


@untimed
@given(name=rule_names, width_px=sides_px, height_px=sides_px, detail=details)
def test_a_turned_picture_costs_the_same(
    name: str, width_px: int, height_px: int, detail: str
) -> None:
    """Width and height may be swapped, except where each row ends with a token."""
    rule = RULES[name]
    if rule["kind"] in SYMMETRIC_KINDS:
        for implementation in IMPLEMENTATIONS.values():
            upright = implementation.image_tokens(rule, width_px, height_px, detail=detail)
            assert upright == implementation.image_tokens(rule, height_px, width_px, detail=detail)


@untimed
@given(
    name=rule_names,
    width_px=st.integers(1, 640),
    height_px=st.integers(1, 640),
    wider_px=st.integers(0, 100),
    taller_px=st.integers(0, 100),
)
def test_more_pixels_never_cost_less_while_nothing_is_shrunk(
    name: str, width_px: int, height_px: int, wider_px: int, taller_px: int
) -> None:
    """Below every vendor's limits a rule that counts patches or tiles is monotone."""
    rule = RULES[name]
    if rule["kind"] in {"tiles", "patches", "anthropic", "patch-rows", "quadrants"}:
        for implementation in IMPLEMENTATIONS.values():
            smaller = implementation.image_tokens(rule, width_px, height_px)
            larger = implementation.image_tokens(rule, width_px + wider_px, height_px + taller_px)
            assert smaller <= larger


@untimed
@given(width_px=sides_px, height_px=sides_px)
def test_claude_never_exceeds_its_limit(width_px: int, height_px: int) -> None:
    """Patches stay within the documented number, whatever the size."""
    for name in ("anthropic-standard", "anthropic-high-resolution"):
        rule = RULES[name]
        tokens = reference.image_tokens(rule, width_px, height_px)
        assert tokens <= rule["max_tokens"] + rule["extra_tokens"]


@pytest.mark.parametrize("size", [(0, 1), (1, 0), (-1, 1), (1, 2**32)])
def test_an_impossible_size_is_refused(implementation: Any, size: tuple[int, int]) -> None:
    """The error names both sides and the limit."""
    with pytest.raises(ValueError, match=f"image is {size[0]} x {size[1]} px"):
        implementation.image_tokens(RULES["generic"], *size)


def test_an_unknown_detail_is_refused(implementation: Any) -> None:
    """The error lists the details that exist."""
    with pytest.raises(ValueError, match="auto, low"):
        implementation.image_tokens(RULES["generic"], 1, 1, detail="fuzzy")


# ------------------------------------------------------------------------------ headers


@pytest.mark.parametrize(("name", "head"), SAMPLES)
def test_headers_state_the_size(implementation: Any, name: str, head: bytes) -> None:
    """Every format's header yields its size."""
    assert implementation.image_size(head) == (640, 480, name)


@pytest.mark.parametrize("marker", range(0xC0, 0xD0))
def test_every_jpeg_frame_and_no_table_is_a_size(implementation: Any, marker: int) -> None:
    """All Cx markers begin a frame, except DHT, JPG and DAC."""
    is_frame = marker not in {0xC4, 0xC8, 0xCC}
    assert (implementation.image_size(jpeg(marker, 640, 480)) is not None) == is_frame


@pytest.mark.parametrize(
    "head",
    [
        png(0, 1),
        png(1, 0),
        png(2**32 - 1, 2**32 - 1),
        bmp(-1, 1),
        jpeg(0xC0, 1, 0),
        b"\xff\xd8" + b"\xff" * 100_000,
        b"\xff\xd8\xff\xe1\0\0\xff\xc0",
        atom(b"ftyp", b"heic\0\0\0\0") + b"\0\0\0\x01meta" + b"\xff" * 16,
        jpeg(0xC0, 640, 480, exif_bytes=60_000)[:60_000],
        b"",
    ],
    ids=range(10),
)
def test_hostile_and_cut_headers_are_unknown(implementation: Any, head: bytes) -> None:
    """Zero sides, 2^32 px, endless fill bytes and boxes without end are None."""
    assert implementation.image_size(head) is None


@given(data=st.data())
@settings(untimed, max_examples=300)
def test_no_bytes_raise_and_implementations_agree(data: st.DataObject) -> None:
    """Mutated headers and random bytes yield a size or None, the same one everywhere."""
    head = bytearray(data.draw(st.sampled_from(SAMPLES))[1][:300])
    for at in data.draw(st.lists(st.integers(0, len(head) - 1), max_size=6)):
        head[at] = data.draw(st.integers(0, 255))
    head += data.draw(st.binary(max_size=40))
    sizes = {implementation.image_size(bytes(head)) for implementation in IMPLEMENTATIONS.values()}
    assert len(sizes) == 1
