"""Telling agents the true context window, where they can be told: the alternative to scaling."""

from __future__ import annotations

from functools import cache
from typing import Any

from tokenctx._results.tables import read_table

ENVIRONMENT = "claude-code"
"""The agent whose settings are environment variables, which are text."""


def agent_hints(model: str, window: int) -> dict[str, dict[str, Any]]:
    """Settings by which agents learn that `model` has a context window of `window` tokens.

    By agent: environment variables of `claude-code`, `codex` and `opencode` settings, and as
    `models-list` the fields of an entry of `/v1/models`. Where each belongs and how that is known
    stands in `agents.json`. Raises ValueError for a window below 1.
    """
    if isinstance(window, bool) or not isinstance(window, int):
        raise TypeError(f"window is of type {type(window).__name__}; it must be a number of tokens")
    if not isinstance(model, str):
        raise TypeError(f"model is of type {type(model).__name__}; it must be str")
    if window < 1:
        raise ValueError(f"window is {window} tokens; it must be at least 1")
    return {agent: _settings(agent, model, window) for agent in _agents()}


def _settings(agent: str, model: str, window: int) -> dict[str, Any]:
    about = _agents()[agent]
    others, least = about.get("not_for_models_from", {}), about.get("least_tokens", {})
    settings = {
        name: _filled(value, model, max(window, least.get(name, 0)))
        for name, value in about["settings"].items()
        if not (name in others and model.startswith(others[name]))
    }
    if agent == ENVIRONMENT:
        return {name: str(value) for name, value in settings.items()}
    return {_filled(name, model, window): value for name, value in settings.items()}


def _filled(value: Any, model: str, window: int) -> Any:
    if isinstance(value, dict):
        return {name: _filled(inner, model, window) for name, inner in value.items()}
    return {"{window}": window, "{model}": model}.get(value, value)


@cache
def _agents() -> dict[str, Any]:
    agents: dict[str, Any] = read_table("agents")
    return agents["agents"]  # type: ignore[no-any-return]
