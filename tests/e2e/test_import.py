"""Sessions from elsewhere: those of the earlier Rust smeltr, and Chrome traces.

No session of the Rust smeltr is at hand: the ones here are made from the description of its files, byte by byte.
The traces were written by torch.profiler and jax.profiler on an H200, and then cut down.
"""

from __future__ import annotations

import json
import os
import re
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import Smeltr

SAMPLES = Path(__file__).resolve().parents[1] / "unit" / "session" / "data"
START_NS = 1_700_000_000_000_000_000
SESSION_ID = bytes.fromhex("1a2b3c4d00004000800000000000abcd")


# --- the earlier format ---


def head(major: int, number: int) -> bytes:
    if number < 24:
        return bytes([major << 5 | number])
    for detail, form in ((24, ">B"), (25, ">H"), (26, ">I"), (27, ">Q")):
        if number < 1 << 8 * struct.calcsize(form):
            return bytes([major << 5 | detail]) + struct.pack(form, number)
    raise ValueError(number)


def cbor(value: object) -> bytes:
    if value is None or isinstance(value, bool):
        return {None: b"\xf6", True: b"\xf5", False: b"\xf4"}[value]
    if isinstance(value, int):
        return head(0, value) if value >= 0 else head(1, -1 - value)
    if isinstance(value, float):
        return b"\xfb" + struct.pack(">d", value)
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    if isinstance(value, str):
        return head(3, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return head(4, len(value)) + b"".join(map(cbor, value))
    assert isinstance(value, dict)
    return head(5, len(value)) + b"".join(cbor(k) + cbor(v) for k, v in value.items())


def event(ms: float, source: str, kind: str, session_id: bytes = SESSION_ID, **fields: object) -> bytes:
    ns = int(ms * 1_000_000)
    encoded = cbor(
        {
            "ts_mono_ns": ns,
            "ts_wall_ns": START_NS + ns,
            "session_id": session_id,
            "source": source,
            "pid": 4711,
            "seq": 1,
            "payload": {"kind": kind, **fields},
        }
    )
    return struct.pack("<I", len(encoded)) + encoded


def zstd(raw: bytes) -> bytes:
    """A frame of uncompressed blocks."""
    blocks = [raw[i : i + 100_000] for i in range(0, len(raw), 100_000)] or [b""]
    packed = struct.pack("<IBI", 0xFD2FB528, 0xA0, len(raw))
    for i, block in enumerate(blocks):
        packed += struct.pack("<I", len(block) << 3 | (i + 1 == len(blocks)))[:3] + block
    return packed


def chunked(chunks: list[bytes]) -> bytes:
    file = b"SMz\x01"
    for raw in chunks:
        file += struct.pack("<I", len(zstd(raw))) + zstd(raw)
    footer = struct.pack("<I", len(chunks)) + bytes(40 * len(chunks))
    return file + footer + struct.pack("<QI", len(file), 0) + b"SMzINDEX"


def scope(call: int, name: str, begin_ms: float, end_ms: float, **fields: object) -> list[bytes]:
    entered = {"module_call_id": call, "module_def_id": 1, "qualname": name, "class_name": "Scope"}
    return [
        event(begin_ms, "PythonSidecar", "ModuleEntered", **entered, depth=0, fields=fields),
        event(end_ms, "PythonSidecar", "ModuleReturned", module_call_id=call),
    ]


def command_buffer(address: int, commit_ms: float, done_ms: float, gpu_ns: int) -> list[bytes]:
    ids = {"cb_id": address, "queue_id": 0x1000}
    op = {"name": "K_12345678_8x1x1", "symbol": "gemm_nt_bf16", "gpu_ns": gpu_ns, "count": 4}
    in_flight_ns = int((done_ms - commit_ms) * 1_000_000)
    return [
        event(commit_ms, "MetalHook", "MetalCbCommitted", **ids, queue_depth=1, label=None),
        event(done_ms, "MetalHook", "MetalCbCompleted", **ids, status="Completed", in_flight_ns=in_flight_ns),
        event(done_ms, "MetalHook", "MetalCbOps", cb_id=address, ops=[op]),
    ]


METADATA = """session_id = "1a2b3c4d-0000-4000-8000-00000000abcd"
started_rfc3339 = "2023-11-14T22:13:20+00:00"
ended_rfc3339 = "2023-11-14T22:13:30+00:00"
host = "mac.local"
mlx_version = ""
exit_code = 0
argv = ["smeltrd"]
name = "old baseline"
[kind]
type = "Scoped"
pid = 4711
argv = ["python", "infer.py"]
"""


def old_session(parent: Path, events: bytes, metadata: str | None = METADATA) -> Path:
    directory = parent / "2023-11-14-221320-1a2b3c4d"
    directory.mkdir(parents=True)
    (directory / "events.cbor.zst").write_bytes(events)
    if metadata is not None:
        (directory / "metadata.toml").write_text(metadata)
    return directory


def two_chunks() -> list[bytes]:
    first = [event(0, "System", "SessionStarted", wall_unix_ns=START_NS)]
    first += scope(1, "prefill", 1, 20, users=4)
    first += command_buffer(0xA0, 5, 15, 3_000_000)
    second = scope(2, "decode", 30, 60)
    # The same address again: another command buffer.
    second += command_buffer(0xA0, 40, 50, 1_000_000)
    return [b"".join(first), b"".join(second)]


# --- traces ---


def is_gpu_work(event: dict[str, Any]) -> bool:
    if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
        return True
    return event.get("ph") == "X" and "cat" not in event and "kernel_details" in event.get("args", {})


def kernel_totals(trace: Path) -> dict[str, int]:
    """Ns by name, worked out from the JSON alone; each duration to the nearest ns."""
    totals: dict[str, int] = {}
    for one in json.loads(trace.read_text(), parse_float=Decimal)["traceEvents"]:
        if is_gpu_work(one):
            totals[one["name"]] = totals.get(one["name"], 0) + round(Decimal(one["dur"]) * 1000)
    return totals


def imported(smeltr: Smeltr, *arguments: str | Path) -> dict[str, Any]:
    result = smeltr.run("import", "--json", *arguments)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def breakdown(smeltr: Smeltr, reference: str) -> dict[str, Any]:
    result = smeltr.run("breakdown", "--json", "--ops-flat", reference)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def paths(node: dict[str, Any], above: str = "") -> dict[str, int]:
    """Own GPU time by the path of scopes."""
    path = f"{above}/{node['qualname']}" if above or node["qualname"] else ""
    found = {path: node["gpu_ns_self"]}
    for child in node["children"]:
        for name, gpu_ns in paths(child, path).items():
            found[name] = found.get(name, 0) + gpu_ns
    return found


@pytest.mark.parametrize("name", ["torch_training_step", "torch_graph_replay", "jax_steps"])
def test_kernel_totals_of_a_trace_are_those_of_its_json(smeltr: Smeltr, name: str) -> None:
    wanted = kernel_totals(SAMPLES / f"{name}.json")
    (session,) = imported(smeltr, SAMPLES / f"{name}.json")["sessions"]
    assert not session["lossy"]
    answer = breakdown(smeltr, session["short_id"])
    assert answer["gpu_ns_raw"] == sum(wanted.values())
    # Nothing overlaps on these streams.
    assert answer["gpu_ns"] == answer["gpu_ns_raw"]
    assert answer["exact_pct"] == 100.0
    found: dict[str, int] = {}
    for op in answer["ops"]:
        found[op["symbol"]] = found.get(op["symbol"], 0) + op["gpu_ns"]
    assert found == wanted


def test_gpu_time_of_a_trace_goes_to_the_scopes_that_launched_it(smeltr: Smeltr) -> None:
    (session,) = imported(smeltr, SAMPLES / "torch_training_step.json")["sessions"]
    by_path = paths(breakdown(smeltr, session["short_id"])["root"])
    total = sum(by_path.values())
    parts = {
        part: sum(ns for path, ns in by_path.items() if part in path)
        for part in ("/load/", "/forward/", "/backward/", "/optimizer/", "autograd::engine")
    }
    assert all(parts.values())
    # Most of the backward pass runs on a thread of its own; together they are everything.
    assert sum(parts.values()) == total


def test_a_damaged_trace_says_what_is_missing_and_where(smeltr: Smeltr, tmp_path: Path) -> None:
    lines = (SAMPLES / "jax_steps.json").read_text().splitlines(keepends=True)
    broken = next(i for i, line in enumerate(lines) if '"PjitFunction(<lambda>)"' in line)
    offset = len("".join(lines[:broken]).encode())
    lines[broken] = lines[broken].replace('"dur": ', '"dur" ')
    (tmp_path / "broken.json").write_text("".join(lines[:-2]))
    result = smeltr.run("import", tmp_path / "broken.json")
    assert result.returncode == 0, result.stderr
    text = result.stdout.decode()
    assert re.search(rf"lost \d+ B from byte {offset} on", text), text
    assert "cut off" in text
    assert max(map(len, text.splitlines())) <= 80 or "COLUMNS" not in os.environ
    shown = json.loads(smeltr.run("sessions", "show", "--last", "--json").stdout)
    assert shown["imported_format"] == "JAX profiler"
    assert shown["imported_from"] == str(tmp_path / "broken.json")
    assert any(f"from byte {offset} on" in note for note in shown["import_notes"])
    assert breakdown(smeltr, "broken")["gpu_ns"] == sum(kernel_totals(SAMPLES / "jax_steps.json").values())


def test_the_same_trace_is_known_again(smeltr: Smeltr, tmp_path: Path) -> None:
    copy = tmp_path / "renamed.json"
    copy.write_bytes((SAMPLES / "torch_graph_replay.json").read_bytes())
    first = imported(smeltr, SAMPLES / "torch_graph_replay.json", "--name", "graph")
    again = imported(smeltr, copy)
    forced = imported(smeltr, copy, "--force")
    outcomes = [answer["sessions"][0]["outcome"] for answer in (first, again, forced)]
    assert outcomes == ["imported", "already there", "replaced"]
    assert len({answer["sessions"][0]["session_id"] for answer in (first, again, forced)}) == 1
    assert [metadata["name"] for metadata in smeltr.metadata()] == ["renamed"]


def test_an_earlier_session(smeltr: Smeltr, tmp_path: Path) -> None:
    old = old_session(tmp_path, chunked(two_chunks()))
    (session,) = imported(smeltr, old)["sessions"]
    assert session["format"] == "Rust smeltr, chunked"
    assert session["notes"] == []
    assert session["session_id"] == "1a2b3c4d-0000-4000-8000-00000000abcd"
    answer = breakdown(smeltr, "old baseline")
    assert answer["gpu_ns"] == 4_000_000
    by_path = paths(answer["root"])
    assert sum(ns for path, ns in by_path.items() if path.endswith("prefill")) == 3_000_000
    assert sum(ns for path, ns in by_path.items() if path.endswith("decode")) == 1_000_000
    shown = json.loads(smeltr.run("sessions", "show", "1a2b3c4d", "--json").stdout)
    assert shown["argv"] == ["python", "infer.py"]
    assert shown["exit_code"] == 0
    assert shown["event_counts"]["MetalCbCompleted"] == 2
    assert b"old baseline" in smeltr.run("sessions", "ls").stdout


def test_damage_in_an_earlier_session_is_told_with_its_place(smeltr: Smeltr, tmp_path: Path) -> None:
    chunks = two_chunks()
    file = bytearray(chunked(chunks))
    second = 4 + 4 + len(zstd(chunks[0]))
    file[second + 4 + 9 : second + 4 + 12] = b"\xff\xff\xff"  # The head of its block.
    old_session(tmp_path, bytes(file), metadata="= not toml")
    result = smeltr.run("import", tmp_path)
    assert result.returncode == 0, result.stderr
    text = " ".join(result.stdout.decode().split())
    assert f"from byte {second + 4} on: the compressed data is damaged" in text
    assert "metadata.toml is damaged (line 1)" in text
    assert breakdown(smeltr, "1a2b3c4d")["gpu_ns"] == 3_000_000


def test_all_sessions_of_an_earlier_home(smeltr: Smeltr, tmp_path: Path) -> None:
    raw = b"".join(two_chunks())
    old_session(tmp_path / "sessions", zstd(raw))
    other = tmp_path / "sessions" / "2023-11-15-000000-0badcafe"
    other.mkdir()
    events = event(1, "Mark", "Mark", bytes(16), label="m") + event(2, "Odd", "Novelty", bytes(16), x=1)
    (other / "events.cbor").write_bytes(events)
    unreadable = tmp_path / "sessions" / "2023-11-16-000000-00000001"
    unreadable.mkdir()
    (unreadable / "events.cbor.zst").write_bytes(b"SMz\x09")
    result = smeltr.run("import", tmp_path)
    assert result.returncode == 1
    text = result.stdout.decode()
    assert "imported 1a2b3c4d (old baseline)" in text
    assert "unknown kind Novelty, kept unread as Kind#60000" in text
    assert "2 of 3 are sessions now" in text
    (error,) = result.stderr.decode().splitlines()
    assert "version 9" in error
    assert smeltr.run("sessions", "prune", "--yes").stdout.startswith(b"nothing to delete")


def test_wrong_usage(smeltr: Smeltr, tmp_path: Path) -> None:
    assert smeltr.run("import", tmp_path / "nothing").returncode == 2
    assert smeltr.run("import", tmp_path, "--name", "x").returncode == 2
    assert smeltr.run("import").returncode == 2
    empty = smeltr.run("import", tmp_path)
    assert empty.returncode == 1
    assert b"events.cbor.zst" in empty.stderr
    (tmp_path / "no.json").write_text("hello")
    refused = smeltr.run("import", tmp_path / "no.json")
    assert refused.returncode == 1
    assert b"no JSON trace" in refused.stderr
    assert not list(smeltr.home.glob("sessions/.importing*"))
