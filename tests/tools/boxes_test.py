"""Detections through the tools: boxes of a small model whose places are plain to see, drawn and as a file, and those of real networks."""
import json
import math
import os
import pathlib
import stat
import struct
import subprocess
import zlib

from onnx_file import model, node, port, tensor
from tool_test import Skipped, main

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT.parent / "shared" / "models"
NAN = math.nan
# cx cy w h, objectness, two classes, in a letterbox of 20 x 20: of a picture of 40 x 20 it shows 20 x 10, 5 rows from the top.
ROWS = [[10, 10, 4, 4, 0.9, 0.1, 0.8], [10.5, 10, 4, 4, 0.9, 0.2, 0.7], [10, 10, 4, 4, 0.8, 0.75, 0], [3, 7, 40, 2, 0.5, 0.9, 0], [1, 1, 1, 1, NAN, 1, 1],
        [NAN, 9, 2, 2, 0.5, 0, 1]]


def png(height, width):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = (b"\0" + b"\x10\x20\x30" * width) * height
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def detector(t, rows):
    """y [1, boxes, columns]: the rows, whatever x is."""
    values = struct.pack(f"<{sum(map(len, rows))}f", *(v for row in rows for v in row))
    nodes = [node("ReduceMean", ["x"], ["mean"], axes=[1, 2, 3], keepdims=0),
             node("Mul", ["mean", "zero"], ["nothing"]), node("Add", ["rows", "nothing"], ["y"])]
    shape = [1, len(rows), len(rows[0])]
    constants = [tensor("zero", "f32", [], struct.pack("<f", 0)), tensor("rows", "f32", shape, values)]
    (t.dir / "d.onnx").write_bytes(model(nodes, [port("x", "f32", [1, 3, 20, 20])], [port("y", "f32", shape)], constants))
    (t.dir / "p.png").write_bytes(png(20, 40))
    (t.dir / "two.txt").write_text("cat\ndog\n")


def pipeline(t, nms, last, outputs, labels="two.txt", **decode):
    boxed = {"op": "letterbox", "size": [20, 20], "upscale": False, "kernel": "linear", "like": "opencv", "value": 0, "in": "picture", "out": "boxed"}
    steps = [{"op": "decode_image", "in": "photo", "color": "rgb", "orient": "ignore", "alpha": "drop", "out": "picture", **decode}, boxed,
             {"op": "normalize", "div": 255}, {"op": "layout", "to": "NCHW", "out": "x"},
             {"op": "run", "program": "main", "in": {"x": "x"}, "out": {"y": "rows"}},
             {"op": "boxes", "form": "yolo", "in": "rows", "out": {"boxes": "boxes", "scores": "scores"}},
             {"op": "nms", "in": {"boxes": "boxes", "scores": "scores"}, "max": 10, **nms},
             {"op": "unletterbox", "of": "boxed", "clip": True, "out": "rows_found"},
             {"op": "detections", "in": "rows_found", "labels": labels, "out": "found"}, *last]
    (t.dir / "p.json").write_text(json.dumps({"mlc_pipeline": 1, "inputs": {"photo": {"accept": ["image/png"]}}, "steps": steps, "outputs": outputs}))


DRAW = [{"op": "draw", "in": "picture", "boxes": "found", "out": "frames"}, {"op": "image_out", "in": "frames", "type": "image/png", "out": "drawn"}]


