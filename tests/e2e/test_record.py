"""`smeltr record`: the program is not disturbed, and what it did becomes a session."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import WORKLOAD, Smeltr, is_running, read_ready, start_daemon, start_sleeper, wait_until

SCOPE_LOOP = WORKLOAD / "scope_loop"


def last_line(err: bytes) -> str:
    return err.decode().splitlines()[-1]


# --- the program's end is record's end ---


@pytest.mark.parametrize("status", [0, 3, 137])
def test_exit_status_is_the_programs(smeltr: Smeltr, status: int) -> None:
    result = smeltr.record("--", "sh", "-c", f"exit {status}")
    assert result.returncode == status
    metadata = smeltr.only_metadata()
    assert metadata["exit_code"] == status
    assert "term_signal" not in metadata
    assert metadata["end_reason"] == "exit"
    assert metadata["argv"] == ["sh", "-c", f"exit {status}"]
    assert metadata["cwd"] == os.getcwd()


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM])
def test_death_by_signal_is_128_more(smeltr: Smeltr, number: int) -> None:
    result = smeltr.record("--", SCOPE_LOOP, "--count", "100", "--signal", str(int(number)))
    assert result.returncode == 128 + number
    metadata = smeltr.wait_ended()
    assert metadata["term_signal"] == number
    assert "exit_code" not in metadata
    assert metadata["end_reason"] == "signal"
    # Everything that was committed before the death, the KILL included.
    assert metadata["event_counts"]["ModuleEntered"] == 101
    assert metadata["event_counts"]["Mark"] == 100
    assert metadata["event_counts"]["ProcessExit"] == 1


def test_command_not_found(smeltr: Smeltr) -> None:
    result = smeltr.record("--", "no-such-command-anywhere")
    assert result.returncode == 127
    assert (
        result.stderr.decode()
        == "smeltr: command not found: no-such-command-anywhere (neither a path nor in PATH)\n"
    )
    assert smeltr.record("--", "./no/such/file").returncode == 127
    assert smeltr.session_directories() == []


def test_not_executable(smeltr: Smeltr, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("text\n")
    result = smeltr.record("--", plain)
    assert result.returncode == 126
    assert result.stderr.decode() == f"smeltr: {plain} is not executable\n"
    assert smeltr.record("--", tmp_path).returncode == 126
    assert smeltr.session_directories() == []


def test_failing_exec_leaves_no_session(smeltr: Smeltr, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    result = smeltr.record("--", script)
    assert result.returncode == 127
    assert last_line(result.stderr) == "smeltr: cannot run the program: No such file or directory"
    assert smeltr.session_directories() == []


def test_script_without_interpreter_line_runs(smeltr: Smeltr, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text('echo "$0 $1"; exit 5\n')
    script.chmod(0o755)
    result = smeltr.record("--", script, "x y")
    assert (result.returncode, result.stdout.decode()) == (5, f"{script} x y\n")


# --- the program sees what it would see without record ---


def test_streams_pass_through_unchanged(smeltr: Smeltr) -> None:
    payload = bytes(range(256)) * 4096
    program = (
        "import sys; data = sys.stdin.buffer.read(); sys.stdout.buffer.write(data); sys.stderr.write('E\\n')"
    )
    result = smeltr.record("--quiet", "--", sys.executable, "-c", program, input=payload)
    assert result.returncode == 0
    assert result.stdout == payload
    assert result.stderr == b"E\n"


def test_arguments_arrive_verbatim(smeltr: Smeltr) -> None:
    arguments = ["", "a b", "[x,y]", "--name", "-h", "--", "%%", "{}", "caf\u00e9", "--quiet"]
    program = "import sys; print(ascii(sys.argv[1:]))"
    for separator in (["--"], []):
        result = smeltr.record(*separator, sys.executable, "-c", program, *arguments)
        assert result.stdout.decode().strip() == ascii(arguments)


def test_process_group_signals_and_environment_are_kept(smeltr: Smeltr) -> None:
    program = (
        "import os, signal;"
        "print(os.getpgid(0), os.getsid(0), sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),"
        " signal.getsignal(signal.SIGHUP) is signal.SIG_IGN,"
        " signal.getsignal(signal.SIGTERM) is signal.SIG_DFL,"
        " os.environ['KEPT'], sorted(os.listdir('/proc/self/fd')))"
    )
    plain = [sys.executable, "-c", program]

    def ignore_hup() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    expected = subprocess.run(
        plain,
        env={**smeltr.environment, "KEPT": "yes"},
        preexec_fn=ignore_hup,
        capture_output=True,
        check=True,
    )
    result = smeltr.record("--quiet", "--", *plain, env={"KEPT": "yes"}, preexec_fn=ignore_hup)
    assert result.stdout == expected.stdout


def test_environment_of_the_recording(smeltr: Smeltr) -> None:
    program = "import os, json; print(json.dumps(dict(os.environ)))"
    result = smeltr.record(
        "--",
        sys.executable,
        "-c",
        program,
        env={"SMELTR_SESSION_NAME": "named", "VK_IMPLICIT_LAYER_PATH": "/mine"},
    )
    environment = json.loads(result.stdout)
    (library_directory,) = (smeltr.home / "lib").iterdir()
    manifest = library_directory / "vulkan/implicit_layer.d/smeltr.json"
    assert environment["SMELTR_HOME"] == str(smeltr.home)
    assert environment["SMELTR_SOCKET"] == str(smeltr.home / "run/smeltr.sock")
    assert environment["SMELTR_HOOK_LIBRARY"] == str(library_directory / "libsmeltr_hook.so")
    assert environment["SMELTR_VULKAN_LAYER"] == "1"
    assert environment["SMELTR_AUTOLOAD"] == "1"
    assert environment["GGML_VK_DEBUG_MARKERS"] == "1"
    assert environment["XDG_DATA_DIRS"] == f"{library_directory}:/usr/local/share:/usr/share"
    assert environment["VK_IMPLICIT_LAYER_PATH"] == f"/mine:{manifest.parent}"
    assert re.fullmatch(
        r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
        environment["SMELTR_SCOPE_TOKEN"],
    )
    assert "SMELTR_SESSION_NAME" not in environment
    metadata = smeltr.only_metadata()
    assert metadata["name"] == "named"
    assert metadata["scope_token"] == environment["SMELTR_SCOPE_TOKEN"]
    assert (smeltr.home / "lib").stat().st_mode & 0o777 == 0o700


def test_no_hook_leaves_the_gpu_alone_but_keeps_scopes(smeltr: Smeltr) -> None:
    result = smeltr.record("--no-hook", "--", "sh", "-c", f"env; exec {SCOPE_LOOP} --count 10")
    assert b"SMELTR_VULKAN_LAYER" not in result.stdout
    metadata = smeltr.only_metadata()
    assert metadata["event_counts"]["Mark"] == 10
    assert metadata["hook_state"] == "skipped"
    assert metadata["hook_reason"] == "--no-hook"


# --- signals sent to record ---


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT])
def test_signals_are_passed_on(smeltr: Smeltr, number: int) -> None:
    process, _ = start_sleeper(smeltr, "9")
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert out.decode() == f"signal {int(number)}\n"
    assert process.returncode == 9


def test_stopping_and_continuing_is_mirrored(smeltr: Smeltr) -> None:
    process, pid = start_sleeper(smeltr, "0")

    def state(of: int) -> str:
        return Path(f"/proc/{of}/stat").read_text().rpartition(")")[2].split()[0]

    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: state(process.pid) == "T", "record stopped with its child")
    process.send_signal(signal.SIGCONT)
    wait_until(lambda: state(pid) == "S" and state(process.pid) == "S", "both went on")
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


def test_third_interrupt_leaves_the_program_running(smeltr: Smeltr) -> None:
    program = (
        "import signal, time\n"
        "signal.signal(signal.SIGINT, lambda *_: print('int', flush=True))\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(1)"
    )
    process = smeltr.start("record", "--", sys.executable, "-c", program)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    metadata = wait_until(
        lambda: "root_pid" in (m := smeltr.only_metadata()) and m, "the program was attached"
    )
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == b"int\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert is_running(metadata["root_pid"])
    os.kill(metadata["root_pid"], signal.SIGKILL)
    assert smeltr.wait_ended()["end_reason"] == "client-lost"


# --- limits of the program are not exceeded for it ---


def limited(smeltr: Smeltr, limit_bytes: int, *command: str | Path) -> subprocess.CompletedProcess[bytes]:
    def limit() -> None:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, hard))
        # Which a Python interpreter ignores, and its children with it.
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)

    return smeltr.record("--", *command, preexec_fn=limit)


def test_program_that_may_make_no_large_file_is_not_killed(smeltr: Smeltr) -> None:
    smeltr.record("--", "true")
    result = limited(smeltr, 2 << 20, SCOPE_LOOP, "--count", "5")
    assert result.returncode == 0
    assert b"1 program in " in result.stderr, result.stderr
    assert b"could not be recorded: it may not make files as large as a ring" in result.stderr
    metadata = smeltr.metadata()[-1]
    assert metadata["hook_state"] == "requested-but-silent"
    assert "ulimit -f" in metadata["hook_reason"]


def test_record_that_may_make_no_file_runs_the_program(smeltr: Smeltr, tmp_path: Path) -> None:
    script = f"head -c 200000 /dev/zero > {tmp_path / 'file'}; kill -l $?"
    result = limited(smeltr, 64 << 10, "sh", "-c", script)
    assert result.returncode == 0
    assert b"running the program unrecorded" in result.stderr
    assert result.stdout == b"XFSZ\n", "the program has the signal as it would have without record"


# --- what is said ---


def test_summary_line_and_quiet(smeltr: Smeltr) -> None:
    result = smeltr.record("--name", "loop", "--", SCOPE_LOOP, "--count", "600")
    short_id = smeltr.only_metadata()["session_id"][:8]
    # HookHello, 601 scopes of two events each, 600 marks.
    assert result.stderr.decode() == (
        f"smeltr: recorded 1,803 events (0 dropped) as {short_id}, no GPU work among them;"
        f" see: smeltr breakdown {short_id}\n"
    )
    assert smeltr.only_metadata()["name"] == "loop"
    assert smeltr.record("--quiet", "--", SCOPE_LOOP).stderr == b""


def test_silent_hook_is_told(smeltr: Smeltr) -> None:
    result = smeltr.record("--", "true")
    metadata = smeltr.only_metadata()
    assert metadata["hook_state"] == "requested-but-silent"
    assert metadata["event_counts"]["HookSilent"] == 1
    assert result.stderr.decode() == (
        f"smeltr: recorded no GPU work as {metadata['session_id'][:8]}:"
        " no hook reported (no Vulkan instance, or one in a process that changed its user or"
        " cleared its environment)\n"
    )


def test_static_program_is_told_beforehand(smeltr: Smeltr, tmp_path: Path) -> None:
    source = tmp_path / "static.c"
    source.write_text("int main(void) { return 4; }\n")
    program = tmp_path / "static"
    subprocess.run(["cc", "-static", "-o", program, source], check=True)
    result = smeltr.record("--", program)
    assert result.returncode == 4
    assert result.stderr.decode().splitlines()[0] == (
        f"smeltr: warning: {program} is statically linked:"
        " its own GPU work cannot be recorded, only that of programs it starts"
    )
    metadata = smeltr.only_metadata()
    assert metadata["hook_state"] == "skipped"
    assert metadata["hook_reason"] == f"{program} is statically linked"


def test_wrong_use(smeltr: Smeltr) -> None:
    for arguments in (
        [],
        ["--"],
        ["--name", "a/b", "--", "true"],
        ["--name", "x\ty", "--", "true"],
        ["--bogus", "--", "true"],
    ):
        result = smeltr.record(*arguments)
        assert result.returncode == 2, arguments
        assert result.stderr.startswith(b"smeltr: "), arguments
        assert result.stdout == b""
    assert smeltr.session_directories() == []


def test_misspelt_variable_is_told(smeltr: Smeltr) -> None:
    result = smeltr.record("--quiet", "--", "true", env={"SMELTR_HOOK_NO_OP": "1"})
    assert (
        result.stderr.decode()
        == "smeltr: warning: nothing reads the environment variable SMELTR_HOOK_NO_OP: misspelt?\n"
    )


# --- where recording is impossible the program runs all the same ---


def assert_runs_unrecorded(smeltr: Smeltr, reason: str, **environment: str) -> None:
    result = smeltr.record("--", "sh", "-c", "env; exit 6", env=environment)
    assert result.returncode == 6
    assert b"SMELTR_RING_DIR" not in result.stdout
    (line,) = result.stderr.decode().splitlines()
    assert line.startswith("smeltr: warning: ")
    assert reason in line
    assert line.endswith("; running the program unrecorded")
    required = smeltr.record("--require", "--", "sh", "-c", "echo ran", env=environment)
    assert (required.returncode, required.stdout) == (125, b"")
    (line,) = required.stderr.decode().splitlines()
    assert reason in line


def test_home_that_cannot_be_made(smeltr: Smeltr, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert_runs_unrecorded(smeltr, "cannot create", SMELTR_HOME=str(tmp_path / "file/home"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_home_that_is_not_writable(smeltr: Smeltr, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    assert_runs_unrecorded(smeltr, "Permission denied", SMELTR_HOME=str(locked / "home"))


def test_socket_path_too_long(smeltr: Smeltr) -> None:
    assert_runs_unrecorded(smeltr, "path too long (140 > 107)", SMELTR_SOCKET="/tmp/" + "x" * 135)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
def test_really_full_disk(smeltr: Smeltr) -> None:
    smeltr.home.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=32m,mode=0700", "tmpfs", smeltr.home],
        check=False,
        capture_output=True,
    )
    if mounted.returncode != 0:
        pytest.skip("may not mount here")
    try:
        # The second loop writes more than the last page of the file and the daemon's reserve could take.
        loops = f"{SCOPE_LOOP} --count 1000 --linger && exec {SCOPE_LOOP} --count 2000000 --exit 7"
        process = smeltr.start("record", "--", "sh", "-c", loops, stdin=subprocess.PIPE)
        read_ready(process)
        wait_until(
            lambda: any(d.joinpath("events.smlt").stat().st_size for d in smeltr.session_directories()),
            "some events were on disk",
        )
        filler = smeltr.home / "filler"
        with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        _, err = process.communicate(timeout=60)
        assert process.returncode == 7
        metadata = smeltr.only_metadata()
        # Complete, from the reserve, and honest about what is missing.
        assert metadata["exit_code"] == 7
        assert metadata["storage_lost_count"] > 0
        assert "smeltr: warning: the disk refused" in err.decode()
        assert smeltr.daemon_pid() != 0
        # No room for another session: the program runs.
        result = smeltr.record("--", "sh", "-c", "exit 6")
        assert result.returncode == 6
        filler.unlink()
        assert smeltr.record("--", "true").returncode == 0
        assert len(smeltr.metadata()) >= 2
    finally:
        smeltr.end_daemon()
        subprocess.run(["umount", "-l", smeltr.home], check=True)


def test_shared_home_is_refused_and_stays_shared(smeltr: Smeltr, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    assert_runs_unrecorded(smeltr, "is shared by all users", SMELTR_HOME=str(shared))
    assert shared.stat().st_mode & 0o7777 == 0o1777


def test_explicit_socket_leaves_its_directory_alone(smeltr: Smeltr, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    smeltr.environment["SMELTR_SOCKET"] = str(shared / "socket")
    assert smeltr.record("--", SCOPE_LOOP, "--count", "5").returncode == 0
    assert smeltr.only_metadata()["event_counts"]["Mark"] == 5
    assert shared.stat().st_mode & 0o7777 == 0o1777
    # Another home with the same address does not take it away.
    result = smeltr.record("--", "true", env={"SMELTR_HOME": str(tmp_path / "other")})
    assert result.returncode == 0
    assert f"serves {smeltr.home}, not {tmp_path / 'other'}" in result.stderr.decode()


def test_closed_stderr_does_not_disturb(smeltr: Smeltr) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    # A warning before the program and a line after it, to nobody.
    result = smeltr.record(
        "--", SCOPE_LOOP, "--count", "5", "--exit", "4", stderr=write_end, env={"SMELTR_NONSENSE": "1"}
    )
    os.close(write_end)
    assert result.returncode == 4
    assert smeltr.only_metadata()["exit_code"] == 4


def test_long_home_still_works(smeltr: Smeltr, tmp_path: Path) -> None:
    home = tmp_path / ("h" * 120)
    smeltr.home = home
    smeltr.environment["SMELTR_HOME"] = str(home)
    assert smeltr.record("--", SCOPE_LOOP, "--count", "5").returncode == 0
    assert smeltr.only_metadata()["event_counts"]["Mark"] == 5
    smeltr.end_daemon()


def test_disk_full(smeltr: Smeltr) -> None:
    """Every write of the daemon fails as on a full disk: nothing of it reaches the program."""
    assert smeltr.record("--", "true").returncode == 0
    smeltr.end_daemon()
    daemon = start_daemon(smeltr, limit_file_bytes=4096)
    result = smeltr.record("--", SCOPE_LOOP, "--count", "20000", "--fields", "--exit", "7")
    assert result.returncode == 7
    metadata = smeltr.metadata()[-1]
    assert metadata["storage_lost_count"] > 0
    assert metadata["exit_code"] == 7
    assert re.search(r"smeltr: warning: the disk refused [\d,]+ events", result.stderr.decode())
    assert daemon.poll() is None
    assert smeltr.record("--quiet", "--", "true").returncode == 0
