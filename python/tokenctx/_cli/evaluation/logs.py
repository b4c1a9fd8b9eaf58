"""Logs of other programs as recorded calls: who keeps logs has recordings already.

Read are JSON lines, a JSON array, or an object with a list in `data`, of

- **litellm**: rows of its spend logs (with prompts stored) and payloads of its logging callbacks;
- **langfuse**: exported observations that are generations;
- **OpenTelemetry**: spans as OTLP JSON or one object each, with the content attributes of the GenAI
  conventions (`gen_ai.input.messages`) or those before them (`gen_ai.prompt.0.role`);
- **providers**: logs of invocations in Bedrock, and any object that holds a request with its
  response or usage (`request` or `body`, `response` or `usage`);
- recorded calls as `tokenctx eval` reads them, unchanged.

What a log does not hold is not made up: a line without messages, without usage, or with truncated
text is left out, and says why.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter, OrderedDict
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from tokenctx._cli.evaluation.recordings import (
    API_DIALECTS,
    Json,
    RecordingError,
    message_list,
    relation,
)
from tokenctx._cli.evaluation.spans import span_call, spans_in
from tokenctx._results.tables import read_json
from tokenctx.usage.normal import normalize_usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tokenctx.usage.normal import Usage

APIS: Final = {dialect: api for api, dialect in API_DIALECTS.items()}
CONVERSATIONS: Final = 1000
"""Conversations whose last request is kept while a log is read, to tell what continues it."""
TRUNCATED: Final = ("litellm_truncated", "[TRUNCATED]", "...truncated")
"""The marks that loggers leave in the place of text that was too long for them."""
OPTIONS: Final = (
    *("tools", "tool_choice", "response_format", "functions", "function_call", "thinking"),
    *("system", "instructions", "output_config", "reasoning", "parallel_tool_calls"),
)
"""Members of logged parameters that are billed; the others are left out."""


class Skipped(Exception):  # noqa: N818  # no error: a line that is left out
    """Why a line of a log is no recorded call, without text of it."""


class LogReader:
    """The recorded calls in a log, in the form that `tokenctx eval` reads.

    Attributes:
        skipped: Lines that are no recorded calls, by reason, after they were read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.skipped: Counter[str] = Counter()
        self._last: OrderedDict[str, Json] = OrderedDict()

    def __iter__(self) -> Iterator[Json]:
        """Raises RecordingError for a file that is no JSON, OSError for one that cannot be read."""
        for number, row in enumerate(_rows(self.path), 1):
            for entry in spans_in(row) or [row]:
                call = self._read(entry)
                if call is not None:
                    call.setdefault("id", str(number))
                    call.setdefault("group", self.path.name)
                    self._continue(call)
                    yield call

    def _read(self, entry: Json) -> Json | None:
        try:
            return _call(entry)
        except Skipped as reason:
            self.skipped[str(reason)] += 1
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            self.skipped[f"a field of the wrong type ({type(error).__name__})"] += 1
        return None

    def _continue(self, call: Json) -> None:
        """Say what a call continues, if it does."""
        conversation = call.get("conversation_id")
        if not conversation or "prev" in call:
            return
        before = self._last.pop(conversation, None)
        call["turn"] = 1 if before is None else before["turn"] + 1
        kind = relation(before["request"], call["request"]) if before else "first"
        if before is not None and kind != "messages":  # else it is another thread of the session
            call["prev"] = {
                "n_items": len(message_list(before["request"])),
                "input_tokens": before["input_tokens"],
                "output_tokens": before.get("output_tokens") or 0,
                "same_context": kind == "extends",
            }
        self._last[conversation] = call
        if len(self._last) > CONVERSATIONS:
            self._last.popitem(last=False)


