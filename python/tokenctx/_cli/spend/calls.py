"""Calls in rows of logs, recordings, transcripts and vendors' batch files: what each was billed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tokenctx._cli.evaluation.log_bills import ToldBill
from tokenctx._cli.evaluation.logs import (
    ANSWER,
    CONVERSATION,
    DAMAGE,
    MARKS,
    NO_LOG,
    NO_REQUEST,
    REQUEST,
    TENANT,
    LogReader,
    Skipped,
    created,
    entries_in,
    loaded,
    logged_call,
    own_name,
    time_of,
)
from tokenctx._cli.evaluation.recordings import Json, billed_part, message_list
from tokenctx._cli.evaluation.transcripts.thread import member, objects
from tokenctx._core import _WRAPPERS
from tokenctx.usage.normal import Usage, normalize_usage

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Mapping

BATCH: Final = "batch"
"""The service tier of files that a vendor answers within a day, at half the price."""
NO_USAGE: Final = "no usage"
FAILED: Final = "a call that failed"
LATEST_SECONDS: Final = 1 << 33
"""In the year 2242: a later time, and 0, is none."""
OK, BAD_REQUEST = 200, 400
SYSTEMS: Final = ("system", "instructions", "systemInstruction", "system_instruction", "tools")
"""Fields of a body that stand before its messages."""
_SORTED: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


@dataclass(slots=True)
class Call:
    """One call.

    Attributes:
        usage: What was billed; None for a request that has no answer yet.
        body: The request, where the row has it.
        at: Seconds since the epoch; None where the row does not say.
        tier: The service tier, where the kind of file tells it.
        key: A short name of the call, by which another line of it is known; 0 without one.
        place: A short name of its id alone, by which calls inside of it are known.
        above: That of the call that has it inside.
        batch_key: A short name by which the request and the result of a batch find each other.
        is_cut: True where the history was visibly cut or summarised before it.
    """

    usage: Usage | None
    model: str = ""
    provider: str = ""
    body: Json | None = None
    at: float | None = None
    tenant: str = ""
    conversation: str = ""
    tier: str | None = None
    key: int = 0
    place: int = 0
    above: int = 0
    batch_key: int = 0
    is_cut: bool | None = None
    tools: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.at is not None and not 0 < self.at < LATEST_SECONDS:
            self.at = None

    def tool_names(self) -> list[str]:
        """The tools whose results the call sends first, as far as its rows tell."""
        return list(self.tools) or ([] if self.body is None else list(_answered_tools(self.body)))

    def chain(self) -> list[int] | None:
        """A hash of what stands before the messages, then one of each message; None without."""
        messages = [] if self.body is None else message_list(self.body)
        if self.body is None or not messages:
            return None
        head = [self.body.get(name) for name in SYSTEMS]
        first = next((at for at, it in enumerate(messages) if not _is_system(it)), 0)
        head += messages[:first]
        try:
            return [digest(it) for it in (head, *messages[first:])]
        except RecursionError:  # deeper than Python goes
            return None


def _is_system(message: object) -> bool:
    return isinstance(message, dict) and message.get("role") in {"system", "developer"}


def digest(value: object) -> int:
    """A hash of 63 bits of what of a value is billed, whatever the order of its members.

    A message of one text has that of the text, whether it stands in a part or not.
    """
    text = _only_text(value)
    return name(_SORTED.encode(billed_part(value)) if text is None else text)


def _only_text(message: object) -> str | None:
    """Role and text of a message that has nothing else, which most have; None for others."""
    if not isinstance(message, dict) or message.keys() != {"role", "content"}:
        return None
    content = message["content"]
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
        part = content[0]
        is_text = part.get("type") == "text" and part.keys() <= {"type", "text", "cache_control"}
        content = part.get("text") if is_text else None
    return f"{message['role']}\0{content}" if isinstance(content, str) else None


def name(*parts: object) -> int:
    """A short name of an id, of 63 bits, so that millions of them can be compared."""
    text = "\0".join(map(str, parts)).encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1 or 1


def calls_in_row(row: Json, log: LogReader, left_out: Counter[str]) -> Iterator[Call]:
    """The calls in one row of a file; what is none is counted in `left_out`, by its reason."""
    for entry in entries_in(row):
        whole: Json | None = entry
        try:
            for read in (_steps, _turns, _batched, _recorded, _asked):
                found = read(entry)
                if found is not None:
                    yield from found
                    break
            else:
                whole = log.joined(entry)
                if whole is not None:
                    yield from _logged(whole)
        except Skipped as reason:
            alone = _answered(whole) if whole and str(reason) in {NO_LOG, NO_REQUEST} else None
            if alone is None:
                left_out[str(reason)] += 1
            else:
                yield alone
        except DAMAGE as error:
            left_out[f"a field of the wrong type ({type(error).__name__})"] += 1


def calls_of_halves(log: LogReader, left_out: Counter[str]) -> Iterator[Call]:
    """The calls of which rows that were read might have had more: an answer, or a request alone."""
    for half in log.halves():
        body = loaded(_first(half, *REQUEST))
        at = time_of(half)
        if (alone := _answered(half)) is not None:
            yield alone
        elif isinstance(body, dict):
            model = str(body.get("model") or half.get("model") or "")
            yield Call(None, model, body=body, at=at)
        else:
            left_out[NO_USAGE] += 1


NO_HEAD: Final = digest([None] * len(SYSTEMS))
"""The first hash of a chain of a call without system prompt and tools."""


def _member(value: object, field: str) -> object:
    return value.get(field) if isinstance(value, dict) else None


# ------------------------------------------------------------------------------------- recordings


def _steps(row: Json) -> Iterator[Call] | None:
    """A conversation as steps, which a transcript is read as."""
    return steps_calls(row) if isinstance(row.get("steps"), list) else None


def steps_calls(line: Json, tenant: str = "") -> Iterator[Call]:
    """The calls of a conversation of recorded steps."""
    own = str(line.get("id") or "")
    names: dict[str, str] = {}
    for number, step in enumerate(line["steps"]):
        usage = normalize_usage(step.get("usage")) or normalize_usage(
            {it: step.get(it) for it in ("input_tokens", "output_tokens")}
        )
        yield Call(
            usage,
            str(step.get("model") or ""),
            at=created(step.get("created")),
            conversation=own,
            tenant=tenant or str(line.get("group") or ""),
            key=name(own, number),
            is_cut=bool(step.get("compacted")),
            tools=tuple(_tools(step, names)),
        )


def _tools(step: Json, names: dict[str, str]) -> Iterator[str]:
    """The tools whose results a step sends."""
    for message in step.get("new_messages") or ():
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict) and part.get("type") == "tool_result":
                yield names.get(str(part.get("tool_use_id")), "")
    reply = step.get("reply") or {}
    content = reply.get("content") if isinstance(reply, dict) else None
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") == "tool_use":
            names[str(part.get("id"))] = str(part.get("name") or "")


def _answered_tools(body: Json) -> Iterator[str]:
    """The tools whose results stand behind the last answer of the model."""
    names: dict[str, str] = {}
    found: list[tuple[str, str]] = []
    for message in objects(message_list(body)):
        blocks = objects(message.get("content") or message.get("parts"))
        calls = objects(message.get("tool_calls"))
        asked = [it for it in (*blocks, message) if it.get("type") in {"tool_use", "function_call"}]
        if message.get("role") in {"assistant", "model"} or asked or calls:
            found = []
        for it in (*calls, *asked):
            about = member(it, "function") or it
            names[str(it.get("call_id") or it.get("id"))] = str(about.get("name") or "")
        for it in (*blocks, message):
            own = it.get("tool_use_id") or it.get("tool_call_id") or it.get("call_id")
            answer = it.get("functionResponse")
            if isinstance(answer, dict):
                found.append(("", str(answer.get("name") or "")))
            elif own and it not in asked:
                found.append((str(own), ""))
    yield from (names.get(own, name) for own, name in found)


def _turns(row: Json) -> Iterator[Call] | None:
    """A session: turns with a request or new messages each."""
    turns = row.get("turns")
    if not isinstance(turns, list):
        return None
    own = str(row.get("id") or name(json.dumps(row)))
    model, provider = str(row.get("model") or ""), str(row.get("provider") or "")
    return (
        Call(
            normalize_usage(turn.get("usage")),
            str((turn.get("request") or {}).get("model") or model),
            provider,
            turn.get("request"),
            at=created(turn.get("created")),
            conversation=own,
            key=name(own, number),
            is_cut=None if turn.get("request") else False,
        )
        for number, turn in enumerate(turns)
    )


def _recorded(row: Json) -> Iterator[Call] | None:
    """A recorded call in the form that `tokenctx eval` reads."""
    if not isinstance(row.get("request"), dict) or "input_tokens" not in row:
        return None
    own = row.get("id")
    usage = normalize_usage(row.get("usage")) or normalize_usage(
        {it: row.get(it) for it in ("input_tokens", "output_tokens")}
    )
    if str(row.get("api")).endswith("count_tokens"):
        raise Skipped("a count of tokens, which costs nothing")
    key = name(own, row.get("turn")) if own else 0
    if not own and usage is not None:
        bill = ToldBill(usage.input_tokens, usage.output_tokens, usage=usage)
        told = own_name(row, row["request"], bill, _first(row, *ANSWER[:-1], "reply"))
        key = name(told, row.get("turn")) if told else 0
    return iter(
        [
            Call(
                usage,
                str(row.get("model") or row.get("request_model") or ""),
                str(row.get("provider") or ""),
                row["request"],
                time_of(row),
                str(row.get("tenant") or row.get("group") or ""),
                str(row.get("conversation_id") or ""),
                key=key,
            )
        ]
    )


ASKS: Final = ("messages", "contents", "input", "prompt")
ANSWERED: Final = MARKS | {"usage", "response", "usageMetadata", "type", "prompt_tokens"}


def _asked(row: Json) -> Iterator[Call] | None:
    """A request, which nobody has answered yet."""
    is_request = any(row.get(it) for it in ASKS) and ANSWERED.isdisjoint(row)
    return iter([Call(None, str(row.get("model") or ""), body=row)]) if is_request else None


# ------------------------------------------------------------------------------------ batch files


def _batched(row: Json) -> Iterator[Call] | None:
    """A line of a vendor's batch file, or of the file of its results."""
    if isinstance(row.get("requests"), list):
        wrapped = [it for it in row["requests"] if isinstance(it, dict)]
        return (call for it in wrapped for call in _batched(it) or ())
    own = next((row[it] for it in ("custom_id", "recordId", "key") if row.get(it)), None)
    is_vertex = "processed_time" in row
    if own is None and not is_vertex:
        return None
    answer = _result(row)
    request = next((row[it] for it in _WRAPPERS if isinstance(row.get(it), dict)), None)
    if answer is None and request is None:
        return None
    batch_key = name(own) if own is not None else 0
    answered = answer or {}
    host = "bedrock" if "recordId" in row else ""
    model = answered.get("model") or answered.get("modelVersion") or (request or {}).get("model")
    return iter(
        [
            Call(
                None if answer is None else normalize_usage(answer) or Usage(),
                _of_bedrock(str(model or "")) if host else str(model or ""),
                host,
                request,
                created(_first(answered, "created", "created_at", "createTime")),
                tenant=str(_metadata(request).get("user_id") or ""),
                tier=BATCH,
                batch_key=batch_key,
                key=batch_key if answer is not None else 0,
            )
        ]
    )


