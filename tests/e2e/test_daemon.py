"""smeltrd: one for all recordings of a home, and a session for each of them, whoever dies."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
from pathlib import Path

import pytest
from conftest import BIN, WORKLOAD, Smeltr, is_running, read_ready, start_daemon, start_sleeper, wait_until

SCOPE_LOOP = WORKLOAD / "scope_loop"
FORK_TREE = WORKLOAD / "fork_tree"


# --- one daemon, several recordings ---


def test_daemon_is_started_once_and_used_again(smeltr: Smeltr) -> None:
    assert smeltr.daemon_pid() == 0
    smeltr.record("--", "true")
    first = smeltr.daemon_pid()
    assert first != 0
    assert os.getsid(first) != os.getsid(0)
    smeltr.record("--", "true")
    assert smeltr.daemon_pid() == first
    for path in [smeltr.home, smeltr.home / "run", smeltr.home / "sessions", *smeltr.session_directories()]:
        assert stat.S_IMODE(path.stat().st_mode) == 0o700, path
    assert stat.S_IMODE((smeltr.home / "run/smeltr.sock").stat().st_mode) == 0o600


def test_many_first_recordings_at_once_share_one_daemon(smeltr: Smeltr) -> None:
    processes = [smeltr.start("record", "--", SCOPE_LOOP, "--count", "50") for _ in range(8)]
    for process in processes:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0
        assert b"recorded 153 events (0 dropped)" in err, err
    sessions = smeltr.metadata()
    assert len(sessions) == 8
    assert {metadata["event_counts"]["Mark"] for metadata in sessions} == {50}
    assert smeltr.log().count(" ready at ") == 1


def test_second_daemon_names_the_first_and_exits_3(smeltr: Smeltr) -> None:
    smeltr.record("--", "true")
    second = subprocess.run(
        [BIN / "smeltrd"], env=smeltr.environment, capture_output=True, timeout=60, check=False
    )
    assert second.returncode == 3
    assert f"pid {smeltr.daemon_pid()} holds" in second.stderr.decode()
    assert smeltr.record("--quiet", "--", "true").returncode == 0


def test_idle_daemon_ends(smeltr: Smeltr) -> None:
    daemon = subprocess.Popen(
        [BIN / "smeltrd", "--idle-exit-seconds", "1"], env=smeltr.environment, stderr=subprocess.DEVNULL
    )
    assert daemon.wait(60) == 0
    assert not (smeltr.home / "run/smeltr.sock").exists()


def standard_streams(pid: int) -> list[str]:
    return [os.readlink(f"/proc/{pid}/fd/{number}") for number in range(3)]


@pytest.mark.parametrize("closed", ["<&- >&- 2>&-", "<&-", "<&- >&-", "2>&-"])
def test_daemon_has_its_streams_whatever_its_starter_lacks(smeltr: Smeltr, closed: str) -> None:
    command = [BIN / "smeltr", "record", "--quiet", "--", "true"]
    subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *command], env=smeltr.environment, timeout=60, check=False
    )
    pid = smeltr.daemon_pid()
    log = str(smeltr.home / "smeltrd.log")
    assert standard_streams(pid) == ["/dev/null", log, log]
    assert (smeltr.home / "smeltrd.lock").read_text() == f"{pid}\n"
    assert smeltr.only_metadata()["end_reason"] == "exit"


def test_no_file_of_the_daemon_becomes_a_standard_stream(smeltr: Smeltr) -> None:
    daemon = subprocess.Popen(
        ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", BIN / "smeltrd"], env=smeltr.environment
    )
    try:
        wait_until(lambda: (smeltr.home / "run/smeltr.sock").exists(), "smeltrd listened")
        assert standard_streams(daemon.pid) == ["/dev/null"] * 3
    finally:
        daemon.terminate()
        daemon.wait(60)


def test_connection_without_a_hello_is_closed(smeltr: Smeltr) -> None:
    smeltr.record("--", "true")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.settimeout(30)  # The limit only turns a hang into a failure.
        silent.connect(str(smeltr.home / "run/smeltr.sock"))
        assert silent.recv(1) == b""
    assert "did not say Hello in time" in smeltr.log()


def test_lost_socket_file_is_made_anew(smeltr: Smeltr) -> None:
    smeltr.record("--", "true")
    pid = smeltr.daemon_pid()
    (smeltr.home / "run/smeltr.sock").unlink()
    result = smeltr.record("--", "true")
    assert b"unrecorded" not in result.stderr, result.stderr
    assert smeltr.daemon_pid() == pid
    assert len(smeltr.metadata()) == 2
    shutil.rmtree(smeltr.home / "run")
    wait_until(lambda: (smeltr.home / "run/smeltr.sock").exists(), "it listened again")
    assert smeltr.run("daemon", "stop").returncode == 0
    assert not is_running(pid)


def test_daemon_of_a_moved_home_ends(smeltr: Smeltr, tmp_path: Path) -> None:
    smeltr.record("--", "true")
    pid = smeltr.daemon_pid()
    smeltr.home.rename(tmp_path / "moved")
    wait_until(lambda: not is_running(pid), "smeltrd ended")
    assert f"{smeltr.home}/smeltrd.lock was moved or deleted" in (tmp_path / "moved/smeltrd.log").read_text()


def test_stopped_daemon_holds_up_neither_start_nor_end(smeltr: Smeltr) -> None:
    process, pid = start_sleeper(smeltr)
    daemon = smeltr.daemon_pid()
    os.kill(daemon, signal.SIGSTOP)
    try:
        unrecorded = smeltr.record("--", "sh", "-c", "exit 3")
        os.kill(pid, signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    finally:
        os.kill(daemon, signal.SIGCONT)
    assert unrecorded.returncode == 3
    assert f"smeltrd, pid {daemon}, does not answer".encode() in unrecorded.stderr
    assert b"may be incomplete" in err, err
    # It had all it needed in its socket.
    assert smeltr.wait_ended()["term_signal"] == signal.SIGTERM
    assert smeltr.daemon_pid() == daemon


def test_processes_of_a_tree_share_the_session(smeltr: Smeltr) -> None:
    result = smeltr.record("--", FORK_TREE, "2")
    assert result.returncode == 0
    processes = len(result.stdout.splitlines())
    metadata = smeltr.only_metadata()
    assert processes == 7
    assert metadata["event_counts"]["ProcessSeen"] == processes
    assert metadata["event_counts"]["HookHello"] == processes
    assert metadata["event_counts"]["ModuleEntered"] == processes


def test_nested_recording_is_a_session_of_its_own(smeltr: Smeltr) -> None:
    inner = f"{BIN / 'smeltr'} record --name inner -- {SCOPE_LOOP} --count 7"
    result = smeltr.record("--name", "outer", "--", "sh", "-c", f"{SCOPE_LOOP} --count 3 && {inner}")
    assert result.returncode == 0
    outer_session, inner_session = smeltr.metadata()
    assert (outer_session["name"], outer_session["event_counts"]["Mark"]) == ("outer", 3)
    assert (inner_session["name"], inner_session["event_counts"]["Mark"]) == ("inner", 7)


def test_ring_directory_is_removed(smeltr: Smeltr) -> None:
    process, _ = start_sleeper(smeltr, "0")
    (directory,) = wait_until(smeltr.ring_directories, "there was a ring directory")
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert len(list(directory.glob("*.ring"))) == 1
    process.terminate()
    assert process.wait(60) == 0
    assert not directory.exists()


def test_session_stays_open_for_those_who_outlive_the_program(smeltr: Smeltr, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    script = (
        f"{SCOPE_LOOP} --count 20 --linger < {gate} > /dev/null 2>&1 &"
        " until [ -e $SMELTR_RING_DIR/*.ring ]; do sleep 0.01; done"
    )
    opener = subprocess.Popen(["sh", "-c", f"exec 3> {gate}; read line"], stdin=subprocess.PIPE)
    result = smeltr.record("--", "sh", "-c", script, stdout=subprocess.DEVNULL)
    assert result.returncode == 0
    assert "; still recording 1 of its processes" in result.stderr.decode()
    assert "ended" not in smeltr.only_metadata()
    opener.communicate(b"\n", timeout=60)
    metadata = smeltr.wait_ended()
    assert metadata["event_counts"]["Mark"] == 20
    assert metadata["end_reason"] == "exit"
    assert smeltr.ring_directories() == []


# --- somebody is killed ---


def test_kill_the_program(smeltr: Smeltr) -> None:
    process, pid = start_sleeper(smeltr)
    os.kill(pid, signal.SIGKILL)
    assert process.wait(60) == 137
    assert smeltr.only_metadata()["term_signal"] == 9
    metadata = smeltr.wait_ended()
    assert metadata["event_counts"]["ModuleEntered"] == 1


def test_kill_record(smeltr: Smeltr) -> None:
    process = smeltr.start("record", "--", SCOPE_LOOP, "--count", "30", "--linger", stdin=subprocess.PIPE)
    assert process.stdin is not None
    read_ready(process)
    pid = smeltr.only_metadata()["root_pid"]
    process.kill()
    process.wait(60)
    assert is_running(pid)
    assert "ended" not in smeltr.only_metadata()
    process.stdin.close()
    metadata = smeltr.wait_ended()
    assert metadata["end_reason"] == "client-lost"
    assert "exit_code" not in metadata
    # The loop scope is closed after the end of stdin: what came after the kill is there too.
    assert metadata["event_counts"]["ModuleReturned"] == 31
    assert smeltr.ring_directories() == []


def test_kill_the_daemon(smeltr: Smeltr) -> None:
    """The program goes on, and record brings a new daemon that takes the session over."""
    process = smeltr.start(
        "record", "--", SCOPE_LOOP, "--count", "40", "--linger", "--exit", "8", stdin=subprocess.PIPE
    )
    read_ready(process)
    first = smeltr.daemon_pid()
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not is_running(first), "smeltrd was gone")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 8
    (line,) = err.decode().splitlines()
    assert "recorded" in line
    metadata = smeltr.wait_ended()
    assert metadata["end_reason"] == "recovered"
    assert metadata["exit_code"] == 8
    assert smeltr.daemon_pid() not in (0, first)
    assert smeltr.ring_directories() == []


def test_daemon_restarted_by_another_recording_adopts_the_open_one(smeltr: Smeltr) -> None:
    process, pid = start_sleeper(smeltr, "0")
    first = smeltr.daemon_pid()
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not is_running(first), "smeltrd was gone")
    assert smeltr.record("--", "true").returncode == 0
    assert is_running(pid)
    assert "ended" not in smeltr.metadata()[0]
    process.terminate()
    assert process.wait(60) == 0
    metadata = smeltr.metadata()[0]
    assert metadata["end_reason"] == "recovered"
    assert metadata["exit_code"] == 0


def test_everybody_killed_at_once(smeltr: Smeltr) -> None:
    """As after a crash of the machine, but for the memory: the next daemon closes the session."""
    process, pid = start_sleeper(smeltr)
    for victim in (smeltr.daemon_pid(), process.pid, pid):
        os.kill(victim, signal.SIGKILL)
    process.wait(60)
    wait_until(lambda: not is_running(pid) and smeltr.daemon_pid() == 0, "all were gone")
    assert "ended" not in smeltr.only_metadata()
    (old,) = smeltr.session_directories()
    daemon = start_daemon(smeltr)
    metadata = smeltr.wait_ended()
    assert metadata["end_reason"] == "recovered"
    assert smeltr.ring_directories() == []
    assert smeltr.session_directories() == [old]
    daemon.terminate()
    assert daemon.wait(60) == 0


def test_terminated_daemon_completes_its_sessions(smeltr: Smeltr) -> None:
    process = smeltr.start("record", "--", SCOPE_LOOP, "--count", "25", "--linger", stdin=subprocess.PIPE)
    read_ready(process)
    smeltr.end_daemon()
    metadata = smeltr.only_metadata()
    assert metadata["end_reason"] == "daemon-shutdown"
    assert metadata["event_counts"]["Mark"] == 25
    out, err = process.communicate(b"", timeout=60)
    assert process.returncode == 0
    # Its end is told to the next daemon.
    assert "recorded" in err.decode().splitlines()[-1]
    assert smeltr.wait_ended()["exit_code"] == 0
