#!/usr/bin/env bash
# Runs the benchmarks behind docs/benchmarks.md, one after the other, on an otherwise idle machine.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release -DSMELTR_TESTS=ON -DSMELTR_BENCH=ON >/dev/null
cmake --build --preset release -j "$(nproc)"
for program in build/release/bench/*; do
  [ -x "$program" ] && [ -f "$program" ] || continue
  echo "== $(basename "$program")"
  "$program"
done
echo "== vulkan_demo.py"
bench/vulkan_demo.py
