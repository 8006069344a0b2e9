#!/usr/bin/env bash
# Builds the wheel mlrt into dist/, and the libraries in it before. What the build needs from PyPI goes into an environment
# of its own below build/.
#   bindings/python/build_wheel.sh [--libraries DIR] [--out DIR]
#     --libraries   take libmlrt-gpu.so.1 and libmlio.so.1 from there; default: build/release/lib, which is built
#     --out         default: dist
#   PYTHON names the interpreter, python3 if it is not set. From 3.12 on the wheel is one for all later versions (abi3).
# The wheel is tagged manylinux and brings OpenSSL and zstd, if auditwheel and patchelf can be had; else it is tagged linux, for machines that have
# both, and a line on stderr says why.
# Ends with 77, and a line "skipped: REASON", where nanobind and scikit-build-core cannot be had.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
libraries= out=$root/dist
while [ $# -gt 0 ]; do
  case $1 in
    --libraries) libraries=$(cd "${2:?folder}" && pwd); shift 2 ;;
    --out) mkdir -p "${2:?folder}"; out=$(cd "$2" && pwd); shift 2 ;;
    *) echo "usage: build_wheel.sh [--libraries DIR] [--out DIR]" >&2; exit 2 ;;
  esac
done
. "$root/bindings/wheel.sh"
version=$("${PYTHON:-python3}" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
venv=$root/build/python/$version
environment "$venv" nanobind scikit-build-core
if [ -z "$libraries" ]; then
  (cd "$root" && cmake --preset release >/dev/null && cmake --build --preset release --target mlrt_gpu_shared mlio_shared >&2)
  libraries=$root/build/release/lib
fi
# nanobind and the hash table that it brings are compiled into the module.
nanobind=$(cd "$venv"/lib/python3*/site-packages && pwd)
licences "$(dirname "$libraries")" "$venv/licences.txt" mlrt --also nanobind="$(echo "$nanobind"/nanobind-*.dist-info/licenses/LICENSE)" \
  --also robin_map="$nanobind/nanobind/ext/robin_map/include/tsl/robin_map.h" lib/libmlrt-gpu.so.1.0.0 lib/libmlio.so.1.0.0
wheel "$venv" "$root/bindings/python" mlrt "$out" -C "cmake.define.MLRT_LIBRARIES=$libraries" -C "cmake.define.MLRT_LICENCES=$venv/licences.txt" \
  -C "build-dir=$root/build/python/build-$version"
