"""The largest misses, with the part of each estimate that is likely off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tokenctx._cli.evaluation.evaluation import score_of
from tokenctx._cli.evaluation.recordings import message_list, truncated
from tokenctx._results.parts import MEDIA, kinds_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tokenctx._cli.evaluation.evaluation import RecordedCall
    from tokenctx._estimate.estimator import HybridTokenEstimator
    from tokenctx._results.estimates import Estimate

Json = dict[str, Any]

TOOL_FIELDS: Final = ("tools", "functions", "toolConfig", "tool_choice", "function_call")
SCHEMA_FIELDS: Final = (
    *("response_format", "output_format", "output_config", "outputConfig", "text", "format"),
    *("responseSchema", "responseJsonSchema", "responseMimeType"),
)
OPTION_FIELDS: Final = ("generationConfig", "config")
"""Where the schema of the output is, if it is not a field of the body."""
MEDIA_TYPES: Final = frozenset(name for name, kind in kinds_of("request").items() if kind in MEDIA)
MEDIA_FIELDS: Final = (*MEDIA_TYPES, "source")
CANDIDATES: Final = (
    ("images", "media"),
    ("files", "media"),
    ("audio/video", "media"),
    ("structured output", "schema"),
    ("tools", "tools"),
)
"""The part that makes a stratum what it is, and is the hardest to count."""


@dataclass(frozen=True, slots=True)
class Miss:
    """One call whose estimate is far off.

    Attributes:
        parts: Tokens of the estimate by part: `system` (with framing and options), `tools`,
            `schema`, `messages`, `media`. Each is what leaving it out takes off.
        suspect: The part that is most likely off: the special one of the stratum, unless more was
            estimated too much than it has.
    """

    call: RecordedCall
    estimate: Estimate
    parts: dict[str, int]

    @property
    def percent(self) -> float:
        """The error in percent of what was billed."""
        return score_of(self.call, self.estimate).percent

    @property
    def suspect(self) -> str:
        too_much = self.estimate.tokens - self.call.billed_tokens
        special = (part for stratum, part in CANDIDATES if stratum == self.call.stratum)
        part = next(special, "messages")
        return part if too_much <= self.parts[part] else max(self.parts, key=self.parts.__getitem__)

    def as_json(self) -> Json:
        """The miss as JSON values, without text of the call."""
        call, estimate = self.call, self.estimate
        return {
            "line": call.line,
            "id": call.id,
            "group": call.group,
            "provider": call.provider,
            "api": call.api,
            "model": call.model,
            "stratum": call.stratum,
            "billed_tokens": call.billed_tokens,
            "tokens": estimate.tokens,
            "low": estimate.low,
            "high": estimate.high,
            "error_percent": round(self.percent, 3),
            "profile": estimate.profile,
            "quality": estimate.quality,
            "assumptions": list(estimate.assumptions),
            "parts": self.parts,
            "suspect": self.suspect,
        }


def misses(
    estimator: HybridTokenEstimator, worst: Iterable[tuple[RecordedCall, Estimate]]
) -> list[Miss]:
    """Each call with the parts of its estimate, counted again without each of them."""
    return [Miss(call, estimate, _parts(estimator, call)) for call, estimate in worst]


def _parts(estimator: HybridTokenEstimator, call: RecordedCall) -> dict[str, int]:
    def tokens(body: Json) -> int:
        return estimator.count_request(body, **call.names).tokens

    body = call.body
    whole = tokens(body)
    parts = {
        "tools": whole - tokens(_without(body, TOOL_FIELDS)),
        "schema": whole - tokens(_without(body, SCHEMA_FIELDS)),
        "media": whole - tokens(truncated(body, _without_media(message_list(body)))),
        "messages": whole - tokens(truncated(body, [])),
    }
    parts["messages"] -= parts["media"]
    return {"system": whole - sum(parts.values()), **parts}


def _without(body: Json, names: tuple[str, ...]) -> Json:
    kept = {name: value for name, value in body.items() if name not in names}
    for name in OPTION_FIELDS:
        if isinstance(options := kept.get(name), dict):
            kept[name] = {key: value for key, value in options.items() if key not in names}
    return kept


def _without_media(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_media(item) for item in value if not _is_media(item)]
    if isinstance(value, dict):
        return {name: _without_media(item) for name, item in value.items()}
    return value


def _is_media(item: object) -> bool:
    if not isinstance(item, dict):
        return False
    is_typed = str(item.get("type")) in MEDIA_TYPES
    return is_typed or any(isinstance(item.get(name), dict) for name in MEDIA_FIELDS)
