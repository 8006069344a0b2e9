#!/usr/bin/env bash
# The node tests of a newer ONNX, from Debian's package where a folder holds it.
#   newer_set.sh ONNX_NODE_TESTS FOLDER WORK [ARGUMENT...]
set -euo pipefail
usage="usage: newer_set.sh ONNX_NODE_TESTS FOLDER WORK [ARGUMENT...]"
runner=${1:?$usage}
folder=${2:?$usage}
work=${3:?$usage}
shift 3
package=$(find -L "$folder" -maxdepth 1 -name 'libonnx-testdata_1.2*_all.deb' 2>/dev/null | sort | tail -n 1)
if [ -z "$package" ]; then
  echo "skipped: no newer libonnx-testdata in $folder"
  exit 77
fi
data=$work/$(basename "$package" .deb)
if [ ! -e "$data/complete" ]; then
  rm -rf "$data"
  dpkg-deb -x "$package" "$data"
  touch "$data/complete"
fi
version=$(basename "$package" | sed -E 's/.*_([0-9]+\.[0-9]+).*/\1/')
exec "$runner" --set "$version=$data/usr/share/libonnx-testdata/data" "$@"
