"""Functions of the user that are told something, and must not break what tells them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_logger = logging.getLogger("tokenctx")
T = TypeVar("T")


class Callback(Generic[T]):
    """Calls `hook`, if there is one, and goes on when it raises: the first time is logged."""

    def __init__(self, name: str, hook: Callable[[T], object] | None) -> None:
        self._name, self._hook = name, hook
        self._has_failed = False

    def __call__(self, event: T) -> bool:
        """True if it did not raise; the log has the class of what it raised, and no content."""
        if self._hook is None:
            return True
        try:
            self._hook(event)
        except Exception as error:
            if not self._has_failed:
                self._has_failed = True
                kind = type(error).__name__
                _logger.warning(
                    "%s raised %s: the call goes on, later ones are counted and not logged",
                    self._name,
                    kind,
                )
            return False
        return True
