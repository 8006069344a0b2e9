#!/bin/sh
# Builds vad.mlc from Silero's network and prints when speech begins and ends in a recording: run.sh MODEL.onnx RECORDING.wav [FOLDER]
set -eu
here=$(dirname "$0")
folder=${3:-.}
mlpack build "$1" --pipeline "$here/pipeline.json" -o "$folder/vad.mlc" --target native
mlrun "$folder/vad.mlc" --stream -i "$2" |
  awk '{ now = $NF > 0.5 ? "speech" : "silence" } now != last && (now == "speech" || last) { print $1, now } { last = now }'
