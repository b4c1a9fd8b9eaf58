"""What must hold of any input, at every entrance: tests/rigs/fuzz_requests.py makes the inputs.

Nothing comes out but numbers and documented errors, no error quotes the request, bounds enclose
their number, bytes and objects count the same, and it does not matter where a stream is cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import gzip
import io
import json
import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

import tokenctx
from tokenctx._cli.tables import WORDS
from tokenctx._results.estimates import Dialect

if TYPE_CHECKING:
    from collections.abc import Callable

Random = random.Random
CANARY: Final = "canary7f3a"
"""Stands in every seed; no error may quote it."""
DIALECTS: Final = (None, *get_args(Dialect))
TARGETS: Final = (
    "openai-chat",
    "openai-responses",
    "anthropic",
    "gemini",
    "gemini-interactions",
    "ai-sdk",
)
METHODS: Final[tuple[Any, ...]] = ("profile", "universal", "characters")
PROVIDERS: Final = (None, "vertex", "bedrock", "groq", "\udc80")
MODELS: Final = (
    *(None, "gpt-4o", "claude-opus-4-6", "gemini-2.5-pro", "gpt-oss-120b", "llama-3", "o1"),
    *(
        "",
        "\ud800",
        "gpt-4o\udfff",
        "\x00",
        "a/" * 50,
        "ft:gpt-4o:\x1b[31m::1",
        "GPT-4O ",
        "\u0131" * 300,
    ),
)
SPECIAL: Final = ("<|endoftext|>", "<|fim_prefix|>", "<|im_start|>", "", "\ud800", "other")
HIDDEN: Final = "\x00\x07\x1b\x7f\x9b\u202e\u2066"
"""Characters that may not reach a screen as they are."""
FOREIGN: Final = (ValueError, TypeError)
"""What a wrong argument may raise, beside the errors of the package."""


class FindingError(Exception):
    """What must not happen, and the input that makes it happen."""


def demand(is_so: object, what: str) -> None:
    """Report a finding unless it is so."""
    if not is_so:
        raise FindingError(what)


def as_json(value: Any) -> bytes | None:
    """The JSON text that means the same as `value`; None if none does."""
    try:
        spelled = json.dumps(value, allow_nan=False)
        return spelled.encode() if json.loads(spelled) == value else None
    except (ValueError, TypeError, RecursionError):
        return None


def pieces(random_: Random, data: bytes) -> list[bytes]:
    """`data` cut into up to six chunks, some of them empty."""
    cuts = sorted(random_.randrange(len(data) + 1) for _ in range(random_.randrange(6)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


class Target:
    """One of everything that takes a request, an answer, a stream or a name."""

    def __init__(self, usages: list[Any], streams: list[bytes]) -> None:
        self.usages, self.streams = usages, streams
        self.estimators = [
            tokenctx.HybridTokenEstimator(method=method, capacity_bytes=1 << 20)
            for method in METHODS
        ]
        self.tracker = tokenctx.ConversationStateTracker(capacity_bytes=1 << 20)
        self.encodings = [
            tokenctx.get_encoding(name) for name in tokenctx.encodings.list_encodings()
        ]
        self.loop = asyncio.new_event_loop()
        self.executions = self.refused = 0

    def call(
        self, function: Callable[..., Any], *arguments: Any, allowed: Any = (), **named: Any
    ) -> Any:
        """What the call returns; None if it refuses as it may, or else a finding."""
        self.executions += 1
        try:
            return function(*arguments, **named)
        except FindingError:
            raise
        except tokenctx.InternalError:
            raise FindingError(f"a panic in the core in {function!r}") from None
        except (tokenctx.RequestError, *allowed) as error:
            self.refused += 1
            shown = str(error) + repr(error.args)
            demand(CANARY not in shown, f"an error of {function!r} quotes its input: {shown}")
        except Exception as error:  # what it was is in the report
            raise FindingError(f"{type(error).__name__} came out of {function!r}") from error
        return None

    # Requests

    def body(self, random_: Random, body: Any) -> None:
        """Every entrance for a request."""
        estimator = random_.choice(self.estimators)
        names = {
            "model": random_.choice(MODELS) if random_.randrange(3) == 0 else None,
            "dialect": random_.choice(DIALECTS) if random_.randrange(4) == 0 else None,
            "provider": random_.choice(PROVIDERS) if random_.randrange(4) == 0 else None,
        }
        self.numbers(estimator, body, names)
        self.records(random_, estimator, body, names)
        self.call(estimator.estimate_conversation, body, random_.choice(MODELS))
        self.call(estimator.estimate_message, body, random_.choice(MODELS))
        self.call(self.tracker.record_actual, body, "family", 5)
        self.call(self.tracker.lookup, body, "family")
        self.plans(random_, estimator, body)
        self.conversions(random_, body)

    def numbers(self, estimator: Any, body: Any, names: dict[str, Any]) -> None:
        """An estimate lies within its bounds, is the same a second time, async and as text."""
        found = self.call(estimator.estimate, body, **names)
        waited = self.call(lambda: self.loop.run_until_complete(estimator.aestimate(body, **names)))
        counted = self.call(estimator.count_request, body, **names)
        demand((found is None) == (counted is None), "refused by one of estimate and count_request")
        if found is None:
            return
        demand(0 <= found.low <= found.tokens <= found.high, f"bounds of {found!r}")
        demand(found.tokens == found.known_tokens + found.estimated_tokens, f"parts of {found!r}")
        unknown = {*found.assumptions, *counted.assumptions} - WORDS.keys()
        demand(not unknown, f"assumptions without a word: {unknown}")
        demand(found == waited, "estimate and aestimate differ")
        parts = counted.context_tokens + sum(counted.message_tokens)
        demand(counted.tokens == parts, f"parts of {counted!r}")
        text = None if isinstance(body, (bytes, str)) else as_json(body)
        if text is not None:
            same = self.call(estimator.estimate, text, **names)
            demand(same == found, f"objects {found!r} and bytes {same!r} differ")
            again = self.call(estimator.count_request, text, **names)
            demand(again == counted, f"counts of objects {counted!r} and bytes {again!r} differ")

    def records(self, random_: Random, estimator: Any, body: Any, names: dict[str, Any]) -> None:
        """What is recorded is exact; any usage and any reply is taken or told apart."""
        usage, reply = self.answer(random_), self.answer(random_)
        is_known = self.call(
            estimator.record,
            body,
            {"prompt_tokens": 9, "completion_tokens": 5},
            reply=reply,
            **names,
        )
        if is_known:
            again = estimator.estimate(body, **names)
            demand(again.source == "exact", f"a recorded request is {again!r}")
        given = random_.choice((None, reply, body))
        self.call(estimator.record_event, body, usage, reply=given, **names)
        self.call(estimator.record, [{"role": "user", "content": "hi"}], usage, reply=body)
        self.call(
            lambda: self.loop.run_until_complete(
                estimator.arecord(body, usage, reply=given, **names)
            )
        )
        found = self.call(estimator.estimate, body, **names)
        if found is not None:
            demand(0 <= found.low <= found.tokens <= found.high, f"bounds of {found!r}")

    # Answers

    def answer(self, random_: Random) -> Any:
        """Usage or a reply in some form: as objects, bytes, text, compressed, or read."""
        usage = random_.choice(self.usages)
        kind = random_.randrange(9)
        if kind == 0:
            return random_.choice((None, 5, -1, True, 2**63, 1.5, "", b"", CANARY, [], object()))
        if kind == 1:
            return {"usage": usage, "choices": [{"message": {"role": "assistant", "content": "x"}}]}
        if kind == 2:
            return json.dumps({"usage": usage}).encode()
        if kind == 3:
            return json.dumps(usage)
        if kind == 4:
            return gzip.compress(json.dumps(usage).encode())[: random_.choice((5, 20, None))]
        if kind == 5:
            return random_.choice(self.streams)
        if kind == 6:
            return random_.choice(self.streams).decode("utf-8", "surrogateescape")
        if kind == 7:
            reader = tokenctx.UsageReader()
            for chunk in pieces(random_, random_.choice(self.streams)):
                reader.feed(chunk)
            return reader
        return copy.deepcopy(usage)

    def usage(self, random_: Random, value: Any) -> None:
        """Everything that reads usage of an answer."""
        self.call(tokenctx.normalize_usage, value)
        scaler = self.scaler(random_)
        model = random_.choice(MODELS) or ""
        self.call(scaler.scale, value, model=model)
        reader = tokenctx.UsageReader(random_.choice(DIALECTS))
        self.call(reader.feed, value)
        self.state(reader)
        if isinstance(value, dict):
            text = as_json(value)
            made = self.call(scaler.scale_body, value, model=model, allowed=() if text else FOREIGN)
            if text is not None:
                same = self.call(scaler.scale_body, text, model=model)
                demand(json.loads(same) == made, "bodies scaled as objects and bytes differ")
        session = tokenctx.usage.SessionUsage()
        self.call(session.add, value)
        self.call(tokenctx.context.parse_overflow, value)
        window = tokenctx.ContextWindow("gpt-4o", estimator=self.estimators[0])
        self.call(window.record_overflow, value, value)
        self.call(window.record_usage, value)
        self.call(self.estimators[0].import_known, value, allowed=FOREIGN)

    def scaler(self, random_: Random) -> Any:
        """Some scaler."""
        return tokenctx.ContextWindowScaler(
            random_.choice((None, 0, 1, 8_000, 128_000, 200_000, 2**40)),
            random_.choice((1, 200_000, 1_000_000)),
            random_.choice(("floor", "nearest", "ceil")),
            strategy=random_.choice(("fixed", "piecewise")),
        )

    # Streams

    def stream(self, random_: Random, data: bytes) -> None:
        """A reader and a scaler of a stream, which is cut anywhere."""
        if random_.randrange(5) == 0:
            data = gzip.compress(data)[: random_.choice((3, 12, None))]
        cut = [data], pieces(random_, data), [data[at : at + 1] for at in range(len(data))]
        ways = [cut[0], cut[1], *([cut[2]] if len(data) < 2_000 else [])]
        demand(len({repr(self.read(way)) for way in ways}) == 1, "a cut changes what is read")
        scaler = self.scaler(random_)
        first = random_.choice((None, 0, 7))
        model = random_.choice(MODELS) or ""
        sent = {self.scaled(scaler, way, model, first) for way in ways}
        demand(len(sent) == 1, "a cut changes what is scaled")

    def read(self, chunks: list[bytes]) -> Any:
        """All that a reader knows after these chunks, before and after its end."""
        reader = tokenctx.UsageReader()
        for chunk in chunks:
            self.call(reader.feed, chunk)
        before = self.state(reader)
        finish = getattr(reader, "finish", None)
        if finish is not None:
            self.call(finish)
        return before, self.state(reader)

    def state(self, reader: Any) -> Any:
        """What is known; the reader's own text has nothing of the stream."""
        self.call(repr, reader)
        demand(CANARY not in repr(reader), "a reader shows its stream")
        names = ("usage", "is_partial", "reply", "model", "dialect", "reason")
        return [self.call(getattr, reader, name, None) for name in names]

    def scaled(self, scaler: Any, chunks: list[bytes], model: str, first: int | None) -> Any:
        """The bytes and the numbers of a scaled stream."""

        def all_of_it() -> Any:
            stream = scaler.scale_stream(iter(chunks), model=model, first_input_tokens=first)
            return b"".join(stream), repr(stream.usage)

        return self.call(all_of_it)

    # Plans and conversions

    def plans(self, random_: Random, estimator: Any, body: Any) -> None:
        """Plans name messages that exist, keep order, and add up."""
        window = tokenctx.ContextWindow(
            random_.choice((None, "gpt-4o", "claude-opus-4-6", "\ud800")),
            limits=random_.choice((None, 0, 10, 1_000, 200_000)),
            estimator=estimator,
        )
        budget = random_.choice((None, 0, 1, 50, 10_000))
        usage = self.call(window.usage, body)
        self.call(window.fits, body, output_tokens=random_.choice((0, 7)))
        self.call(window.should_compact, body)
        trim = self.call(window.trim, body, budget)
        retained = self.call(window.retain, body, budget)
        pruned = self.call(
            window.prune, body, protect_tokens=random_.choice((0, 40)), minimum_tokens=0
        )
        self.call(window.record, body, self.answer(random_))
        if trim is None or usage is None:
            return
        places = sorted((*trim.kept, *trim.dropped))
        demand(places == list(range(len(places))), f"places of {trim!r}")
        demand(
            budget is None or not trim.fits or trim.next_total_tokens <= budget, f"size of {trim!r}"
        )
        demand(sorted((*retained.kept, *retained.old)) == places, f"places of {retained!r}")
        demand(min(trim.saved_tokens, pruned.saved_tokens, retained.saved_tokens) >= 0, "a loss")
        messages = body.get("messages") if isinstance(body, dict) else body
        if isinstance(messages, list) and len(messages) == len(places):
            self.call(trim.applied, messages)
            self.call(pruned.applied, messages)

    def conversions(self, random_: Random, body: Any) -> None:
        """A request and an answer in another dialect; only who asks for errors gets them."""
        policy: Any = random_.choice(("repair", "repair", "keep", "error"))
        image: Any = random_.choice(("placeholder", "skip", "error"))
        options = tokenctx.convert.ConversionOptions(
            policy=policy,
            image_in_non_user_message=image,
            model=random_.choice((None, "gpt-4o", "\ud800")),
            verify=random_.random() < 0.5,
        )
        is_asked = "error" in (policy, image)
        allowed = (tokenctx.convert.ConversionError,) if is_asked else ()
        before = as_json(body)
        for convert, sources in (
            (tokenctx.convert_messages, (None, None, *TARGETS, "vscode")),
            (tokenctx.convert.convert_response, (None, None, *TARGETS)),
        ):
            made = self.call(
                convert,
                body,
                random_.choice(TARGETS),
                random_.choice(sources),
                options,
                allowed=allowed,
            )
            if made is not None:
                try:
                    told = repr((made.losses, made))
                except Exception as error:
                    raise FindingError("the losses of a conversion raise") from error
                demand(CANARY not in told, "a note quotes the request")
        demand(as_json(body) == before, "a conversion has changed its input")

    # Text and names

    def text(self, random_: Random, text: bytes) -> None:
        """Every entrance for bytes and text."""
        spelled = text.decode("utf-8", "surrogateescape")
        for content in (text, spelled):
            count = self.call(tokenctx.count_tokens, content)
            demand(
                count == len(tokenctx.encodings.encode(content)),
                "count_tokens is not that of encode",
            )
        self.call(tokenctx.image_size, text)
        self.call(tokenctx.image_size, text[: self.executions % 30])
        self.encoding(random_, random_.choice(self.encodings), spelled[:5_000])

    def encoding(self, random_: Random, encoding: Any, text: str) -> None:
        """An encoding's methods agree, whatever is special."""
        unknown = (NotImplementedError,)
        count = self.call(encoding.count, text)
        at_most = self.call(encoding.count_at_most, text, 20)
        demand(at_most == min(count, 21), "count_at_most is not count")
        allowed, disallowed = (
            random_.choice((None, "all", set(random_.sample(SPECIAL, 2)), ())) for _ in range(2)
        )
        special = {"allowed_special": allowed, "disallowed_special": disallowed}
        mixed = random_.choice(SPECIAL).join((text[:50], text[50:]))
        tokens = self.call(encoding.encode, mixed, allowed=(*unknown, ValueError), **special)
        self.call(encoding.encode_batch, [mixed, text], allowed=(*unknown, ValueError), **special)
        if tokens is not None:
            plain = mixed.encode("utf-8", "replace")
            whole = self.call(encoding.decode_bytes, tokens)
            is_text = plain.decode() == mixed
            demand(not is_text or whole == plain, "decode is not the reverse of encode")
            self.call(encoding.decode_with_offsets, tokens, allowed=(UnicodeDecodeError,))
            demand(b"".join(encoding.decode_tokens_bytes(tokens)) == whole, "tokens are not whole")
        wild = [random_.choice((-1, 0, 255, 50_256, 199_999, 200_018, 2**31, 2**70)) for _ in "abc"]
        wrong = (*unknown, ValueError, OverflowError, KeyError)
        for function in (encoding.decode, encoding.decode_bytes, encoding.decode_with_offsets):
            self.call(function, wild, allowed=wrong)
        self.call(encoding.decode_single_token_bytes, wild[0], allowed=wrong)
        self.call(encoding.encode_single_token, text[:3], allowed=wrong)

    def name(self, name: str) -> None:
        """Everything that takes the name of a model, which a client may have made up."""
        self.call(tokenctx.context.model_limits, name)
        self.call(tokenctx.usage.agent_hints, name, allowed=FOREIGN)
        self.call(tokenctx.image_tokens, 10, 20, name, allowed=FOREIGN)
        self.call(tokenctx.get_encoding, name, allowed=(ValueError,))
        self.call(tokenctx.encoding_for_model, name, allowed=(ValueError,))
        self.call(tokenctx.encodings.encoding_name_for_model, name, allowed=(ValueError,))

    # Files

    def command(self, random_: Random, content: bytes) -> None:
        """`count` and `context` of a hostile file: an exit code, and nothing hidden is shown."""
        from tokenctx._cli.commands import app

        name = random_.choice(("a.json", "a.jsonl", "a.txt", "a.json.gz", "a"))
        command = random_.choice(("count", "context"))
        options = random_.choice(((), ("--json",), ("--model", "gpt-4o")))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, name)
            path.write_bytes(gzip.compress(content) if random_.randrange(3) == 0 else content)
            screen = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="replace")
            try:
                with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen):
                    self.executions += 1
                    app([command, str(path), *options])
            except SystemExit as end:
                demand(end.code in (None, 0, 1, 2), f"exit code {end.code!r}")
            except Exception as error:
                raise FindingError(f"{type(error).__name__} came out of {command}") from error
            screen.seek(0)
            shown = screen.read()
            demand(not set(HIDDEN) & set(shown), f"{command} shows a hidden character")
