"""The task runner, `python3 dev.py --help`: needs Python >= 3.10 and Rust, installs the rest."""

import sys

if sys.version_info < (3, 10):  # noqa: UP036  # the first thing a fresh machine gets wrong
    sys.exit(f"dev.py: this is Python {sys.version.split()[0]}; run it with 3.10 or later")

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"
ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
EXE = ".exe" if os.name == "nt" else ""
PYTHON = BIN / f"python{EXE}"
STAMP = VENV / "tokenctx-stamp.json"
WHEELS = ROOT / "target" / "dev-wheels"
QUICK, FAST = "dev", "release"  # profiles of Cargo.toml: soon built; what users install
INSTRUCTIONS_JSON = ROOT / "target" / "instructions.json"
BENCH_RUN = ROOT / "target" / "bench-run.json"
BENCH_JSONS = [ROOT / "target" / f"bench-{number}.json" for number in (1, 2, 3)]
PYPROJECT = ROOT / "pyproject.toml"
CONSTRAINTS = ROOT / "constraints.txt"
OLDEST_PYTHON = "3.10"
SMOKE = "import tokenctx; print(tokenctx.count_tokens('hello world', encoding='o200k_base'))"
CI_STEPS = (
    *("demo", "test --install", "clients", "lint", "rust", "fuzz --seconds 60"),  # profile dev
    "fuzz_core --seconds 30",
    *("bench", "exactness", "instructions --install"),  # profile release
    *("docs", "workflows"),
)
STUDIES = {  # what benches/studies holds, and the extras that each needs
    "accuracy": ("cli",),
    "adversarial": (),
    "bounds": ("cli",),
    "busy_loop": ("test",),
    "edits": ("cli",),
    "gateway_load": ("cli",),
    "gateway_overhead": ("test",),
    "leave_one_out": ("cli",),
    "metrics": (),
    "model_limits": ("limits",),
    "peers": ("peers",),
    "serve_load": ("serve",),
    "shared_store": ("cli", "test"),
    "soak": (),
    "store": (),  # the only one in Rust
    "tenants": (),
}
LOG_PERIOD_SECONDS = 20
# The environments of `dev.py clients`: packages of its own, extras, tests. Packages that cannot
# stand beside the others have versions of their own, and the newest of what they pull along.
CLIENTS = {
    "agents": (
        (),
        "[cli,test,clients]",
        (
            *("frameworks", "clients", "usage", "langchain", "pydantic_ai", "agent_frameworks"),
            *("documents", "migration"),
        ),
    ),
    "proxy": (
        (
            *("litellm[proxy]==1.106.2", "openai==2.54.0"),
            *("llama-index-core==0.14.25", "llama-index-llms-openai==0.8.3"),
        ),
        "[test]",
        ("litellm", "litellm_proxy", "agent_frameworks", "migration"),
    ),
}
CARGO_TOML = (ROOT / "Cargo.toml").read_text("utf-8")
[LEAST_RUST] = re.findall(r'^rust-version = "(.+)"', CARGO_TOML, re.MULTILINE)
ADVICE = {  # what to do when a program is missing or fails
    "cargo": f"Install Rust {LEAST_RUST} or later from https://rustup.rs and open a new shell.",
    "clippy": "If clippy or rustfmt is missing: rustup component add clippy rustfmt.",
    "maturin": "A compiler error is above; a C linker is needed too (gcc, Xcode or MSVC tools).",
    "pip": "pip must reach a package index.",
    "venv": "On Debian and Ubuntu: apt install python3-venv.",
}


class StepError(Exception):
    """A step failed; the message says which, why, and the way out."""


def say(text: str) -> None:
    print(f"[dev] {text}", flush=True)


def progress(title: str, start: float, done: threading.Event) -> None:
    """Count the seconds of a quiet step: in place on a terminal, else a line now and then."""
    period, end = (1, "\r") if sys.stdout.isatty() else (LOG_PERIOD_SECONDS, " so far\n")
    while not done.wait(period):
        print(f"[dev] {title}: {time.monotonic() - start:.0f} s", end=end, flush=True)


