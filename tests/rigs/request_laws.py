"""Laws that hold for every request, whatever it holds.

What is read is held by recorded cases (`tests/data/requests`), what is counted by recorded answers
(`tests/data/answers`) and bills; the laws hold where nobody has looked.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any, Final

import tokenctx
from answers import extended
from reference import bounds, digest, document
from tokenctx import _core
from tokenctx._estimate.profiles import bundled_profiles
from tokenctx._results.tables import read_table

SECRET = b"test"
KEY = digest.derive_key(SECRET)
FAMILY = "family"
KNOWN_TOKENS = 7
VENDORS_CALL = re.compile(
    "|".join(
        f'"type": "{row["type"]}"'
        for dialect in read_table("parts")["dialects"].values()
        for row in dialect["parts"]
        if row.get("by_vendor") and "type" in row
    )
)
"""A part that says that the vendor ran a tool."""


def as_value(body: Any) -> Any:
    """`body`, which would be read as JSON text if it were a string."""
    return [body] if isinstance(body, str) else body


def refusal(read: Any, body: Any) -> tuple[str, Any]:
    try:
        return "", read(body)
    except tokenctx.Error as error:
        return type(error).__name__, None


def one_document(body: Any) -> None:
    """The core and the interpreter's own JSON module see the same document in `body`."""

    def plain(body: Any) -> tuple[str, list[str]]:
        anomalies = document.Anomalies()
        return document.canonical(document.load(body, anomalies)), sorted(anomalies)

    def core(body: Any) -> tuple[str, list[str]]:
        return _core._json_canonical(body), sorted(_core._json_anomalies(body))

    assert refusal(core, body) == refusal(plain, body)


def view(body: Any, **told: Any) -> dict[str, Any]:
    """What is read of `body`, as plain JSON values; `told` are the caller's model and dialect."""
    read: dict[str, Any] = json.loads(_core._request_view(body, **told))
    return read


def uncertain(
    estimator: Any, body: Any, model: Any = None, dialect: Any = None, provider: Any = None
) -> tuple[bounds.Scope, tuple[tuple[str, int], ...]]:
    """What the bounds of an estimate for `body` are made from: scope, tokens of each stratum."""
    call = _core.CallContext(model, dialect, provider)
    scope, parts = estimator._engine.uncertain(body, call)
    return scope, tuple(parts)


def one_view(body: Any) -> dict[str, Any]:
    """What is read of `body`; it is the same from text, bytes, objects and objects with bytes."""
    text, read = json.dumps(body), _core._request_view(body)
    assert read == _core._request_view(text) == _core._request_view(text.encode())
    assert view(with_bytes(body)) == json.loads(read)
    return view(body)


def with_bytes(value: Any) -> Any:
    """`value` with media as bytes, as SDKs hold them, where their text is base64."""
    if isinstance(value, list):
        return [with_bytes(item) for item in value]
    if not isinstance(value, dict):
        return value
    made = {key: with_bytes(item) for key, item in value.items()}
    for key in media_fields(made):
        try:
            made[key] = base64.b64decode(made[key], validate=True)
        except ValueError:  # noqa: PERF203  # one or two fields
            continue
    return made


def media_fields(value: dict[str, Any]) -> list[str]:
    """The fields of `value` that SDKs hold as bytes: of sources of Anthropic, Gemini, Converse.

    In any other place such a text is text, whatever is in it.
    """
    is_source = value.get("type") == "base64" or value.keys() == {"mimeType", "data"}
    fields = (["data"] if is_source else []) + (["bytes"] if value.keys() == {"bytes"} else [])
    return [key for key in fields if isinstance(value.get(key), str) and value[key]]


def turned(value: Any) -> Any:
    """`value` with the keys of every object in the opposite order."""
    if isinstance(value, dict):
        return {key: turned(item) for key, item in reversed(value.items())}
    return [turned(item) for item in value] if isinstance(value, list) else value


MOST_STATE = max(
    tokens
    for about in read_table("fields")["dialects"].values()
    for tokens in about.get("request", {}).get("state", {}).values()
)
"""What a field that names something at the provider may add to the bounds."""

EDITS = {
    *("cleared_tool_uses", "cleared_thinking", "kept_thinking"),
    *("server_compaction", "server_truncation"),
}
"""What a provider does to a request widens the bounds; the reference knows nothing of it."""


NO_MESSAGE_SLACK = 4


DOUBTFUL: Final = ('"additional_tools"', '"tool_search', '"namespace"')
GUESSED: Final = ('{"task_budget"', '{"input_examples"')
DOUBT: Final = 24
"""How far what too few projects have shown may be off, for each of it."""