def boxes_are_places_of_the_picture_that_came_in(t):
    detector(t, ROWS)
    pipeline(t, {"score": 0.25, "iou": 0.5, "per": "class"}, [], ["found"])
    t.run("mlpack", "build", "d.onnx", "--pipeline", "p.json", "-o", "d.mlc", "--target", "native")
    variants = [v["name"] for v in t.json("mlrun", "explain", "d.mlc")["variants"] if v["answer"] == "fits"]
    assert len(variants) >= 2, variants
    for variant in variants:
        text = t.run("mlrun", "d.mlc", "-i", "p.png", "--variant", variant).stdout
        assert text == ("dog   0.720   16 6 24 14\ncat   0.600   16 6 24 14\ndog   0.500   nan 6 nan 10\ncat   0.450   0 2 40 6\n"), (variant, text)
    found = t.json("mlrun", "run", "d.mlc", "-i", "p.png")["outputs"]["found"]
    assert [sorted(box) for box in found] == [["box", "index", "label", "score"]] * 4, found
    assert found[1]["index"] == 0 and found[1]["box"] == [16, 6, 24, 14] and found[2]["box"] == [None, 6, None, 10], found
    t.run("mlrun", "d.mlc", "-i", "p.png", "-o", "d.json")
    assert json.loads((t.dir / "d.json").read_text())["found"] == found
    refused = t.run("mlrun", "d.mlc", "-i", "p.png", "-o", "d.npz", code=2).stderr
    assert "classes, text, boxes, pictures and sounds are no arrays" in refused, refused
    refused = t.run("mlrun", "d.mlc", "-i", "p.png", "-o", "d.png", code=2).stderr
    assert ".png holds one picture, there are 0 among the answers" in refused and not (t.dir / "d.png").exists(), refused

    pipeline(t, {"score": 0.25, "iou": 0.5, "per": "all"}, [], ["found"])
    t.run("mlpack", "build", "d.onnx", "--pipeline", "p.json", "-o", "d.mlc", "--target", "native")
    assert t.run("mlrun", "d.mlc", "-i", "p.png").stdout == "dog   0.720   16 6 24 14\ndog   0.500   nan 6 nan 10\ncat   0.450   0 2 40 6\n"
    pipeline(t, {"score": 0.9, "iou": 0.5, "per": "all"}, DRAW, ["found", "drawn"])
    t.run("mlpack", "build", "d.onnx", "--pipeline", "p.json", "-o", "d.mlc", "--target", "native")
    none = t.json("mlrun", "run", "d.mlc", "-i", "p.png")["outputs"]
    assert none["found"] == [] and none["drawn"]["width"] == 40, none


