#!/usr/bin/env bash
# How this machine's card does with everything of ours that runs on it, in ten minutes at most: bench/gpu/README.md.
exec "${PYTHON:-python3}" "$(dirname "${BASH_SOURCE[0]}")/gpu/gpu.py" "$@"
