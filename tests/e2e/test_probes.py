"""Probe truth: what each probe says of this machine, beside an independent reading of the same thing.

Tolerances: what moves by itself (memory in use, counters) is read before and after, and must lie between, give or
take the stated slack; what stands still must be equal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import WORKLOAD, wait_until

MIB = 1 << 20
# Others use the machine meanwhile.
MEMORY_SLACK = 512 * MIB


class Dump:
    """A running probe_dump, and what it has printed."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [WORKLOAD / "probe_dump", "--seconds", "0", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
        )
        self.lines: list[dict[str, Any]] = []
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self.rest = b""

    def read(self) -> None:
        assert self.process.stdout is not None
        while not self.process.stdout.closed and (block := self.process.stdout.read()):
            *lines, self.rest = (self.rest + block).split(b"\n")
            self.lines += [json.loads(line) for line in lines]

    def events(self, kind: str) -> list[dict[str, Any]]:
        self.read()
        return [line["event"] for line in self.lines if line.get("event", {}).get("kind") == kind]

    def wait(self, kind: str, count: int = 1) -> dict[str, Any]:
        """The latest event of that kind, once there are so many."""
        return wait_until(lambda: len(e := self.events(kind)) >= count and e[-1], f"{kind} came")

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(timeout=30) == 0
        self.read()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def dump(*arguments: str) -> Iterator[Dump]:
    running = Dump(*arguments)
    try:
        yield running
        running.end()
    finally:
        running.process.kill()
        running.process.wait()


