"""What the first use of a built vocabulary costs, in time and private memory, beside tiktoken.

Each line is the median of fresh processes. tiktoken makes its encoder of the same ranks in the
same process, parsed already; times are of processor, so that a busy machine changes little.
Gemma's has no ranks that it takes.
"""

import argparse
import json
import subprocess
import sys
from statistics import median

NAMES = ("p50k_base", "r50k_base", "deepseek_v3", "mistral_v3", "qwen2", "gemma")
WORK = """
import base64, json, re, sys, time
import tiktoken
import tokenctx

def private_mb():
    text = open("/proc/self/smaps_rollup").read()
    return sum(int(kb) for kb in re.findall(r"Private_\\w+: +(\\d+) kB", text)) / 1024

name = sys.argv[1]
tokenctx.count_tokens("warm")
before, start = private_mb(), time.thread_time()
tokenctx.encodings.preload_encodings(name)
ours, after = time.thread_time() - start, private_mb()
theirs = None
if name != "gemma":
    lines = (line.split() for line in tokenctx._core.rank_file(name).splitlines())
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    start = time.thread_time()
    tiktoken.Encoding(name, pat_str=r"\\S+|\\s+", mergeable_ranks=ranks, special_tokens={})
    theirs = time.thread_time() - start
print(json.dumps((1000 * ours, after - before, theirs and theirs / ours)))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    print(f"{'vocabulary':<12} {'ms':>6} {'MB':>6} {'tiktoken / ours':>16}")
    for name in NAMES:
        command = (sys.executable, "-c", WORK, name)
        runs = [json.loads(subprocess.check_output(command)) for _ in range(rounds)]
        ms, mb = (median(run[column] for run in runs) for column in (0, 1))
        ratio = "" if runs[0][2] is None else f"{median(run[2] for run in runs):.1f}"
        print(f"{name:<12} {ms:>6.0f} {mb:>6.1f} {ratio:>16}")


if __name__ == "__main__":
    main()
