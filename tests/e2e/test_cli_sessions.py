"""What becomes of sessions: listed, kept, deleted, by hand and by age and size."""

from __future__ import annotations

import contextlib
import json
import os
import re
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from conftest import WORKLOAD, Smeltr, start_sleeper, wait_until

SCOPE_LOOP = WORKLOAD / "scope_loop"


def listed(smeltr: Smeltr, *arguments: str) -> list[dict[str, Any]]:
    result = smeltr.run("sessions", "ls", "--json", *arguments)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["sessions"]


def names(smeltr: Smeltr, *arguments: str) -> list[str]:
    return [session["name"] for session in listed(smeltr, *arguments)]


def directory_of(smeltr: Smeltr, name: str) -> Path:
    (found,) = [d for d, metadata in smeltr.stored_sessions().items() if metadata.get("name") == name]
    return found


def make_session(
    smeltr: Smeltr, name: str, kind: str, started: str = "2024-01-02T03:04:05.000Z", **more: str
) -> Path:
    """One that another smeltr left behind long ago."""
    digits = f"{zlib.crc32(name.encode()):08x}"
    directory = smeltr.home / "sessions" / f"2024-01-02-030405-{digits}"
    directory.mkdir(parents=True, mode=0o700)
    keys = {"session_id": f"{digits}-0000-4000-8000-000000000000", "kind": kind, "name": name}
    keys |= {"started": started, "ended": started, "end_reason": "exit", **more}
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
    (directory / "metadata.toml").write_text(text + "start_mono_ns = 1\n")
    return directory


@pytest.fixture
def home(smeltr: Smeltr) -> Smeltr:
    smeltr.home.mkdir(mode=0o700)
    return smeltr


# --- ls ---


def test_ls_leaves_ambient_sessions_out_and_says_so(home: Smeltr) -> None:
    make_session(home, "machine", "ambient")
    make_session(home, "run", "scoped")
    make_session(home, "dump", "post-mortem")
    assert sorted(names(home)) == ["dump", "run"]
    assert names(home, "--kind", "ambient") == ["machine"]
    assert names(home, "--kind", "post-mortem") == ["dump"]
    assert sorted(names(home, "--all")) == ["dump", "machine", "run"]
    text = home.run("sessions", "ls").stdout.decode()
    assert text.splitlines()[-1] == "1 ambient session not shown; --all shows them"
    assert "dump (post-mortem)" in text
    assert "not shown" not in home.run("sessions", "ls", "--all").stdout.decode()


def test_ls_ties_post_mortems_to_their_sessions(home: Smeltr) -> None:
    make_session(home, "run", "scoped")
    (run,) = listed(home)
    assert (run["post_mortem_count"], run["pinned"]) == (0, False)
    make_session(home, "dump", "post-mortem", source_session_id=run["session_id"])
    by_name = {session["name"]: session for session in listed(home)}
    assert by_name["run"]["post_mortems"] == [by_name["dump"]["short_id"]]
    assert by_name["dump"]["source_session_id"] == run["session_id"]
    text = home.run("sessions", "ls").stdout.decode()
    assert "run [1 post-mortem]" in text
    assert f"dump (post-mortem of {run['short_id']})" in text
    shown = home.run("sessions", "show", "run").stdout.decode()
    assert re.search(rf"^Dumped as +{by_name['dump']['short_id']}$", shown, re.MULTILINE), shown


def test_ls_sorts_by_size(home: Smeltr) -> None:
    (make_session(home, "small", "scoped") / "more").write_bytes(b"x" * 10_000)
    (make_session(home, "large", "scoped", "2023-01-01T00:00:00Z") / "more").write_bytes(b"x" * 100_000)
    assert names(home) == ["small", "large"]
    assert names(home, "--sort", "size") == ["large", "small"]
    assert listed(home, "--sort", "size")[0]["disk_bytes"] >= 100_000


def test_live_sessions_are_told(smeltr: Smeltr) -> None:
    process, _ = start_sleeper(smeltr, "0")
    assert [session["state"] for session in listed(smeltr)] == ["live"]
    process.terminate()
    process.wait(60)
    # Late reports about its end still go in for a while.
    wait_until(lambda: listed(smeltr)[0]["state"] == "ended", "the session was closed")


