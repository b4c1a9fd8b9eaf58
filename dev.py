"""The task runner, `python3 dev.py --help`: needs Python >= 3.10 and Rust, installs the rest."""

import sys

if sys.version_info < (3, 10):  # noqa: UP036  # the first thing a fresh machine gets wrong
    sys.exit(f"dev.py: this is Python {sys.version.split()[0]}; run it with 3.10 or later")

import argparse
import os
import shutil
import tempfile
from pathlib import Path

from tasks.environment import built_wheel, newest, setup
from tasks.extras import extras
from tasks.faults import fault_options, seeded_faults
from tasks.fuzzing import fuzz_core, fuzz_core_options, fuzz_options
from tasks.guarantees import guarantee_options, guarantees
from tasks.machines import arm_counter, lint_arm, same_again, wheels
from tasks.models import add_model, model_options
from tasks.mutants import mutant_options, mutants
from tasks.packages import crate, release, sdist, wheel
from tasks.proofs import sanitizers, supply_chain, threads
from tasks.steps import (
    BIN,
    CONSTRAINTS,
    EXE,
    FAST,
    PYTHON,
    QUICK,
    ROOT,
    StepError,
    all_requirements,
    cargo,
    digest,
    if_possible,
    listed,
    locked_heading,
    make_venv,
    pip,
    python,
    run,
    say,
    test_files,
)
from tasks.stranger import stranger

ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"
INSTRUCTIONS_JSON = ROOT / "target" / "instructions.json"
BENCH_RUN = ROOT / "target" / "bench-run.json"
BENCH_PASSES = 3
OLDEST_PYTHON = "3.10"
CI_STEPS = (
    *("demo", "stranger", "test --all --install", "clients"),  # profile dev
    *("lint", "rust", "fuzz --seconds 60 --seed 1"),
    "fuzz_core --seconds 10 --seed 1",  # new inputs are for nightly runs
    *("bench", "exactness", "instructions --install"),  # profile release
    "wheels",  # what is released, on every Python that can be had here
    *("docs", "workflows"),
)
STUDIES = {  # what benches/studies holds, and the extras and groups that each needs
    "accuracy": ("cli",),
    "adversarial": (),
    "arm_instructions": ("bench", "test"),  # whose packages have the text
    "bounds": ("cli", "test"),
    "budget_storm": ("redis",),
    "budgets": ("redis",),
    "busy_loop": ("test",),
    "data_bundle": ("limits",),
    "drift": ("cli",),
    "edits": ("cli",),
    "first_screen": (),
    "first_use": ("test",),
    "forecast_cost": (),
    "gateway_load": ("cli",),
    "gateway_speed": ("cli", "test", "bench", "peers"),
    "gateway_overhead": ("test",),
    "known_once": ("cli", "test", "bench", "peers"),
    "leave_one_out": ("cli",),
    "metrics": (),
    "model_limits": ("limits",),
    "model_prices": ("limits",),
    "other_model": ("cli",),
    "overshoot": (),
    "peers": ("peers",),
    "serve_load": ("serve",),
    "shared_store": ("cli", "test"),
    "soak": (),
    "store": (),  # the only one in Rust
    "tenants": (),
    "told_costs": (),
}
OPTIONS = {  # what gives a target its options, where that is not `main`
    add_model: model_options,
    fuzz_core: fuzz_core_options,
    guarantees: guarantee_options,
    mutants: mutant_options,
    seeded_faults: fault_options,
}
# The environments of `dev.py clients`: packages of its own, lists, tests. Packages that cannot
# stand beside the others have versions of their own, and the newest of what they pull along.
CLIENTS = {
    "batch": (
        (
            "datafusion==55.0.0",
            "duckdb==2.0.1",
            "numpy>=2",
            "pandas<3",
            "polars==2.1.0",
            "pyarrow==26.0.1",
            "pyspark==4.3.0",
        ),  # and Java 17
        ("cli", "test"),
        (
            *("batch", "causes", "cost_command", "copies", "drawn_logs"),
            *("engines", "links", "month", "readers", "recipes", "spend"),
        ),
    ),
    "frames": (  # their pyarrow is older
        ("daft==0.7.26", "datasets==5.2.0", "ray[data]==2.60.0"),
        ("cli", "test"),
        ("recipes",),
    ),
    "agents": (
        (),
        ("cli", "test", "clients", "batch"),
        (
            *(
                "frameworks",
                "clients",
                "usage",
                "sdk_fields",
                "langchain",
                "pydantic_ai",
                "agent_frameworks",
                "way_round_agents",
            ),
            *("documents", "migration"),
        ),
    ),
    "llama": (  # its client of OpenAI is older
        ("llama-index-llms-openai==0.8.3",),
        ("cli", "test"),
        ("way_round_agents",),
    ),
    "proxy": (
        (
            *("litellm[proxy]==1.106.2", "openai==2.54.0"),
            *("llama-index-core==0.14.25", "llama-index-llms-openai==0.8.3"),
        ),
        ("test",),
        ("litellm", "litellm_proxy", "agent_frameworks", "migration"),
    ),
}


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
    """Run the Python tests against the installed package; --all: slow ones, too."""
    setup("cli", "test", profile=QUICK)
    if options.install:
        install_servers()
    there = {
        "redis-server": shutil.which("redis-server"),
        "the AI SDK (npm ci in tests/node)": (ROOT / "tests/node/node_modules/ai").is_dir(),
    }
    if missing := " and ".join(name for name, found in there.items() if not found):
        say(f"without {missing}, tests are skipped; dev.py test --install installs it")
    words = options.words if options.all else ("-m", "not slow", *options.words)
    python("test", "-m", "pytest", "-n", "auto", "--dist", "loadfile", *words)


