"""mlpack init: the pipeline that it writes compiles as it is, and the model then answers a picture."""
import json
import pathlib

from onnx_file import model, node, port
from tool_test import main

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits"


def write(t, inputs, outputs, nodes, initializers=()):
    (t.dir / "m.onnx").write_bytes(model(nodes, inputs, outputs, initializers))
    return t.dir / "m.onnx"


def steps_of(t, name="pipeline.json"):
    return json.loads((t.dir / name).read_text())["steps"]


def a_classifier_of_digits_answers_without_a_change(t):
    answer = t.json("mlpack", "init", DIGITS / "digits.onnx")
    assert answer["what"] == "a picture classifier" and any(a.startswith("labels") for a in answer["assumed"]), answer
    t.run("mlpack", "build", DIGITS / "digits.onnx", "--pipeline", "pipeline.json", "-o", "d.mlc", "--target", "portable")
    picture = sorted((DIGITS / "images").iterdir())[0]
    assert t.run("mlrun", "d.mlc", picture, "--top", "1").stdout.split()[0] == picture.stem[-1]
    t.run("mlpack", "init", DIGITS / "digits.onnx", code=2)  # it is there already
    t.run("mlpack", "init", DIGITS / "digits.onnx", "-f")
    t.run("mlpack", "init", DIGITS / "digits.onnx", "-o", "other.json")
    assert steps_of(t) == steps_of(t, "other.json")


def every_form_of_picture_gives_a_pipeline_that_compiles(t):
    forms = [("f32", [1, 3, 224, 224], "resize", "NCHW"), ("f32", ["N", 3, 64, 96], "resize", "NCHW"), ("u8", [1, 32, 32, 3], "resize", "NHWC"),
             ("f16", [3, 48, "w"], "resize", "CHW"), ("f32", ["h", "w", 1], None, "HWC"), ("f32", [1, 1, "h", 40], "resize", "NCHW"), ("f32", [1, "h", "w", 3], None, "NHWC")]
    for dtype, shape, size, layout in forms:
        path = write(t, [port("a b", dtype, shape)], [port("y", dtype, ["p", "q", "r", "s"][:len(shape)])], [node("Identity", ["a b"], ["y"])])
        t.run("mlpack", "init", path, "-f")
        steps = steps_of(t)
        assert [s["to"] for s in steps if s["op"] == "layout"] == [layout], steps
        assert (size in [s["op"] for s in steps]) == (size is not None), steps
        assert ("normalize" in [s["op"] for s in steps]) == (dtype != "u8"), steps
        t.run("mlpack", "check", path, "--pipeline", "pipeline.json")


def classes_are_made_of_one_output_of_rank_two(t):
    flat = [node("Flatten", ["x"], ["y"])]
    path = write(t, [port("x", "f32", [1, 3, 96, 96])], [port("y", "f32", [1, 27648])], flat)
    t.run("mlpack", "init", path)
    assert [s["op"] for s in steps_of(t)] == ["decode_image", "resize", "crop", "normalize", "layout", "run", "top_k"], steps_of(t)
    assert steps_of(t)[-1]["in"] == {"softmax": "y"}
    t.run("mlpack", "check", path, "--pipeline", "pipeline.json")
    path = write(t, [port("x", "f32", [1, 3, 96, 96])], [port("z", "f32", [1, 27648])], flat + [node("Softmax", ["y"], ["z"])])
    t.run("mlpack", "init", path, "-f")
    assert steps_of(t)[-1]["in"] == "z", steps_of(t)
    path = write(t, [port("x", "f32", [1, 3, 96, 96])], [port("y", "f32", [1, 27648]), port("z", "f32", [1, 27648])], flat + [node("Relu", ["y"], ["z"])])
    t.run("mlpack", "init", path, "-f")
    assert json.loads((t.dir / "pipeline.json").read_text())["outputs"] == ["y", "z"]
    t.run("mlpack", "check", path, "--pipeline", "pipeline.json")
    # A result may be called as the file is.
    path = write(t, [port("photo", "f32", [1, 3, 96, 96])], [port("x", "f32", [1, 3, 96, 96])], [node("Relu", ["photo"], ["x"])])
    t.run("mlpack", "init", path, "-f")
    t.run("mlpack", "check", path, "--pipeline", "pipeline.json")


def what_is_no_picture_is_told_with_the_way_to_run_it(t):
    path = write(t, [port("ids", "i64", ["N", "T"]), port("a mask", "f32", ["N", "T"])], [port("y", "i64", ["N", "T"])], [node("Identity", ["ids"], ["y"])])
    answer = t.json("mlpack", "init", path, code=20)
    assert '"ids" does not look like a picture' in answer["message"] and "-i ids=FILE.npy -i 'a mask=FILE.npy'" in answer["help"], answer
    for shape in ([2, 3, 64, 64], [1, 2, 64, 64], [1, 3, 4, 64], [1, 3, 64, 9000], [3, 64]):
        path = write(t, [port("x", "f32", shape)], [port("y", "f32", ["p", "q", "r", "s"][:len(shape)])], [node("Identity", ["x"], ["y"])])
        t.json("mlpack", "init", path, code=20)
    assert not (t.dir / "pipeline.json").exists()
    t.json("mlpack", "init", "absent.onnx", code=3)


main([a_classifier_of_digits_answers_without_a_change, every_form_of_picture_gives_a_pipeline_that_compiles, classes_are_made_of_one_output_of_rank_two,
      what_is_no_picture_is_told_with_the_way_to_run_it])
