"""Answers in place of a count: the vendors' own forms of an error."""

from __future__ import annotations

import secrets
from typing import Any, Final, Literal

Vendor = Literal["anthropic", "openai", "google", "bedrock", "vllm"]
Headers = dict[str, str]

_ANTHROPIC: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    413: "request_too_large",
    503: "overloaded_error",
    504: "timeout_error",
}
_OPENAI_CODES: Final = {
    401: "invalid_api_key",
    404: "not_found",
    405: "method_not_allowed",
    408: "timeout",
    413: "request_too_large",
    503: "overloaded",
    504: "timeout",
}
_GOOGLE: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    408: "DEADLINE_EXCEEDED",
    413: "INVALID_ARGUMENT",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_BEDROCK: Final = {
    400: "ValidationException",
    401: "AccessDeniedException",
    403: "AccessDeniedException",
    404: "UnknownOperationException",
    405: "UnknownOperationException",
    408: "RequestTimeoutException",
    413: "RequestEntityTooLargeException",
    503: "ServiceUnavailableException",
    504: "ModelTimeoutException",
}


class Refused(Exception):  # noqa: N818  # an answer, not a failure of ours
    """A request that gets an error for an answer; the message holds nothing of its body.

    Attributes:
        status: Of HTTP.
        message: For people.
        code: A word for programs, where there is one: that of a `RequestError`.
        param: The field that is wrong, where it is one.
        headers: More of the answer.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: Headers | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.headers = headers or {}

    def body(self, vendor: Vendor) -> tuple[dict[str, Any], Headers]:
        """The body in the form of a vendor, and its headers."""
        if vendor == "anthropic":
            kind = _ANTHROPIC.get(self.status, "api_error")
            request = f"req_{secrets.token_hex(12)}"
            error = {"type": kind, "message": self.message}
            body = {"type": "error", "error": error, "request_id": request}
            return body, {**self.headers, "request-id": request}
        if vendor == "google":
            kind = _GOOGLE.get(self.status, "INTERNAL")
            return {
                "error": {"code": self.status, "message": self.message, "status": kind}
            }, self.headers
        if vendor == "bedrock":
            kind = _BEDROCK.get(self.status, "InternalServerException")
            return {"message": self.message}, {**self.headers, "x-amzn-errortype": kind}
        return {"error": self._openai(vendor)}, self.headers

    def _openai(self, vendor: Vendor) -> dict[str, Any]:
        is_ours = self.status >= 500
        error: dict[str, Any] = {"message": self.message, "param": self.param}
        if vendor == "vllm":
            kind = "InternalServerError" if is_ours else "BadRequestError"
            return {**error, "type": kind, "code": self.status}
        kind = "server_error" if is_ours else "invalid_request_error"
        return {**error, "type": kind, "code": self.code or _OPENAI_CODES.get(self.status)}