def _of_bedrock(model: str) -> str:
    """The id of a model in Bedrock, whose answers call Claude as its maker does."""
    if not model.startswith("claude"):
        return model
    return f"anthropic.{model}{'-v1:0' if model[-8:].isdigit() else ''}"


def _result(row: Json) -> Json | None:
    """The answer in a line of results. Raises Skipped for a request that failed."""
    if "modelInput" in row and "modelOutput" not in row and "error" in row:
        raise Skipped(FAILED)
    result = row.get("result")
    if isinstance(result, dict):
        if result.get("type") != "succeeded":
            raise Skipped(FAILED)
        message: Json = result.get("message") or {}
        return message
    for field in ("response", "modelOutput"):
        answer = row.get(field)
        if not isinstance(answer, dict):
            continue
        body = answer.get("body")
        if isinstance(body, dict):
            if (answer.get("status_code") or OK) >= BAD_REQUEST:
                raise Skipped(FAILED)
            return body
        return answer
    if row.get("error") or row.get("status"):
        raise Skipped(FAILED)
    return None


def _metadata(request: Json | None) -> Mapping[str, Any]:
    found = (request or {}).get("metadata")
    return found if isinstance(found, dict) else {}


def _first(row: Mapping[str, Any], *names: str) -> Any:
    return next((row[it] for it in names if row.get(it) is not None), None)