def _rows(path: Path) -> Iterator[Json]:
    """The objects of a file: one a line, or all in one array."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        first = file.readline()
        value, fault = read_json(first)
        if fault or isinstance(value, list) or not first.endswith(b"\n"):
            value, fault = read_json(first + file.read())
            if fault:
                raise RecordingError(f"{path.name} is no log: neither JSON lines nor JSON: {fault}")
            yield from _listed(value)
            return
        yield from _listed(value)
        for number, line in enumerate(file, 2):
            if not line.strip():
                continue
            value, fault = read_json(line)
            if fault:
                raise RecordingError(f"{path.name}, line {number}: {fault}")
            yield from _listed(value)


def _listed(value: object) -> Iterator[Json]:
    if isinstance(value, dict) and isinstance(value.get("data"), list) and "request" not in value:
        value = value["data"]
    for row in value if isinstance(value, list) else [value]:
        yield row if isinstance(row, dict) else {}


def _call(row: Json) -> Json:
    """The recorded call in one row of a log of any shape. Raises Skipped."""
    if isinstance(row.get("request"), dict) and type(row.get("input_tokens")) is int:
        return dict(row)
    for read in READERS:
        found = read(row)
        if found is not None:
            return found
    raise Skipped("no log that is known here")


def recorded(body: Json, usage: Usage | None, **more: Any) -> Json:
    """A recorded call. Raises Skipped for what cannot be one."""
    from tokenctx._estimate.estimator import HybridTokenEstimator

    if not (message_list(body) or body.get("input") or body.get("prompt")):
        raise Skipped("no messages: the log was kept without content")
    if usage is None or usage.input_tokens <= 0:
        raise Skipped("no input tokens")
    if any(mark in json.dumps(body, ensure_ascii=False) for mark in TRUNCATED):
        raise Skipped("text that the logger has truncated")
    count = HybridTokenEstimator().count_request(body, model=more.get("model") or None)
    return {
        "request": body,
        "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "api": APIS.get(count.dialect, ""),
        **{name: value for name, value in more.items() if value not in {None, ""}},
    }


def loaded(value: object) -> Any:
    """JSON in a text as its value; all else as it is."""
    if isinstance(value, str) and value[:1] in {"{", "["}:
        found, fault = read_json(value.encode(errors="surrogatepass"))
        return value if fault else found
    return value


def created(value: object) -> float | None:
    """Seconds since the epoch of a date, or of seconds to nanoseconds; None for all else."""
    if isinstance(value, str) and value.isdigit():
        value = int(value)
    if isinstance(value, int | float):
        thousands = max(0, (len(str(int(abs(value)))) - 10 + 2) // 3)
        return float(value) / 1000.0**thousands
    try:
        found = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp()


def _first(row: Mapping[str, Any], *names: str) -> Any:
    """The first of the members that is there and not empty."""
    return next((row[name] for name in names if row.get(name) not in (None, "", {}, [])), None)


def _with_options(body: Json, options: object) -> Json:
    found = loaded(options)
    options = found if isinstance(found, dict) else {}
    more = {name: loaded(options[name]) for name in OPTIONS if options.get(name) is not None}
    return {**more, **body}


def _litellm(row: Json) -> Json | None:
    if "call_type" not in row or "prompt_tokens" not in row:
        return None
    if row.get("status") == "failure":
        raise Skipped("a call that failed")
    if row.get("cache_hit") in {True, "True"}:
        raise Skipped("an answer from the gateway's own cache, which nobody billed")
    stored = loaded(row.get("proxy_server_request"))
    body = stored if isinstance(stored, dict) and message_list(stored) else None
    if body is None:
        body = _with_options({"messages": loaded(row.get("messages"))}, row.get("model_parameters"))
    usage = normalize_usage(
        {"prompt_tokens": row["prompt_tokens"], "completion_tokens": row.get("completion_tokens")}
    )
    return recorded(
        body,
        usage,
        id=_first(row, "request_id", "id"),
        model=_first(row, "model", "model_group"),
        provider=row.get("custom_llm_provider"),
        created=created(row.get("startTime")),
        conversation_id=_first(row, "session_id", "trace_id"),
    )


def _langfuse(row: Json) -> Json | None:
    if row.get("type") != "GENERATION" or "input" not in row:
        return None
    given = loaded(row["input"])
    body = given if isinstance(given, dict) and message_list(given) else {"messages": given}
    parameters = _first(row, "modelParameters", "model_parameters")
    details = loaded(_first(row, "usageDetails", "usage_details", "usage")) or {}
    return recorded(
        _with_options(body, parameters),
        _langfuse_usage(details),
        id=row.get("id"),
        model=_first(row, "model", "providedModelName", "provided_model_name"),
        created=created(_first(row, "startTime", "start_time")),
        conversation_id=_first(row, "sessionId", "session_id", "traceId", "trace_id"),
    )


def _langfuse_usage(details: Json) -> Usage | None:
    """Langfuse splits the input: `input` and whatever begins with it or with `cache_`."""
    prefixes = ("input", "cache_read", "cache_creation", "prompt")
    parts = {name: int(number) for name, number in details.items() if type(number) is int}
    inputs = sum(number for name, number in parts.items() if name.startswith(prefixes))
    outputs = sum(
        number for name, number in parts.items() if name.startswith(("output", "completion"))
    )
    return normalize_usage({"prompt_tokens": inputs, "completion_tokens": outputs})


def _bedrock(row: Json) -> Json | None:
    if row.get("schemaType") != "ModelInvocationLog":
        return None
    body, answer = row["input"].get("inputBodyJson"), row.get("output") or {}
    if not isinstance(body, dict):
        raise Skipped("no messages: the log was kept without content")
    billed = answer.get("outputBodyJson")
    usage = normalize_usage(billed) or normalize_usage(
        {
            "prompt_tokens": row["input"].get("inputTokenCount"),
            "completion_tokens": answer.get("outputTokenCount"),
        }
    )
    return recorded(
        body,
        usage,
        id=row.get("requestId"),
        model=row.get("modelId"),
        provider="bedrock",
        created=created(row.get("timestamp")),
    )


def _exchange(row: Json) -> Json | None:
    """A request with its response, whatever the names of the two."""
    body = loaded(_first(row, "request", "request_body", "requestBody", "body"))
    if isinstance(body, dict) and isinstance(loaded(body.get("body")), dict):
        body = loaded(body["body"])
    answer = loaded(_first(row, "response", "response_body", "responseBody"))
    if isinstance(answer, dict) and isinstance(loaded(answer.get("body")), dict):
        answer = loaded(answer["body"])
    billed = loaded(row.get("usage")) or answer
    if not isinstance(body, dict) or billed is None:
        return None
    answered = answer.get("model") if isinstance(answer, dict) else None
    return recorded(
        body,
        normalize_usage(billed),
        id=_first(row, "id", "request_id", "custom_id"),
        model=_first(row, "model") or body.get("model") or answered,
        provider=_first(row, "provider"),
        created=created(_first(row, "created", "created_at", "timestamp")),
        conversation_id=_first(row, "conversation_id", "session_id"),
    )


def _span(row: Json) -> Json | None:
    found = span_call(row)
    if found is None:
        return None
    body, usage, more = found
    return recorded(body, normalize_usage(usage), **more)


READERS: Final[tuple[Callable[[Json], Json | None], ...]] = (
    *(_litellm, _langfuse, _bedrock, _span, _exchange),
)
