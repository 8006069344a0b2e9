#!/usr/bin/env bash
# Builds everything and runs the tests; the last line says how many passed and failed.
#   ./test.sh                    what continuous integration runs: the release build with all tests, the parts that meet
#                                strangers' bytes under sanitizers, and every fuzz target for 20 seconds
#   ./test.sh --preset NAME [TEST...]
#                                one build: release; dev (AddressSanitizer, UndefinedBehaviorSanitizer); thread
#                                (ThreadSanitizer). All of its tests, or those named as ctest does (io, hostile_container_bytes)
#   ./test.sh --fuzz SECONDS     the fuzz targets alone
set -uo pipefail
cd "$(dirname "$0")"

address_tests=(base signing io pipeline container match plan plan_text portable probe threads elf api api_memory mlio sandbox services
  hostile_container_bytes hostile_container_faults hostile_container_foreign hostile_container_frames
  hostile_container_manifest hostile_container_memory hostile_container_python hostile_container_random
  hostile_container_trust hostile_limits_text hostile_limits_manifest hostile_limits_code)
thread_tests=(threads container plan api)
passed=0 failed=0 skipped=0
failures=build/failures.txt  # what failed, told again at the end: the logs above it are long

# Adds what the log of a ctest run says. doctest executables count their cases, every other test counts as one; lines
# "skipped: REASON" are counted as skips.
count() {
  local sums
  sums=$(awk '
    /^[0-9]+: \[doctest\] test cases:/ {
      id = $1; gsub(/[^0-9]/, "", id); cases[id] = 1
      for (i = 1; i <= NF; ++i) { if ($i == "passed") passed += $(i - 1); if ($i == "failed") failed += $(i - 1) }
    }
    /^[0-9]+: +skipped: / { ++skipped }
    /^ *[0-9]+\/[0-9]+ Test +#/ {
      id = $0; sub(/^.*#/, "", id); sub(/:.*/, "", id); gsub(/ /, "", id)
      bad = ($0 ~ /Failed|Timeout|Exception|Not Run|SEGFAULT|Subprocess/)
      if ($0 ~ /Skipped/) ++skipped
      else if (!(id in cases)) { if (bad) ++failed; else ++passed }
      else if (bad) abnormal = 1
    }
    END {
      if (abnormal && failed == 0) ++failed
      print passed + 0, failed + 0, skipped + 0
    }' "$1")
  read -r p f s <<<"$sums"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# failure TEXT: one more thing that failed and is no test.
failure() {
  failed=$((failed + 1))
  echo "--- $1" | tee -a "$failures"
}

# failed_tests LOG: for each test that failed, the lines that say why, or its last ones.
failed_tests() {
  local id name
  awk '/^ *[0-9]+\/[0-9]+ Test +#/ && /Failed|Timeout|Exception|Not Run|SEGFAULT|Subprocess/ {
      sub(/^.*Test +#/, ""); sub(/:/, ""); print $1, $2 }' "$1" |
    while read -r id name; do
      echo "--- $name ($1)"
      grep -E "^$id: " "$1" | sed -E 's/^[0-9]+: //' >build/failed_test.txt
      grep -E -A 8 'ERROR|FAILED|SUMMARY: |^FAIL|Traceback' build/failed_test.txt | head -40
      echo "..."
      tail -n 12 build/failed_test.txt
    done
}

# run PRESET [TEST...]: builds all, or what these tests need, and runs them.
run() {
  local preset=$1 only=() targets=() known log=build/$1/test.log name
  shift
  cmake --preset "$preset" >/dev/null || { failure "cmake --preset $preset failed"; return; }
  if [ $# -gt 0 ]; then
    known=$(cmake --build --preset "$preset" --target help)
    for name in "$@"; do
      for target in "test_$name" "$name"; do grep -qE "^$target: " <<<"$known" && targets+=("$target"); done
    done
    only=(-R "^($(IFS='|'; echo "$*"))\$")
  fi
  echo "== $preset: ${*:-all tests}"
  cmake --build --preset "$preset" ${targets:+--target "${targets[@]}"} -- -k 0 ||
    { failure "the build of $preset failed"; return; }
  ctest --test-dir "build/$preset" -V -j "$(nproc)" --timeout 1500 "${only[@]}" >"$log" 2>&1 ||
    failed_tests "$log" | tee -a "$failures"
  grep -E '^[0-9]+/[0-9]+ Test|tests passed|tests failed out of' "$log"
  grep -hE '^[0-9]+: +skipped: ' "$log" | sed -E 's/^[0-9]+: +//' | sort | uniq -c
  count "$log"
}

# fuzz SECONDS: each target counts as one. The seed is fixed: what a run finds the next one finds, and a change is not refused
# for what others left. New ground is for runs by hand.
fuzz() {
  echo "== fuzz: $1 seconds each"
  MLC_FUZZ_SEED=1 tests/fuzz/run.sh "$1" | tee build/fuzz.log
  [ "${PIPESTATUS[0]}" -eq 0 ] || grep -q '^FAIL ' build/fuzz.log || failure "the fuzz targets did not build"
  failed=$((failed + $(grep -c '^FAIL ' build/fuzz.log)))
  grep -A 8 '^FAIL ' build/fuzz.log >>"$failures"
  passed=$((passed + $(grep -c '^ok  ' build/fuzz.log)))
}

./setup.sh || exit 1
mkdir -p build
: >"$failures"
case ${1:-} in
  "")
    run release
    run dev "${address_tests[@]}"
    run thread "${thread_tests[@]}"
    fuzz 20
    ;;
  --preset) run "${@:2}" ;;
  --fuzz) fuzz "${2:?seconds}" ;;
  *) echo "usage: ./test.sh [--preset NAME [TEST...] | --fuzz SECONDS]" >&2; exit 2 ;;
esac
[ ! -s "$failures" ] || { echo "== failed"; cat "$failures"; }
if [ $skipped -eq 0 ]; then echo "$passed passed, $failed failed"; else echo "$passed passed, $failed failed, $skipped skipped"; fi
[ $failed -eq 0 ]
