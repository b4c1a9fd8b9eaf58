"""The words of the RFCs for an estimator: a thin front of its own methods, for who knows those."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tokenctx._estimate.arguments import model_name

if TYPE_CHECKING:
    from tokenctx._estimate.calibration import Calibration
    from tokenctx._results.estimates import Estimate


class RfcNames:
    """What RFC 006 and RFC 029 call it; each says what to call else."""

    _calibration: Calibration
    _method: str
    metrics: Any
    _answer: Any
    _call: Any
    _estimated: Any
    count_request: Any
    record: Any

    def estimate_conversation(self, messages: object, model: object) -> Estimate:
        """The input tokens of a list of messages, without system prompt and tools (RFC 029).

        `model` is a name, or an object or mapping with `family`, `id` or `name`.
        """
        name = model_name(model)
        began = 0.0 if self.metrics is None else time.perf_counter()
        estimate = self._estimated({"messages": messages}, self._call(name))
        if self._calibration.is_extended(estimate):
            count = self.count_request({"messages": messages}, model=name)
            estimate = self._calibration.extended(estimate, count.message_tokens)
        answer: Estimate = self._answer(estimate, began)
        return answer

    def record_actual(self, messages: object, model: object, actual_tokens: int) -> bool:
        """True if the billed input tokens of a list of messages are known from now on (RFC 029)."""
        is_known: bool = self.record({"messages": messages}, actual_tokens, model=model_name(model))
        return is_known

    def estimate_message(self, message: object, model: object) -> int:
        """Tokens of one message with its framing."""
        count = self.count_request({"messages": [message]}, model=model_name(model))
        tokens: int = count.message_tokens[0]
        return tokens

    def calibrate(
        self, actual_input_tokens: int, message_count: int, estimated_tokens: int
    ) -> float:
        """The correction factor of the characters method after one more billed call (RFC 006).

        It is an exponential average of actual over estimated tokens, 0.7 old and 0.3 new, and
        multiplies full counts. As in the RFC, a conversation of more than `message_count` messages
        is taken to extend this one, by its length alone: calibrate with one conversation at a
        time, or use `record_actual`, which knows them apart. Counts below 1 change nothing. Raises
        ValueError for the other methods, which need no correction.
        """
        if self._method != "characters":
            raise ValueError(
                f"method is {self._method!r}; only 'characters' is calibrated, use record() instead"
            )
        return self._calibration.update(actual_input_tokens, message_count, estimated_tokens)
