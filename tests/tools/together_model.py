"""What the tests of several devices share: a model with places where it may be cut, inputs for it, and times that a device is said to need."""
import json
import pathlib
import struct

from npz_file import read, write
from onnx_file import model, node, port, tensor


def weight(name, rows, columns):
    return tensor(name, "f32", [rows, columns], struct.pack(f"<{rows * columns}f", *(0.01 * (k * 31 % 97 - 48) for k in range(rows * columns))))


def build(t, targets="vulkan,native", rows="n"):
    # Wide in between, so that there are places where little passes on; `b` is read far behind them.
    nodes = [node("MatMul", ["x", "w0"], ["a"], "p0"), node("Relu", ["a"], ["b"], "r0"), node("MatMul", ["b", "w1"], ["c"], "p1"),
             node("Softmax", ["c"], ["d"], "s1"), node("MatMul", ["d", "w2"], ["e"], "p2"), node("Softmax", ["e"], ["f"], "s2"),
             node("MatMul", ["f", "w3"], ["g"], "p3"), node("Add", ["g", "b"], ["h"], "sum"), node("Softmax", ["h"], ["y"], "s3")]
    weights = [weight("w0", 24, 8), weight("w1", 8, 300), weight("w2", 300, 16), weight("w3", 16, 8)]
    (t.dir / "m.onnx").write_bytes(model(nodes, [port("x", "f32", [rows, 24])], [port("y", "f32", None), port("d", "f32", None)], weights, opset=17))
    done = t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "-f", "--json", "--golden-time", "20", "--target", targets)
    return json.loads(done.stdout)


def answers(t, *options):
    done = t.run("mlrun", "run", "m.mlc", "-i", "in.npz", "-o", "out.npz", "--json", *options)
    return json.loads(done.stdout), {name: values for name, (_, values) in read(t.dir / "out.npz").items()}


def inputs(t, rows):
    write(t.dir / "in.npz", {"x": ("f32", (rows, 24), [(k * 37 % 101 - 50) / 50 for k in range(rows * 24)])})


def same(expected, found, what):
    for name in expected:
        worst = max(abs(a - b) for a, b in zip(expected[name], found[name], strict=True))
        assert worst <= 1e-5 * max(1.0, *map(abs, expected[name])), (what, name, worst)


def explained(t, objective):
    return json.loads(t.run("mlrun", "explain", "m.mlc", "--json", "--devices", "cpu,gpu0", "--objective", objective).stdout)


def remembered(t):
    """The file of what was measured, in which times are as the tests want them: nothing but speed depends on it."""
    return pathlib.Path(t.env["XDG_STATE_HOME"]) / "mlc" / "measured"


def pretend(t, ns):
    """Sets the times of all segments, of which there are as many for the processor as for the device, and of the links."""
    lines = remembered(t).read_text().splitlines()
    for k, line in enumerate(lines[1:], 1):
        key, *numbers = line.split(" ")
        segments = len(numbers) // 2
        numbers = ["1000", "0", "1"] if len(numbers) == 3 else [str(ns(s, part, segments)) for s in range(segments) for part in range(2)]
        lines[k] = " ".join([key, *numbers])
    remembered(t).write_text("\n".join(lines) + "\n")


# For each mode an objective, and times by segment, part (the processor is 0) and number of segments that make it the best.
MODES = {"one device": ("latency", lambda s, part, n: 1_000_000 if part else 100_000),
         "split batch": ("latency", lambda s, part, n: 1_000_000),
         "latency path": ("latency", lambda s, part, n: 1_000_000 if (s < n // 2) == (part == 0) else 50_000_000),
         "replicate": ("throughput", lambda s, part, n: 1_000_000),
         "pipeline": ("throughput", lambda s, part, n: 1_000_000 if (s < n // 2) == (part == 0) else 50_000_000)}
