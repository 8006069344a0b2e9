#!/usr/bin/env bash
# Builds everything and runs all tests; the last line says how many passed and failed.
#   ./test.sh              the release build
#   ./test.sh --preset dev the same tests under AddressSanitizer and UndefinedBehaviorSanitizer
set -uo pipefail
cd "$(dirname "$0")"
preset=release
[ "${1:-}" = --preset ] && preset=$2

./setup.sh || exit 1
cmake --preset "$preset" >/dev/null || exit 1
cmake --build --preset "$preset" -- -k 0 || { echo "0 passed, 1 failed"; exit 1; }
log=build/$preset/test.log
ctest --test-dir "build/$preset" -V --timeout 1500 >"$log" 2>&1
status=$?
grep -E '^[0-9]+/[0-9]+ Test|tests passed|tests failed out of' "$log"
grep -hE '^[0-9]+: +skipped: ' "$log" | sed -E 's/^[0-9]+: +//' | sort | uniq -c
# doctest executables count their cases, every other test counts as one; lines "skipped: REASON" are counted as skips.
awk '
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
    printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
  }' "$log" >"build/$preset/summary"
[ $status -eq 0 ] || { echo "--- failures"; grep -nE 'ERROR|FAILED|\*\*\*' "$log" | head -60; }
sed 's/, 0 skipped$//' "build/$preset/summary"
exit $status
