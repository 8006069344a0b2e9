#!/usr/bin/env bash
# Models made after public reports (report_cases.py), which the project does not hold: their folder stands beside the checkout.
#   reports.sh ONNX_NODE_TESTS REPORTS WORK [--emulate aarch64|aarch64-sve256|riscv64|riscv64-v128] [ARGUMENT...]
# Made by numpy, onnx and onnxruntime of $PYTHON (default python3) or of PyPI; kept in WORK until a make.py changes.
set -euo pipefail
usage="usage: reports.sh ONNX_NODE_TESTS REPORTS WORK [--emulate aarch64|aarch64-sve256|riscv64|riscv64-v128] [ARGUMENT...]"
runner=${1:?$usage}
reports=${2:?$usage}
work=${3:?$usage}
shift 3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

skip() {
  echo "skipped: $1"
  exit 77
}

compgen -G "$reports/*/make.py" >/dev/null || skip "no reports in $reports"
data=$work/reports
state=$(cat "$here/report_cases.py" "$reports"/*.py "$reports"/*/make.py | sha256sum | cut -d ' ' -f 1)
if [ "$(cat "$data.state" 2>/dev/null)" != "$state" ]; then
  python=${PYTHON:-python3}
  if ! "$python" -c "import numpy, onnx, onnxruntime" 2>/dev/null; then
    "$python" -m venv "$work/reports-python" >&2 || skip "no onnxruntime for Python, and no virtual environment to install it into"
    python=$work/reports-python/bin/python
    "$python" -m pip --quiet --disable-pip-version-check install numpy onnx onnxruntime >&2 || skip "no onnxruntime for Python (PyPI does not give it)"
  fi
  "$python" "$here/report_cases.py" "$reports" "$data"
  echo "$state" >"$data.state"
fi
if [ "${1-}" = --emulate ]; then
  exec "$here/emulated.sh" "$runner" "$2" --set "reports=$data" "${@:3}"
fi
exec "$runner" --set "reports=$data" "$@"
