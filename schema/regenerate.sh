#!/bin/sh
# Writes schema/generated/ from the schemas; with --check compares instead and fails on a difference.
# Needs flatc 2.0.8, the version of Debian 12: other versions print other code.
set -eu
cd "$(dirname "$0")"
out=generated
if [ "${1:-}" = --check ]; then
  out=$(mktemp -d)
  trap 'rm -rf "$out"' EXIT
fi
for schema in *.fbs; do
  flatc --cpp -o "$out" "$schema"
  ./verify_tables.py "$out/${schema%.fbs}_generated.h" "$out/${schema%.fbs}_fields_generated.h"
done
if [ "$out" != generated ]; then
  diff -r generated "$out" && echo "schema/generated is up to date"
fi
