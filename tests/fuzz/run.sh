#!/usr/bin/env bash
# Builds every fuzz target and runs each on its seeds; fails if one finds something.
#   run.sh SECONDS [NAME...]   seconds for each target; names such as npz, all by default
# Two run at a time. MLC_FUZZ_BUILD: a build folder of the preset dev other than build/dev. The containers that api_fuzz
# starts from are packed by build/release/bin/mlpack. MLC_FUZZ_SEED: of the random numbers, so that a run can be repeated; else
# each run draws its own, which its log names.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:?usage: run.sh SECONDS [NAME...]}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { echo "usage: run.sh SECONDS [NAME...]: '$seconds' is no number of seconds" >&2; exit 2; }
shift
build=${MLC_FUZZ_BUILD:-build/dev}
data=tests/unit/io/data
nodes=/usr/share/libonnx-testdata/data/node

cmake --preset dev -B "$build" >/dev/null
cmake --build "$build" --target fuzzers | tail -n 1

# Seeds beside corpus/<name>; patterns that match nothing vanish.
seeds() {
  case $1 in
    image) ls $data/*.png $data/*.jpg $data/*.bmp $data/*.p?m $data/*.tiff $data/*.webp $data/*.j[p2][2k] examples/*/images/* ;;
    npy) ls $data/*.npy ;;
    npz) ls $data/*.npz ;;
    wav) ls $data/*.wav $data/*.flac $data/*.ogg ;;
    json) ls examples/*/*.json tests/fuzz/corpus/signed_json/* ;;
    pipeline) ls examples/*/*.json examples/*/labels.txt ;;
    elf) ls "$build"/bin/*.so ;;
    onnx) ls examples/*/*.onnx; find /usr/share/libonnx-testdata -name model.onnx -size -8k ;;
    operators) ls ops/*.mlop examples/*/ops/*.mlop ;;
  esac 2>/dev/null || true
}

# Unsigned containers of the portable form: a pipeline, a loop, strings.
make_containers() {
  export MLC_FUZZ_CONTAINERS=$build/containers
  rm -rf "$MLC_FUZZ_CONTAINERS"
  mkdir -p "$MLC_FUZZ_CONTAINERS"
  local pack="build/release/bin/mlpack build --target portable --no-sign --progress none"
  $pack examples/digits/digits.onnx --pipeline examples/digits/pipeline.json -o "$MLC_FUZZ_CONTAINERS/digits.mlc"
  local case
  for case in test_loop11 test_loop13_seq test_if_opt test_sequence_insert_at_back \
      test_strnormalizer_export_monday_casesensintive_upper test_tfidfvectorizer_tf_uniandbigrams_skip5; do
    [ ! -e $nodes/$case/model.onnx ] || $pack $nodes/$case/model.onnx -o "$MLC_FUZZ_CONTAINERS/$case.mlc" || true
  done
}

# One target; prints its line.
fuzz() {
  local name=$1 found=$build/corpus/$1 crashes=$build/crashes/$1 start=$build/seeds/$1 log=$build/$1.log count=0 seed runs
  rm -rf "$start"
  mkdir -p "$found" "$crashes" "$start"
  while read -r seed; do
    count=$((count + 1))
    cp "$seed" "$start/$count-$(basename "$seed")"
  done < <(seeds "$name"; find "tests/fuzz/corpus/$name" -type f 2>/dev/null || true)
  if "$build/bin/${name}_fuzz" -max_total_time="$seconds" -seed="${MLC_FUZZ_SEED:-0}" -timeout=20 -rss_limit_mb=3000 -print_final_stats=1 \
    -artifact_prefix="$crashes/" "$found" "$start" >"$log" 2>&1; then
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    echo "ok    $name: ${runs:-?} runs, $count seeds"
  else
    echo "FAIL  $name: see $log"
    grep -E 'ERROR|SUMMARY|Test unit written' "$log" | head -n 5
    return 1
  fi
}

names=("$@")
if [ ${#names[@]} -eq 0 ]; then
  for source in tests/fuzz/*_fuzz.cpp; do
    name=$(basename "$source" _fuzz.cpp)
    if [ -x "$build/bin/${name}_fuzz" ]; then names+=("$name"); else echo "skipped: ${name}_fuzz is not part of this build"; fi
  done
fi
for name in "${names[@]}"; do
  [ -x "$build/bin/${name}_fuzz" ] || { echo "no fuzz target '$name' in $build/bin" >&2; exit 2; }
  [ "$name" != api ] || make_containers
done

failed=0 running=0
for name in "${names[@]}"; do
  [ $running -lt 2 ] || { wait -n || failed=$((failed + 1)); running=$((running - 1)); }
  fuzz "$name" &
  running=$((running + 1))
done
while [ $running -gt 0 ]; do wait -n || failed=$((failed + 1)); running=$((running - 1)); done
echo "$((${#names[@]} - failed)) passed, $failed failed"
[ "$failed" -eq 0 ]
