"""The generator of synthetic sessions: what it writes is a session like any other, and the same each time."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, Smeltr


def generate(smeltr: Smeltr, *options: str) -> Path:
    """Runs gen-session; the session's directory."""
    before = set(smeltr.home.glob("sessions/*"))
    subprocess.run([BIN / "gen-session", *options], env=smeltr.environment, check=True, capture_output=True)
    (made,) = set(smeltr.home.glob("sessions/*")) - before
    return made


def answer(smeltr: Smeltr, *command: str) -> dict[str, Any]:
    result = smeltr.run(*command, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("api", ["cuda", "vulkan", "metal"])
def test_every_command_buffer_has_its_kernels_and_its_scope(smeltr: Smeltr, api: str) -> None:
    generate(smeltr, "--events", "60k", "--api", api, "--name", "made")
    breakdown = answer(smeltr, "breakdown", "made")
    assert breakdown["diagnostics"]["cbs_incomplete"] == 0
    assert breakdown["diagnostics"]["cbs_without_ops"] == 0
    # All but the copies are somebody's.
    assert breakdown["exact_pct"] > 95
    assert [child["qualname"] for child in breakdown["root"]["children"]][0] in ("decode_step", "prefill")


def test_one_seed_makes_one_sequence_of_events(smeltr: Smeltr) -> None:
    first, again, other = (
        (generate(smeltr, "--events", "20k", "--seed", seed) / "events.smlt").read_bytes()
        for seed in ("1", "1", "2")
    )
    assert first == again
    assert first != other


def test_a_crash_leaves_work_in_flight(smeltr: Smeltr) -> None:
    generate(smeltr, "--events", "20k", "--api", "vulkan", "--crash", "--name", "boom")
    shown = answer(smeltr, "sessions", "show", "boom")
    assert shown["term_signal"] == 11
    assert shown["in_flight"]


def test_cut_off_is_read_without_an_index(smeltr: Smeltr) -> None:
    generate(smeltr, "--events", "20k", "--cut-off", "--name", "torn")
    assert answer(smeltr, "breakdown", "torn")["gpu_ns"] > 0