# ------------------------------------------------------------------------------------------- logs


def _logged(row: Json) -> Iterator[Call]:
    found = logged_call(row, _made) if not _is_flat(row) else {"call": _flat(row)}
    call: Call = found["call"]
    trace, parent = found.get("trace") or "", found.get("parent")
    own = found.get("own")
    if own:
        call.place = name(trace, own)
        body = call.body and json.dumps(call.body)
        call.key = name(call.place, body or call.at)
    if parent:
        call.above = name(trace, parent)
    yield call


def _made(
    body: Json,
    bill: ToldBill | None,
    *,
    is_chat: bool = True,  # noqa: ARG001  # embeddings cost too
    tenant: object = None,
    **more: Any,
) -> Json:
    """The call in a row of a log, for `logged_call`."""
    call = Call(
        None if bill is None else _judged(body, bill),
        str(more.get("model") or ""),
        str(more.get("provider") or ""),
        body or None,
        more.get("created"),
        str(tenant or ""),
        str(more.get("conversation_id") or ""),
    )
    if call.usage is None:
        raise Skipped(NO_USAGE)
    return {"call": call, "own": more.get("id")}


def _judged(body: Json, bill: ToldBill) -> Usage | None:
    """The usage of a bill, by a count of the request where names alone decide its input."""
    usage = bill.usage
    if usage is None or bill.other_input_tokens is None or not body:
        return usage
    from tokenctx._estimate.estimator import HybridTokenEstimator

    judged = bill.judged(HybridTokenEstimator().count_request(body).tokens)
    if judged == bill.input_tokens:
        return usage
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    return (
        replace(bill, input_tokens=judged).with_parts(read, written, usage.reasoning_tokens).usage
    )


