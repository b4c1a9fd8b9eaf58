"""Profiles: what a family of models is counted with, as dated data."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, fields, replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from tokenctx.reference.document import ASCII_SPACE, ascii_lower
from tokenctx.reference.model_name import ModelName, canonical_provider, read_model_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenctx.reference.model import Request

MIN_INNER_NAME_BYTES: Final = 3
"""Shorter names say nothing inside of a longer one."""

LAYOUTS: Final = ("openai", "openai-2023")
APIS: Final = ("chat", "responses")
NOTES: Final = ("source", "date", "confidence")
SCOPE: Final = ("models", "providers", "dialects")
"""What a profile does not take from the one that it is like."""


@dataclass(frozen=True)
class LayoutRule:
    """Tokens of one API beside the rendered text; the fields are described in DESIGN.md."""

    joins_system: bool = False
    request_tokens: int = 0
    tools_tokens: int = 0
    tools_with_system_tokens: int = 0
    described_tokens: int = 0
    schema_tokens: int = 0
    schema_with_system_tokens: int = 0
    schema_with_tools_tokens: int = 0
    reply_schema_tokens: int = 0
    prompt_has_reply_schema: bool = False
    none_choice_tokens: int = 0
    forced_choice_tokens: int = 0
    forces_lone_tool: bool = False
    call_tokens: int = 0
    legacy_call_tokens: int = 0
    dotted_name_count: int = 0
    item_id_tokens: int = 0
    next_call_tokens: int = 0
    wrapper_tokens: int = 0
    pro_tokens: int = 0
    added_tools_tokens: int = 0
    page_tokens: int = 0


@dataclass(frozen=True)
class Profile:
    """How the input tokens of a family of models are counted; see `profiles.json`."""

    name: str
    provider: str
    encoding: str
    quality: str
    providers: tuple[str, ...] = ()
    dialects: tuple[str, ...] = ()
    text_numerator: int = 1
    text_denominator: int = 1
    text_cuts: tuple[str, ...] = ()
    request_tokens: int = 0
    message_tokens: int = 0
    assistant_tokens: int = 0
    name_tokens: int = 0
    system_tokens: int = 0
    no_system_tokens: int = 0
    opening_tokens: int = 0
    joined_tokens: int = 0
    results_tokens: int = 0
    forced_results_tokens: int = 0
    after_results_tokens: int = 0
    answer_tokens: int = 0
    encloses_calls: bool = True
    tools_tokens: int = 0
    tools_header_tokens: int = 0
    tool_tokens: int = 0
    tool_text: str = "parts"
    tools_without_system_tokens: int = 0
    none_choice_drops_tools: bool = False
    lists_deferred_tools: bool = False
    tools_after_result_tokens: int | None = None
    tools_permille: int = 1000
    required_choice_tokens: int = 0
    forced_choice_tokens: int = 0
    schema_tokens: int = 0
    schema_permille: int = 1000
    thinking_tokens: int = 0
    call_tokens: int = 0
    has_call_elements: bool = False
    call_name_count: int = 1
    result_tokens: int = 0
    names_results_by_id: bool = False
    layout: str = "linear"
    is_rerouted_by_gateways: bool = False
    chat: LayoutRule = LayoutRule()
    responses: LayoutRule = LayoutRule()
    no_parallel_calls_tokens: int = 0
    forced_no_parallel_calls_tokens: int = 0
    reasoning: str = "loop"
    signatures: str = "loop"
    has_think_tags: bool = False
    reasoning_tokens: int = 0
    opaque_permille: int = 0
    opaque_offset_tokens: int = 0
    runs_tools: bool = False
    image_rule: str = ""
    file_tokens: int = 0
    audio_tokens: int = 0
    video_tokens: int = 0
    page_tokens: int = 0
    page_text_permille: int = 0
    shared_media_tokens: int = 0
    audio_second_tokens: int = 0
    audio_start_tokens: int = 0
    video_second_tokens: int = 0
    citations_tokens: int = 0
    document_tokens: int = 0
    reply_tokens: int = 0
    context_window_tokens: int | None = None
    max_output_tokens: int | None = None

    def is_special(self) -> bool:
        """Whether it is made for a provider or a dialect."""
        return bool(self.providers or self.dialects)

    def is_for(self, provider: str, dialect: str) -> bool:
        """Whether it is for requests in `dialect` that `provider` answers."""
        is_asked = provider in (self.providers or (provider,))
        return is_asked and dialect in (self.dialects or (dialect,))

    def hides_tools(self, request: Request) -> bool:
        """Whether a result at the end takes the tools of `request` out of the prompt."""
        ends_with_result = bool(request.messages) and request.messages[-1].role == "tool"
        return (
            self.tools_after_result_tokens is not None and bool(request.tools) and ends_with_result
        )

    def drops_reasoning(self) -> bool:
        """Whether a new turn of the user drops reasoning that was billed."""
        has_signatures = self.layout == "gemini-declarations"
        return self.reasoning == "loop" or (has_signatures and self.signatures == "loop")

    def layout_rule(self, dialect: str, model: str) -> LayoutRule | None:
        """The numbers of the prompt layout for an API; none if the layout is not known.

        A `model` with a vendor path is a gateway's, which may call another API than the one it
        offers.
        """
        if self.layout not in LAYOUTS:
            return None
        is_rerouted = self.is_rerouted_by_gateways and "/" in model
        is_responses = dialect == "openai-responses" or is_rerouted
        return self.responses if is_responses else self.chat


@functools.cache
def _table() -> dict[str, Any]:
    text = files("tokenctx").joinpath("data").joinpath("profiles.json").read_text("utf-8")
    table: dict[str, Any] = json.loads(text)
    return table


class Table:
    """All profiles and the names that lead to them."""

    def __init__(self, rows: Sequence[dict[str, Any]] = ()) -> None:
        """The table of the package, with the user's `rows` over it."""
        table = _table()
        self.fallbacks: dict[str, str] = table["fallbacks"]
        self._rows: dict[str, dict[str, Any]] = {}
        for row in (*table["profiles"], *rows):
            self._add(row)
        self.sources = {
            name: {note: row.get(note, "") for note in NOTES} for name, row in self._rows.items()
        }
        """Where the numbers of each profile are from."""
        self.models = {name: tuple(row["models"]) for name, row in self._rows.items()}
        self.profiles = {name: _profile(row) for name, row in self._rows.items()}
        self.prefixes = sorted(
            (
                (prefix, profile)
                for profile in self.profiles.values()
                for prefix in self.models[profile.name]
            ),
            key=lambda pair: (-len(pair[0].encode()), not pair[1].is_special(), pair[0]),
        )

    def _add(self, row: dict[str, Any]) -> None:
        """A row has what it lacks from the one it is like, else from the one of its name."""
        own = self._rows.get(row["name"], {})
        base = self._rows.get(row.get("like", ""), own)
        merged = {**base, **{name: own.get(name, []) for name in SCOPE}, **row}
        merged.update({note: row.get(note, "") for note in NOTES})
        merged["models"] = [ascii_lower(prefix) for prefix in merged["models"]]
        for api in APIS:
            merged[api] = {**base.get(api, {}), **row.get(api, {})}
        self._rows[row["name"]] = merged

    def resolve(
        self, model: str, dialect: str, provider: str | None = None
    ) -> tuple[Profile, bool]:
        """The profile of `model`, asked of `provider` if that is known; whether it is known.

        The longest known beginning of the name wins; among equal ones the profile that is made for
        the provider. An unknown name falls to the nearest family: the longest known name inside
        it, what the provider serves, what the dialect means.
        """
        name = model_name(model)
        hint = ascii_lower((provider or "").strip(ASCII_SPACE))
        provider = canonical_provider(hint, _table()["providers"]) or hint or name.provider
        asked = provider, dialect
        found = self._beginning(name.own, asked) or self._beginning(name.with_vendor, asked)
        if found:
            return found[1], True
        words = reversed(name.words())
        inner = (self._beginning(word, asked, MIN_INNER_NAME_BYTES) for word in words)
        nearest = max(filter(None, inner), key=lambda match: match[0], default=None)
        return (nearest[1] if nearest else self._fallback(dialect, provider)), False

    def _beginning(
        self, name: str, asked: tuple[str, str], min_bytes: int = 0
    ) -> tuple[int, Profile] | None:
        """The profile to prefer whose beginning of a name `name` has, and the length of that."""
        for prefix, profile in self.prefixes:
            length = len(prefix.encode())
            if length >= min_bytes and name.startswith(prefix) and profile.is_for(*asked):
                return length, profile
        return None

    def _fallback(self, dialect: str, provider: str) -> Profile:
        return self.profiles[self.fallbacks.get(provider) or self.fallbacks.get(dialect, "unknown")]


