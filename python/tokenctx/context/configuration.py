"""What a process uses where a call names nothing else, given once at its start.

The tables of facts are in use from the first estimator on, and two workers must not count by two
tables: so this comes before it, or raises.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from tokenctx._core import Encoding
from tokenctx._estimate.data import (
    TableInfo,
    data_tables,
    installed_bundle,
    read_bundle,
    use_tables,
)
from tokenctx._estimate.profiles import Profiles, profile_rows
from tokenctx._results.defaults import DEFAULTS, checked_aliases, checked_fallbacks
from tokenctx._results.tables import read_table
from tokenctx.context.limits import Overrides, limits_table, read_overrides
from tokenctx.encodings.vocabularies import named_vocabularies
from tokenctx.money.prices import Prices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenctx._results.estimates import TextCounter

PathName = str | os.PathLike[str]
KEYS: Final = ("data", "profiles", "prices", "limits", "vocabularies", "aliases", "fallbacks")
"""What a file of settings has, beside `$schema` and `about`."""
VARIABLE: Final = "TOKENCTX_SETTINGS"
"""The variable of the environment that names the file of settings."""
_MAX_BYTES: Final = 32 << 20
_DONE: Final[list[bool]] = []
"""Not empty once it has been called: a call without arguments then changes nothing."""


def configure(
    settings: Mapping[str, Any] | PathName | None = None,
    *,
    data: PathName | None = None,
    profiles: Profiles | None = None,
    prices: Prices | Mapping[str, Any] | PathName | None = None,
    limits: Overrides | None = None,
    vocabularies: Mapping[str, TextCounter | PathName | Mapping[str, str]] | None = None,
    aliases: Mapping[str, str] | None = None,
    fallbacks: Mapping[str, Sequence[str]] | None = None,
) -> tuple[TableInfo, ...]:
    """Choose what this process uses where a call names nothing else.

    Call it once at the start, before the first estimator. `data` is a bundle of newer tables: its
    path (`.gz` too), or the name of an installed package that has one as `tokenctx-data.json`.
    `profiles` are as of `HybridTokenEstimator`, `prices` as of `Prices` or one, `limits` as of
    `model_limits`; `vocabularies` are as of `HybridTokenEstimator`, or the path of a
    `tokenizer.json`, or `{"file": "llama.tiktoken", "split": "llama3"}`. `aliases` and
    `fallbacks` are as of `Gateway`. An argument of a call still comes first. `settings` is a JSON
    file, or a mapping, with all of these as keys, whose paths are relative to the file.

    With no argument it does what the command `tokenctx` does: the file that `TOKENCTX_SETTINGS`
    names, if it is set, and the bundle that `tokenctx data --from` has installed, if there is one.
    Nothing is fetched. Gives the tables that are in use then.

    Raises OSError or ModuleNotFoundError for what cannot be read, TypeError or ValueError for what
    is wrong in it, or comes too late.
    """
    given = {"data": data, "profiles": profiles, "prices": prices, "limits": limits}
    given |= {"vocabularies": vocabularies, "aliases": aliases, "fallbacks": fallbacks}
    is_default = settings is None and all(value is None for value in given.values())
    if is_default and _DONE:
        return data_tables()
    if is_default:
        settings = os.environ.get(VARIABLE) or None
    if settings is not None:
        given = {**_settings(settings), **{key: it for key, it in given.items() if it is not None}}
    if is_default and given.get("data") is None:
        given["data"] = installed_bundle()
    _use(**given)
    _DONE[:] = [True]
    return data_tables()


def _use(
    *,
    data: Any = None,
    profiles: Any = None,
    prices: Any = None,
    limits: Any,
    vocabularies: Any,
    aliases: Any,
    fallbacks: Any,
) -> None:
    names = None if aliases is None else checked_aliases(aliases)
    others = None if fallbacks is None else checked_fallbacks(fallbacks)
    named = named_vocabularies(_counters({} if vocabularies is None else vocabularies), "profile")
    tables: dict[str, Any] = {} if data is None else dict(read_bundle(data)["tables"])
    if limits is not None:
        table = tables.get("limits") or read_table("limits")
        tables["limits"] = limits_table(table, read_overrides(limits))
    if tables:
        use_tables(tables)
    if profiles is not None:
        DEFAULTS.profiles = profile_rows(profiles)
    if prices is not None:
        (prices if isinstance(prices, Prices) else Prices(prices)).install()
    if named:
        DEFAULTS.vocabularies = dict(named)
    if names is not None:
        DEFAULTS.aliases = names
    if others is not None:
        DEFAULTS.fallbacks = others


def _settings(settings: Mapping[str, Any] | PathName) -> dict[str, Any]:
    """The keys of a file of settings and their values; its paths are relative to it."""
    if isinstance(settings, Mapping):
        return _checked(settings, "settings", None)
    path = Path(settings)
    with path.open("rb") as file:
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ValueError(f"{path.name} is above {_MAX_BYTES >> 20} MiB, the most of settings")
    try:
        table = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path.name} is no JSON file: {error}") from None
    if not isinstance(table, dict):
        raise ValueError(  # noqa: TRY004  # of a file, as all that is wrong with one
            f"{path.name} is a {type(table).__name__}; it must be an object with {', '.join(KEYS)}"
        )
    return _checked(table, path.name, path.parent)


def _checked(table: Mapping[str, Any], name: str, folder: Path | None) -> dict[str, Any]:
    for key in table:
        if key not in KEYS and key not in ("$schema", "about"):
            raise ValueError(f"{name} has the key {key!r}; the keys are {', '.join(KEYS)}")
    found: dict[str, Any] = {key: table.get(key) for key in KEYS}
    if folder is None:
        return found
    for key in KEYS:
        if isinstance(found[key], str) and not _is_package(key, found[key], folder):
            found[key] = folder / found[key]
    if isinstance(found["vocabularies"], dict):
        found["vocabularies"] = {
            model: folder / it
            if isinstance(it, str)
            else {**it, "file": folder / it["file"]}
            if isinstance(it, dict) and isinstance(it.get("file"), str)
            else it
            for model, it in found["vocabularies"].items()
        }
    return found


def _is_package(key: str, name: str, folder: Path) -> bool:
    is_name = all(word.isidentifier() for word in name.split("."))
    return key == "data" and is_name and not (folder / name).exists()


def _counters(vocabularies: Any) -> dict[str, TextCounter]:
    """The vocabularies, those of files read."""
    if not isinstance(vocabularies, Mapping):
        raise TypeError(
            f"vocabularies is a {type(vocabularies).__name__}; it must be a mapping of names"
        )
    return {name: _counter(name, it) for name, it in vocabularies.items()}


def _counter(name: str, it: Any) -> TextCounter:
    if isinstance(it, str | os.PathLike):
        return Encoding.from_tokenizer_json(it)
    if not isinstance(it, Mapping):
        return cast("TextCounter", it)  # which `named_vocabularies` looks at
    if set(it) != {"file", "split"}:
        raise ValueError(
            f"vocabulary {name!r} has {', '.join(map(repr, it)) or 'nothing'}; it must be the path "
            'of a tokenizer.json, or {"file": "ranks.tiktoken", "split": "o200k_base"}'
        )
    return Encoding.from_tiktoken(it["file"], split=it["split"])
