"""Something goes wrong: the minute before it is kept as a session of its own, linked both ways, once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomllib
from conftest import BIN, WORKLOAD, Smeltr, read_ready, start_daemon, start_sleeper, wait_until

SCOPE_LOOP = WORKLOAD / "scope_loop"


def listed(smeltr: Smeltr, kind: str) -> list[dict[str, Any]]:
    result = smeltr.run("sessions", "ls", "--kind", kind, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["sessions"]


def shown(smeltr: Smeltr, reference: str) -> dict[str, Any]:
    result = smeltr.run("sessions", "show", reference, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def only_dump(smeltr: Smeltr) -> dict[str, Any]:
    (dump,) = wait_until(lambda: listed(smeltr, "post-mortem"), "there was a post-mortem")
    return dump


def test_a_crash_makes_one_post_mortem(smeltr: Smeltr) -> None:
    result = smeltr.record("--", SCOPE_LOOP, "--count", "30", "--signal", str(int(signal.SIGSEGV)))
    assert result.returncode == 128 + signal.SIGSEGV
    dump = only_dump(smeltr)
    recording = smeltr.wait_ended()
    assert dump["source_session_id"] == recording["session_id"]
    assert dump["directory"].split("/")[-1].startswith("post-mortem-crash-")
    wait_until(
        lambda: smeltr.only_metadata().get("post_mortems") == [dump["session_id"]],
        "the recording named its post-mortem",
    )
    counts = shown(smeltr, dump["short_id"])["event_counts"]
    assert (counts["Mark"], counts["ModuleEntered"]) == (30, 31)
    (ambient,) = listed(smeltr, "ambient")
    wait_until(
        lambda: shown(smeltr, ambient["short_id"])["event_counts"].get("PostMortemFlushed") == 1,
        "the ambient session told of it",
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_death_that_somebody_wanted_is_no_incident(smeltr: Smeltr, number: int) -> None:
    smeltr.record("--", SCOPE_LOOP, "--count", "3", "--signal", str(int(number)))
    smeltr.wait_ended()
    smeltr.end_daemon()
    assert listed(smeltr, "post-mortem") == []


@pytest.fixture
def small_cgroup() -> Iterator[Path]:
    """A control group of 60 MB, where the machine lets one be made and its kernel log be read."""
    limits = {"/sys/fs/cgroup/memory": "memory.limit_in_bytes", "/sys/fs/cgroup": "memory.max"}
    group, limit = next(
        (
            (Path(root) / f"smeltr-test-{os.getpid()}", name)
            for root, name in limits.items()
            if Path(root).is_dir()
        ),
        (Path("/nowhere/group"), ""),
    )
    try:
        os.close(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK))
        group.mkdir()
        (group / limit).write_text("60000000")
    except OSError as error:
        if group.is_dir():
            group.rmdir()
        pytest.skip(f"no control group with a memory limit, or no kernel log, can be had here: {error}")
    yield group
    wait_until(lambda: not (group / "cgroup.procs").read_text(), "the control group was empty")
    group.rmdir()


def test_a_real_memory_kill_is_seen_with_pid_and_size(smeltr: Smeltr, small_cgroup: Path) -> None:
    hog = "x = bytearray(400 << 20); x[::4096] = b'x' * len(x[::4096])"
    script = f'echo $$ > {small_cgroup}/cgroup.procs; exec {sys.executable} -c "{hog}"'
    result = smeltr.record("--", "sh", "-c", script)
    assert result.returncode == 128 + signal.SIGKILL
    dump = only_dump(smeltr)
    assert dump["directory"].split("/")[-1].startswith("post-mortem-memory-kill-")
    recording = smeltr.wait_ended()
    counts = shown(smeltr, recording["session_id"])["event_counts"]
    assert counts["OomKill"] >= 1
    with open(f"{dump['directory']}/metadata.toml", "rb") as metadata:
        triggers = tomllib.load(metadata)["triggers"]
    (text,) = {one["text"] for one in triggers if one["class"] == "memory-kill"}
    assert f"({recording['root_pid']})" in text
    assert "MiB" in text


def test_a_lost_device_makes_one_post_mortem_whatever_was_in_flight(smeltr: Smeltr) -> None:
    fault = {
        "VK_ADD_LAYER_PATH": str(WORKLOAD),
        "VK_INSTANCE_LAYERS": "VK_LAYER_SMELTR_fault",
        "FAULT_WAIT": "3:-4",
    }
    result = smeltr.record("--", WORKLOAD / "vk_loop", "fresh", "5", env=fault)
    assert result.returncode == 1
    dump = only_dump(smeltr)
    smeltr.wait_ended()
    smeltr.end_daemon()
    assert [one["session_id"] for one in listed(smeltr, "post-mortem")] == [dump["session_id"]]
    session = shown(smeltr, dump["short_id"])
    assert session["event_counts"]["VulkanDeviceInfo"] == 1
    assert session["event_counts"]["VulkanCbCommitted"] == 3
    assert any("DEVICE_LOST" in error["error_name"] for error in session["errors"])


def test_a_crash_of_smeltrd_is_told_by_the_next(smeltr: Smeltr) -> None:
    crashing = {**smeltr.environment, "SMELTR_TEST_CRASH": "segv:1500"}
    daemon = subprocess.Popen([BIN / "smeltrd"], env=crashing, stderr=subprocess.DEVNULL)
    wait_until((smeltr.home / "run/smeltr.sock").exists, "smeltrd listened")
    process = smeltr.start("record", "--", SCOPE_LOOP, "--count", "50", "--linger", stdin=subprocess.PIPE)
    read_ready(process)
    assert daemon.wait(60) == -signal.SIGSEGV
    dump = only_dump(smeltr)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert dump["directory"].split("/")[-1].startswith("post-mortem-daemon-panic-")
    with open(f"{dump['directory']}/panic-report.txt") as report:
        assert "SIGSEGV" in report.read()
    metadata = smeltr.wait_ended()
    assert metadata["exit_code"] == 0
    # What was buffered when it crashed was written first.
    assert shown(smeltr, metadata["session_id"])["event_counts"]["Mark"] == 50


def test_a_daemon_that_is_stopped_leaves_the_running_program_to_the_next(smeltr: Smeltr) -> None:
    process, pid = start_sleeper(smeltr)
    smeltr.end_daemon()
    metadata = smeltr.only_metadata()
    assert metadata["end_reason"] == "daemon-shutdown"
    assert "ended" not in metadata
    assert len(smeltr.ring_directories()) == 1
    daemon = start_daemon(smeltr)
    wait_until(lambda: b"recording" in smeltr.run("daemon", "status").stdout, "it was adopted")
    os.kill(pid, signal.SIGTERM)
    process.wait(60)
    metadata = smeltr.wait_ended()
    assert metadata["session_id"]
    assert smeltr.ring_directories() == []
    daemon.terminate()
    assert daemon.wait(60) == 0


def test_many_recordings_at_once(smeltr: Smeltr) -> None:
    smeltr.record("--", "true")
    runs = [
        smeltr.start("record", "--no-hook", "--", SCOPE_LOOP, "--count", str(count)) for count in range(1, 65)
    ]
    for run in runs:
        _, err = run.communicate(timeout=120)
        assert run.returncode == 0
        assert b"(0 dropped)" in err
    counts = sorted(m["event_counts"].get("Mark", 0) for m in smeltr.metadata())
    assert counts == list(range(65))


def test_a_spoilt_metadata_file_is_made_anew(smeltr: Smeltr) -> None:
    smeltr.record("--", SCOPE_LOOP, "--count", "5")
    (directory,) = smeltr.session_directories()
    smeltr.end_daemon()
    (directory / "metadata.toml").write_bytes(b"\x00garbage = [")
    daemon = subprocess.Popen([BIN / "smeltrd"], env=smeltr.environment, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: (directory / "metadata.toml.bad").exists(), "the bad file was put aside")
        wait_until(lambda: smeltr.daemon_pid() == daemon.pid, "smeltrd ran")
        # The bad file goes a moment before the good one comes.
        session = wait_until(
            lambda: (s := shown(smeltr, directory.name))["state"] == "recovered" and s, "it was recovered"
        )
        assert session["event_counts"]["Mark"] == 5
    finally:
        daemon.terminate()
        daemon.wait(60)


def test_the_newest_is_kept_below_max_size(smeltr: Smeltr) -> None:
    pump = WORKLOAD / "event_pump"
    result = smeltr.record("--no-hook", "--max-size", "1M", "--", pump, "--rate", "2000000", "--seconds", "3")
    assert result.returncode == 0
    metadata = smeltr.wait_ended()
    (directory,) = smeltr.session_directories()
    on_disk = sum(file.stat().st_size for file in directory.glob("events*.smlt"))
    assert on_disk < 1_100_000
    assert metadata["trimmed_event_count"] > 0
    session = shown(smeltr, directory.name)
    kept = session["event_counts"]["Mark"]
    assert kept + metadata["trimmed_event_count"] >= metadata["event_counts"]["Mark"]
    assert "were deleted" in smeltr.run("sessions", "show", directory.name).stdout.decode()