class Laws:
    """An estimator that forgets before each request."""

    def __init__(self, method: Any = "profile") -> None:
        self.method = method
        self.estimator = tokenctx.HybridTokenEstimator(
            method=method, learning=False, secret=SECRET, clock=lambda: 0.0
        )

    def check(self, body: Any, reply: Any, billed: tuple[int, int, int]) -> None:
        """All laws: of reading, counting, recording and identity."""
        read = one_view(body)
        self.identity(body, read)
        cold = self.counting(body, read)
        self.recording(body, read, cold, reply, billed)

    def identity(self, body: Any, read: dict[str, Any]) -> None:
        """A message is known by the digest of what was read, whatever the order of keys is."""
        tracker = tokenctx.ConversationStateTracker(secret=SECRET)
        known = tracker.record_actual(body, FAMILY, KNOWN_TOKENS)
        digests = tuple(digest.message_digest(KEY, one).hex() for one in read["messages"])
        assert (known is None) == (not digests)
        if known is None:
            return
        assert known.message_hashes == digests
        other = tracker.record_actual(turned(body), FAMILY, KNOWN_TOKENS)
        assert other is not None
        assert other.message_hashes == digests
        found = tracker.lookup(json.dumps(body), FAMILY)
        assert (found.type, found.known_tokens) == ("exact", KNOWN_TOKENS)
        assert tracker.lookup(body, "another family").type == "none"

    def counting(self, body: Any, read: dict[str, Any]) -> Any:
        """The estimate of what nobody knows is the count, which is the sum of its parts."""
        self.estimator.reset()
        text = json.dumps(body)
        estimate, count = self.estimator.estimate(text), self.estimator.count_request(body)
        assert estimate == self.estimator.estimate(body)
        assert count == self.estimator.count_request(text)
        assert (estimate.source, estimate.known_tokens) == ("estimated", 0)
        assert estimate.tokens == count.tokens == count.context_tokens + sum(count.message_tokens)
        assert len(count.message_tokens) == len(read["messages"])
        is_cut = "server_truncation" in estimate.assumptions  # which a count of the whole is not
        for name in (
            "dialect",
            "model",
            "profile",
            *(() if is_cut else ("assumptions", "quality")),
        ):
            assert getattr(estimate, name) == getattr(count, name), name
        unsure = set(read["assumptions"]) - {"builtin_tool"}  # what a profile has the price of
        assert unsure <= set(count.assumptions)
        if self.method == "profile":
            assert estimate.low <= estimate.tokens <= estimate.high
            if EDITS.isdisjoint(estimate.assumptions):
                low, high = self.bounds(body, read, count)
                most = estimate.limits.max_input_tokens or estimate.limits.window_tokens
                if most and isinstance(body, dict) and body.get("truncation") == "auto":
                    high = min(high, most)
                if not read["messages"]:  # which no provider bills
                    low, high = max(0, low - NO_MESSAGE_SLACK), high + NO_MESSAGE_SLACK
                doubt = DOUBT * sum(text.count(kind) for kind in DOUBTFUL)
                doubt += sum(
                    80 + len(it) for it in read.get("unread", ()) if it.startswith(GUESSED)
                )
                assert max(0, low - doubt) <= estimate.low <= low
                assert doubt or estimate.low == low
                kept = MOST_STATE if "server_state" in estimate.assumptions else 0
                searched = len(text) + 256 if "tool_search" in estimate.assumptions else 0
                high_most = high + doubt + searched + self.unread_bytes(read)
                most = max(high_most, estimate.tokens + kept)
                assert high <= estimate.high <= most
        return estimate

    @staticmethod
    def unread_bytes(read: dict[str, Any]) -> int:
        """The bytes of fields that nobody counts, which no count of their text exceeds by much."""
        texts = [text for it in (read, *read["messages"]) for text in it.get("unread", ())]
        return sum(100 + 2 * len(text.encode()) for text in texts)

    def bounds(self, body: Any, read: dict[str, Any], count: Any) -> tuple[int, int]:
        """The bounds of the parts that the request has, by the rows for the profile, added up."""
        is_known = "unknown_model" not in count.assumptions
        provider = bundled_profiles()[count.profile]["provider"]
        names = bounds.row_names(count.profile, provider, is_known_model=is_known)
        scope, parts = uncertain(self.estimator, body)
        assert scope == "whole"
        assert [name for name, _ in parts] == bounds.strata_of(read, 0, count.assumptions)
        rows = [(tokens, bounds.row_of(names, scope, name)) for name, tokens in parts]
        return bounds.interval(count.tokens, rows)

    def recording(
        self, body: Any, read: dict[str, Any], cold: Any, reply: Any, billed: tuple[int, int, int]
    ) -> None:
        """What is recorded is exact, for its tenant; what comes after it is counted on top."""
        tokens, output_tokens, reasoning_tokens = billed
        usage = {
            "prompt_tokens": tokens,
            "completion_tokens": output_tokens,
            "completion_tokens_details": {"reasoning_tokens": reasoning_tokens},
        }
        is_recorded = self.estimator.record(body, usage, reply=reply)
        assert is_recorded == (tokens > 0 and bool(read["messages"]))
        if not is_recorded:
            return
        assert self.estimator.estimate(body, tenant="other") == cold
        known = self.estimator.estimate(json.dumps(body))
        assert (known.source, known.assumptions) == ("exact", ())
        assert known.low == known.tokens == known.known_tokens == known.high == tokens
        self.growth(extended(body, reply))

    def growth(self, body: Any) -> None:
        """A delta is what is known and the count of each new message."""
        estimate, count = self.estimator.estimate(body), self.estimator.count_request(body)
        assert estimate.low <= estimate.tokens <= estimate.high
        assert estimate.tokens == estimate.known_tokens + estimate.estimated_tokens
        new = len(count.message_tokens) - estimate.new_message_count
        if estimate.source == "delta":
            counted = sum(count.message_tokens[new:])
            if VENDORS_CALL.search(json.dumps(body)):  # earlier rounds of its answer are not new
                assert estimate.estimated_tokens <= counted
            else:
                assert estimate.estimated_tokens == counted
