"""What the tests share: a home of their own, and containers that mlpack builds of small models."""
import atexit
import functools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BIN = pathlib.Path(os.environ.get("MLRT_BIN", ROOT / "build/release/bin"))
MODELS = ROOT.parent / "shared" / "models"
SCRATCH = pathlib.Path(tempfile.mkdtemp(prefix="mlrt-tests-"))
atexit.register(shutil.rmtree, SCRATCH, True)
# The library looks for keys where the tools put them.
os.environ["XDG_CONFIG_HOME"] = str(SCRATCH / "config")
os.environ["XDG_STATE_HOME"] = str(SCRATCH / "state")
os.environ["XDG_CACHE_HOME"] = str(SCRATCH / "cache")
os.umask(0o022)  # what others may change is not believed
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a job in the background of a shell ignores

sys.path.insert(0, str(ROOT / "tests/tools"))
import onnx_file  # noqa: E402
from onnx_file import node, port  # noqa: E402

ML = "ai.onnx.ml"


def skip(reason):
    """For test.sh, which counts such lines, and for unittest."""
    print(f"\nskipped: {reason}")
    raise unittest.SkipTest(reason)


@functools.cache
def container(name, *options, targets="native,portable"):
    """The path of NAME.onnx, in the scratch folder or beside the checkout, as a container."""
    source = pathlib.Path(name) if os.sep in name else SCRATCH / f"{name}.onnx"
    out = SCRATCH / f"{source.stem}.mlc"
    done = subprocess.run([BIN / "mlpack", "build", source, "-o", out, "--target", targets, *options],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise AssertionError(f"mlpack build {source}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return out


def model(name, nodes, inputs, outputs, initializers=(), opset=13, domains=()):
    """A container of these nodes; the ports are (name, type, shape)."""
    path = SCRATCH / f"{name}.onnx"
    if not path.exists():
        ports = [[p if isinstance(p, bytes) else port(*p) for p in some] for some in (inputs, outputs)]
        made = onnx_file.model(nodes, *ports, initializers, opset, domains)
        for domain in domains:  # written as version 1
            made = made.replace(onnx_file.data(8, onnx_file.data(1, domain) + onnx_file.number(2, 1)),
                                onnx_file.data(8, onnx_file.data(1, domain) + onnx_file.number(2, 2)))
        path.write_bytes(made)
    return container(name)


def relu():
    """y = max(x, 0) of four floats: a run costs what a call costs."""
    return model("relu", [node("Relu", ["x"], ["y"])], [("x", "f32", [4])], [("y", "f32", [4])])


def double(dtype):
    """y = x + x, of any length."""
    return model(f"double_{dtype}", [node("Add", ["x", "x"], ["y"])], [("x", dtype, ["n"])], [("y", dtype, ["n"])])


def square():
    """y = x @ x: as slow as one likes, in its portable form."""
    return model("square", [node("MatMul", ["x", "x"], ["y"])], [("x", "f32", ["n", "n"])], [("y", "f32", ["n", "n"])])


def digits():
    return container(str(ROOT / "examples/digits/digits.onnx"), "--pipeline",
                     str(ROOT / "examples/digits/pipeline.json"))


PICTURE = ROOT / "examples/digits/images/photo_3.jpg"