def test_tables_fit_80_columns(home: Smeltr) -> None:
    for i in range(3):
        make_session(home, f"{i}" + "n" * 150, "scoped")
    for arguments in (["sessions", "ls"], ["sessions", "prune", "--dry-run"]):
        out = home.run(*arguments, env={"COLUMNS": "80"}).stdout.decode()
        assert max(len(line) for line in out.splitlines()) <= 80, out
        # The name is what is looked for.
        if arguments[1] == "ls":
            assert "2" + "n" * 15 in out, out


# --- pin, rm ---


def test_pinned_sessions_stay(home: Smeltr) -> None:
    directory = make_session(home, "run", "scoped")
    assert home.run("sessions", "pin", "run").returncode == 0
    assert listed(home)[0]["pinned"]
    assert "run [pinned]" in home.run("sessions", "ls").stdout.decode()
    refused = home.run("sessions", "rm", "run")
    assert refused.returncode == 1
    assert b"is pinned" in refused.stderr
    assert home.run("sessions", "prune").returncode == 0
    assert directory.exists()
    assert home.run("sessions", "unpin", "run").returncode == 0
    assert home.run("sessions", "rm", "run").returncode == 0
    assert not directory.exists()


def test_rm_is_all_or_nothing(home: Smeltr) -> None:
    make_session(home, "one", "scoped")
    make_session(home, "two", "scoped")
    assert home.run("sessions", "rm", "one", "no-such").returncode == 1
    home.run("sessions", "pin", "two")
    assert home.run("sessions", "rm", "one", "two").returncode == 1
    assert sorted(names(home)) == ["one", "two"]
    result = home.run("sessions", "rm", "--force", "one", "two", "one")
    assert result.returncode == 0
    assert b"deleted 2 sessions" in result.stdout
    assert names(home) == []


def test_pin_and_rm_as_json(home: Smeltr) -> None:
    make_session(home, "run", "scoped")
    make_session(home, "other", "scoped")
    pinned = json.loads(home.run("sessions", "pin", "run", "--json").stdout)["sessions"]
    assert [(one["name"], one["pinned"]) for one in pinned] == [("run", True)]
    unpinned = json.loads(home.run("sessions", "unpin", "run", "--json").stdout)["sessions"]
    assert [(one["name"], one["pinned"]) for one in unpinned] == [("run", False)]
    removed = json.loads(home.run("sessions", "rm", "run", "--json").stdout)
    assert [one["name"] for one in removed["removed"]] == ["run"]
    assert removed["freed_bytes"] > 0
    assert removed["kept_bytes"] > 0
    assert names(home) == ["other"]


def test_rm_last_and_what_it_leaves_behind(home: Smeltr) -> None:
    make_session(home, "old", "scoped", "2023-01-01T00:00:00Z")
    make_session(home, "run", "scoped")
    (run,) = [one for one in listed(home) if one["name"] == "run"]
    make_session(home, "dump", "post-mortem", source_session_id=run["session_id"])
    (dump,) = [one for one in listed(home) if one["name"] == "dump"]
    result = home.run("sessions", "rm", "--last")
    assert result.returncode == 0, result.stderr
    assert f"smeltr sessions rm {dump['short_id']}" in result.stdout.decode()
    assert sorted(names(home)) == ["dump", "old"]
    assert home.run("sessions", "rm").returncode == 2


def test_a_directory_is_a_reference(home: Smeltr, tmp_path: Path) -> None:
    directory = make_session(home, "run", "scoped")
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "metadata.toml").write_text((directory / "metadata.toml").read_text())
    assert json.loads(home.run("sessions", "show", copy, "--json").stdout)["name"] == "run"
    refused = home.run("sessions", "rm", "--force", copy)
    assert refused.returncode == 2
    assert b"is not in" in refused.stderr
    assert directory.exists()
    assert home.run("sessions", "rm", f"{directory}/").returncode == 0
    assert not directory.exists()
    assert copy.exists()


def test_rm_refuses_what_is_being_recorded(smeltr: Smeltr) -> None:
    process, _ = start_sleeper(smeltr, "0")
    (directory,) = smeltr.session_directories()
    refused = smeltr.run("sessions", "rm", directory.name)
    assert refused.returncode == 1
    assert b"still being recorded" in refused.stderr
    assert directory.exists()
    process.terminate()
    assert process.wait(60) == 0


# --- prune ---


