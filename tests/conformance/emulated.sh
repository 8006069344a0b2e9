#!/usr/bin/env bash
# The node tests with code for another processor, under qemu: compiled here, run by a cross-compiled run_container.
#   emulated.sh ONNX_NODE_TESTS aarch64|aarch64-sve256|riscv64|riscv64-v128|loongarch64|loongarch64-lsx [ARGUMENT...]
# LoongArch: against musl; -lsx wants qemu 9 or later (tests/emulated/README.md).
# aarch64-sve256, -sve512, riscv64-v128, -v256, ...: code with vectors, on registers of so many bits. aarch64-sve256-on2048: on longer ones than it needs.
set -euo pipefail
usage="usage: emulated.sh ONNX_NODE_TESTS aarch64|aarch64-sve256|riscv64|riscv64-v128|loongarch64|loongarch64-lsx [ARGUMENT...]"
runner=${1:?$usage}
arch=${2:?$usage}
shift 2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
processor= system=
case $arch in
  aarch64) target=armv8-a ;;
  aarch64-sve[0-9]*)
    target=armv8-a+${arch#aarch64-}
    target=${target%-on*}
    bits=${arch##*[a-z]}
    processor="-cpu max,sve-default-vector-length=$((bits / 8))"
    arch=aarch64
    ;;
  riscv64) target=rv64gc ;;
  riscv64-v[0-9]*) target=rv64gcv; processor="-cpu rv64,v=true,vext_spec=v1.0,vlen=${arch#riscv64-v}"; arch=riscv64 ;;
  loongarch64 | loongarch64-lsx) target=$arch; arch=loongarch64; system=loongarch64-musl ;;
  *) echo "$usage" >&2; exit 2 ;;
esac
emulator=$(command -v "qemu-$arch-static" || command -v "qemu-$arch") || { echo "skipped: no emulator for $arch"; exit 77; }
if [ "$target" = rv64gcv ] && "$emulator" --version | grep -q 'version [1-7][.]'; then
  echo "skipped: $emulator is older than 8, it ends itself at vector code (its issue 1441)"
  exit 77
fi
if [ "$target" = loongarch64-lsx ] && "$emulator" --version | grep -q 'version [1-8][.]'; then
  echo "skipped: $emulator is older than 9 and has no LSX"
  exit 77
fi
program=$here/../../build/emulated/run_container.$arch
"$here/../emulated/build_mlrun.sh" "${system:-$arch}" "$program" run_container
exec "$runner" --emulator "$arch=$emulator $processor $program" --path "$target" "$@"
