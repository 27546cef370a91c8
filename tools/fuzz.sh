#!/usr/bin/env bash
# Runs every fuzz target for so many seconds each; new inputs stay in build/fuzz/work.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target fuzz_targets -j "$(nproc)"
for program in build/fuzz/fuzz/*_fuzz; do
  name=$(basename "$program")
  mkdir -p "build/fuzz/work/$name"
  echo "== $name, $seconds s"
  "$program" -max_total_time="$seconds" -print_final_stats=1 -verbosity=0 \
    "build/fuzz/work/$name" "tests/fuzz/corpus/$name"
done