def run(
    title: str,
    *words: str | Path,
    advice: str = "",
    quiet: bool = False,
    imports: str = "",
    folder: Path = ROOT,
) -> None:
    """Run one step and say how long it took; a quiet step shows its output only if it fails.

    Python finds the modules of the folder `imports`, and the package as it is installed.
    """
    start, done = time.monotonic(), threading.Event()
    environment = {**os.environ, "PYO3_PYTHON": str(PYTHON)}
    environment.pop("PYTHONPATH", None)  # the installed package is what runs, not the sources
    if imports:
        environment["PYTHONPATH"] = imports
    if quiet:
        threading.Thread(target=progress, args=(title, start, done), daemon=True).start()
    else:
        say("$ " + " ".join(str(word).replace(f"{ROOT}{os.sep}", "") for word in words))
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        out, errors = (log, subprocess.STDOUT) if quiet else (None, None)
        try:
            code = subprocess.call(words, cwd=folder, env=environment, stdout=out, stderr=errors)
        except FileNotFoundError:
            raise StepError(f"{title}: {words[0]} is missing. {ADVICE.get(advice, '')}") from None
        finally:
            done.set()
        if code:
            log.seek(0)
            sys.stderr.write("".join(log.readlines()[-80:]))
            raise StepError(f"{title}: exit code {code}. {ADVICE.get(advice, '')}")
    say(f"{title}: {time.monotonic() - start:.1f} s")


def python(title: str, *words: str | Path) -> None:
    run(title, PYTHON, *words)


def require_cargo() -> None:
    if not shutil.which("cargo"):
        raise StepError(f"cargo is missing. {ADVICE['cargo']}")


def cargo(title: str, *words: str) -> None:
    require_cargo()
    run(title, "cargo", *words, advice="clippy")


def pip(title: str, python: Path, *words: str | Path) -> None:
    """Install by pip, in the versions of constraints.txt."""
    head = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(title, *head, "--constraint", CONSTRAINTS, *words, advice="pip", quiet=True)


def digest(paths: list[Path]) -> str:
    """SHA-256 over the names and contents of `paths`."""
    whole = hashlib.sha256()
    for path in sorted(paths):
        content = path.read_bytes()
        whole.update(f"{path.relative_to(ROOT).as_posix()} {len(content)}\n".encode() + content)
    return whole.hexdigest()


def requirements(section: str) -> list[str]:
    """The requirements that stand in a section of pyproject.toml; sorted, each once."""
    found = re.search(rf"^\[{section}\]\n(.*?)^\[", PYPROJECT.read_text("utf-8"), re.M | re.S)
    lists = re.findall(r"^[\w-]+ = (\[.*?\])$", found[1] if found else "", re.M | re.S)
    return sorted({text for one in lists for text in re.findall(r'"([^"]+)"', one)})


def extra(name: str) -> list[str]:
    """The requirements of one extra."""
    [found] = re.findall(rf"^{name} = (\[.*?\])$", PYPROJECT.read_text("utf-8"), re.M | re.S)
    return re.findall(r'"([^"]+)"', found)


def host_target() -> str:
    """The target that Rust builds for here, `x86_64-unknown-linux-gnu`."""
    return subprocess.check_output(("rustc", "-vV"), text=True).split("host: ")[1].split()[0]


def locked_heading() -> str:
    """The first line of constraints.txt, which changes when a requirement does."""
    all_of_them = requirements("build-system") + requirements(r"project\.optional-dependencies")
    mark = hashlib.sha256("\n".join(all_of_them).encode()).hexdigest()
    return f"# Made by `python3 dev.py lock` from requirements with SHA-256 {mark}\n"


def package_files() -> list[Path]:
    """Every file that the wheel is made of."""
    top = [ROOT / name for name in ("Cargo.toml", "Cargo.lock", "build.rs", "README.md", "LICENSE")]
    deep = (path for name in ("src", "python", "licenses") for path in (ROOT / name).rglob("*"))
    built = {".pyc", ".pyd", ".so"}
    return [path for path in (*top, *deep) if path.is_file() and path.suffix not in built]


def save(stamp: dict[str, str]) -> dict[str, str]:
    STAMP.write_text(json.dumps(stamp, indent=1), "utf-8")
    return stamp


def make_venv() -> dict[str, str]:
    """The stamp of `.venv`, made anew if it is not of the Python that runs this file."""
    origin = f"{sys.version} in {sys.base_prefix}"
    stamp = json.loads(STAMP.read_text("utf-8")) if STAMP.exists() else {}
    if stamp.get("python") == origin and PYTHON.exists():
        return stamp
    shutil.rmtree(VENV, ignore_errors=True)
    run("make .venv", sys.executable, "-m", "venv", VENV, advice="venv", quiet=True)
    return save({"python": origin})


