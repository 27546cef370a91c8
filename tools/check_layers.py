#!/usr/bin/env python3
"""Fails when a folder of src/ includes one it may not. The table is that of docs/architecture.md."""

from __future__ import annotations

import re
import sys
from pathlib import Path

# Folder -> folders it may include, itself always. Longest folder name wins for a file.
ALLOWED: dict[str, set[str]] = {
    "base": set(),
    "util": {"base"},
    "event": {"base"},
    "ring": {"base", "event"},
    "hook": {"base", "event", "ring"},
    "crash": {"base", "util"},
    "probe": {"base", "util", "event", "crash"},
    "session": {"base", "util", "event"},
    "ipc": {"base", "util", "event"},
    "launch": {"base", "util", "ipc"},
    "daemon": {"base", "util", "event", "ring", "crash", "probe", "session", "ipc"},
    "analysis": {"base", "util", "event", "session", "crash"},
    "faces": {"base", "util", "event", "session", "analysis", "ipc"},
    "faces/export": {"base", "util", "event", "session", "analysis"},
    "faces/tui": {"base", "util", "event", "session", "analysis", "ipc"},
    "faces/mcp": {"base", "util", "event", "session", "analysis", "ipc", "faces", "faces/export"},
    "faces/cli": {
        "base",
        "util",
        "event",
        "session",
        "analysis",
        "ipc",
        "launch",
        "faces",
        "faces/export",
        "faces/doctor",
    },
    # Alone among the faces it asks the probes themselves.
    "faces/doctor": {"base", "util", "event", "session", "analysis", "ipc", "launch", "probe", "faces"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def folder_of(path: str) -> str | None:
    """The longest folder of the table that `path`, relative to src/, lies in."""
    parts = path.split("/")[:-1]
    for length in range(len(parts), 0, -1):
        name = "/".join(parts[:length])
        if name in ALLOWED:
            return name
    return None


def violations(source_root: Path) -> list[str]:
    found: list[str] = []
    for file in sorted(source_root.rglob("*")):
        if file.suffix not in {".h", ".cc", ".def"}:
            continue
        relative = file.relative_to(source_root).as_posix()
        here = folder_of(relative)
        if here is None:
            found.append(f"src/{relative}: in no folder of the table")
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match or match[1].startswith(("smeltr/", "vulkan/")):
                continue
            there = folder_of(match[1])
            if there is None or (there != here and there not in ALLOWED[here]):
                found.append(f'src/{relative}:{number}: {here} may not include "{match[1]}"')
    return found


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    found = violations(root / "src")
    print("\n".join(found) if found else "layers: every include points the right way")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
