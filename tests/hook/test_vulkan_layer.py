"""The Vulkan layer against the system's loader and driver, without daemon and session: its events are read from the
ring. What the recorded program prints and how it ends must not depend on the layer."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

BUILD = Path(os.environ["SMELTR_BIN_DIR"]).resolve().parent
WORKLOAD = BUILD / "workload"
SOURCE = Path(__file__).resolve().parents[2]
PATIENCE_S = 120
SMALL, LARGE = 64, 256  # Workgroups of vk_loop's dispatches: three small ones, one large.


class Run:
    """A program that ended, and the events of its processes."""

    def __init__(self, status: int, out: bytes, err: bytes, rings: list[list[dict[str, Any]]]) -> None:
        self.status, self.out, self.err, self.rings = status, out, err, rings
        self.events = [event for ring in rings for event in ring]

    def kind(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["kind"] in (name, "Vulkan" + name)]

    def ops(self) -> list[dict[str, Any]]:
        return [op for event in self.kind("CbOps") for op in event["ops"]]

    def skipped(self) -> set[str]:
        return {event["reason"] for event in self.kind("HookSkipped")}


Layer = Callable[..., Run]


@pytest.fixture
def layer(tmp_path: Path) -> Layer:
    """Runs a program with the layer, and without it."""
    manifests = tmp_path / "share" / "vulkan" / "implicit_layer.d"
    manifests.mkdir(parents=True)
    manifest = json.loads((SOURCE / "src/hook/vulkan/manifest.json").read_text())
    manifest["layer"]["library_path"] = str(BUILD / "lib" / "libsmeltr_hook.so")
    (manifests / "smeltr.json").write_text(json.dumps(manifest))
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SMELTR_", "VK_"))}

    def run(*command: str | Path, recorded: bool = True, **environment: str) -> Run:
        rings = tmp_path / "rings"
        shutil.rmtree(rings, ignore_errors=True)
        rings.mkdir()
        environ = {**clean, **environment}
        if recorded:
            environ["XDG_DATA_DIRS"] = f"{tmp_path / 'share'}:/usr/local/share:/usr/share"
            environ["SMELTR_VULKAN_LAYER"] = "1"
            environ["SMELTR_RING_DIR"] = str(rings)
        done = subprocess.run(command, env=environ, capture_output=True, timeout=PATIENCE_S)
        events = []
        for ring in sorted(rings.glob("*.ring")):
            dump = subprocess.run([WORKLOAD / "ring_dump", ring], capture_output=True, check=True)
            events.append([json.loads(line) for line in dump.stdout.splitlines()])
        return Run(done.returncode, done.stdout, done.stderr, events)

    return run


def fault(**settings: str) -> dict[str, str]:
    names = {"VK_ADD_LAYER_PATH": str(WORKLOAD), "VK_INSTANCE_LAYERS": "VK_LAYER_SMELTR_fault"}
    return {**names, **{f"FAULT_{name.upper()}": value for name, value in settings.items()}}


def check_books(run: Run) -> None:
    """What holds of every run: each command buffer ends once, ops add up to it, queues do one thing at a time."""
    committed = Counter(event["cb_id"] for event in run.kind("CbCommitted"))
    completed = Counter(event["cb_id"] for event in run.kind("CbCompleted"))
    assert set(committed.values()) <= {1}
    assert committed == completed
    shares: Counter[int] = Counter()
    for event in run.kind("CbOps"):
        shares[event["cb_id"]] += sum(op["gpu_ns"] for op in event["ops"])
    commits = {event["cb_id"]: event for event in run.kind("CbCommitted")}
    ends: dict[int, int] = {}
    # By time: the program's threads write some of them, when they learn of a completion.
    for event in sorted(run.kind("CbCompleted"), key=lambda one: (one["ts_ns"], one["gpu_start_ns"])):
        assert commits[event["cb_id"]]["ts_ns"] <= event["ts_ns"]
        if event["status"] != "completed":
            continue
        span = event["gpu_end_ns"] - event["gpu_start_ns"]
        if event["cb_id"] in shares:
            assert shares[event["cb_id"]] == span
        assert event["gpu_start_ns"] >= ends.get(event["queue_id"], 0)
        ends[event["queue_id"]] = event["gpu_end_ns"]
    assert not run.kind("dropped")


def counts(run: Run) -> Counter[tuple[str, str]]:
    """Ops by type and size."""
    ops: Counter[tuple[str, str]] = Counter()
    for op in run.ops():
        ops[op["type"], op["name"].rpartition("_")[2] if op["name"].startswith("K_") else op["name"]] += op[
            "count"
        ]
    return ops


PATTERNS = [
    "fresh",
    "rerecord",
    "pool_reset",
    "reuse",
    "pipelined",
    "simultaneous",
    "secondary",
    "submit2",
    "api10",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_dispatch_is_counted_and_the_result_is_the_same(layer: Layer, pattern: str) -> None:
    bare = layer(WORKLOAD / "vk_loop", pattern, "20", recorded=False)
    run = layer(WORKLOAD / "vk_loop", pattern, "20")
    assert (run.status, run.out, run.err) == (0, bare.out, bare.err)
    check_books(run)
    repeats = {"secondary": 2, "submit2": 3}.get(pattern, 1) * 20
    assert counts(run) == {("dispatch", f"{SMALL}x1x1"): 3 * repeats, ("dispatch", f"{LARGE}x1x1"): repeats}
    assert len(run.kind("CbCommitted")) == (60 if pattern == "submit2" else 20)
    assert all(op["local_x"] == 64 and op["local_y"] == 1 for op in run.ops())


@pytest.mark.parametrize(
    "pattern", ["fresh", "rerecord", "pool_reset", "reuse", "secondary", "submit2", "api10"]
)
def test_gpu_time_comes_from_the_gpu(layer: Layer, pattern: str) -> None:
    run = layer(WORKLOAD / "vk_loop", pattern, "10")
    sources = Counter(event["time_source"] for event in run.kind("CbCompleted"))
    assert sources["gpu"] == len(run.kind("CbScheduled")) > 0
    # On a busy machine a recording may run again before anyone could read its queries; then that is said.
    assert sources["host"] == 0 or (pattern == "reuse" and "result_lost" in run.skipped())


def test_fresh_recordings_are_sampled_per_op(layer: Layer) -> None:
    run = layer(WORKLOAD / "vk_loop", "fresh", "10")
    assert {op["precision"] for op in run.ops()} == {"op"}
    mean = {
        size: sum(op["gpu_ns"] for op in run.ops() if f"_{size}x" in op["name"]) / times
        for size, times in ((SMALL, 30), (LARGE, 10))
    }
    assert mean[LARGE] > mean[SMALL]


def test_long_recordings_are_known_by_op_or_by_what_was_learned(layer: Layer) -> None:
    run = layer(WORKLOAD / "vk_loop", "steps", "8")
    check_books(run)
    assert "op" in {op["precision"] for op in run.ops()} <= {"op", "group", "profile"}


def test_kernel_names_are_the_same_in_every_run(layer: Layer) -> None:
    first, second = (layer(WORKLOAD / "vk_loop", "fresh", "2") for _ in range(2))
    assert {op["name"] for op in first.ops()} == {op["name"] for op in second.ops()}
    assert len({op["name"].split("_")[1] for op in first.ops()}) == 2  # One shader, two specializations.


def test_reasons_are_given(layer: Layer) -> None:
    assert "simultaneous_use" in layer(WORKLOAD / "vk_loop", "simultaneous", "3").skipped()
    assert "reused_recording" in layer(WORKLOAD / "vk_loop", "reuse", "3").skipped()
    assert layer(WORKLOAD / "vk_loop", "fresh", "3").skipped() == set()


def test_queue_depth_counts_what_is_in_flight(layer: Layer) -> None:
    depths = [
        event["queue_depth"]
        for event in layer(WORKLOAD / "vk_loop", "simultaneous", "12").kind("CbCommitted")
    ]
    assert depths[0] == 1
    assert max(depths) > 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(depths))


def test_completions_keep_up_with_a_program_that_keeps_the_device_busy(layer: Layer) -> None:
    # On llvmpipe a read lasts until the device is idle: one for each command buffer would fall behind for good.
    run = layer(BUILD / "bin" / "smeltr-demo", "--crash-after", "30")
    assert run.status == -signal.SIGSEGV
    committed, completed = len(run.kind("CbCommitted")), len(run.kind("CbCompleted"))
    assert committed == 44
    assert committed - completed <= 16
    assert {event["time_source"] for event in run.kind("CbCompleted")} == {"gpu"}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_programs_threads_and_ours_publish_by_turns(layer: Layer, pattern: str) -> None:
    run = layer(WORKLOAD / "vk_loop", pattern, "20", **fault(name="1"))
    assert run.status == 0
    check_books(run)


def test_what_a_wait_proves_is_written_before_it_returns(layer: Layer) -> None:
    # It ends within microseconds of its last wait. The hook's thread may be at it just then, and is not waited for;
    # and lavapipe tells of a fence before it does of the timeline that was signalled first.
    for _ in range(40):
        run = layer(WORKLOAD / "vk_leave", "waited", **fault(name="1"))
        assert run.status == 0
        if len(run.kind("CbCompleted")) == 3:
            break
    check_books(run)
    assert {event["time_source"] for event in run.kind("CbCompleted")} == {"gpu"}


def test_labels_are_scopes_and_debug_names_are_symbols(layer: Layer) -> None:
    run = layer(WORKLOAD / "vk_loop", "labels", "5")
    check_books(run)
    entered = {event["module_call_id"]: event for event in run.kind("ModuleEntered")}
    returned = [event["module_call_id"] for event in run.kind("ModuleReturned")]
    assert sorted(entered) == sorted(returned)
    names = Counter(event["qualname"] for event in entered.values())
    assert names == {"frame": 5, "first": 5, "second": 5, "inner": 5}
    scope_of = {op["name"].split("_")[2]: entered.get(op["scope_id"], {}).get("qualname") for op in run.ops()}
    assert scope_of == {"1x1x1": "first", "2x1x1": "second", "3x1x1": "inner", "4x1x1": None}
    inner = next(event for event in entered.values() if event["qualname"] == "inner")
    assert entered[inner["parent_call_id"]]["qualname"] == "second"
    assert all(entered[event["scope_id"]]["qualname"] == "frame" for event in run.kind("CbCommitted"))
    assert {op["symbol"] for op in run.ops() if "_4x1x1" not in op["name"]} == {"small_spin"}
    assert run.kind("QueueInfo")[-1]["label"] == "main queue"


def test_commands_that_are_no_dispatches(layer: Layer) -> None:
    run = layer(WORKLOAD / "vk_loop", "others", "4")
    check_books(run)
    assert counts(run) == {
        ("fill", "cmd_fill_buffer"): 4,
        ("copy", "cmd_copy_buffer"): 4,
        ("fill", "cmd_update_buffer"): 4,
        ("dispatch", "1x1x1"): 4,
        ("dispatch_indirect", "0x0x0"): 4,
    }
    empty = [event for event in run.kind("CbCompleted") if event["gpu_start_ns"] == event["gpu_end_ns"]]
    assert len(empty) == 4


def test_memory_is_accounted_for(layer: Layer) -> None:
    run = layer(WORKLOAD / "vk_loop", "fresh", "1")
    (heap,) = run.kind("HeapAlloc")
    (buffer,) = run.kind("BufferAlloc")
    assert (heap["size_bytes"], buffer["size_bytes"], buffer["heap_id"]) == (262144, 262144, heap["heap_id"])
    assert run.kind("HeapFree")[0]["heap_id"] == heap["heap_id"]
    assert run.kind("BufferFree")[0]["buffer_id"] == buffer["buffer_id"]
    assert any(sample["allocated_bytes"] >= 262144 for sample in run.kind("DeviceMemSample"))


def test_settings(layer: Layer) -> None:
    exact = layer(WORKLOAD / "vk_loop", "reuse", "6", SMELTR_HOOK_DISPATCH_BOUNDARY="1")
    check_books(exact)
    assert counts(exact)["dispatch", f"{LARGE}x1x1"] == 6
    assert "op" in {op["precision"] for op in exact.ops()}
    bare = layer(WORKLOAD / "vk_loop", "fresh", "6", SMELTR_HOOK_NO_OPS="1")
    assert len(bare.kind("CbCompleted")) == 6
    assert bare.ops() == []
    assert layer(WORKLOAD / "vk_loop", "fresh", "6", SMELTR_HOOK_DISABLE="1").rings == []


def test_devices_and_threads_at_once(layer: Layer) -> None:
    run = layer(WORKLOAD / "vk_threads", "4", "3", "20")
    assert (run.status, run.out) == (0, b"240\n")
    check_books(run)
    assert len(run.kind("DeviceInfo")) == 4
    assert len(run.kind("CbCommitted")) == 240
    assert sum(op["count"] for op in run.ops()) == 240


ENDS = {
    "return": 3,
    "exit": 4,
    "_exit": 5,
    "abort": -signal.SIGABRT,
    "kill": -signal.SIGKILL,
    "throw": -signal.SIGABRT,
    "wait": 0,
    "close": 0,
    "fork": 0,
}


@pytest.mark.parametrize("how", ENDS)
def test_the_program_ends_as_it_would_alone(layer: Layer, how: str) -> None:
    run = layer(WORKLOAD / "vk_leave", how)
    assert run.status == ENDS[how]
    assert len(run.kind("CbCommitted")) >= 3
    if how in ("wait", "close"):
        check_books(run)


def test_a_forked_child_with_a_device_of_its_own_has_a_ring_of_its_own(layer: Layer) -> None:
    run = layer(WORKLOAD / "vk_leave", "fork_own")
    assert len(run.rings) == 2
    committed = sorted(sum(event["kind"] == "VulkanCbCommitted" for event in ring) for ring in run.rings)
    assert committed[0] == 2


def test_a_failed_submission_is_rolled_back(layer: Layer) -> None:
    run = layer(WORKLOAD / "vk_loop", "fresh", "5", **fault(submit="3:-2"))
    assert run.status == 1
    (error,) = run.kind("ApiError")
    assert (error["call"], error["error_name"]) == ("vkQueueSubmit", "VK_ERROR_OUT_OF_DEVICE_MEMORY")
    assert [event["status"] for event in run.kind("CbCompleted")].count("abandoned") == 1
    check_books(run)


@pytest.mark.parametrize("where", ["submit", "wait"])
def test_a_lost_device_is_reported_once_and_fails_what_was_in_flight(layer: Layer, where: str) -> None:
    run = layer(WORKLOAD / "vk_loop", "fresh", "5", **fault(**{where: "3:-4"}))
    assert run.status == 1
    (error,) = run.kind("ApiError")
    assert error["error_name"] == "VK_ERROR_DEVICE_LOST"
    assert len(run.kind("CbCommitted")) == 3


def test_a_refused_allocation_is_an_error_with_its_size(layer: Layer) -> None:
    run = layer(WORKLOAD / "vk_loop", "fresh", "5", **fault(memory="1:-2"))
    (error,) = run.kind("ApiError")
    assert (error["call"], error["requested_bytes"]) == ("vkAllocateMemory", 262144)


def test_a_device_that_refuses_our_wishes_is_made_as_the_program_wants(layer: Layer) -> None:
    run = layer(WORKLOAD / "vk_loop", "fresh", "10", **fault(device="1"))
    assert run.status == 0
    check_books(run)
    assert run.skipped() == {"feature_unavailable"}


@pytest.mark.parametrize(
    "missing", [{"no_timeline": "1"}, {"no_reset": "1"}, {"no_timeline": "1", "no_reset": "1"}]
)
@pytest.mark.parametrize("pattern", ["fresh", "reuse", "pipelined", "simultaneous"])
def test_lesser_devices(layer: Layer, missing: dict[str, str], pattern: str) -> None:
    run = layer(WORKLOAD / "vk_loop", pattern, "10", **fault(**missing))
    assert run.status == 0
    check_books(run)
    assert counts(run)["dispatch", f"{SMALL}x1x1"] == 30
    assert "feature_unavailable" in run.skipped()


def test_queues_without_timestamps(layer: Layer) -> None:
    run = layer(WORKLOAD / "vk_loop", "fresh", "10", **fault(valid_bits="0"))
    check_books(run)
    assert {event["time_source"] for event in run.kind("CbCompleted")} == {"host"}
    assert "no_timestamps" in run.skipped()


@pytest.mark.parametrize(
    "broken",
    [
        {"valid_bits": "32"},
        {"valid_bits": "36"},
        {"tick_offset": "11850000000"},
        {"tick_offset": "-11850000000"},
    ],
)
def test_strange_clocks_are_put_right(layer: Layer, broken: dict[str, str]) -> None:
    run = layer(WORKLOAD / "vk_loop", "fresh", "10", **fault(**broken))
    check_books(run)
    assert {event["time_source"] for event in run.kind("CbCompleted")} == {"gpu"}
    # The faults are off by many seconds; what remains is at most how late a completion was noticed.
    first, last = run.kind("CbCommitted")[0]["ts_ns"], run.kind("BufferFree")[0]["ts_ns"] + 1_000_000_000
    assert all(
        first <= event["gpu_start_ns"] <= event["gpu_end_ns"] <= last for event in run.kind("CbCompleted")
    )


VALIDATION = Path("/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json")


@pytest.mark.skipif(not VALIDATION.exists(), reason="no validation layer on this machine")
@pytest.mark.parametrize("pattern", [*PATTERNS, "labels", "others"])
@pytest.mark.parametrize("place", ["below", "above"])
def test_validation_has_nothing_to_say(layer: Layer, tmp_path: Path, pattern: str, place: str) -> None:
    environment = {"VK_INSTANCE_LAYERS": "VK_LAYER_KHRONOS_validation"}
    if place == "above":
        # As an explicit layer ours can be put beneath another.
        explicit = json.loads((tmp_path / "share/vulkan/implicit_layer.d/smeltr.json").read_text())
        del explicit["layer"]["enable_environment"], explicit["layer"]["disable_environment"]
        (tmp_path / "explicit.json").write_text(json.dumps(explicit))
        environment["VK_LAYER_PATH"] = f"{tmp_path}:{VALIDATION.parent}"
        environment["VK_INSTANCE_LAYERS"] = "VK_LAYER_SMELTR_record:VK_LAYER_KHRONOS_validation"
        environment["SMELTR_VULKAN_LAYER"] = "0"
    bare = layer(
        WORKLOAD / "vk_loop", pattern, "4", recorded=False, VK_INSTANCE_LAYERS="VK_LAYER_KHRONOS_validation"
    )
    run = layer(WORKLOAD / "vk_loop", pattern, "4", **environment)
    assert (run.status, run.out, run.err) == (0, bare.out, bare.err)
    assert len(run.kind("CbCompleted")) >= 4


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="no ffmpeg on this machine")
def test_ffmpeg_filters(layer: Layer, tmp_path: Path) -> None:
    command = [
        "ffmpeg",
        "-v",
        "error",
        "-init_hw_device",
        "vulkan=vk:0",
        "-filter_hw_device",
        "vk",
        "-f",
        "lavfi",
        "-i",
        "testsrc=size=160x120:rate=10:duration=1",
        "-vf",
        "format=yuv420p,hwupload,avgblur_vulkan,hwdownload,format=yuv420p",
        "-f",
        "rawvideo",
        "-y",
    ]
    bare = layer(*command, tmp_path / "bare.yuv", recorded=False)
    run = layer(*command, tmp_path / "recorded.yuv")
    assert (run.status, run.err) == (0, bare.err)
    assert (tmp_path / "recorded.yuv").read_bytes() == (tmp_path / "bare.yuv").read_bytes()
    check_books(run)
    assert run.kind("DeviceInfo")[0]["application"] == "libavutil"
    assert counts(run)["copy", "cmd_copy_buffer_to_image"] == 30
    assert sum(op["count"] for op in run.ops() if op["type"] == "dispatch") == 20
    assert sum(heap["imported"] for heap in run.kind("HeapAlloc")) == 60
