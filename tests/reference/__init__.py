"""The plain Python reference: other, plainer algorithms for what the core does.

The oracle of the tests and the baseline of the benchmarks: counting text, reading JSON, digests,
known prefixes, sealed totals, pictures, bounds, scaled usage and streams. It needs the extra `test`
(blake3, regex). Vocabularies are the core's own tables, which are checked against the published
files by their SHA-256; of the package it imports public names only.
"""

from __future__ import annotations

from reference.bpe import count_tokens, encode

__all__ = ["count_tokens", "encode"]
