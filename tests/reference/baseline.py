"""Estimates in plain Python: the baseline of the benchmarks.

What a gateway would write by itself: read the request, make a chain of digests, look for the
deepest prefix that was billed, count what is new. It knows the requests of the benchmarks and of
the tests of itself: OpenAI Chat with one call a message and tools of flat schemas, and messages
of Anthropic as far as lookups go. Whatever else comes raises ValueError.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from reference import bpe
from reference.digest import derive_key, prefix_digests
from reference.document import Anomalies, canonical, compact, load
from reference.prefix import Boundary, KnownTotal, PrefixStore
from tokenctx import ConversationLookupResult

Json = dict[str, Any]

CAPACITY_BYTES: Final = 64 << 20
TTL_SECONDS: Final = 86_400.0
ENCODING: Final = "o200k_base"
# What gpt-4o is billed on Chat, as the row of `profiles.json` says, 2026-11.
REQUEST_TOKENS: Final = 3
MESSAGE_TOKENS: Final = 4
NAME_TOKENS: Final = 1
CALL_TOKENS: Final = 5
TOOLS_TOKENS: Final = -1


class Count(NamedTuple):
    """Tokens of what stands before the messages, and of each message."""

    context_tokens: int
    message_tokens: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """Tokens of the request."""
        return self.context_tokens + sum(self.message_tokens)


class Estimate(NamedTuple):
    """Input tokens: what was billed for a known prefix, and what was counted beyond it."""

    tokens: int
    known_tokens: int
    new_message_count: int


class Baseline:
    """What is known of conversations, and estimates from it."""

    def __init__(self, secret: bytes) -> None:
        self._key = derive_key(secret)
        self._store = PrefixStore(CAPACITY_BYTES, TTL_SECONDS)

    def count(self, body: object) -> Count:
        """The whole request counted, whatever is known."""
        request = read(body)
        messages = (message_tokens(message) for message in request["messages"])
        return Count(context_tokens(request), tuple(messages))

    def estimate(self, body: object) -> Estimate:
        """What was billed for the deepest known prefix, and a count of the rest."""
        request = read(body)
        digests = prefix_digests(self._key, request["model"], request)
        found = self._store.deepest(digests[1:], 0)
        start = 0 if found is None else found[0] + 1
        known = 0 if found is None else found[1].tokens
        new = request["messages"][start:]
        counted = sum(map(message_tokens, new)) + (context_tokens(request) if start == 0 else 0)
        return Estimate(known + counted, known, len(new))

    def record(self, body: object, input_tokens: int) -> None:
        """Know from now on that `body` was billed so."""
        request = read(body)
        self._record(prefix_digests(self._key, request["model"], request)[1:], input_tokens)

    def record_actual(self, body: object, model_family: str, actual_tokens: int) -> None:
        """Know from now on that the messages of `body` were billed so."""
        self._record(prefix_digests(self._key, model_family, read(body))[1:], actual_tokens)

    def lookup(self, body: object, model_family: str) -> ConversationLookupResult:
        """What is known of the messages of `body`."""
        digests = prefix_digests(self._key, model_family, read(body))[1:]
        found = self._store.deepest(digests, 0)
        if found is None:
            return ConversationLookupResult("none")
        new = tuple(range(found[0] + 1, len(digests)))
        return ConversationLookupResult("prefix" if new else "exact", found[1].tokens, new)

    def _record(self, digests: list[bytes], tokens: int) -> None:
        boundary = Boundary(len(digests), digests[-1], KnownTotal(tokens))
        self._store.record(digests, [boundary], 0)


def read(body: object) -> Json:
    """The request in `body` as `digest` and the counts below take it."""
    fields = load(body, Anomalies())
    return {
        "model": fields.get("model", ""),
        "system": read_content(fields.get("system")),
        "tools": [read_tool(tool) for tool in fields.get("tools", ())],
        "messages": [read_message(message) for message in fields["messages"]],
    }


def read_tool(tool: Json) -> Json:
    """A tool of Chat or of Anthropic."""
    function = tool.get("function", tool)
    schema = function.get("parameters", function.get("input_schema"))
    about = {name: function.get(name, "") for name in ("name", "description")}
    return {**about, "schema": schema, "canonical": canonical(tool), "builtin": False}


def read_message(message: Json) -> Json:
    """A message of Chat or of Anthropic."""
    parts = read_content(message.get("content"))
    if message["role"] == "tool":
        parts = [{"part": "tool_result", "name": "", "parts": parts, "is_error": False}]
    for call in message.get("tool_calls", ()):
        parts.append(read_call(call["function"]["name"], json.loads(call["function"]["arguments"])))
    return {"role": message["role"], "name": message.get("name", ""), "parts": parts}


def read_content(content: Any) -> list[Json]:
    """Parts of a content: text, or blocks."""
    if isinstance(content, str):
        return [{"part": "text", "text": content}] if content else []
    return [read_block(block) for block in content or ()]


def read_block(block: Json) -> Json:
    """A part of the text, the call or the result in a block."""
    if block["type"] == "text":
        return {"part": "text", "text": block["text"]}
    if block["type"] == "tool_use":
        return read_call(block["name"], block["input"])
    if block["type"] == "tool_result":
        parts, is_error = read_content(block["content"]), block.get("is_error", False)
        return {"part": "tool_result", "name": "", "parts": parts, "is_error": is_error}
    raise ValueError(f"a block is of type {block['type']!r}; the baseline reads text and calls")


def read_call(name: str, arguments: Any) -> Json:
    """A call of a tool."""
    texts = {"arguments": compact(arguments), "canonical": canonical(arguments)}
    return {"part": "tool_call", "name": name, **texts}


def text_tokens(text: str) -> int:
    """Tokens of `text`."""
    return bpe.count(text, ENCODING)


def message_tokens(message: Json) -> int:
    """Tokens of a message with its frame."""
    calls = [part for part in message["parts"] if part["part"] == "tool_call"]
    if len(calls) > 1:
        raise ValueError(f"a message has {len(calls)} calls; the baseline counts at most 1")
    tokens = MESSAGE_TOKENS + sum(map(part_tokens, message["parts"]))
    return tokens + (NAME_TOKENS + text_tokens(message["name"]) if message["name"] else 0)


def part_tokens(part: Json) -> int:
    """Tokens of one part; the name of a call is billed with the call and with its result."""
    if part["part"] == "text":
        return text_tokens(part["text"])
    if part["part"] == "tool_result":
        return sum(map(part_tokens, part["parts"]))
    names = text_tokens(part["name"]) + text_tokens("." + part["name"])
    return CALL_TOKENS + names + text_tokens(part["arguments"])


def context_tokens(request: Json) -> int:
    """Tokens of the frame and of the tools, which stand behind the system message."""
    if not request["tools"]:
        return REQUEST_TOKENS
    functions = "".join(function_text(tool) + "\n\n" for tool in request["tools"])
    block = (
        f"# Tools\n\n## functions\n\nnamespace functions {{\n\n{functions}}} // namespace functions"
    )
    first = request["messages"][0]
    if first["role"] != "system":
        return REQUEST_TOKENS + TOOLS_TOKENS + MESSAGE_TOKENS + text_tokens(block)
    end = first["parts"][-1]["text"]
    joined = text_tokens(f"{end}\n\n{block}") - text_tokens(end)
    return REQUEST_TOKENS + TOOLS_TOKENS + joined


def function_text(tool: Json) -> str:
    """A tool as the type of a function; its parameters are texts and numbers with descriptions."""
    schema, lines = tool["schema"], [f"// {tool['description']}"]
    lines.append(f"type {tool['name']} = (_: {{")
    for name, about in schema["properties"].items():
        if about.keys() != {"type", "description"} or about["type"] not in ("string", "number"):
            raise ValueError(
                f"a parameter has {sorted(about)}; the baseline writes described texts"
            )
        optional = "" if name in schema["required"] else "?"
        lines += [f"// {about['description']}", f"{name}{optional}: {about['type']},"]
    return "\n".join([*lines, "}) => any;"])
