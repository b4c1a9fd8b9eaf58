"""Model names, as vendors, clouds and gateways write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reference.document import ASCII_SPACE, ascii_lower

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WORD_BREAKS: Final = frozenset("/:.-_ ")
MAX_WORDS: Final = 32


@dataclass(frozen=True)
class ModelName:
    """What a model's name says.

    Attributes:
        text: The whole name in lower case, `-` for `@`.
        own: The model's own name, without provider, path, region, vendor, fine-tune and tag.
        with_vendor: The own name behind its vendor, as in `deepseek.v3`.
        provider: Who answers, in the words of `profiles.json`; empty if the name does not say.
    """

    text: str
    own: str
    with_vendor: str
    provider: str

    def words(self) -> list[str]:
        """The name from where each of its words begins, at most 32 of them."""
        starts = (
            at
            for at, character in enumerate(self.text)
            if character not in WORD_BREAKS and (at == 0 or self.text[at - 1] in WORD_BREAKS)
        )
        return [self.text[at:] for at, _ in zip(starts, range(MAX_WORDS), strict=False)]


def read_model_name(model: str, providers: Mapping[str, str], vendors: Sequence[str]) -> ModelName:
    """What `model` says; `providers` and `vendors` are those of `profiles.json`."""
    text = ascii_lower(model.strip(ASCII_SPACE)).replace("@", "-")
    provider, rest = _split_provider(text, providers)
    name = rest.rsplit("/", 1)[-1].removeprefix("ft:").split(":", 1)[0]
    vendor, own = _split_vendor(name, vendors)
    if not provider and vendor.endswith("."):  # Bedrock's ids are the ones with a dot there
        provider = "bedrock"
    return ModelName(text, own, vendor + own, provider)


def canonical_provider(name: str, providers: Mapping[str, str]) -> str:
    """What the provider written as `name` is called here; empty if it is not known."""
    return providers.get(name.replace("-", "_"), "")


def _split_provider(text: str, providers: Mapping[str, str]) -> tuple[str, str]:
    """The provider that `text` begins with, and what follows a colon behind it."""
    path, slash, _ = text.partition("/")
    head, colon, _ = path.partition(":")
    provider = canonical_provider(head + colon, providers) if colon else ""
    if provider:
        return provider, text[len(head) + 1 :]
    return (canonical_provider(path, providers) if slash else ""), text


def _split_vendor(name: str, vendors: Sequence[str]) -> tuple[str, str]:
    """The vendor in front of `name`, or behind its region, with its separator, and the rest."""
    for rest in (name, name.partition(".")[2]):
        for vendor in vendors:
            if rest.startswith(vendor) and len(rest) > len(vendor):
                return vendor, rest[len(vendor) :]
    return "", name
