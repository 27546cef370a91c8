#!/usr/bin/env bash
# Installs what smeltr needs from the system's package manager; does nothing when all is there.
# Usage: tools/install_packages.sh build|test
set -euo pipefail

build=(g++ cmake ninja-build python3 pkg-config glslang-tools
       libvulkan-dev mesa-vulkan-drivers
       libcli11-dev libfmt-dev nlohmann-json3-dev libasio-dev libtomlplusplus-dev libzstd-dev libxxhash-dev)
test=(libgtest-dev libbenchmark-dev python3-pytest python3-pytest-xdist python3-venv
      vulkan-validationlayers vulkan-tools ffmpeg binutils
      clang-19 clang-tidy-19 clang-tools-19 clang-format-19 libclang-rt-19-dev)

case "${1:-}" in
  build) wanted=("${build[@]}") ;;
  test) wanted=("${build[@]}" "${test[@]}") ;;
  *) echo "usage: $0 build|test" >&2; exit 2 ;;
esac

if [ "$(uname -s)" != Linux ] || ! command -v apt-get >/dev/null; then
  echo "smeltr: packages are installed by themselves on Debian and Ubuntu only." >&2
  echo "Elsewhere install what corresponds to these, then run 'make' again with SMELTR_SKIP_PACKAGES=1:" >&2
  printf '  %s\n' "${wanted[@]}" >&2
  [ -n "${SMELTR_SKIP_PACKAGES:-}" ] && exit 0
  exit 1
fi
[ -n "${SMELTR_SKIP_PACKAGES:-}" ] && exit 0

missing=()
for package in "${wanted[@]}"; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "smeltr: need root or sudo to install: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "smeltr: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
