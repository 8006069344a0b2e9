#!/usr/bin/env bash
# Builds the tools and packs the digits example for every CPU target; runs the one file here and on an emulated machine. Then
# two applications of several models each: a number read in a picture, and pictures searched by a text.
#   ./demo.sh          here and on an emulated aarch64
#   ./demo.sh --all    on an emulated riscv64 as well, whose libraries are compiled first (some minutes)
set -euo pipefail
cd "$(dirname "$0")"
bin=build/release/bin
work=build/demo
example=examples/digits
machines=(aarch64)
case ${1:-} in
  "") ;;
  --all) machines+=(riscv64) ;;
  *) echo "usage: ./demo.sh [--all]" >&2; exit 2 ;;
esac

say() { printf '\n== %s\n' "$*"; }
show() { printf '$ %s\n' "$*"; "$@"; }

# with_progress WHAT COMMAND...: the last line that the command printed, every 5 seconds; all of it where it fails.
with_progress() {
  local what=$1 log=$work/${1// /-}.log start=$SECONDS told=$SECONDS pid
  shift
  "$@" >"$log" 2>&1 &
  pid=$!
  while kill -0 $pid 2>/dev/null; do
    sleep 0.2
    [ $((SECONDS - told)) -lt 5 ] && continue
    told=$SECONDS
    printf '%4d s  %s: %s\n' $((SECONDS - start)) "$what" "$(tail -n 1 "$log" | cut -c 1-100)"
  done
  if wait $pid; then printf '%4d s  %s: done\n' $((SECONDS - start)) "$what"; else tail -n 40 "$log"; return 1; fi
}

mkdir -p "$work"
say "Install and build"
with_progress "install packages" ./setup.sh demo
with_progress "configure" cmake --preset release
with_progress "build mlpack and mlrun" cmake --build --preset release --target mlpack mlrun

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

say "Two models in one file: where digits are, and what each one is"
show $bin/mlpack build $example/number.json -o $work/number.mlc --target native
for image in $example/numbers/*; do
  show $bin/mlrun $work/number.mlc --input "$image"
done

say "Two pipelines in one file: pictures searched by a text"
search=examples/search_pictures
show $bin/mlpack build $search/pipeline.json -o $work/search.mlc --target native
show $bin/mlrun embed $work/search.mlc $search/pictures --pipeline picture --query "a red car" --query "a photo of the blue boat" --top 2

shown=()
for arch in "${machines[@]}"; do
  say "The same file on an emulated $arch"
  if with_progress "build mlrun for $arch" tests/emulated/build_mlrun.sh $arch "$work/mlrun-$arch"; then
    image=$(ls $example/images/* | head -n 1)
    show qemu-$arch-static "$work/mlrun-$arch" $work/digits.mlc --input "$image" --top 3
    shown+=("$arch")
  else
    echo "skipped: see above"
  fi
done

say "What was shown"
cat <<END
$work/digits.mlc: $(stat -c %s "$work/digits.mlc") bytes, one signed file with code for every CPU target, the weights once, the picture steps and the
labels. It was verified, explained and tested, gave the digit of each picture here$([ ${#shown[@]} -eq 0 ] || printf ', and the same on: %s' "${shown[*]}").
$work/number.mlc and $work/search.mlc: applications of two models each. More of them: examples/README.md.
Next: $bin/mlpack check YOUR.onnx, $bin/mlpack build YOUR.onnx -o your.mlc, $bin/mlrun your.mlc -i random; docs/tutorial.md.
END
