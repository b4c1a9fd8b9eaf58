"""From one dialect to another: read, pair, arrange, write, and compare with the way back."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from operator import is_
from typing import TYPE_CHECKING, Any, Final, get_args

from tokenctx._core import _convert_plain
from tokenctx._results.errors import RequestError
from tokenctx._results.front import advised
from tokenctx.convert import (
    ai_sdk,
    anthropic,
    gemini,
    gemini_interactions,
    openai_chat,
    openai_responses,
    vscode,
)
from tokenctx.convert.accepts import accepted
from tokenctx.convert.answer import convert_answer, detect_answer, is_answer
from tokenctx.convert.arrange import SYSTEM_ROLES, arranged, with_few_markers
from tokenctx.convert.model import (
    Audio,
    Conversation,
    Dialect,
    File,
    Image,
    Message,
    Option,
    Reasoning,
    Source,
    Summary,
    Text,
    ToolCall,
    changed,
)
from tokenctx.convert.notes import (
    ConversionError,
    ConversionNote,
    ConversionOptions,
    Notes,
    opaque,
)
from tokenctx.convert.rules import Rules, Writer
from tokenctx.convert.source import detect, plain
from tokenctx.convert.tools import pair_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tokenctx.convert.model import Json, Part, Path

RULES: Final[Mapping[Dialect, Rules]] = {
    module.RULES.name: module.RULES
    for module in (openai_chat, openai_responses, anthropic, gemini, gemini_interactions, ai_sdk)
}

DEFAULT_OPTIONS: Final = ConversionOptions()
_SAID: Final = {Text, Image, File, Audio}
"""Parts that belong to no other message."""


class Conversion:
    """A request, or the answer to one, in another dialect.

    Attributes:
        dialect: The dialect of `body`.
        source: The dialect that it was read from.
        body: The whole request or answer, as JSON values. It shares values with the input.
        warnings: What was odd in the input, or had to be added; with kind and place.
    """

    def __init__(
        self,
        dialect: Dialect,
        source: Source,
        body: Any,
        notes: Notes,
        compare: Callable[[], None] | None,
    ) -> None:
        self.dialect = dialect
        self.source = source
        self.body = body
        self.warnings: tuple[ConversionNote, ...] = tuple(notes.warnings)
        self._notes = notes
        self._compare = compare

    @property
    def losses(self) -> tuple[ConversionNote, ...]:
        """The losses: all that converting back would not return, each with kind and place.

        The way back is gone when this is first asked for, with input and body as they are then.
        It takes as long as the conversion did. A way back that fails is a loss, ``unverified``.
        """
        if self._compare is not None:
            self._compare()
            self._compare = None
        return tuple(self._notes.losses)

    @property
    def messages(self) -> list[Any]:
        """The messages of a request: `messages`, `input` or `contents` of its body."""
        found: list[Any] = self.body.get(RULES[self.dialect].list_field, [])
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Conversion) and self.__getstate__() == other.__getstate__()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        lost, warned = len(self.losses), len(self.warnings)
        return f"Conversion({self.source} to {self.dialect}, {lost} losses, {warned} warnings)"

    def __getstate__(self) -> dict[str, Any]:
        names = ("dialect", "source", "body", "losses", "warnings")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        notes = Notes(ConversionOptions())
        notes.losses = dict.fromkeys(state["losses"])
        notes.warnings = dict.fromkeys(state["warnings"])
        self.__init__(state["dialect"], state["source"], state["body"], notes, None)  # type: ignore[misc]


@advised('convert_messages(request_or_messages, to="anthropic")')
def convert_messages(
    request_or_messages: object,
    to: Dialect,
    source: Source | None = None,
    options: ConversionOptions | None = None,
) -> Conversion:
    """The request, or the list of messages, in the dialect `to`.

    Takes JSON text, dicts, lists and SDK objects. `source` is detected if it is not given. What is
    unknown never raises, unless `options` say so: then ConversionError. RequestError for text that
    is no JSON, for a body that is neither an object nor a list, and for one nested too deeply.
    Linear in the input. Nothing of the input is changed.
    """
    _known(to, Dialect, "to")
    if source is not None:
        _known(source, Source, "source")
    value = plain(request_or_messages)
    if is_answer(value) and source != "vscode":
        return convert_response(value, to, source, options)
    body, found, is_guess = _as_body(value, source)
    return _conversion(_converted, body, found, to, options, is_guess=is_guess)


def convert_response(
    response: object,
    to: Dialect,
    source: Dialect | None = None,
    options: ConversionOptions | None = None,
) -> Conversion:
    """The answer of a model, usage included, in the dialect `to`.

    Takes what `convert_messages` takes and raises what that raises; of several choices only the
    first is converted. For the AI SDK an answer is the `content`, `finishReason`, `usage` and
    `response` of `generateText`.
    """
    _known(to, Dialect, "to")
    if source is not None:
        _known(source, Dialect, "source")
    body = plain(response)
    found = detect_answer(body) if isinstance(body, dict) else None
    if found is None or (source is not None and source != found):
        raise RequestError(f"the body is no answer of {source or 'a known dialect'}", "syntax")
    return _conversion(_answered, body, found, to, options)


def _conversion(
    convert: Callable[[Json, Any, Dialect, Notes], Json],
    body: Json,
    source: Source,
    to: Dialect,
    options: ConversionOptions | None,
    *,
    is_guess: bool = False,
) -> Conversion:
    notes = Notes(options or DEFAULT_OPTIONS)
    if is_guess:
        notes.warn("dialect_guessed", ())
    written = _or_too_deep(convert, body, source, to, notes)
    notes.log(f"{source} to {to}")
    compare = partial(_compare, convert, body, written, source, to, notes)
    is_verified = notes.options.verify and source != "vscode"
    return Conversion(to, source, written, notes, compare if is_verified else None)


def _or_too_deep(
    convert: Callable[[Json, Any, Dialect, Notes], Json],
    body: Json,
    source: Source,
    to: Dialect,
    notes: Notes,
) -> Json:
    try:
        return convert(body, source, to, notes)
    except RecursionError:
        raise RequestError(
            "a value is nested too deeply for this interpreter", "too_deep"
        ) from None


def _answered(body: Json, source: Dialect, to: Dialect, notes: Notes) -> Json:
    return body if source == to else convert_answer(body, source, RULES[to], notes)


def _known(name: object, names: Any, what: str) -> None:
    if name not in get_args(names):
        raise ValueError(f"{what} is {name!r}; it must be one of {', '.join(get_args(names))}")


def _as_body(value: Any, source: Source | None) -> tuple[Json, Source, bool]:
    """The body, made around a bare list of messages, its dialect, and whether that is a guess."""
    if not isinstance(value, dict | list):
        raise RequestError(
            f"the body is {type(value).__name__}; it must be an object or a list", "syntax"
        )
    found, is_guess = (source, False) if source else detect(value)
    body = value if isinstance(value, dict) else {_list_field(found): value}
    return body, found, is_guess


def _list_field(source: Source) -> str:
    return "messages" if source == "vscode" else RULES[source].list_field


def _converted(body: Json, source: Source, to: Dialect, notes: Notes) -> Json:
    converted = _plainly_converted(body, source, to, notes)
    if converted is not None:
        return converted
    return _written(_reader(source)(body, notes), to, notes)


def _reader(source: Source) -> Callable[[Json, Notes], Conversation]:
    return vscode.read if source == "vscode" else RULES[source].read


def _is_prompt(message: Message) -> bool:
    is_text = all(isinstance(part, Text) for part in message.parts)
    return is_text and message.role in SYSTEM_ROLES


def _plainly_converted(body: Json, source: Source, to: Dialect, notes: Notes) -> Json | None:
    """`body` in the dialect `to`, its plain messages by the core; None if that cannot be.

    The others are converted here, as a conversation of their own between plain messages, so that
    none is merged with another. Those that the target wants to be one are joined at the end.
    """
    field = _list_field(source)
    messages = body.get(field)
    is_plain = not (
        to == "gemini" and gemini.demands_signatures(str(notes.options.model or body.get("model")))
    )
    if not isinstance(messages, list) or not is_plain:
        return None
    converted = _convert_plain(messages, source, RULES[to])
    if converted is None:
        return None
    system_count, plain_messages, places, merged = converted
    others = [messages[place] for place, _ in places]
    if 2 * len(others) > len(messages):
        return None
    alone = {**body, field: [*messages[:system_count], *_apart(others, source)]}
    own_notes = Notes(notes.options)
    try:
        conversation = _reader(source)(alone, own_notes)
        if not _stand_apart(conversation.messages, len(others)):
            return None
        written = _written(conversation, to, own_notes)
    except ConversionError:  # it has to name the place in the whole body
        return None
    field_of_target = RULES[to].list_field
    head, apart = _split_off(written[field_of_target], len(others))
    if apart is None or any(
        note.path[:1] == (field,) and note.path[1:] >= (system_count,)
        for note in (*own_notes.warnings, *own_notes.losses)
    ):
        return None
    for (_, place), message in zip(places, apart, strict=True):
        plain_messages[place] = message
    notes.add(own_notes)
    for place, _ in merged:
        notes.lose("merged", (field, place))
    written[field_of_target] = [*head, *_joined(plain_messages, {at for _, at in merged})]
    return written


def _joined(messages: list[Any], merged: set[int]) -> list[Any]:
    """`messages` of a dialect with `parts`, those at `merged` in the message before them."""
    if not merged:
        return messages
    joined: list[Any] = []
    for at, message in enumerate(messages):
        if at in merged:
            joined[-1]["parts"].extend(message["parts"])
        else:
            joined.append(message)
    return joined


def _apart(messages: list[Any], source: Source) -> list[Any]:
    """`messages` of the user with a plain answer before each, and a plain question first."""
    if not messages:
        return []
    content, answers = ("parts", "model") if source == "gemini" else ("content", "assistant")
    text = [{"text": "."}] if source == "gemini" else "."
    answer = {"role": answers, content: text}
    return [{"role": "user", content: text}, *(it for each in messages for it in (answer, each))]


def _stand_apart(messages: tuple[Message, ...], count: int) -> bool:
    """True if `messages` are prompts, then `count` of the user as `_apart` has put them."""
    start = next((at for at, it in enumerate(messages) if not _is_prompt(it)), len(messages))
    rest = messages[start:]
    if not count:
        return not rest
    roles = [message.role for message in rest]
    kinds = {type(part) for message in rest for part in message.parts}
    return roles == ["user", *["assistant", "user"] * count] and kinds <= _SAID


def _split_off(written: list[Any], count: int) -> tuple[list[Any], list[Any] | None]:
    """The messages before `_apart` ones in the target, and the `count` messages among them."""
    if not count:
        return written, []
    at = len(written) - 2 * count - 1
    rest = written[max(0, at) :]
    roles = [message.get("role") for message in rest]
    is_apart = at >= 0 and roles[::2] == ["user"] * (count + 1)
    is_apart = is_apart and {*roles[1::2]} <= {"assistant", "model"}
    return written[:at], rest[2::2] if is_apart else None


def _written(conversation: Conversation, to: Dialect, notes: Notes) -> Json:
    rules = RULES[to]
    is_same = conversation.dialect == to
    if not is_same:
        conversation = _without_summarized(conversation)
    conversation = pair_tools(conversation, notes, rules)
    conversation = _for_model(conversation, notes)
    conversation = with_few_markers(conversation, rules, notes)
    if not is_same:
        conversation, rules = accepted(conversation, rules, notes)
        conversation = arranged(conversation, rules, notes)
        last = conversation.messages[-1] if conversation.messages else None
        if last is not None and last.role == "assistant" and not rules.continues:
            notes.warn("prefill", last.path)
    return rules.write(conversation, Writer(rules, conversation, notes))


def _without_summarized(conversation: Conversation) -> Conversation:
    """The conversation without what its newest summary stands for; others would bill it."""
    messages = conversation.messages
    if Summary not in {type(part) for message in messages for part in message.parts}:
        return conversation
    for index in reversed(range(len(messages))):
        parts = messages[index].parts
        nth = max((n for n, part in enumerate(parts) if isinstance(part, Summary)), default=None)
        if nth is not None:
            prompts = (it for it in messages[:index] if it.role in SYSTEM_ROLES)
            rest = changed(messages[index], parts=parts[nth:])
            return replace(conversation, messages=(*prompts, rest, *messages[index + 1 :]))
    return conversation


def _for_model(conversation: Conversation, notes: Notes) -> Conversation:
    """The conversation for another model, if one is asked for: without reasoning of the last."""
    wanted, option = notes.options.model, conversation.options.get("model")
    if wanted is None or (option is not None and option.value == wanted):
        return conversation
    options = {**conversation.options, "model": Option(wanted, ("model",))}
    raw = {**conversation.raw, "model": wanted}
    messages = tuple(_without_proofs(message, notes) for message in conversation.messages)
    return replace(conversation, options=options, raw=raw, messages=messages)


def _without_proofs(message: Message, notes: Notes) -> Message:
    """`message` without what only the model that made it may see again."""
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, Reasoning):
            notes.lose("reasoning", part.path)
        elif isinstance(part, Text | ToolCall) and part.signature is not None:
            notes.lose("signature", part.path)
            parts.append(changed(part, signature=None))
        else:
            parts.append(part)
    if len(parts) == len(message.parts) and all(map(is_, parts, message.parts)):
        return message
    shorter: Message = changed(message, parts=tuple(parts))
    return shorter


def _compare(
    convert: Callable[[Json, Any, Dialect, Notes], Json],
    body: Json,
    written: Json,
    source: Any,
    to: Dialect,
    notes: Notes,
) -> None:
    """Convert back, and note every difference that no rule has named."""
    options = replace(notes.options, model=None, policies={})
    if options.policy == "error":
        options = replace(options, policy="repair")
    if options.image_in_non_user_message == "error":
        options = replace(options, image_in_non_user_message="placeholder")
    try:
        back = _or_too_deep(convert, written, to, source, Notes(options))
    except RequestError:
        notes.lose("unverified", ())
        return
    known = {note.path for note in notes.losses}
    for kind, path in differences(body, back):
        is_lost = kind != "added"  # what the way back has more is a default, and nothing lost
        if is_lost and not any(path[:length] in known for length in range(len(path) + 1)):
            notes.lose(kind, path)
            known.add(path)


def _equal(one: Any, other: Any) -> bool:
    try:
        return type(one) is type(other) and bool(one == other)
    except RecursionError:
        return False


def differences(one: Any, other: Any) -> Iterator[tuple[str, Path]]:
    """Where two JSON values differ; lists of other lengths differ as a whole. No recursion.

    What only the second has is ``added``, all else has another ``form``.
    """
    queue: list[tuple[Path, Any, Any]] = [((), one, other)]
    while queue:
        path, left, right = queue.pop()
        if left is right or _equal(left, right):
            continue
        short = opaque(path)
        if isinstance(left, dict) and isinstance(right, dict) and short == path:
            for name in (*left, *(name for name in right if name not in left)):
                if name in left and name in right:
                    queue.append(((*path, name), left[name], right[name]))
                else:
                    yield "form" if name in left else "added", opaque((*path, name))
        elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
            queue += [((*path, i), left[i], right[i]) for i in range(len(left))]
        else:
            yield "form", short