def build(folder: Path, profile: str) -> Path:
    """The wheel of this tree."""
    shutil.rmtree(folder, ignore_errors=True)
    for leftover in (ROOT / "python/tokenctx").glob("_core.*"):  # of `maturin develop`
        if leftover.suffix in {".so", ".pyd"}:
            leftover.unlink()
    flags = ("--profile", profile, "--locked", "--interpreter", PYTHON, "--out", folder)
    title = f"build the wheel, profile {profile} (the first time takes a minute)"
    run(title, PYTHON, "-m", "maturin", "build", *flags, advice="maturin", quiet=True)
    return next(folder.glob("tokenctx-*.whl"))


def setup(*extras: str, profile: str = FAST) -> None:
    """Bring `.venv` up to date: the package as a wheel of `profile`, with `extras`."""
    require_cargo()
    stamp = make_venv()
    wanted = digest([PYPROJECT, CONSTRAINTS])
    if stamp.get("requirements") != wanted:
        pip("install maturin", PYTHON, *requirements("build-system"))
        stamp = save({"python": stamp["python"], "requirements": wanted, "extras": ""})
    package = digest(package_files())
    wheel = next((WHEELS / profile).glob("tokenctx-*.whl"), None)
    if wheel is None or stamp.get(profile) != package:
        wheel = build(WHEELS / profile, profile)
        stamp = save({**stamp, profile: package, "installed": ""})
    if stamp.get("installed") != profile:
        pip(f"install {wheel.name}", PYTHON, "--no-deps", "--force-reinstall", wheel)
        stamp = save({**stamp, "installed": profile})
    missing = [extra for extra in extras if extra not in stamp["extras"].split()]
    if missing:
        pip(f"install extras {', '.join(missing)}", PYTHON, f"{wheel}[{','.join(missing)}]")
        save({**stamp, "extras": " ".join([stamp["extras"], *missing])})


def demo(_: argparse.Namespace) -> None:
    """Replay a recorded agent session: estimates, their source, billed totals, errors."""
    setup("cli", profile=QUICK)
    run("demo", BIN / f"tokenctx{EXE}", "demo")


def node_packages() -> None:
    """Install the AI SDK, whose schema some tests ask, if npm is there."""
    folder, npm = ROOT / "tests/node", shutil.which("npm")
    stamp = folder / "node_modules/tokenctx-stamp"
    lock = digest([folder / "package-lock.json"])
    if (folder / "node_modules/ai").is_dir() and stamp.exists() and stamp.read_text() == lock:
        return
    if npm is None:
        say("npm is missing, which installs the AI SDK")
        return
    run("npm ci in tests/node", npm, "ci", "--prefix", folder, "--no-audit", quiet=True)
    stamp.write_text(lock, "utf-8")


def debian(package: str) -> None:
    """Install a package of Debian whose program has its name, if we may."""
    if shutil.which(package):
        return
    if not shutil.which("apt-get") or os.geteuid() != 0:
        say(f"{package} cannot be installed here, which takes apt-get and root")
        return
    os.environ["RUNLEVEL"] = "1"  # installed, not started
    install = ("apt-get", "install", "--yes", "--no-install-recommends", package)
    run("apt-get update", "apt-get", "update", quiet=True)
    run(f"apt-get install {package}", *install, quiet=True)


def redis_server() -> None:
    """Install redis-server, if we may."""
    debian("redis-server")


def install_servers() -> None:
    """Install what tests use beside Python; without it they skip."""
    for step in (node_packages, redis_server):
        try:
            step()
        except StepError as error:  # noqa: PERF203  # two steps
            say(str(error))


def test(options: argparse.Namespace) -> None:
    """Run the Python tests against the installed package; extra words go to pytest."""
    setup("cli", "test", profile=QUICK)
    if options.install:
        install_servers()
    there = {
        "redis-server": shutil.which("redis-server"),
        "the AI SDK (npm ci in tests/node)": (ROOT / "tests/node/node_modules/ai").is_dir(),
    }
    if missing := " and ".join(name for name, found in there.items() if not found):
        say(f"without {missing}, tests are skipped; dev.py test --install installs it")
    words = ("-m", "not slow", *options.words) if options.fast else options.words
    python("test", "-m", "pytest", "-n", "auto", "--dist", "loadfile", *words)


