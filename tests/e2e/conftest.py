"""What every end-to-end test gets: the shipped programs with a SMELTR_HOME, and so a daemon, of its own."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import tomllib

BIN = Path(os.environ["SMELTR_BIN_DIR"]).resolve()
WORKLOAD = BIN.parent / "workload"
PATIENCE_S = 30

T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str) -> T:
    """The condition's value once it is true. The limit only turns a hang into a failure."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.01)
    pytest.fail(f"waited {PATIENCE_S} s in vain until {what}")


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Smeltr:
    """The `smeltr` command in a home of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SMELTR_", "XDG_RUNTIME"))
        }
        self.environment["SMELTR_HOME"] = str(home)
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str | Path, **options: object) -> subprocess.Popen[bytes]:
        environment = {**self.environment, **options.pop("env", {})}
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        process = subprocess.Popen([BIN / "smeltr", *arguments], env=environment, **options)
        self.started.append(process)
        return process

    def run(self, *arguments: str | Path, **options: object) -> subprocess.CompletedProcess[bytes]:
        given = options.pop("input", b"")
        process = self.start(*arguments, stdin=subprocess.PIPE, **options)
        out, err = process.communicate(given, timeout=2 * PATIENCE_S)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def record(self, *arguments: str | Path, **options: object) -> subprocess.CompletedProcess[bytes]:
        return self.run("record", *arguments, **options)

    def stored_sessions(self) -> dict[Path, dict[str, Any]]:
        """Metadata by directory, of all kinds, in the order of their start."""
        found = {}
        for directory in self.home.glob("sessions/*"):
            # The directory is there a moment before the metadata in it, and may be gone a moment later.
            with contextlib.suppress(FileNotFoundError):
                found[directory] = tomllib.loads((directory / "metadata.toml").read_text())
        return dict(sorted(found.items(), key=lambda item: (item[1]["start_mono_ns"], item[0])))

    def session_directories(self) -> list[Path]:
        """Of recordings and post-mortems, and what is no session; the daemon's own ambient ones left out."""
        ambient = [d for d, metadata in self.stored_sessions().items() if metadata["kind"] == "ambient"]
        return sorted(set(self.home.glob("sessions/*")) - set(ambient))

    def metadata(self) -> list[dict[str, Any]]:
        """Of all recordings, in the order of their start."""
        return [metadata for metadata in self.stored_sessions().values() if metadata["kind"] == "scoped"]

    def only_metadata(self) -> dict[str, Any]:
        (metadata,) = self.metadata()
        return metadata

    def wait_ended(self) -> dict[str, Any]:
        """The metadata of the only session, once it has an end."""
        return wait_until(lambda: "ended" in (m := self.only_metadata()) and m, "the session ended")

    def daemon_pid(self) -> int:
        """0 when none runs for this home."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            pid = int((self.home / "smeltrd.lock").read_text())
            if is_running(pid) and Path(f"/proc/{pid}/exe").readlink().name.startswith("smeltrd"):
                return pid
        return 0

    def log(self) -> str:
        return (self.home / "smeltrd.log").read_text()

    def ring_directories(self) -> list[Path]:
        """Of the recordings that are open now."""
        found = []
        for metadata in self.metadata():
            found += Path("/dev/shm").glob(f"smeltr-*/{metadata['session_id']}")
            found += self.home.glob(f"run/rings/{metadata['session_id']}")
        return found

    def end_daemon(self) -> None:
        if pid := self.daemon_pid():
            os.kill(pid, signal.SIGTERM)
            wait_until(lambda: not is_running(pid), "smeltrd ended")


def start_sleeper(smeltr: Smeltr, *arguments: str) -> tuple[subprocess.Popen[bytes], int]:
    """A recorded sleeper and the pid it told."""
    process = smeltr.start("record", "--", WORKLOAD / "sleeper", "0", *arguments)
    assert process.stdout is not None
    word, pid = process.stdout.readline().split()
    assert word == b"ready"
    return process, int(pid)


def read_ready(process: subprocess.Popen[bytes]) -> None:
    """Up to the line with which a lingering scope_loop says that all but its end is done."""
    assert process.stdout is not None
    while (line := process.stdout.readline()) != b"ready\n":
        assert line, "the program ended before it was ready"


def start_daemon(smeltr: Smeltr, limit_file_bytes: int | None = None) -> subprocess.Popen[bytes]:
    def limit() -> None:
        if limit_file_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit_file_bytes, limit_file_bytes))
            # As on a full disk: the write fails instead of killing.
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    smeltr.home.mkdir(exist_ok=True)
    with open(smeltr.home / "smeltrd.log", "ab") as log:
        daemon = subprocess.Popen([BIN / "smeltrd"], env=smeltr.environment, stderr=log, preexec_fn=limit)
    wait_until(
        lambda: (smeltr.home / "run/smeltr.sock").exists() or daemon.poll() is not None, "smeltrd listened"
    )
    return daemon


def kill_leftovers(smeltr: Smeltr) -> None:
    """What a failed test left running: its commands, what they recorded, and the daemon."""
    pids = [process.pid for process in smeltr.started if process.poll() is None]
    pids += [metadata["root_pid"] for metadata in smeltr.metadata() if is_root_running(metadata)]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for process in smeltr.started:
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    for pid in pids:
        wait_until(lambda pid=pid: not is_running(pid), "everything was gone")
    # Asked to, it leaves no shared memory behind.
    smeltr.end_daemon()


def is_root_running(metadata: dict[str, Any]) -> bool:
    pid = metadata.get("root_pid", 0)
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return int(fields[19]) == metadata["root_start_time_ticks"] and fields[0] not in "ZX"


@pytest.fixture
def smeltr(tmp_path: Path) -> Iterator[Smeltr]:
    home = tmp_path / "home"
    instance = Smeltr(home)
    yield instance
    kill_leftovers(instance)
    for ring_directory in instance.ring_directories():
        for ring in ring_directory.iterdir():
            ring.unlink()
        ring_directory.rmdir()