def test_prune_says_what_goes_and_why(home: Smeltr) -> None:
    make_session(home, "old", "scoped")
    make_session(home, "kept", "scoped")
    home.run("sessions", "pin", "kept")
    make_session(home, "young", "scoped", datetime.now(UTC).isoformat())
    dry = home.run("sessions", "prune", "--dry-run")
    assert dry.returncode == 0
    assert "older than 30 days" in dry.stdout.decode()
    assert b"would delete 1 session" in dry.stdout
    assert sorted(names(home)) == ["kept", "old", "young"]
    pruned = home.run("sessions", "prune", "--json")
    answer = json.loads(pruned.stdout)
    assert [row["name"] for row in answer["removed"]] == ["old"]
    assert answer["removed"][0]["reason"] == "older than 30 days"
    assert answer["freed_bytes"] > 0
    assert sorted(names(home)) == ["kept", "young"]
    assert b"nothing to delete" in home.run("sessions", "prune").stdout


def test_prune_takes_its_limits_from_flags_and_config(home: Smeltr) -> None:
    make_session(home, "old", "scoped")
    (home.home / "config.toml").write_text("[retention]\nmax_age_days = 0\n")
    assert b"nothing to delete" in home.run("sessions", "prune").stdout
    assert b"would delete 1" in home.run("sessions", "prune", "--dry-run", "--max-age-days", "9").stdout
    (home.home / "config.toml").write_text("[retention]\nmax_age_days = true\n")
    broken = home.run("sessions", "prune")
    assert broken.returncode == 1
    assert b"config.toml:2: retention.max_age_days" in broken.stderr
    assert names(home) == ["old"]


def test_prune_by_size_takes_crashes_last(home: Smeltr) -> None:
    (home.home / "config.toml").write_text("[retention]\nmax_age_days = 0\n")
    for name, day in (("crash", "01"), ("old", "02"), ("new", "03")):
        (make_session(home, name, "scoped", f"2024-01-{day}T00:00:00Z") / "more").write_bytes(b"x" * 100_000)
    crash = directory_of(home, "crash") / "metadata.toml"
    crash.write_text(crash.read_text() + "term_signal = 11\n")
    home.run("sessions", "prune", "--max-total", "250k", "--yes")
    assert names(home) == ["new", "crash"]
    home.run("sessions", "prune", "--max-total", "150k", "--yes")
    assert names(home) == ["crash"]


def test_prune_never_touches_a_recording(smeltr: Smeltr) -> None:
    process, _ = start_sleeper(smeltr, "0")
    assert b"nothing to delete" in smeltr.run("sessions", "prune", "--max-total", "1").stdout
    process.terminate()
    assert process.wait(60) == 0


def test_smeltrd_prunes_by_itself(home: Smeltr) -> None:
    old = make_session(home, "old", "scoped")
    kept = make_session(home, "kept", "scoped")
    home.run("sessions", "pin", "kept")
    home.run("daemon", "start")
    wait_until(lambda: not old.exists(), "smeltrd deleted what was too old")
    assert kept.exists()
    wait_until(lambda: "removed session " + old.name in home.log(), "smeltrd said so")


def ask_on_a_terminal(smeltr: Smeltr, answer: bytes, *arguments: str) -> tuple[int, str]:
    """Exit status and output of a command that has a terminal, whose user types `answer`."""
    ours, theirs = os.openpty()
    process = smeltr.start(*arguments, stdin=theirs, stdout=theirs)
    os.close(theirs)
    os.write(ours, answer)
    said = b""
    with contextlib.suppress(OSError):  # Its end: nobody has the other side any more.
        while part := os.read(ours, 4096):
            said += part
    os.close(ours)
    return process.wait(60), said.decode()


def test_on_a_terminal_deletion_is_asked_for(home: Smeltr) -> None:
    directory = make_session(home, "run", "scoped")
    status, said = ask_on_a_terminal(home, b"n\n", "sessions", "rm", "run")
    assert status == 1
    assert "delete 1 session (" in said
    assert "[y/N]" in said
    assert directory.exists()
    assert ask_on_a_terminal(home, b"n\n", "sessions", "prune")[0] == 1
    assert directory.exists()
    assert ask_on_a_terminal(home, b"y\n", "sessions", "rm", "run")[0] == 0
    assert not directory.exists()


def test_links_are_left_alone(home: Smeltr, tmp_path: Path) -> None:
    elsewhere = make_session(home, "old", "scoped").rename(tmp_path / "elsewhere")
    (home.home / "sessions" / "2024-01-02-030405-00000001").symlink_to(elsewhere)
    assert b"nothing to delete" in home.run("sessions", "prune").stdout
    refused = home.run("sessions", "rm", "--force", "old")
    assert refused.returncode != 0
    assert os.listdir(elsewhere) == ["metadata.toml"]
