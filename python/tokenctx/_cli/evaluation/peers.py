"""Other counters of input tokens, to be scored on the same recorded calls.

Each is the package itself, imported when it is asked for; none is asked to open a connection.
"""

from __future__ import annotations

import base64
import importlib
import importlib.metadata
import json
import os
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from tokenctx._core import rank_file, split_pattern
from tokenctx._results.estimates import EncodingName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tokenctx._cli.evaluation.chat_form import ChatForm

ENCODINGS: Final = get_args(EncodingName)
PeerName = Literal["litellm", "tiktoken", "langchain", "chars4"]

PEERS: Final[tuple[PeerName, ...]] = get_args(PeerName)
PACKAGES: Final[dict[PeerName, str]] = {
    "litellm": "litellm",
    "tiktoken": "tiktoken",
    "langchain": "langchain-core",
}
TIKTOKEN_MESSAGE_TOKENS: Final = 3
TIKTOKEN_REQUEST_TOKENS: Final = 3
"""OpenAI cookbook, 'How to count tokens with tiktoken'."""


class MissingPeerError(Exception):
    """A counter that is not installed; the message says how to install it."""


class Peer:
    """Another counter: its title with its version, and the tokens that it counts."""

    def __init__(self, name: PeerName) -> None:
        package = PACKAGES.get(name)
        try:
            self.count: Callable[[ChatForm], int] = _COUNTERS[name]()
            version = importlib.metadata.version(package) if package else ""
        except ImportError:
            raise MissingPeerError(f"{name} is missing: pip install {package}") from None
        self.name = name
        self.title = f"{name} {version}".strip()


def _litellm() -> Callable[[ChatForm], int]:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it is fetched at import
    litellm: Any = importlib.import_module("litellm")
    litellm.disable_hf_tokenizer_download = True

    def count(form: ChatForm) -> int:
        tools = form.tools or None
        return int(litellm.token_counter(model=form.model, messages=form.messages, tools=tools))

    return count


def _langchain() -> Callable[[ChatForm], int]:
    messages: Any = importlib.import_module("langchain_core.messages.utils")

    def count(form: ChatForm) -> int:
        tools = form.tools or None
        return int(messages.count_tokens_approximately(form.messages, tools=tools))

    return count


def _tiktoken() -> Callable[[ChatForm], int]:
    tiktoken: Any = importlib.import_module("tiktoken")
    made: dict[EncodingName, Any] = {}

    def encoding(name: EncodingName) -> Any:
        if name not in made:
            lines = (line.split() for line in rank_file(name).splitlines())
            ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
            made[name] = tiktoken.Encoding(
                name, pat_str=split_pattern(name), mergeable_ranks=ranks, special_tokens={}
            )
        return made[name]

    def count(form: ChatForm) -> int:
        try:
            name = tiktoken.encoding_name_for_model(form.model)
        except KeyError:
            name = "o200k_base"
        counter = encoding(name if name in ENCODINGS else "o200k_base")
        tokens = sum(len(counter.encode_ordinary(text)) for text in texts(form))
        return tokens + TIKTOKEN_MESSAGE_TOKENS * len(form.messages) + TIKTOKEN_REQUEST_TOKENS

    return count


def _characters() -> Callable[[ChatForm], int]:
    return lambda form: sum(map(len, texts(form))) // 4


_COUNTERS: Final[dict[PeerName, Callable[[], Callable[[ChatForm], int]]]] = {
    "litellm": _litellm,
    "tiktoken": _tiktoken,
    "langchain": _langchain,
    "chars4": _characters,
}


def texts(form: ChatForm) -> Iterator[str]:
    """Every text of a request that is billed: roles, content, calls, tools and schema as JSON."""
    for message in form.messages:
        yield str(message.get("role", ""))
        content = message.get("content")
        for part in content if isinstance(content, list) else [{"text": content}]:
            yield str(part.get("text") or "")
        for call in message.get("tool_calls") or ():
            function = call.get("function") or {}
            yield from (str(function.get(name) or "") for name in ("name", "arguments"))
    if form.tools:
        yield json.dumps(form.tools, separators=(",", ":"), ensure_ascii=False)
    yield form.schema
