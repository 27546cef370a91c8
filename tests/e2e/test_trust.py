"""Whether a session on disk can be trusted: verified, repaired, copied elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from conftest import WORKLOAD, Smeltr, start_sleeper, wait_until

SCOPE_LOOP = WORKLOAD / "scope_loop"


@pytest.fixture
def recorded(smeltr: Smeltr) -> Path:
    """The directory of a session that ended well."""
    assert smeltr.record("--name", "run", "--", SCOPE_LOOP, "--count", "200").returncode == 0
    smeltr.wait_ended()
    (directory,) = smeltr.session_directories()
    return directory


def verified(smeltr: Smeltr, *arguments: str | Path) -> tuple[int, dict[str, Any]]:
    result = smeltr.run("sessions", "verify", "--json", *arguments)
    assert result.stdout, result.stderr
    return result.returncode, json.loads(result.stdout)


def flip(file: Path, at: int) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 0x20
    file.write_bytes(content)


def damage_a_block(directory: Path) -> None:
    """The last byte before the index: where the last block of the last chunk ends."""
    file = directory / "events.smlt"
    flip(file, file.read_bytes().rindex(b"smltINDX") - 1)


def test_a_recorded_session_is_sound_by_reference_and_by_path(smeltr: Smeltr, recorded: Path) -> None:
    for arguments in (["run"], ["--last"], [recorded], [f"{recorded}/"], [recorded / "events.smlt"]):
        status, report = verified(smeltr, *arguments)
        assert (status, report["sound"], report["faults"]) == (0, True, []), arguments
        assert report["event_count"] > 200
    text = smeltr.run("sessions", "verify", "run").stdout.decode()
    assert "sound: every checksum holds" in text
    assert "repair" not in text
    assert b"nothing to repair" in smeltr.run("sessions", "repair", "run").stdout


def test_damage_is_told_with_its_cost_and_repaired_in_a_copy(smeltr: Smeltr, recorded: Path) -> None:
    damage_a_block(recorded)
    before = {file.name: file.read_bytes() for file in recorded.iterdir()}
    status, report = verified(smeltr, "run")
    assert status == 1
    (fault,) = report["faults"]
    assert fault["part"] == "block"
    assert fault["lost_events"] == report["lost_events"] > 0
    assert report["loss_known"]
    text = smeltr.run("sessions", "verify", "run").stdout.decode()
    short_id = recorded.name[-8:]
    assert f"smeltr sessions repair {short_id}" in text
    assert all(len(line) <= 80 for line in text.splitlines() if "/" not in line)

    result = smeltr.run("sessions", "repair", "run", "--json")
    assert result.returncode == 0, result.stderr
    repaired = json.loads(result.stdout)
    assert repaired["lost_events"] == report["lost_events"]
    assert repaired["event_count"] == report["event_count"]
    assert {file.name: file.read_bytes() for file in recorded.iterdir()} == before
    assert verified(smeltr, repaired["session_id"][:8])[0] == 0
    shown = smeltr.run("sessions", "show", repaired["session_id"][:8]).stdout.decode()
    assert "run (repaired)" in shown
    assert "lost to damage" in shown


def test_repair_elsewhere_and_in_place(smeltr: Smeltr, recorded: Path, tmp_path: Path) -> None:
    damage_a_block(recorded)
    copy = tmp_path / "copy"
    assert smeltr.run("sessions", "repair", "run", "--output", copy).returncode == 0
    assert verified(smeltr, copy)[0] == 0
    again = smeltr.run("sessions", "repair", "run", "--output", copy)
    assert again.returncode == 1
    assert b"exists already" in again.stderr
    assert verified(smeltr, "run")[0] == 1
    assert smeltr.run("sessions", "repair", "run", "--in-place").returncode == 0
    assert verified(smeltr, "run")[0] == 0
    assert sorted(file.name for file in recorded.iterdir()) == ["events.smlt", "metadata.toml"]
    both = smeltr.run("sessions", "repair", "run", "--in-place", "--output", copy)
    assert both.returncode == 2


def test_a_live_session_is_not_called_damaged(smeltr: Smeltr) -> None:
    _, pid = start_sleeper(smeltr)
    status, report = verified(smeltr, "--last")
    assert (status, report["still_written"]) == (0, True)
    for arguments in ([], ["--in-place"], ["--output", smeltr.home / "copy"]):
        refused = smeltr.run("sessions", "repair", "--last", *arguments)
        assert b"still being recorded" in refused.stdout + refused.stderr
    os.kill(pid, signal.SIGTERM)
    smeltr.wait_ended()
    assert verified(smeltr, "--last")[0] == 0


def test_a_session_whose_daemon_was_killed_is_sound(smeltr: Smeltr) -> None:
    _, pid = start_sleeper(smeltr)
    daemon = smeltr.daemon_pid()
    os.kill(daemon, signal.SIGKILL)
    wait_until(lambda: smeltr.daemon_pid() not in (0, daemon), "another smeltrd took over")
    os.kill(pid, signal.SIGTERM)
    smeltr.wait_ended()
    status, report = verified(smeltr, "--last")
    assert (status, report["faults"]) == (0, [])
    assert len(report["files"]) == 2
    assert any("has no index" in note for note in report["notes"])


def test_a_session_reads_the_same_on_another_machine(smeltr: Smeltr, recorded: Path, tmp_path: Path) -> None:
    """Nothing in it knows where it lies, which host it is on, or whether that was booted since."""
    here = smeltr.run("breakdown", "run", "--json").stdout
    elsewhere = tmp_path / "other-home" / "sessions"
    elsewhere.mkdir(parents=True, mode=0o700)
    copied = elsewhere / recorded.name
    shutil.copytree(recorded, copied)
    metadata = (copied / "metadata.toml").read_text()
    lines = [line for line in metadata.splitlines() if not line.startswith(("boot_id", "host", "# checksum"))]
    (copied / "metadata.toml").write_text("\n".join(["boot_id = 'other'", "host = 'other'", *lines]) + "\n")
    other = {"SMELTR_HOME": str(elsewhere.parent), "TZ": "Asia/Kolkata", "LC_ALL": "de_DE.UTF-8"}
    there = smeltr.run("breakdown", "run", "--json", env=other)
    assert there.returncode == 0, there.stderr
    mine, theirs = json.loads(here), json.loads(there.stdout)
    mine["session"].pop("directory")
    theirs["session"].pop("directory")
    assert theirs == mine
    assert smeltr.run("sessions", "ls", env=other).stdout.count(b"run") == 1
    assert smeltr.run("sessions", "show", "run", env=other).returncode == 0
    assert verified(smeltr, copied)[0] == 0


def test_what_is_no_session_is_an_error(smeltr: Smeltr, tmp_path: Path) -> None:
    for path, words in ((tmp_path, b"holds no session"), (tmp_path / "none", b"No such file")):
        result = smeltr.run("sessions", "verify", f"{path}/")
        assert result.returncode == 1
        assert words in result.stderr
    assert smeltr.run("sessions", "verify").returncode == 2
