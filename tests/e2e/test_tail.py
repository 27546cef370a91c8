"""`smeltr tail`, `mark` and `dump`: what happens, while it happens."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from typing import Any

from conftest import PATIENCE_S, WORKLOAD, Smeltr, read_ready, start_sleeper, wait_until

SCOPE_LOOP = WORKLOAD / "scope_loop"


def start_tail(smeltr: Smeltr, *arguments: str) -> subprocess.Popen[bytes]:
    """One that is subscribed."""
    process = smeltr.start("tail", *arguments)

    def subscribed() -> bool:
        return json.loads(smeltr.run("daemon", "status", "--json").stdout)["subscriber_count"] > 0

    wait_until(subscribed, "tail was subscribed")
    return process


def next_line(process: subprocess.Popen[bytes], **wanted: str) -> dict[str, Any]:
    """The next one that has these values."""
    assert process.stdout is not None
    guard = threading.Timer(2 * PATIENCE_S, process.kill)
    guard.start()
    while line := process.stdout.readline():
        found = json.loads(line)
        if all(found.get(key) == value for key, value in wanted.items()):
            guard.cancel()
            return found
    raise AssertionError(f"tail ended before {wanted}")


def test_marks_arrive_with_their_fields(smeltr: Smeltr) -> None:
    smeltr.run("daemon", "start")
    tail = start_tail(smeltr, "--kind", "Mark", "--count", "1")
    marked = smeltr.run(
        "mark", "epoch", "--field", "n=3", "--field", "lr=0.5", "--field", "ok=true", "--field", "t=x=y"
    )
    assert marked.returncode == 0, marked.stderr
    out, err = tail.communicate(timeout=60)
    (line,) = out.splitlines()
    event = json.loads(line)
    assert (event["kind"], event["label"]) == ("Mark", "epoch")
    assert event["fields"] == {"n": 3, "lr": 0.5, "ok": True, "t": "x=y"}
    assert event["session"] in marked.stdout.decode()
    assert tail.returncode == 0
    assert b"1 event printed" in err


def test_mark_goes_to_the_newest_recording_or_the_one_asked_for(smeltr: Smeltr) -> None:
    first, _ = start_sleeper(smeltr, "0")
    second, _ = start_sleeper(smeltr, "0")
    older, newer = smeltr.metadata()
    assert json.loads(smeltr.run("mark", "m", "--json").stdout)["session_id"] == newer["session_id"]
    asked = smeltr.run("mark", "m", "--session", older["session_id"], "--json")
    assert json.loads(asked.stdout)["session_id"] == older["session_id"]
    for process in (first, second):
        process.terminate()
        process.wait(60)
    refused = smeltr.run("mark", "m", "--session", older["session_id"])
    assert refused.returncode == 1
    assert refused.stdout == b""
    assert refused.stderr.count(b"\n") == 1


def test_a_recording_is_followed_to_its_end(smeltr: Smeltr) -> None:
    process = smeltr.start(
        "record", "--name", "run", "--", SCOPE_LOOP, "--count", "5", "--linger", stdin=subprocess.PIPE
    )
    read_ready(process)
    tail = start_tail(smeltr, "--session", "run")
    process.communicate(timeout=60)
    out, err = tail.communicate(timeout=60)
    assert tail.returncode == 0
    assert b"the session has ended: exit" in err
    lines = [json.loads(line) for line in out.splitlines()]
    assert lines[-1]["_smeltr_tail"] == "session_closed"
    seqs = [line["seq"] for line in lines if "seq" in line]
    assert seqs == sorted(seqs)
    assert len(seqs) == len(set(seqs))


def test_a_recording_that_is_over_is_not_waited_for(smeltr: Smeltr) -> None:
    smeltr.record("--name", "over", "--", SCOPE_LOOP)
    for arguments in ([], ["--follow"]):
        result = smeltr.run("tail", "--session", "over", *arguments)
        assert result.returncode == 0
        assert result.stdout == b""
        assert b"the session has ended" in result.stderr


def test_who_asks_for_events_gets_no_other_lines(smeltr: Smeltr) -> None:
    smeltr.run("daemon", "start")
    tail = start_tail(smeltr, "--kind", "mark", "--count", "2")
    smeltr.record("--", SCOPE_LOOP, "--count", "2")
    out, _ = tail.communicate(timeout=60)
    assert [json.loads(line)["kind"] for line in out.splitlines()] == ["Mark", "Mark"]


def test_head_ends_it_quietly(smeltr: Smeltr) -> None:
    smeltr.run("daemon", "start")
    tail = start_tail(smeltr, "--kind", "Mark")
    smeltr.run("mark", "one")
    assert next_line(tail, label="one")
    assert tail.stdout is not None
    tail.stdout.close()
    wait_until(
        lambda: smeltr.run("mark", "more") and tail.poll() is not None, "tail noticed that nobody reads"
    )
    assert tail.returncode == 0
    assert tail.stderr is not None
    assert tail.stderr.read() == b""


def test_lost_daemon_is_exit_status_4(smeltr: Smeltr) -> None:
    smeltr.run("daemon", "start")
    tail = start_tail(smeltr)
    smeltr.run("daemon", "stop")
    _, err = tail.communicate(timeout=60)
    assert tail.returncode == 4
    # Its last words may be cut off by its end.
    assert b"smeltrd has ended: stopped on request" in err or b"smeltrd is gone" in err


def test_follow_comes_back(smeltr: Smeltr) -> None:
    smeltr.run("daemon", "start")
    tail = start_tail(smeltr, "--follow", "--kind", "Mark")
    smeltr.run("mark", "before")
    assert next_line(tail, label="before")
    os.kill(smeltr.daemon_pid(), signal.SIGKILL)
    wait_until(lambda: smeltr.daemon_pid() == 0, "smeltrd was gone")
    smeltr.run("daemon", "start")
    assert next_line(tail, _smeltr_tail="reconnect")["attempt"] >= 1
    smeltr.run("mark", "after")
    assert next_line(tail, label="after")
    tail.kill()


def test_a_reader_that_does_not_read_slows_nobody(smeltr: Smeltr) -> None:
    """It gets a gap; the recordings, each small enough for its ring, lose nothing."""
    smeltr.run("daemon", "start")
    tail = start_tail(smeltr)
    for _ in range(6):
        result = smeltr.record("--", SCOPE_LOOP, "--count", "20000", stdout=subprocess.DEVNULL)
        assert b"(0 dropped)" in result.stderr, result.stderr
    assert next_line(tail, _smeltr_tail="gap")["skipped"] > 0
    tail.kill()


def test_dump_keeps_what_was(smeltr: Smeltr) -> None:
    process, _ = start_sleeper(smeltr, "0")
    smeltr.run("mark", "seen")
    dumped = smeltr.run("dump", "--label", "just looking", "--json")
    assert dumped.returncode == 0, dumped.stderr
    answer = json.loads(dumped.stdout)
    assert answer["event_count"] > 0
    post_mortems = json.loads(smeltr.run("sessions", "ls", "--kind", "post-mortem", "--json").stdout)[
        "sessions"
    ]
    assert [one["session_id"] for one in post_mortems] == [answer["session_id"]]
    assert post_mortems[0]["reason"] == "just looking"
    shown = smeltr.run("sessions", "show", answer["short_id"]).stdout.decode()
    assert re.search(r"^Reason +just looking$", shown, re.MULTILINE), shown
    assert re.search(r"^Ended +the program was still running$", shown, re.MULTILINE), shown
    assert "seen" in shown.split("\nMarks\n")[1]
    assert "just looking" in smeltr.run("sessions", "ls").stdout.decode()
    process.terminate()
    process.wait(60)