def a_picture_among_the_answers_is_a_file(t):
    detector(t, ROWS)
    pipeline(t, {"score": 0.25, "iou": 0.5, "per": "class"}, DRAW, ["found", "drawn"])
    t.run("mlpack", "build", "d.onnx", "--pipeline", "p.json", "-o", "d.mlc", "--target", "native")
    shown = t.run("mlrun", "d.mlc", "-i", "p.png").stdout.splitlines()
    assert shown[0] == "found:" and len(shown) == 6 and shown[5].startswith("drawn   image/png, 40 x 20 pixels, "), shown
    written = t.run("mlrun", "d.mlc", "-i", "p.png", "-o", "a.png").stdout.splitlines()
    assert written == shown[1:5], written
    answer = t.json("mlrun", "run", "d.mlc", "-i", "p.png", "-o", "b.png")
    assert answer["output_file"] == "b.png" and list(answer["outputs"]) == ["found"], answer
    data = (t.dir / "a.png").read_bytes()
    assert data == (t.dir / "b.png").read_bytes() and data[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", data[16:24]) == (40, 20)
    assert set(t.json("mlrun", "run", "d.mlc", "-i", "p.png")["outputs"]["drawn"]) == {"media_type", "width", "height", "bytes"}
    # It is the input of another pipeline: with no box above the threshold the same pixels come back.
    again = {"op": "image_out", "in": "frames", "type": "image/png", "out": "again"}
    pipeline(t, {"score": 1, "iou": 0.5, "per": "class"}, [*DRAW, again], ["drawn", "again", "found"])
    t.run("mlpack", "build", "d.onnx", "--pipeline", "p.json", "-o", "e.mlc", "--target", "native")
    refused = t.run("mlrun", "e.mlc", "-i", "a.png", "-o", "c.png", code=2).stderr
    assert ".png holds one picture, there are 2 among the answers" in refused, refused


def numbers_of_kept_boxes_are_points_and_masks(t):
    # Three numbers behind the classes of each box: with prototypes of 1, x and y they say on which side of a line the box is covered.
    rows = [[10, 10, 12, 8, 0.9, 0.9, 0.1, 10, -1, 0], [10.5, 10, 12, 8, 0.8, 0.9, 0, 7, 7, 7], [3, 10, 4, 4, 0.7, 0.1, 0.9, 1, 0, 0]]
    detector(t, rows)
    places = [[1] * 100, [c * 2 + 1 for _ in range(10) for c in range(10)], [r * 2 + 1 for r in range(10) for _ in range(10)]]
    values = struct.pack("<300f", *(v for place in places for v in place))
    kinds = struct.pack("<50f", *(v for kind in range(2) for _ in range(5) for v in [kind, kind, 0.5, 0.5, 1 - kind]))
    flat = struct.pack(f"<{sum(map(len, rows))}f", *(v for row in rows for v in row))
    nodes = [node("ReduceMean", ["x"], ["mean"], axes=[1, 2, 3], keepdims=0), node("Mul", ["mean", "zero"], ["nothing"])]
    shapes = {"y": ([1, 3, 10], flat), "p": ([1, 3, 10, 10], values), "k": ([1, 2, 5, 5], kinds)}
    constants = [tensor("zero", "f32", [], struct.pack("<f", 0))] + [tensor(name + "_", "f32", shape, data) for name, (shape, data) in shapes.items()]
    nodes += [node("Add", [name + "_", "nothing"], [name]) for name in shapes]
    (t.dir / "d.onnx").write_bytes(model(nodes, [port("x", "f32", [1, 3, 20, 20])], [port(name, "f32", shape) for name, (shape, _) in shapes.items()], constants))
    pipeline(t, {}, [], [])
    text = json.loads((t.dir / "p.json").read_text())
    text["steps"] = text["steps"][:4] + [
        {"op": "run", "program": "main", "in": {"x": "x"}, "out": {"y": "rows", "p": "p", "k": "k"}},
        {"op": "boxes", "form": "yolo", "in": "rows", "extra": 3, "out": {"boxes": "boxes", "scores": "scores", "extra": "all"}},
        {"op": "nms", "in": {"boxes": "boxes", "scores": "scores", "extra": "all"}, "score": 0.5, "iou": 0.5, "per": "all", "max": 9,
         "out": {"found": "small", "extra": "kept"}},
        {"op": "unletterbox", "in": "small", "of": "boxed", "clip": True, "out": "found"},
        {"op": "masks", "in": "kept", "boxes": "found", "prototypes": "p", "of": "boxed", "out": "masks"},
        {"op": "keypoints", "in": "kept", "columns": 3, "of": "boxed", "clip": False, "out": "points"},
        {"op": "dtype", "in": "masks", "to": "f32", "out": "covered"},
        {"op": "argmax", "in": "k", "axis": 1}, {"op": "paint", "palette": ["#000000", "#ff0000"], "of": "boxed"}, {"op": "image_out", "type": "image/png", "out": "seen"}]
    text["outputs"] = ["found", "covered", "points", "seen"]
    (t.dir / "p.json").write_text(json.dumps(text))
    t.run("mlpack", "build", "d.onnx", "--pipeline", "p.json", "-o", "d.mlc", "--target", "native")
    answer = t.json("mlrun", "run", "d.mlc", "-i", "p.png")["outputs"]
    covered = answer["covered"]["data"]
    assert answer["covered"]["shape"] == [2, 20, 40], answer["covered"]["shape"]
    left_half = [float(8 <= x < 20 and 2 <= y < 18) for y in range(20) for x in range(40)]
    whole_box = [float(2 <= x < 10 and 6 <= y < 14) for y in range(20) for x in range(40)]
    assert covered == left_half + whole_box, [sum(covered[:800]), sum(covered[800:])]
    assert answer["points"]["shape"] == [2, 1, 3] and answer["points"]["data"] == [20, -12, 0, 2, -10, 0], answer["points"]
    assert answer["seen"]["width"] == 40 and answer["seen"]["height"] == 20, answer["seen"]


def what_does_not_fit_is_told_before_compiling(t):
    detector(t, ROWS)
    (t.dir / "one.txt").write_text("cat\n")
    score = {"score": 0.25, "iou": 0.5, "per": "class"}

    def says(*sentences):
        stderr = t.run("mlpack", "check", "d.onnx", "--pipeline", "p.json", code=2).stderr
        assert all(sentence in stderr for sentence in sentences), (sentences, stderr)
    pipeline(t, score, [], ["found"], labels="one.txt")
    says("error[E5003]: p.json:1:", "step 'detections': one.txt has 1 lines, the scores have 2 columns")
    pipeline(t, score, DRAW, ["found", "drawn"], color="bgr")
    says("'in' of step 'draw' is no picture of bytes in rgb without alpha")
    pipeline(t, score, [{"op": "draw", "in": "picture", "boxes": "rows_found"}, {"op": "image_out", "type": "image/png", "out": "drawn"}], ["found", "drawn"])
    says("step 'draw' takes boxes with labels, which 'detections' makes, 'rows_found' is an array that is no picture")
    pipeline(t, score, [{"op": "image_out", "in": "picture", "type": "image/png", "out": "drawn"}], ["found", "drawn"])
    says("'picture' passes through no array step before this")
    pipeline(t, score, [{"op": "image_out", "in": "x", "type": "image/png", "out": "drawn"}], ["found", "drawn"])
    says("step 'image_out' takes a picture [h, w, c], 'x' is a picture in another layout")
    detector(t, [row[:5] for row in ROWS])
    pipeline(t, score, [], ["found"])
    says("error[E5009]", "takes floats [1, boxes, 5 and as many as there are classes], 'rows' is f32[1, 6, 5]")


def real(name):
    if not (MODELS / name).is_file():
        raise Skipped(f"{name} is not here")
    return MODELS / name


def the_face_is_found(t):
    source, photo = real("ultraface_rfb_320.onnx"), real("face.png")
    script = ROOT / "examples/faces/run.sh"
    assert os.stat(script).st_mode & stat.S_IXUSR
    path = os.environ | {"PATH": f"{t.bin}:{os.environ['PATH']}", "HOME": str(t.home), "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": "", "XDG_CACHE_HOME": ""}
    done = subprocess.run([script, source, photo, t.dir / "out.png"], capture_output=True, text=True, env=path)
    assert done.returncode == 0, done.stderr
    label, score, *corners = done.stdout.splitlines()[-1].split()
    assert label == "face" and float(score) > 0.99, done.stdout
    expected = (0.3508, 0.1201, 0.5233, 0.3395)
    assert all(abs(float(c) / 512 - e) < 2e-3 for c, e in zip(corners, expected, strict=True)), done.stdout
    assert sum(line.startswith("face ") for line in done.stdout.splitlines()) == 1, done.stdout
    assert (t.dir / "out.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def the_cat_is_found(t):
    source, photo = real("fastestdet.onnx"), real("cat.png")
    t.run("mlpack", "build", source, "--pipeline", ROOT / "examples/objects/pipeline.json", "-o", "c.mlc", "--target", "native")
    found, = t.json("mlrun", "run", "c.mlc", "-i", photo, "-o", "drawn.png", stderr=None)["outputs"]["found"]
    assert found["index"] == 15 and found["label"] == "cat" and abs(found["score"] - 0.7014) < 1e-3, found
    left, top, right, bottom = found["box"]
    assert 0 <= left < right <= 451 and 0 <= top < bottom <= 300 and (right - left) * (bottom - top) > 451 * 300 / 2, found


if __name__ == "__main__":
    main([numbers_of_kept_boxes_are_points_and_masks, boxes_are_places_of_the_picture_that_came_in, a_picture_among_the_answers_is_a_file, what_does_not_fit_is_told_before_compiling, the_face_is_found,
          the_cat_is_found])
