"""MIME types, data URLs and what the first bytes of a file say about it.

Nothing here raises for odd input: what cannot be read is `None`.
"""

from __future__ import annotations

import base64
import binascii
import string
from dataclasses import dataclass, field
from email.message import Message
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, get_args
from urllib.parse import unquote_to_bytes

from tokenctx._results.front import own_names
from tokenctx._results.tables import read_table

if TYPE_CHECKING:
    from collections.abc import Mapping

PartKind = Literal["image", "json", "text", "file"]
DataKind = Literal["image", "file", "audio"]
SvgPolicy = Literal["text", "image", "file"]

METADATA_TYPES: Final = frozenset(
    {"cache_control", "context_management", "phase_data", "stateful_marker", "thinking"}
)
"""The types that editors give to parts that are no content."""

ALIASES: Final = MappingProxyType(
    {
        "application/x-pdf": "application/pdf",
        "audio/mp3": "audio/mpeg",
        "audio/wave": "audio/wav",
        "audio/x-wav": "audio/wav",
        "image/jpg": "image/jpeg",
        "image/x-png": "image/png",
        "text/json": "application/json",
    }
)
TEXT_TYPES: Final = frozenset(
    f"application/{name}"
    for name in (
        "javascript json-seq jsonl ndjson sql toml typescript x-javascript x-jsonlines x-ndjson "
        "x-sh x-toml x-typescript x-yaml xml yaml"
    ).split()
)
"""Text outside of `text/*`. Lines of JSON are text: they are not one JSON value."""
TEXT_SUFFIXES: Final = frozenset({"xml", "yaml"})
SVG: Final = "image/svg+xml"
FALLBACK_IMAGE: Final = "image/png"

# RFC 6838, 4.2: what a type and a subtype are made of.
_NAME: Final = frozenset(string.ascii_letters + string.digits + "!#$&-^_.+")
_WILD: Final = _NAME | {"*"}

_MAGIC: Final = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF8", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (8, b"WAVE", "audio/wav"),
    (0, b"BM", "image/bmp"),
    (0, b"II*\0", "image/tiff"),
    (0, b"MM\0*", "image/tiff"),
    (4, b"ftypavif", "image/avif"),
    (4, b"ftypheic", "image/heic"),
    (4, b"ftypM4A", "audio/mp4"),
    (4, b"ftyp", "video/mp4"),
    (0, b"%PDF-", "application/pdf"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"\xff\xfb", "audio/mpeg"),
    (0, b"\xff\xf1", "audio/aac"),
    (0, b"OggS", "audio/ogg"),
    (0, b"fLaC", "audio/flac"),
    (0, b"\x1aE\xdf\xa3", "video/webm"),
)
"""Offset, bytes, type; the first that fits wins. WebP and WAVE stand inside of RIFF."""
HEAD_BYTES: Final = 32
"""How much of a file `sniff` looks at."""


@dataclass(frozen=True, slots=True)
class MediaType:
    """A MIME type in parts, in lower case; aliases are resolved.

    Attributes:
        essence: Type and subtype, such as ``"image/svg+xml"``.
        parameters: Names in lower case, values as they are.
    """

    essence: str
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def type(self) -> str:
        """The part before the slash."""
        return self.essence.partition("/")[0]

    @property
    def subtype(self) -> str:
        """The part behind the slash, suffix included."""
        return self.essence.partition("/")[2]

    @property
    def suffix(self) -> str:
        """The suffix behind the last `+`, else ``""``."""
        _, plus, suffix = self.subtype.rpartition("+")
        return suffix if plus else ""


def parse(text: object) -> MediaType | None:
    """The MIME type in `text`, or None if it is none; parameters and any case are read."""
    if not isinstance(text, str):
        return None
    return _parse(text) if len(text) < 256 else None


@lru_cache(maxsize=256)
def _parse(text: str) -> MediaType | None:
    essence, semicolon, _ = text.partition(";")
    essence = essence.strip().lower()
    kind, slash, subtype = essence.partition("/")
    if not slash or not kind or not subtype or not _WILD.issuperset(kind + subtype):
        return None
    parameters: dict[str, str] = {}
    if semicolon:
        header = Message()
        header["content-type"] = text.replace("\r", " ").replace("\n", " ")
        for name, value in header.get_params(failobj=[])[1:]:
            parameters.setdefault(name.lower(), value)
    return MediaType(ALIASES.get(essence, essence), MappingProxyType(parameters))


def is_valid(text: object) -> bool:
    """True if `text` is a MIME type: one type, one slash, one subtype, parameters or none."""
    found = parse(text)
    return found is not None and "*" not in found.essence


def normalize(text: object) -> str | None:
    """Type and subtype in lower case without parameters, aliases resolved; None if it is none."""
    found = parse(text)
    return None if found is None else found.essence


def is_metadata(text: object) -> bool:
    """True if `text` names a part that is no content, such as ``"cache_control"``."""
    return isinstance(text, str) and text.strip().lower() in METADATA_TYPES


