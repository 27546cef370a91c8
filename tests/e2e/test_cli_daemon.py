"""`smeltr daemon`: started, looked at, stopped, installed; and `record` when its daemon goes away."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, WORKLOAD, Smeltr, is_running, read_ready, start_daemon, start_sleeper, wait_until

SCOPE_LOOP = WORKLOAD / "scope_loop"


def status(smeltr: Smeltr) -> dict[str, Any]:
    return json.loads(smeltr.run("daemon", "status", "--json").stdout)


def test_start_status_stop(smeltr: Smeltr) -> None:
    assert smeltr.run("daemon", "status").returncode == 3
    started = smeltr.run("daemon", "start")
    assert started.returncode == 0, started.stderr
    pid = smeltr.daemon_pid()
    assert started.stdout.decode() == f"smeltrd runs, pid {pid}\n"
    assert os.getsid(pid) == pid or os.getsid(pid) != os.getsid(0)
    # Again: nothing happens.
    assert smeltr.run("daemon", "start").stdout.decode() == f"smeltrd runs already, pid {pid}\n"
    shown = smeltr.run("daemon", "status")
    assert shown.returncode == 0
    assert f"pid {pid}" in shown.stdout.decode()
    answer = status(smeltr)
    assert (answer["running"], answer["pid"], answer["version_matches"]) == (True, pid, True)
    assert answer["home"] == str(smeltr.home)
    stopped = smeltr.run("daemon", "stop")
    assert stopped.returncode == 0, stopped.stderr
    assert not is_running(pid)
    assert smeltr.run("daemon", "status").returncode == 3
    assert status(smeltr)["running"] is False


def test_status_lists_recordings(smeltr: Smeltr) -> None:
    process, pid = start_sleeper(smeltr, "0")
    (recording,) = [session for session in status(smeltr)["sessions"] if session["kind"] == "scoped"]
    assert recording["root_pid"] == pid
    assert recording["state"] == "recording"
    process.terminate()
    process.wait(60)


def test_started_daemon_stays_where_one_of_record_would_end(smeltr: Smeltr) -> None:
    smeltr.record("--", "true")
    first = smeltr.daemon_pid()
    assert smeltr.run("daemon", "start").returncode == 0
    second = smeltr.daemon_pid()
    assert second != first
    assert b"--idle-exit-seconds" not in Path(f"/proc/{second}/cmdline").read_bytes()


def test_restart(smeltr: Smeltr) -> None:
    smeltr.run("daemon", "start")
    first = smeltr.daemon_pid()
    assert smeltr.run("daemon", "restart").returncode == 0
    assert smeltr.daemon_pid() not in (0, first)


def test_a_daemon_that_hangs_is_killed_by_force_only(smeltr: Smeltr) -> None:
    smeltr.run("daemon", "start")
    pid = smeltr.daemon_pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        refused = smeltr.run("daemon", "stop")
        assert refused.returncode == 1
        assert b"--force" in refused.stderr
        assert is_running(pid)
        assert smeltr.run("daemon", "stop", "--force").returncode == 0
        assert not is_running(pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def test_stop_does_not_trust_the_lock_file(smeltr: Smeltr) -> None:
    smeltr.home.mkdir()
    bystander = subprocess.Popen(["sleep", "1000"])
    (smeltr.home / "smeltrd.lock").write_text(f"{bystander.pid}\n")
    assert smeltr.run("daemon", "stop", "--force").returncode == 0
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()
    (smeltr.home / "smeltrd.lock").unlink()


def test_logs(smeltr: Smeltr) -> None:
    missing = smeltr.run("daemon", "logs")
    assert missing.returncode == 1
    smeltr.run("daemon", "start")
    last = smeltr.run("daemon", "logs", "-n", "1").stdout.decode()
    assert last.count("\n") == 1
    assert last == smeltr.log().splitlines(keepends=True)[-1]
    follower = smeltr.start("daemon", "logs", "-f", "-n", "1")
    assert follower.stdout is not None
    assert follower.stdout.readline() == last.encode()
    with open(smeltr.home / "smeltrd.log", "a") as log:
        log.write("a line \x1b[2J\n")
    assert follower.stdout.readline() == b"a line ?[2J\n"
    follower.kill()


# --- install ---


def fake_systemctl(tmp_path: Path, script: str) -> dict[str, str]:
    """An environment in which systemctl notes its arguments and does as `script` says."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "systemctl").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n{script}')
    (tools / "systemctl").chmod(0o755)
    return {"PATH": f"{tools}:{os.environ['PATH']}", "XDG_CONFIG_HOME": str(tmp_path / "config")}


