"""Rows of what gateways feel: two things to time in turns, and what the ratio must be.

`studies/gateway_speed.py` measures all of them, `test_gateway_speed.py` holds them by floors: both
by `seconds`. What other gates hold, the column "Floor" of README.md names.
"""

from __future__ import annotations

import base64
import copy
import functools
import itertools
import json
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson
from blake3 import blake3

from conversations import agent_conversation, encoded, prose, tool, with_new_turn
from corpora import KINDS, take
from counters import gigatoken_encode, tiktoken_encoding
from test_conversion import DIRECTIONS, conversation
from test_reading import chunks
from tokenctx import (
    ContextWindow,
    ContextWindowScaler,
    HybridTokenEstimator,
    UsageReader,
    convert_messages,
    get_encoding,
    normalize_usage,
)
from tokenctx._core import rank_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Work: TypeAlias = Callable[[], object] | "Timed"

KNOWN_TOKENS = 200_000
SECRET = b"benchmark"
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


@dataclass(frozen=True)
class Timed:
    """Work that tells the seconds that count; what it does besides is not meant."""

    spend: Callable[[], float]


def prepared(call: Callable[[Any], object], prepare: Callable[[], Any]) -> Timed:
    """`call` on what `prepare` has made anew, which is not timed."""

    def spend() -> float:
        given = prepare()
        began = time.thread_time()
        call(given)
        return time.thread_time() - began

    return Timed(spend)


def seconds(work: Work, repeat: int = 1) -> float:
    """Processor time of one call, or what the work tells itself."""
    if isinstance(work, Timed):
        return work.spend()
    began = time.thread_time()
    for _ in range(repeat):
        work()
    return (time.thread_time() - began) / repeat


@dataclass(frozen=True)
class Row:
    """Two things to time in turns; `repeat` runs small ones often, `most_rounds` slow ones seldom.

    `must` and `aim` are the highest ratio of ours to theirs; with `is_speed` the lowest of theirs
    to ours; with `unit_seconds` the most that ours may take, in that unit.
    """

    name: str
    must: float
    aim: float
    ours: Work
    theirs: Work
    repeat: int = 1
    most_rounds: int = 60
    is_speed: bool = False
    unit_seconds: float = 0


def big() -> dict[str, Any]:
    body = agent_conversation(435)
    return {**body, "tools": [*body["tools"], *agent_conversation(4, 5000)["tools"]]}


def small() -> dict[str, Any]:
    random_ = random.Random(5)
    roles = ["user", "assistant"] * 4
    messages = [{"role": role, "content": prose(random_, 280)} for role in roles]
    return {"model": "gpt-4o", "messages": [{"role": "system", "content": "Be brief."}, *messages]}


def estimator() -> HybridTokenEstimator:
    return HybridTokenEstimator(secret=SECRET)


def known(body: Any, then: Any, made: Any = None) -> Work:
    """The estimate of `then` where `body` is known."""
    made = made or estimator()
    made.record(body, KNOWN_TOKENS)
    assert made.estimate(then).source == "delta", "the prefix is not known"
    return functools.partial(made.estimate, then)


def loads() -> Work:
    return functools.partial(orjson.loads, encoded(with_new_turn(big())))


# Rows, a generator for each, so that what they need is made and dropped in turn.


def stream() -> Iterator[Row]:
    texts = chunks()[:-2]

    def read() -> None:
        reader = UsageReader()
        for chunk in texts:
            reader.feed(chunk)

    def scale() -> None:
        for _ in ContextWindowScaler(128_000, 200_000).scale_stream(texts):
            pass

    yield Row("UsageReader.feed / scale_stream, per text event", 3, 1.5, read, scale, 3)


def usage() -> Iterator[Row]:
    text = json.dumps(USAGE).encode()
    parse = functools.partial(json.loads, text)
    mine = functools.partial(normalize_usage, USAGE)
    yield Row("normalize_usage of 3 ints / json.loads", 3, 1.5, mine, parse, 2000)
    from openai.types import CompletionUsage

    mine = functools.partial(normalize_usage, CompletionUsage.model_validate(USAGE))
    yield Row("normalize_usage of CompletionUsage / json.loads", 8, 4, mine, parse, 1000)


def small_record() -> Iterator[Row]:
    body, made = encoded(small()), estimator()
    made.record(body, USAGE)
    estimate = functools.partial(made.estimate, body)
    record = functools.partial(made.record, body, USAGE)
    yield Row("record(usage) of 2.5 KB / its known estimate", 1.5, 1, record, estimate, 300)


