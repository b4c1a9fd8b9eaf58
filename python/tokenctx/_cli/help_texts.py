"""The text of `--help` for options that several commands have, and its examples."""

from __future__ import annotations

from typing import Final, get_args

from tokenctx._results.estimates import Dialect, EncodingName

DIALECT: Final = f"{', '.join(get_args(Dialect))}. (default: detected)"
ENCODING: Final = f"Count as text by {', '.join(get_args(EncodingName))}."
PROVIDER: Final = "Provider or host: vertex, bedrock, groq, ... (default: what the model says)"

RECORDINGS: Final = "Recorded calls, transcripts: files, folders, globs; packed, Parquet."


def examples(*lines: str) -> str:
    """The end of a command's help: one example a line."""
    return "\n\n".join(("Examples:", *(f"tokenctx {line}" for line in lines)))
