"""An edition of the model that was asked for is that model; a size or a version is another one."""

from __future__ import annotations

import pytest

from tokenctx.gateway.answerer import is_another

SAME = (
    ("gpt-4o", "gpt-4o-2024-08-06"),
    ("gpt-4-0613", "gpt-4"),
    ("claude-sonnet-4-5", "claude-sonnet-4-5-20250929"),
    ("anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
    ("gemini-2.5-flash", "gemini-2.5-flash-preview-05-20"),
    ("gemini-1.5-pro", "gemini-1.5-pro-002"),
    ("openai/gpt-4o", "gpt-4o"),
    ("fast", "gpt-4o-mini"),
)
OTHER = (
    ("gpt-4o", "gpt-4o-mini"),
    ("gpt-5", "gpt-5-mini-2025-08-07"),
    ("gpt-4", "gpt-4o"),
    ("gpt-4", "gpt-4.1"),
    ("claude-sonnet-4", "claude-sonnet-4-5"),
    ("gemini-2.5-flash", "gemini-2.5-flash-lite"),
    ("claude-sonnet-4-5", "gpt-4o"),
)


@pytest.mark.parametrize(("asked", "told"), SAME)
def test_an_edition_is_the_model(asked: str, told: str) -> None:
    assert not is_another(asked, told)
    assert not is_another(told, asked)


@pytest.mark.parametrize(("asked", "told"), OTHER)
def test_a_size_or_a_version_is_another_model(asked: str, told: str) -> None:
    assert is_another(asked, told)
    assert is_another(told, asked)
