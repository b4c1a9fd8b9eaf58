"""The extras of users: at the lowest versions that they allow, at the newest, and beside others."""

import argparse
import tempfile
from pathlib import Path

from tasks.environment import built_wheel, setup
from tasks.steps import BIN, PYTHON, QUICK, ROOT, StepError, listed, pip, run, say

PROBES = ROOT / "tasks/first_minutes/extras.py"
EXTRAS = ("batch", "cli", "metrics", "redis", "serve", "tokenizers")
BESIDE = ("litellm[proxy]", "langchain", "openai", "anthropic", "google-genai", "fastapi")
"""What people run, each in its newest release: every extra must stand beside each of them."""
RESOLUTIONS = ("lowest-direct", "highest")


def extras(options: argparse.Namespace) -> None:
    """Try every extra at its lowest and newest versions, and resolve it beside what people run."""
    setup(profile=QUICK)
    wheel = built_wheel(QUICK)
    pip("install uv", PYTHON, "uv>=0.9")
    uv = (PYTHON, "-m", "uv")
    for extra in options.words or EXTRAS:
        if extra not in EXTRAS:
            raise StepError(f"extras: {extra!r} is none of {', '.join(EXTRAS)}")
        with tempfile.TemporaryDirectory() as place:
            wanted = Path(place, "wanted.in")
            for other in BESIDE:
                wanted.write_text("\n".join([*listed(extra), other]), "utf-8")
                resolve = (*uv, "pip", "compile", "--quiet", "--no-header", "--upgrade", wanted)
                run(f"{extra} beside {other}", *resolve, quiet=True)
            for resolution in RESOLUTIONS:
                there = Path(place, resolution)
                program = there / BIN.name / PYTHON.name
                run(f"make the environment, {resolution}", *uv, "venv", there, quiet=True)
                install = (*uv, "pip", "install", "--quiet", "--python", program)
                flags: tuple[str | Path, ...] = ("--resolution", resolution, wheel, *listed(extra))
                run(f"install [{extra}], {resolution}", *install, *flags, quiet=True)
                run(f"use [{extra}], {resolution}", program, "-I", PROBES, extra, folder=there)
    say("each extra works at its lowest and newest versions, and stands beside what people run")
