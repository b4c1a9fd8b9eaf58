"""Defaults of a process: one call, or one file for programs, commands and workers alike."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tokenctx._estimate.data import BUNDLE, bundle_of
from tokenctx._results.tables import read_table
from tokenctx.context.configuration import KEYS, configure

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Json = dict[str, Any]
BODY = {"model": "house-1", "messages": [{"role": "user", "content": "hi"}]}
PROFILE = {
    "name": "house",
    "like": "gpt-4o",
    "models": ["house-"],
    "message_tokens": 9,
    "source": "a test",
    "date": "2026-11-01",
    "confidence": "guessed",
}
PRICES = {"updated": "2026-11-20", "models": {"house-1": {"input": "7", "output": "8"}}}
LIMITS = {"updated": "2026-11-20", "models": {"house-1": 5000, "gpt-4o": 777}}
TELL = """
import sys, tokenctx
{given}
found = tokenctx.HybridTokenEstimator().estimate({body})
print(found.profile, found.tokens, found.limits.window_tokens, found.cost and found.cost.input)
print(tokenctx.context.model_limits("gpt-4o-2024-11-20").window_tokens)
print(tokenctx.ContextWindow("house-1").limits().source)
"""


def folder_of_settings(folder: Path) -> Path:
    """A file of settings, whose parts are files beside it."""
    (folder / "own").mkdir()
    (folder / "own/prices.json").write_text(json.dumps(PRICES), "utf-8")
    (folder / "own/profiles.json").write_text(json.dumps([PROFILE]), "utf-8")
    settings = {"profiles": "own/profiles.json", "prices": "own/prices.json", "limits": LIMITS}
    path = folder / "settings.json"
    path.write_text(json.dumps({"about": "of a test", **settings}), "utf-8")
    return path


def python(
    folder: Path, *words: str, settings: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own, whose bundles are installed in `folder`."""
    environment = {**os.environ, "TOKENCTX_DATA": str(folder / "installed")}
    if settings is not None:
        environment["TOKENCTX_SETTINGS"] = str(settings)
    command = [sys.executable, "-W", "ignore", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def command(folder: Path, *words: str, **given: Path) -> subprocess.CompletedProcess[str]:
    return python(folder, "-c", "from tokenctx._cli.main import main; main()", *words, **given)


@pytest.mark.parametrize("way", ["file", "arguments", "environment"])
def test_what_is_given_once_holds_for_the_whole_process(way: str, tmp_path: Path) -> None:
    path = folder_of_settings(tmp_path)
    given = {
        "file": f"tokenctx.configure({str(path)!r})",
        "arguments": f"tokenctx.configure(profiles={PROFILE}, prices={PRICES}, limits={LIMITS})",
        "environment": "tokenctx.configure()",
    }[way]
    code = TELL.format(given=given, body=BODY)
    done = python(tmp_path, "-c", code, settings=path if way == "environment" else None)
    assert done.stdout.splitlines() == ["house 13 5000 0.000091", "777", "caller, 2026-11-20"]


def test_an_argument_of_a_call_comes_first(tmp_path: Path) -> None:
    given = f"""
tokenctx.configure(profiles={PROFILE}, prices={PRICES}, limits={LIMITS})
own = {{**{PROFILE}, "message_tokens": 3}}
limits = tokenctx.ContextWindow("house-1", limits=99).limits()
print(tokenctx.HybridTokenEstimator(profiles=own).estimate({BODY}).tokens, limits.window_tokens)
"""
    done = python(tmp_path, "-c", TELL.format(given=given, body=BODY))
    assert done.stdout.splitlines()[0] == "7 99"


def test_vocabularies_of_a_file_of_settings_count(tmp_path: Path) -> None:
    from tokenctx._core import rank_file

    (tmp_path / "ranks.tiktoken").write_bytes(rank_file("cl100k_base"))
    ranks = {"file": "ranks.tiktoken", "split": "cl100k_base"}
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"vocabularies": {"house-": ranks}}), "utf-8")
    body = {
        **BODY,
        "messages": [{"role": "user", "content": "\u0441\u0438\u043d\u0435\u0435 " * 50}],
    }
    tell = f"; print(tokenctx.HybridTokenEstimator().estimate({body}).tokens)"
    plain = python(tmp_path, "-c", f"import tokenctx{tell}").stdout
    own = python(tmp_path, "-c", f"import tokenctx; tokenctx.configure({str(path)!r}){tell}").stdout
    assert int(own) > int(plain) + 20  # cl100k_base has fewer words of Russian


