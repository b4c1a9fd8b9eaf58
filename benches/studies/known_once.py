"""What is known once, beside parsing; the rows are those of `known_rows.py`.

python3 dev.py study known_once [--rounds 21] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import gc
import time

from gateway_speed import show, values
from known_rows import SETS
from tokenctx._core import simd_level


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--only", nargs="*", choices=SETS)
    options = parser.parse_args()
    print(f"level {simd_level()}, {time.strftime('%Y-%m-%d')}: must, aim, median [quartiles], us")
    gc.disable()
    for name in options.only or SETS:
        for row in SETS[name]():
            show(row, *values(row, options.rounds))
        gc.collect()


if __name__ == "__main__":
    main()
