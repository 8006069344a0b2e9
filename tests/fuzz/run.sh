#!/usr/bin/env bash
# Builds every fuzz target and runs each on its seeds; fails if one finds something.
#   run.sh SECONDS [NAME...]   seconds for each target; names such as npz, all by default
# MLC_FUZZ_BUILD: a build folder of the fuzz preset other than build/fuzz.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:?usage: run.sh SECONDS [NAME...]}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { echo "usage: run.sh SECONDS [NAME...]: '$seconds' is no number of seconds" >&2; exit 2; }
shift
build=${MLC_FUZZ_BUILD:-build/fuzz}
data=tests/unit/io/data

cmake --preset fuzz -B "$build" >/dev/null
cmake --build "$build" --target fuzzers | tail -n 1

# Seeds beside corpus/<name>; patterns that match nothing vanish.
seeds() {
  case $1 in
    image) ls $data/*.png $data/*.jpg $data/*.bmp $data/*.p?m $data/*.tiff $data/*.webp $data/*.j[p2][2k] examples/*/images/* ;;
    npy) ls $data/*.npy ;;
    npz) ls $data/*.npz ;;
    wav) ls $data/*.wav ;;
    json) ls examples/*/*.json tests/fuzz/corpus/signed_json/* ;;
    pipeline) ls examples/*/*.json examples/*/labels.txt ;;
    elf) ls "$build"/bin/*.so ;;
    onnx) ls examples/*/*.onnx; find /usr/share/libonnx-testdata -name model.onnx -size -8k ;;
  esac 2>/dev/null || true
}

names=("$@")
if [ ${#names[@]} -eq 0 ]; then
  for source in tests/fuzz/*_fuzz.cpp; do
    name=$(basename "$source" _fuzz.cpp)
    if [ -x "$build/bin/${name}_fuzz" ]; then names+=("$name"); else echo "skipped: ${name}_fuzz is not part of this build"; fi
  done
fi

failed=0
for name in "${names[@]}"; do
  [ -x "$build/bin/${name}_fuzz" ] || { echo "no fuzz target '$name' in $build/bin" >&2; exit 2; }
  found=$build/corpus/$name
  crashes=$build/crashes/$name
  start=$build/seeds/$name
  rm -rf "$start"
  mkdir -p "$found" "$crashes" "$start"
  count=0
  while read -r seed; do
    count=$((count + 1))
    cp "$seed" "$start/$count-$(basename "$seed")"
  done < <(seeds "$name"; find "tests/fuzz/corpus/$name" -type f 2>/dev/null || true)
  log=$build/$name.log
  if "$build/bin/${name}_fuzz" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 -print_final_stats=1 \
    -artifact_prefix="$crashes/" "$found" "$start" >"$log" 2>&1; then
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    echo "ok    $name: ${runs:-?} runs, $count seeds"
  else
    failed=$((failed + 1))
    echo "FAIL  $name: see $log"
    grep -E 'ERROR|SUMMARY|Test unit written' "$log" | head -n 5
  fi
done
echo "$((${#names[@]} - failed)) passed, $failed failed"
[ "$failed" -eq 0 ]
