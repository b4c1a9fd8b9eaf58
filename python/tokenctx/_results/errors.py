"""The exceptions of tokenctx.

None of these holds text of a request, so they may be logged as they are.
"""

from __future__ import annotations


class Error(Exception):
    """Base of all that tokenctx raises on its own account."""


class RequestError(Error, ValueError):
    """A request body that cannot be read.

    A truncated body, of which the client may send the whole again, has the code ``"truncated"``.

    Attributes:
        code: Name of the reason, the same in every version: ``"empty_body"``, ``"truncated"``,
            ``"trailing_data"``, ``"nul_byte"``, ``"comment"``, ``"trailing_comma"``, ``"syntax"``,
            ``"encoding"``, ``"too_large"``, ``"too_deep"``, ``"too_many_values"``,
            ``"no_messages"``, ``"too_many_messages"``, ``"too_many_parts"``,
            ``"too_many_tools"`` or ``"framework_object"``, for which the message says how to
            convert it.
        offset: Byte of the body at which it was refused; ``None`` if there is no such place.
            Behind invalid UTF-8 it counts the bytes of the repaired text.
        limit: The limit that was crossed; ``None`` if it was none.

    """

    code: str
    offset: int | None
    limit: int | None

    def __init__(
        self, message: str, code: str, offset: int | None = None, limit: int | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.offset = offset
        self.limit = limit

    def __reduce__(self) -> tuple[type[RequestError], tuple[str, str, int | None, int | None]]:
        return type(self), (str(self), self.code, self.offset, self.limit)


class InternalError(Error):
    """A bug in tokenctx. The call had no effect, and later calls work."""
