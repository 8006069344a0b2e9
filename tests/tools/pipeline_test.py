"""From a picture to an answer through the tools: the digits in every variant, and array steps whose result is plain to see.

The steps themselves are compared with Pillow, OpenCV and the compiled code in tests/unit/pipeline*.
"""
import ast
import json
import pathlib
import struct
import zlib

from onnx_file import model, node, port
from tool_test import main

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "digits"
IMAGES = sorted((EXAMPLE / "images").iterdir())


def fitting(t, container):
    return [v["name"] for v in t_json(t, "explain", container)["variants"] if v["answer"] == "fits"]


def t_json(t, *args, code=0):
    answer = json.loads(t.run("mlrun", *args, "--json", code=code).stdout)
    assert list(answer)[:2] == ["schema", "ok"], answer
    return answer


def every_image_gives_its_digit_in_every_variant(t):
    t.run("mlpack", "build", EXAMPLE / "digits.onnx", "--pipeline", EXAMPLE / "pipeline.json", "-o", "d.mlc",
          "--target", "x86-64-v2,x86-64-v3,x86-64-v4,armv8-a,rv64gc")
    variants = fitting(t, "d.mlc")
    assert "portable" in variants and len(variants) >= 2, variants
    assert len(IMAGES) >= 5, IMAGES
    for image in IMAGES:
        wanted = image.stem[-1]
        scores = {}
        for variant in variants:
            answer = t_json(t, "d.mlc", "--input", image, "--variant", variant, "--top", "3")
            assert answer["schema"] == "mlc.run/1" and answer["variant"] == variant and answer["native_allowed"], answer
            assert answer["root"].startswith("sha256:") and len(answer["root"]) == 71, answer
            assert set(answer["timings"]) == {"open_ns", "pre_ns", "run_ns", "post_ns"}, answer
            assert all(isinstance(v, int) and v >= 0 for v in answer["timings"].values()), answer
            classes = answer["outputs"]["digits"]
            assert len(classes) == 3 and all(set(c) == {"index", "label", "score"} for c in classes), classes
            assert [c["score"] for c in classes] == sorted((c["score"] for c in classes), reverse=True), classes
            assert classes[0]["label"] == wanted and classes[0]["index"] == int(wanted), (image.name, variant, classes)
            scores[variant] = classes[0]["score"]
        assert max(scores.values()) - min(scores.values()) < 1e-5, (image.name, scores)
    text = t.run("mlrun", "d.mlc", "--input", IMAGES[0], "--top", "3").stdout.splitlines()
    assert len(text) == 3 and text[0].split()[0] == IMAGES[0].stem[-1], text
    assert len(t.run("mlrun", "d.mlc", "--input", IMAGES[0], "--top", "10").stdout.splitlines()) == 10


def png(pixels):
    """`pixels`: rows of (r, g, b)."""
    raw = b"".join(b"\0" + bytes(v for pixel in row for v in pixel) for row in pixels)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", len(pixels[0]), len(pixels), 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def npy(path):
    """(dtype, shape, bytes) of a .npy file, version 1."""
    data = path.read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\0", data[:8]
    length = struct.unpack("<H", data[8:10])[0]
    header = ast.literal_eval(data[10:10 + length].decode())
    assert not header["fortran_order"]
    return header["descr"], header["shape"], data[10 + length:]


def identity_model(t, name, extents):
    (t.dir / name).write_bytes(model([node("Identity", ["x"], ["y"])], [port("x", "f32", extents)], [port("y", "f32", extents)]))


