"""haystack: a token counter of its protocol."""

from __future__ import annotations

from typing import Any

from haystack import default_from_dict, default_to_dict
from haystack.tools import flatten_tools_or_toolsets

from tokenctx import HybridTokenEstimator


class TokenctxCounter:
    """A `TokenCounter`, for whatever of haystack takes one.

    It counts as `model` does. With an estimator that records, what was billed counts as it was.
    The estimator is not part of `to_dict`: it belongs to a process.
    """

    def __init__(
        self,
        model: str = "gpt-4o",
        estimator: HybridTokenEstimator | None = None,
        tenant: str | None = None,
    ) -> None:
        self.model = model
        self.tenant = tenant
        self.estimator = HybridTokenEstimator() if estimator is None else estimator

    def count(self, messages: list[Any], tools: Any = None) -> int:
        """Input tokens of the messages, with the tools if given; 0 without either.

        Raises RequestError for a message that cannot be read.
        """
        given = flatten_tools_or_toolsets(tools)
        if not messages and not given:
            return 0
        body = {"messages": list(messages), "tools": given}
        return self.estimator.estimate(body, model=self.model, tenant=self.tenant).tokens

    def to_dict(self) -> dict[str, Any]:
        """The settings, as haystack serializes them."""
        made: dict[str, Any] = default_to_dict(self, model=self.model, tenant=self.tenant)
        return made

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TokenctxCounter:
        """A counter of these settings, with an estimator of its own."""
        made: TokenctxCounter = default_from_dict(cls, data)
        return made
