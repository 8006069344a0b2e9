#!/usr/bin/env bash
# Builds a static mlrun, or another program of this project, for another processor or system. The last line on stderr says
# what went wrong.
#   build_mlrun.sh aarch64|riscv64|windows|x86_64-musl|loongarch64-musl OUTPUT [PROGRAM]
set -euo pipefail
usage="usage: build_mlrun.sh aarch64|riscv64|windows|x86_64-musl|loongarch64-musl OUTPUT [PROGRAM]"
arch=${1:?$usage}
output=${2:?$usage}
program=${3:-mlrun}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source=$(cd "$here/../.." && pwd)
build=$source/build/emulated/$arch

root=$("$here/sysroot.sh" "$arch")
mkdir -p "$build"
log=$build/build.log
exec 9>"$build/lock"
flock 9  # the demo and the tests may run at the same time
# What CMake has found lies in the sysroot, whose name changes with the scripts that make it.
[ "$(cat "$build/sysroot" 2>/dev/null)" = "$root" ] || rm -rf "$build/CMakeCache.txt" "$build/CMakeFiles"
echo "$root" >"$build/sysroot"
# -O1: what is tested here runs under an emulator anyway, and compiles a quarter faster. x86_64-musl is for use.
optimization=-O1
strip=$arch-linux-gnu-strip ending=
case $arch in
  windows) strip=x86_64-w64-mingw32-strip ending=.exe ;;
  *-musl) strip=$root/bin/${arch%-musl}-linux-musl-strip; [ "$arch" != x86_64-musl ] || optimization=-O2 ;;
esac
{
  cmake -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMLC_PACKAGER=OFF -DMLC_TESTS=OFF \
    -DCMAKE_CXX_FLAGS_RELEASE="$optimization -DNDEBUG" -DCMAKE_TOOLCHAIN_FILE="$here/toolchain.cmake" -DMLC_ARCH="$arch" -DMLC_SYSROOT="$root" &&
    cmake --build "$build" --target "$program"
} >"$log" 2>&1 || {
  tail -n 20 "$log" >&2
  echo "$program for $arch cannot be built, see $log" >&2
  exit 1
}
"$strip" -o "$output.new.$$" "$build/bin/$program$ending"
mv "$output.new.$$" "$output"
