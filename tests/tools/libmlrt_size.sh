#!/bin/sh
# libmlrt, which contains neither OpenSSL nor zstd, stays under 700 KB stripped (ld.bfd or lld), exports its two symbols only, and can
# reach neither sockets nor names on the network. libmlrt-gpu is that and at most 368 KB of devices.
#   libmlrt_size.sh libmlrt.so strip nm
#   libmlrt_size.sh libmlrt-gpu.so strip nm libmlrt.so
set -eu
copy=$(mktemp)
trap 'rm -f "$copy"' EXIT
stripped() {
  "$2" --strip-all -o "$copy" "$1"
  stat -c %s "$copy"
}
limit=716800
[ $# -lt 4 ] || limit=$(($(stripped "$4" "$2") + 376832))
size=$(stripped "$1" "$2")
echo "$(basename "$1"): $size bytes stripped, less than $limit expected"
[ "$size" -lt "$limit" ]
exported=$("$3" -D --defined-only "$1" | awk '{print $NF}' | sort | tr '\n' ' ')
echo "exports: $exported"
[ "$exported" = "mlc_get_api mlc_version_string " ]
if "$3" -D --undefined-only "$1" | grep -E ' (socket|connect|getaddrinfo|gethostbyname|res_query)(@|$)'; then
  echo "imports the network"
  exit 1
fi
