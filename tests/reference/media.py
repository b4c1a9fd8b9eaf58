"""Pictures: their size from the first bytes, and what that size costs in input tokens.

Nothing here decodes a pixel or fetches a URL; every answer needs
at most the first `HEAD_BYTES` of a file. All arithmetic on sizes is on whole numbers, so the core
and this agree on every platform.
"""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from reference.tables import package_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

HEAD_BYTES: Final = 64 * 1024
"""How much of a file `image_size` looks at."""

MAX_JPEG_MARKERS: Final = 512
"""More than any real file has before its frame."""

MAX_SIDE_PX: Final = 2**32 - 1


class ImageHeader(NamedTuple):
    """What the first bytes of a picture say: sides in px, and "png", "jpeg", "gif", ..."""

    width_px: int
    height_px: int
    format: str


# ------------------------------------------------------------------------------ headers


def image_size(head: bytes) -> ImageHeader | None:
    """The size in the header, or None if it is unknown, cut off, or has a zero side.

    Reads PNG, JPEG, GIF, WebP, BMP, TIFF, AVIF and HEIC. `head` is the beginning of the file; bytes
    past `HEAD_BYTES` are ignored. Sides are as stored: rotation by EXIF or `irot` is not applied.
    Never raises.
    """
    head = head[:HEAD_BYTES]
    for name, read in _READERS.items():
        sides = read(head)
        if sides is not None and min(sides) >= 1:
            return ImageHeader(*sides, name)
    return None


def _unsigned(head: bytes, at: int, width: int, order: str = "big") -> int | None:
    """The unsigned number of `width` bytes at offset `at`, or None past the end."""
    if at + width > len(head):
        return None
    return int.from_bytes(head[at : at + width], "little" if order == "little" else "big")


def _pair(
    head: bytes, width_at: int, height_at: int, width: int, order: str = "big"
) -> tuple[int, int] | None:
    width_px = _unsigned(head, width_at, width, order)
    height_px = _unsigned(head, height_at, width, order)
    return None if width_px is None or height_px is None else (width_px, height_px)


def _png_sides(head: bytes) -> tuple[int, int] | None:
    if head[:8] != b"\x89PNG\r\n\x1a\n" or head[12:16] != b"IHDR":
        return None
    sides = _pair(head, 16, 20, 4)
    # PNG specification, 11.2.2: zero and anything above 2^31 - 1 are invalid.
    return sides if sides and max(sides) < 2**31 else None


def _gif_sides(head: bytes) -> tuple[int, int] | None:
    if head[:6] not in {b"GIF87a", b"GIF89a"}:
        return None
    return _pair(head, 6, 8, 2, "little")


def _bmp_sides(head: bytes) -> tuple[int, int] | None:
    if head[:2] != b"BM":
        return None
    header_bytes = _unsigned(head, 14, 4, "little")
    if header_bytes == 12:
        return _pair(head, 18, 20, 2, "little")
    sides = _pair(head, 18, 22, 4, "little")
    if header_bytes is None or header_bytes < 16 or sides is None or sides[0] >= 2**31:
        return None
    # A negative height means that the rows run from the top.
    return sides[0], min(sides[1], 2**32 - sides[1])


