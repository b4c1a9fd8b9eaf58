"""Placeholder until the json branch lands."""


class Error(Exception):
    pass


class RequestError(Error, ValueError):
    def __init__(self, message: str, *, code: str = "", offset: int | None = None, limit: int | None = None) -> None:
        super().__init__(message)
        self.code, self.offset, self.limit = code, offset, limit
