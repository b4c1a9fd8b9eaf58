"""`litellm.token_counter` by this package's counts, until that is taken back.

litellm imports its counter by name in many of its modules, some of them late. So every module of
litellm that has it is looked through, when ours goes in and when it goes out.
"""

from __future__ import annotations

import functools
import inspect
import logging
import sys
from typing import TYPE_CHECKING, Any, Final

import litellm
import litellm.litellm_core_utils.token_counter
import litellm.utils

from tokenctx import HybridTokenEstimator, encoding_for_model, get_encoding

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from tokenctx.encodings import Encoding

Counting = Any
"""A function with the parameters of litellm's own."""

LOG: Final = logging.getLogger("tokenctx")
PARAMETERS: Final = frozenset(
    "model custom_tokenizer text messages count_response_tokens tools tool_choice "
    "use_default_image_token_count default_token_count".split()
)
"""The arguments that ours understands; with another one litellm counts."""


class InstalledCounter:
    """The functions that `install` has put in; `uninstall` or the end of `with` takes them out.

    `fallbacks` is how often litellm's own counted: a tokenizer of the caller's own, parameters of a
    later litellm, arguments that litellm refuses, and whatever ours raised at.
    """

    def __init__(self, estimator: HybridTokenEstimator | None = None) -> None:
        self.fallbacks = 0
        self._estimator = HybridTokenEstimator() if estimator is None else estimator
        inner = litellm.litellm_core_utils.token_counter.token_counter
        originals = {id(it): it for it in (litellm.utils.token_counter, inner)}
        self._pairs = [(it, self._replacing(it, inner)) for it in originals.values()]
        _exchange(self._pairs)

    def uninstall(self) -> None:
        """Put litellm's own back, also where a module has imported ours since; twice is once."""
        _exchange([(ours, original) for original, ours in self._pairs])

    def __enter__(self) -> InstalledCounter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.uninstall()

    def _replacing(self, original: Counting, fallback: Counting) -> Callable[..., int]:
        signature = inspect.signature(original)

        @functools.wraps(original)
        def token_counter(*arguments: Any, **named: Any) -> int:
            try:
                bound = signature.bind(*arguments, **named)
                found = self._count(**bound.arguments)
            except Exception as error:  # litellm's own raises what it has to
                self._count_fallback(error)
                found = None
            return int(fallback(*arguments, **named)) if found is None else found

        return token_counter

    def _count(self, **arguments: Any) -> int | None:
        """The tokens; None if litellm has to count."""
        if litellm.disable_token_counter is True:
            return 0
        model, text = arguments.get("model") or "", arguments.get("text")
        messages, tools = arguments.get("messages"), arguments.get("tools")
        is_one_of_both = (text is None) != (messages is None)
        if (
            arguments.keys() - PARAMETERS
            or arguments.get("custom_tokenizer")
            or not is_one_of_both
            or (text is not None and (tools or arguments.get("tool_choice")))
        ):
            self.fallbacks += 1
            return None
        if text is not None:
            joined = text if isinstance(text, str) else "".join(filter(_is_text, text))
            return _encoding(model).count(joined)
        body = {"model": model, "messages": list(messages or ()), "tools": tools or []}
        if tool_choice := arguments.get("tool_choice"):
            body["tool_choice"] = tool_choice
        count = self._estimator.count_request(body)
        return sum(count.message_tokens) if arguments.get("count_response_tokens") else count.tokens

    def _count_fallback(self, error: Exception) -> None:
        self.fallbacks += 1
        if self.fallbacks == 1:  # the class alone: what it says may hold text
            LOG.warning(
                "litellm counts in place of tokenctx, which raised %s", type(error).__name__
            )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _encoding(model: str) -> Encoding:
    """That of the model; of an unknown one the one that its requests are counted with."""
    try:
        return encoding_for_model(model)
    except ValueError:
        return get_encoding("o200k_base")


def _exchange(pairs: list[tuple[Counting, Counting]]) -> None:
    """Put the second of each pair wherever a module of litellm has the first."""
    for name, module in list(sys.modules.items()):
        if module is None or name.partition(".")[0] != "litellm":
            continue
        for attribute, value in list(vars(module).items()):
            for old, new in pairs:
                if value is old:
                    setattr(module, attribute, new)


_installed: list[InstalledCounter] = []


def install(estimator: HybridTokenEstimator | None = None) -> InstalledCounter:
    """Count with this package wherever litellm counts; `uninstall` takes it back.

    `estimator` may bring profiles and vocabularies of yours. Counts are of the whole request; what
    is known of it plays no part. A second call replaces the first.
    """
    uninstall()
    _installed.append(InstalledCounter(estimator))
    return _installed[-1]


def uninstall() -> None:
    """Let litellm count again; nothing if it does."""
    while _installed:
        _installed.pop().uninstall()
