#!/usr/bin/env bash
# Builds everything and runs the tests; the last line says how many passed and failed.
#   ./test.sh                    what continuous integration runs: the release build with its tests but those labelled slow, the
#                                parts that meet strangers' bytes under sanitizers, and every fuzz target for 5 seconds
#   ./test.sh quick              units, layering, each 24th node case, the digits example: minutes, of the release build
#   ./test.sh all                everything, the slow tests and a minute for each fuzz target included: hours
#   ./test.sh [--preset NAME] -t TEST[:CASE]
#                                one test, or the cases of it whose names contain CASE, as its program prints them
#   ./test.sh --preset NAME [TEST...]
#                                one build: release; fast (little optimisation, for editing); dev (clang: AddressSanitizer,
#                                UndefinedBehaviorSanitizer); thread (ThreadSanitizer). All of its tests that are not slow, or
#                                those named as ctest does (io, hostile_container_bytes)
#   ./test.sh --fuzz SECONDS     the fuzz targets alone
# tests/README.md says what each tier holds and what it costs.
set -uo pipefail
cd "$(dirname "$0")"

# Parts that meet strangers' bytes; and ptx, for the LLVM that made its texts and the parser that takes them apart.
address_tests=(base signing io pipeline container delta registry match plan plan_text portable probe ptx cuda threads elf api api_memory mlio sandbox services
  hostile_container_bytes hostile_container_faults hostile_container_foreign hostile_container_frames
  hostile_container_manifest hostile_container_memory hostile_container_python hostile_container_random
  hostile_container_trust hostile_limits_text hostile_limits_manifest hostile_limits_code)
thread_tests=(threads container plan api)
passed=0 failed=0 skipped=0
failures=build/failures.txt  # what failed, told again at the end: the logs above it are long

