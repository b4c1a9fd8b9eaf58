"""The ledger: a row for each call with its tokens and what each kind of them cost, in DuckDB.

What a part of a file has cost is written in one transaction with how far the file was read, so that
a run that is ended anywhere loses nothing and counts nothing twice. Sums are whole nano-dollars.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final

from tokenctx._cli.spend.files import OWN_KEY, SpendError
from tokenctx._cli.spend.prices import COUNTED, MONEY, Pricer
from tokenctx.money.prices import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tokenctx._cli.spend.calls import Call
    from tokenctx._cli.spend.files import Part, Source
    from tokenctx.money.prices import Prices

INSTALL: Final = "this needs DuckDB and pyarrow: pip install 'tokenctx[batch]'"
MEMORY: Final = "192MB"
"""Of DuckDB, which writes to its folder what does not fit."""
VERSION: Final = 2
ROWS_AT_ONCE: Final = 8_192
NAME: Final = "ledger.duckdb"
WORDS: Final = ("path", "model", "provider", "tenant", "conversation", "tier", "reason")
KEYS: Final = ("call_key", "place", "above", "batch_key")
_TABLES: Final = f"""
create table if not exists files (
    path varchar primary key, bytes bigint, modified bigint, upto bigint, is_done boolean,
    row_count bigint, priced_by varchar);
create table if not exists left_out (path varchar, reason varchar, row_count bigint);
create table if not exists calls (
    seq bigint, {", ".join(f"{it} varchar" for it in WORDS)}, moment timestamp,
    {", ".join(f"{it} bigint" for it in (*KEYS, *COUNTED, *MONEY))},
    is_billed boolean, is_cut boolean, chain bigint[], tools varchar[]);
create table if not exists about (version integer, started timestamp);
"""
_KEPT: Final = """
create or replace temp table kept as
with latest as (
    select *, row_number() over (
        partition by case when call_key = 0 then -seq else call_key end order by seq desc) as nth
    from calls where path in (select path from named)),
inside as (select distinct above from latest where above <> 0),
answered as (select distinct batch_key from latest where batch_key <> 0 and is_billed)
select latest.* exclude (nth),
    case when nth > 1 then 'an earlier line of a call that a later one has'
         when inside.above is not null then 'the sum of other calls in this log'
         when answered.batch_key is not null then 'a request of a batch whose result is here, too'
    end as dropped
