#!/usr/bin/env bash
# Builds the wheel mlrt-packager into dist/, and the programs in it before. What the build needs from PyPI goes into an environment of its own below build/.
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
. "$root/bindings/wheel.sh"
venv=$root/build/python/packager
environment "$venv" scikit-build-core
[ -e "$build/build.ninja" ] || (cd "$root" && cmake --preset release -B "$build" >&2)
targets=(mlpack_whole) programs=(bin/whole/mlpack) oci= alone=
has_target() { [ "$(ninja -C "$build" -n -t query "$1" 2>/dev/null)" ]; }
if has_target mlpack-oci; then  # not without libcurl
  targets+=(mlpack-oci) programs+=(bin/mlpack-oci) oci=$build/bin/mlpack-oci
else
  echo "the wheel has no mlpack-oci: libcurl is missing (Debian: apt-get install libcurl4-openssl-dev)" >&2
fi
if has_target mlrun_alone; then  # not without the archives of its libraries
  targets+=(mlrun_alone) programs+=(bin/mlrun-alone) alone=$build/bin/mlrun-alone
else
  echo "the wheel has no mlrun-alone: mlpack executable will need --runner" >&2
fi
if ! cmake --build "$build" --target "${targets[@]}" >"$build/mlpack_whole.log" 2>&1; then
  tail -n 5 "$build/mlpack_whole.log" >&2
  ! grep -q Polly "$build/mlpack_whole.log" || echo "LLVM's archives need libPolly.a: apt-get install libpolly-19-dev" >&2
  exit 1
fi
licences "$build" "$venv/licences.txt" mlrt-packager "${programs[@]}"
wheel "$venv" "$root/bindings/packager" mlrt_packager "$out" -C "cmake.define.MLRT_MLPACK=$build/bin/whole/mlpack" \
  -C "cmake.define.MLRT_MLPACK_OCI=$oci" -C "cmake.define.MLRT_ALONE=$alone" -C "cmake.define.MLRT_LICENCES=$venv/licences.txt"
