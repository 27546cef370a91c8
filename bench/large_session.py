#!/usr/bin/env python3
"""What a session of very many events costs: written, verified, listed, shown, summed up.

bench/large_session.py BUILD_DIR [--events 100M] [--api cuda] [--home DIR]
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DISK_BUDGET_GB = 24
MEMORY_BUDGET_MB = 300


def run(command: list[str | Path], environment: dict[str, str]) -> tuple[float, float, float, str]:
    """Seconds by the clock, seconds of CPU, peak MB, and what it printed."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(command, env=environment, stdout=output, stdin=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        took = time.monotonic() - began
        output.seek(0)
        text = output.read().decode()
    if status != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: status {status}\n{text}")
    return took, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--events", default="100M")
    parser.add_argument("--api", default="cuda")
    parser.add_argument("--home", type=Path)
    options = parser.parse_args()
    home = options.home or Path(tempfile.mkdtemp(prefix="smeltr-large-"))
    environment = {**os.environ, "SMELTR_HOME": str(home)}
    bin_dir = options.build / "bin"
    generate = ["--events", options.events, "--api", options.api, "--name", "large"]
    steps: list[tuple[str, list[str | Path]]] = [
        ("gen-session", [bin_dir / "gen-session", *generate]),
        ("sessions verify", [bin_dir / "smeltr", "sessions", "verify", "large"]),
        ("sessions ls", [bin_dir / "smeltr", "sessions", "ls", "--json"]),
        ("sessions show", [bin_dir / "smeltr", "sessions", "show", "large"]),
        ("breakdown", [bin_dir / "smeltr", "breakdown", "large"]),
    ]
    worst = 0.0
    try:
        print(f"| {'step':15} | {'time':>9} | {'CPU':>9} | {'peak memory':>11} |")
        print(f"| {'-' * 15} | {'-' * 9} | {'-' * 9} | {'-' * 11} |")
        for name, command in steps:
            seconds, cpu, peak_mb, text = run(command, environment)
            worst = max(worst, peak_mb)
            print(f"| {name:15} | {seconds:7.2f} s | {cpu:7.2f} s | {peak_mb:8.0f} MB |", flush=True)
            if name == "gen-session":
                print(text.strip(), file=sys.stderr)
        disk_gb = sum(f.stat().st_size for f in home.rglob("*") if f.is_file()) / 1e9
        print(
            f"disk {disk_gb:.2f} GB (budget {DISK_BUDGET_GB}), peak {worst:.0f} MB (budget {MEMORY_BUDGET_MB})"
        )
    finally:
        if options.home is None:
            shutil.rmtree(home, ignore_errors=True)
    return 0 if worst <= MEMORY_BUDGET_MB and disk_gb <= DISK_BUDGET_GB else 1


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.exit(main())
