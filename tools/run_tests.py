#!/usr/bin/env python3
"""Builds and runs every suite, and ends with one line of totals.

  release   unit suites, golden cases, end-to-end and hook suites against the shipped binaries
  asan      unit suites but the command line's under AddressSanitizer and UndefinedBehaviorSanitizer
  tsan      the unit suites of the ring, the hook core and the daemon under ThreadSanitizer
  fuzz      every fuzz target over its corpus and a bounded number of new inputs

A suite that cannot be built or that crashes counts as one failed test, so the totals never look better
than what ran.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TSAN_PROGRAMS = ["tests_ring", "tests_hook_core", "tests_daemon"]
# Not under AddressSanitizer: the command line's own files, which take a third of the build, and whose input the
# libraries below them parse.
ASAN_LEFT_OUT = {"tests_faces_cli", "tests_golden"}
# What a dying process does in its signal handler is unsafe by design, and ThreadSanitizer says so.
TSAN_FILTER = "-CrashGuardTest.*"
FUZZ_RUNS = 20_000


@dataclass
class Outcome:
    """What one test program reported."""

    name: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    log: str = ""
    failures: list[str] = field(default_factory=list)


def run(command: list[str], env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        check=False,
    )


def build(preset: str, jobs: int, targets: list[str], extra: list[str]) -> Outcome | None:
    """None when it built; a failed outcome with the log otherwise."""
    steps = [
        ["cmake", "--preset", preset, *extra],
        [
            "cmake",
            "--build",
            "--preset",
            preset,
            "-j",
            str(jobs),
            *(["--target", *targets] if targets else []),
        ],
    ]
    for step in steps:
        result = run(step)
        if result.returncode != 0:
            return Outcome(f"build {preset}", failed=1, log=result.stdout, failures=["build"])
    return None


def read_junit(name: str, report: Path, result: subprocess.CompletedProcess[str]) -> Outcome:
    outcome = Outcome(name, log=result.stdout)
    if report.exists():
        try:
            cases = list(ElementTree.parse(report).getroot().iter("testcase"))
        except ElementTree.ParseError:
            cases = []
        for case in cases:
            label = f"{case.get('classname')}.{case.get('name')}"
            if case.find("failure") is not None or case.find("error") is not None:
                outcome.failed += 1
                outcome.failures.append(label)
            elif case.find("skipped") is not None or case.get("result") == "skipped":
                outcome.skipped += 1
            else:
                outcome.passed += 1
    if result.returncode != 0 and outcome.failed == 0:
        outcome.failed += 1
        outcome.failures.append(f"exit status {result.returncode} without a failing test")
    return outcome


def run_gtest(name: str, program: Path, env: dict[str, str]) -> Outcome:
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        result = run([str(program), f"--gtest_output=xml:{report}", "--gtest_brief=1"], env)
        return read_junit(name, report, result)


def run_pytest(jobs: int, env: dict[str, str]) -> Outcome:
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "tests",
            "-q",
            "-n",
            str(jobs),
            "-rs",
            f"--junitxml={report}",
        ]
        return read_junit("pytest", report, run(command, env))


def run_fuzz(program: Path) -> Outcome:
    corpus = ROOT / "tests/fuzz/corpus" / program.name
    with tempfile.TemporaryDirectory() as scratch:
        command = [str(program), f"-runs={FUZZ_RUNS}", "-seed=1", "-max_total_time=60", scratch]
        if corpus.is_dir():
            command.append(str(corpus))
        result = run(command)
    failed = result.returncode != 0
    return Outcome(f"fuzz {program.name}", passed=not failed, failed=failed, log=result.stdout)


def programs(preset: str) -> list[Path]:
    return sorted((ROOT / "build" / preset / "tests").glob("tests_*"))


def asan_programs() -> list[str]:
    """Those that the release suite has, by the folders of the unit tests."""
    return sorted({p.name for p in programs("release")} - ASAN_LEFT_OUT)


def suite_release(jobs: int) -> list[Outcome]:
    if failure := build("release", jobs, [], ["-DSMELTR_TESTS=ON", "-DSMELTR_BENCH=ON"]):
        return [failure]
    env = dict(os.environ, SMELTR_BIN_DIR=str(ROOT / "build/release/bin"))
    with ThreadPoolExecutor(jobs) as pool:
        outcomes = list(pool.map(lambda p: run_gtest(f"release {p.name}", p, env), programs("release")))
    return [*outcomes, run_pytest(jobs, env)]


def suite_sanitizer(preset: str, jobs: int, targets: list[str]) -> list[Outcome]:
    if failure := build(preset, jobs, targets, []):
        return [failure]
    env = dict(os.environ, SMELTR_BIN_DIR=str(ROOT / "build/release/bin"))
    if preset == "tsan":
        env.setdefault("TSAN_OPTIONS", "halt_on_error=1")
        env["GTEST_FILTER"] = TSAN_FILTER
    chosen = [p for p in programs(preset) if p.name in targets]
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda p: run_gtest(f"{preset} {p.name}", p, env), chosen))


def suite_fuzz(jobs: int) -> list[Outcome]:
    if failure := build("fuzz", jobs, ["fuzz_targets"], []):
        return [failure]
    targets = sorted((ROOT / "build/fuzz/fuzz").glob("*_fuzz"))
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(run_fuzz, targets))


def report(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        print(
            f"{outcome.name:34} {outcome.passed:5} passed {outcome.failed:4} failed {outcome.skipped:4} skipped",
            flush=True,
        )
        if outcome.failed:
            print(outcome.log[-12_000:])
            print(f"{outcome.name}: failed: " + ", ".join(outcome.failures))
        elif outcome.skipped:
            print("\n".join(f"    {line}" for line in outcome.log.splitlines() if "SKIPPED" in line))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--suite", action="append", choices=["release", "asan", "tsan", "fuzz"])
    arguments = parser.parse_args()
    chosen = arguments.suite or ["release", "asan", "tsan", "fuzz"]

    suites = {
        "release": lambda: suite_release(arguments.jobs),
        "asan": lambda: suite_sanitizer("asan", arguments.jobs, asan_programs()),
        "tsan": lambda: suite_sanitizer("tsan", arguments.jobs, TSAN_PROGRAMS),
        "fuzz": lambda: suite_fuzz(arguments.jobs),
    }
    total = Outcome("total")
    for name in chosen:
        print(f"== {name}", flush=True)
        outcomes = suites[name]()
        report(outcomes)
        for outcome in outcomes:
            total.passed += outcome.passed
            total.failed += outcome.failed
            total.skipped += outcome.skipped
    if total.skipped:
        print(f"({total.skipped} skipped, with the reason above)")
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed or total.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