def test_a_file_has_the_names_that_gateways_use(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    own = {"aliases": {"fast": "gpt-4", "big": "gpt-4.1"}, "fallbacks": {"fast": ["big"]}}
    path.write_text(json.dumps(own), "utf-8")
    body = {"model": "fast", "messages": [{"role": "user", "content": "word " * 9000}]}
    code = f"""
import tokenctx
from tokenctx.gateway import Gateway
tokenctx.configure({str(path)!r})
for given in ({{}}, {{"aliases": {{}}, "fallbacks": {{}}}}):
    call = Gateway(tokenctx.HybridTokenEstimator(), **given).call({body})
    print(call.fallback, call.estimate.model, call.refusal)
"""
    assert python(tmp_path, "-c", code).stdout.split("\n")[:2] == [
        "big gpt-4.1 None",
        "None fast None",
    ]


def test_too_late_says_so(tmp_path: Path) -> None:
    code = f"""
import tokenctx
tokenctx.HybridTokenEstimator().estimate({BODY})
tokenctx.configure(limits={LIMITS})
"""
    last = python(tmp_path, "-c", code).stderr.splitlines()[-1]
    assert last.startswith("ValueError: limits: it is in use already")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "settings.json is a list; it must be an object with data, profiles"),
        ("{", "settings.json is no JSON file"),
        ('{"price": 1}', "settings.json has the key 'price'; the keys are data, profiles"),
        ('{"limits": {"x": "much"}}', "window_tokens is 'much'"),
        ('{"vocabularies": {"x": {"ranks": 1}}}', "it must be the path of a tokenizer.json"),
        ('{"vocabularies": []}', "vocabularies is a list"),
        ('{"aliases": {"fast": ""}}', "aliases has 'fast': ''; it must have names of models"),
        ('{"fallbacks": {"a": "b"}}', "fallbacks has 'a': 'b'; it must have lists of other models"),
        ('{"prices": {"models": {}}}', "updated"),
    ],
)
def test_wrong_settings_name_what_is_wrong(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(content, "utf-8")
    done = python(tmp_path, "-c", f"import tokenctx; tokenctx.configure({str(path)!r})")
    last = done.stderr.splitlines()[-1]
    assert last.startswith(("ValueError: ", "TypeError: "))
    assert message in last
    told = command(tmp_path, "profiles", "--settings", str(path))
    assert (told.returncode, message in told.stderr, "Traceback" in told.stderr) == (2, True, False)


def test_the_schema_has_the_keys_that_are_read(tmp_path: Path) -> None:
    schema = read_table("settings.schema")
    assert schema["properties"].keys() - {"$schema", "about"} == set(KEYS)
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid(json.loads(folder_of_settings(tmp_path).read_text("utf-8")))
    assert not validator.is_valid({"price": 1})


@pytest.mark.parametrize("place", ["before", "behind", "joined", "environment"])
def test_every_command_takes_the_settings(place: str, tmp_path: Path) -> None:
    path = folder_of_settings(tmp_path)
    body = tmp_path / "body.json"
    body.write_text(json.dumps(BODY), "utf-8")
    words = ["count", "--json", str(body)]
    given: dict[str, Path] = {}
    if place == "before":
        words = ["--settings", str(path), *words]
    elif place == "behind":
        words += ["--settings", str(path)]
    elif place == "joined":
        words += [f"--settings={path}"]
    else:
        given["settings"] = path
    told = json.loads(command(tmp_path, *words, **given).stdout)
    assert (told["profile"], told["tokens"], told["window_tokens"]) == ("house", 13, 5000)


def bundle(folder: Path) -> Path:
    """A bundle with one more limit."""
    table = read_table("limits")
    table["models"]["house-1"] = [12345, None, 678, "m"]
    path = folder / "bundle.json"
    path.write_text(json.dumps(bundle_of({"limits": table})), "utf-8")
    return path


def window(folder: Path) -> int | None:
    """The window of a model as the commands tell it."""
    body = folder / "body.json"
    body.write_text(json.dumps(BODY), "utf-8")
    told = command(folder, "count", "--json", str(body)).stdout
    tokens: int | None = json.loads(told)["window_tokens"]
    return tokens


@pytest.mark.slow
def test_a_bundle_is_installed_for_the_commands_and_removed(tmp_path: Path) -> None:
    path = bundle(tmp_path)
    assert window(tmp_path) is None
    wrong = command(tmp_path, "data", "--from", str(path), "--sha256", "0" * 64)
    assert (wrong.returncode, "nothing is changed" in wrong.stderr) == (1, True)
    assert window(tmp_path) is None
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    done = command(tmp_path, "data", "--from", str(path), "--sha256", digest)
    assert "house-1: nothing -> [12345, null, 678" in done.stdout
    assert window(tmp_path) == 12345
    code = TELL.format(given="tokenctx.configure()", body=BODY)
    assert " 12345 " in python(tmp_path, "-c", code).stdout
    code = TELL.format(given="", body=BODY)
    assert " None " in python(tmp_path, "-c", code).stdout  # never by itself
    command(tmp_path, "data", "--remove")
    assert window(tmp_path) is None


@pytest.mark.slow
def test_a_damaged_bundle_that_was_installed_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "installed").mkdir()
    (tmp_path / "installed" / BUNDLE).write_text("broken", "utf-8")
    for words in (("profiles",), ("data",)):
        told = command(tmp_path, *words)
        assert told.returncode in (1, 2)
        assert "tokenctx data --remove removes" in told.stderr
    assert command(tmp_path, "data", "--from", str(bundle(tmp_path))).returncode == 0
    assert window(tmp_path) == 12345


class Served(http.server.SimpleHTTPRequestHandler):
    """Gives a folder, or sends callers elsewhere."""

    def do_GET(self) -> None:  # the name is of the standard library
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", "http://example.invalid/")
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, *_: Any) -> None:  # the same
        pass


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    handler = lambda *words: Served(*words, directory=str(tmp_path))  # noqa: E731
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.slow
def test_a_bundle_comes_from_the_address_that_is_named(address: str, tmp_path: Path) -> None:
    bundle(tmp_path)
    assert command(tmp_path, "data", "--from", f"{address}/bundle.json").returncode == 0
    assert window(tmp_path) == 12345
    for wrong in (f"{address}/none.json", "http://example.com/x", "ftp://example.com/x", "nothing"):
        told = command(tmp_path, "data", "--from", wrong)
        assert (told.returncode, "Traceback" in told.stderr) == (1, False)
        assert wrong in told.stderr


def test_called_without_anything_it_gives_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENCTX_DATA", "/nowhere")
    assert [it.name for it in configure()] == ["profiles", "bounds", "limits", "prices"]
