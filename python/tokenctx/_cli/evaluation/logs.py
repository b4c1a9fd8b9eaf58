"""Logs of other programs as recorded calls: who keeps logs has recordings already.

Read are JSON lines, a JSON array, or an object with a list in `data`, of

- **litellm**: rows of its spend logs (with prompts stored) and payloads of its logging callbacks;
- **langfuse**: exported observations that are generations, alone or in their traces, and batches of
  its ingestion;
- **OpenTelemetry**: spans as OTLP JSON or one object each, with the content attributes of the GenAI
  conventions (`gen_ai.input.messages`), those before them (`gen_ai.prompt.0.role`), or those of
  OpenInference (`llm.input_messages.0.message.role`);
- **providers**: logs of invocations in Bedrock, and any object that holds a request with its
  response or usage (`request` or `body`, `response` or `usage`);
- recorded calls as `tokenctx eval` reads them, unchanged.

What a log does not hold is not made up: a line without messages, without usage, or with truncated
text is left out, and says why. So is what would be counted twice: an earlier line of a call, and
what adds up the calls in it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, OrderedDict
from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from tokenctx._cli.evaluation.log_bills import ToldBill, flat_bill, told_bill
from tokenctx._cli.evaluation.recordings import (
    API_DIALECTS,
    Json,
    RecordingError,
    message_list,
    relation,
)
from tokenctx._cli.evaluation.spans import span_call, spans_in
from tokenctx._cli.files import UNREADABLE, FileError, is_parquet, lines_of, opened
from tokenctx._results.tables import read_json
from tokenctx.usage.normal import normalize_usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    Maker = Callable[..., Json]
    """Makes something of a request, its bill and what else a row of a log says of a call."""

APIS: Final = {dialect: api for api, dialect in API_DIALECTS.items()}
CONVERSATIONS: Final = 1000
"""Conversations whose last request is kept while a log is read, to tell what continues it."""
WAITING: Final = 64
"""Calls that are kept back, since a later line of theirs may come; halves that wait for the other.
"""
NESTED: Final = 8
"""Levels of observations inside of observations that are read."""
CHATS: Final = ("completion", "responses", "anthropic_messages", "generate_content")
"""In the names of litellm's kinds of calls that are chats; others are embeddings, images, speech.
"""
OBSERVATIONS: Final = frozenset(
    {"SPAN", "EVENT", "AGENT", "TOOL", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL"}
)
"""Kinds of langfuse's observations that are no call of a model; they may have the sum of some."""
REQUEST: Final = ("request", "request_body", "requestBody", "body")
ANSWER: Final = ("response", "response_body", "responseBody", "usage")
MARKS: Final = frozenset(
    {"call_type", "attributes", "schemaType", "input_tokens", "usageDetails", "observations"}
)
"""Members of rows that have a whole call, or none."""
NO_LOG: Final = "no log that is known here"
NO_INPUT: Final = "no input tokens"
NO_REQUEST: Final = "an answer whose request is not in this log"
SUM: Final = "the sum of other calls in this log"
TRACE: Final = "a trace, which adds up its calls"
REPEATED: Final = "an earlier line of a call that a later one has"
TRUNCATED: Final = ("litellm_truncated", "[TRUNCATED]", "...truncated")
"""The marks that loggers leave in the place of text that was too long for them."""
TENANT: Final = (
    *("tenant", "team_alias", "user_api_key_team_alias", "team_id", "customer", "end_user"),
    *("user", "user_id", "userId"),
)
"""Who a call was made for, in the words of those who keep logs."""
CONVERSATION: Final = ("conversation_id", "session_id")
TIMES: Final = (
    *("created", "created_at", "timestamp", "startTime", "start_time", "time", "at", "date"),
    *("datetime", "ts", "@timestamp", "createTime"),
)
"""When a call was made, in the words of those who keep logs."""
EARLIEST_SECONDS: Final = 1_400_000_000
"""In 2014: what is less is no time of a call, but how long it took."""
LEAST_ANSWER_CHARS: Final = 100
"""A shorter answer, with the names of its fields, may be given twice to the same request."""
UNSAID: Final = frozenset({"usage", "usageMetadata", "model", "modelVersion", "object", "type"})
"""Members of an answer that are the same for many."""
OPTIONS: Final = (
    *("tools", "tool_choice", "response_format", "functions", "function_call", "thinking"),
    *("system", "instructions", "output_config", "reasoning", "parallel_tool_calls"),
)
"""Members of logged parameters that are billed; the others are left out."""


