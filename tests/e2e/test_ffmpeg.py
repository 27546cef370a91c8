"""A program nobody prepared: Debian's ffmpeg with a Vulkan filter gives the same bytes and a full session."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import pytest
from conftest import Smeltr

pytestmark = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")

FRAMES = 4
PLANES = 3  # Of yuv420p: uploaded and downloaded one by one.
COMMAND = [
    *("ffmpeg", "-hide_banner", "-nostdin", "-loglevel", "error"),
    *("-init_hw_device", "vulkan=gpu:0", "-filter_hw_device", "gpu"),
    *("-f", "lavfi", "-i", f"testsrc2=size=320x240:rate={FRAMES}:duration=1"),
    *("-vf", "format=yuv420p,hwupload,avgblur_vulkan=sizeX=5,hwdownload,format=yuv420p"),
    *("-f", "rawvideo", "-"),
]


def ask(smeltr: Smeltr, *arguments: str) -> dict[str, Any]:
    result = smeltr.run(*arguments, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def recorded(smeltr: Smeltr, name: str) -> subprocess.CompletedProcess[bytes]:
    return smeltr.record("--quiet", "--name", name, "--", *COMMAND)


def test_filter_runs_the_same_and_leaves_its_gpu_work(smeltr: Smeltr) -> None:
    bare = subprocess.run(COMMAND, env=smeltr.environment, capture_output=True, check=False)
    assert bare.returncode == 0, bare.stderr
    assert len(bare.stdout) == FRAMES * 320 * 240 * 3 // 2

    result = recorded(smeltr, "filter")
    assert (result.returncode, result.stdout, result.stderr) == (0, bare.stdout, bare.stderr)

    session = ask(smeltr, "sessions", "show", "filter")
    check_session(session)
    breakdown = ask(smeltr, "breakdown", "filter")
    check_breakdown(breakdown, session["command_buffers"]["committed"])


def check_session(session: dict[str, Any]) -> None:
    assert session["hook_state"] == "injected"
    assert session["exit_code"] == 0
    assert session["errors"] == [] and session["skipped"] == [] and session["dropped_events"] == 0

    # Upload, filter and download are a command buffer each; preparing an image is one more.
    buffers = session["command_buffers"]
    assert buffers["committed"] == buffers["completed"] >= 3 * FRAMES
    assert buffers["incomplete"] == buffers["failed"] == buffers["without_time"] == 0

    counts = session["event_counts"]
    assert counts["VulkanDeviceInfo"] == 1 and counts["VulkanQueueInfo"] >= 1
    assert counts["VulkanCbOps"] >= 3 * FRAMES
    for kind in ("Heap", "Buffer", "Texture"):
        assert counts[f"Vulkan{kind}Alloc"] == counts[f"Vulkan{kind}Free"] > 0


def check_breakdown(breakdown: dict[str, Any], command_buffers: int) -> None:
    assert breakdown["gpu_ns"] > 0
    assert breakdown["unscoped_pct"] == 100.0
    assert breakdown["damage"]["problems"] == []

    # It opens no scopes, so all is in one row of the tree.
    (unscoped,) = breakdown["root"]["children"]
    assert unscoped["qualname"] == "<unscoped>"
    assert unscoped["cb_count"] == command_buffers
    assert unscoped["gpu_ns_self"] == breakdown["gpu_ns"]

    ops = {op["name"]: op for op in unscoped["ops"]}
    assert sum(op["gpu_ns"] for op in ops.values()) == breakdown["gpu_ns"]
    # A box blur is two kernels, one a direction; their names are all `main`.
    kernels = [op for name, op in ops.items() if re.fullmatch(r"K_[0-9a-f]{8}_\d+x\d+x\d+", name)]
    assert [op["count"] for op in kernels] == [FRAMES, FRAMES]
    assert all(op["gpu_ns"] > 0 for op in kernels)
    assert ops["cmd_copy_buffer_to_image"]["count"] == FRAMES * PLANES
    assert ops["cmd_copy_image_to_buffer"]["count"] == FRAMES * PLANES


def test_kernels_without_names_are_the_same_in_every_run(smeltr: Smeltr) -> None:
    names = []
    for name in ("one", "two"):
        assert recorded(smeltr, name).returncode == 0
        (unscoped,) = ask(smeltr, "breakdown", name)["root"]["children"]
        names.append(sorted(op["name"] for op in unscoped["ops"] if op["name"].startswith("K_")))
    assert len(names[0]) == 2
    assert names[0] == names[1]