def clients(options: argparse.Namespace) -> None:
    """Run the tests of litellm's proxy and of agent frameworks, in environments of their own."""
    setup("cli", "test", profile=QUICK)
    [wheel] = (WHEELS / QUICK).glob("tokenctx-*.whl")
    pip("install uv", PYTHON, "uv>=0.9")
    for name, (own, extras, tests) in CLIENTS.items():
        folder = ROOT / f".venv-{name}"
        program = folder / BIN.name / PYTHON.name
        uv = (PYTHON, "-m", "uv")
        run(f"make .venv-{name}", *uv, "venv", "--clear", folder, quiet=True)
        locked = () if own else ("--constraint", CONSTRAINTS)
        words = (*uv, "pip", "install", "--python", program, *locked)
        run(f"fill .venv-{name}", *words, f"{wheel}{extras}", *own, quiet=True)
        files = [f"tests/test_{test}.py" for test in tests]
        words = ("-m", "pytest", "-n", "auto", "--dist", "loadfile", *files, *options.words)
        run(f"test {name}", program, *words)


def boundary() -> None:
    """The core knows nothing of Python: no pyo3 outside src/py/."""
    core = [p for p in (ROOT / "src").rglob("*.rs") if ROOT / "src/py" not in p.parents]
    named = [str(p.relative_to(ROOT)) for p in core if "pyo3" in p.read_text("utf-8")]
    if named:
        raise StepError(f"boundary: pyo3 is named in {', '.join(named)}; move it to src/py/")
    say("boundary: pyo3 occurs under src/py/ only")


def lock(options: argparse.Namespace) -> None:
    """Write constraints.txt: the versions for all Pythons; --upgrade takes the newest."""
    make_venv()
    CONSTRAINTS.touch()
    pip("install uv", PYTHON, "uv>=0.9")
    flags = ("--universal", "--python-version", OLDEST_PYTHON, "--no-annotate", "--no-header")
    with tempfile.TemporaryDirectory() as folder:
        build_system = Path(folder, "build-system.in")
        build_system.write_text("\n".join(requirements("build-system")), "utf-8")
        sources = (PYPROJECT, build_system, "--all-extras")
        compiled = (*flags, "--output-file", CONSTRAINTS, *options.words)
        run("lock", PYTHON, "-m", "uv", "pip", "compile", *sources, *compiled, quiet=True)
    CONSTRAINTS.write_text(locked_heading() + CONSTRAINTS.read_text("utf-8"), "utf-8")


def lock_is_fresh() -> None:
    """Every requirement of pyproject.toml is locked, and no index is named."""
    text = CONSTRAINTS.read_text("utf-8")
    if not text.startswith(locked_heading()):
        raise StepError("lock: requirements have changed; run python3 dev.py lock")
    if "://" in text:
        raise StepError("lock: constraints.txt names an address; versions only")
    say("lock: constraints.txt was made from these requirements")
    manifest = ROOT / "fuzz/Cargo.toml"
    look = ("cargo", "metadata", "--locked", "--format-version=1", "--manifest-path", manifest)
    run("lock of the fuzz target", *look, quiet=True)


def lint(_: argparse.Namespace) -> None:
    """ruff, mypy, rustfmt, clippy, the stub, the pyo3 boundary, the locked versions."""
    setup("cli", "test", "lint", profile=QUICK)
    lock_is_fresh()
    boundary()
    python("ruff check", "-m", "ruff", "check")
    python("ruff format", "-m", "ruff", "format", "--check")
    cargo("rustfmt", "fmt", "--check")
    python("mypy", "-m", "mypy")
    python("stubtest", "-m", "mypy.stubtest", "tokenctx._core")
    clippy = ("clippy", "--quiet", "--locked", "--all-targets")
    cargo("clippy", *clippy, "--", "-D", "warnings")
    cargo("clippy, core alone", *clippy, "--no-default-features", "--", "-D", "warnings")


def rust(options: argparse.Namespace) -> None:
    """Run the Rust tests of the core alone; extra words go to cargo test."""
    cargo("rust", "test", "--locked", "--no-default-features", *options.words)


def bench(options: argparse.Namespace) -> None:
    """Time rust against reference thrice and check the ratios; extra words go to pytest."""
    setup("cli", "test", "bench")
    for measured in BENCH_JSONS:
        measured.parent.mkdir(exist_ok=True)
        flags = ("--benchmark-enable", f"--benchmark-json={measured}", "-p", "no:randomly")
        python("bench", "-m", "pytest", "benches", *flags, *options.words)
    kept = ("--instructions", INSTRUCTIONS_JSON, "--run", BENCH_RUN)
    python("keep", "benches/history.py", "keep", *BENCH_JSONS, *kept)
    python("floors", "benches/check_floors.py", *BENCH_JSONS)


