"""The documents do what they say: blocks run, commands, paths and links exist, sizes are kept."""

from __future__ import annotations

import ast
import functools
import gzip
import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import assumption_tables
from pages import (
    ROOT,
    blocks,
    broken_links,
    each_document,
    each_page,
    prose,
    python_sources,
    spans,
)
from tokenctx._estimate.data import bundle_of
from tokenctx._results.tables import read_table, table_path

DATA = ROOT / "tests" / "data"
MOST_BYTES = {"README.md": 8_000, "DESIGN.md": 18_000}
KINDS = {"python", "sh", "json", "text"}
"""What a block may be; `text` is a diagram or a formula, and nothing is asked of it."""
TOP_FOLDERS = (".ci", "benches", "docs", "licenses", "python", "src", "tests")
REQUEST = '{"model": "gpt-4o", "messages": [{"role": "user", "content": "Why is the sky blue?"}]}\n'
EXAMPLES = {
    "prompt.txt": b"Why is the sky blue?\n",
    "request.json": REQUEST.encode(),
    "session.json": table_path("agent-session").read_bytes(),
    "calls.jsonl": (DATA / "recorded-calls.jsonl").read_bytes(),
    "calls.jsonl.gz": gzip.compress((DATA / "recorded-calls.jsonl").read_bytes()),
    "sessions.jsonl.gz": b"",
    "bundle.json": json.dumps(bundle_of({"limits": read_table("limits")})).encode(),
    "tokenctx-data.json": b"",
    "settings.json": json.dumps({"limits": {"our-model": 64_000}}).encode(),
    "tokenizer.json": b"",
}
"""Files of the reader that commands and prose may name."""
FOREIGN = {
    "decode_responses",
    "stream_options",
    "socket_timeout",
    "connection_timeout",
    "reconnect_strategy",
    *("TIKTOKEN_CACHE_DIR", "MODEL_TO_ENCODING", "list_encoding_names", "num_threads"),
    *("is_elementwise", "encode_to_numpy", "encode_with_unstable", "num_tokens_from_messages"),
    *("use_default_image_token_count", "custom_tokenizer", "create_pretrained_tokenizer"),
    *("custom_llm_provider", "get_max_tokens", "get_model_info"),
    *("get_num_tokens_from_messages", "get_num_tokens", "get_token_ids"),
    *("http_options", "httpx_client", "httpx_async_client", "usage_limits", "run_config"),
    *("ModelSettings", "TokenCounter", "ContextWindowExceededError"),
}
"""Options and functions of others that our code does not name; more of them: add them here."""


FRAMEWORKS = (
    *("agents", "haystack", "langchain", "langchain_openai", "litellm", "llama_index.core"),
    *("duckdb", "pyarrow", "pydantic_ai", "strands"),
)
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # its import asks the network else


def is_of_a_kind(page: str) -> bool:
    """Whether every block is of a kind that is checked, closed, and fenced."""
    fences = re.findall(r"^ *(?:```|~~~).*$", page, re.MULTILINE)
    opening, closing = fences[::2], fences[1::2]
    is_indented = re.search(r"^(?![-|\d]).*\n\n {4}\S", prose(page), re.MULTILINE)
    return (
        {fence.removeprefix("```") for fence in opening} <= KINDS
        and set(closing) <= {"```"}
        and len(opening) == len(closing)
        and not is_indented
    )


@each_page
def test_every_block_is_of_a_kind_that_is_checked(path: Path) -> None:
    assert is_of_a_kind(path.read_text("utf-8"))


def run_python(source: str, names: dict[str, Any]) -> list[tuple[str, str]]:
    """What an expression with a comment is, and what its comment says it is."""
    lines, pairs = source.splitlines(), []
    for node in ast.parse(source).body:
        comment = lines[(node.end_lineno or 1) - 1][node.end_col_offset :].strip()
        if isinstance(node, ast.Expr) and comment.startswith("# "):
            code = compile(ast.Expression(node.value), "page", "eval")
            pairs.append((repr(eval(code, names)), comment.removeprefix("# ")))  # noqa: S307
        else:
            exec(compile(ast.Module([node], []), "page", "exec"), names)  # noqa: S102
    return pairs