from latest
left join inside on latest.place = inside.above
left join answered on not latest.is_billed and latest.batch_key = answered.batch_key
"""
"""A call with several lines counts by its last; what adds up others, and what was answered, not."""


class Ledger:
    """The cost of calls, on disk.

    `folder` is kept, and who gives it again goes on; without one a temporary folder is used.
    Raises SpendError without DuckDB, for a folder of another version, and where another run has it.
    """

    def __init__(self, folder: Path, prices: Prices, *, model: str = "") -> None:
        try:
            import duckdb
            import pyarrow as pa  # noqa: F401  # rows go by it
        except ImportError:
            raise SpendError(INSTALL) from None
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._faults: tuple[type[Exception], ...] = (duckdb.Error, OSError)
        try:
            self._base = duckdb.connect(
                str(folder / NAME),
                config={
                    "memory_limit": MEMORY,
                    "temp_directory": str(folder / "spilled.tmp"),
                    "threads": "2",
                    "preserve_insertion_order": "false",
                },
            )
            self._base.execute(_TABLES)
            self._about()
        except duckdb.IOException as error:
            first = str(error).partition("\n")[0]
            raise SpendError(f"the ledger cannot be opened: {first}") from None
        self._pricer = Pricer(prices, self.started, model)
        self._priced_by = f"{model} {fingerprint(prices)}"
        [(last,)] = self.rows("select coalesce(max(seq), 0) from calls")
        self._seq = last

    def _about(self) -> None:
        found = self.rows("select version, started from about")
        if not found:
            now = dt.datetime.now(dt.timezone.utc).replace(tzinfo=None)
            self._base.execute("insert into about values (?, ?)", [VERSION, now])
            found = [(VERSION, now)]
        version, started = found[0]
        if version != VERSION:
            raise SpendError(
                f"{self._folder} is of another version ({version}; this is {VERSION}): "
                "give another folder"
            )
        self.started: dt.datetime = started.replace(tzinfo=dt.timezone.utc)

    def close(self) -> None:
        """Give back the files; what was written stays."""
        self._base.close()

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        found: list[tuple[Any, ...]] = self._base.execute(query, list(values)).fetchall()
        return found

    def batches(self, query: str) -> Iterator[list[dict[str, Any]]]:
        """The rows of a query that has many, some at a time; no other may be asked in between."""
        found = self._base.execute(query)
        names = [it[0] for it in found.description or ()]
        while rows := found.fetchmany(ROWS_AT_ONCE):
            yield [dict(zip(names, row, strict=True)) for row in rows]

    def insert(self, name: str, columns: dict[str, Any]) -> None:
        """Put rows into a table, by the names of its columns."""
        import pyarrow as pa

        self._base.register("rows_of_table", pa.table(columns))
        self._base.execute(f"insert into {name} by name select * from rows_of_table")
        self._base.unregister("rows_of_table")

    def write_parquet(self, query: str, path: Path) -> None:
        """The rows of a query as a Parquet file, which is there whole or not at all.

        Raises SpendError where it cannot be written.
        """
        part = path.with_name(f"{path.name}.tmp")
        try:
            name = str(part).replace("'", "''")
            self._base.execute(
                f"copy ({query}) to '{name}' "
                f"(format parquet, compression zstd, kv_metadata {{{OWN_KEY}: 'calls'}})"
            )
            part.replace(path)
        except self._faults as error:
            part.unlink(missing_ok=True)
            first = str(error).partition("\n")[0]
            raise SpendError(f"{path} cannot be written: {first}") from None

    def start_of(self, source: Source) -> int | None:
        """Where a file is to be read from; None if it is read.

        A file that changed, or was priced by other prices, begins anew.
        """
        path = str(source.path)
        found = self.rows(
            "select bytes, modified, upto, is_done, priced_by from files where path = ?", path
        )
        if not found:
            return 0
        byte_count, modified, upto, is_done, priced_by = found[0]
        same = (source.byte_count, source.modified_ns, self._priced_by)
        if (byte_count, modified, priced_by) != same:
            self._base.execute("begin")
            for table in ("files", "left_out", "calls"):
                self._base.execute(f"delete from {table} where path = ?", [path])
            self._base.execute("commit")
            return 0
        return None if is_done else int(upto)

    def add(self, source: Source, part: Part) -> None:
        """Write down what a part has cost, all of it or nothing. Raises SpendError: disk full."""
        path = str(source.path)
        columns = self._columns(path, part.calls)
        try:
            self._base.execute("begin")
            if part.calls:
                self.insert("calls", columns)
            for reason, count in part.left_out.items():
                self._base.execute("insert into left_out values (?, ?, ?)", [path, reason, count])
            self._base.execute(
                "insert into files values (?, ?, ?, ?, ?, ?, ?) on conflict do update set "
                "upto = excluded.upto, is_done = excluded.is_done, "
                "row_count = row_count + excluded.row_count",
                [
                    path,
                    source.byte_count,
                    source.modified_ns,
                    part.end,
                    part.is_last,
                    part.rows,
                    self._priced_by,
                ],
            )
            self._base.execute("commit")
        except self._faults as error:
            first = str(error).partition("\n")[0]
            raise SpendError(
                f"the ledger cannot be written: {first}; with --state a next run goes on "
                "where this one stopped"
            ) from None

    def _columns(self, path: str, calls: list[Call]) -> dict[str, Any]:
        import pyarrow as pa

        priced = self._pricer.priced(calls)
        first = self._seq + 1
        self._seq += len(calls)
        moments = [None if it.at is None else int(it.at * 10**6) for it in calls]
        columns: dict[str, Any] = {
            "seq": pa.array(range(first, first + len(calls)), pa.int64()),
            "path": pa.array([path] * len(calls), pa.string()),
            "moment": pa.array(moments, pa.int64()).cast(pa.timestamp("us")),
            "model": [it.model for it in calls],
            "provider": [it.provider for it in calls],
            "tenant": [it.tenant for it in calls],
            "conversation": [it.conversation for it in calls],
            "tier": [it.tier for it in priced],
            "reason": pa.array([it.reason for it in priced], pa.string()),
            "call_key": [it.key for it in calls],
            "place": [it.place for it in calls],
            "above": [it.above for it in calls],
            "batch_key": [it.batch_key for it in calls],
            "is_billed": [it.usage is not None for it in calls],
            "is_cut": pa.array([it.is_cut for it in calls], pa.bool_()),
            "chain": pa.array([it.chain() for it in calls], pa.list_(pa.int64())),
            "tools": pa.array([it.tool_names() for it in calls], pa.list_(pa.string())),
        }
        for place, name in enumerate(COUNTED):
            columns[name] = pa.array([it.counts[place] for it in priced], pa.int64())
        for place, name in enumerate(MONEY):
            amounts = [None if it.money is None else it.money[place] for it in priced]
            columns[name] = pa.array(amounts, pa.int64())
        return columns

    def settle(self, sources: Iterable[Source]) -> None:
        """Tell the calls of these files that count from other lines of them.

        Before the first question; the ledger may have other files, of other runs.
        """
        self._base.execute("create or replace temp table named (path varchar)")
        for source in sources:
            self._base.execute("insert into named values (?)", [str(source.path)])
        self._base.execute(_KEPT)
