#!/usr/bin/env python3
"""Kills smeltrd with SIGKILL at random moments under load, again and again, and counts what is missing.

  bench/kill_daemon.py BUILD_DIR [--kills 200] [--rate 20000]

A program writes numbered marks at a steady rate while its daemon is killed and replaced. In the end its exit
status must be its own and every session must open. What is missing is counted a run: in each, the mean of its kills
may be at most what 500 ms of events are; a single kill is not told apart.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

UNFLUSHED_S = 0.5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random.seed(options.seed)
    smeltr, pump = options.build / "bin/smeltr", options.build / "workload/event_pump"
    home = Path(tempfile.mkdtemp(prefix="smeltr-kill-"))
    environment = {**os.environ, "SMELTR_HOME": str(home)}
    kills = lost = wanted = failures = 0
    worst = 0.0
    seconds = 20
    while kills < options.kills:
        run = subprocess.Popen(
            [
                smeltr,
                "record",
                "--no-hook",
                "--",
                pump,
                "--rate",
                str(options.rate),
                "--seconds",
                str(seconds),
            ],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        of_this_run = 0
        start = time.monotonic()
        while time.monotonic() - start < seconds - 3 and kills < options.kills:
            time.sleep(random.uniform(0.2, 1.5))
            try:
                os.kill(int((home / "smeltrd.lock").read_text()), signal.SIGKILL)
            except (ProcessLookupError, FileNotFoundError, ValueError):
                continue
            kills += 1
            of_this_run += 1
        out, err = run.communicate()
        if run.returncode != 0 or int(out) != options.rate * seconds:
            print(f"the program suffered: exit {run.returncode}, {out!r}, {err!r}")
            failures += 1
        listed = subprocess.run(
            [smeltr, "sessions", "ls", "--json"], env=environment, capture_output=True, text=True, check=True
        )
        newest = json.loads(listed.stdout)["sessions"][0]["short_id"]
        shown = subprocess.run(
            [smeltr, "sessions", "show", newest, "--json"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if shown.returncode != 0:
            print(f"{newest} does not open: {shown.stderr}")
            failures += 1
            continue
        marks = int((re.search(r'"Mark":\s*(\d+)', shown.stdout) or [0, 0])[1])
        missing = options.rate * seconds - marks
        lost += missing
        wanted += options.rate * seconds
        if of_this_run:
            worst = max(worst, missing / options.rate / of_this_run)
        print(
            f"{newest}: {of_this_run} kills, {missing} of {options.rate * seconds} marks missing", flush=True
        )
    os.kill(int((home / "smeltrd.lock").read_text()), signal.SIGTERM)
    print(f"| kills                              | {kills} |")
    print(f"| marks written, missing             | {wanted:,}, {lost:,} |")
    print(
        f"| missing a kill, mean; worst run    | {1000 * lost / options.rate / kills:.0f} ms; {1000 * worst:.0f} ms |"
    )
    print(f"| programs disturbed, sessions unreadable | {failures} |")
    shutil.rmtree(home, ignore_errors=True)
    return int(failures != 0 or worst > UNFLUSHED_S)


if __name__ == "__main__":
    sys.exit(main())
