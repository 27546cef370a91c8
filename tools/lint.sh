#!/usr/bin/env bash
# Everything about the sources that a machine can judge without running them.
set -euo pipefail
cd "$(dirname "$0")/.."
python=/usr/bin/python3

tools/format.sh --check
$python tools/check_layers.py
$python tools/check_sizes.py
$python tools/gen_events.py --check

[ -x build/lint-venv/bin/ruff ] || {
  $python -m venv build/lint-venv
  build/lint-venv/bin/pip install -q ruff
}
build/lint-venv/bin/ruff check .
build/lint-venv/bin/ruff format --check .

# In a folder of its own, without precompiled headers: every file must include what it uses.
cmake --preset release -B build/lint -DSMELTR_PRECOMPILE=OFF -DSMELTR_TESTS=OFF -DSMELTR_BENCH=OFF >/dev/null
# clang-tidy is Clang, whatever compiles: the warnings that are g++'s, and Clang's of libstdc++, do not count.
# Generated headers must exist before clang-tidy reads what includes them.
cmake --build build/lint -j "$(nproc)" --target smeltr-demo >/dev/null
git ls-files 'src/*.cc' 'demo/*.cc' | xargs run-clang-tidy-19 -quiet -p build/lint -j "$(nproc)" \
  -extra-arg=-Wno-unknown-warning-option -extra-arg=-Wno-deprecated-declarations 2>/dev/null >build/tidy.log ||
  { grep -E 'warning:|error:' build/tidy.log | sort -u; exit 1; }
echo "lint: clean"
