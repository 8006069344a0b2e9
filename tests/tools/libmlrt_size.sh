#!/bin/sh
# libmlrt, which contains neither OpenSSL nor zstd, stays under 688 KB stripped, exports its two symbols only, and can
# reach neither sockets nor names on the network.
#   libmlrt_size.sh libmlrt.so strip nm
set -eu
limit=704512
copy=$(mktemp)
trap 'rm -f "$copy"' EXIT
"$2" --strip-all -o "$copy" "$1"
size=$(stat -c %s "$copy")
echo "libmlrt: $size bytes stripped, less than $limit expected"
[ "$size" -lt "$limit" ]
exported=$("$3" -D --defined-only "$1" | awk '{print $NF}' | sort | tr '\n' ' ')
echo "exports: $exported"
[ "$exported" = "mlc_get_api mlc_version_string " ]
if "$3" -D --undefined-only "$1" | grep -E ' (socket|connect|getaddrinfo|gethostbyname|res_query)(@|$)'; then
  echo "imports the network"
  exit 1
fi
