#!/usr/bin/env python3
"""What all probes cost together while nothing is recorded: processor and memory of probe_dump, which runs them
under the daemon's supervisor and does nothing else.

    bench/probes_idle.py --bin build/release/workload [--seconds 60] [--pid PID]

With --pid it measures a running process instead, such as a smeltrd."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path


def cpu_seconds(pid: int) -> float:
    """From the scheduler's own nanoseconds, summed over threads; ticks would round a small figure to nothing."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total / 1e9


def switches(pid: int) -> int:
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                total += int(line.split()[1])
    return total


def status_kib(pid: int, key: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1])
    return 0


def measure(pid: int, seconds: float) -> dict[str, float]:
    begin, cpu, switched = time.monotonic(), cpu_seconds(pid), switches(pid)
    time.sleep(seconds)
    elapsed = time.monotonic() - begin
    return {
        "seconds": elapsed,
        "cpu_pct": 100 * (cpu_seconds(pid) - cpu) / elapsed,
        "wakeups_per_s": (switches(pid) - switched) / elapsed,
        "rss_mib": status_kib(pid, "VmRSS") / 1024,
        "anon_mib": status_kib(pid, "RssAnon") / 1024,
        "threads": float(status_kib(pid, "Threads")),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bin", type=Path, help="directory of probe_dump")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--pid", type=int)
    options = parser.parse_args()
    if (options.pid is None) == (options.bin is None):
        parser.error("give either --bin or --pid")

    dump = None
    pid = options.pid
    if pid is None:
        dump = subprocess.Popen(
            [options.bin / "probe_dump", "--seconds", "0", "--quiet"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        pid = dump.pid
        time.sleep(3)  # The libraries that probes load once are not idle cost.
    figures = measure(pid, options.seconds)
    print(f"| processes | {sum(p.name.isdigit() for p in Path('/proc').iterdir())} |\n| --- | ---: |")
    for name, value in figures.items():
        print(f"| {name} | {value:.3f} |")
    if dump is not None:
        out, _ = dump.communicate(b"")
        print("\n| probe | health | readings | % of a core |\n| --- | --- | ---: | ---: |")
        for line in out.splitlines():
            state = json.loads(line)
            print(f"| {state['probe']} | {state['health']} | {state['readings']} | {state['cost_pct']:.4f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
