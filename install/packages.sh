#!/usr/bin/env bash
# Makes mlrt, libmlrt1, mlrt-dev and mlpack for Debian from the preset release, which is built before; prints one path a line.
#   install/packages.sh [--build DIR] [--out DIR]
#     --build   take what is built there; default: build/release, which is brought up to date
#     --out     default: dist
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build= out=$root/dist
while [ $# -gt 0 ]; do
  case $1 in
    --build) build=$(cd "${2:?folder}" && pwd); shift 2 ;;
    --out) mkdir -p "${2:?folder}"; out=$(cd "$2" && pwd); shift 2 ;;
    *) echo "usage: packages.sh [--build DIR] [--out DIR]" >&2; exit 2 ;;
  esac
done
for program in dpkg-deb dpkg-shlibdeps; do
  command -v "$program" >/dev/null || { echo "$program is not installed (Debian: apt-get install dpkg-dev)" >&2; exit 1; }
done
if [ -z "$build" ]; then
  build=$root/build/release
  (cd "$root" && cmake --preset release >/dev/null && cmake --build --preset release >&2)
fi
made=$(mktemp -d -t mlrt-deb-XXXXXX)
trap 'rm -rf "$made"' EXIT
cpack --config "$build/CPackConfig.cmake" -B "$made" >"$made/log" 2>&1 || { cat "$made/log" >&2; exit 1; }
mkdir -p "$out"
# What may be installed for several architectures at once. CPack has that field from 3.31 on.
for name in libmlrt1 mlrt-dev; do
  package=$(echo "$made/${name}"_*.deb)
  dpkg-deb -R "$package" "$made/unpacked"
  sed -i '/^Architecture:/a Multi-Arch: same' "$made/unpacked/DEBIAN/control"
  dpkg-deb --root-owner-group -Zxz -b "$made/unpacked" "$package" >"$made/log" || { cat "$made/log" >&2; exit 1; }
  rm -rf "$made/unpacked"
done
for package in "$made"/*.deb; do
  mv "$package" "$out"
  echo "$out/$(basename "$package")"
done
