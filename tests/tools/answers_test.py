"""Arrays among the answers of mlrun: complete in files whatever their size, complete or said to be left out with --json."""
import json
import math
import struct

from mlrun_test import ask
from onnx_file import model, node, port
from tool_test import main

FORMATS = {"f32": "f", "f64": "d", "f16": "e", "i32": "i", "i64": "q", "u8": "B", "bool": "?"}


def same(t, dtype):
    """y = x of any length, in its portable form."""
    name = f"{dtype}.mlc"
    (t.dir / "m.onnx").write_bytes(model([node("Identity", ["x"], ["y"])], [port("x", dtype, ["N"])], [port("y", dtype, ["N"])]))
    t.run("mlpack", "build", "m.onnx", "-o", name, "--target", "portable", "--no-selftest")
    return name


def feed(t, dtype, values):
    (t.dir / "x.bin").write_bytes(struct.pack(f"<{len(values)}{FORMATS[dtype]}", *values))
    return f"x=@x.bin:{dtype}[{len(values)}]"


def both(t, name, spec):
    """The answer with --json, which is that of -o FILE.json."""
    found = ask(t, name, "-i", spec)["outputs"]
    t.run("mlrun", name, "-i", spec, "-o", "y.json")
    assert json.loads((t.dir / "y.json").read_text()) == found
    return found["y"]


def arrays_of_any_length_are_complete(t):
    name = same(t, "f32")
    for count in (0, 1, 4096, 4097, 100000):
        values = [float(i % 1000) / 8 for i in range(count)]
        found = both(t, name, feed(t, "f32", values))
        assert found == {"dtype": "f32", "shape": [count], "data": values}, (count, str(found)[:200])


def more_than_a_million_elements_are_left_out_of_stdout_and_said_to_be(t):
    name, count = same(t, "u8"), (1 << 20) + 1
    spec = feed(t, "u8", [7] * count)
    done = t.run("mlrun", name, "-i", spec, "--json")
    found = json.loads(done.stdout)["outputs"]["y"]
    assert found == {"dtype": "u8", "shape": [count], "elided": True}, str(found)[:200]
    assert f"warning: 'y' has {count} elements, which are left out" in done.stderr, done.stderr
    assert len(both_in_file(t, name, spec)["data"]) == count
    spec = feed(t, "u8", [7] * (count - 1))
    assert len(both(t, name, spec)["data"]) == count - 1


def both_in_file(t, name, spec):
    done = t.run("mlrun", name, "-i", spec, "-o", "y.json")
    assert "left out" not in done.stderr, done.stderr
    return json.loads((t.dir / "y.json").read_text())["y"]


def every_type_has_its_values(t):
    cases = {"f32": [0.5, -1.25, 3.0e38], "f64": [0.1, 1e300], "f16": [0.5, -65504.0, 2.0 ** -24], "i32": [-2 ** 31, 2 ** 31 - 1],
             "u8": [0, 255], "i64": [0, -5, 2 ** 53, -2 ** 53]}
    for dtype, values in cases.items():
        found = both(t, same(t, dtype), feed(t, dtype, values))["data"]
        assert found == [struct.unpack(f"<{FORMATS[dtype]}", struct.pack(f"<{FORMATS[dtype]}", v))[0] for v in values], (dtype, found)
    assert both(t, "u8.mlc", feed(t, "u8", list(range(256))))["data"] == list(range(256))
    # Readers of JSON hold numbers as doubles: beyond 2^53 they are strings of digits, all of them right.
    large = [2 ** 53 + 1, -2 ** 53 - 1, 2 ** 63 - 1, -2 ** 63]
    assert both(t, "i64.mlc", feed(t, "i64", large))["data"] == [str(v) for v in large]
    # JSON has no such numbers.
    assert both(t, "f32.mlc", feed(t, "f32", [math.inf, -math.inf, math.nan, 1.0]))["data"] == [None, None, None, 1.0]
    name = same(t, "bool")
    assert both(t, name, feed(t, "bool", [True, False]))["data"] == [1, 0]


if __name__ == "__main__":
    main([arrays_of_any_length_are_complete, more_than_a_million_elements_are_left_out_of_stdout_and_said_to_be,
          every_type_has_its_values])
