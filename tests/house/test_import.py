"""`import tokenctx` is quiet: nothing is opened, started, written or loaded that is not its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# Runs in a fresh interpreter; an audit hook cannot be removed again.
PROBE = """
import json, os, sys, sysconfig

events, recording = [], True
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC


def record(event, arguments):
    if recording:
        writing = event == "open" and bool((arguments[2] or 0) & WRITING)
        events.append((event, str(arguments[0]) if arguments else "", writing))


homes = [os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")]
before = set(sys.modules)
sys.addaudithook(record)
import tokenctx

recording = False
tasks = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 1
report = {
    "events": events,
    "homes": [*homes, os.path.dirname(os.path.realpath(tokenctx.__file__))],
    "modules": sorted(set(sys.modules) - before),
    "tasks": tasks,
}
print(json.dumps(report))
"""
STARTING = {"_thread.start_new_thread", "_thread.start_joinable_thread", "subprocess.Popen"}
STARTING |= {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system"}
CHANGING = {"os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate", "os.putenv"}
OPTIONAL = {"asyncio", "blake3", "regex", "rich", "tiktoken", "typer"}


class Imported:
    """What happened while a fresh interpreter imported tokenctx."""

    def __init__(self) -> None:
        # -B: the interpreter's own bytecode cache is not what is asked about.
        command = [sys.executable, "-I", "-B", "-W", "error", "-c", PROBE]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        report = json.loads(done.stdout)
        self.events: list[tuple[str, str, bool]] = [tuple(event) for event in report["events"]]
        self.homes: tuple[str, ...] = tuple(report["homes"])
        self.modules: set[str] = set(report["modules"])
        self.tasks: int = report["tasks"]


@pytest.fixture(scope="module")
def imported() -> Imported:
    return Imported()


def test_the_probe_sees_the_import(imported: Imported) -> None:
    assert "tokenctx._core" in imported.modules
    assert any(event == "import" and what == "tokenctx" for event, what, _ in imported.events)
    assert any(event == "open" for event, _, _ in imported.events)


def test_import_opens_no_socket(imported: Imported) -> None:
    assert not [event for event, _, _ in imported.events if event.startswith(("socket", "urllib"))]


def test_import_starts_no_thread_and_no_process(imported: Imported) -> None:
    assert not [event for event, _, _ in imported.events if event in STARTING]
    assert imported.tasks == 1


def test_import_writes_nothing(imported: Imported) -> None:
    assert not [what for _, what, writing in imported.events if writing]
    assert not [event for event, _, _ in imported.events if event in CHANGING]


def test_import_opens_only_files_of_the_package_and_the_standard_library(
    imported: Imported,
) -> None:
    opened = [what for event, what, _ in imported.events if event == "open"]
    assert not [path for path in opened if not path.startswith(imported.homes)]


def test_import_loads_no_optional_package(imported: Imported) -> None:
    assert not OPTIONAL & imported.modules


DEBUG_BUILD = """
import importlib, warnings
import tokenctx

tokenctx._core._debug_build = True
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    importlib.reload(tokenctx)
print(*(f"{warning.category.__name__}: {warning.message}" for warning in caught))
"""


def test_a_debug_build_warns() -> None:
    command = [sys.executable, "-I", "-W", "error", "-c", DEBUG_BUILD]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("RuntimeWarning: tokenctx._core is a debug build")


# What the wheel alone gives: neither the tests nor the packages that they need can be imported.
ALONE = """
import importlib, pkgutil, sys

BLOCKED = ("blake3", "regex", "reference", "tokenctx.reference")


class Wall:
    def find_spec(self, name, path=None, target=None):
        if name in BLOCKED:
            raise ModuleNotFoundError(f"{name} is not in the wheel", name=name)


sys.meta_path.insert(0, Wall())
import tokenctx

OPTIONAL = {"duckdb", "numpy", "pyarrow", "pyspark", "typer", "rich", "redis", "tokenizers"}
FRAMEWORKS = "tokenctx.integrations."  # each needs its own, which is not asked for here
for module in pkgutil.walk_packages(tokenctx.__path__, "tokenctx."):
    if module.name.startswith(FRAMEWORKS):
        continue
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        if error.name.partition(".")[0] not in OPTIONAL:
            raise
for name in tokenctx.__all__:
    getattr(tokenctx, name)
body = {"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": "hello"}]}
estimator = tokenctx.HybridTokenEstimator()
assert estimator.record(body, estimator.estimate(body).tokens)
assert estimator.estimate(body).source == "exact"
assert tokenctx.count_tokens("hello world") == len(tokenctx.encodings.encode("hello world")) == 2
assert tokenctx.context.model_limits("gpt-4o")
assert tokenctx.ContextWindow("gpt-4o").usage(body)
assert not [name for name in sys.modules if name.partition(".")[0] in BLOCKED]
print("alone")
"""


@pytest.mark.slow
def test_every_public_name_and_module_works_without_the_reference_and_its_packages() -> None:
    command = [sys.executable, "-I", "-W", "error", "-c", ALONE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("alone\n", "")


def test_stats_are_of_all_estimators_that_are_alive() -> None:
    program = (
        "import gc, tokenctx as t; print(t.stats());"
        "body = {'model': 'gpt-4o', 'messages': [{'role': 'user', 'content': 'hello'}]};"
        "one, two = t.HybridTokenEstimator(), t.HybridTokenEstimator();"
        "one.record(body, 8); two.record(body, 8); two.estimate(body);"
        "print(t.stats()['recorded'], t.stats()['exact']); del two; gc.collect();"
        "print(t.stats() == one.stats())"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["{}", "2 1", "True"]


PAGES = """
import random, resource, sys
from tokenctx import HybridTokenEstimator
from tokenctx.encodings import count_tokens_batch


def texts(seed):
    letters = random.Random(seed)
    words = ["".join(letters.choices("abcdefghij", k=7)) for _ in range(20_000)]
    return [" ".join(words[at : at + 10]) for at in range(0, len(words), 10)]


def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


if "counted" in sys.argv:
    count_tokens_batch(texts(1), encoding="o200k_base")
estimator = HybridTokenEstimator(secret=b"pages")
body = {"model": "gpt-4o", "messages": [{"role": "user", "content": it} for it in texts(2)]}
before = faults()
estimator.estimate(body)
print(faults() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of pages like this")
def test_the_first_estimate_finds_the_memory_made_that_counts_are_remembered_in() -> None:
    """It waits for about as few pages as one in a process that has counted before."""

    def faults(*words: str) -> int:
        command = [sys.executable, "-c", PAGES, *words]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    # 192 pages, each of which is met twice where it is not made: read, then written to. Half of
    # these faults are the bound: an emulator of another processor has up to 156 of its own.
    assert faults() < faults("counted") + 192
