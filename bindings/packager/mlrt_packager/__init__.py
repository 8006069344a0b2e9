"""Holds the program mlpack: `mlpack build model.onnx -o model.mlc`, or `python -m mlrt_packager build ...`."""
import os
import pathlib
import sys

PROGRAM = pathlib.Path(__file__).resolve().parent / "bin/mlpack"


def main():
    """Becomes mlpack, with the arguments of this process."""
    os.execv(PROGRAM, ["mlpack", *sys.argv[1:]])
