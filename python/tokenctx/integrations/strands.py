"""strands: models that count by themselves, and record what they were billed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tokenctx import HybridTokenEstimator, UsageReader
from tokenctx.integrations._life import Calls

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tokenctx.money.budgets import Budgets

Json = dict[str, Any]


OUTPUT: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")


class TokenCounts:
    """A mix-in for models of strands: `class Model(TokenCounts, OpenAIModel): ...`.

    `count_tokens` counts as the model does, in place of strands' characters, and `stream` records
    each bill, so that later counts begin with it. `token_estimator` and `token_tenant` may be set
    on the class or on an instance; by default the models of a class share one estimator. With
    `token_budgets` each call is reserved in them and booked; without room it raises BudgetError
    and is not sent. Have the client retry nothing then (`max_retries=0` of OpenAI's), or what a
    lost attempt was billed is seen by nobody.
    """

    token_estimator: HybridTokenEstimator
    token_tenant: str | None = None
    token_budgets: Budgets | None = None
    _token_calls: Calls | None = None

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
            self._calls.failed(error)
            return int(await super().count_tokens(*given))  # type: ignore[misc]

    async def stream(
        self, messages: Any, tool_specs: Any = None, system_prompt: Any = None, **options: Any
    ) -> AsyncGenerator[Any, None]:
        """The model's events as they are; the bill is recorded when they have ended."""
        reader, events, sent = UsageReader(), 0, list(messages)
        blocks = options.get("system_prompt_content")
        life = await self._calls.abegin(
            lambda: self._call(sent, tool_specs, system_prompt, blocks), *self._asked()
        )
        inner = super().stream(messages, tool_specs, system_prompt, **options)  # type: ignore[misc]
        try:
            async for event in inner:
                reader.feed(event)
                events += 1
                yield event
            reader.finish()
            await life.aanswered(reader, self, texts=reader.texts)
        except BaseException as error:
            life.failed(error, reader.texts, events)
            raise
        finally:
            await inner.aclose()

    @property
    def _calls(self) -> Calls:
        """All calls of this model, begun anew where its estimator or budgets change."""
        calls, given = self._token_calls, (self.token_estimator, self.token_budgets)
        if calls is None or (calls.estimator, calls.budgets) != given:
            calls = Calls("counts for strands", given[0], None, given[1])
            self._token_calls = calls
        return calls

    def _asked(self) -> tuple[int | None, int]:
        """The most output that its configuration asks for, and how many answers."""
        config: Json = self.get_config()  # type: ignore[attr-defined]
        where = (config, config.get("params") or {})
        most = [it.get(name) for it in where for name in OUTPUT]
        counts = [it.get("n") for it in where]
        asked = max((it for it in most if isinstance(it, int)), default=None)
        return asked, max((it for it in counts if isinstance(it, int)), default=1)

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