def growing() -> Iterator[bytes]:
    """The body, and each of its later turns, which are short."""
    body, random_ = big(), random.Random(9)
    while True:
        yield encoded(body)
        said = {"role": "user", "content": prose(random_, 60)}
        new = [{"role": "assistant", "content": "Yes."}, said]
        body = {**body, "messages": body["messages"] + new}


def big_record() -> Iterator[Row]:
    made, turns = estimator(), growing()
    made.record(next(turns), KNOWN_TOKENS)

    def estimated() -> bytes:
        turn = next(turns)
        made.estimate(turn)
        return turn

    work = prepared(functools.partial(made.record, usage=KNOWN_TOKENS), estimated)
    yield Row("record of a 0.9 MB body just estimated", 0.4, 0.2, work, loads())


def caching() -> Iterator[Row]:
    """An estimate and a record with `caching`, beside the same without it."""

    def worked(work: str, *, is_caching: bool) -> Timed:
        made = HybridTokenEstimator(secret=SECRET, caching=is_caching)
        turns = growing()
        made.record(next(turns), KNOWN_TOKENS)

        def prepare() -> bytes:
            turn = next(turns)
            if work == "record":
                made.estimate(turn)
            return turn

        call = functools.partial(made.record, usage=KNOWN_TOKENS)
        return prepared(call if work == "record" else made.estimate, prepare)

    for work in ("estimate", "record"):
        ours, theirs = (worked(work, is_caching=it) for it in (True, False))
        yield Row(f"{work} with caching / without, 0.9 MB", 1.5, 1.2, ours, theirs)


def branches() -> Iterator[Row]:
    """One more branch of a prefix of which 64 are recorded already."""
    body, made, numbers = big(), estimator(), itertools.count()
    made.record(encoded(body), KNOWN_TOKENS)

    def branch() -> bytes:
        said = {"role": "user", "content": f"try {next(numbers)}"}
        return encoded({**body, "messages": [*body["messages"], said]})

    for _ in range(64):
        made.record(branch(), KNOWN_TOKENS)
    yield Row(
        "a branch of a prefix that has 64", 0.25, 0.15, prepared(made.estimate, branch), loads()
    )


def said_again() -> Iterator[Row]:
    """Turns of an agent of Claude: the marker moves, the user says the same, or something new."""

    def turns(words: str) -> Timed:
        body, made, numbers = anthropic(big()), estimator(), itertools.count()
        made.record(encoded(marked(body)), KNOWN_TOKENS)

        def turn() -> bytes:
            number = next(numbers)
            if number:
                made.record(encoded(marked(body)), KNOWN_TOKENS)
            said = {"role": "user", "content": words.format(number)}
            body["messages"] += [{"role": "assistant", "content": f"Step {number}."}, said]
            return encoded(marked(body))

        return prepared(made.estimate, turn)

    name = "next turn, markers moved, the same text again / a new one"
    yield Row(name, 1.2, 1, turns("go on"), turns("go on {}"))


def next_turn() -> Iterator[Row]:
    body, then = big(), with_new_turn(big())
    work = known(encoded(body), encoded(then))
    yield Row("next turn, bytes, nothing moved", 0.22, 0.12, work, loads())
    head = {"model": "gpt-4o", "max_tokens": 100}
    work = known(encoded({**head, **body}), encoded({**head, **then, "max_tokens": 4096}))
    yield Row("next turn, bytes, a field before the messages changed", 0.6, 0.3, work, loads())
    spaced = json.dumps(then, indent=1).replace("the", "th\\u0065").encode()
    work = known(encoded(body), spaced)
    yield Row("next turn, bytes, other spacing and escapes", 1.2, 0.8, work, loads())
    yield Row("next turn, dict", 0.8, 0.4, known(body, then), loads())


def anthropic(body: dict[str, Any]) -> dict[str, Any]:
    made = convert_messages(body, to="anthropic").body
    assert made is not None
    return {**made, "model": "claude-sonnet-4-5", "max_tokens": 4096}


def marked(body: dict[str, Any]) -> dict[str, Any]:
    """`body` with cache markers at its last two messages, as agents of Claude send it."""
    body = copy.deepcopy(body)
    for message in body["messages"][-3:]:
        content = message["content"]
        if isinstance(content, str):
            content = message["content"] = [{"type": "text", "text": content}]
        content[-1]["cache_control"] = {"type": "ephemeral"}
    return body


def markers() -> Iterator[Row]:
    body, then = anthropic(big()), anthropic(with_new_turn(big()))
    work = known(encoded(marked(body)), encoded(marked(then)))
    yield Row("next turn, bytes, cache markers moved", 0.6, 0.3, work, loads())