def _webp_sides(head: bytes) -> tuple[int, int] | None:
    if head[:4] != b"RIFF" or head[8:12] != b"WEBP":
        return None
    kind = head[12:16]
    if kind == b"VP8X":
        sides = _pair(head, 24, 27, 3, "little")
        return (sides[0] + 1, sides[1] + 1) if sides else None
    if kind == b"VP8L" and head[20:21] == b"\x2f":
        bits = _unsigned(head, 21, 4, "little")
        return None if bits is None else ((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    if kind == b"VP8 " and head[23:26] == b"\x9d\x01\x2a":
        sides = _pair(head, 26, 28, 2, "little")
        return (sides[0] & 0x3FFF, sides[1] & 0x3FFF) if sides else None
    return None


def _jpeg_sides(head: bytes) -> tuple[int, int] | None:
    if head[:2] != b"\xff\xd8":
        return None
    at = 2
    for _ in range(MAX_JPEG_MARKERS):
        at = head.find(b"\xff", at)
        while at >= 0 and head[at : at + 1] == b"\xff":
            at += 1
        marker = _unsigned(head, at, 1) if at >= 0 else None
        if marker is None or marker in {0xD9, 0xDA}:  # end, or a scan before any frame header
            return None
        at += 1
        if marker in {0x00, 0x01} or 0xD0 <= marker <= 0xD8:  # stuffing; markers without a body
            continue
        # C4, C8 and CC are tables and extensions; every other Cx begins a frame.
        if 0xC0 <= marker <= 0xCF and marker not in {0xC4, 0xC8, 0xCC}:
            return _pair(head, at + 5, at + 3, 2)
        segment_bytes = _unsigned(head, at, 2)
        if segment_bytes is None or segment_bytes < 2:
            return None
        at += segment_bytes
    return None


def _tiff_sides(head: bytes) -> tuple[int, int] | None:
    order = {b"II*\0": "little", b"MM\0*": "big"}.get(head[:4])
    if order is None:
        return None
    directory = _unsigned(head, 4, 4, order) or 0
    entry_count = _unsigned(head, directory, 2, order) if directory >= 8 else None
    sides: dict[int, int] = {}
    for index in range(min(entry_count or 0, HEAD_BYTES // 12)):
        at = directory + 2 + 12 * index
        tag, kind = _unsigned(head, at, 2, order), _unsigned(head, at + 2, 2, order)
        if tag in {256, 257} and kind in {3, 4}:
            side_px = _unsigned(head, at + 8, 2 if kind == 3 else 4, order)
            if side_px is not None:
                sides.setdefault(tag, side_px)
    return (sides[256], sides[257]) if len(sides) == 2 else None


_HEIC_BRANDS: Final = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}
_AVIF_BRANDS: Final = {b"avif", b"avis"}


def _boxes(head: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield type and body of each box, up to the first that is cut off or has no length."""
    at = 0
    while (box_bytes := _unsigned(head, at, 4)) is not None:
        kind, body = head[at + 4 : at + 8], at + 8
        if box_bytes == 1:
            box_bytes, body = _unsigned(head, at + 8, 8) or 0, at + 16
        if not body <= at + box_bytes <= len(head):
            return
        yield kind, head[body : at + box_bytes]
        at += box_bytes


def _box(head: bytes, kind: bytes) -> bytes:
    return next((body for name, body in _boxes(head) if name == kind), b"")


def _heif_sides(head: bytes, *, avif: bool) -> tuple[int, int] | None:
    if head[4:8] != b"ftyp":
        return None
    file_type = _box(head, b"ftyp")
    brands = {file_type[at : at + 4] for at in (0, *range(8, len(file_type), 4))}
    if bool(brands & _AVIF_BRANDS) != avif or not brands & (_AVIF_BRANDS | _HEIC_BRANDS):
        return None
    properties = _box(_box(_box(head, b"meta")[4:], b"iprp"), b"ipco")
    extents = (_pair(body, 4, 8, 4) for kind, body in _boxes(properties) if kind == b"ispe")
    # Grid cells and thumbnails have extents of their own; the picture is the largest.
    sizes = [extent for extent in extents if extent is not None]
    return max(sizes, key=lambda sides: sides[0] * sides[1], default=None)


def _avif_sides(head: bytes) -> tuple[int, int] | None:
    return _heif_sides(head, avif=True)


def _heic_sides(head: bytes) -> tuple[int, int] | None:
    return _heif_sides(head, avif=False)


_READERS: Final[dict[str, Callable[[bytes], tuple[int, int] | None]]] = {
    "png": _png_sides,
    "jpeg": _jpeg_sides,
    "gif": _gif_sides,
    "webp": _webp_sides,
    "bmp": _bmp_sides,
    "tiff": _tiff_sides,
    "avif": _avif_sides,
    "heic": _heic_sides,
}


# ---------------------------------------------------------------------------- token math

DETAILS: Final = ("auto", "low", "medium", "high", "ultra-high", "original")


def image_rules() -> dict[str, dict[str, Any]]:
    """Every rule of `image_rules.json` by name: constants, source, date, confidence."""
    rules: dict[str, dict[str, Any]] = package_table("image_rules")["rules"]
    return rules


def image_tokens(
    rule: Mapping[str, Any], width_px: int, height_px: int, detail: str = "auto"
) -> int:
    """The input tokens of a picture of `width_px` by `height_px` under `rule`.

    `rule` is a value of `image_rules()`; a detail that it does not list costs what "auto" costs.
    Raises ValueError if a side is outside 1..`MAX_SIDE_PX` or the detail is unknown.
    """
    if not (1 <= width_px <= MAX_SIDE_PX and 1 <= height_px <= MAX_SIDE_PX):
        raise ValueError(
            f"image is {width_px} x {height_px} px; both sides must be 1 to {MAX_SIDE_PX}"
        )
    if detail not in DETAILS:
        raise ValueError(f"detail is {detail!r}; it must be one of {', '.join(DETAILS)}")
    return _KINDS[rule["kind"]](rule, width_px, height_px, detail)


def _level(rule: Mapping[str, Any], detail: str) -> Any:
    levels = rule["levels"]
    return levels.get(detail, levels["auto"])


def _ceil_div(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


def _round_div(dividend: int, divisor: int) -> int:
    """The nearest whole number; a half goes to the even one, as Python's `round` does."""
    quotient, rest = divmod(dividend, divisor)
    return quotient + (2 * rest > divisor or (2 * rest == divisor and quotient % 2 == 1))


def _floor_to_long_side(width_px: int, height_px: int, limit_px: int) -> tuple[int, int]:
    """The size with its longer side at most `limit_px`; never enlarged, never 0."""
    long_px = max(width_px, height_px)
    if long_px <= limit_px:
        return width_px, height_px
    return max(1, width_px * limit_px // long_px), max(1, height_px * limit_px // long_px)


def _floor_to_short_side(width_px: int, height_px: int, limit_px: int) -> tuple[int, int]:
    short_px = min(width_px, height_px)
    if short_px <= limit_px:
        return width_px, height_px
    return width_px * limit_px // short_px, height_px * limit_px // short_px


def _grid(width_px: int, height_px: int, cells: int) -> tuple[int, int]:
    """Columns and rows of the largest grid of square cells, at most `cells`, of this aspect.

    floor(sqrt(cells * w / h)) in whole numbers: the floor of a root is the root of the floor.
    """
    return isqrt(cells * width_px // height_px), isqrt(cells * height_px // width_px)


def _flat_tokens(rule: Mapping[str, Any], _width_px: int, _height_px: int, detail: str) -> int:
    return int(_level(rule, detail)["tokens"])


def _tiles_tokens(rule: Mapping[str, Any], width_px: int, height_px: int, detail: str) -> int:
    base_tokens: int = rule["base_tokens"]
    if detail == "low":
        return base_tokens
    size = _floor_to_long_side(width_px, height_px, rule["box_px"])
    size = _floor_to_short_side(*size, rule["short_side_px"])
    tiles = _ceil_div(size[0], rule["tile_px"]) * _ceil_div(size[1], rule["tile_px"])
    return int(base_tokens + rule["tile_tokens"] * tiles)


def _patches_tokens(rule: Mapping[str, Any], width_px: int, height_px: int, detail: str) -> int:
    level, patch_px = _level(rule, detail), rule["patch_px"]
    width_px, height_px = _floor_to_long_side(width_px, height_px, level["max_edge_px"])
    patches = _ceil_div(width_px, patch_px) * _ceil_div(height_px, patch_px)
    max_patches = level.get("max_patches")
    if max_patches is not None and patches > max_patches:
        # The published factor sqrt(32^2 B / (w h)) * min(...) makes one side a whole number of
        # patches exactly: the smaller of the two candidates below. No root remains.
        columns, rows = _grid(width_px, height_px, max_patches)
        width_px, height_px = (
            max(1, min(columns * patch_px, rows * patch_px * width_px // height_px)),
            max(1, min(rows * patch_px, columns * patch_px * height_px // width_px)),
        )
        patches = _ceil_div(width_px, patch_px) * _ceil_div(height_px, patch_px)
    patches = min(patches, rule["rejected_above_patches"])
    return int(_ceil_div(patches * rule["multiplier_percent"], 100) + rule["extra_tokens"])


def _anthropic_tokens(rule: Mapping[str, Any], width_px: int, height_px: int, _detail: str) -> int:
    patch_px, max_edge_px = rule["patch_px"], rule["max_edge_px"]
    long_px, short_px = max(width_px, height_px), min(width_px, height_px)

    def patches(edge_px: int) -> int:
        other_px = max(1, _round_div(short_px * edge_px, long_px))
        return _ceil_div(edge_px, patch_px) * _ceil_div(other_px, patch_px)

    # The patch count grows with the long edge, so the largest edge that fits is found by halving.
    fits_px, too_long_px = 1, min(long_px, max_edge_px // patch_px * patch_px) + 1
    while too_long_px - fits_px > 1:
        middle_px = (fits_px + too_long_px) // 2
        if patches(middle_px) <= rule["max_tokens"]:
            fits_px = middle_px
        else:
            too_long_px = middle_px
    return int(patches(fits_px) + rule["extra_tokens"])


def _gemini_grid_tokens(rule: Mapping[str, Any], width_px: int, height_px: int, detail: str) -> int:
    max_tokens: int = _level(rule, detail)["tokens"]
    columns, rows = _grid(width_px, height_px, max_tokens)
    return min(max(1, columns) * max(1, rows), max_tokens)


def _gemini_tiles_tokens(
    rule: Mapping[str, Any], width_px: int, height_px: int, _detail: str
) -> int:
    tile_tokens: int = rule["tile_tokens"]
    if max(width_px, height_px) <= rule["small_px"]:
        return tile_tokens
    width_px, height_px = _floor_to_long_side(width_px, height_px, rule["box_px"])
    unit_px = min(width_px, height_px) * 2 // 3
    unit_px = min(max(unit_px, rule["min_tile_px"]), rule["max_tile_px"])
    tiles = _ceil_div(width_px, unit_px) * _ceil_div(height_px, unit_px)
    return int(tile_tokens * (tiles + rule["overview_tiles"]))


def _patch_rows_tokens(rule: Mapping[str, Any], width_px: int, height_px: int, _detail: str) -> int:
    long_px, limit_px, patch_px = max(width_px, height_px), rule["max_edge_px"], rule["patch_px"]
    if long_px > limit_px:
        width_px = max(1, _round_div(width_px * limit_px, long_px))
        height_px = max(1, _round_div(height_px * limit_px, long_px))
    # One token ends each row.
    return (_ceil_div(width_px, patch_px) + 1) * _ceil_div(height_px, patch_px)


def _qwen_tokens(rule: Mapping[str, Any], width_px: int, height_px: int, detail: str) -> int:
    patch_px, max_tokens, min_tokens = (
        rule["patch_px"],
        _level(rule, detail)["tokens"],
        rule["min_tokens"],
    )
    columns = max(1, _round_div(width_px, patch_px))
    rows = max(1, _round_div(height_px, patch_px))
    if columns * rows > max_tokens:
        columns, rows = _grid(width_px, height_px, max_tokens)
        columns, rows = max(1, columns), max(1, rows)
    elif columns * rows < min_tokens:
        columns = _ceil_root(min_tokens * width_px, height_px)
        rows = _ceil_root(min_tokens * height_px, width_px)
    return int(min(columns * rows, max_tokens) + rule["extra_tokens"])


def _ceil_root(dividend: int, divisor: int) -> int:
    """ceil(sqrt(dividend / divisor)) in whole numbers; at least 1."""
    return isqrt(_ceil_div(dividend, divisor) - 1) + 1


def _quadrants_tokens(rule: Mapping[str, Any], width_px: int, height_px: int, _detail: str) -> int:
    tile_px = rule["tile_px"]
    tiles = (2 if width_px >= tile_px else 1) * (2 if height_px >= tile_px else 1)
    return int(rule["tile_tokens"] * tiles)


def _canvas_tokens(rule: Mapping[str, Any], width_px: int, height_px: int, _detail: str) -> int:
    tile_px, max_tiles = rule["tile_px"], rule["max_tiles"]
    area = width_px * height_px

    def rank(tiles: tuple[int, int]) -> tuple[bool, int, int]:
        # The scale of the picture on this canvas, times its area. The smallest canvas that need
        # not shrink it wins; if all must, the one that shrinks it least.
        scale = min(tiles[0] * tile_px * height_px, tiles[1] * tile_px * width_px)
        return scale < area, scale if scale >= area else -scale, tiles[0] * tiles[1]

    canvases = [
        (columns, rows)
        for columns in range(1, max_tiles + 1)
        for rows in range(1, max_tiles // columns + 1)
    ]
    columns, rows = min(canvases, key=rank)
    tiles = columns * rows
    # Every tile of several is followed by a separator, and a picture of the whole comes last.
    several = (rule["tile_tokens"] + 1) * tiles + rule["tile_tokens"]
    return int((several if tiles > 1 else rule["tile_tokens"]) + rule["extra_tokens"])


def _deepseek_tokens(rule: Mapping[str, Any], width_px: int, height_px: int, _detail: str) -> int:
    patch_px, max_tokens, min_side_px = rule["patch_px"], rule["max_tokens"], rule["min_side_px"]
    if width_px * height_px < min_side_px**2:
        # An enlarged picture has this area: sqrt(area * w / h) by sqrt(area * h / w).
        sides = _grid(width_px, height_px, min_side_px**2)
        width_px, height_px = max(1, sides[0]), max(1, sides[1])
    columns, rows = _ceil_div(width_px, patch_px), _ceil_div(height_px, patch_px)
    if rows * (columns + 1) + rule["extra_tokens"] > max_tokens:
        columns, rows = _grid(width_px, height_px, rule["max_patches"])
    tokens = max(1, rows) * (max(1, columns) + 1) + rule["extra_tokens"]
    return int(min(tokens, max_tokens))


_KINDS: Final[dict[str, Callable[[Mapping[str, Any], int, int, str], int]]] = {
    "flat": _flat_tokens,
    "tiles": _tiles_tokens,
    "patches": _patches_tokens,
    "anthropic": _anthropic_tokens,
    "gemini-grid": _gemini_grid_tokens,
    "gemini-tiles": _gemini_tiles_tokens,
    "patch-rows": _patch_rows_tokens,
    "qwen": _qwen_tokens,
    "quadrants": _quadrants_tokens,
    "canvas": _canvas_tokens,
    "deepseek": _deepseek_tokens,
}
