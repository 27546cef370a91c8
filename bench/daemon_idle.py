#!/usr/bin/env python3
"""What smeltrd costs while nothing is recorded, with all its probes.

bench/daemon_idle.py BUILD_DIR [--seconds 300]
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

CPU_BUDGET_PCT = 0.5
RSS_BUDGET_MB = 20
WARM_UP_S = 5


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--seconds", type=float, default=300)
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="smeltr-idle-"))
    environment = {**os.environ, "SMELTR_HOME": str(home)}
    daemon = subprocess.Popen([options.build / "bin/smeltrd"], env=environment, stderr=subprocess.DEVNULL)
    time.sleep(WARM_UP_S)
    before = cpu_seconds(daemon.pid)
    time.sleep(options.seconds)
    cpu_pct = 100 * (cpu_seconds(daemon.pid) - before) / options.seconds
    status = Path(f"/proc/{daemon.pid}/status").read_text()
    resident, anonymous = (
        int(re.search(rf"{key}:\s+(\d+)", status)[1]) / 1024 for key in ("VmRSS", "RssAnon")
    )
    shown = subprocess.run(
        [options.build / "bin/smeltr", "daemon", "status"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    daemon.terminate()
    daemon.wait()
    disk = sum(file.stat().st_size for file in home.glob("sessions/*/*"))
    print(f"| measured for | {options.seconds:.0f} s |")
    print(f"| CPU          | {cpu_pct:.3f} % of a core |")
    print(f"| resident     | {resident:.1f} MB, of it {anonymous:.1f} MB its own |")
    print(f"| disk         | {disk / options.seconds * 86400 / 1e6:.1f} MB a day |")
    print(shown[shown.find("Probes") :])
    shutil.rmtree(home, ignore_errors=True)
    return int(cpu_pct > CPU_BUDGET_PCT or resident > RSS_BUDGET_MB)


if __name__ == "__main__":
    sys.exit(main())
