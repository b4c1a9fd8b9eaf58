"""strands: models that count by themselves, and record what they were billed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from tokenctx import HybridTokenEstimator, UsageReader
from tokenctx.integrations._provenance import told

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

Json = dict[str, Any]

LOG: Final = logging.getLogger("tokenctx")


class TokenCounts:
    """A mix-in for models of strands: `class Model(TokenCounts, OpenAIModel): ...`.

    `count_tokens` counts as the model does, in place of strands' characters, and `stream` records
    each bill, so that later counts begin with it. `token_estimator` and `token_tenant` may be set
    on the class or on an instance; by default the models of a class share one estimator.
    """

    token_estimator: HybridTokenEstimator
    token_tenant: str | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not hasattr(cls, "token_estimator"):
            cls.token_estimator = HybridTokenEstimator()

    async def count_tokens(
        self,
        messages: Any,
        tool_specs: Any = None,
        system_prompt: str | None = None,
        system_prompt_content: Any = None,
    ) -> int:
        """The input tokens of a request; strands' own estimate if it cannot be read."""
        given = (messages, tool_specs, system_prompt, system_prompt_content)
        try:
            call = self._call(*given)
            return (await self.token_estimator.aestimate(**call)).tokens
        except Exception as error:  # nothing of ours fails an agent
            _failed(error)
            return int(await super().count_tokens(*given))  # type: ignore[misc]

    async def stream(
        self, messages: Any, tool_specs: Any = None, system_prompt: Any = None, **options: Any
    ) -> AsyncGenerator[Any, None]:
        """The model's events as they are; the bill is recorded when they have ended."""
        reader, sent = UsageReader(), list(messages)
        inner = super().stream(messages, tool_specs, system_prompt, **options)  # type: ignore[misc]
        async for event in inner:
            try:
                reader.feed(event)
            except Exception as error:
                _failed(error)
            yield event
        try:
            reader.finish()
            call = self._call(sent, tool_specs, system_prompt, options.get("system_prompt_content"))
            usage = told(reader.usage, self, call, self.token_estimator)
            await self.token_estimator.arecord(usage=usage or reader, **call)
        except Exception as error:
            _failed(error)

    def _call(self, messages: Any, tools: Any, system: str | None, blocks: Any) -> Json:
        """The request in Converse's form, which strands speaks whatever its provider does."""
        body: Json = {"messages": list(messages)}
        if blocks or system:
            body["system"] = list(blocks) if blocks else [{"text": system}]
        if tools:
            body["toolConfig"] = {"tools": [{"toolSpec": tool} for tool in tools]}
        config: Json = self.get_config()  # type: ignore[attr-defined]
        model = config.get("model_id")
        names: Json = {"model": model, "dialect": "bedrock-converse", "tenant": self.token_tenant}
        return {"body": body, **names}


def _failed(error: Exception) -> None:
    """The class alone: what it says may hold text of a request."""
    LOG.warning("tokenctx's counts for strands raised %s", type(error).__name__)