def test_install_without_a_user_manager_starts_plainly(smeltr: Smeltr, tmp_path: Path) -> None:
    environment = fake_systemctl(tmp_path, "echo 'Failed to connect to bus' >&2; exit 1\n")
    result = smeltr.run("daemon", "install", env=environment)
    assert result.returncode == 0
    assert b"not installed: no systemd user manager: Failed to connect to bus" in result.stderr
    assert b"runs in the background instead" in result.stdout
    assert smeltr.daemon_pid() != 0
    assert not (tmp_path / "config").exists()


def test_install_has_systemd_run_it(smeltr: Smeltr, tmp_path: Path) -> None:
    script = (
        f'if [ "$2" = restart ]; then setsid {BIN}/smeltrd 2> /dev/null &\n'
        f"  until [ -S {smeltr.home}/run/smeltr.sock ]; do sleep 0.01; done; fi\n"
    )
    environment = fake_systemctl(tmp_path, script)
    result = smeltr.run("daemon", "install", env=environment)
    assert result.returncode == 0, result.stderr
    unit = tmp_path / "config/systemd/user/smeltrd.service"
    text = unit.read_text()
    assert f'ExecStart="{BIN}/smeltrd"\n' in text
    assert f'Environment="SMELTR_HOME={smeltr.home}"\n' in text
    assert "Type=notify\n" in text
    assert f"smeltrd runs, pid {smeltr.daemon_pid()}" in result.stdout.decode()
    assert (tmp_path / "calls").read_text().splitlines()[-1] == "--user restart smeltrd.service"
    assert smeltr.run("daemon", "uninstall", env=environment).returncode == 0
    assert not unit.exists()
    again = smeltr.run("daemon", "uninstall", env=environment)
    assert again.returncode == 0
    assert b"not installed" in again.stdout


# --- record and its daemon ---


def test_record_replaces_a_killed_daemon_at_once(smeltr: Smeltr) -> None:
    process = smeltr.start(
        "record", "--", SCOPE_LOOP, "--count", "40", "--linger", "--exit", "8", stdin=subprocess.PIPE
    )
    read_ready(process)
    first = smeltr.daemon_pid()
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: smeltr.daemon_pid() not in (0, first), "record had brought another smeltrd")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 8
    (line,) = err.decode().splitlines()
    assert "recorded" in line
    metadata = smeltr.wait_ended()
    assert metadata["exit_code"] == 8
    assert metadata["event_counts"]["Mark"] == 40
    # Of both daemons: 40 marks and the scopes around them.
    told = re.search(r"recorded ([\d,]+) events", line)
    assert told is not None
    assert int(told[1].replace(",", "")) >= 120


def test_record_leaves_a_stopped_daemon_stopped(smeltr: Smeltr) -> None:
    process, pid = start_sleeper(smeltr, "0")
    stopped = smeltr.run("daemon", "stop")
    assert stopped.returncode == 0
    assert b"1 recorded program still runs" in stopped.stdout
    assert b" waiting " in smeltr.run("sessions", "ls").stdout
    assert b"smeltr daemon start" in smeltr.run("sessions", "show", "--last").stdout
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.5)
    assert smeltr.daemon_pid() == 0
    assert is_running(pid)
    # The next one goes on with the recording.
    daemon = start_daemon(smeltr)
    process.terminate()
    assert process.wait(60) == 0
    daemon.terminate()
    assert daemon.wait(60) == 0
