"""Calls and results: which belong together, and what is repaired when they do not.

A first pass pairs every result with the nearest call that waits for it, so ids may repeat. A second
one brings the results behind their calls, gives an error result to each call that has none, drops
results that answer no call, and makes ids unique.
"""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tokenctx.convert.model import Message, Text, ToolCall, ToolResult, changed
from tokenctx.convert.rules import ID_LETTERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tokenctx.convert.model import Conversation, Part, Path
    from tokenctx.convert.notes import Notes
    from tokenctx.convert.rules import IdRule, Rules

MADE_ID: Final = "tokenctx_call_"
"""How ids begin that stand for none, so that a dialect without ids can leave them out again."""
NO_RESULT: Final = "No result: the call was interrupted or its result was lost."
ANY: Final = ("any", "")
"""The calls that a result without an id and with a name of its own may answer."""
SERVER_STATE: Final = frozenset({"previous_response_id", "conversation", "cachedContent"})
"""Fields that bring messages, and so calls, that are not in the body."""


@dataclass(slots=True)
class _Call:
    part: ToolCall
    message_index: int
    result: ToolResult | None = None
    new_id: str = ""


@dataclass(slots=True)
class _Pairs:
    """Calls by place, and the call of each result by its place; None: drop the result."""

    calls: dict[Path, _Call] = field(default_factory=dict)
    of_result: dict[Path, _Call | None] = field(default_factory=dict)
    moved: dict[Path, _Call] = field(default_factory=dict)
    by_message: dict[int, list[_Call]] = field(default_factory=dict)


def pair_tools(conversation: Conversation, notes: Notes, rules: Rules) -> Conversation:
    """The conversation with every result behind its call, under one id that the target takes."""
    messages = conversation.messages
    is_same = conversation.dialect == rules.name
    names = _names_in_order(messages, rules, is_same=is_same)
    if names is not None:
        return replace(conversation, tool_names=names)
    has_calls_elsewhere = is_same and not SERVER_STATE.isdisjoint(conversation.raw)
    pairs = _pair(messages, notes, rules, has_calls_elsewhere=has_calls_elsewhere)
    _name(pairs, notes, None if is_same else rules.ids)
    is_strict = rules.results == "each"
    messages = tuple(_arranged(messages, pairs, notes, is_strict=is_strict))
    return replace(conversation, messages=messages)


def _names_in_order(
    messages: Sequence[Message], rules: Rules, *, is_same: bool
) -> dict[str, str] | None:
    """Tool names by call id, if each call has an id and one result right behind it; else None."""
    takes = rules.ids.takes if rules.ids is not None and not is_same else None
    names: dict[str, str] = {}
    waiting: set[str] = set()
    for message in messages:
        is_answer = message.role == "assistant"
        if waiting and is_answer:
            return None
        for part in message.parts:
            if type(part) is ToolCall:
                call_id = part.id
                if call_id is None or call_id in names or (takes and not takes(call_id)):
                    return None
                names[call_id] = part.name
                waiting.add(call_id)
            elif type(part) is ToolResult:
                if part.call_id not in waiting:
                    return None
                waiting.remove(part.call_id)
            elif waiting and not is_answer:
                return None
    return None if waiting else names


def pair_ids(conversation: Conversation, notes: Notes, rules: Rules) -> Conversation:
    """The answer of a model with ids that the target takes; its calls wait for results."""
    pairs = _Pairs()
    for part in (part for message in conversation.messages for part in message.parts):
        if isinstance(part, ToolCall):
            pairs.calls[part.path] = _Call(part, 0)
    _name(pairs, notes, rules.ids)
    updated = (_updated(message, pairs) for message in conversation.messages)
    return replace(conversation, messages=tuple(message for message in updated if message))


def _pair(
    messages: Sequence[Message], notes: Notes, rules: Rules, *, has_calls_elsewhere: bool
) -> _Pairs:
    pairs, waiting = _Pairs(), _Waiting()
    turn = 0  # the first message of the answer whose calls the results here are to answer
    last: Message | None = None
    for index, message in enumerate(messages):
        is_result = any(isinstance(part, ToolResult) for part in message.parts)
        is_more = last is not None and last.role == message.role == "assistant"
        if not is_result and not (is_more and rules.results != "each"):
            turn = index
        last = message
        for part in message.parts:
            if isinstance(part, ToolCall):
                call = _Call(part, index)
                pairs.calls[part.path] = call
                pairs.by_message.setdefault(index, []).append(call)
                waiting.add(call)
            elif isinstance(part, ToolResult):
                found = waiting.take(part)
                if found is not None:
                    found.result = part
                    pairs.of_result[part.path] = found
                    if found.message_index < turn and notes.repair("misplaced_result", part.path):
                        pairs.moved[part.path] = found
                elif not has_calls_elsewhere:
                    kind = "duplicate_result" if part.call_id in waiting.ids else "orphan_result"
                    if notes.repair(kind, part.path):
                        pairs.of_result[part.path] = None
    return pairs


