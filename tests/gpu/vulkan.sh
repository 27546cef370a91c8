#!/usr/bin/env bash
# The main job on a real GPU: counts, attribution, sums, exit by signal; then what recording costs.
# Usage: tests/gpu/vulkan.sh BIN_DIR   (smeltr, smeltrd and smeltr-demo; a Vulkan loader and driver installed)
set -uo pipefail
bin=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")/../.." && pwd)
export SMELTR_HOME; SMELTR_HOME=$(mktemp -d)
export PATH="$bin:$PATH"
failures=0
check() { # what, command...
  local what=$1; shift
  if "$@"; then echo "ok    $what"; else echo "FAIL  $what"; failures=$((failures + 1)); fi
}

smeltr-demo --list-devices
for run in 1 2 3; do
  smeltr record --name "run$run" -- smeltr-demo --steps 64 --threads 2 --check >"$SMELTR_HOME/out"
  check "run $run: agrees with the reference" test $? -eq 0
  smeltr breakdown "run$run" --json >"$SMELTR_HOME/breakdown.json"
  check "run $run: counts, sums and attribution" python3 "$here/tests/gpu/check_breakdown.py" \
    "$SMELTR_HOME/breakdown.json" "$SMELTR_HOME/out"
done
smeltr record --quiet --name crash -- smeltr-demo --crash-after 5 >/dev/null
check "a crash is the program's" test $? -eq 139
SMELTR_HOOK_DISPATCH_BOUNDARY=1 smeltr record --quiet --name exact -- smeltr-demo --steps 64 >/dev/null

echo; echo "== sessions show run3"; smeltr sessions show run3
echo; echo "== sessions show crash"; smeltr sessions show crash
echo; echo "== breakdown run3"; smeltr breakdown run3 --top 30
echo; echo "== breakdown exact, flat"; smeltr breakdown exact --ops-flat
echo; echo "== overhead"; python3 "$here/bench/vulkan_demo.py" --bin "$bin" --rounds 15 --steps 1024
echo; echo "$failures failed"
exit $((failures > 0))
