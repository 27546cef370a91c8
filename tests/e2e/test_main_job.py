"""The main job on the bundled transformer: recorded, killed, validated; its GPU time told truly."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, Smeltr, wait_until

DEMO = BIN / "smeltr-demo"
VALIDATION = "VK_LAYER_KHRONOS_validation"
VALIDATION_MANIFESTS = list(Path("/usr/share/vulkan/explicit_layer.d").glob("*khronos_validation.json"))


def breakdown(smeltr: Smeltr, *arguments: str) -> dict[str, Any]:
    result = smeltr.run("breakdown", "--json", *arguments)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def show(smeltr: Smeltr) -> dict[str, Any]:
    result = smeltr.run("sessions", "show", "--last", "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def walk(node: dict[str, Any], path: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Every node below and including `node`, with its path of names."""
    here = f"{path}/{node['qualname']}" if path else node["qualname"]
    return [(here, node)] + [found for child in node["children"] for found in walk(child, here)]


def ops_of(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return [op for _, node in walk(answer["root"]) for op in node["ops"]]


def number(out: bytes, key: str) -> int:
    (value,) = re.findall(rf"^{key}: (\d+)$", out.decode(), flags=re.MULTILINE)
    return int(value)


# Scopes of demo/transformer.cc, as paths in the tree.
SCOPES = [
    "prefill_step/embed",
    "decode_step/embed",
    "decode_step/layer/attention/qkv",
    "decode_step/layer/attention/scores",
    "decode_step/layer/mlp/gate_up",
    "decode_step/layer/mlp/down",
    "decode_step/lm_head",
]


def test_the_tree_is_the_programs_and_adds_up(smeltr: Smeltr) -> None:
    assert smeltr.record("--name", "demo", "--", DEMO, "--steps", "24").returncode == 0
    answer = breakdown(smeltr, "demo")
    paths = {path.removeprefix("<root>/") for path, _ in walk(answer["root"])}
    assert not [scope for scope in SCOPES if scope not in paths], sorted(paths)

    assert answer["exact_pct"] >= 95
    assert answer["exact_pct"] + answer["window_pct"] + answer["unscoped_pct"] == pytest.approx(100)
    assert answer["dropped_events"] == 0
    total = answer["gpu_ns"]
    assert total > 0
    assert answer["root"]["gpu_ns_subtree"] == total
    assert sum(node["gpu_ns_self"] for _, node in walk(answer["root"])) == total
    assert sum(op["gpu_ns"] for op in ops_of(answer)) == total
    # One queue: it cannot have been busy for longer than the run took.
    assert total <= answer["wall_ns"]


@pytest.mark.parametrize("run", range(3))
def test_every_dispatch_is_counted(smeltr: Smeltr, run: int) -> None:
    recorded = smeltr.record("--", DEMO, "--steps", str(12 + run), "--threads", "2")
    assert recorded.returncode == 0
    answer = breakdown(smeltr, "--last")
    dispatched = sum(op["count"] for op in ops_of(answer) if op["name"].startswith("K_"))
    assert dispatched == number(recorded.stdout, "dispatches")
    session = show(smeltr)
    assert len(session["queues"]) == 2
    counts = session["event_counts"]
    assert counts["VulkanCbCommitted"] == number(recorded.stdout, "command buffers")
    assert counts["VulkanCbCompleted"] == counts["VulkanCbCommitted"]


def test_output_is_the_bare_programs(smeltr: Smeltr) -> None:
    arguments = ["--steps", "6", "--threads", "2", "--check", "--exit-code", "3"]
    bare = subprocess.run([DEMO, *arguments], capture_output=True, check=False)
    recorded = smeltr.record("--quiet", "--", DEMO, *arguments)
    assert (recorded.returncode, recorded.stdout, recorded.stderr) == (3, bare.stdout, bare.stderr)


def test_a_crash_is_told_with_what_was_in_flight(smeltr: Smeltr) -> None:
    recorded = smeltr.record("--", DEMO, "--crash-after", "5")
    assert recorded.returncode == 128 + signal.SIGSEGV
    (line,) = recorded.stderr.decode().splitlines()
    assert "killed by SIGSEGV" in line
    assert "see: smeltr sessions show " in line
    session = show(smeltr)
    assert session["term_signal"] == signal.SIGSEGV
    assert session["state"] == "live", "late reports of a crash still get in"
    wait_until(lambda: show(smeltr)["end_reason"] == "signal", "the session was closed")
    text = smeltr.run("sessions", "show", "--last").stdout.decode()
    assert "SIGSEGV" in text
    # Why comes before how many.
    assert text.index("\nProcesses\n") < text.index("\nEvents\n")


def test_killed_in_the_middle(smeltr: Smeltr) -> None:
    process = smeltr.start("record", "--name", "killed", "--", DEMO, "--loop-forever")

    def recorded_pid() -> int:
        # The directory is there a moment before the metadata in it.
        written = [d for d in smeltr.session_directories() if (d / "metadata.toml").exists()]
        return smeltr.only_metadata().get("root_pid", 0) if written else 0

    pid = wait_until(recorded_pid, "the demo ran")
    directory = smeltr.session_directories()[0]
    wait_until(lambda: (directory / "events.smlt").stat().st_size > 20_000, "some events were on disk")
    os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGKILL

    session = show(smeltr)
    assert session["term_signal"] == signal.SIGKILL
    assert session["damage"]["skipped_chunks"] == 0
    counts = session["event_counts"]
    committed, completed = counts["VulkanCbCommitted"], counts["VulkanCbCompleted"]
    answer = breakdown(smeltr, "killed")
    buffers = answer["command_buffers"]
    # What completed unread is known from later submissions. The demo keeps two in flight; lavapipe tells of a
    # completion a moment after it has woken who waits for it.
    assert buffers["incomplete"] + buffers["untimed"] == committed - completed
    assert 1 <= buffers["incomplete"] <= 4
    # Those in flight are listed, each with its queue; nothing else is.
    assert len(session["in_flight"]) == buffers["incomplete"]
    assert all(row["queue_id"] for row in session["in_flight"])
    assert answer["gpu_ns"] > 0


@pytest.mark.skipif(not VALIDATION_MANIFESTS, reason="the Khronos validation layer is not installed")
@pytest.mark.parametrize("where", ["beneath", "above"])
def test_adds_no_validation_message(smeltr: Smeltr, where: str, tmp_path: Path) -> None:
    environment = {"VK_INSTANCE_LAYERS": VALIDATION}
    if where == "above":
        # An implicit layer of the user's own: its manifest comes before ours in the search order.
        manifest = json.loads(VALIDATION_MANIFESTS[0].read_text())
        manifest["layer"]["enable_environment"] = {"TEST_VALIDATION": "1"}
        manifest["layer"]["disable_environment"] = {"TEST_NO_VALIDATION": "1"}
        folder = tmp_path / "share/vulkan/implicit_layer.d"
        folder.mkdir(parents=True)
        (folder / "validation.json").write_text(json.dumps(manifest))
        environment = {
            "TEST_VALIDATION": "1",
            "XDG_DATA_DIRS": f"{tmp_path}/share:/usr/local/share:/usr/share",
        }
    environment["VK_KHRONOS_VALIDATION_ENABLES"] = (
        "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT"
    )
    arguments = ["--steps", "4", "--threads", "2"]
    bare = subprocess.run(
        [DEMO, *arguments], env={**os.environ, **environment}, capture_output=True, check=False
    )
    recorded = smeltr.record("--quiet", "--", DEMO, *arguments, env=environment)
    assert recorded.returncode == 0
    assert recorded.stdout == bare.stdout
    assert b"Validation" not in recorded.stdout + recorded.stderr
    assert recorded.stderr == bare.stderr
    assert breakdown(smeltr, "--last")["gpu_ns"] > 0
