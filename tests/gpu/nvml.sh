#!/usr/bin/env bash
# The gpu probe on a machine with an NVIDIA GPU: its figures beside nvidia-smi's, at rest and under load.
# Usage: tests/gpu/nvml.sh BIN_DIR     (has probe_dump, or lies beside workload/, which has it)
# SMELTR_GPU_LOAD, a command line, keeps a GPU busy meanwhile and is then looked at as a recorded process.
set -uo pipefail
bin=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
dump="$bin/probe_dump"
[ -x "$dump" ] || dump="$bin/../workload/probe_dump"
work=$(mktemp -d)
trap '[ -n "${load:-}" ] && kill "$load" 2>/dev/null; rm -rf "$work"' EXIT
record=()
if [ -n "${SMELTR_GPU_LOAD:-}" ]; then
  setsid bash -c "exec $SMELTR_GPU_LOAD" >/dev/null 2>&1 &
  load=$!
  sleep 10
  record=(--record "load:$load")
fi

query=index,name,pci.bus_id,utilization.gpu,utilization.memory,memory.used,memory.total,power.draw,clocks.sm,clocks.mem,temperature.gpu,ecc.errors.uncorrected.volatile.total
for moment in before after; do
  [ "$moment" = after ] && "$dump" --seconds 5 --only gpu --only thermal --only footprint "${record[@]}" >"$work/events"
  nvidia-smi --query-gpu="$query" --format=csv,noheader,nounits >"$work/$moment" || exit 1
done
nvidia-smi --query-compute-apps=pid,gpu_bus_id,used_memory --format=csv,noheader,nounits >"$work/apps"
python3 "$here/check_nvml.py" "$work" "${load:-0}"
