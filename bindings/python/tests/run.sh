#!/usr/bin/env bash
# Builds the wheel, installs it into a fresh virtual environment and runs the tests there.
#   bindings/python/tests/run.sh BIN LIB     the folders of mlpack, and of libmlrt-gpu.so.1 and libmlio.so.1
# `skipped: REASON` where PyPI cannot be reached.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "${1:?folder of mlpack}" && pwd) lib=$(cd "${2:?folder of libmlrt-gpu.so.1}" && pwd)
work=$(mktemp -d -t mlrt-wheel-XXXXXX)
trap 'rm -rf "$work"' EXIT

skip() {
  echo "skipped: $1"
  echo "[doctest] test cases: 0 | 0 passed | 0 failed | 0 skipped"
  exit 0
}

# Objects of equal sources are taken from ccache, as compiler_cache.cmake does for the rest: nanobind is most of what a wheel costs.
if command -v ccache >/dev/null; then
  CCACHE_BASEDIR=$(cd "$here/../../.." && pwd)
  export CCACHE_BASEDIR CCACHE_NOHASHDIR=1 CMAKE_CXX_COMPILER_LAUNCHER=ccache
fi
"$here/../build_wheel.sh" --libraries "$lib" --out "$work" >"$work/wheel.txt"
case $? in
  0) ;;
  77) skip "the Python package ($(sed -n 's/^skipped: //p' "$work/wheel.txt"))" ;;
  *) echo "FAIL  the wheel is not built"; exit 1 ;;
esac
"${PYTHON:-python3}" -m venv "$work/venv"
pip=("$work/venv/bin/pip" --quiet --disable-pip-version-check install)
"${pip[@]}" numpy >&2 || skip "the Python package (numpy cannot be installed)"
"${pip[@]}" ml_dtypes mypy >&2 || echo "without ml_dtypes and mypy"
"${pip[@]}" --no-index --no-deps "$work"/mlrt-*.whl || { echo "FAIL  the wheel is not installed"; exit 1; }
cd "$work" && MLRT_BIN=$bin "$work/venv/bin/python" "$here/all.py"