class Skipped(Exception):  # noqa: N818  # no error: a line that is left out
    """Why a line of a log is no recorded call, without text of it."""


class LogReader:
    """The recorded calls in a log, in the form that `tokenctx eval` reads.

    A call that is there twice is read once: its last line counts. Ids are remembered for as long as
    `seen` is, so that exports that overlap can share one.

    Attributes:
        skipped: Lines that are no recorded calls, by reason, after they were read.
    """

    def __init__(self, path: Path, seen: set[int] | None = None) -> None:
        self.path = path
        self.skipped: Counter[str] = Counter()
        self._seen: set[int] = set() if seen is None else seen
        self._waiting: OrderedDict[int, Json] = OrderedDict()
        self._halves: OrderedDict[int, Json] = OrderedDict()
        self._last: OrderedDict[str, Json] = OrderedDict()
        self._sums: set[int] = set()

    def __iter__(self) -> Iterator[Json]:
        """Raises RecordingError for a file that is no JSON, OSError for one that cannot be read."""
        self._sums = set(_sums(self.path))
        for number, row in enumerate(_rows(self.path), 1):
            for entry in entries_in(row):
                whole = self.joined(entry)
                if whole is not None and (call := self._read(whole)) is not None:
                    call.setdefault("group", self.path.name)
                    yield from self._waited(call, number)
        for half in self.halves():
            if (call := self._read(half)) is not None:
                call.setdefault("group", self.path.name)
                yield from self._waited(call, 0)
        while self._waiting:
            yield from self._told()

    def halves(self) -> list[Json]:
        """The rows that still wait for the rest of their calls; they wait no longer."""
        found = list(self._halves.values())
        self._halves.clear()
        return found

    def joined(self, entry: Json) -> Json | None:
        """`entry`, or the call that it and others are parts of; None while more may come.

        Two halves with the same side of a call are of two calls, or the same half again: the
        earlier one is handed out as it is.
        """
        if (found := _part(entry)) is None:
            return entry
        name, part = found
        before = self._halves.pop(name, {})
        part = {key: it for key, it in part.items() if it not in (None, "", {}, [])}
        if "type" not in part and _sides(before) & _sides(part):
            self._halves[name] = part
            return before
        whole = {**before, **part}
        if "type" not in whole and len(_sides(whole)) == SIDES:
            return whole
        self._halves[name] = whole
        return None if len(self._halves) <= WAITING else self._halves.popitem(last=False)[1]

    def _waited(self, call: Json, number: int) -> Iterator[Json]:
        """The calls for which no later line is awaited, once `call` waits, too.

        A line is of the same call if it has its id and its request: some logs have one id for all
        calls of a session.
        """
        trace, own = call.pop("trace", ""), call.get("id")
        call.pop("parent", None)
        call.setdefault("id", str(number))
        place = _name(trace, own) if own else 0
        name = _name(place or number, json.dumps(call["request"]))
        if place in self._sums:
            self.skipped[SUM] += 1
            return
        if place and name in self._seen:
            self.skipped[REPEATED] += 1
            if name not in self._waiting:
                return
        self._seen.add(name)
        self._waiting[name] = call
        if len(self._waiting) > WAITING:
            yield from self._told()

    def _told(self) -> Iterator[Json]:
        _, call = self._waiting.popitem(last=False)
        self._continue(call)
        yield call

    def _read(self, entry: Json) -> Json | None:
        try:
            return logged_call(entry, recorded)
        except Skipped as reason:
            self.skipped[str(reason)] += 1
        except DAMAGE as error:
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
    if is_parquet(path):
        for line, _ in lines_of(path):
            yield from _listed(read_json(line)[0])
        return
    with opened(path) as (file, _):
        first = file.readline()
        value, fault = read_json(first)
        if fault or isinstance(value, list) or not first.endswith(b"\n"):
            value, fault = read_json(first + file.read())
            if fault and not first.strip():
                raise RecordingError(f"{path.name} is empty")
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


def entries_in(row: Json, depth: int = 0) -> list[Json]:
    """The rows in a row: spans of an export, events of a batch, observations of a trace.

    The row itself if it is none of these. Observations may have others inside of them, as a tree is
    exported; what a trace says of its session and user holds for each.
    """
    if spans := spans_in(row):
        return spans
    if isinstance(row.get("batch"), list):
        return [it for it in row["batch"] if isinstance(it, dict)] or [row]
    inside = row.get("observations")
    inside = [it for it in inside if isinstance(it, dict)] if isinstance(inside, list) else []
    if not inside or depth == NESTED:
        return [row]
    told = {name: row[name] for name in OF_TRACE if row.get(name)}
    if "type" in row:
        told["parentObservationId"] = row.get("id")
    found = [it for one in inside for it in entries_in({**told, **one}, depth + 1)]
    return [{**row, "observations": None}, *found] if "type" in row else found