def sdk_objects() -> Iterator[Row]:
    from openai.types.chat import ChatCompletionMessage

    def objects(body: dict[str, Any]) -> dict[str, Any]:
        messages = [
            ChatCompletionMessage.model_validate(one) if one["role"] == "assistant" else one
            for one in body["messages"]
        ]
        return {**body, "messages": messages}

    work = known(objects(big()), objects(with_new_turn(big())))
    yield Row("next turn, dict with SDK messages", 1.5, 0.8, work, loads())


def unknown() -> Iterator[Row]:
    body = big()
    random_ = random.Random(3)

    def fresh() -> bytes:
        """Every text is new, of words that are not."""
        new = copy.deepcopy(body)
        for message in new["messages"]:
            if isinstance(message["content"], str):
                at = random_.randrange(100)
                message["content"] = f"{at} {random_.random()} {message['content']}"
        return encoded(new)

    made = estimator()
    made.estimate(fresh())
    work = prepared(made.estimate, fresh)
    yield Row("unknown body, new texts, warm tables", 2.5, 1.5, work, loads())


FIRST = """
import sys, time, orjson
from tokenctx import HybridTokenEstimator
body = open(sys.argv[1], "rb").read()
made = HybridTokenEstimator(secret=b"benchmark")
for _ in range(5): orjson.loads(body)
work = {"estimate": made.estimate, "loads": orjson.loads}[sys.argv[2]]
began = time.thread_time(); work(body); print(time.thread_time() - began)
"""


def first() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "body.json")
        path.write_bytes(encoded(with_new_turn(big())))

        def process(work: str) -> float:
            command = [sys.executable, "-c", FIRST, str(path), work]
            return float(subprocess.run(command, capture_output=True, check=True).stdout)

        ours, theirs = (Timed(functools.partial(process, it)) for it in ("estimate", "loads"))
        yield Row("first estimate of a process", 6, 3, ours, theirs, most_rounds=10)


def tools() -> Iterator[Row]:
    """A turn with hundreds of tools and four messages, shared among the tools: no difference."""
    random_ = random.Random(8)
    given: Any = [tool(random_, index) for index in range(480)]
    body = {**agent_conversation(4, 5000), "tools": given}
    turn = known(encoded(body), encoded(with_new_turn(body)))
    parse = functools.partial(orjson.loads, encoded(given))

    def each(work: Work) -> float:
        return seconds(work, 20) / len(given)

    ours, theirs = (Timed(functools.partial(each, work)) for work in (turn, parse))
    yield Row("an unchanged tool on a known turn, us", 0.5, 0.1, ours, theirs, unit_seconds=1e-6)


def image_bytes() -> bytes:
    head = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAABAAAAAQACAIAAAA=")
    return base64.b64encode(head + random.Random(1).randbytes(3_900_000))


def images() -> Iterator[Row]:
    data = image_bytes().decode()
    hashed = functools.partial(lambda it: blake3(it).digest(), data.encode())
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    for place, at in (("first message", 0), ("a later message", 17)):
        body = agent_conversation(40, 60_000)
        del body["messages"][0]
        body["messages"][at] = {"role": "user", "content": [{"type": "text", "text": "See:"}, part]}
        then = with_new_turn(body)
        work = known(encoded(body), encoded(then))
        yield Row(f"5 MB image in the {place}, bytes / BLAKE3 of it", 1.2, 0.5, work, hashed)
        work = known(body, then)
        yield Row(f"5 MB image in the {place}, dict / BLAKE3 of it", 1.2, 0.5, work, hashed)


def windows() -> Iterator[Row]:
    body = big()
    window = ContextWindow("gpt-4o", limits=1_000_000, estimator=estimator())
    assert window.record(body, window.usage(body).total_tokens)
    then = with_new_turn(body)
    estimate = functools.partial(window.estimator.estimate, then, model="gpt-4o")
    limits = {"usage": (2.5, 1.5), "should_compact": (1.1, 1), "retain": (3, 2)}
    limits |= {"prune": (3, 2), "trim": (3, 2)}
    for name, (must, aim) in limits.items():
        work = functools.partial(getattr(window, name), then)
        yield Row(f"ContextWindow.{name} / estimate of the same dict", must, aim, work, estimate)


def conversions() -> Iterator[Row]:
    for group, (_, target, theirs) in DIRECTIONS.items():
        body = conversation(group)
        ours = functools.partial(converted, body, target)
        other = prepared(theirs(), functools.partial(copy.deepcopy, body))
        yield Row(f"{group} / litellm's step", 2, 4, ours, other, is_speed=True)


def converted(body: Any, target: Any) -> Any:
    return convert_messages(body, to=target).messages


