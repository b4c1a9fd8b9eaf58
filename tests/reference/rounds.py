"""Answers on whose way the vendor ran tools.

There the vendor asks its model again with what a tool returned, and bills these rounds as input of
the one call. What the answer holds of them is in the total of that call; only what the last round
said is new to the next.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from reference.model import Reasoning, ToolCall, ToolResult

if TYPE_CHECKING:
    from reference.model import Message


def without_rounds(
    messages: tuple[Message, ...], start: int
) -> tuple[tuple[Message, ...], int] | None:
    """`messages` without the earlier rounds of the answer that begins at `start`.

    With it where what is new begins; None if the vendor ran no tool in it. Reasoning belongs to
    the earlier rounds: some vendors return what their tools found as such, and the last thought is
    seldom billed again.
    """
    has_run, end = False, None
    for index in range(start, len(messages)):
        if messages[index].role != "assistant":
            break
        for nth, part in enumerate(messages[index].parts):
            is_run = isinstance(part, ToolCall) and part.is_run_by_vendor
            if is_run or isinstance(part, (ToolResult, Reasoning)):
                end = index, nth + 1
            has_run |= is_run
    if end is None or not has_run:
        return None
    index, part_count = end
    last = replace(messages[index], parts=messages[index].parts[part_count:])
    new_start = index if last.parts else index + 1
    return (*messages[:index], last, *messages[index + 1 :]), new_start