def _answered(row: Json) -> Call | None:
    """The call that an answer tells without its request, or a usage with the model beside it."""
    found = loaded(_first(row, *ANSWER[:-1]))
    answer = found if isinstance(found, dict) else row
    usage = normalize_usage(answer) or normalize_usage(loaded(row.get("usage")))
    if usage is None:
        return None
    bill = ToldBill(usage.input_tokens, usage.output_tokens, usage=usage)
    own = row.get("id") or own_name(row, None, bill, answer)
    return Call(
        usage,
        str(_first(row, "model", "modelVersion") or _first(answer, "model", "modelVersion") or ""),
        str(_first(row, "provider", "custom_llm_provider") or ""),
        None,
        time_of(row, answer),
        str(_first(row, *TENANT) or ""),
        str(_first(row, *CONVERSATION) or ""),
        key=name(own) if own else 0,
    )


FLAT: Final = ("input_tokens", "prompt_tokens", "inputTokens", "promptTokenCount")
"""One of these is in a row that is a usage itself, as in a table of one's own."""
NESTED: Final = ("request", "body", "messages", "call_type", "attributes", "type", "schemaType")


def _is_flat(row: Json) -> bool:
    return any(it in row for it in FLAT) and not any(row.get(it) for it in NESTED)


def _flat(row: Json) -> Call:
    """A row of a table: a usage with the model and more beside it."""
    return Call(
        normalize_usage({it: loaded(value) for it, value in row.items() if value is not None}),
        str(row.get("model") or ""),
        str(row.get("provider") or ""),
        None,
        time_of(row) or created(row.get("day")),
        str(_first(row, "tenant", "team", "customer", "user", "user_id") or ""),
        str(_first(row, "conversation_id", "session_id", "conversation") or ""),
        key=name(row["id"]) if row.get("id") else 0,
    )
