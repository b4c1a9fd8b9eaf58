"""No text and no key stays in live memory: another process reads all that this one holds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from blake3 import blake3

from reference import digest, entry

pytestmark = pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc/self/mem")

MASK = 0x5A
SECRET = b"a secret of some length"
TENANT = b"alice"
WORDS = 40
OVERWRITTEN = {
    # What is freed is overwritten at once: what is found then is held by somebody.
    "PYTHONMALLOC": "malloc",
    "GLIBC_TUNABLES": "glibc.malloc.perturb=85:glibc.malloc.tcache_count=0",
}
CHILD = """
import gc, sys, threading

import tokenctx

MASK, ENCODINGS = 0x5A, ("o200k_base", "cl100k_base", "p50k_base", "claude_v3", "claude_v4_8")

def unmasked(text):
    return bytes(byte ^ MASK for byte in bytes.fromhex(text))

def count(estimator, tenant, text, model):
    body = b'{"model":"%s","messages":[{"role":"user","content":"%s"}]}' % (model.encode(), text)
    estimator.estimate(body, tenant=tenant)
    reply = {"role": "assistant", "content": text.decode()}
    estimator.record(body, 300, reply=reply, tenant=tenant)
    estimator.count_request(body)
    for encoding in ENCODINGS:
        tokenctx.count_tokens(text, encoding=encoding)
        if not encoding.startswith("claude"):
            tokenctx.encodings.encode(text, encoding=encoding)

def work(secret, tenant, text, model):
    estimator = tokenctx.HybridTokenEstimator(secret=secret)
    for name in (None, tenant):
        count(estimator, name, text, model)
    data = estimator.export_known()
    estimator.import_known(data)
    held.append(estimator) if is_held else estimator.reset()

held = []
secret, tenant, text, model, is_held, in_thread = sys.stdin.readline().split()
is_held, in_thread = is_held == "True", in_thread == "True"
if in_thread:
    done, end = threading.Event(), threading.Event()

    def worked():
        work(unmasked(secret), unmasked(tenant).decode(), unmasked(text), model)
        done.set()
        end.wait()

    worker = threading.Thread(target=worked, daemon=True)
    worker.start()
    done.wait()
else:
    work(unmasked(secret), unmasked(tenant).decode(), unmasked(text), model)
if is_held:
    held.append(unmasked(text))
gc.collect()
print("done", flush=True)
sys.stdin.readline()
"""


def masked(data: bytes) -> str:
    return bytes(byte ^ MASK for byte in data).hex()


def word(number: int) -> bytes:
    """Fourteen letters that no vocabulary has as a token."""
    letters = blake3(b"word %d" % number).digest(14)
    return bytes(97 + byte % 26 for byte in letters)


def regions(process: int) -> list[bytes]:
    """All that a process can write and that is no stack, as what lies behind a guard page is."""
    found = []
    behind_guard = 0
    maps = Path(f"/proc/{process}/maps").read_text("utf-8").splitlines()
    with Path(f"/proc/{process}/mem").open("rb", 0) as memory:
        for span, rights, *_, name in (f"{line} -".split()[:6] for line in maps):
            start, end = (int(place, 16) for place in span.split("-"))
            is_stack = start == behind_guard or name.startswith(("[stack", "[v"))
            if rights.startswith("---") and end - start == os.sysconf("SC_PAGE_SIZE"):
                behind_guard = end
            if is_stack or not rights.startswith("rw"):
                continue
            memory.seek(start)
            try:
                found.append(memory.read(end - start))
            except OSError:  # a mapping without memory behind it
                continue
    return found


def live(
    model: str, *, is_held: bool = False, in_thread: bool = False, is_overwritten: bool = True
) -> tuple[int, int]:
    """How many words and how many keys a process still holds that has used and dropped them."""
    words = [word(number) for number in range(WORDS)]
    key = digest.derive_key(SECRET)
    sealer_key = blake3(SECRET, derive_key_context=entry.CONTEXT).digest()
    keys = [key, digest.tenant_key(key, TENANT), sealer_key]
    asked = (*map(masked, (SECRET, TENANT, b" ".join(words))), model, is_held, in_thread)
    with subprocess.Popen(
        [sys.executable, "-c", CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **(OVERWRITTEN if is_overwritten else {})},
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(" ".join(map(str, asked)).encode() + b"\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"done\n"
        held = regions(child.pid)
        child.stdin.close()
    return (
        sum(any(each in region for region in held) for each in words),
        sum(any(each in region for region in held) for each in keys),
    )


MODELS = [
    "gpt-4o",
    "gpt-4",
    "llama-3.3-70b",
    "gemini-2.5-pro",
    "claude-sonnet-4-5",
    "claude-opus-4-7",
]


@pytest.mark.parametrize("in_thread", [False, True], ids=["main thread", "other thread"])
@pytest.mark.parametrize("model", MODELS)
def test_nothing_of_a_message_and_no_key_is_held(model: str, *, in_thread: bool) -> None:
    assert live(model, in_thread=in_thread) == (0, 0)


def test_keys_are_overwritten_when_they_are_dropped() -> None:
    """Nothing but the engine overwrites what is freed here."""
    assert live("gpt-4o", is_overwritten=False)[1] == 0


def test_the_scan_finds_what_is_held() -> None:
    words, keys = live("gpt-4o", is_held=True)
    assert words == WORDS
    assert keys == 2  # that of a tenant lives as long as a call