# Adds what the log of a ctest run says. doctest executables count their cases, every other test counts as one; lines
# "skipped: REASON" are counted as skips. Whether a test failed is ctest's word: a child of a test that passed may print a summary too.
count() {
  local sums
  sums=$(awk '
    /^[0-9]+: \[doctest\] test cases:/ {
      id = $1; gsub(/[^0-9]/, "", id); cases[id] = 1
      for (i = 1; i <= NF; ++i) { if ($i == "passed") passed += $(i - 1); if ($i == "failed") failures[id] += $(i - 1) }
    }
    /^[0-9]+: +skipped: / { ++skipped }
    /^ *[0-9]+\/[0-9]+ Test +#/ {
      id = $0; sub(/^.*#/, "", id); sub(/:.*/, "", id); gsub(/ /, "", id)
      bad = ($0 ~ /Failed|Timeout|Exception|Not Run|SEGFAULT|Subprocess/)
      if ($0 ~ /Skipped/) ++skipped
      else if (!(id in cases)) { if (bad) ++failed; else ++passed }
      else if (bad) failed += failures[id] ? failures[id] : 1
    }
    END {
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

# failed_tests LOG PRESET: for each test that failed, the command that repeats it, the lines that say why, and its last ones.
failed_tests() {
  local id name
  awk '/^ *[0-9]+\/[0-9]+ Test +#/ && /Failed|Timeout|Exception|Not Run|SEGFAULT|Subprocess/ {
      sub(/^.*Test +#/, ""); sub(/:/, ""); print $1, $2 }' "$1" |
    while read -r id name; do
      echo "--- $name ($1); alone: ./test.sh --preset $2 -t $name"
      grep -E "^$id: " "$1" | sed -E 's/^[0-9]+: //' >build/failed_test.txt
      grep -E -A 8 'ERROR|FAILED|SUMMARY: |^FAIL|Traceback' build/failed_test.txt | head -40
      echo "..."
      tail -n 12 build/failed_test.txt
    done
}

# run PRESET [OPTION of ctest...] [-- TEST...]: builds all, or what these tests need, and runs them.
run() {
  local preset=$1 select=() targets=() known log=build/$1/test.log name
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do select+=("$1"); shift; done
  [ $# -eq 0 ] || shift
  configure "$preset" || return
  if [ $# -gt 0 ]; then
    known=$(cmake --build --preset "$preset" --target help)
    for name in "$@"; do
      for target in "test_$name" "$name"; do grep -qE "^$target: " <<<"$known" && targets+=("$target"); done
    done
    select+=(-R "^($(IFS='|'; echo "$*"))\$")
  fi
  echo "== $preset: ${*:-${select[*]:-all tests}}"
  cmake --build --preset "$preset" ${targets:+--target "${targets[@]}"} -- -k 0 ||
    { failure "the build of $preset failed"; return; }
  ctest --test-dir "build/$preset" -V -j "$(nproc)" --timeout 3000 "${select[@]}" >"$log" 2>&1 ||
    failed_tests "$log" "$preset" | tee -a "$failures"
  grep -E '^ *[0-9]+/[0-9]+ Test|tests passed|tests failed out of' "$log"
  grep -q '^No tests were found' "$log" && failure "$preset has no such test: $* (ctest --test-dir build/$preset -N lists them)"
  grep -hE '^[0-9]+: +skipped: ' "$log" | sed -E 's/^[0-9]+: +//' | sort | uniq -c
  count "$log"
}

# configure PRESET: quietly, once; a build asks again where something that it was configured from has changed.
configure() {
  mkdir -p "build/$1"
  [ -e "build/$1/build.ninja" ] && return
  cmake --preset "$1" >"build/$1/configure.log" 2>&1 ||
    { tail -n 20 "build/$1/configure.log"; failure "cmake --preset $1 failed, see build/$1/configure.log"; return 1; }
}

# one PRESET TEST CASE: the cases of one test, on the terminal.
one() {
  local preset=$1 name=$2 case=$3 program
  configure "$preset" || exit 1
  if [ -z "$case" ]; then
    run "$preset" -- "$name"
    return
  fi
  case $name in
    tools_*)
      cmake --build --preset "$preset" | tail -n 1
      MLC_TEST_CASE=$case exec python3 "tests/tools/${name#tools_}_test.py" "build/$preset/bin" ;;
    registry_*)
      cmake --build --preset "$preset" | tail -n 1
      MLC_TEST_CASE=$case exec python3 "tests/registry/${name#registry_}_test.py" "build/$preset/bin" ;;
  esac
  for program in "test_$name" "$name"; do
    cmake --build --preset "$preset" --target "$program" >build/one.log 2>&1 || continue
    exec "build/$preset/bin/$program" -tc="*$case*"
  done
  tail -n 20 build/one.log
  echo "no test '$name' whose cases can be chosen: ctest --test-dir build/$preset -N lists the tests" >&2
  exit 2
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
    run release -LE slow
    run dev -- "${address_tests[@]}"
    run thread -- "${thread_tests[@]}"
    fuzz 5
    ;;
  quick) run release -L quick ;;
  all)
    run release
    run dev -- "${address_tests[@]}"
    run thread -- "${thread_tests[@]}"
    fuzz 60
    ;;
  -t) one release "${2%%:*}" "$(cut -sd: -f2- <<<"${2:?TEST[:CASE]}")" ;;
  --preset)
    if [ "${3:-}" = -t ]; then one "$2" "${4%%:*}" "$(cut -sd: -f2- <<<"${4:?TEST[:CASE]}")"
    elif [ $# -gt 2 ]; then run "$2" -- "${@:3}"
    else run "${2:?NAME}" -LE slow; fi
    ;;
  --fuzz) fuzz "${2:?seconds}" ;;
  *) echo "usage: ./test.sh [quick | all | [--preset NAME] -t TEST[:CASE] | --preset NAME [TEST...] | --fuzz SECONDS]" >&2; exit 2 ;;
esac
[ ! -s "$failures" ] || { echo "== failed"; cat "$failures"; }
if [ $skipped -eq 0 ]; then echo "$passed passed, $failed failed"; else echo "$passed passed, $failed failed, $skipped skipped"; fi
[ $failed -eq 0 ]
