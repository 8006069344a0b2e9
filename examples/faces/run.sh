#!/bin/sh
# run.sh MODEL PICTURE OUT.png: builds a container around the model, and writes the picture with the faces that it finds. It needs
# mlpack and mlrun on the PATH, and fetches nothing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -eq 3 ] || { echo "usage: $0 MODEL PICTURE OUT.png" >&2; exit 2; }
container=$(mktemp -d)
trap 'rm -rf "$container"' EXIT
mlpack build "$1" --pipeline "$here/pipeline.json" --target native -o "$container/faces.mlc"
mlrun "$container/faces.mlc" --input "$2" -o "$3"