OF_TRACE: Final = ("sessionId", "userId", "session_id", "user_id")


def _sums(path: Path) -> Iterator[int]:
    """The names of all that has a billed call inside of it, wherever in the file the two are.

    The rest of the reading keeps little of a file in mind, so this is a reading of its own; it ends
    where the file is broken, and the other one says that.
    """
    log = LogReader(path)
    with suppress(RecordingError, FileError, *UNREADABLE):
        for entry in (it for row in _rows(path) for it in entries_in(row)):
            yield from _above(log.joined(entry))
    for half in log.halves():
        yield from _above(half)


def _above(row: Json | None) -> Iterator[int]:
    """The name of what has the billed call of a row inside of it, if anything has."""
    if row is not None and not PARENTS.isdisjoint(row):
        with suppress(Skipped, *DAMAGE):
            found = logged_call(row, _billed)
            if found.get("parent"):
                yield _name(found.get("trace", ""), found["parent"])


PARENTS: Final = frozenset(
    {"parentSpanId", "parent_span_id", "parent_id", "parentObservationId", "parent_observation_id"}
)
DAMAGE: Final = (AttributeError, KeyError, TypeError, ValueError, RecursionError)
"""Raised for a row with fields of other types than its writer gives them."""


def _billed(body: Json, bill: ToldBill | None, *, is_chat: bool = True, **more: Any) -> Json:
    """Nothing but that it is a billed call. Raises Skipped for what is none."""
    del body, more
    if bill is None or bill.input_tokens <= 0 or not is_chat:
        raise Skipped(NO_INPUT)
    return {}


def _part(row: Json) -> tuple[int, Json] | None:
    """The id of a call and what a row has of it, if the rest is in another row."""
    body, kind = row.get("body"), row.get("type")
    if isinstance(kind, str) and "-" in kind and isinstance(body, dict):
        told = {"type": "GENERATION"} if kind.startswith("generation-") else {}
        return _name("event", body.get("id")), {**body, **told}
    if kind == "GENERATION" or kind in OBSERVATIONS:
        return None
    own = _first(row, "custom_id", "request_id", "id")
    is_half = isinstance(own, str) and len(_sides(row)) == 1 and MARKS.isdisjoint(row)
    return (_name("half", own), row) if is_half else None


SIDES: Final = 2


def _sides(row: Json) -> set[str]:
    """Of a call, what is in a row: its request, its answer."""
    return {names[0] for names in (REQUEST, ANSWER) if _first(row, *names) is not None}


def _name(*parts: object) -> int:
    """A short name of an id, so that many of them can be remembered."""
    text = "\0".join(map(str, parts)).encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def logged_call(row: Json, made: Maker) -> Json:
    """The call in one row of a log of any shape, as `made` makes it. Raises Skipped."""
    if is_recorded(row):
        return dict(row)
    for read in READERS:
        found = read(row, made)
        if found is not None:
            return found
    raise Skipped(NO_LOG)


def is_recorded(row: Json) -> bool:
    """True for a recorded call in the form that `tokenctx eval` reads."""
    return isinstance(row.get("request"), dict) and type(row.get("input_tokens")) is int


def recorded(
    body: Json,
    bill: ToldBill | None,
    *,
    is_chat: bool = True,
    tenant: object = None,  # noqa: ARG001  # who pays is nothing to an estimate
    **more: Any,
) -> Json:
    """A recorded call. Raises Skipped for what cannot be one."""
    from tokenctx._estimate.estimator import HybridTokenEstimator

    if not is_chat:
        raise Skipped("a call of litellm that is no chat")
    if not (message_list(body) or body.get("input") or body.get("prompt")):
        raise Skipped("no messages: the log was kept without content")
    if bill is None or bill.input_tokens <= 0:
        raise Skipped(NO_INPUT)
    if any(mark in json.dumps(body, ensure_ascii=False) for mark in TRUNCATED):
        raise Skipped("text that the logger has truncated")
    count = HybridTokenEstimator().count_request(body, model=more.get("model") or None)
    input_tokens = bill.judged(count.tokens)
    return {
        "request": body,
        "usage": {"input_tokens": input_tokens, "output_tokens": bill.output_tokens},
        "input_tokens": input_tokens,
        "output_tokens": bill.output_tokens,
        "api": APIS.get(count.dialect, ""),
        **{name: value for name, value in more.items() if value not in {None, ""}},
    }