def part_kind(text: object, *, svg: SvgPolicy = "text") -> PartKind:
    """How data of this type is shown to a model.

    `svg` says what an SVG is: no provider takes it as an image, and it is text to read.
    """
    found = parse(text)
    if found is None:
        return "file"
    if found.essence == SVG:
        return svg
    if found.type == "image":
        return "image"
    if found.essence == "application/json" or found.suffix == "json":
        return "json"
    is_text = found.type == "text" or found.essence in TEXT_TYPES or found.suffix in TEXT_SUFFIXES
    return "text" if is_text else "file"


def sniff(head: bytes) -> str | None:
    """The MIME type that the first bytes of a file tell, or None."""
    for offset, magic, name in _MAGIC:
        if head.startswith(magic, offset) and (offset != 8 or head.startswith(b"RIFF")):
            return name
    return None


def image_type(declared: object, head: bytes) -> str:
    """The MIME type of an image: what its bytes say, else what is declared, else ``image/png``.

    Providers refuse an image whose bytes are of another type than declared, so the bytes win.
    """
    found, named = sniff(head), normalize(declared)
    if found and found.startswith("image/"):
        return found
    return named if named and named.startswith("image/") and "*" not in named else FALLBACK_IMAGE


def accepts(dialect: str, text: object, kind: DataKind | None = None) -> bool:
    """True if `dialect` takes data of this type, as this kind; see `media_types.json`."""
    found = normalize(text)
    if found is None:
        return False
    return not _accepted(dialect, kind).isdisjoint({found, f"{found.partition('/')[0]}/*", "*/*"})


@lru_cache(maxsize=32)
def _accepted(dialect: str, kind: DataKind | None) -> frozenset[str]:
    rows = media_types().get(dialect, {})
    kinds = get_args(DataKind) if kind is None else (kind,)
    return frozenset(name for each in kinds for name in rows.get(each, ()))


@lru_cache(maxsize=1)
def media_types() -> dict[str, Any]:
    """The table of `media_types.json`: types by dialect, with source, date and confidence."""
    dialects: dict[str, Any] = read_table("media_types")["dialects"]
    return dialects


@dataclass(frozen=True, slots=True)
class DataUrl:
    """A data URL in parts.

    Attributes:
        media_type: Without parameters; ``application/octet-stream`` for base64 that has none and
            ``text/plain`` for text that has none.
        charset: The parameter, or None.
        payload: What stands behind the comma, as it stands there.
        is_base64: Whether that is base64; else it is percent-encoded.
    """

    media_type: str
    charset: str | None
    payload: str = field(repr=False)
    is_base64: bool

    @property
    def base64(self) -> str:
        """The bytes as base64."""
        if self.is_base64:
            return self.payload
        return base64.b64encode(unquote_to_bytes(self.payload)).decode("ascii")

    @property
    def content(self) -> bytes | None:
        """The bytes, or None if the base64 is broken."""
        return decode_base64(self.payload) if self.is_base64 else unquote_to_bytes(self.payload)


def parse_data_url(url: object) -> DataUrl | None:
    """The parts of a data URL, base64 or percent-encoded; None for all else."""
    if not isinstance(url, str) or url[:5].lower() != "data:":
        return None
    header, comma, payload = url[5:].partition(",")
    if not comma:
        return None
    named, *parameters = header.split(";")
    names = [parameter.strip().lower() for parameter in parameters]
    is_base64 = "base64" in names
    found = normalize(named) or ("application/octet-stream" if is_base64 else "text/plain")
    charset = next((name[8:] for name in names if name.startswith("charset=")), None)
    return DataUrl(found, charset, payload, is_base64)


def data_url(media_type: str, content: str) -> str:
    """The data URL of base64 `content`."""
    return f"data:{media_type};base64,{content}"


def decode_base64(text: str) -> bytes | None:
    """The bytes of base64, of both alphabets, with or without padding; None if it is broken."""
    try:
        content = text.encode("ascii").translate(_STANDARD)
        return base64.b64decode(content + b"=" * (-len(content) % 4), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        return None


def is_base64(text: object) -> bool:
    """True if `text` is base64 of the standard alphabet with its padding, and not empty."""
    if not isinstance(text, str) or not text or len(text) % 4:
        return False
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return True


_STANDARD: Final = bytes.maketrans(b"-_", b"+/")


def base64_head(text: str) -> bytes:
    """The first bytes of base64 `text`, enough for `sniff`; empty if they are broken."""
    return decode_base64(text[: HEAD_BYTES // 3 * 4]) or b""


def decode_text(content: bytes, charset: str | None = None) -> str:
    """`content` as text: a byte order mark first, then `charset`, else UTF-8; never fails."""
    for mark, name in (
        (b"\xef\xbb\xbf", "utf-8"),
        (b"\xff\xfe", "utf-16"),
        (b"\xfe\xff", "utf-16"),
    ):
        if content.startswith(mark):
            return (
                content[3:].decode(name, "replace")
                if name == "utf-8"
                else content.decode(name, "replace")
            )
    try:
        return content.decode(charset or "utf-8", "replace")
    except LookupError:
        return content.decode("utf-8", "replace")


__all__, __dir__ = own_names(globals())
