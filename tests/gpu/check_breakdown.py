#!/usr/bin/env python3
"""Fails unless a breakdown of the demo counts its dispatches, adds up and is attributed exactly."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any


def walk(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [node] + [found for child in node["children"] for found in walk(child)]


def main() -> int:
    answer = json.loads(Path(sys.argv[1]).read_text())
    (expected,) = re.findall(r"^dispatches: (\d+)$", Path(sys.argv[2]).read_text(), flags=re.MULTILINE)
    nodes = walk(answer["root"])
    ops = [op for node in nodes for op in node["ops"]]
    facts = {
        "dispatches": sum(op["count"] for op in ops if op["name"].startswith("K_")) == int(expected),
        "ops add up": sum(op["gpu_ns"] for op in ops) == answer["gpu_ns"],
        "tree adds up": sum(node["gpu_ns_self"] for node in nodes) == answer["gpu_ns"],
        "exact": answer["exact_pct"] >= 95,
        "nothing dropped": answer["dropped_events"] == 0,
        "within wall time": answer["gpu_ns"] <= 2 * answer["wall_ns"],  # Two queues.
    }
    for name, holds in facts.items():
        if not holds:
            print(f"      not so: {name}")
    return 0 if all(facts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
