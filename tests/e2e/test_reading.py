"""The reading commands on what people get wrong: references, homes, files that are not whole."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from conftest import WORKLOAD, Smeltr

SCOPE_LOOP = WORKLOAD / "scope_loop"


def error_of(result: subprocess.CompletedProcess[bytes]) -> str:
    """The one line a failing command says; it prints nothing else."""
    assert result.stdout == b""
    (line,) = result.stderr.decode().splitlines()
    assert line.startswith("smeltr: ")
    return line


def test_no_sessions_yet(smeltr: Smeltr) -> None:
    for arguments in (["breakdown"], ["sessions", "show", "--last"]):
        result = smeltr.run(*arguments)
        assert result.returncode == 1
        assert "smeltr record" in error_of(result)
    listed = smeltr.run("sessions", "ls", "--json")
    assert listed.returncode == 0
    assert json.loads(listed.stdout) == {"sessions": [], "hidden_count": 0}


def test_unknown_reference_names_the_nearest(smeltr: Smeltr) -> None:
    smeltr.record("--name", "baseline", "--", SCOPE_LOOP)
    result = smeltr.run("breakdown", "baselin")
    assert result.returncode == 1
    assert "baseline" in error_of(result)


@pytest.mark.parametrize(
    "arguments",
    [
        ["breakdown", "--no-such-flag"],
        ["breakdown", "x", "--last"],
        ["breakdown", "--top", "many"],
        ["breakdown", "--top", "-1"],
        ["breakdown", "--top", "99999999999999999999"],
        ["breakdown", ""],
        ["breakdown", "--group-by", "colour"],
        ["breakdown", "--field", "novalue"],
        ["sessions", "frobnicate"],
        ["sessions", "show"],
        ["frobnicate"],
        [],
    ],
)
def test_wrong_usage(smeltr: Smeltr, arguments: list[str]) -> None:
    result = smeltr.run(*arguments)
    assert result.returncode == 2
    error_of(result)


def test_a_session_cut_off_anywhere_opens(smeltr: Smeltr) -> None:
    smeltr.record("--name", "cut", "--", SCOPE_LOOP, "--count", "5000")
    (directory,) = smeltr.session_directories()
    events = directory / "events.smlt"
    whole = events.read_bytes()
    for length in (len(whole) - 1, len(whole) // 2, 100, 17):
        events.write_bytes(whole[:length])
        shown = smeltr.run("sessions", "show", "cut", "--json")
        assert shown.returncode == 0, shown.stderr
        damage = json.loads(shown.stdout)["damage"]
        assert damage["torn_tail"] or damage["no_footer"] or damage["skipped_bytes"] or damage["problems"]
        assert smeltr.run("breakdown", "cut").returncode in (0, 1)
        # People are told too.
        text = smeltr.run("sessions", "show", "cut").stdout.decode()
        assert "events.smlt" in text, text


@pytest.mark.parametrize("content", [b"", b"not a session file at all, just text\n" * 10])
def test_a_file_that_is_no_session(smeltr: Smeltr, content: bytes) -> None:
    smeltr.record("--name", "odd", "--", SCOPE_LOOP)
    (directory,) = smeltr.session_directories()
    (directory / "events.smlt").write_bytes(content)
    shown = smeltr.run("sessions", "show", "odd")
    assert shown.returncode in (0, 1)
    assert "events.smlt" in shown.stdout.decode() + shown.stderr.decode()


def test_garbage_metadata_hides_nothing(smeltr: Smeltr) -> None:
    smeltr.record("--name", "named", "--", SCOPE_LOOP, "--count", "10")
    (directory,) = smeltr.session_directories()
    whole = (directory / "metadata.toml").read_bytes()
    (directory / "metadata.toml").write_bytes(b"\x00\xff = [[[")
    listed = smeltr.run("sessions", "ls")
    shown = smeltr.run("sessions", "show", directory.name)
    (directory / "metadata.toml").write_bytes(whole)  # For the fixture, which looks for what still runs.
    assert listed.returncode == 0
    assert directory.name[-8:] in listed.stdout.decode()
    assert shown.returncode == 0


def test_plain_text_fits_80_columns(smeltr: Smeltr, tmp_path: Path) -> None:
    smeltr.record("--name", "n" * 150, "--", SCOPE_LOOP, "--count", "10")
    for arguments in (["sessions", "ls"], ["sessions", "show", "--last"], ["breakdown"]):
        out = smeltr.run(*arguments, env={"COLUMNS": "80"}).stdout.decode()
        assert out
        assert "\x1b" not in out
