"""The built hook library: what it shows, what it needs, and that loading it does nothing."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("SMELTR_BIN_DIR", ROOT / "build" / "release" / "bin"))
LIBRARY = BIN.parent / "lib" / "libsmeltr_hook.so"
BARE_LOAD = BIN.parent / "workload" / "bare_load"
NEEDED = {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libm.so.6", "libpthread.so.0"}


def output(*command: str, **options: object) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, **options).stdout


def exports_map() -> set[str]:
    text = re.sub(r"#.*", "", (ROOT / "src/hook/core/exports.map").read_text())
    public = text[text.index("global:") + len("global:") : text.index("local:")]
    return {name.strip() for name in public.split(";") if name.strip()}


def test_exports_equal_exports_map() -> None:
    lines = output("nm", "-D", "--defined-only", str(LIBRARY)).splitlines()
    assert {line.split()[-1] for line in lines} == exports_map()


def test_needs_nothing_but_libc() -> None:
    dynamic = output("readelf", "-dW", str(LIBRARY))
    assert set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)) <= NEEDED
    assert "NODELETE" in dynamic, "a loader that closes it must not unmap it"
    assert "TEXTREL" not in dynamic
    assert "STATIC_TLS" not in dynamic, "could fail to load when the static TLS room is used up"


def test_runs_no_code_when_it_is_loaded() -> None:
    sections = output("readelf", "-SW", str(LIBRARY))
    sizes = {m[1]: int(m[2], 16) for m in re.finditer(r"\] (\.\w+)\s+\w+\s+\w+ \w+ (\w+)", sections)}
    # One entry: the compiler's own frame_dummy, which does nothing. A static with a constructor adds another.
    assert sizes.get(".init_array", 0) <= 8


@pytest.mark.parametrize(
    "environment",
    [{}, {"SMELTR_RING_DIR": ""}, {"SMELTR_HOOK_DISABLE": "1", "SMELTR_RING_DIR": "DIR"}],
    ids=["plain", "empty directory", "disabled"],
)
def test_loading_outside_a_recording_leaves_no_trace(tmp_path: Path, environment: dict[str, str]) -> None:
    assert "libstdc++" not in output("readelf", "-dW", str(BARE_LOAD))
    variables = {k: v for k, v in os.environ.items() if not k.startswith("SMELTR_")}
    variables |= {name: value.replace("DIR", str(tmp_path)) for name, value in environment.items()}
    lines = output(str(BARE_LOAD), str(LIBRARY), str(tmp_path), env=variables).splitlines()
    states = {line.split(" ", 1)[0]: line.split(" ", 1)[1] for line in lines if " " in line}
    assert "recorded=0" in lines
    assert states.keys() == {"before", "loaded", "asked", "closed"}
    assert len(set(states.values())) == 1, lines
    assert "threads=3 " in states["closed"] and "rings=2" in states["closed"], "besides . and .."


def test_loading_in_a_recording_alone_leaves_no_trace_either(tmp_path: Path) -> None:
    """The loader opens a layer's library for every query: only use may open the ring."""
    variables = os.environ | {"SMELTR_RING_DIR": str(tmp_path), "SMELTR_RING_BLOCKS": "8"}
    lines = output(str(BARE_LOAD), str(LIBRARY), str(tmp_path), env=variables).splitlines()
    states = {line.split(" ", 1)[0]: line.split(" ", 1)[1] for line in lines if " " in line}
    assert states["loaded"] == states["before"]
    assert "recorded=1" in lines
    assert "rings=3" in states["asked"] and "threads=3 " in states["asked"]