def pictures_of_every_form_give_the_same_in_every_variant(t):
    # A letterbox on bytes, then floats: one kernel reads pixels through tables of rows and columns, within a condition.
    size = 40
    (t.dir / "p.json").write_text(json.dumps({"mlc_pipeline": 1, "inputs": {"photo": {"accept": ["image/png"]}}, "steps": [
        {"op": "decode_image", "in": "photo", "color": "rgb", "orient": "ignore", "alpha": "drop"},
        {"op": "letterbox", "size": [size, size], "upscale": True, "kernel": "linear", "like": "opencv", "value": 114},
        {"op": "normalize", "div": 2},
        {"op": "layout", "to": "NCHW", "out": "x"},
        {"op": "run", "program": "main", "in": {"x": "x"}, "out": {"y": "answer"}}], "outputs": ["answer"]}))
    identity_model(t, "m.onnx", [1, 3, size, size])
    t.run("mlpack", "build", "m.onnx", "--pipeline", "p.json", "--target", "native", "-o", "m.mlc")
    variants = fitting(t, "m.mlc")
    assert "portable" in variants and len(variants) == 2, variants
    for width, height in (31, 9), (9, 31), (1, 1), (1, 17), (17, 1), (64, 40), (200, 11), (size, size):
        picture = [[((7 * x + 13 * y) % 256, (31 * x + y) % 256, (x * y + 5) % 256) for x in range(width)] for y in range(height)]
        (t.dir / "p.png").write_bytes(png(picture))
        answers = set()
        for variant in variants:
            t.run("mlrun", "m.mlc", "-i", "p.png", "-o", "a.npy", "--variant", variant)
            kind, shape, data = npy(t.dir / "a.npy")
            assert (kind, shape) == ("<f4", (1, 3, size, size)), (kind, shape)
            answers.add(data)
        assert len(answers) == 1, (width, height)
        red = struct.unpack(f"<{size * size * 3}f", answers.pop())[:size * size]
        rows = [all(v == 57 for v in red[y * size:(y + 1) * size]) for y in range(size)]
        inner_height = max(1, round(height * size / width)) if width > height else size
        assert rows.count(True) == size - inner_height, (width, height, rows)


def a_build_runs_its_golden_vectors(t):
    identity_model(t, "m.onnx", [2, 3])
    built = t.json("mlpack", "build", "m.onnx", "--target", "native", "-o", "m.mlc")
    names = {v["name"]: v for v in built["selftest"]["variants"]}
    assert built["selftest"]["vectors"] == 1 and "portable" in names and len(names) == 2, built
    assert all(v["vectors"] == 1 and "reason" not in v for v in names.values()), built
    # The file is the same with and without the test.
    root = t.json("mlpack", "build", "m.onnx", "--target", "native", "-o", "n.mlc", "--no-selftest")
    assert root["root"] == built["root"] and root["selftest"] is None, root
    text = t.run("mlpack", "build", "m.onnx", "--target", "all", "-o", "m.mlc", "--progress", "plain")
    assert "portable: vectors 1" in text.stderr, text.stderr
    tested = [line for line in text.stdout.splitlines() if line.startswith("  tested")]
    assert len(tested) == 1 and "1 vector: " in tested[0] and "not here: " in tested[0], text.stdout


def native_is_what_a_file_for_all_targets_would_run_here(t):
    identity_model(t, "m.onnx", [2, 3])
    every = t.json("mlpack", "build", "m.onnx", "-o", "all.mlc", "--target", "all")["variants"]
    names, known = {v["name"] for v in every}, {v["name"] for v in t.json("mlpack", "targets")["targets"] if not v["name"].startswith(("vulkan-", "cuda-"))}
    # Nothing is multiplied here: targets that add dot products to another one gain nothing, and are not in the file.
    assert names < known and all("+" in name for name in known - names), (names, known)
    chosen = t_json(t, "explain", "all.mlc")["chosen"]
    native = {v["name"] for v in t.json("mlpack", "build", "m.onnx", "-o", "native.mlc", "--target", "native")["variants"]} - {"portable"}
    assert len(native) == 1 and (native == {chosen} or next(iter(native)).startswith(chosen + "+")), (chosen, native)


def progress_says_what_of_how_many(t):
    identity_model(t, "m.onnx", [2, 3])
    lines = t.run("mlpack", "build", "m.onnx", "--target", "armv8-a,portable", "-o", "m.mlc", "--progress", "plain").stderr.splitlines()
    stages = [line.split(" s  ", 1)[1] for line in lines]
    for stage in ("import", "expand", "golden vectors of main: steps 1", "target 1 of 2, portable: kernels 1", "target 2 of 2, armv8-a: kernels 1"):
        assert stages.count(stage) == 1, (stage, stages)
    assert any(s.startswith("pack: segments ") for s in stages) and any(s.startswith("self-test of variant ") for s in stages), stages
    for flags in (["--progress", "none"], [], ["--json"]):  # standard error is no terminal
        assert t.run("mlpack", "build", "m.onnx", "--target", "portable", "-o", "m.mlc", *flags).stderr == "", flags


def pipelines_have_golden_pictures_of_three_forms(t):
    built = t.json("mlpack", "build", EXAMPLE / "digits.onnx", "--pipeline", EXAMPLE / "pipeline.json", "-o", "d.mlc", "--target", "portable")
    assert built["selftest"]["vectors"] == 4, built
    golden = {g["name"]: g for g in t.json("mlpack", "inspect", "d.mlc")["golden"]}
    assert set(golden) == {"main", "default/landscape", "default/one pixel", "default/portrait"}, golden
    (tested,) = t_json(t, "selftest", "d.mlc")["variants"]
    assert tested["answer"] == "ok" and tested["vectors"] == 4, tested


