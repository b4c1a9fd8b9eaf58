"""Columns side by side, as lists, numpy and Arrow take them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from tokenctx._core import _table_capsules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenctx._core import Column


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of one length; a row that has no result is null in all but `reason`.

    Attributes:
        reason: Why a row has no result: `null`, `type`, or the code of the error, as `truncated`.
    """

    reason: Column

    @property
    def columns(self) -> dict[str, Column]:
        """The columns by name, in their order."""
        names = [it.name for it in fields(self) if it.name[0] != "_" and it.name != "reason"]
        return {name: getattr(self, name) for name in (*names, "reason")}

    def __len__(self) -> int:
        return len(self.reason)

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {name: column[row] for name, column in self.columns.items()}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[row] for row in range(len(self)))

    def tolist(self) -> list[dict[str, Any]]:
        """The rows as dicts."""
        columns = self.columns
        rows = zip(*(it.tolist() for it in columns.values()), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return _table_capsules(list(self.columns.items()))
