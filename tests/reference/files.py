"""What files, audio and video cost by their pages or by the time that they play."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reference.duration import duration_ms
from reference.model import Media, ToolResult
from reference.pdf import pdf_length

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reference.model import Message
    from reference.profile import LayoutRule, Profile

ZIP_HEAD: Final = b"PK\x03\x04"
"""What office documents and other archives begin with."""
ZIP_BYTES_PER_TOKEN: Final = 100
MAX_FILE_BYTES: Final = 16 << 20
"""Bytes of a file that are looked at for its pages or its duration."""


def file_tokens(
    profile: Profile,
    rule: LayoutRule | None,
    media: Media,
    media_count: int,
    assumptions: set[str],
) -> int | None:
    """Tokens of a file, audio or video; None if its header does not tell, or no price is known."""
    if media.data is None:
        return None
    if media.kind == "file":
        content = media.data[:MAX_FILE_BYTES]
        return _document_tokens(profile, rule, content, media_count, assumptions)
    is_audio = media.kind == "audio"
    second_tokens = profile.audio_second_tokens if is_audio else profile.video_second_tokens
    milliseconds = duration_ms(media.data) if second_tokens > 0 else None
    if milliseconds is None:
        return None
    start_tokens = profile.audio_start_tokens if is_audio else 0
    return -(-milliseconds * second_tokens // 1000) + start_tokens


def _document_tokens(
    profile: Profile,
    rule: LayoutRule | None,
    content: bytes,
    media_count: int,
    assumptions: set[str],
) -> int | None:
    if profile.page_tokens == 0 and profile.page_text_permille == 0:
        return None
    if content.startswith(ZIP_HEAD):
        assumptions.add("flat_file")
        return len(content) // ZIP_BYTES_PER_TOKEN
    length = pdf_length(content)
    if length is None:
        return None
    page = profile.page_tokens + (0 if rule is None else rule.page_tokens)
    if profile.shared_media_tokens > 0 and (media_count > 1 or length.pages > 1):
        page = profile.shared_media_tokens
    text = length.characters * profile.page_text_permille // 1000
    return length.pages * max(0, page) + text


def media_count(messages: Iterable[Message]) -> int:
    """Images and files in `messages`."""
    parts = [part for message in messages for part in message.parts]
    inner = [part for result in parts if isinstance(result, ToolResult) for part in result.parts]
    return sum(isinstance(part, Media) for part in parts + inner)
