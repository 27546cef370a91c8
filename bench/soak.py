#!/usr/bin/env python3
"""Many processes writing at once for minutes, short recordings between: nothing may be lost, nothing may grow.

  bench/soak.py BUILD_DIR [--minutes 10] [--processes 8] [--rate 200000] [--recordings 50]

Prints a table for docs/benchmarks.md; exits 1 when something was lost, leaked or over its budget.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RSS_BUDGET_MB = 150
SETTLE_S = 15


def status_of(pid: int) -> tuple[float, int, float]:
    """Resident MB, open descriptors, CPU seconds."""
    status = Path(f"/proc/{pid}/status").read_text()
    resident = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024
    descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return resident, descriptors, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--rate", type=int, default=200_000)
    parser.add_argument("--recordings", type=int, default=50)
    options = parser.parse_args()
    smeltr, pump = options.build / "bin/smeltr", options.build / "workload/event_pump"
    home = Path(tempfile.mkdtemp(prefix="smeltr-soak-"))
    environment = {**os.environ, "SMELTR_HOME": str(home)}
    seconds = int(options.minutes * 60)

    def record(*command: str | Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [smeltr, "record", "--no-hook", "--", *command],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    record("true").wait()
    daemon = int((home / "smeltrd.lock").read_text())
    # Its probes open what they read one after the other.
    time.sleep(SETTLE_S)
    resident_before, descriptors_before, _ = status_of(daemon)
    long_runs = [
        record(pump, "--rate", str(options.rate), "--seconds", str(seconds)) for _ in range(options.processes)
    ]
    start = time.monotonic()
    resident_peak = resident_before
    short_reports: list[str] = []
    for number in range(options.recordings):
        while time.monotonic() - start < seconds * (number + 0.5) / options.recordings:
            time.sleep(0.5)
            resident_peak = max(resident_peak, status_of(daemon)[0])
        _, report = record(pump, "--rate", "10000", "--seconds", "1").communicate()
        short_reports.append(report)
    long_reports = [run.communicate()[1] for run in long_runs]
    wall = time.monotonic() - start
    time.sleep(3)
    resident_after, descriptors_after, cpu = status_of(daemon)

    recorded = re.compile(r"recorded ([\d,]+) events \(([\d,]+) dropped\)")
    wanted = options.processes * options.rate * seconds + options.recordings * 10_000
    found = dropped = 0
    for report in [*long_reports, *short_reports]:
        match = recorded.search(report)
        if match is None:
            print(f"no report of a recording: {report!r}")
            return 1
        found += int(match[1].replace(",", ""))
        dropped += int(match[2].replace(",", ""))
    disk = sum(file.stat().st_size for file in home.glob("sessions/*/events*.smlt"))
    # Each process says hello besides.
    hellos = found - wanted
    print(f"| duration                          | {wall:.0f} s |")
    print(f"| processes x events/s              | {options.processes} x {options.rate:,} |")
    print(f"| short recordings                  | {len(short_reports)} |")
    print(f"| events written, recorded, dropped | {wanted:,}, {found:,}, {dropped:,} |")
    print(f"| bytes an event on disk            | {disk / max(found, 1):.2f} |")
    print(f"| CPU of smeltrd                    | {100 * cpu / wall:.1f} % of a core |")
    print(
        f"| resident before, peak, after      | {resident_before:.1f}, {resident_peak:.1f}, {resident_after:.1f} MB |"
    )
    print(f"| descriptors before, after         | {descriptors_before}, {descriptors_after} |")
    subprocess.run(["kill", str(daemon)], check=False)
    shutil.rmtree(home, ignore_errors=True)
    lost = dropped != 0 or not 0 <= hellos <= 4 * (options.processes + options.recordings)
    leaked = descriptors_after > descriptors_before
    return int(lost or leaked or resident_peak > RSS_BUDGET_MB)


if __name__ == "__main__":
    sys.exit(main())
