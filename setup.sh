#!/usr/bin/env bash
# Installs what building and testing needs, from Debian 12. Does nothing where everything is there.
#   ./setup.sh          what the build, the tests and the demo need
#   ./setup.sh demo     what ./demo.sh needs
#   ./setup.sh --check  only say what is missing
set -euo pipefail

build=(g++ cmake ninja-build pkg-config llvm-19-dev liblld-19-dev libonnx-dev libprotobuf-dev protobuf-compiler
  libflatbuffers-dev flatbuffers-compiler libzstd-dev libssl-dev nlohmann-json3-dev libcli11-dev libjpeg-dev libpng-dev
  zlib1g-dev libopenjp2-7-dev libtiff-dev libsndfile1-dev libwebp-dev libseccomp-dev libzydis-dev libzycore-dev libicu-dev libcurl4-openssl-dev lld-19)
demo=(ccache qemu-user-static g++-aarch64-linux-gnu)
test=(doctest-dev clang-19 libclang-rt-19-dev python3 python3-numpy g++-riscv64-linux-gnu dpkg-dev libonnx-testdata man-db
  mesa-vulkan-drivers libvulkan1 vulkan-validationlayers spirv-tools)
wanted=("${build[@]}" "${demo[@]}")
[ "${1:-}" = demo ] || wanted+=("${test[@]}")

installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null || true)
missing=()
for package in "${wanted[@]}"; do
  grep -qx "installed $package" <<<"$installed" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
echo "missing packages: ${missing[*]}" >&2
[ "${1:-}" = --check ] && exit 1
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "run this as root: apt-get install ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
"${as_root[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
