#!/usr/bin/env bash
# Prints a folder with the libraries that a static mlrun needs, for a processor or system that is not the host's; makes it first
# where it is not there yet (a minute, network). Nothing of the host changes: apt works in a state folder of its own.
#   sysroot.sh aarch64|riscv64|windows|PROCESSOR-musl
# aarch64: Debian's own packages, unpacked. riscv64, and Windows on x86-64: Debian 12 has no packages for them, so its sources
# are compiled. PROCESSOR-musl (x86_64-musl, loongarch64-musl): so are musl and libc++, with the clang that is installed (musl_toolchain.sh).
# From where this machine has its own packages; MLC_DEBIAN_MIRROR is the address of another mirror.
set -euo pipefail

arch=${1:?usage: sysroot.sh aarch64|riscv64|windows|PROCESSOR-musl}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
triplet=$arch-linux-gnu
cc=gcc cxx=g++  # behind the triplet
scripts=("$here/sysroot.sh")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/mlc-sysroot
release=bookworm
jobs=$(nproc)
binary_packages=(libssl-dev libzstd-dev libpng-dev libjpeg62-turbo-dev zlib1g-dev)
libraries=(openssl zstd zlib png jpeg)
source_release= toolchain=
openssl_optimization=-O1
header_packages=(nlohmann-json3-dev libcli11-dev)  # headers only: those of the host serve every processor
case $arch in
  aarch64) apt_arch=arm64; kind=deb; programs=(dpkg-deb) ;;
  riscv64)
    apt_arch=amd64; kind=deb-src; programs=(dpkg-source make cmake ninja perl)
    system=Linux; processor=riscv64; openssl_options=(linux64-riscv64 no-asm) ;;
  windows)
    apt_arch=amd64; kind=deb-src; programs=(dpkg-source make cmake ninja perl)
    triplet=x86_64-w64-mingw32; cxx=g++-posix  # the compiler whose threads are those of std::thread
    system=Windows; processor=x86_64; openssl_options=(mingw64) ;;
  x86_64-musl | loongarch64-musl)
    processor=${arch%-musl}
    apt_arch=amd64; kind=deb-src; programs=(clang-19 clang++-19 ld.lld-19 llvm-ar-19 llvm-strip-19 dpkg-deb dpkg-source make cmake ninja perl xz)
    triplet=$processor-linux-musl; cc=clang; cxx=clang++
    scripts+=("$here/musl_toolchain.sh")
    # libseccomp: the first that knows LoongArch. The programs confine files that no trusted key has signed, on this system too.
    libraries+=(seccomp); source_release=bookworm
    system=Linux; openssl_optimization=-O2
    case $processor in x86_64) openssl_options=(linux-x86_64) ;; *) openssl_options=(linux-generic64 no-asm) ;; esac ;;
  *) echo "unknown processor or system $arch, known: aarch64 riscv64 windows x86_64-musl loongarch64-musl" >&2; exit 2 ;;
esac

version=$(cat "${scripts[@]}" | sha256sum | cut -c 1-12)
root=$cache/$arch-$version
if [ -e "$root/complete" ]; then
  echo "$root"
  exit 0
fi

fail() { echo "$*" >&2; exit 1; }
[ "$cc" = clang ] || programs+=("$triplet-$cxx")
for program in apt-get flock "${programs[@]}"; do
  command -v "$program" >/dev/null || fail "$program is not installed: $here/README.md names the packages"
done
mirror=${MLC_DEBIAN_MIRROR:-$(apt-get indextargets --format '$(SITE)' "Codename: $release" "Component: main" 2>/dev/null | head -n 1)}
[ -n "$mirror" ] || fail "apt has no list of $release's packages: run apt-get update, or name a mirror in MLC_DEBIAN_MIRROR"
mkdir -p "$cache"
exec 9>"$cache/$arch.lock"
flock 9  # whoever waited here finds the work done
if [ -e "$root/complete" ]; then
  echo "$root"
  exit 0
fi

work=$(mktemp -d "$cache/$arch-work.XXXXXX")
trap 'rm -rf "$work"' EXIT
log=$cache/$arch.log
: >"$log"

# apt with sources, lists and package state of its own.
mkdir -p "$work/apt/state/lists/partial" "$work/apt/cache/archives/partial" "$work/usr/include" "$work/usr/lib" \
  "$work/packages"
touch "$work/apt/status"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
# The release alone, without later security fixes: what is built here runs tests and is not shipped, and mirrors that
# keep no sources of the fixes are common.
echo "$kind [signed-by=$keyring] $mirror $release main" >"$work/apt/sources.list"
if [ "$cc" = clang ]; then  # musl of Debian 13, and its headers of the kernel, a package that is for every processor
  printf '%s [signed-by='"$keyring] $mirror"' trixie main\n' deb deb-src >>"$work/apt/sources.list"
fi
cat >"$work/apt/apt.conf" <<END
Dir::Etc::SourceList "$work/apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State "$work/apt/state";
Dir::State::Status "$work/apt/status";
Dir::Cache "$work/apt/cache";
APT::Architecture "$apt_arch";
#clear APT::Architectures;
APT::Architectures "$apt_arch";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "2";
END
private_apt() { APT_CONFIG=$work/apt/apt.conf apt-get -qq "$@" >>"$log" 2>&1; }
private_apt update || fail "Debian's package index cannot be fetched from $mirror: $(tail -n 1 "$log")"

