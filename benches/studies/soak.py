"""Memory while distinct conversations come without end: `python3 dev.py study soak --help`.

Each of several threads estimates and records conversations that nobody has sent before, one of ten
of them a second turn. Resident memory must stay within 1.25 times the capacity and
`--spare-bytes` of what it was before; if it does not, the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from pathlib import Path

import tokenctx

USAGE = {"prompt_tokens": 20, "completion_tokens": 5}
CALLS_PER_CONVERSATION = 2.1
REPLY = {"role": "assistant", "content": "ok"}


def resident_bytes() -> int:
    """Memory of this process that is in use."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def converse(estimator: tokenctx.HybridTokenEstimator, numbers: range) -> None:
    """One conversation for each of `numbers`, estimated and recorded; some go on."""
    for number in numbers:
        first = b'{"role":"user","content":"conversation %d"}' % number
        body = b'{"model":"gpt-4o","messages":[' + first + b"]}"
        estimator.estimate(body)
        estimator.record(body, USAGE, reply=REPLY)
        if number % 10 == 0:
            new = b',{"role":"assistant","content":"ok"},{"role":"user","content":"go on"}]}'
            estimate = estimator.estimate(body[:-2] + new)
            if estimate.source != "delta":
                raise SystemExit(f"a second turn is {estimate.source}; it must be delta")


def main() -> int:
    """0 if memory stayed within its bounds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--conversations", type=int, default=5_000_000)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--capacity-bytes", type=int, default=64 << 20)
    parser.add_argument("--spare-bytes", type=int, default=32 << 20)
    options = parser.parse_args()
    converse(tokenctx.HybridTokenEstimator(), range(1000))
    start = time.process_time()
    converse(tokenctx.HybridTokenEstimator(), range(20_000))
    microseconds = 1e6 * (time.process_time() - start) / (20_000 * CALLS_PER_CONVERSATION)
    print(f"one thread, from Python: {microseconds:.1f} us a call")
    estimator = tokenctx.HybridTokenEstimator(capacity_bytes=options.capacity_bytes)
    before, start, most = resident_bytes(), time.monotonic(), 0
    step = -(-options.conversations // (10 * options.threads))
    for tenth in range(10):
        begin = tenth * options.threads * step
        starts = range(begin, begin + options.threads * step, step)
        threads = [
            threading.Thread(target=converse, args=(estimator, range(it, it + step)))
            for it in starts
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        most = max(most, resident_bytes() - before)
        stats = estimator.stats()
        print(
            f"{begin + options.threads * step:>9,} conversations: {most / 1e6:6.1f} MB more, "
            f"{stats['used_bytes'] / 1e6:.1f} of {stats['capacity_bytes'] / 1e6:.1f} MB by "
            f"{stats['known_prefixes']:,} prefixes, {stats['evicted']:,} evicted",
            flush=True,
        )
    calls = 10 * options.threads * step * CALLS_PER_CONVERSATION
    seconds = time.monotonic() - start
    limit = int(options.capacity_bytes * 1.25) + options.spare_bytes
    print(f"{calls / seconds:,.0f} calls/s; {most / 1e6:.1f} MB of {limit / 1e6:.1f} allowed")
    return int(most > limit)


if __name__ == "__main__":
    sys.exit(main())