@contextmanager
def python(code: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program that has printed its first line."""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def between(before: float, value: float, after: float, slack: float) -> bool:
    return min(before, after) - slack <= value <= max(before, after) + slack


def free() -> dict[str, list[int]]:
    lines = subprocess.check_output(["free", "-b"], text=True).splitlines()[1:]
    return {line.split()[0]: [int(n) for n in line.split()[1:]] for line in lines}


def proc_number(file: str, key: str) -> int:
    match = re.search(rf"^{re.escape(key)}:?\s+(\d+)", Path(file).read_text(), re.MULTILINE)
    assert match is not None, f"{key} in {file}"
    return int(match[1])


def ps(pid: int, field: str) -> str:
    return subprocess.check_output(["ps", "-o", f"{field}=", "-p", str(pid)], text=True).strip()


def test_vm_agrees_with_free_and_proc() -> None:
    with dump("--only", "vm") as probes:
        probes.wait("VmSample")
        before = free()
        count = len(probes.events("VmSample"))
        active = proc_number("/proc/meminfo", "Active") * 1024
        sample = probes.wait("VmSample", count + 1)
        after = free()
    assert sample["total_bytes"] == before["Mem:"][0]
    assert between(before["Mem:"][5], sample["available_bytes"], after["Mem:"][5], MEMORY_SLACK)
    assert between(before["Swap:"][1], sample["swap_used_bytes"], after["Swap:"][1], 64 * MIB)
    assert between(active, sample["active_bytes"], active, MEMORY_SLACK)
    assert sample["pressure"] in ("normal", "warning", "critical")
    assert sample["page_outs_per_sec"] >= 0
    wired = sum(
        proc_number("/proc/meminfo", key) * 1024
        for key in ("Unevictable", "SUnreclaim", "KernelStack", "PageTables")
    )
    assert between(wired, sample["wired_bytes"], wired, 64 * MIB)


def test_vm_sees_busy_cores() -> None:
    with python("print(flush=True)\nwhile True: pass"), dump("--only", "vm") as probes:
        # One core is taken: at least most of its share of all of them.
        sample = probes.wait("VmSample", 3)
    assert sample["cpu_busy_pct"] >= 70 / (os.cpu_count() or 1)


def test_pressure_agrees_with_proc() -> None:
    if not Path("/proc/pressure/cpu").exists():
        pytest.skip("the kernel has no PSI")

    def total_us(resource: str) -> int:
        text = Path(f"/proc/pressure/{resource}").read_text()
        return int(re.search(r"some .*total=(\d+)", text)[1])  # type: ignore[index]

    before = {resource: total_us(resource) for resource in ("memory", "io", "cpu")}
    with dump("--only", "vm") as probes:
        probes.wait("PressureSample", 3)
        told = probes.events("PressureSample")
    for resource, total in before.items():
        (first, *_) = [event for event in told if event["resource"] == resource]
        assert total <= first.get("some_total_us", 0) <= total_us(resource)
        assert 0 <= first["full_pct"] <= first["some_pct"] <= 100


def test_proc_sees_a_hog_as_ps_does() -> None:
    with python("print(flush=True)\nwhile True: pass") as hog, dump("--only", "proc") as probes:
        ticks = os.sysconf("SC_CLK_TCK")

        def cpu_seconds() -> float:
            fields = Path(f"/proc/{hog.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / ticks

        probes.wait("ProcTop")
        begin_s, begin_cpu = time.monotonic(), cpu_seconds()
        probes.wait("ProcTop", 2)
        true_pct = 100 * (cpu_seconds() - begin_cpu) / (time.monotonic() - begin_s)
        top = probes.wait("ProcTop", 2)["top"]
        (seen,) = [process for process in top if process["pid"] == hog.pid]
        assert seen["name"].startswith(ps(hog.pid, "comm")[:15])
    assert seen["cpu_pct"] == pytest.approx(true_pct, abs=25)
    assert len(top) <= 10
    assert [p["cpu_pct"] for p in top] == sorted((p["cpu_pct"] for p in top), reverse=True)


def test_footprint_agrees_with_proc() -> None:
    hold = (
        "import time; x = bytearray(200 << 20); x[::4096] = b'x' * len(x[::4096]);"
        " print(flush=True); time.sleep(600)"
    )
    with python(hold) as hog, dump("--only", "footprint", "--record", f"s:{hog.pid}") as probes:
        sample = probes.wait("ProcFootprint", 2)
        status = f"/proc/{hog.pid}/status"
        footprint = 1024 * sum(proc_number(status, k) for k in ("RssAnon", "RssShmem", "VmSwap", "VmPTE"))
        # It holds still: to the page, give or take what the kernel counts late.
        assert sample["phys_footprint_bytes"] == pytest.approx(footprint, abs=1 * MIB)
        assert sample["phys_footprint_bytes"] >= 200 * MIB
        assert sample["rss_bytes"] == pytest.approx(int(ps(hog.pid, "rss")) * 1024, abs=1 * MIB)
        assert sample["lifetime_max_phys_footprint_bytes"] == pytest.approx(
            proc_number(status, "VmHWM") * 1024, abs=1 * MIB
        )
        assert sample["process_name"] == ps(hog.pid, "comm")[:15]
        assert sample["thread_count"] == int(ps(hog.pid, "nlwp"))
        assert sample["target_pid"] == sample["pid"] == hog.pid
        assert sample["is_traced_root"]
        (first, *_) = probes.events("ProcFootprint")
        pss = proc_number(f"/proc/{hog.pid}/smaps_rollup", "Pss") * 1024
        assert first["pss_bytes"] == pytest.approx(pss, rel=0.05)


def test_footprint_sees_a_cpu_hog_and_its_children() -> None:
    code = "import os\nif os.fork() == 0:\n while True: pass\nprint(flush=True)\nimport time; time.sleep(600)"
    with python(code) as root, dump("--only", "footprint", "--record", f"s:{root.pid}") as probes:
        (child,) = (
            int(pid) for pid in Path(f"/proc/{root.pid}/task/{root.pid}/children").read_text().split()
        )
        try:

            def busy() -> bool:
                seen = [e for e in probes.events("ProcFootprint") if e["pid"] == child]
                return any(event.get("cpu_pct", 0) > 20 for event in seen)

            wait_until(busy, "the child was seen to be busy")
            idle = [e for e in probes.events("ProcFootprint") if e["pid"] == root.pid]
            assert idle[-1]["is_traced_root"]
            assert idle[-1].get("cpu_pct", 0) < 20
        finally:
            os.kill(child, signal.SIGKILL)


def test_footprint_keeps_its_own_period() -> None:
    me = os.getpid()
    with dump("--only", "footprint", "--record", f"s:{me}", "--period", "200") as probes:
        wait_until(
            lambda: len({e["ts_mono_ns"] for e in probes.events("ProcFootprint")}) >= 6, "six readings"
        )
        times = sorted({e["ts_mono_ns"] for e in probes.events("ProcFootprint")})
    # Ticks are on a grid of 0.2 s, whatever a busy machine skips.
    gaps = [later - earlier for earlier, later in zip(times[1:], times[2:], strict=False)]
    assert min(gaps) < 1_000_000_000, "the default period of 2 s was used"


def test_cgroup_agrees_with_its_files() -> None:
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    base = Path("/sys/fs/cgroup")
    places = [
        (base / "memory" / line.split(":", 2)[2].lstrip("/"), "memory.usage_in_bytes")
        for line in lines
        if "memory" in line.split(":")[1].split(",")
    ]
    places += [
        (mount / line.split(":", 2)[2].lstrip("/"), "memory.current")
        for line in lines
        if line.startswith("0::")
        for mount in (base, base / "unified")
    ]
    found = [place / file for place, file in places if (place / file).exists()]
    if not found:
        pytest.skip("no cgroup accounts this test's memory")
    before = int(found[0].read_text())
    with dump("--only", "cgroup", "--record", f"s:{os.getpid()}") as probes:
        sample = probes.wait("CgroupMemory")
        after = int(found[0].read_text())
    assert between(before, sample["current_bytes"], after, MEMORY_SLACK)
    assert str(found[0].parent).endswith(sample["cgroup"].rstrip("/"))


def test_thermal_and_gpu_say_what_is_here() -> None:
    with dump("--only", "thermal", "--only", "gpu") as probes:
        wait_until(lambda: len(probes.events("ProbeHealth")) >= 2, "both said how they are")
        health = {event["probe"]: event for event in probes.events("ProbeHealth")}
    zones = [
        *Path("/sys/class/thermal").glob("thermal_zone*"),
        *Path("/sys/class/hwmon").glob("hwmon*/temp*_input"),
    ]
    cards = [*Path("/sys/class/drm").glob("card?"), *Path("/dev").glob("nvidia?")]
    if not zones and not cards:
        assert health["thermal"]["state"] == "absent"
        assert health["thermal"]["reason"] == "no temperature sensors here"
    if not cards:
        assert health["gpu"]["state"] in ("absent", "failed")
        assert health["gpu"]["reason"]
        assert not probes.events("GpuDeviceSample")


def test_every_probe_reports_health_and_cost() -> None:
    with dump("--record", f"s:{os.getpid()}") as probes:
        probes.wait("VmSample", 3)
    states = {line["probe"]: line for line in probes.lines if "probe" in line}
    assert {"vm", "proc", "footprint", "cgroup", "thermal", "gpu"} <= states.keys()
    for state in states.values():
        assert state["health"] in ("starting", "ok", "degraded", "absent", "failed")
        assert bool(state["reason"]) == (state["health"] in ("degraded", "absent", "failed"))
    assert states["vm"]["readings"] >= 3