class _Waiting:
    """Calls without a result: the nearest first, those of one message in their order."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self._queues: dict[tuple[str, str], list[tuple[int, deque[_Call]]]] = {}

    def add(self, call: _Call) -> None:
        part = call.part
        if part.id is not None:
            self.ids.add(part.id)
        keys = [("name", part.name), ANY]
        for key in keys if part.id is None else [*keys, ("id", part.id)]:
            queues = self._queues.setdefault(key, [])
            if not queues or queues[-1][0] != call.message_index:
                queues.append((call.message_index, deque()))
            queues[-1][1].append(call)

    def take(self, result: ToolResult) -> _Call | None:
        if result.call_id is not None:
            return self._first(("id", result.call_id))
        return self._first(("name", result.name or "")) or self._first(ANY)

    def _first(self, key: tuple[str, str]) -> _Call | None:
        queues = self._queues.get(key, [])
        while queues:
            queue = queues[-1][1]
            while queue:
                call = queue.popleft()
                if call.result is None:
                    return call
            queues.pop()
        return None


def _name(pairs: _Pairs, notes: Notes, rule: IdRule | None) -> None:
    """Give every call the id that it has in the target."""
    used: set[str] = set()
    for number, call in enumerate(pairs.calls.values()):
        wanted = call.part.id
        if wanted is None:
            wanted = f"{MADE_ID}{number}"
        elif not (rule is None or rule.takes(wanted)) and notes.repair(
            "refused_id", (*call.part.path, "id")
        ):
            wanted = _spelled(wanted, rule)
        if wanted in used and notes.repair("duplicate_id", (*call.part.path, "id")):
            count = number
            while f"{wanted}_{count}" in used:
                count += 1
            longer = f"{wanted}_{count}"
            is_taken = rule is None or rule.takes(longer) or not rule.takes(wanted)
            wanted = longer if is_taken else _spelled(longer, rule)
        used.add(wanted)
        call.new_id = wanted


def _spelled(text: str, rule: IdRule | None) -> str:
    """An id that the target takes, the same for the same `text`."""
    letters = (rule.letters if rule else None) or ID_LETTERS
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    plain = "".join(letter if letter in letters else "_" for letter in text[:20])
    return f"{plain}_{digest}"


def _arranged(
    messages: Sequence[Message], pairs: _Pairs, notes: Notes, *, is_strict: bool
) -> list[Message]:
    """`is_strict`: no message of the same answer may stand between a call and its result."""
    done: list[Message] = []
    missing: list[ToolResult] = []
    for index, message in enumerate(messages):
        updated = _updated(message, pairs)
        is_more = message.role == "assistant" and not is_strict
        if missing and not is_more and not _has_only_results(message):
            updated = _place(missing, done, updated, is_strict=is_strict)
            missing = []
        if updated is not None:
            done.append(updated)
        missing += _missing(pairs.by_message.get(index, ()), pairs, notes)
    if missing:
        _place(missing, done, None, is_strict=is_strict)
    return done


def _has_only_results(message: Message) -> bool:
    return bool(message.parts) and all(isinstance(part, ToolResult) for part in message.parts)


def _updated(message: Message, pairs: _Pairs) -> Message | None:
    """`message` with the ids of the target and without results that go elsewhere."""
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            new_id = pairs.calls[part.path].new_id
            parts.append(_under(part, new_id))
        elif isinstance(part, ToolResult) and part.path in pairs.of_result:
            call = pairs.of_result[part.path]
            if call is not None and part.path not in pairs.moved:
                parts.append(_answering(part, call))
        else:
            parts.append(part)
    if len(parts) == len(message.parts) and all(map(_is_as_read, parts, message.parts)):
        return replace(message, parts=tuple(parts))
    return changed(message, parts=tuple(parts)) if parts else None


def _under(call: ToolCall, new_id: str) -> ToolCall:
    """`call` with its id; one that it did not have is no change of what it was read from."""
    if call.id is None:
        return replace(call, id=new_id)
    if call.id == new_id:
        return call
    renamed: ToolCall = changed(call, id=new_id)
    return renamed


def _is_as_read(part: Part, before: Part) -> bool:
    return part is before or (part.raw is not None and part.raw is before.raw)


def _answering(result: ToolResult, call: _Call) -> ToolResult:
    """`result` under the id and the name of its call."""
    if result.call_id is None and call.part.id is None:
        return replace(result, call_id=call.new_id, name=result.name or call.part.name)
    if result.call_id == call.new_id:
        # A name is no change of what it was read from.
        return result if result.name is not None else replace(result, name=call.part.name)
    answered: ToolResult = changed(result, call_id=call.new_id, name=result.name or call.part.name)
    return answered


def _missing(calls: Iterable[_Call], pairs: _Pairs, notes: Notes) -> list[ToolResult]:
    """The results of `calls` that stand elsewhere or nowhere."""
    found: list[ToolResult] = []
    for call in calls:
        result = call.result
        if result is None:
            if notes.repair("unanswered_call", call.part.path):
                found.append(_error_result(call))
        elif result.path in pairs.moved:
            found.append(_answering(result, call))
    return found


def _error_result(call: _Call) -> ToolResult:
    part = call.part
    return ToolResult(
        path=part.path,
        call_id=call.new_id,
        name=part.name,
        parts=(Text(path=part.path, text=NO_RESULT),),
        is_error=True,
        is_custom=part.is_custom,
    )


def _place(
    results: list[ToolResult], done: list[Message], following: Message | None, *, is_strict: bool
) -> Message | None:
    """Put `results` behind those that are there already; returns the message that follows.

    Where results stand in user messages they join the nearest one, since all of them have to be in
    one message.
    """
    last = done[-1] if done else None
    if is_strict:
        done += [Message(path=item.path, role="tool", parts=(item,)) for item in results]
    elif last is not None and last.role == "user" and _has_only_results(last):
        done[-1] = changed(last, parts=(*last.parts, *results))
    elif following is not None and following.role == "user" and _has_results(following):
        joined: Message = changed(following, parts=(*results, *following.parts))
        return joined
    else:
        done.append(Message(path=results[0].path, role="tool", parts=tuple(results)))
    return following


def _has_results(message: Message) -> bool:
    return any(isinstance(part, ToolResult) for part in message.parts)
