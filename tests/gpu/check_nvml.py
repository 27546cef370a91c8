#!/usr/bin/env python3
"""Compares what probe_dump printed with what nvidia-smi said before and after. Usage: check_nvml.py DIRECTORY PID

What stands still must be equal. What moves must lie between the two readings, widened by the tolerance below."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

MIB = 1 << 20
# Field of the event, column of nvidia-smi, factor from the column's unit to the event's, tolerance in the event's.
MOVING = [
    (
        "utilisation_pct",
        3,
        1,
        100,
    ),  # Averages of other moments: only that it is a percentage, or equal at rest.
    ("memory_utilisation_pct", 4, 1, 100),
    ("used_bytes", 5, MIB, 256 * MIB),
    ("power_mw", 7, 1000, 100_000),
    ("clock_mhz", 8, 1, 2000),
    ("memory_clock_mhz", 9, 1, 2000),
    ("temperature_c", 10, 1, 10),
]


def number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None  # "[N/A]": not told there either.


def rows(file: Path) -> list[list[str]]:
    return [[cell.strip() for cell in line.split(",")] for line in file.read_text().splitlines() if line]


def main() -> int:
    directory, load = Path(sys.argv[1]), int(sys.argv[2])
    lines = [json.loads(line) for line in (directory / "events").read_text().splitlines()]
    events: list[dict[str, Any]] = [line["event"] for line in lines if "event" in line]
    states = {line["probe"]: line for line in lines if "probe" in line}
    failures = 0

    def check(what: str, good: bool, detail: Callable[[], str] = str) -> None:
        nonlocal failures
        failures += not good
        print(f"{'ok   ' if good else 'FAIL '} {what} {'' if good else detail()}".rstrip())

    check("the probe is ok", states["gpu"]["health"] == "ok", lambda: str(states["gpu"]))
    print("      cost of the gpu probe: {cost_pct} % of a core".format(**states["gpu"]))
    before, after = rows(directory / "before"), rows(directory / "after")
    for index, (early, late) in enumerate(zip(before, after, strict=True)):
        samples = [e for e in events if e["kind"] == "GpuDeviceSample" and e["device_index"] == index]
        check(f"GPU {index}: sampled every second", len(samples) >= 3, lambda: str(len(samples)))  # noqa: B023
        if not samples:
            continue
        last = samples[-1]
        print(f"      {json.dumps(last)}")
        check(f"GPU {index}: name", last.get("device_name") == early[1], lambda: str(early[1]))  # noqa: B023
        bus = early[2].lower()
        check(f"GPU {index}: PCI address", bus.endswith(last["pci_address"]), lambda: bus)  # noqa: B023
        total = number(early[6])
        if total is not None:
            check(f"GPU {index}: memory", abs(last["total_bytes"] - total * MIB) <= MIB, lambda: str(total))  # noqa: B023
        ecc = number(late[11])
        if ecc is not None:
            check(f"GPU {index}: ECC errors", last.get("ecc_error_count", 0) == ecc, lambda: str(ecc))  # noqa: B023
        for field, column, factor, tolerance in MOVING:
            ends = [number(early[column]), number(late[column])]
            known = [value * factor for value in ends if value is not None]
            value = last.get(field)
            if not known:
                check(f"GPU {index}: {field} is unknown to both", not value, lambda: str(value))  # noqa: B023
                continue
            good = value is not None or 0 in known
            value = value or 0
            good &= min(known) - tolerance <= value <= max(known) + tolerance
            check(f"GPU {index}: {field}", good, lambda: f"{value} beside {known}")  # noqa: B023
        energies = [sample.get("energy_mj", 0) for sample in samples]
        if energies[0]:
            span_s = (samples[-1]["ts_mono_ns"] - samples[0]["ts_mono_ns"]) / 1e9
            watts = (energies[-1] - energies[0]) / 1000 / span_s
            drawn = last.get("power_mw", 0) / 1000
            told = f"{watts} W, {drawn} W"
            check(f"GPU {index}: energy grows with power", watts > 0.3 * drawn, lambda told=told: told)
    thermal = [e for e in events if e["kind"] == "ThermalState"]
    check("the thermal state is told", bool(thermal))
    if load:
        uses = [e for e in events if e["kind"] == "GpuProcessSample"]
        apps = {int(row[0]): number(row[2]) for row in rows(directory / "apps")}
        print(f"      nvidia-smi's processes: {apps}")
        if load in apps:
            mine = [e for e in uses if e["target_pid"] == load]
            check(
                "the load's GPU memory",
                bool(mine) and abs(mine[-1]["used_bytes"] - (apps[load] or 0) * MIB) <= 64 * MIB,
            )
            check("the load is busy", any(e.get("busy_pct", 0) > 0 for e in mine), lambda: str(mine))
            prints = [e for e in events if e["kind"] == "ProcFootprint" and e["target_pid"] == load]
            check("its footprint has its GPU memory", any(e.get("gpu_bytes", 0) > 0 for e in prints))
        else:
            print(
                "      the driver does not show the load's pid (another pid namespace): its use is not compared"
            )
    print(f"{failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
