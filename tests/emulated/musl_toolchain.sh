#!/usr/bin/env bash
# Makes a compiler for static programs against musl, for any processor that clang and musl know; a step of sysroot.sh, whose apt it uses.
#   musl_toolchain.sh PROCESSOR FOLDER SOURCES
# Into FOLDER: usr/ with the kernel's headers, musl, the unwinder and libc++; clang/ with what clang has for each processor (builtins, the
# objects at both ends of a program); bin/ with PROCESSOR-linux-musl-clang, -clang++, -ar, -ranlib, -strip and -objcopy, which find the
# rest from where they lie. Nothing of the host's C and C++ libraries is seen by what they compile.
set -euo pipefail
processor=$1 folder=$2 sources=$3
triplet=$processor-linux-musl
host=$(clang-19 -print-resource-dir)  # headers of intrinsics serve every processor
prefix=$folder/usr
export PATH=$folder/bin:$PATH

fetch() {
  cd "$sources"
  apt-get -qq source musl/trixie
  apt-get -qq download linux-libc-dev/trixie
  apt-get -qq source --download-only llvm-toolchain-19/bookworm
  mkdir llvm
  # Of two gigabytes, what the four libraries need. The release's archive as it is: Debian's patches to them concern other systems.
  tar xJf llvm-toolchain-19_*.orig.tar.xz -C llvm --strip-components=1 --wildcards --no-wildcards-match-slash \
    '*/cmake' '*/runtimes' '*/llvm/cmake' '*/compiler-rt/cmake' '*/compiler-rt/CMakeLists.txt' '*/compiler-rt/lib/builtins' \
    '*/libunwind' '*/libcxxabi' '*/libcxx'
}

# $0 and not a path that was known when this was made: the folder is moved once it is whole.
program() {  # NAME COMMAND...
  local name=$1
  shift
  mkdir -p "$folder/bin"
  printf '#!/bin/sh\nhere=${0%%/*}/..\nexec %s "$@"\n' "$*" >"$folder/bin/$triplet-$name"
  chmod +x "$folder/bin/$triplet-$name"
}

programs() {
  local common="--target=$triplet --sysroot=\"\$here\" -resource-dir=\"\$here/clang\" -fuse-ld=lld -rtlib=compiler-rt -Wno-unused-command-line-argument"
  program clang clang-19 "$common" -unwindlib=none
  program clang++ clang++-19 "$common" -unwindlib=libunwind -nostdinc++ -isystem '"$here/usr/include/c++/v1"' -stdlib=libc++
  for tool in ar ranlib strip objcopy; do program $tool llvm-$tool-19; done
}

kernel_headers() {
  dpkg-deb -x "$sources"/linux-libc-dev_*.deb "$sources/kernel"
  mkdir -p "$prefix/include"
  cp -rL "$sources"/kernel/usr/include/{linux,asm-generic,"$processor-linux-gnu"/asm} "$prefix/include"
}

musl() (
  cd "$sources"/musl-[0-9]*/
  CC=$triplet-clang AR=$triplet-ar RANLIB=$triplet-ranlib ./configure --target="$triplet" --disable-shared --prefix=/usr --syslibdir=/usr/lib
  make -j"$(nproc)" DESTDIR="$folder" install-headers install-libs
)

common=(-G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR="$processor" -DCMAKE_C_COMPILER="$triplet-clang"
  -DCMAKE_CXX_COMPILER="$triplet-clang++" -DCMAKE_AR="$folder/bin/$triplet-ar" -DCMAKE_RANLIB="$folder/bin/$triplet-ranlib"
  -DCMAKE_C_COMPILER_TARGET="$triplet" -DCMAKE_CXX_COMPILER_TARGET="$triplet" -DCMAKE_ASM_COMPILER_TARGET="$triplet"
  -DCMAKE_CXX_COMPILER_WORKS=ON -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DLLVM_INCLUDE_TESTS=OFF)

builtins() {
  mkdir -p "$folder/clang/lib/linux"
  cp -r "$host/include" "$folder/clang"
  cmake -S "$sources/llvm/compiler-rt/lib/builtins" -B "$sources/builtins" "${common[@]}" -DCMAKE_C_COMPILER_WORKS=ON \
    -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY -DCOMPILER_RT_DEFAULT_TARGET_ONLY=ON -DCOMPILER_RT_BUILD_CRT=ON \
    -DCMAKE_INSTALL_PREFIX="$folder/clang" -DCOMPILER_RT_INSTALL_LIBRARY_DIR="$folder/clang/lib/linux"
  cmake --build "$sources/builtins" --target install
}

libcxx() {
  cmake -S "$sources/llvm/runtimes" -B "$sources/runtimes" "${common[@]}" "-DLLVM_ENABLE_RUNTIMES=libunwind;libcxxabi;libcxx" \
    -DCMAKE_INSTALL_PREFIX="$prefix" -DLIBCXX_HAS_MUSL_LIBC=ON -DLIBCXX_INCLUDE_BENCHMARKS=OFF -DLIBCXX_ENABLE_STATIC_ABI_LIBRARY=ON \
    -DLIBCXXABI_USE_LLVM_UNWINDER=ON -DLIB{UNWIND,CXXABI,CXX}_ENABLE_SHARED=OFF -DLIB{UNWIND,CXXABI,CXX}_USE_COMPILER_RT=ON \
    -DLIB{UNWIND,CXXABI,CXX}_INCLUDE_TESTS=OFF
  cmake --build "$sources/runtimes" --target install
}

fetch
programs
kernel_headers
musl
builtins
libcxx
