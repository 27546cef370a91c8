"""The demo alone, unrecorded: right results, the same ones each time, and clean use of Vulkan."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

DEMO = Path(os.environ["SMELTR_BIN_DIR"]) / "smeltr-demo"
VALIDATION_MANIFESTS = [
    Path(folder) / "vulkan/explicit_layer.d/VkLayer_khronos_validation.json"
    for folder in ("/usr/share", "/usr/local/share", "/etc")
]

# What demo/transformer.cc records: the embedding, then 17 dispatches a layer, and 4 to choose a token.
PREFILL_DISPATCHES = 1 + 12 * 17
DECODE_DISPATCHES = PREFILL_DISPATCHES + 4


def demo(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(DEMO), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def values(output: str, key: str) -> list[str]:
    """Of each line `[thread N: ]key: VALUE`, in order."""
    return re.findall(rf"^(?:thread \d+: )?{key}: (.*)$", output, flags=re.MULTILINE)


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("sampling", ["greedy", "seeded"])
def test_agrees_with_the_reference(threads: str, sampling: str) -> None:
    result = demo("--check", "--steps", "24", "--threads", threads, "--sampling", sampling)
    assert result.returncode == 0, result.stderr
    checks = values(result.stdout, "check")
    assert len(checks) == int(threads)
    assert all(check.startswith("ok, ") for check in checks)


def test_two_runs_print_the_same() -> None:
    runs = [demo("--steps", "24", "--threads", "2") for _ in range(2)]
    assert runs[0].returncode == 0
    assert runs[0].stdout == runs[1].stdout
    assert re.fullmatch(r"[0-9a-f]{16}", values(runs[0].stdout, "checksum")[-1])


def test_seed_and_prompt_matter_and_threads_are_independent() -> None:
    one, two = (demo("--steps", "8", "--seed", seed) for seed in ("1", "2"))
    both = demo("--steps", "8", "--seed", "1", "--threads", "2")
    longer = demo("--steps", "8", "--seed", "1", "--prompt-length", "20")
    tokens = [values(run.stdout, "tokens") for run in (one, two, both, longer)]
    assert all(len(ids.split()) == 8 for run in tokens for ids in run)
    assert tokens[0] != tokens[1]
    assert tokens[0] != tokens[3]
    assert tokens[2] == tokens[0] + tokens[1]


@pytest.mark.parametrize("steps,prompt,threads", [(1, 1, 1), (7, 1, 1), (3, 9, 2)])
def test_counts_what_it_submits(steps: int, prompt: int, threads: int) -> None:
    result = demo("--steps", str(steps), "--prompt-length", str(prompt), "--threads", str(threads))
    dispatches = (prompt - 1) * PREFILL_DISPATCHES + steps * DECODE_DISPATCHES
    command_buffers = 1 + (prompt - 1) + steps  # The upload of the weights is the first.
    assert values(result.stdout, "dispatches") == [str(dispatches)] * threads + [str(dispatches * threads)]
    assert values(result.stdout, "command buffers") == [str(command_buffers)] * threads + [
        str(command_buffers * threads)
    ]


def test_exit_status_on_request() -> None:
    assert demo("--steps", "1", "--exit-code", "3").returncode == 3
    assert demo("--steps", "4", "--crash-after", "2").returncode == -signal.SIGSEGV


def test_decodes_until_killed() -> None:
    command = [str(DEMO), "--steps", "2", "--loop-forever"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("smeltr-demo: ")
            assert process.stdout.readline() == "decoding until killed\n"
            assert process.poll() is None
        finally:
            process.kill()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    "arguments",
    [["--bogus"], ["--steps", "0"], ["--steps", "x"], ["--threads", "3"], ["--sampling", "often"], ["extra"],
     ["--steps", "4090"], ["--steps", "2", "--crash-after", "3"]],
)  # fmt: skip
def test_wrong_usage_is_one_line(arguments: list[str]) -> None:
    result = demo(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("smeltr-demo: ") and result.stderr.count("\n") == 1


def test_no_driver_says_what_to_install() -> None:
    result = demo(VK_ICD_FILENAMES="/nonexistent.json", VK_DRIVER_FILES="/nonexistent.json")
    assert result.returncode == 1
    assert "mesa-vulkan-drivers" in result.stderr and result.stderr.count("\n") == 1


def test_lists_and_selects_devices() -> None:
    listed = demo("--list-devices")
    assert listed.returncode == 0
    devices = re.findall(r"^(\d+): (.+) \((?:discrete|integrated|virtual|cpu|other), Vulkan \d+\.\d+\)$",
                         listed.stdout, flags=re.MULTILINE)  # fmt: skip
    assert devices and len(devices) == listed.stdout.count("\n")
    index, name = devices[0]
    assert demo("--device", index, "--steps", "1").stdout.splitlines()[0].endswith(f" on {name}")
    beyond = demo("--device", str(len(devices)))
    assert beyond.returncode == 1 and "--list-devices" in beyond.stderr


@pytest.mark.skipif(
    not any(path.exists() for path in VALIDATION_MANIFESTS),
    reason="VK_LAYER_KHRONOS_validation is not installed",
)
@pytest.mark.parametrize("extra", ["", "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT"])
def test_validation_has_nothing_to_say(extra: str) -> None:
    arguments = ("--steps", "3", "--threads", "2", "--check")
    bare = demo(*arguments)
    validated = demo(*arguments, VK_INSTANCE_LAYERS="VK_LAYER_KHRONOS_validation", VK_LAYER_ENABLES=extra)
    assert (validated.returncode, validated.stdout, validated.stderr) == (0, bare.stdout, "")
