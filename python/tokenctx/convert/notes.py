"""Notes on what a conversion could not carry over, and on what it had to repair."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from tokenctx._results.errors import Error
from tokenctx._results.result import Result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tokenctx.convert.model import Path

Policy = Literal["repair", "keep", "error"]
ImagePolicy = Literal["placeholder", "skip", "error"]

logging.getLogger("tokenctx").addHandler(logging.NullHandler())

KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        # What the input has and the target has no place for.
        "cache_control": "a cache marker is dropped",
        "citations": "citations are dropped; the text stays",
        "field": "a field without a counterpart is dropped",
        "option": "an option without a counterpart is dropped",
        "tool": "a tool that a vendor runs is dropped",
        "reasoning": "reasoning of another model is dropped",
        "signature": "a signature of another model is dropped; what it signs stays",
        "item_id": "the id of an item is dropped",
        "name": "the name of a participant or of an upload is dropped",
        "media": "media that the target does not take become a line of text",
        "unknown_part": "a part that only its own dialect understands",
        "unknown_message": "a message that only its own dialect understands",
        # What is said in another way.
        "error_flag": "the error flag of a tool result is dropped; its text stays",
        "image_in_non_user_message": "an image outside of a user message is replaced or skipped",
        "json_as_text": "a JSON value becomes its text",
        "media_as_text": "a file of text becomes text",
        "media_moved": "media of a tool result follow in a user message",
        "merged": "messages of one role become one",
        "split": "a message becomes several",
        "refusal": "a refusal becomes text",
        "summary": "a summary becomes text; what it stands for is dropped, as its provider does",
        "role": "a role becomes another",
        "system_message": "a system message inside the conversation becomes a user message",
        "custom_tool": "a tool for free text becomes a function",
        "empty_message": "an empty message or part is dropped",
        "prefill": "the last message begins the answer; white space at its end is dropped, or the "
        "target does not continue it",
        "form": "the same is written in another way, or stands in another place",
        "unverified": "the result cannot be converted back, so not every loss may be named",
        # What is wrong with the input.
        "duplicate_id": "the id of an earlier call is used again; it is made unique",
        "refused_id": "the target refuses the id of a call; it is rewritten",
        "unanswered_call": "a call without result gets an error result",
        "excess_marker": "a cache marker beyond as many as the target takes is dropped",
        "orphan_result": "a result without call is dropped",
        "duplicate_result": "a second result of one call is dropped",
        "misplaced_result": "a result that stands elsewhere moves behind its call",
        "invalid_arguments": "arguments that are no JSON object are kept as text",
        "unknown_role": "an unknown role is read as user",
        "dialect_guessed": "another dialect is as likely as the one taken; name the source",
        "added": "something that the input does not have is added, because a target demands it",
    }
)
FAULTS: Final = frozenset(
    "duplicate_id refused_id unanswered_call orphan_result duplicate_result misplaced_result "
    "excess_marker invalid_arguments unknown_part unknown_message unknown_role field option".split()
)
"""The decision of `policy` and `policies`."""
OPAQUE: Final = frozenset(
    "arguments input args response schema parameters input_schema inputSchema value output "
    "parametersJsonSchema responseSchema responseJsonSchema metadata labels logit_bias".split()
)
"""Fields whose keys are the user's own and may be text: no path goes into them."""
LONGEST_NAME: Final = 64


def opaque(path: Path) -> Path:
    """`path` up to the first name that may be text of the user."""
    for index, step in enumerate(path):
        if isinstance(step, str):
            if not (step.isidentifier() and step.isascii() and len(step) <= LONGEST_NAME):
                return path[:index]
            if step in OPAQUE:
                return path[: index + 1]
    return path


@dataclass(frozen=True, slots=True)
class ConversionNote(Result):
    """One thing that a conversion lost or repaired; without any text of the messages.

    Attributes:
        kind: A key of `KINDS`, which says what it means.
        path: Where it stood in the input: names and indices.
    """

    kind: str
    path: Path

    @property
    def where(self) -> str:
        """The path as text, such as ``messages[3].content[0].cache_control``."""
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return "".join(steps).lstrip(".")

    def __str__(self) -> str:
        return f"{self.where or 'body'}: {self.kind}: {KINDS[self.kind]}"


