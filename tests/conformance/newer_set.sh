#!/usr/bin/env bash
# The node tests of a newer ONNX than Debian's.
#   newer_set.sh ONNX_NODE_TESTS 1.20 FOLDER WORK [ARGUMENT...]   from a package libonnx-testdata_1.20*.deb in FOLDER
#   newer_set.sh ONNX_NODE_TESTS 1.23 FOLDER WORK [ARGUMENT...]   made by the onnx package of that release, of $PYTHON
#                                                                 (default python3) or PyPI
# Cases are made once and kept in WORK.
set -euo pipefail
usage="usage: newer_set.sh ONNX_NODE_TESTS VERSION FOLDER WORK [ARGUMENT...]"
runner=${1:?$usage}
version=${2:?$usage}
folder=${3:?$usage}
work=${4:?$usage}
shift 4
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
release=1.23.2  # later ones may have other cases: results/ lists those of this one

skip() {
  echo "skipped: $1"
  exit 77
}

# unpacked DATA: the cases of Debian's package.
unpacked() {
  local package
  package=$(find -L "$folder" -maxdepth 1 -name "libonnx-testdata_$version*_all.deb" 2>/dev/null | sort | tail -n 1)
  [ -n "$package" ] || skip "no libonnx-testdata of ONNX $version in $folder"
  dpkg-deb -x "$package" "$1"
}

# made DATA: the cases of the Python package.
made() {
  local python=${PYTHON:-python3} cases=$here/package_cases.py
  if [ "$("$python" "$cases" --version 2>/dev/null)" != "$release" ]; then
    "$python" -m venv "$work/onnx-$release" >&2 || skip "no onnx $release for Python, and no virtual environment to install it into"
    python=$work/onnx-$release/bin/python
    "$python" -m pip --quiet --disable-pip-version-check install "onnx==$release" >&2 || skip "no onnx $release for Python (PyPI does not give it)"
  fi
  "$python" "$cases" "$1"
}

data=$work/onnx-testdata-$version
if [ ! -e "$data/complete" ]; then
  rm -rf "$data"
  case $version in
    1.20) unpacked "$data" ;;
    "${release%.*}") made "$data" ;;
    *) echo "newer_set.sh: $version is neither 1.20 nor ${release%.*}" >&2; exit 2 ;;
  esac
  touch "$data/complete"
fi
exec "$runner" --set "$version=$data" "$@"