def normal_bill(usage: object) -> ToldBill | None:
    """The bill of a call in the words of a provider; of the last one, where it took several."""
    found = normalize_usage(usage)
    if found is None:
        return None
    last = found.last_call or found
    return ToldBill(last.input_tokens, last.output_tokens, usage=found)


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


def _litellm(row: Json, made: Maker) -> Json | None:
    if "call_type" not in row or "prompt_tokens" not in row:
        return None
    if row.get("status") == "failure":
        raise Skipped("a call that failed")
    if row.get("cache_hit") in {True, "True"}:
        raise Skipped("an answer from the gateway's own cache, which nobody billed")
    kind = str(row["call_type"])
    details = loaded(row.get("metadata"))
    details = details if isinstance(details, dict) else {}
    if details.get("client_disconnected"):
        raise Skipped("a bill that litellm counted by itself, since the client hung up")
    stored = loaded(row.get("proxy_server_request"))
    body = stored if isinstance(stored, dict) and _asks(stored) else None
    if body is None:
        field = "input" if "responses" in kind else "prompt" if "text" in kind else "messages"
        given = loaded(row.get("messages"))
        body = _with_options({field: given} if given else {}, row.get("model_parameters"))
    return made(
        body,
        _litellm_bill(row, details),
        is_chat=any(it in kind for it in CHATS),
        tenant=_first(row, *TENANT) or _first(details, *TENANT),
        id=_first(row, "request_id", "id"),
        model=_first(row, "model", "model_group"),
        provider=row.get("custom_llm_provider"),
        created=created(row.get("startTime")),
        conversation_id=_first(row, "session_id", "trace_id"),
    )


def _asks(body: Json) -> bool:
    return bool(message_list(body) or body.get("input") or body.get("prompt"))


def _litellm_bill(row: Json, details: Json) -> ToldBill | None:
    """The provider's usage where the row has it; else its sums, with what was cached beside."""
    if (bill := normal_bill(loaded(details.get("usage_object")))) is not None:
        return bill
    cached = loaded(details.get("additional_usage_values"))
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    numbers = {name: row[name] for name in names if row.get(name) is not None}
    parts = cached if isinstance(cached, dict) else {}
    kept = {name: it for name, it in parts.items() if name.startswith("cache_")}
    whole = normal_bill(numbers)
    if whole is None or not kept:
        return whole
    found = flat_bill({**kept, **numbers})
    # Since 2025 its prompt tokens hold what was cached; before, they did not.
    is_sure = found is None or found.other_input_tokens is None
    if is_sure or found is None or found.usage is None:
        return found
    read, written = found.usage.cache_read_tokens, found.usage.cache_write_tokens
    return ToldBill(whole.input_tokens, whole.output_tokens).with_parts(read, written, 0)


def _langfuse(row: Json, made: Maker) -> Json | None:
    kind = row.get("type")
    if isinstance(row.get("observations"), list):
        raise Skipped(TRACE)
    if kind in OBSERVATIONS or (isinstance(kind, str) and kind.endswith("-create")):
        raise Skipped("an observation that is no generation")
    if kind != "GENERATION":
        return None
    if row.get("level") == "ERROR":
        raise Skipped("a call that failed")
    given = loaded(row.get("input"))
    is_body = isinstance(given, dict) and bool(message_list(given))
    body = given if is_body else {"messages": given} if given else {}
    parameters = _first(row, "modelParameters", "model_parameters")
    details = loaded(_first(row, "usageDetails", "usage_details", "usage")) or {}
    if str(details.get("unit") or "TOKENS") != "TOKENS":
        raise Skipped("a usage that is not in tokens")
    has_parts = any(isinstance(it, dict) for it in details.values())
    trace = _first(row, "traceId", "trace_id")
    return {
        **made(
            _with_options(body, parameters),
            normal_bill(details) if has_parts else flat_bill(details),
            tenant=_first(row, *TENANT),
            id=row.get("id"),
            model=_first(row, "model", "providedModelName", "provided_model_name"),
            created=created(_first(row, "startTime", "start_time")),
            conversation_id=_first(row, "sessionId", "session_id") or trace,
        ),
        "parent": _first(row, "parentObservationId", "parent_observation_id"),
    }


