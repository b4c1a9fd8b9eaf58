"""Request bodies become one document, whether they arrive as JSON text or as objects."""

from __future__ import annotations

import collections
import json
import pickle
import random
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odd_objects import READABLE, UNREADABLE, Counter, Hostile
from tokenctx._core import _json_anomalies, _json_canonical, _json_compact, _panic
from tokenctx._results import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

DATA = Path(__file__).parents[1] / "data" / "json"


def cases(name: str) -> list[Any]:
    read: list[Any] = json.loads((DATA / f"{name}.json").read_text())
    return [pytest.param(case, id=case["name"]) for case in read]


def body(case: dict[str, str]) -> bytes:
    return bytes.fromhex(case["hex"]) if "hex" in case else case["body"].encode()


def dumps(value: object, *, sort_keys: bool = False) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)


def repaired(value: Any) -> Any:
    """`value` with surrogate pairs joined and U+FFFD for half a pair."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [repaired(item) for item in value]
    if isinstance(value, dict):
        return {repaired(key): repaired(item) for key, item in value.items()}
    return value


TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=20) | st.text(
    'a"\\/\n\r\t\b\f\x00\x1f\x7fé\u2028😀\ud83d\ude00\ufeff', max_size=8
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**300), 10**300)
    | st.floats()
    | TEXT
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=20),
    max_leaves=30,
)


class TestText:
    @pytest.mark.parametrize("case", cases("accepted"))
    def test_accepted_bodies_have_one_compact_text(self, case: dict[str, Any]) -> None:
        assert _json_compact(body(case)) == case["compact"]
        assert _json_anomalies(body(case)) == case["anomalies"]

    @pytest.mark.parametrize("case", cases("accepted"))
    def test_accepted_bodies_are_what_python_reads(self, case: dict[str, Any]) -> None:
        text = body(case).decode("utf-8-sig", "replace")
        value = json.loads(text, strict=False)
        assert dumps(repaired(value)) == case["compact"]
        assert _json_compact([value]) == f"[{case['compact']}]"

    @pytest.mark.parametrize("case", cases("refused"))
    def test_refused_bodies_say_why_and_where(self, case: dict[str, Any]) -> None:
        with pytest.raises(errors.RequestError) as caught:
            _json_compact(body(case))
        assert (caught.value.code, caught.value.offset) == (case["code"], case["offset"])

    @pytest.mark.parametrize("case", cases("refused"))
    def test_python_refuses_what_is_refused(self, case: dict[str, Any]) -> None:
        is_limit_of_ours = case["code"] in {"encoding", "too_deep"}
        if not is_limit_of_ours:
            with pytest.raises(ValueError, match=r"."):
                json.loads(body(case), strict=False)

    @given(VALUES)
    def test_bytes_and_objects_are_equal(self, value: Any) -> None:
        expected = dumps(repaired(value))
        assert _json_compact(json.dumps([value]).encode()) == f"[{expected}]"
        assert _json_compact([value]) == f"[{expected}]"
        expected = dumps(repaired(value), sort_keys=True)
        assert _json_canonical(json.dumps([value]).encode()) == f"[{expected}]"
        assert _json_canonical([value]) == f"[{expected}]"

    @pytest.mark.parametrize("end", ["", "\u00e9", "\U0001f600", "\ud83d\ude00", "\ud83d"])
    def test_long_texts_of_objects_are_read_and_let_go(self, end: str) -> None:
        text = "a" * 5000 + end
        value = [{"a": text, "b": [text, text[1:]]}, text]
        before = sys.getrefcount(text)
        assert _json_compact(value) == _json_compact(json.dumps(value)) == dumps(repaired(value))
        assert sys.getrefcount(text) == before

    @given(VALUES)
    def test_anomalies_of_bytes_and_objects_are_equal(self, value: Any) -> None:
        assert _json_anomalies(json.dumps([value]).encode()) == _json_anomalies([value])

    @given(VALUES, st.sampled_from([bytes, bytearray, memoryview]))
    def test_all_kinds_of_text_are_equal(self, value: Any, kind: type) -> None:
        text = dumps(repaired([value]))
        assert _json_compact(kind(text.encode())) == _json_compact(text) == text

    @given(st.binary(max_size=40) | TEXT)
    def test_any_text_is_read_or_refused(self, text: bytes | str) -> None:
        try:
            again = _json_compact(text)
        except errors.RequestError:
            return
        assert _json_compact(again) == again

    def test_surrogates_in_a_str_body_are_repaired(self) -> None:
        assert _json_compact('"\ud83d\ude00\ud800"') == '"😀\ufffd"'
        assert _json_anomalies('"\ud83d\ude00"') == []
        assert _json_anomalies('"\ud800"') == ["lone_surrogate"]

    def test_random_floats_are_written_as_python_writes_them(self) -> None:
        numbers = random.Random(7)
        bits = [numbers.getrandbits(64) for _ in range(20_000)]
        floats = [struct.unpack("<d", struct.pack("<Q", each))[0] for each in bits]
        floats += [numbers.uniform(-1, 1) * 10 ** numbers.randint(-8, 20) for _ in range(20_000)]
        floats += [round(numbers.uniform(-1e4, 1e4), numbers.randint(0, 6)) for _ in range(20_000)]
        floats += [float(10**power) for power in range(309)] + [
            10.0**-power for power in range(324)
        ]
        assert _json_compact(floats) == dumps(floats)
        assert _json_compact(dumps(floats)) == dumps(floats)

    def test_random_number_texts_are_read_as_python_reads_them(self) -> None:
        numbers = random.Random(8)

        def text() -> str:
            whole = str(numbers.randrange(10 ** numbers.randint(1, 25)))
            fraction = f".{numbers.randrange(10**9):0{numbers.randint(1, 20)}}"
            exponent = (
                f"{numbers.choice('eE')}{numbers.choice(['', '+', '-'])}{numbers.randint(0, 330)}"
            )
            parts = [numbers.choice(["", "-"]), whole]
            parts += [part for part in (fraction, exponent) if numbers.random() < 0.6]
            return "".join(parts)

        texts = f"[{','.join(text() for _ in range(20_000))}]"
        assert _json_compact(texts) == dumps(json.loads(texts))

    def test_deep_bodies_are_read(self) -> None:
        deep = "[" * 1024 + "]" * 1024
        assert _json_compact(deep) == deep
        with pytest.raises(errors.RequestError, match="1024 levels at byte 1024"):
            _json_compact(f"[{deep}]")

    def test_large_bodies_are_read_while_detached(self) -> None:
        wide = {f"key {number}": ["\n", number] for number in range(200_000)}
        assert _json_compact(dumps(wide)) == dumps(wide)


class TestDumps:
    """Models of pydantic are read as their `model_dump` writes them, whoever wrote that."""

    OPTIONS: ClassVar[Any] = {
        "by_alias": True,
        "exclude_none": True,
        "warnings": False,
        "mode": "python",
    }

    def models(self) -> list[Any]:
        pydantic = pytest.importorskip("pydantic")

        class Plain(pydantic.BaseModel):  # type: ignore[misc, name-defined]
            model_config = pydantic.ConfigDict(extra="allow")
            role: str = pydantic.Field("user", alias="Role")
            content: str | None = None
            parts: list[Any] = pydantic.Field(default_factory=list)

        class Serialized(Plain):
            @pydantic.field_serializer("content")  # type: ignore[untyped-decorator]
            def upper(self, content: str) -> str:
                return content.upper()

            @pydantic.model_serializer(mode="wrap")  # type: ignore[untyped-decorator]
            def whole(self, write: Any) -> Any:
                return {**write(self), "more": self.parts}

        class Overridden(Plain):
            def model_dump(self, **options: Any) -> dict[str, Any]:
                return {**super().model_dump(**options), "own": len(options)}

        class Old(Plain):
            def model_dump(self) -> dict[str, Any]:
                return {"old": True}

        class Root(pydantic.RootModel[list[Plain]]):  # type: ignore[misc, name-defined]
            pass

        class Failing(Plain):
            @pydantic.field_serializer("content")  # type: ignore[untyped-decorator]
            def fail(self, content: str) -> str:
                raise ValueError(content)

        plain = [
            kind(Role="r", content="c", extra=[None]) for kind in (Plain, Serialized, Overridden)
        ]
        nested = Plain(parts=[*plain, {"in": plain[1]}])
        return [
            *plain,
            nested,
            Old(content="c"),
            Root([plain[0]]),
            Failing.model_construct(content="c"),
        ]

    def test_a_model_is_what_its_dump_is(self) -> None:
        *models, old, root, failing = self.models()
        expected = [model.model_dump(**self.OPTIONS) for model in models]
        for model, dump in zip(models, expected, strict=True):
            assert _json_compact(model) == dumps(dump)
        assert _json_compact(models * 2) == dumps(expected * 2)
        assert _json_compact(old) == '{"old":true}'
        assert _json_compact(root) == dumps(root.model_dump(**self.OPTIONS))
        assert _json_anomalies([failing, failing]) == ["unreadable_value"]

    def test_more_classes_than_are_remembered(self) -> None:
        pydantic = pytest.importorskip("pydantic")
        kinds = [pydantic.create_model(f"M{nth}", nth=(int, nth)) for nth in range(20)]
        models = [kind() for kind in kinds] * 2
        assert _json_compact(models) == dumps([model.model_dump() for model in models])


class TestObjects:
    @pytest.mark.parametrize(
        ("value", "expected"), [pytest.param(*pair, id=repr(pair[1])) for pair in READABLE]
    )
    def test_objects_are_read_as_data(self, value: object, expected: object) -> None:
        assert _json_compact([value]) == dumps([expected])
        assert set(_json_anomalies([value])) <= {"non_finite_number"}

    @pytest.mark.parametrize("value", UNREADABLE, ids=lambda value: str(type(value)))
    def test_what_is_no_data_becomes_null(self, value: object) -> None:
        assert _json_compact({"a": value, "b": [value]}) == '{"a":null,"b":[null]}'
        assert _json_anomalies(value) == ["unreadable_value"]

    def test_an_object_that_always_raises_becomes_null(self) -> None:
        assert _json_compact([Hostile()]) == "[null]"
        assert _json_anomalies([Hostile()]) == ["unreadable_value"]

    def test_iterators_are_not_used_up(self) -> None:
        numbers, counter = iter([1, 2]), Counter()
        _json_compact([numbers, counter])
        assert (next(numbers), counter.count) == (1, 0)

    def test_keys_that_json_has_not_are_left_out(self) -> None:
        assert _json_compact({(1,): 1, "a": 2, b"b": 3}) == '{"a":2}'
        assert _json_anomalies({(1,): 1}) == ["unreadable_value"]

    def test_equal_keys_are_merged_as_by_json(self) -> None:
        value = {1: "x", "2": 0, "1": "y"}
        assert _json_compact(value) == dumps(json.loads(json.dumps(value)))
        assert _json_anomalies(value) == ["duplicate_key"]

    def test_texts_that_differ_and_read_alike_are_equal_keys(self) -> None:
        class Alone(str):
            __slots__ = ()
            __hash__ = object.__hash__

            def __eq__(self, other: object) -> bool:
                return self is other

        half, mark = "a\ud800", "a\ufffd"
        for value in ({half: [1], mark: "x"}, {"b": 1, Alone(mark): [1], mark: "x"}):
            assert _json_compact(value).endswith('"a\ufffd":"x"}')
            assert "duplicate_key" in _json_anomalies(value)

    @pytest.mark.skipif(not hasattr(sys, "set_int_max_str_digits"), reason="no limit")
    def test_integers_python_cannot_write_become_null(self) -> None:
        assert _json_compact([10**5000]) == "[null]"
        assert _json_compact({10**5000: 1}) == "{}"
        assert _json_compact("1" * 5000) == "1" * 5000

    def test_cycles_end_in_the_depth_limit(self) -> None:
        cycle: list[object] = []
        cycle.append({"a": (cycle,)})
        with pytest.raises(errors.RequestError) as caught:
            _json_compact(cycle)
        assert (caught.value.code, caught.value.limit) == ("too_deep", 1024)
        assert caught.value.offset is None

    @pytest.mark.slow
    @pytest.mark.parametrize("width", [10, 100_000])
    def test_shared_references_end_in_a_limit(self, width: int) -> None:
        bomb: list[object] = []
        for _ in range(10):
            bomb = [bomb] * width
        with pytest.raises(errors.RequestError) as caught:
            _json_compact(bomb)
        assert caught.value.code == "too_many_values"

    def test_shared_strings_end_in_the_byte_limit(self) -> None:
        with pytest.raises(errors.RequestError) as caught:
            _json_compact(["x" * (1 << 20)] * 200)
        assert (caught.value.code, caught.value.limit) == ("too_large", 128 << 20)

    def test_deep_objects_are_read(self) -> None:
        deep: object = 1
        for _ in range(1024):
            deep = {"a": deep}
        assert _json_compact(deep) == '{"a":' * 1024 + "1" + "}" * 1024

    def test_objects_that_change_while_they_are_read_do_no_harm(self) -> None:
        class Clearing:
            def to_dict(self) -> dict[str, int]:
                members.clear()
                return {"a": 1}

        members: dict[str, object] = {str(number): Clearing() for number in range(100)}
        assert _json_compact(members).count('{"a":1}') == 100

    @pytest.mark.parametrize("count", [1, 15, 16, 17])
    def test_members_are_read_in_their_order(self, count: int) -> None:
        kinds: list[object] = [
            "text",
            None,
            1,
            [],
            {"a": "b", "c": ["d"], "e": "f"},
            True,
            "x" * 5000,
        ]
        random_ = random.Random(count)
        for _ in range(50):
            value = {f"{nth}": random_.choice(kinds) for nth in range(count)}
            assert _json_compact([value, value]) == dumps([value, value])

    @pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
    def test_an_interrupt_is_passed_on(self, kind: type[BaseException]) -> None:
        class Interrupted:
            def to_dict(self) -> object:
                raise kind

        with pytest.raises(kind):
            _json_compact([Interrupted()])

    @pytest.mark.slow
    def test_a_mapping_without_end_is_refused(self) -> None:
        class Endless(collections.UserDict[int, int]):
            def items(self) -> Any:
                return ((number, number) for number in iter(int, 1))

        with pytest.raises(errors.RequestError, match="values and keys"):
            _json_compact(Endless())


class TestModels:
    """The objects of the SDKs, read as what the SDKs would send."""

    def test_openai_messages(self) -> None:
        chat = pytest.importorskip("openai.types.chat")
        sent = {
            "content": "x",
            "role": "assistant",
            "tool_calls": [
                {"id": "c", "function": {"arguments": "{}", "name": "f"}, "type": "function"}
            ],
        }
        message = chat.ChatCompletionMessage.model_validate(sent)
        assert json.loads(_json_compact([message])) == [sent]

    def test_anthropic_messages(self) -> None:
        anthropic = pytest.importorskip("anthropic.types")
        content: list[dict[str, Any]] = [
            {"type": "text", "text": "é"},
            {"type": "tool_use", "id": "t", "name": "f", "input": {"b": [1.0], "a": None}},
        ]
        blocks = [
            anthropic.TextBlock(**content[0]),
            anthropic.ToolUseBlock(**content[1]),
        ]
        assert json.loads(_json_compact(blocks))[0] == content[0]
        message = anthropic.Message(
            id="m",
            content=blocks,
            model="x",
            role="assistant",
            stop_reason=None,
            type="message",
            usage={"input_tokens": 1, "output_tokens": 2},
        )
        read: Mapping[str, Any] = json.loads(_json_compact(message))
        assert read["content"][0] == content[0]
        assert read["usage"]["output_tokens"] == 2

    def test_google_contents_with_bytes(self) -> None:
        genai = pytest.importorskip("google.genai.types")
        part = genai.Part.from_bytes(data=b"\xfb\xff\xfe", mime_type="image/png")
        content = genai.Content(role="user", parts=[part, genai.Part(text="x")])
        assert json.loads(_json_compact(content)) == {
            "parts": [{"inlineData": {"data": "+//+", "mimeType": "image/png"}}, {"text": "x"}],
            "role": "user",
        }


class TestErrors:
    def test_errors_can_be_pickled(self) -> None:
        error = errors.RequestError("text", "too_deep", 3, 1024)
        again = pickle.loads(pickle.dumps(error))  # noqa: S301
        assert (type(again), str(again)) == (errors.RequestError, "text")
        assert (again.code, again.offset, again.limit) == ("too_deep", 3, 1024)
        assert isinstance(again, (errors.Error, ValueError))
        internal = pickle.loads(pickle.dumps(errors.InternalError("x")))  # noqa: S301
        assert str(internal) == "x"

    def test_errors_hold_nothing_of_the_body(self) -> None:
        with pytest.raises(errors.RequestError) as caught:
            _json_compact('{"secret": secret}')
        assert "secret" not in repr(caught.value)

    def test_a_panic_becomes_an_internal_error(self, capfd: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(errors.InternalError, match="bug"):
            _panic()
        assert "on purpose" in capfd.readouterr().err
        assert _json_compact("1") == "1"