def bench_history(options: argparse.Namespace) -> None:
    """Compare the newest run of bench with those in --folder; --add keeps it there, with plots."""
    script = ROOT / "benches/history.py"
    run("bench_history", sys.executable, script, "compare", BENCH_RUN, *options.words)


def exactness(options: argparse.Namespace) -> None:
    """Compare counts with tiktoken; extra words, such as --nightly, go to the script."""
    setup("cli", "test")
    python("exactness", "benches/exactness.py", *options.words)


def instructions(options: argparse.Namespace) -> None:
    """Count instructions per byte with valgrind, if there is one; --record writes them."""
    setup("cli", "test")
    if options.install:
        debian("valgrind")
    words = ["--required"] * options.install + options.words
    python("instructions", "benches/instructions.py", "--json", INSTRUCTIONS_JSON, *words)


def newest(*extras: str) -> None:
    """Install the newest releases of what `extras` name, until the next step wants the locked."""
    wanted = [requirement for name in extras for requirement in extra(name)]
    install = (PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run("install the newest releases", *install, "--upgrade", *wanted, advice="pip", quiet=True)
    save({**json.loads(STAMP.read_text("utf-8")), "extras": ""})


def study(options: argparse.Namespace) -> None:
    """Run a study of benches/README.md by name; extra words, such as --help, go to it."""
    if options.name == "store":
        flags = ("--release", "--locked", "--no-default-features", "--example", "store")
        cargo("store", "run", *flags, "--", *options.words)
        return
    setup(*STUDIES[options.name])
    if options.newest:
        newest(*STUDIES[options.name])
    script = ROOT / f"benches/studies/{options.name}.py"
    run(options.name, PYTHON, script, *options.words, imports=str(ROOT / "benches"))


def fuzz(options: argparse.Namespace) -> None:
    """Feed arbitrary requests, answers and streams to the installed package for --seconds."""
    setup("cli", "test", profile=QUICK)
    python("fuzz", "tests/fuzz_requests.py", "--seconds", str(options.seconds))


def fuzz_core(options: argparse.Namespace) -> None:
    """Feed estimates and records of the core, guided by coverage, for --seconds."""
    require_cargo()
    corpus = ROOT / "fuzz/corpus/engine"
    corpus.mkdir(parents=True, exist_ok=True)
    for path in (ROOT / "tests/data/requests").glob("*.json"):
        for number, case in enumerate(json.loads(path.read_text("utf-8"))):
            (corpus / f"{path.stem}-{number}").write_text(json.dumps(case["body"]), "utf-8")
    flags = ("--release", "--locked", "--target", host_target(), "--", corpus, "-max_len=20000")
    limit = f"-max_total_time={options.seconds}"
    command = ("cargo", "run", *flags, limit, "-verbosity=0", "-print_final_stats=1")
    run("fuzz the core", *command, folder=ROOT / "fuzz")


def wheel(options: argparse.Namespace) -> None:
    """Build dist/*.whl as released, for --target or this machine, and count with it if it can."""
    require_cargo()
    make_venv()
    pip("install maturin, zig", PYTHON, *requirements("build-system"), *extra("wheels"))
    target, host = options.target or host_target(), host_target()
    flags: tuple[str | Path, ...]
    flags = ("--release", "--locked", "--interpreter", PYTHON, "--target", target)
    linux = ("--zig", "--compatibility", "manylinux2014" if "gnu" in target else "musllinux_1_2")
    flags += linux if "linux" in target else ()
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    words = (PYTHON, "-m", "maturin", "build", *flags, "--out", ROOT / "dist")
    run(f"build the wheel for {target}", *words, advice="maturin", quiet=True)
    [built] = (ROOT / "dist").glob("*.whl")
    if target == host:
        try_out(built)
    else:
        say(f"{built.name} is for another machine: it was not tried")


def sdist(_: argparse.Namespace) -> None:
    """Build dist/*.tar.gz, make a wheel of it in a throw-away environment and count with that."""
    require_cargo()
    make_venv()
    pip("install maturin", PYTHON, *requirements("build-system"))
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    run("build the sdist", PYTHON, "-m", "maturin", "sdist", "--out", ROOT / "dist", quiet=True)
    [built] = (ROOT / "dist").glob("*.tar.gz")
    try_out(built)


def try_out(built: Path) -> None:
    """Install `built` in a throw-away environment and count with it."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder, BIN.name, PYTHON.name)
        run("make a fresh environment", PYTHON, "-m", "venv", folder, advice="venv", quiet=True)
        pip(f"install {built.name}", fresh, built)
        run("count with it", fresh, "-I", "-W", "error", "-c", SMOKE)


def release(options: argparse.Namespace) -> None:
    """Check that --tag is the version of Cargo.toml and CHANGELOG.md; write dist/notes.md."""
    [version] = re.findall(r'^version = "(.+)"', CARGO_TOML, re.MULTILINE)
    if options.tag != f"v{version}":
        raise StepError(f"release: the tag is {options.tag!r}, and Cargo.toml says v{version}")
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    found = re.search(rf"^## {re.escape(version)}\b.*?\n(.*?)(?=^## |\Z)", changes, re.M | re.S)
    if found is None:
        raise StepError(f"release: CHANGELOG.md has no heading '## {version}'")
    notes = ROOT / "dist/notes.md"
    notes.parent.mkdir(exist_ok=True)
    notes.write_text(found[1].strip() + "\n", "utf-8")
    say(f"release: {options.tag}, notes of {len(found[1]):,} characters in dist/notes.md")


def workflows(_: argparse.Namespace) -> None:
    """Check the workflows of the public host: schema, zizmor, and actionlint if Go is there."""
    setup("lint", profile=QUICK)
    folder = ROOT / ".github"
    files = sorted((folder / "workflows").glob("*.yml"))
    schema = ("-m", "check_jsonschema", "--builtin-schema")
    python("schema", *schema, "vendor.github-workflows", *files)
    python("schema of dependabot", *schema, "vendor.dependabot", folder / "dependabot.yml")
    run("zizmor", BIN / f"zizmor{EXE}", "--offline", "--quiet", folder)
    if shutil.which("go"):
        run("actionlint", "go", "run", ACTIONLINT, *files, quiet=True)
    else:
        say("go is missing, which runs actionlint")


def docs(_: argparse.Namespace) -> None:
    """Build the site of the documents in target/site; a warning or a broken link fails."""
    setup("test", "docs", profile=QUICK)
    run("docs", PYTHON, "docs/site/build.py", imports=str(ROOT / "benches"))


def ci(_: argparse.Namespace) -> None:
    """Run every check in order, as .ci/run does, and stop at the first that fails."""
    for step in CI_STEPS:
        run(f"ci {step}", sys.executable, ROOT / "dev.py", *step.split())


def clean(_: argparse.Namespace) -> None:
    """Remove .venv, target, dist and the caches."""
    caches = (".mypy_cache", ".pytest_cache", ".ruff_cache")
    made = (
        ".venv",
        *(f".venv-{name}" for name in CLIENTS),
        "target",
        "dist",
        "fuzz/target",
        "fuzz/corpus",
        "tests/node/node_modules",
    )
    for name in (*made, *caches):
        shutil.rmtree(ROOT / name, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="dev.py", description=__doc__)
    targets = parser.add_subparsers(required=True, metavar="TARGET")
    counting = (bench, bench_history, exactness, instructions, study)
    takes_words = (lock, test, clients, rust, *counting)
    others = (fuzz, fuzz_core, wheel, sdist, release, docs, workflows, ci, clean)
    for function in (demo, lint, *takes_words, *others):
        name, about = function.__name__, function.__doc__
        target = targets.add_parser(name, help=about, allow_abbrev=False)
        target.set_defaults(function=function, words=[])
        if function in (fuzz, fuzz_core):
            target.add_argument("--seconds", type=int, default=60)
        if function is wheel:
            target.add_argument("--target", help="such as aarch64-unknown-linux-gnu")
        if function is release:
            target.add_argument("--tag", required=True, help="such as v0.1.0")
        if function is study:
            target.add_argument("--newest", action="store_true", help="no locked versions")
            target.add_argument("name", choices=STUDIES)
            target.add_argument("words", nargs=argparse.REMAINDER)
        if function is instructions:
            target.add_argument("--install", action="store_true", help="valgrind, and demand it")
        if function is test:
            target.add_argument("--fast", action="store_true", help="leave out what is marked slow")
            target.add_argument("--install", action="store_true", help="redis-server, the AI SDK")
    options, words = parser.parse_known_args()
    if words and options.function not in takes_words:
        parser.error(f"unknown words: {' '.join(words)}")
    options.words += words
    try:
        options.function(options)
    except StepError as error:
        sys.exit(f"[dev] FAILED {error}".rstrip())
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
