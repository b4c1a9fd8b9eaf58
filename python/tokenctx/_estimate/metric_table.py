"""The one table of metrics: names, units, labels and buckets, for every exporter.

A name is OpenTelemetry's; Prometheus' is made of it as its own translation does. No label holds
what a client wrote: a model is a name of our tables, or `other`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

OTHER: Final = "other"
"""The label of what is in no table, or beyond `MAX_SERIES`."""
MAX_SERIES: Final = 200
"""Sets of labels of one metric; later ones are counted as `other`."""
SECONDS: Final = tuple(
    number * unit for unit in (1e-5, 1e-4, 1e-3, 1e-2, 1e-1) for number in (1, 2.5, 5)
)
"""From 10 us, a known short request, to half a second, which no loop should wait."""
TOKENS: Final = (128, 512, 2_048, 8_192, 32_768, 65_536, 131_072, 262_144, 524_288, 1_048_576)
SHARES: Final = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)
ERRORS: Final = (0.0, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
"""Of the bill; 2 and 5 % are those of docs/accuracy.md, 20 % is `AccuracyEvent.is_warning`."""

_SUFFIXES: Final = {"s": "_seconds", "By": "_bytes"}


@dataclass(frozen=True, slots=True)
class Instrument:
    """A metric: what it counts or measures, in which unit, and by which labels.

    Attributes:
        unit: As in UCUM: `s`, `By`, `1` for a share; `{token}` and the like count things.
        buckets: Upper bounds of a histogram, in the unit.
        is_observed: Read from the estimators when somebody looks, not counted as it happens.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    about: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    is_observed: bool = False

    @property
    def prometheus_name(self) -> str:
        """The name without the endings `_total`, `_bucket`, ..., which the text form adds."""
        suffix = _SUFFIXES.get(self.unit, "_ratio" if self.unit == "1" else "")
        return self.name.replace(".", "_") + suffix

    @property
    def prometheus_labels(self) -> tuple[str, ...]:
        """The labels, with `_` for the dots."""
        return tuple(label.replace(".", "_") for label in self.labels)


ESTIMATES: Final = Instrument(
    "tokenctx.estimates",
    "counter",
    "{request}",
    "Estimates, by where the answer is from and how its counted part was counted",
    ("source", "quality"),
)
ESTIMATE_SECONDS: Final = Instrument(
    "tokenctx.estimate.duration",
    "histogram",
    "s",
    "Time of an estimate, with the wait for a shared store",
    buckets=SECONDS,
)
RECORD_SECONDS: Final = Instrument(
    "tokenctx.record.duration", "histogram", "s", "Time of a record", buckets=SECONDS
)
REQUEST_TOKENS: Final = Instrument(
    "tokenctx.request.tokens",
    "histogram",
    "{token}",
    "Estimated input tokens of a request",
    buckets=TOKENS,
)
KNOWN_SHARE: Final = Instrument(
    "tokenctx.known.share",
    "histogram",
    "1",
    "Share of the tokens of a request that were billed before",
    buckets=SHARES,
)
ESTIMATED_TOKENS: Final = Instrument(
    "tokenctx.estimated.tokens",
    "counter",
    "{token}",
    "Input tokens of all estimates, recorded or not",
    ("source",),
)
BILLED_TOKENS: Final = Instrument(
    "tokenctx.billed.tokens",
    "counter",
    "{token}",
    "Input tokens that recorded calls were billed for",
    ("profile", "model"),
)
FORETOLD_TOKENS: Final = Instrument(
    "tokenctx.billed.estimated_tokens",
    "counter",
    "{token}",
    "Input tokens that the same calls were estimated at",
    ("profile", "model"),
)
ERROR: Final = Instrument(
    "tokenctx.estimate.error",
    "histogram",
    "1",
    "Distance of the estimate of a recorded call from its bill, as a share of the bill",
    ("profile", "model", "direction"),
    ERRORS,
)
RECORDS: Final = Instrument(
    "tokenctx.records",
    "counter",
    "{call}",
    "Calls that were given to record: recorded, or why not",
    ("outcome",),
)
REPLIES: Final = Instrument(
    "tokenctx.replies.lost",
    "counter",
    "{call}",
    "Calls that were recorded without the reply they came with, by reason",
    ("reason",),
)
DOUBTED: Final = Instrument(
    "tokenctx.bills.doubted",
    "counter",
    "{call}",
    "Recorded bills that are not believed in full or were not read in full, by reason",
    ("reason",),
)
REFUSED: Final = Instrument(
    "tokenctx.refused",
    "counter",
    "{request}",
    "Requests that were refused for their size before they were sent",
    ("dialect",),
)
BUDGETED: Final = Instrument(
    "tokenctx.budget.requests",
    "counter",
    "{request}",
    "Requests under budgets: granted, refused, unlimited, would_refuse; and by which budget",
    ("outcome", "budget"),
)
MISSED: Final = Instrument(
    "tokenctx.calls.missed",
    "counter",
    "{call}",
    "Calls through a gateway that were not counted or not recorded, and why, as in its statistics",
    ("outcome",),
)
FAILURES: Final = Instrument(
    "tokenctx.failures",
    "counter",
    "{failure}",
    "Failures of ours, by stage; the call of the user went on",
    ("stage",),
)
KNOWN_PREFIXES: Final = Instrument(
    "tokenctx.known.prefixes", "gauge", "{prefix}", "Prefixes that are known now", is_observed=True
)
KNOWN_BYTES: Final = Instrument(
    "tokenctx.known.size", "gauge", "By", "Memory of the known prefixes", is_observed=True
)
CAPACITY_BYTES: Final = Instrument(
    "tokenctx.known.capacity", "gauge", "By", "Memory they may take", is_observed=True
)
LOOKUPS: Final = Instrument(
    "tokenctx.known.lookups",
    "counter",
    "{lookup}",
    "Searches for a known prefix, by record too",
    ("result",),
    is_observed=True,
)
DROPPED: Final = Instrument(
    "tokenctx.known.dropped",
    "counter",
    "{prefix}",
    "Prefixes that went: superseded, evicted for want of room, expired",
    ("why",),
    is_observed=True,
)
STORE_UP: Final = Instrument(
    "tokenctx.store.up",
    "gauge",
    "{store}",
    "1 while the shared store is used, 0 while it is stopped; absent without one",
    ("operation",),
    is_observed=True,
)
STORE_STOPPED: Final = Instrument(
    "tokenctx.store.stopped",
    "gauge",
    "s",
    "How long the shared store has been stopped, with the last failure; 0 while it is used",
    ("operation", "reason"),
    is_observed=True,
)
STORE_VALUES: Final = Instrument(
    "tokenctx.store.values",
    "counter",
    "{value}",
    "Values of the shared store: taken, refused, written, dropped; and lookups that were late",
    ("outcome",),
    is_observed=True,
)
DRIFT: Final = Instrument(
    "tokenctx.drift",
    "gauge",
    "1",
    "Last change in how a provider counts, as a share of the count; absent where there was none",
    ("profile", "provider"),
    is_observed=True,
)
TABLE_AGE: Final = Instrument(
    "tokenctx.table.age",
    "gauge",
    "s",
    "Time since a table of the package was made",
    ("table",),
    is_observed=True,
)

