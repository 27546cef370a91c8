"""A second reader, written from docs/formats.md alone, reads what ours does: the page says enough."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import WORKLOAD, Smeltr

TOOL = Path(__file__).resolve().parents[2] / "tools" / "read_session.py"


def events_by_us(*files: Path) -> list[dict[str, object]]:
    result = subprocess.run([WORKLOAD / "session_tool", "dump", *files], capture_output=True, check=True)
    return [json.loads(line) for line in result.stdout.splitlines()]


def events_by_python(path: Path) -> tuple[int, list[dict[str, object]]]:
    result = subprocess.run([sys.executable, TOOL, path], capture_output=True, text=True, check=False)
    assert "Traceback" not in result.stderr, result.stderr
    return result.returncode, [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Events of every kind, usual and extreme values, in several files."""
    directory = tmp_path_factory.mktemp("session")
    subprocess.run([WORKLOAD / "session_tool", "make", directory, "7", "1600"], check=True)
    return directory


def event_files(session: Path) -> list[Path]:
    names = [path.name for path in session.glob("events*.smlt")]
    return [session / name for name in sorted(names, key=lambda name: (len(name), name))]


def test_events_of_every_kind_are_the_same(session: Path) -> None:
    status, read = events_by_python(session)
    expected = events_by_us(*event_files(session))
    assert status == 0
    assert len(read) == 1600
    for mine, theirs in zip(expected, read, strict=True):
        assert theirs == mine
    assert len({event["kind"] for event in read}) > 60


@pytest.mark.parametrize("part", ["end", "middle", "header"])
def test_damage_costs_the_same(session: Path, tmp_path: Path, part: str) -> None:
    content = bytearray((session / "events.smlt").read_bytes())
    chunk = content.index(b"smltCHNK", content.index(b"smltCHNK") + 1)
    if part == "end":
        del content[-len(content) // 3 :]
    else:
        # Without the index, which has a copy of the header.
        del content[content.rindex(b"smltINDX") :]
        content[chunk + (20_000 if part == "middle" else 30)] ^= 1
    damaged = tmp_path / "damaged.smlt"
    damaged.write_bytes(content)
    status, read = events_by_python(damaged)
    assert status == 1
    assert 0 < len(read) < 1600
    assert read == events_by_us(damaged)


def test_a_recorded_session_is_the_same(smeltr: Smeltr) -> None:
    assert smeltr.record("--", WORKLOAD / "scope_loop", "--count", "100", "--fields").returncode == 0
    smeltr.wait_ended()
    (directory,) = smeltr.session_directories()
    status, read = events_by_python(directory)
    assert status == 0
    assert read == events_by_us(directory / "events.smlt")
    assert {"SessionStarted", "ModuleEntered", "SessionEnded"} <= {event["kind"] for event in read}
