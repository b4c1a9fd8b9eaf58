"""How messages stand in Anthropic's prompt, and what that costs besides their content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reference.model import ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reference.model import Message, Request
    from reference.profile import Profile


@dataclass(frozen=True)
class Frame:
    """What stands around one message."""

    tokens: int
    """May be negative: results stand in the turn of their calls, which has a frame already."""
    is_system: bool = False
    """Whether it is part of the system prompt."""
    names: tuple[str, ...] = ()
    """The calls that its results answer, in their order; empty if there is but one."""
    is_first: bool = True
    """Whether its results are the first of their turn."""


def frames(request: Request, profile: Profile) -> Iterator[Frame]:
    """One frame for each message of `request`."""
    before, has_results, is_leading = "", False, True
    is_forced = request.tool_choice.startswith(("required", "tool:"))
    results_tokens = profile.forced_results_tokens if is_forced else profile.results_tokens
    names: tuple[str, ...] = ()
    for index, message in enumerate(request.messages):
        speaker = _speaker(message)
        is_leading = is_leading and speaker == "system"
        if is_leading or (speaker == "system" and request.dialect != "anthropic"):
            yield Frame(0, is_system=True)
            continue
        results = sum(isinstance(part, ToolResult) for part in message.parts)
        continues = has_results and speaker == before
        tokens = 0 if before else (profile.opening_tokens if speaker == "assistant" else 0)
        if results:
            tokens += 0 if continues else results_tokens
            tokens += profile.after_results_tokens if results < len(message.parts) else 0
        elif continues:
            tokens += profile.after_results_tokens
        elif speaker == before:
            tokens += profile.joined_tokens
        elif speaker != "assistant" or index + 1 < len(request.messages):
            tokens += profile.message_tokens
        calls = [part.name for part in message.parts if isinstance(part, ToolCall)]
        if has_results and speaker == "assistant" and not calls:
            tokens += profile.answer_tokens
        yield Frame(tokens, names=names[:results], is_first=not continues)
        names = names[results:]
        if speaker == "assistant":
            names = tuple(calls) if len(calls) > 1 else ()
        before, has_results = speaker, results > 0


def block_tokens(request: Request, profile: Profile) -> int:
    """Tokens between the blocks before the messages: tools, output schema, thinking, system."""
    leading = request.messages[:1] if request.dialect == "anthropic" else request.messages
    has_system = bool(request.system) or any(_speaker(it) == "system" for it in leading)
    blocks = sum([bool(request.tools), bool(request.response_schema), request.thinking, has_system])
    return profile.system_tokens + (blocks - 1) * profile.joined_tokens if blocks else 0


def _speaker(message: Message) -> str:
    """Who speaks in the prompt: results come from the user."""
    known = {"assistant": "assistant", "system": "system", "developer": "system"}
    return known.get(message.role, "user")
