#!/usr/bin/env bash
# The body of `make demo`: record the bundled program, then ask the session two questions.
# A SMELTR_HOME of its own unless the user has set one, so that nothing of theirs is touched.
set -euo pipefail
bin=$(cd "$1" && pwd)
export PATH="$bin:$PATH" SMELTR_HOME="${SMELTR_HOME:-$(dirname "$bin")/demo-home}"

run() { printf '\n$ %s\n' "$*"; "$@"; }

run smeltr record --name demo -- smeltr-demo --check
run smeltr sessions show demo
run smeltr breakdown demo --top 40
printf '\nThe session is kept under %s. Next: smeltr breakdown --help\n' "$SMELTR_HOME"
