#!/usr/bin/env bash
# Reformats all C++ in place; with --check only says what would change and exits 1.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(-i)
[ "${1:-}" = --check ] && mode=(--dry-run -Werror)
git ls-files --cached --others --exclude-standard '*.h' '*.cc' | xargs clang-format-19 "${mode[@]}"
