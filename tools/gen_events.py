#!/usr/bin/env python3
"""Writes docs/events.md from src/event/kinds.def and types.h; with --check fails when it is out of date."""

from __future__ import annotations

import re
import sys
from pathlib import Path

KIND = re.compile(r"^KIND\((\d+), (\w+), k(\w+), k(\w+)\)")
ELEMENT = re.compile(r"^ELEMENT\((\w+)\)$")
FIELD = re.compile(r"^\s+(FIELD|OPTIONAL)\(([\w<>:]+), (\w+)\)\s*(?://\s*(.*))?$")
ENUM = re.compile(r"^SMELTR_ENUM_NAMES\((\w+),([^)]*)\);", re.MULTILINE)
INTRO = """# Events

Made from `src/event/kinds.def` and `types.h` by `tools/gen_events.py`; do not edit. Times are ns on CLOCK_MONOTONIC
unless a name says otherwise. Fields marked *optional* are left out of JSON when zero or empty. A kind marked *per
API* carries its GPU interface in front of its name: `VulkanCbCommitted`, `CudaCbCommitted`, `MetalCbCommitted`.
Every event also has `ts_mono_ns`, `seq`, `pid`, `tid` and `source`. Types that end in `Id` are 64-bit numbers;
those of the table at the end are numbers of a byte, which JSON shows by name. JSON shows a list of `Attribute` as
one object, and a double that is no number as null.
"""
ENUMS = """
## Names of numbers

A number beyond those of its table is of a newer writer: `unknown`.

"""


def render(definition: str) -> str:
    out = [INTRO]
    comment: list[str] = []
    for line in definition.splitlines():
        if match := KIND.match(line):
            number, name, source, naming = match.groups()
            per_api = ", per API" if naming == "PerApi" else ""
            out.append(f"\n## {name} ({number}, source {source}{per_api})\n")
        elif (match := ELEMENT.match(line)) and match[1] != "name":
            out.append(f"\n## {match[1]} (element of lists)\n")
        elif match := FIELD.match(line):
            presence, field_type, name, note = match.groups()
            optional = ", optional" if presence == "OPTIONAL" else ""
            out.append(f"- `{name}` ({field_type}{optional})" + (f": {note}" if note else ""))
            continue
        elif line.startswith("//") and not line.startswith("// ---"):
            comment.append(line[2:].strip())
            continue
        else:
            comment.clear()
            continue
        if comment:
            out.append(" ".join(comment) + "\n")
            comment.clear()
    return "\n".join(out) + "\n"


def render_enums(types: str) -> str:
    rows = []
    for name, names in ENUM.findall(types):
        values = [f"{number} {text}".rstrip() for number, text in enumerate(re.findall(r'"(\w*)"', names))]
        rows.append(f"- `{name}`: {', '.join(values)}")
    return ENUMS + "\n".join(rows) + "\n"


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    definition = (root / "src/event/kinds.def").read_text()
    page = root / "docs/events.md"
    # What stands before the first element is about the file, not about a kind.
    text = render(definition[definition.index("#ifndef SMELTR_SKIP_ELEMENTS") :])
    text += render_enums((root / "src/event/types.h").read_text())
    if "--check" in sys.argv[1:]:
        if not page.exists() or page.read_text() != text:
            print("docs/events.md is out of date: run tools/gen_events.py")
            return 1
        return 0
    page.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
