#!/usr/bin/env python3
"""What recording costs the bundled transformer, as paired runs.

Each round runs every variant once, in turn, so that slow drifts of the machine hit all alike; the ratio is the
median over the rounds of (variant / bare run of the same round). The program itself times the decoding: pipelines
and weights included, the start and end of the process not.

    bench/vulkan_demo.py [--bin build/release/bin] [--rounds 15] [--steps 256] [--threads 1]
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

# Name, is it recorded, environment, budget of the ratio on (lavapipe, H200) or None.
VARIANTS = [
    ("bare", False, {}, None),
    ("recorded, hook disabled", True, {"SMELTR_HOOK_DISABLE": "1"}, None),
    ("recorded, command buffers only", True, {"SMELTR_HOOK_NO_OPS": "1"}, (1.05, 1.02)),
    ("recorded, sampled kernel times", True, {}, (1.08, 1.03)),
    ("recorded, every kernel timed", True, {"SMELTR_HOOK_DISPATCH_BOUNDARY": "1"}, None),
]


def decode_ms(command: list[str], environment: dict[str, str]) -> float:
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    (value,) = re.findall(r"^decoding: ([0-9.]+) ms$", result.stderr, flags=re.MULTILINE)
    return float(value)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bin", type=Path, default=Path("build/release/bin"))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=256)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()

    binaries = arguments.bin.resolve()
    demo = [str(binaries / "smeltr-demo"), "--timing", "--steps", str(arguments.steps)]
    demo += ["--threads", str(arguments.threads)]
    record = [str(binaries / "smeltr"), "record", "--quiet", "--require", "--"]
    times: dict[str, list[float]] = {name: [] for name, *_ in VARIANTS}
    with tempfile.TemporaryDirectory() as home:
        for number in range(arguments.rounds + 1):
            for name, recorded, extra, _ in VARIANTS:
                environment = {**os.environ, "SMELTR_HOME": home, **extra}
                taken = decode_ms(record + demo if recorded else demo, environment)
                if number > 0:  # The first round warms caches and starts the daemon.
                    times[name].append(taken)

    out = subprocess.run(
        [demo[0], "--steps", "1", "--prompt-length", "1"], capture_output=True, text=True, check=True
    )
    print(
        out.stdout.splitlines()[0].rpartition(", on ")[2]
        + f"; {arguments.steps} steps, {arguments.rounds} rounds"
    )
    print(f"{'variant':34}{'median ms':>11}{'ratio':>8}{'quartiles':>16}{'budget':>14}")
    for name, _, _, budget in VARIANTS:
        ratios = [taken / bare for taken, bare in zip(times[name], times["bare"], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else [ratios[0]] * 3
        allowed = f"{budget[0]:.2f} / {budget[1]:.2f}" if budget else ""
        spread = f"{low:.3f} - {high:.3f}"
        print(f"{name:34}{statistics.median(times[name]):11.1f}{middle:8.3f}{spread:>16}{allowed:>14}")
    print("budget: the spec's ratio on lavapipe / on an H200")


if __name__ == "__main__":
    main()