def steps_move_pixels_as_their_names_say(t):
    picture = [[((7 * x + 13 * y) % 256, (31 * x + y) % 256, (x * y + 5) % 256) for x in range(11)] for y in range(6)]
    (t.dir / "p.png").write_bytes(png(picture))
    (t.dir / "m.onnx").write_bytes(model([node("Identity", ["x"], ["y"])], [port("x", "f32", ["n", 3, "h", "w"])],
                                         [port("y", "f32", ["n", 3, "h", "w"])]))
    black = (0, 0, 0)
    cases = {
        "same": ([], picture),
        "mirrored": ([{"op": "flip", "axis": "horizontal"}], [row[::-1] for row in picture]),
        "upside": ([{"op": "flip", "axis": "vertical"}], picture[::-1]),
        "left": ([{"op": "rotate90", "turns": 1}], [list(column) for column in zip(*picture)][::-1]),
        "cut": ([{"op": "crop", "at": [2, 3], "size": [3, 4]}], [row[3:7] for row in picture[2:5]]),
        "framed": ([{"op": "pad", "mode": "constant", "value": 0, "left": 2, "bottom": 1}],
                   [[black] * 2 + row for row in picture] + [[black] * 13]),
        "bgr": ([{"op": "color", "to": "bgr"}], [[(b, g, r) for r, g, b in row] for row in picture]),
        "doubled": ([{"op": "resize", "size": [12, 22], "kernel": "nearest", "like": "pillow"}],
                    [[p for p in row for _ in range(2)] for row in picture for _ in range(2)]),
    }
    pipelines = {}
    for name, (steps, _) in cases.items():
        decode = {"op": "decode_image", "in": "photo", "color": "rgb", "orient": "ignore", "alpha": "drop"}
        last = {"op": "layout", "to": "NHWC", "out": "pixels"}
        pipelines[name] = {"inputs": {"photo": {"accept": ["image/png"]}}, "steps": [decode, *steps, last], "outputs": ["pixels"]}
    floats = {"op": "normalize", "div": 255}
    pipelines["through"] = {"inputs": {"photo": {"accept": ["image/png"]}}, "outputs": ["answer"], "steps": [
        {"op": "decode_image", "in": "photo", "color": "rgb", "orient": "ignore", "alpha": "drop"}, floats,
        {"op": "layout", "to": "NCHW", "out": "x"},
        {"op": "run", "program": "main", "in": {"x": "x"}, "out": {"y": "answer"}}]}
    (t.dir / "p.json").write_text(json.dumps({"mlc_pipeline": 1, "pipelines": pipelines}))
    t.run("mlpack", "build", "m.onnx", "--pipeline", "p.json", "-o", "p.mlc", "--target", "native")
    t.run("mlrun", "p.mlc", "-i", "p.png", "--pipeline", "nothing", code=2)
    for variant in fitting(t, "p.mlc"):
        for name, (_, rows) in cases.items():
            t.run("mlrun", "p.mlc", "-i", "p.png", "--pipeline", name, "--variant", variant, "-o", "o.npy")
            dtype, shape, data = npy(t.dir / "o.npy")
            assert (dtype, shape) == ("|u1", (1, len(rows), len(rows[0]), 3)), (name, dtype, shape)
            assert data == bytes(v for row in rows for pixel in row for v in pixel), (name, variant)
        t.run("mlrun", "p.mlc", "-i", "p.png", "--pipeline", "through", "--variant", variant, "-o", "o.npy")
        dtype, shape, data = npy(t.dir / "o.npy")
        planes = [pixel[c] / 255 for c in range(3) for row in picture for pixel in row]
        assert (dtype, shape) == ("<f4", (1, 3, 6, 11)) and data == struct.pack(f"<{len(planes)}f", *planes), variant


if __name__ == "__main__":
    main([every_image_gives_its_digit_in_every_variant, pictures_of_every_form_give_the_same_in_every_variant,
          a_build_runs_its_golden_vectors, native_is_what_a_file_for_all_targets_would_run_here, progress_says_what_of_how_many,
          pipelines_have_golden_pictures_of_three_forms, steps_move_pixels_as_their_names_say])
