#!/usr/bin/env bash
# Builds the tools, packs the digits example for every CPU target, and runs the one file here and on emulated machines.
set -euo pipefail
cd "$(dirname "$0")"
bin=build/release/bin
work=build/demo
example=examples/digits

say() { printf '\n== %s\n' "$*"; }
show() { printf '$ %s\n' "$*"; "$@"; }

say "Install and build"
./setup.sh
cmake --preset release >/dev/null
cmake --build --preset release --target mlpack mlrun | tail -n 1
mkdir -p "$work"

say "One file for every CPU target and the portable form"
show $bin/mlpack build $example/digits.onnx --pipeline $example/pipeline.json -o $work/digits.mlc --target all
show $bin/mlpack size $work/digits.mlc

say "Verified, explained, tested"
show $bin/mlpack verify $work/digits.mlc
show $bin/mlrun explain $work/digits.mlc
show $bin/mlrun selftest $work/digits.mlc

say "An answer from an image"
for image in $example/images/*; do
  show $bin/mlrun $work/digits.mlc --input "$image" --top 3
done

for arch in aarch64 riscv64; do
  say "The same file on an emulated $arch"
  if tests/emulated/build_mlrun.sh $arch "$work/mlrun-$arch" 2>"$work/$arch.log"; then
    image=$(ls $example/images/* | head -n 1)
    show qemu-$arch-static "$work/mlrun-$arch" $work/digits.mlc --input "$image" --top 3
  else
    echo "skipped: $(tail -n 1 "$work/$arch.log")"
  fi
done
