"""Parts of a record that are imported when the first one comes, and not with the package."""

from __future__ import annotations

import functools
from typing import Any

from tokenctx._results.result import maker


@functools.cache
def record_parts() -> tuple[Any, ...]:
    """The reader of answers, the maker of events, and the classes of their members."""
    from tokenctx._estimate.accuracy import AccuracyEvent, Drift, NotRecorded
    from tokenctx.usage.answers import answered

    return answered, maker(AccuracyEvent), Drift, NotRecorded
