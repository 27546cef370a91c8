#!/usr/bin/env bash
# Runs every fuzz target for so many seconds each; new inputs stay in build/asan/fuzz-work.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
cmake --preset asan >/dev/null
cmake --build --preset asan --target fuzz_targets -j "$(nproc)"
for program in build/asan/fuzz/*_fuzz; do
  name=$(basename "$program")
  mkdir -p "build/asan/fuzz-work/$name"
  echo "== $name, $seconds s"
  "$program" -max_total_time="$seconds" -print_final_stats=1 -verbosity=0 \
    "build/asan/fuzz-work/$name" "tests/fuzz/corpus/$name"
done