# What was billed, in the words of docs/gen-ai/gen-ai-token-metrics.md of the GenAI semantic
# conventions, as of 2026-11. They have the status Development, and have moved three times.
GENAI_BY: Final = ("gen_ai.operation.name", "gen_ai.provider.name")
_GENAI_USAGE: Final = "gen_ai.client.inference.usage"
GENAI_USAGE: Final = {
    "input_tokens": "Billed input tokens, cached ones included",
    "output_tokens": "Billed output tokens, reasoning included",
    "cache_read.input_tokens": "Billed input tokens that were read from a cache",
    "cache_write.input_tokens": "Billed input tokens that were written to a cache",
    "reasoning.output_tokens": "Billed output tokens of reasoning",
}
GENAI_COUNTERS: Final = {
    name: Instrument(
        f"{_GENAI_USAGE}.{name}", "counter", "{token}", about, (*GENAI_BY, "gen_ai.token.modality")
    )
    for name, about in GENAI_USAGE.items()
}
GENAI_HISTOGRAMS: Final = {
    name: Instrument(
        f"gen_ai.client.inference.operation.{name}",
        "histogram",
        "{token}",
        f"{GENAI_USAGE[name]}, of one call",
        GENAI_BY,
        TOKENS,
    )
    for name in ("input_tokens", "output_tokens")
}
GENAI: Final = (*GENAI_COUNTERS.values(), *GENAI_HISTOGRAMS.values())
GENAI_PROVIDERS: Final = {
    "openai": "openai",
    "azure": "azure.ai.openai",
    "anthropic": "anthropic",
    "bedrock": "aws.bedrock",
    "vertex": "gcp.vertex_ai",
    "google": "gcp.gemini",
    "mistral": "mistral_ai",
    "deepseek": "deepseek",
    "xai": "x_ai",
    "groq": "groq",
    "cohere": "cohere",
    "moonshot": "moonshot_ai",
    "perplexity": "perplexity",
}
"""Our words for who answers, and the conventions' own."""
GENAI_DIALECTS: Final = {
    "anthropic": "anthropic",
    "gemini": "gcp.gemini",
    "gemini-interactions": "gcp.gemini",
    "bedrock-converse": "aws.bedrock",
}
"""The vendor whose telemetry it is where no provider is named; else OpenAI."""

INSTRUMENTS: Final = (
    *(ESTIMATES, ESTIMATE_SECONDS, RECORD_SECONDS, REQUEST_TOKENS, KNOWN_SHARE),
    *(ESTIMATED_TOKENS, BILLED_TOKENS, FORETOLD_TOKENS, ERROR, RECORDS, DOUBTED, REPLIES),
    *(REFUSED, BUDGETED, MISSED, FAILURES, KNOWN_PREFIXES, KNOWN_BYTES, CAPACITY_BYTES, LOOKUPS),
    DROPPED,
    *(STORE_UP, STORE_STOPPED, STORE_VALUES, DRIFT, TABLE_AGE),
    *GENAI,
)
