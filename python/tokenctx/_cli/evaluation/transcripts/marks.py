"""Marks of transcripts, by which other files are told from them without reading either."""

from __future__ import annotations

from typing import Final

HEAD_BYTES: Final = 1 << 16
MARKS: Final = (b"sessionI", b"payload", b"record_type", b'"session"', b'"info"', b'"git"')
"""One of these is in the first bytes of every transcript, so that most other files cost nothing."""
LACKS: Final = "system prompt and tools are not in it, so that full counts are less than bills"