unpack_binaries() {
  (cd "$work/packages" && private_apt download "${binary_packages[@]}") ||
    fail "packages for $apt_arch cannot be fetched: $(tail -n 1 "$log")"
  for package in "$work"/packages/*.deb; do dpkg-deb -x "$package" "$work/unpacked"; done
  cp -r "$work/unpacked/usr/include/." "$work/usr/include"
  cp -r "$work/unpacked/usr/include/$triplet/." "$work/usr/include"  # seen without the multiarch path
  cp "$work/unpacked/usr/lib/$triplet"/*.a "$work/usr/lib"           # no shared ones: mlrun is static
}

# What each library takes to be made is a function that leaves archive and headers below $prefix.
folder() {  # of a source package, fetched
  cd "$work/packages"
  private_apt source "$1${2:+/$2}"
  cd "$1"-[0-9]*/
}
openssl() (
  folder openssl $source_release
  CC=$cc ./Configure "${openssl_options[@]}" no-shared no-module no-tests no-legacy no-engine no-dso \
    "$openssl_optimization" --cross-compile-prefix="$triplet-"
  make -j"$jobs" build_generated
  make -j"$jobs" libcrypto.a
  cp libcrypto.a "$prefix/lib"
  cp -r include/openssl "$prefix/include"
)
zstd() (
  folder libzstd $source_release
  make -j"$jobs" -C lib libzstd.a CC="$triplet-$cc" AR="$triplet-ar"
  cp lib/libzstd.a "$prefix/lib"
  cp lib/zstd.h lib/zstd_errors.h lib/zdict.h "$prefix/include"
)
zlib() (
  folder zlib $source_release
  # As for Linux: the options for Windows are in a makefile of their own and only build more.
  CHOST=$triplet CC=$triplet-$cc AR=$triplet-ar RANLIB=$triplet-ranlib uname=Linux ./configure --static --prefix="$prefix"
  make -j"$jobs" libz.a
  cp libz.a "$prefix/lib"
  cp zlib.h zconf.h "$prefix/include"
)
png() (
  folder libpng1.6 $source_release
  ./configure --host="$triplet" --disable-shared --prefix="$prefix" CC="$triplet-$cc" CPPFLAGS="-I$work/usr/include" LDFLAGS="-L$work/usr/lib"
  make -j"$jobs" libpng16.la
  cp .libs/libpng16.a "$prefix/lib/libpng.a"
  cp png.h pngconf.h pnglibconf.h "$prefix/include"
)
jpeg() (
  folder libjpeg-turbo $source_release
  cmake -G Ninja -B build -DCMAKE_BUILD_TYPE=Release -DCMAKE_SYSTEM_NAME="$system" -DCMAKE_SYSTEM_PROCESSOR="$processor" \
    -DCMAKE_C_COMPILER="$triplet-$cc" -DCMAKE_INSTALL_PREFIX="$prefix" -DENABLE_SHARED=OFF -DWITH_SIMD=OFF -DWITH_TURBOJPEG=OFF
  cmake --build build --target jpeg-static
  cp build/libjpeg.a "$prefix/lib"
  cp jpeglib.h jmorecfg.h jerror.h jpegint.h build/jconfig.h "$prefix/include"
)
seccomp() (
  folder libseccomp trixie
  touch src/syscalls.perf src/syscalls.perf.c  # what gperf makes is in the release; patches change the times of what it is made of
  ./configure --host="$triplet" --disable-shared --prefix="$prefix" CC="$triplet-$cc" GPERF=true
  make -j"$jobs" -C include
  make -j"$jobs" -C src libseccomp.la AUTOMAKE=: ACLOCAL=: AUTOCONF=:
  cp src/.libs/libseccomp.a "$prefix/lib"
  cp include/seccomp.h include/seccomp-syscalls.h "$prefix/include"
)

# Each is kept as soon as it is made, by all that it is made with: one that fails, or a session that ends, costs itself alone.
compile_sources() {
  local library kept prefix=$work/stage/usr
  for library in "${libraries[@]}"; do
    kept=$cache/$arch-$library-$( (declare -f folder "$library"; declare -p toolchain source_release openssl_options openssl_optimization system \
      processor triplet cc) | sha256sum | cut -c 1-12)
    if [ ! -e "$kept" ]; then
      rm -rf "$work/stage"
      mkdir -p "$prefix/lib" "$prefix/include"
      # -e does not hold inside a tested command, hence the shell of its own.
      (set -e; "$library") >>"$log" 2>&1 & wait $! || fail "$library for $arch cannot be built, see $log"
      mv "$work/stage" "$kept"
    fi
    cp -a "$kept/." "$work"
  done
}

copy_headers() {
  for package in "${header_packages[@]}"; do
    dpkg-query -L "$package" 2>/dev/null | grep -E '^/usr/(include|share/cmake|lib/cmake)/' || fail "$package is not installed"
  done | while read -r path; do
    [ -d "$path" ] || install -D -m 644 "$path" "$work$path"
  done
  cp -r /usr/include/flatbuffers "$work/usr/include"
}

if [ "$cc" = clang ]; then
  # Kept by itself: the longest part, which later changes of the libraries do not concern.
  toolchain=$cache/$arch-toolchain-$(sha256sum <"$here/musl_toolchain.sh" | cut -c 1-12)
  if [ ! -e "$toolchain" ]; then
    APT_CONFIG=$work/apt/apt.conf "$here/musl_toolchain.sh" "$processor" "$work/toolchain" "$work/packages" >>"$log" 2>&1 ||
      fail "musl and libc++ for $processor cannot be built, see $log"
    mv "$work/toolchain" "$toolchain"
  fi
  cp -a "$toolchain/." "$work"  # with its times: what is compiled by it is found by ccache
  export PATH=$work/bin:$PATH
fi
if [ "$kind" = deb ]; then unpack_binaries; else compile_sources; fi
copy_headers
rm -rf "$root"
mkdir "$root"
for part in usr bin clang; do
  [ ! -e "$work/$part" ] || mv "$work/$part" "$root"
done
touch "$root/complete"
echo "$root"
