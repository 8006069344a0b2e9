"""Arrays among the answers of mlrun: complete in files whatever their size, complete or said to be left out with --json."""
import json
import math
import struct

import npz_file
from mlrun_test import ask
from onnx_file import model, node, port, tensor
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


def a_model_without_inputs_takes_an_archive_of_no_arrays(t):
    (t.dir / "m.onnx").write_bytes(model([node("Constant", [], ["y"], value_float=2.5)], [], [port("y", "f32", [])]))
    t.run("mlpack", "build", "m.onnx", "-o", "none.mlc", "--target", "portable")
    npz_file.write(t.dir / "none.npz", {})
    for given in ([], ["-i", "none.npz"]):
        assert ask(t, "none.mlc", *given)["outputs"]["y"]["data"] == [2.5]
    name = same(t, "f32")
    assert "x   missing, expected f32[N]" in t.run("mlrun", name, "-i", "none.npz", code=6).stderr
    assert "help: numbers along one axis are -i x=1,2,3, those of several axes a .npy file" in t.run("mlrun", name, "-i", "x=[[1,2],[3,4]]", code=3).stderr
    assert "help" not in t.run("mlrun", name, "-i", "x=none.npy", code=3).stderr


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


def numbers_and_arrays_of_archives_are_inputs(t):
    nodes = [node("Mul", ["x", "s"], ["a"]), node("Cast", ["k"], ["b"], to=1), node("Add", ["a", "b"], ["y"])]
    (t.dir / "m.onnx").write_bytes(model(nodes, [port("x", "f32", ["N"]), port("s", "f32", []), port("k", "i64", [1])], [port("y", "f32", ["N"])]))
    t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--target", "portable", "--no-selftest")
    x = feed(t, "f32", [1.0, 2.0])

    def y(*specs):
        return ask(t, "m.mlc", *(word for spec in specs for word in ("-i", spec)))["outputs"]["y"]["data"]
    assert y(x, "s=0.5", "k=-3") == [-2.5, -2.0]
    assert y(x, "s=1e2", "k=7") == [107.0, 207.0]
    assert y("x=4", "s=2", "k=1") == [9.0]
    for words, why in (("k=0.5", "i64, which does not hold 0.5"), ("k=99999999999999999999", "does not hold"), ("k=true", "does not hold"),
                       ("s=1e39", "f32, which does not hold 1e39"), ("z=3", "no input 'z'")):
        assert why in ask(t, "m.mlc", "-i", x, "-i", words, code=6)["message"], words
    t.run("mlrun", "m.mlc", "-i", x, "-i", "s=3", "-i", "k=0", "-o", "y.npz")
    for words in ((), ("--isolated",)):
        found = ask(t, "m.mlc", "-i", "x=y.npz:y", "-i", "s=2", "-i", "k=0", *words)["outputs"]["y"]["data"]
        assert found == [6.0, 12.0], found
        answer = ask(t, "m.mlc", "-i", "x=y.npz:z", "-i", "s=2", "-i", "k=0", *words, code=6)
        assert "no array 'z'" in answer["message"] and answer["facts"] == ["it has y"], answer

def what_is_drawn_fits_together(t):
    """A mask is as long as what came before and what is new together; ids are rows of a table of two."""
    nodes = [node("Gather", ["table", "ids"], ["new"]), node("Concat", ["past", "new"], ["all"], axis=0),
             node("MatMul", ["mask", "all"], ["m"]), node("Mul", ["m", "scale"], ["y"])]
    ports = [port("ids", "i64", ["S"]), port("past", "f32", ["P", 3]), port("mask", "f32", [1, "T"]), port("scale", "f32", [])]
    table = tensor("table", "f32", [2, 3], struct.pack("<6f", *range(6)))
    (t.dir / "m.onnx").write_bytes(model(nodes, ports, [port("y", "f32", [1, 3])], [table]))
    t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--target", "portable")

    def y(*words):
        return ask(t, "m.mlc", *words)["outputs"]["y"]["data"]
    drawn = y("-i", "random")
    assert any(drawn) and not any(y("-i", "zeros")), drawn
    # What is given comes before what is drawn, in whatever order they are named; the rest stays as it was.
    for words in (("random", "scale=0"), ("scale=0", "random"), ("mask=zeros", "random"), ("random", "mask=zeros")):
        assert not any(y(*(word for w in words for word in ("-i", w)))), words
    assert y("-i", "scale=2", "-i", "random") == [2 * v for v in y("-i", "random", "-i", "scale=1")]
    # Extents that are known fit what is drawn beside them: 3 + 5 = 8.
    words = ("-i", "random", "-i", feed(t, "i64", [1, 0, 1]).replace("x=", "ids="), "--dim", "P=5", "--dim", "T=8")
    assert len(y(*words)) == 3
    assert "given twice" in ask(t, "m.mlc", "-i", "random", "-i", "scale=1", "-i", "scale=2", code=6)["message"]

if __name__ == "__main__":
    main([what_is_drawn_fits_together, arrays_of_any_length_are_complete, more_than_a_million_elements_are_left_out_of_stdout_and_said_to_be,
          a_model_without_inputs_takes_an_archive_of_no_arrays, every_type_has_its_values, numbers_and_arrays_of_archives_are_inputs])
