#!/usr/bin/env python3
"""Fails on source files over 500 lines and on two source files of one name: one concept, one file."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

LIMIT = 500
# One table is one concept, however many rows it has.
TABLES = {"src/event/kinds.def"}
SUFFIXES = {".h", ".cc", ".def", ".py", ".comp", ".sh"}
# A name may recur where its folder is the concept.
REPEATABLE = {"main.cc", "__init__.py", "conftest.py"}


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    problems: list[str] = []
    by_name: dict[str, list[str]] = defaultdict(list)
    for name in listed:
        path = root / name
        if path.suffix not in SUFFIXES or not path.is_file():
            continue
        lines = path.read_text(errors="replace").count("\n")
        if lines > LIMIT and name not in TABLES:
            problems.append(f"{name}: {lines} lines, {LIMIT} is the limit: split it by concept")
        if name.startswith("src/") and path.name not in REPEATABLE:
            by_name[path.name].append(name)
    for files in by_name.values():
        # session/writer and ring/writer are the same role in two folders: the folder names the concept.
        if len(files) > 1 and len({Path(f).parent.name for f in files}) < len(files):
            problems.append("same name twice: " + " ".join(files))
    print("\n".join(problems) if problems else "sizes: every file has one job's worth of lines")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
