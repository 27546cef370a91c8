"""`smeltr doctor`: what it says is true, and its exit status is about recording."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conftest import Smeltr

VERDICTS = {"ok", "degraded", "failed"}


def checks(smeltr: Smeltr, status: int, env: dict[str, str] | None = None) -> dict[str, dict[str, Any]]:
    result = smeltr.run("doctor", "--json", env=env or {})
    assert result.returncode == status, result.stdout.decode() + result.stderr.decode()
    answer = json.loads(result.stdout)
    assert answer["can_record"] == (status == 0)
    return {check["name"]: check for check in answer["checks"]}


def test_everything_is_asked(smeltr: Smeltr) -> None:
    found = checks(smeltr, 0)
    assert {check["verdict"] for check in found.values()} <= VERDICTS
    expected = {"home", "disk space", "socket", "config.toml", "cut-off sessions", "stale rings", "vulkan"}
    expected |= {"test recording", "cuda", "smeltrd program", "smeltrd", "service", "clock", "pressure (PSI)"}
    expected |= {"cgroup v2", "kernel log", "core dumps", "ptrace scope", "rights", "probe vm"}
    assert expected <= set(found)
    assert found["test recording"]["verdict"] == "ok"
    assert found["smeltrd"]["verdict"] == "ok"
    # It leaves nothing behind.
    assert smeltr.session_directories() == []


def test_text_is_a_line_a_check_in_80_columns(smeltr: Smeltr) -> None:
    result = smeltr.run("doctor", env={"COLUMNS": "80"})
    assert result.returncode == 0
    lines = result.stdout.decode().splitlines()
    starts = [line for line in lines if not line.startswith(" ")]
    assert {line.split()[0] for line in starts} <= VERDICTS
    assert len(starts) > 15


def test_facts_are_those_of_the_system(smeltr: Smeltr) -> None:
    found = checks(smeltr, 0)
    assert Path("/proc/sys/kernel/core_pattern").read_text().strip() in found["core dumps"]["detail"]
    assert (found["pressure (PSI)"]["verdict"] == "ok") == Path("/proc/pressure/memory").exists()
    assert str(smeltr.home) in found["home"]["detail"]


def test_a_driver_that_is_not_there_is_a_failure(smeltr: Smeltr, tmp_path: Path) -> None:
    nothing = {
        "VK_DRIVER_FILES": str(tmp_path / "none.json"),
        "VK_ICD_FILENAMES": str(tmp_path / "none.json"),
    }
    found = checks(smeltr, 1, env=nothing)
    assert found["vulkan"]["verdict"] == "failed"
    assert "mesa-vulkan-drivers" in found["vulkan"]["fix"]


def test_a_disabled_hook_is_found_out(smeltr: Smeltr) -> None:
    found = checks(smeltr, 1, env={"SMELTR_HOOK_DISABLE": "1"})
    assert found["test recording"]["verdict"] == "failed"
    assert "SMELTR_HOOK_DISABLE" in found["test recording"]["fix"]


def test_a_home_that_cannot_be_used(smeltr: Smeltr, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = checks(smeltr, 1, env={"SMELTR_HOME": str(tmp_path / "file" / "home")})
    assert found["home"]["verdict"] == "failed"


def test_a_socket_path_too_long(smeltr: Smeltr, tmp_path: Path) -> None:
    result = smeltr.run("doctor", env={"SMELTR_SOCKET": str(tmp_path / ("x" * 120))})
    assert result.returncode == 1
    assert "path too long" in " ".join(result.stdout.decode().split())


def test_a_wrong_config_is_named(smeltr: Smeltr) -> None:
    smeltr.home.mkdir(mode=0o700)
    (smeltr.home / "config.toml").write_text("[retention]\nmax_total = 'a lot'\n")
    config = checks(smeltr, 0)["config.toml"]
    assert config["verdict"] == "degraded"
    assert "config.toml:2: retention.max_total" in config["detail"]
    (smeltr.home / "config.toml").write_text("[daemon]\nprobes_off = ['gpx', 'vm']\n")
    config = checks(smeltr, 0)["config.toml"]
    assert config["verdict"] == "degraded"
    assert "no probe 'gpx'" in config["detail"]
