"""The adapter's example: usage, what an agent sees of it, and a stream that ends with it."""

from __future__ import annotations

import json

EXAMPLE = {"prompt_tokens": 50_000, "completion_tokens": 5_000, "total_tokens": 55_000}


SCALED = {"prompt_tokens": 78_125, "completion_tokens": 7_812, "total_tokens": 85_937}


STREAM = b'data: {"choices":[],"usage":' + json.dumps(EXAMPLE).encode() + b"}\n\n"