def clients(options: argparse.Namespace) -> None:
    """Run the tests of litellm's proxy and of agent frameworks, in environments of their own."""
    setup("cli", "test", profile=QUICK)
    wheel = built_wheel(QUICK)
    pip("install uv", PYTHON, "uv>=0.9")
    for name, (own, lists, tests) in CLIENTS.items():
        folder = ROOT / f".venv-{name}"
        program = folder / BIN.name / PYTHON.name
        uv = (PYTHON, "-m", "uv")
        run(f"make .venv-{name}", *uv, "venv", "--clear", folder, quiet=True)
        locked = () if own else ("--constraint", CONSTRAINTS)
        words = (*uv, "pip", "install", "--python", program, *locked)
        packages = sorted({text for each in lists for text in listed(each)})
        run(f"fill .venv-{name}", *words, wheel, *packages, *own, quiet=True)
        files = test_files(tests)
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
        source = Path(folder, "all.in")
        source.write_text("\n".join(all_requirements()), "utf-8")
        compiled = (source, *flags, "--output-file", CONSTRAINTS, *options.words)
        run("lock", PYTHON, "-m", "uv", "pip", "compile", *compiled, quiet=True)
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
    cargo("clippy", *clippy, "--features", "python", "--", "-D", "warnings")
    cargo("clippy, core alone", *clippy, "--", "-D", "warnings")
    if_possible(lint_arm)


def rust(options: argparse.Namespace) -> None:
    """Run the Rust tests of the core alone; extra words go to cargo test."""
    cargo("rust", "test", "--locked", "--no-default-features", *options.words)


def bench(options: argparse.Namespace) -> None:
    """Time rust against reference and check the ratios; what missed its floor is timed anew."""
    setup("cli", "test", "bench")
    missed = ROOT / "target/bench-missed.txt"
    measured: list[Path] = []
    words = ["benches", *options.words]
    while words and len(measured) < BENCH_PASSES:
        measured.append(ROOT / "target" / f"bench-{len(measured) + 1}.json")
        measured[-1].parent.mkdir(exist_ok=True)
        flags = ("--benchmark-enable", "--benchmark-max-time=0.4", "-p", "no:randomly")
        python("bench", "-m", "pytest", *flags, f"--benchmark-json={measured[-1]}", *words)
        python("look", "benches/check_floors.py", *measured, "--missed", missed)
        words = missed.read_text("utf-8").split("\n") if missed.stat().st_size else []
    kept = ("--instructions", INSTRUCTIONS_JSON, "--run", BENCH_RUN)
    python("keep", "benches/history.py", "keep", *measured, *kept)
    python("floors", "benches/check_floors.py", *measured)


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


def study(options: argparse.Namespace) -> None:
    """Run a study of benches/README.md by name; extra words, such as --help, go to it."""
    if options.name == "store":
        flags = ("--release", "--locked", "--no-default-features", "--example", "store")
        cargo("store", "run", *flags, "--", *options.words)
        return
    setup(*STUDIES[options.name])
    if options.newest:
        newest(*STUDIES[options.name])
    if options.name == "arm_instructions":
        options.words = ["--", *map(str, arm_counter())]
    script = ROOT / f"benches/studies/{options.name}.py"
    run(options.name, PYTHON, script, *options.words, imports=str(ROOT / "benches"))


def fuzz(options: argparse.Namespace) -> None:
    """Feed arbitrary requests, answers and streams to the installed package for --seconds."""
    setup("cli", "test", profile=QUICK)
    seed = () if options.seed is None else ("--seed", str(options.seed))
    python("fuzz", "tests/rigs/fuzz_requests.py", "--seconds", str(options.seconds), *seed)


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
    run("docs", PYTHON, "docs/site/make_site.py", imports=str(ROOT / "benches"))


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
    takes_words = (lock, extras, test, clients, rust, fuzz_core, mutants, sanitizers, *counting)
    released = (wheel, same_again, sdist, crate, wheels, release)
    proofs = (guarantees, seeded_faults, threads, supply_chain)
    others = (add_model, stranger, fuzz, *proofs, *released, docs, workflows, ci, clean)
    for function in (demo, lint, *takes_words, *others):
        name, about = function.__name__, function.__doc__
        target = targets.add_parser(name, help=about, allow_abbrev=False)
        target.set_defaults(function=function, words=[])
        if function in (wheel, same_again):
            target.add_argument("--target", help="such as aarch64-unknown-linux-gnu")
        if function is wheels:
            target.add_argument("--nightly", action="store_true", help="what takes long, too")
        if function is sdist:
            target.add_argument("--profile", choices=(QUICK, FAST), default=FAST)
        if function is stranger:
            target.add_argument("--wheel", help="a wheel that was built (default: profile dev)")
            target.add_argument("--python", help="the interpreter (default: the one of dev.py)")
        if function is release:
            target.add_argument("--tag", required=True, help="such as v0.1.0")
        if function is study:
            target.add_argument("--newest", action="store_true", help="no locked versions")
            target.add_argument("name", choices=STUDIES)
            target.add_argument("words", nargs=argparse.REMAINDER)
        if function is fuzz:
            fuzz_options(target)
        if function in OPTIONS:
            OPTIONS[function](target)
        if function is instructions:
            target.add_argument("--install", action="store_true", help="valgrind, and demand it")
        if function is test:
            target.add_argument("--all", action="store_true", help="what is marked slow, too")
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
