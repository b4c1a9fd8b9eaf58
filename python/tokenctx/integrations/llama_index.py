"""llama-index: a tokenizer that counts as the model does, and a handler of events that records."""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.llm import LLMChatEndEvent, LLMChatStartEvent
from pydantic import PrivateAttr

from tokenctx import HybridTokenEstimator, encoding_for_model
from tokenctx.integrations._provenance import told

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenctx import Estimate

Json = dict[str, Any]

LOG: Final = logging.getLogger("tokenctx")
MAX_OPEN_CALLS: Final = 1024
"""Calls that have begun and not ended; failed ones never end, so the oldest go."""


def tokenizer(model: str) -> Callable[[str], Any]:
    """A tokenizer for `Settings.tokenizer`, TokenCountingHandler and splitters.

    llama-index asks for the length of what it gives only, so that is all there is: the tokens have
    no ids. Raises ValueError for an unknown model.
    """
    count = encoding_for_model(model).count
    return lambda text: range(count(text))


class TokenRecorder(BaseEventHandler):  # type: ignore[misc]  # where llama-index is missing it is Any
    """A handler of events, `get_dispatcher().add_event_handler(TokenRecorder())`: it records chats.

    `estimator` is the one to ask, before a chat or in it. `on_estimate` is called with the estimate
    before each chat. What fails in here is logged once, by its class, and counted in `failures`.
    """

    estimator: Any
    tenant: str | None = None
    on_estimate: Any = None
    failures: int = 0
    _open: OrderedDict[str, tuple[Json, str]] = PrivateAttr(default_factory=OrderedDict)

    def __init__(
        self,
        estimator: HybridTokenEstimator | None = None,
        *,
        tenant: str | None = None,
        on_estimate: Callable[[Estimate], None] | None = None,
    ) -> None:
        chosen = HybridTokenEstimator() if estimator is None else estimator
        super().__init__(estimator=chosen, tenant=tenant, on_estimate=on_estimate)

    @classmethod
    def class_name(cls) -> str:
        """The name that llama-index shows."""
        return "TokenRecorder"

    def handle(self, event: Any, **_: Any) -> None:
        """Estimate a chat when it begins, and record it when it ends."""
        try:
            if isinstance(event, LLMChatStartEvent):
                self._begin(event)
            elif isinstance(event, LLMChatEndEvent):
                self._end(event)
        except Exception as error:  # nothing of ours fails a chat
            self.failures += 1
            if self.failures == 1:  # the class alone: what it says may hold text of a request
                LOG.warning("tokenctx's handler of llama-index raised %s", type(error).__name__)

    def _begin(self, event: Any) -> None:
        given = event.additional_kwargs or {}
        names = ("tools", "tool_choice", "parallel_tool_calls", "response_format", "max_tokens")
        body = {name: given[name] for name in names if given.get(name) is not None}
        body["messages"] = list(event.messages)
        model = event.model_dict.get("model_name") or event.model_dict.get("model")
        call = {"body": body, "model": model, "tenant": self.tenant}
        kind = str(event.model_dict.get("class_name") or "")
        self._open[event.span_id or ""] = call, kind
        while len(self._open) > MAX_OPEN_CALLS:
            self._open.popitem(last=False)
        if self.on_estimate is not None:
            self.on_estimate(self.estimator.estimate(**call))

    def _end(self, event: Any) -> None:
        call, kind = self._open.pop(event.span_id or "", (None, ""))
        response = event.response
        if call is not None and response is not None:
            usage = getattr(response.raw, "usage", None) or response.raw
            usage = told(usage, response.raw, call, self.estimator, kind) or usage
            self.estimator.record(usage=usage, reply=response.message, **call)