def outputs(page: str) -> list[tuple[str, str]]:
    """The pairs of all Python blocks of a page, which share their names."""
    names: dict[str, Any] = {}
    return [pair for source in python_sources(page) for pair in run_python(source, names)]


@each_page
def test_every_python_block_gives_the_output_beside_it(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some write files
    for framework in FRAMEWORKS if path == ROOT / "docs" / "integrations.md" else ():
        pytest.importorskip(framework, reason="python3 dev.py clients has it")
    pairs = outputs(path.read_text("utf-8"))
    assert [actual for actual, _ in pairs] == [stated for _, stated in pairs]
    assert pairs or "```python" not in path.read_text("utf-8")


@each_page
def test_every_json_block_parses(path: Path) -> None:
    for block in blocks(path.read_text("utf-8")):
        if block.kind == "json":
            json.loads(block.source)


@functools.cache
def runner_help(*words: str) -> str:
    """What dev.py says of its targets, or of a target; nothing of one that is not there."""
    command = [sys.executable, "dev.py", *words, "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def is_target(words: list[str]) -> bool:
    """Whether dev.py has the target that a command names, and the study."""
    match [word for word in words if re.fullmatch(r"[a-z_]+", word)]:
        case ["study", name, *_]:
            return re.search(rf"\b{name}\b", runner_help("study")) is not None
        case [target, *_]:
            return re.search(rf"^ +{target}\b", runner_help(), re.MULTILINE) is not None
    return True


def test_every_study_that_can_be_run_has_a_command() -> None:
    scripts = (ROOT / "benches" / "studies").glob("*.py")
    runs = {path.stem for path in scripts if '__name__ == "__main__"' in path.read_text("utf-8")}
    assert [name for name in sorted(runs) if not is_target(["study", name])] == ["peer_worker"]


def extras() -> set[str]:
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    table = re.search(r"^\[project\.optional-dependencies\]$(.*?)^\[", project, re.M | re.S)
    return set(re.findall(r"^(\w+) = ", table[1] if table else "", re.MULTILINE))


def program() -> str:
    found = shutil.which("tokenctx", path=str(Path(sys.executable).parent))
    assert found is not None, "the command is not installed beside this Python"
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files of the reader."""
    for name, content in EXAMPLES.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def run_command(line: str, folder: Path) -> None:
    """Run a line of a shell block if that can be done here, else see that what it names exists."""
    words = shlex.split(line, comments=True)
    match words:
        case ["tokenctx", "serve", *rest]:  # which would not end
            options = {word for word in rest if word.startswith("--")}
            assert all(option in command_help("serve") for option in options), line
        case ["curl", *_]:
            pass  # tests/gateway/test_serve.py asks a server with it
        case ["tokenctx", *rest]:
            home = {**os.environ, "TOKENCTX_DATA": str(folder / "installed")}
            done = subprocess.run(
                [program(), *rest], cwd=folder, capture_output=True, check=False, env=home
            )
            assert done.returncode == 0, (line, done.stderr.decode())
        case ["python3", "dev.py", *rest]:
            assert is_target(rest), line
        case ["pip", "install", what]:
            assert set(re.findall(r"\w+", what.partition("[")[2])) <= extras(), line
        case _:
            pytest.fail(f"a command that this test does not know: {line}")


@pytest.mark.slow
@each_page
def test_every_command_of_a_shell_block_runs(path: Path, folder: Path) -> None:
    for block in blocks(path.read_text("utf-8")):
        if block.kind == "sh":
            for line in block.source.splitlines():
                run_command(line, folder)


@functools.cache
def command_help(command: str) -> str:
    words = [program(), command, "--help"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def unknown_commands(page: str) -> list[str]:
    """Commands in the prose of a page that do not exist, or not with these options."""
    unknown = []
    for span in spans(page):
        words = span.removeprefix("python3 ").split()
        if words[0] == "dev.py" and len(words) > 1 and not is_target(words[1:]):
            unknown.append(span)
        if words[0] == "tokenctx" and len(words) > 1 and words[1].islower():
            options = [word for word in words[2:] if word.startswith("--")]
            if not all(option in command_help(words[1]) for option in options):
                unknown.append(span)
    return unknown


@each_document
def test_every_command_in_the_prose_exists(path: Path) -> None:
    assert unknown_commands(path.read_text("utf-8")) == []


@functools.cache
def file_names() -> set[str]:
    """The names of all files of the checkout that a document may name without their folder."""
    files = [path for folder in TOP_FOLDERS for path in (ROOT / folder).rglob("*.*")]
    return {path.name for path in [*files, *ROOT.iterdir()] if path.is_file()}


def missing_paths(page: str) -> list[str]:
    """Paths in backticks that are not there; a name without a folder may be anywhere."""
    code = [*spans(page), *(block.source for block in blocks(page) if block.kind == "text")]
    words = [word.rstrip(",.;:") for span in code for word in span.split()]
    missing = []
    for word in words:
        if re.fullmatch(rf"(?:{'|'.join(map(re.escape, TOP_FOLDERS))})/[\w./-]*", word):
            is_there = (ROOT / word).is_dir() if word.endswith("/") else (ROOT / word).is_file()
        elif re.fullmatch(r"[\w-]+\.(?:gz|html|json|jsonl|jsonl\.gz|lock|md|py|rs|toml|txt)", word):
            is_there = word in file_names() | set(EXAMPLES)
        else:
            continue
        if not is_there:
            missing.append(word)
    return missing


@each_document
def test_every_path_that_a_document_names_is_there(path: Path) -> None:
    assert missing_paths(path.read_text("utf-8")) == []


@each_document
def test_every_link_leads_somewhere(path: Path) -> None:
    assert broken_links(path.read_text("utf-8"), path.parent) == []


def is_in_package(name: str) -> bool:
    """Whether `tokenctx.a.b` is there: a module, or a name in one."""
    try:
        importlib.import_module(name)
    except ImportError as error:
        if error.name is not None and not error.name.startswith("tokenctx"):
            return True  # a module that is there, and whose framework is not
        module, _, attribute = name.rpartition(".")
        return is_in_package(module) and hasattr(importlib.import_module(module), attribute)
    return True


@functools.cache
def metric_names() -> frozenset[str]:
    """The names of metrics, as both exporters write them; test_metrics.py holds the page."""
    from tokenctx._estimate.metric_table import INSTRUMENTS

    plain = {row.prometheus_name for row in INSTRUMENTS}
    return frozenset({row.name for row in INSTRUMENTS} | plain | {f"{it}_total" for it in plain})


def unknown_names(page: str) -> list[str]:
    """Names below `tokenctx.` in backticks that the package does not have."""
    names = re.findall(r"^tokenctx(?:\.[a-z_][a-z0-9_]*)+", "\n".join(spans(page)), re.MULTILINE)
    return [name for name in names if name not in metric_names() and not is_in_package(name)]


@functools.cache
def code_words() -> set[str]:
    """Every identifier of the code and its data."""
    files = [
        path for top in ("src", "python", "benches", "tasks") for path in (ROOT / top).rglob("*.*")
    ]
    kept = [path for path in [*files, ROOT / "dev.py"] if path.suffix in {".rs", ".py", ".json"}]
    return {word for path in kept for word in re.findall(r"\w+", path.read_text("utf-8"))}


def unknown_identifiers(page: str) -> list[str]:
    """Identifiers in backticks, told by underscore or capital, that are nowhere in the code."""
    form = r"[a-z]+(?:_[a-z0-9]+)+|[A-Z]+(?:_[A-Z]+)*|[A-Z][a-z]+(?:[A-Z][a-z]+)+"
    names = [re.sub(r"\(.*|=.*|\.\w+$", "", span) for span in spans(page)]
    return [
        name
        for name in names
        if re.fullmatch(form, name) and name not in code_words() | FOREIGN | metric_names()
    ]


@each_page
def test_every_identifier_that_a_page_names_is_in_the_code(path: Path) -> None:
    assert unknown_identifiers(path.read_text("utf-8")) == []


@each_page
def test_every_name_of_the_package_is_there(path: Path) -> None:
    assert unknown_names(path.read_text("utf-8")) == []


def test_every_field_of_a_profile_that_is_explained_is_one() -> None:
    page = (ROOT / "docs" / "profiles.md").read_text("utf-8")
    rows = re.findall(r"^\| (`[a-z_]+`(?:, `[a-z_]+`)*) \|", page, re.MULTILINE)
    fields = {field for row in rows for field in re.findall(r"[a-z_]+", row)}
    rooms = [ROOT / "src" / room for room in ("profile", "layout")]
    code = "\n".join(file.read_text("utf-8") for room in rooms for file in room.glob("*.rs"))
    assert len(fields) > 30
    assert sorted(field for field in fields if not re.search(rf"\b{field}\b", code)) == []


def test_every_public_name_of_tiktoken_is_on_the_page() -> None:
    import tiktoken

    page = (ROOT / "docs" / "migration.md").read_text("utf-8")
    named = set(re.findall(r"\w+", " ".join(spans(page))))
    rooms = (tiktoken, tiktoken.Encoding)
    public = {
        name
        for room in rooms
        for name, value in vars(room).items()
        if not isinstance(value, ModuleType)
    }
    assert len(public) > 30
    assert sorted(name for name in public if not name.startswith("_") and name not in named) == []


WORD = r'"([a-z0-9]+(?:_[a-z0-9]+)+)"'
EMITTED = {
    "named where it is found": r'(?:insert|push|assume)\(\s*"([a-z0-9]+(?:_[a-z0-9]+)+)"',
    "chosen by kind": r"assumptions\s*\.insert\(match [^;]*;",
    "with a price": r'(?:=> |=> match [^}]*\()\(?("flat_[a-z]+"), self',
    "a constant": r"const (?:FAILED_VOCABULARY|UNKNOWN_FIELD|COMPACTED|OPAQUE): &str = [^;]*;",
    "of the JSON": r"const NAMES: \[\(Anomalies[^;]*; \d\] = [^;]*;",
}
"""How the core names an assumption: places in its sources that hold the names."""


def assumptions_of_the_core() -> set[str]:
    """Every name that an estimate or a count may have among its assumptions."""
    rooms = ("count", "engine", "json", "request")
    files = [path for room in rooms for path in sorted((ROOT / "src" / room).rglob("*.rs"))]
    code = "\n".join(path.read_text("utf-8") for path in files)
    found: set[str] = set()
    for way, pattern in EMITTED.items():
        places = [match[0] for match in re.finditer(pattern, code)]
        names = {name for place in places for name in re.findall(WORD, place)}
        assert names, f"no assumption is {way} any more: mend the pattern"
        found |= names
    return found


def test_every_assumption_of_the_core_has_a_row() -> None:
    """The command and the page are made of these rows, so it is in words on both."""
    emitted = sorted(assumptions_of_the_core())
    rows = [it for section in read_table("assumptions")["sections"] for it in section["rows"]]
    assert len(emitted) > 30
    assert sorted(it["name"] for it in rows) == emitted
    assert all(it["brief"] and it["meaning"] and it["remedy"] for it in rows)


def test_the_page_of_assumptions_is_made_of_the_table() -> None:
    written = assumption_tables.FILE.read_text("utf-8")
    command = "python tests/rigs/assumption_tables.py --write"
    assert written == assumption_tables.page(), command


@pytest.mark.parametrize("top", ["src", "python/tokenctx"])
def test_every_room_stands_in_the_design(top: str) -> None:
    design = (ROOT / "DESIGN.md").read_text("utf-8")
    folders = [path for path in (ROOT / top).iterdir() if path.is_dir() and any(path.rglob("*.*"))]
    rooms = {f"{top}/{path.name}/" for path in folders if path.name != "__pycache__"}
    assert sorted(room for room in rooms if f"\n| `{room}`" not in design) == []


@pytest.mark.parametrize("name", MOST_BYTES)
def test_a_document_is_no_longer_than_it_may_be(name: str) -> None:
    assert (ROOT / name).stat().st_size <= MOST_BYTES[name]


@each_page
def test_a_page_is_called_by_its_title(path: Path) -> None:
    words = re.findall(r"\[([^\]]*\.md)\]\(", path.read_text("utf-8"))
    assert not words, "write the title of the page in place of the name of its file"


def test_there_are_no_more_pages_than_one_can_find_the_way_in() -> None:
    assert len([*(ROOT / "docs").rglob("*.md")]) <= 31  # with the index


def test_the_index_has_every_page() -> None:
    index, docs = (ROOT / "docs" / "README.md").read_text("utf-8"), ROOT / "docs"
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")} - {"README.md"}
    assert sorted(name for name in pages if f"({name})" not in index) == []


@pytest.mark.parametrize("command", ["demo", "test"])
def test_the_two_commands_are_in_the_first_screen_and_exist(command: str) -> None:
    first_screen = (ROOT / "README.md").read_text("utf-8").splitlines()[:60]
    assert f"python3 dev.py {command}" in "\n".join(first_screen)
    assert runner_help(command)


# The checks themselves: each finds what is wrong


@pytest.mark.parametrize(
    "page",
    [
        "```js\n1\n```\n",
        "```\n1\n```\n",
        "```python\n1\n",
        "~~~\n1\n~~~\n",
        "text:\n\n    1 + 1\n",
    ],
)
def test_a_block_of_another_kind_is_found(page: str) -> None:
    assert not is_of_a_kind(page)


def test_a_wrong_output_and_an_exception_are_found() -> None:
    assert outputs("```python\na = 1\n```\n\n```python\na + 1  # 3\n```\n") == [("2", "3")]
    with pytest.raises(ZeroDivisionError):
        outputs("```python\n1 / 0\n```\n")


@pytest.mark.parametrize(
    "line",
    [
        "tokenctx count missing.txt",
        "tokenctx moon",
        "python3 dev.py moon",
        "python3 dev.py study moon",
        "pip install '.[moon]'",
        "rm -r /",
    ],
)
def test_a_wrong_command_is_found(line: str, folder: Path) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception, subprocess.CalledProcessError)):
        run_command(line, folder)


def test_wrong_commands_paths_links_and_names_in_the_prose_are_found() -> None:
    assert unknown_commands("`tokenctx count --moon` `tokenctx count --json`") == [
        "tokenctx count --moon"
    ]
    assert unknown_commands("`python3 dev.py moon` `dev.py test -k x`") == ["python3 dev.py moon"]
    assert missing_paths("`src/moon.rs`, `src/json/`, `src/json`, `moon.json` and `dev.py`") == [
        "src/moon.rs",
        "src/json",
        "moon.json",
    ]
    assert missing_paths("```text\nsrc/moon/  craters\n```\n") == ["src/moon/"]
    assert broken_links("# A b\n[x](#a-b) [y](#moon) [z](moon.md) [u](dev.py)", ROOT) == [
        "#moon",
        "moon.md",
    ]
    assert unknown_names("`tokenctx.moon` `tokenctx.stats()` `tokenctx.convert.mime`") == [
        "tokenctx.moon"
    ]
    assert unknown_identifiers(
        "`moon_tokens`, `MoonBatch`, `ttl_seconds`, `moon`, `UNDER_MOON`"
    ) == [
        "moon_tokens",
        "MoonBatch",
        "UNDER_MOON",
    ]