def _bedrock(row: Json, made: Maker) -> Json | None:
    if row.get("schemaType") != "ModelInvocationLog":
        return None
    if row.get("errorCode"):
        raise Skipped("a call that failed")
    body, answer = row["input"].get("inputBodyJson"), row.get("output") or {}
    body = body if isinstance(body, dict) else {}
    sums = {"prompt_tokens": row["input"].get("inputTokenCount")}
    sums["completion_tokens"] = answer.get("outputTokenCount")
    return made(
        body,
        normal_bill(answer.get("outputBodyJson")) or normal_bill(sums),
        tenant=(row.get("identity") or {}).get("arn"),
        id=row.get("requestId"),
        model=row.get("modelId"),
        provider="bedrock",
        created=created(row.get("timestamp")),
    )


def _exchange(row: Json, made: Maker) -> Json | None:
    """A request with its response, whatever the names of the two."""
    body, answer = loaded(_first(row, *REQUEST)), loaded(_first(row, *ANSWER[:-1]))
    if isinstance(body, dict) and isinstance(loaded(body.get("body")), dict):
        body = loaded(body["body"])
    if isinstance(answer, dict) and isinstance(loaded(answer.get("body")), dict):
        answer = loaded(answer["body"])
    billed = loaded(row.get("usage")) or answer
    if billed is None and isinstance(body, dict):
        raise Skipped("a request whose answer is not in this log")
    if not isinstance(body, dict) and isinstance(billed, dict):
        raise Skipped(NO_REQUEST)
    if not isinstance(body, dict):
        return None
    answered = answer.get("model") if isinstance(answer, dict) else None
    bill, at = normal_bill(billed), time_of(row, answer)
    return made(
        body,
        bill,
        tenant=_first(row, *TENANT),
        id=_first(row, "id", "request_id", "custom_id") or own_name(row, body, bill, answer),
        model=_first(row, "model") or body.get("model") or answered,
        provider=_first(row, "provider"),
        created=at,
        conversation_id=_first(row, *CONVERSATION),
    )


def time_of(*rows: object) -> float | None:
    """Seconds since the epoch that a row says, or else its answer: the first that is a time.

    A duration under the same name is none.
    """
    told = (row.get(it) for row in rows if isinstance(row, dict) for it in TIMES)
    times = (created(it) for it in told if it is not None)
    return next((it for it in times if it is not None and it > EARLIEST_SECONDS), None)


def own_name(row: Json, body: object, bill: ToldBill | None, answer: object) -> str | None:
    """The name of a call whose row has no id: that of its answer, or what there is to tell it.

    Request, usage, time and answer are the same in two copies of a call. None without time or a
    long answer, and without request and answer: two rows that are equal may be two calls.
    """
    own = answer.get("id") if isinstance(answer, dict) else None
    if isinstance(own, str) and own:
        return own
    at = time_of(row, answer)
    said = ""
    if isinstance(answer, dict):
        text = {name: it for name, it in answer.items() if name not in UNSAID}
        said = json.dumps(text, sort_keys=True) if text else ""
    if (at is None and len(said) < LEAST_ANSWER_CHARS) or not (body or said):
        return None
    usage = None if bill is None else repr(bill.usage)
    names = [str(_first(row, *of)) for of in (TENANT, CONVERSATION, ("model",))]
    return f"{_name(json.dumps([body, usage, at, said, names], sort_keys=True)):016x}"


def _span(row: Json, made: Maker) -> Json | None:
    found = span_call(row)
    if found is None:
        return None
    if found.left_out:
        raise Skipped(found.left_out)
    of = found.numbers.get
    bill = None
    if "input" in found.numbers or "cache_read" in found.numbers:
        cached = of("cache_read", 0) + of("cache_write", 0)
        bill = told_bill(
            *(of("input", 0), cached, of("output", 0), of("reasoning", 0), of("total")),
            is_beside=False,
        )
        bill = bill.with_parts(of("cache_read", 0), of("cache_write", 0), of("reasoning", 0))
    details = {**found.details, "created": created(found.details["created"])}
    trace, parent = details.pop("trace"), details.pop("parent")
    return {**made(found.body, bill, **details), "trace": trace, "parent": parent}


READERS: Final[tuple[Callable[[Json, Maker], Json | None], ...]] = (
    *(_litellm, _langfuse, _bedrock, _span, _exchange),
)