def held(call: Work) -> Timed:
    """The longest processor time of a call in which another thread waits for the interpreter.

    The least of three calls: where the system stops that thread, work that holds nothing counts.
    """
    clock = time.pthread_getcpuclockid(threading.get_ident())
    longest, is_done = 0.0, False

    def spin() -> None:
        nonlocal longest
        last = time.clock_gettime(clock)
        while not is_done:
            now = time.clock_gettime(clock)
            longest = max(longest, now - last)
            last = now

    def stall() -> float:
        nonlocal longest, is_done
        longest, is_done = 0.0, False
        other = threading.Thread(target=spin)
        other.start()
        time.sleep(0.002)
        seconds(call)
        is_done = True
        other.join()
        return longest

    def spend() -> float:
        interval = sys.getswitchinterval()
        sys.setswitchinterval(0.0005)
        try:
            return min(stall() for _ in range(3))
        finally:
            sys.setswitchinterval(interval)

    return Timed(spend)


def stalls() -> Iterator[Row]:
    """A parser holds the interpreter for all of its time."""
    body = agent_conversation(4350, 10_000_000)
    then = with_new_turn(body)
    ours = held(known(body, then))
    theirs = held(functools.partial(orjson.loads, encoded(then)))
    name = "interpreter held by one call, 10 MB dict, ms"
    yield Row(name, 2, 1, ours, theirs, most_rounds=8, unit_seconds=1e-3)


@functools.cache  # the texts take a second and a half a megabyte to find
def request_lines(byte_count: int) -> list[bytes]:
    """Requests of one to three messages."""
    random_, made, texts = random.Random(4), [], iter(take("messages", byte_count))
    for text in texts:
        parts = [text, *itertools.islice(texts, random_.randrange(3))]
        messages = [{"role": "user", "content": part[:4000]} for part in parts]
        made.append(encoded({"model": "gpt-4o", "messages": messages}))
    return made


def lines(byte_count: int = 20_000_000) -> Iterator[Row]:
    """The whole process, start and all."""
    made, encode = request_lines(byte_count), tiktoken_encoding("o200k_base").encode_ordinary
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "lines.jsonl")
        path.write_bytes(b"\n".join(made))
        command = [str(Path(sys.executable).with_name("tokenctx")), "count", "--json", str(path)]

        def processor_seconds() -> float:
            spent = resource.getrusage(resource.RUSAGE_CHILDREN)
            return spent.ru_utime + spent.ru_stime

        def ours() -> float:
            began = processor_seconds()
            subprocess.run(command, capture_output=True, check=True)
            return processor_seconds() - began

        def theirs() -> None:
            for line in made:
                for message in orjson.loads(line)["messages"]:
                    len(encode(message["content"]))

        name = "count --json on lines, x as fast as orjson + tiktoken"
        yield Row(name, 3, 4, Timed(ours), theirs, most_rounds=5, is_speed=True)


@functools.cache  # as those of `request_lines`
def texts_to_encode(kind: str, byte_count: int) -> list[str]:
    return take(kind, byte_count)


@functools.cache
def gigatoken() -> Callable[[str], Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "o200k_base.tiktoken")
        path.write_bytes(rank_file("o200k_base"))
        return gigatoken_encode("o200k_base", path)


def renewed(call: Callable[[str], object], texts: list[str]) -> Timed:
    """`call` on each of `texts`, which begin otherwise each time: only pieces are known."""
    numbers = itertools.count()

    def fresh() -> list[str]:
        number = next(numbers)
        return [f"{number}{text[1:]}" for text in texts]

    def each(given: list[str]) -> None:
        for text in given:
            call(text)

    return prepared(each, fresh)


def texts_of(kind: str, byte_count: int = 3_000_000) -> Iterator[Row]:
    """None of translations, unless something is installed that has them."""
    texts, encoding = texts_to_encode(kind, byte_count), get_encoding("o200k_base")
    encode = gigatoken()
    works: list[tuple[str, float, Callable[[str], object], Callable[[str], object]]] = [
        ("encode_to_buffer", 0.7, encoding.encode_to_buffer, encode),
        ("encode", 0.7, encoding.encode, encode),
        ("encode, beside its list,", 1, encoding.encode, lambda text: encode(text).tolist()),
        ("count", 1.1, encoding.count, encode),
    ]
    for name, must, ours, theirs in works if texts else ():
        title = f"{name} of warm {kind}, x as fast as gigatoken's encode"
        both = renewed(ours, texts), renewed(theirs, texts)
        yield Row(title, must, 1.2, both[0], both[1], most_rounds=15, is_speed=True)


def texts() -> Iterator[Row]:
    for kind in KINDS:
        yield from texts_of(kind)