@functools.cache
def bundled() -> Table:
    """The table of the package."""
    return Table()


def profiles() -> dict[str, Profile]:
    """Every profile of the package by name."""
    return bundled().profiles


def resolve(model: str, dialect: str, provider: str | None = None) -> tuple[Profile, bool]:
    """What `Table.resolve` says, with the table of the package."""
    return bundled().resolve(model, dialect, provider)


def _profile(row: dict[str, Any]) -> Profile:
    known = {field.name: row[field.name] for field in fields(Profile) if field.name in row}
    lists = {name: tuple(row.get(name, ())) for name in ("providers", "dialects", "text_cuts")}
    rules = {api: LayoutRule(**row[api]) for api in APIS}
    return Profile(**{**known, **lists, **rules})


def model_name(model: str) -> ModelName:
    """What the name of `model` says."""
    return read_model_name(model, _table()["providers"], _table()["vendors"])


def universal(profile: Profile) -> Profile:
    """The token counting strategy: o200k_base for all, 4 per message, attachments as metadata."""
    return replace(
        profiles()["universal"],
        provider=profile.provider,
        context_window_tokens=profile.context_window_tokens,
        max_output_tokens=profile.max_output_tokens,
    )


def characters(profile: Profile, milli_characters_per_token: int, factor_permille: int) -> Profile:
    """RFC 006: characters over characters per token, times a factor, and 4 per message."""
    return replace(
        profiles()["universal"],
        name="characters",
        encoding="characters",
        provider=profile.provider,
        text_numerator=factor_permille,
        text_denominator=milli_characters_per_token,
        image_rule=profile.image_rule,
        file_tokens=profile.file_tokens,
        audio_tokens=profile.audio_tokens,
        video_tokens=profile.video_tokens,
        context_window_tokens=profile.context_window_tokens,
        max_output_tokens=profile.max_output_tokens,
    )
