"""Text to count: the same bytes in every run on one installation, most of it written by people.

English is docstrings and comments; code is Python; JSON is what tools answer about that code, tool
calls and records; multilingual text is translations of Django and Sphinx and sentences of Faker's
words, as much of each, if these are installed. Letters are what nobody wrote: made-up words of some
Unicode blocks. Messages are pieces of all but these. No two corpora share a file, so that one does
not warm a cache for another.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import itertools
import json
import random
import re
import sysconfig
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from conversations import agent_conversation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MB: Final = 1_000_000
BLOCK_BYTES: Final = 250_000
MESSAGE_BYTES: Final = (200, 4_000)
MESSAGE_MIX: Final = {"english": 25, "code": 30, "json": 30, "multilingual": 10, "made-up": 5}
PACKAGES: Final = (
    *("numpy", "django", "faker", "matplotlib", "hypothesis", "pydantic", "pip"),
    *("networkx", "sphinx", "sympy"),
)

# Tenths of all files; the translations that no message has are the multilingual text.
SHARES: Final = {"english": range(6), "code": {7}, "json": {8}, "messages": {6, 9}}

# First and last letter of a script, and what stands between its words.
SCRIPTS: Final = (
    (0x4E00, 0x9FA5, ""),
    (0x3041, 0x3096, ""),
    (0xAC00, 0xD7A3, " "),
    (0x0E01, 0x0E2E, ""),
    (0x0905, 0x0939, " "),
    (0x0985, 0x09A8, " "),
    (0x0621, 0x064A, " "),
    (0x05D0, 0x05EA, " "),
    (0x0430, 0x044F, " "),
    (0x03B1, 0x03C9, " "),
    (0x10D0, 0x10F0, " "),
    (0x0B85, 0x0BB9, " "),
    (0x1780, 0x17A2, ""),
    (0x00E0, 0x00FF, " "),
)


def take(kind: str, byte_count: int, *, skip: int = 0) -> list[str]:
    """About `byte_count` bytes of `kind` after the first `skip`: blocks of 250 KB, or messages."""
    blocks: list[str] = []
    place, end = 0, skip + byte_count
    for block in itertools.chain.from_iterable(_endless(kind)):
        length = len(block.encode())
        if place >= end:
            break
        if place >= skip:
            blocks.append(block)
        place += length
    return blocks


def fingerprint(blocks: list[str]) -> str:
    """Eight hex digits that differ when the text does: only equal ones can be compared."""
    whole = hashlib.sha256("\0".join(blocks).encode())
    return whole.hexdigest()[:8]


def byte_length(blocks: list[str]) -> int:
    return sum(len(block.encode()) for block in blocks)


def _endless(kind: str) -> Iterator[Iterator[str]]:
    """The corpus once more with other seeds, for ever: files repeat, in another order.

    Ends at once if nothing is installed that it is made of.
    """
    for seed in itertools.count():
        blocks = KINDS[kind](random.Random(f"{kind} {seed}"))
        if (first := next(blocks, None)) is None:
            return
        yield itertools.chain([first], blocks)


def _blocks(documents: Iterator[str]) -> Iterator[str]:
    """`documents` joined and cut again at about 250 KB."""
    block: list[str] = []
    length = 0
    for document in documents:
        block.append(document)
        length += len(document.encode())
        if length >= BLOCK_BYTES:
            yield from _cut("\n".join(block))
            block, length = [], 0
    if block:
        yield from _cut("\n".join(block))


def _cut(text: str) -> Iterator[str]:
    count = max(1, round(len(text.encode()) / BLOCK_BYTES))
    step = -(-len(text) // count)
    for start in range(0, len(text), step):
        yield text[start : start + step]


def _folders() -> list[Path]:
    specs = (importlib.util.find_spec(name) for name in PACKAGES)
    found = [Path(spec.origin).parent for spec in specs if spec and spec.origin]
    return [Path(sysconfig.get_path("stdlib")), *found]


def _in_share(name: str, share: str) -> bool:
    """Whether the file of that name belongs to the share: every file belongs to one."""
    return hashlib.sha256(name.encode()).digest()[0] % 10 in SHARES[share]


def _python_files(share: str, random_: random.Random) -> list[Path]:
    """The files of a share in a seeded order."""
    files: list[tuple[str, Path]] = []
    for folder in _folders():
        for path in folder.rglob("*.py"):
            name = path.relative_to(folder).as_posix()
            if "site-packages" not in name and _in_share(name, share):
                files.append((f"{folder.name}/{name}", path))
    files.sort()
    random_.shuffle(files)
    return [path for _, path in files]


def _read(path: Path) -> str:
    """The file, or nothing if it is no UTF-8 or so large that it is data."""
    try:
        text = path.read_text("utf-8")
    except (UnicodeDecodeError, OSError):
        return ""
    return text if len(text) < MB else ""


def _syntax(path: Path) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(_read(path))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def english(random_: random.Random, share: str = "english") -> Iterator[str]:
    """Docstrings and runs of comments of three lines and more."""
    for path in _python_files(share, random_):
        comments = re.findall(r"(?:^ *# \w.*\n){3,}", _read(path), re.MULTILINE)
        yield from (re.sub(r"^ *# ?", "", run, flags=re.MULTILINE) for run in comments)
        for node in ast.walk(_syntax(path)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node) or ""
                if len(text) > 150:
                    yield text + "\n"


def code(random_: random.Random, share: str = "code") -> Iterator[str]:
    """Python files."""
    for path in _python_files(share, random_):
        text = _read(path)
        if text.count("\\x") + text.count("\\u") < 200:  # tables of data are no code
            yield text


def json_texts(random_: random.Random, share: str = "json") -> Iterator[str]:
    """What a language server, a database and a model that calls tools send."""
    for path in _python_files(share, random_):
        lines = _read(path).splitlines()
        for node in ast.walk(_syntax(path)):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                yield _dumped(random_, _symbol(path.name, node, lines))
                yield _dumped(random_, _record(random_, node.name))
                if random_.random() < 0.3:
                    yield _dumped(random_, _tool_call(random_, path.name, node, lines))


def _dumped(random_: random.Random, value: object) -> str:
    """Half of it compact, half indented, as clients send it."""
    if random_.random() < 0.5:
        return json.dumps(value, separators=(",", ":"))
    return json.dumps(value, indent=2)


def _symbol(file: str, node: ast.ClassDef | ast.FunctionDef, lines: list[str]) -> dict[str, Any]:
    names = [child.id for child in ast.walk(node) if isinstance(child, ast.Name)]
    return {
        "kind": type(node).__name__,
        "name": node.name,
        "location": {"uri": f"file:///srv/app/{file}", "line": node.lineno, "end": node.end_lineno},
        "documentation": (ast.get_docstring(node) or "")[:400],
        "references": sorted(set(names))[:20],
        "preview": lines[node.lineno - 1 : node.lineno + 3],
    }


def _record(random_: random.Random, name: str) -> dict[str, Any]:
    return {
        "id": f"{random_.getrandbits(128):032x}",
        "created_at": f"2026-{random_.randrange(1, 13):02}-{random_.randrange(1, 29):02}T10:15:00Z",
        "user": {"login": f"{name.lower()}{random_.randrange(1000)}", "admin": False, "team": None},
        "amount": round(random_.random() * 1e4, 2),
        "vector": [round(random_.gauss(0, 1), 4) for _ in range(random_.randrange(8))],
        "tags": random_.sample(["new", "paid", "eu-west", "beta", "internal"], k=2),
        "status": random_.choice(["active", "pending", "failed"]),
        "retries": random_.randrange(5),
    }


def _tool_call(
    random_: random.Random, file: str, node: ast.ClassDef | ast.FunctionDef, lines: list[str]
) -> dict[str, Any]:
    source = "\n".join(lines[node.lineno - 1 : node.end_lineno])[:2000]
    arguments = {"path": f"src/{file}", "old_text": source[:200], "new_text": source}
    call_id = f"call_{random_.getrandbits(96):024x}"
    function = {"name": "replace_in_file", "arguments": json.dumps(arguments)}
    return {"id": call_id, "type": "function", "function": function}


def multilingual(random_: random.Random, share: str = "english") -> Iterator[str]:
    """Translations and sentences of some hundred languages, as many bytes of each."""
    given = dict.fromkeys((_translations(random_, share), _sentences(random_)), 0)
    while given:
        source = min(given, key=lambda source: given[source])
        text = next(source, None)
        if text is not None:
            given[source] += len(text.encode())
            yield text
        elif given.pop(source):
            return


def _translations(random_: random.Random, share: str) -> Iterator[str]:
    catalogues = [
        (f"{folder.name}/{path.relative_to(folder).as_posix()}", path)
        for folder in _folders()
        for path in folder.rglob("locale/*/LC_MESSAGES/*.po")
    ]
    catalogues.sort()
    random_.shuffle(catalogues)
    for name, path in catalogues:
        if path.parts[-3] != "en" and _in_share(name, "messages") == (share == "messages"):
            strings = re.findall(r'^msgstr (".*"(?:\n".*")*)', _read(path), re.MULTILINE)
            joined = (re.sub(r'"\n"|^"|"$', "", text) for text in strings)
            text = "\n".join(text for text in joined if text and "Content-Type" not in text)
            if len(text) > 100:
                yield text


def _sentences(random_: random.Random) -> Iterator[str]:
    """Paragraphs of about 2 KB of one language each."""
    lists = [words for words in map(_word_list, _lorem_modules()) if words]
    while lists:
        words = random_.choice(lists)
        joint = "" if ord(words[0][0]) > 0x3000 else " "
        stop = "。" if not joint else ". "
        lengths = (random_.randrange(4, 15) for _ in range(20))
        yield stop.join(joint.join(random_.choices(words, k=length)) for length in lengths)


def _lorem_modules() -> list[str]:
    spec = importlib.util.find_spec("faker")
    if not spec or not spec.origin:
        return []
    folder = Path(spec.origin).parent / "providers" / "lorem"
    return [f"faker.providers.lorem.{path.parent.name}" for path in sorted(folder.glob("*_*/*.py"))]


def _word_list(module: str) -> list[str]:
    return list(getattr(importlib.import_module(module).Provider, "word_list", ()))


def letters(random_: random.Random) -> Iterator[str]:
    """Made-up words of one script each; few of them are in any vocabulary."""
    while True:
        first, last, joint = random_.choice(SCRIPTS)
        alphabet = [chr(random_.randint(first, last)) for _ in range(24)]  # a language uses few
        lengths = (random_.randrange(1, 9) for _ in range(100))
        words = ("".join(random_.choices(alphabet, k=length)) for length in lengths)
        yield joint.join(words) + random_.choice(["。", ". ", "? ", " 👍\n", "!\n"])


def messages(random_: random.Random) -> Iterator[str]:
    """Texts of 200 B to 4 KB, as an agent sends them one by one: `MESSAGE_MIX`, by their number."""
    share = "messages"
    sources: dict[str, Iterator[str]] = {
        "english": _blocks(english(random_, share)),
        "code": _blocks(code(random_, share)),
        "json": _blocks(json_texts(random_, share)),
        "multilingual": _blocks(multilingual(random_, share)),
        "made-up": itertools.cycle([_conversation_text()]),
    }
    rest = {name: text for name, source in sources.items() if (text := next(source, ""))}
    mix = {name: share for name, share in MESSAGE_MIX.items() if name in rest}
    while True:
        (name,) = random_.choices(list(mix), list(mix.values()))
        least, most = MESSAGE_BYTES
        length = int(least * (most / least) ** random_.random())
        if name == "multilingual":
            length //= 2  # characters of two bytes and more
        if len(rest[name]) < length:
            more = next(sources[name], "")
            if not more:
                return  # else the mix would be another
            rest[name] += more
        yield rest[name][:length]
        rest[name] = rest[name][length:]


def _conversation_text() -> str:
    body = agent_conversation(480, 500_000)
    return "\n".join(message["content"] or "" for message in body["messages"])


KINDS: Final[dict[str, Callable[[random.Random], Iterator[str]]]] = {
    "english": lambda random_: _blocks(english(random_)),
    "code": lambda random_: _blocks(code(random_)),
    "json": lambda random_: _blocks(json_texts(random_)),
    "multilingual": lambda random_: _blocks(multilingual(random_)),
    "letters": lambda random_: _blocks(letters(random_)),
    "messages": messages,
}