class ConversionError(Error, ValueError):
    """A conversion that the options forbid. It names kind and place, never text of a message.

    Attributes:
        kind: A key of `KINDS`.
        path: Where it stands in the input.
    """

    def __init__(self, kind: str, path: Path) -> None:
        super().__init__(f"{ConversionNote(kind, path)}; the policy for {kind} is 'error'")
        self.kind = kind
        self.path = path

    def __reduce__(self) -> tuple[type[ConversionError], tuple[str, Path]]:
        return type(self), (self.kind, self.path)


@dataclass(frozen=True)
class ConversionOptions:
    """How to convert.

    Attributes:
        policy: What to do about faults of the input (`FAULTS`): ``repair`` them, ``keep`` them as
            they are, or raise ConversionError.
        policies: The policy of single faults, by kind.
        image_in_non_user_message: ``placeholder`` puts a line of text in its place, ``skip`` drops
            it, ``error`` raises.
        model: The model of the output; None: the same name. Reasoning of another model is dropped.
        max_output_tokens: What to say to a target that demands a limit, if the source has none.
        verify: Convert back and name every difference in `losses`; else only those that a rule
            knows of.
        logger: Told of warnings, without text of messages; None: the logger of this package.
    """

    policy: Policy = "repair"
    policies: Mapping[str, Policy] = field(default_factory=dict)
    image_in_non_user_message: ImagePolicy = "placeholder"
    model: str | None = None
    max_output_tokens: int = 4096
    verify: bool = True
    logger: Any = None

    def __post_init__(self) -> None:
        for name, value in (("policy", self.policy), *self.policies.items()):
            if value not in get_args(Policy):
                raise ValueError(f"{name} is {value!r}; it must be repair, keep or error")
        if unknown := self.policies.keys() - FAULTS:
            raise ValueError(
                f"policies has {sorted(unknown)}; it may have {', '.join(sorted(FAULTS))}"
            )
        if self.image_in_non_user_message not in get_args(ImagePolicy):
            raise ValueError(
                f"image_in_non_user_message is {self.image_in_non_user_message!r}; it must be "
                "placeholder, skip or error"
            )


class Notes:
    """Collects losses and warnings, and raises where the options say so."""

    def __init__(self, options: ConversionOptions) -> None:
        self.options = options
        self.losses: dict[ConversionNote, None] = {}
        self.warnings: dict[ConversionNote, None] = {}

    def policy(self, kind: str) -> Policy:
        """The policy for a fault."""
        return self.options.policies.get(kind, self.options.policy)

    def lose(self, kind: str, path: Path) -> None:
        """Something of the input is not in the output as it was."""
        if kind in FAULTS and self.policy(kind) == "error":
            raise ConversionError(kind, opaque(path))
        self.losses[ConversionNote(kind, opaque(path))] = None

    def warn(self, kind: str, path: Path) -> bool:
        """Something was odd; whether it is to be repaired."""
        if kind in FAULTS:
            policy = self.policy(kind)
            if policy == "error":
                raise ConversionError(kind, opaque(path))
            if policy == "keep":
                self.warnings[ConversionNote(kind, opaque(path))] = None
                return False
        self.warnings[ConversionNote(kind, opaque(path))] = None
        return True

    def repair(self, kind: str, path: Path) -> bool:
        """A fault: whether to repair it, which is a loss and a warning."""
        if self.warn(kind, path):
            self.losses[ConversionNote(kind, opaque(path))] = None
            return True
        return False

    def add(self, notes: Notes) -> None:
        """Take over what `notes` have collected."""
        self.losses |= notes.losses
        self.warnings |= notes.warnings

    def log(self, title: str) -> None:
        """Tell the logger of the warnings."""
        if self.warnings:
            logger = self.options.logger
            logger = logging.getLogger(__package__) if logger is None else logger
            for note in self.warnings:
                logger.warning(f"{title}: {note}")
