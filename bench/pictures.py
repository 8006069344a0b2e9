"""A JPEG of a camera's size to a detector's input and boxes back, and what decoding and resizing alone take elsewhere, in turns, in one process, from Python.

    python3 bench/pictures.py --bin build/release/bin [--picture FILE] [--rounds N]

The line to hold: all of pre- and post-processing takes at most 1.2 times what libjpeg-turbo takes to decode (through Pillow or OpenCV, whichever is faster) and
the faster of OpenCV (INTER_LINEAR) and Pillow (BILINEAR, which looks at every pixel) to resize, one thread each. The other side has no frame around the picture, no floats, no
other layout and no boxes. Times are those of the processor, so that other work beside it counts less. Needs numpy, onnx, opencv, Pillow and the wheel `mlrt`.

The detector is a stand-in of the form of YOLOv8 (640 x 640, 80 classes, 8,400 rows): a first convolution as such models have it, whose mean times 0 is added to constant rows. What it takes by itself, measured in the same turns, is taken off. `--picture` is a file to enlarge to 1920 x 1080; without it the picture is smooth noise of several scales
with edges. Prints minimum and median of each in ms.
"""
import argparse
import io
import json
import math
import pathlib
import statistics
import subprocess
import tempfile
import time

import cv2
import mlrt
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

HEIGHT, WIDTH, SIDE, ROWS, CLASSES = 1080, 1920, 640, 8400, 80


def photo(path):
    """u8 [1080, 1920, 3]: content and noise as a camera makes them, so that entropy decoding has its usual part."""
    draw = np.random.default_rng(3)
    if path:
        picture = cv2.resize(cv2.imread(path, cv2.IMREAD_COLOR), (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC).astype(np.float32)
    else:
        picture = np.full((HEIGHT, WIDTH, 3), 110, np.float32)
        for scale, height in ((240, 60), (60, 30), (15, 12), (5, 6)):
            grid = draw.normal(0, height, (HEIGHT // scale + 2, WIDTH // scale + 2, 3)).astype(np.float32)
            picture += cv2.resize(grid, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC)
        for _ in range(60):
            x, y, w, h = (int(draw.integers(n)) for n in (WIDTH, HEIGHT, 300, 300))
            cv2.rectangle(picture, (x, y), (x + w, y + h), [float(v) for v in draw.integers(0, 255, 3)], -1)
    return np.clip(picture + draw.normal(0, 2, picture.shape[:2] + (1,)), 0, 255).astype(np.uint8)


def rows():
    """f32 [1, 84, 8400]: forty objects, eight candidates for each, and scores near nothing elsewhere."""
    draw = np.random.default_rng(5)
    out = np.empty((1, 4 + CLASSES, ROWS), np.float32)
    out[0, :4] = draw.uniform(20, 600, (4, ROWS))
    out[0, 4:] = draw.uniform(0, 0.05, (CLASSES, ROWS))
    for i in draw.permutation(ROWS)[:320]:
        k = i % 40
        out[0, :4, i] = np.array([80 + 13 * k, 200 + 5 * k, 60 + k, 50 + 2 * k]) + draw.normal(0, 2, 4)
        out[0, 4 + k % CLASSES, i] = draw.uniform(0.3, 0.95)
    return out


def detector(path, table=None):
    """Writes the stand-in; without a table only what computes, for the time that is taken off."""
    window = np.random.default_rng(6).normal(0, 0.1, (16, 3, 3, 3)).astype(np.float32)
    nodes = [helper.make_node("Conv", ["images", "window"], ["first"], strides=[2, 2], pads=[1, 1, 1, 1]), helper.make_node("ReduceMean", ["first"], ["mean"], axes=[1, 2, 3], keepdims=0),
             helper.make_node("Mul", ["mean", "none"], ["nothing" if table is not None else "output0"])]
    constants = [numpy_helper.from_array(window, "window"), numpy_helper.from_array(np.zeros((), np.float32), "none")]
    if table is not None:
        nodes.append(helper.make_node("Add", ["table", "nothing"], ["output0"]))
        constants.append(numpy_helper.from_array(table, "table"))
    graph = helper.make_graph(nodes, "stand_in", [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
                              [helper.make_tensor_value_info("output0", TensorProto.FLOAT, [] if table is None else list(table.shape))], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def pipeline(small):
    return {"mlc_pipeline": 1, "inputs": {"photo": {"accept": ["image/jpeg"]}}, "steps": [
        {"op": "decode_image", "in": "photo", "color": "rgb", "orient": "exif", "alpha": "drop"},
        {"op": "letterbox", "size": [SIDE, SIDE], "upscale": True, **small, "value": 114, "out": "boxed"},
        {"op": "normalize", "div": 255},
        {"op": "layout", "to": "NCHW", "out": "x"},
        {"op": "run", "program": "main", "in": {"images": "x"}, "out": {"output0": "rows"}},
        {"op": "boxes", "form": "yolo8", "in": "rows", "out": {"boxes": "boxes", "scores": "scores"}},
        {"op": "nms", "in": {"boxes": "boxes", "scores": "scores"}, "score": 0.25, "iou": 0.7, "per": "class", "max": 300},
        {"op": "unletterbox", "of": "boxed", "clip": True, "out": "found"}],
        "outputs": ["found"]}


def opened(args, folder, name, described=None):
    command = [args.bin / "mlpack", "build", folder / ("m.onnx" if described else "bare.onnx"), "--target", "native", "--no-sign", "--progress", "none", "-o", folder / f"{name}.mlc"]
    if described:
        (folder / f"{name}.json").write_text(json.dumps(described))
        command += ["--pipeline", folder / f"{name}.json"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return mlrt.open(folder / f"{name}.mlc", threads=1, allow_unsigned=True, time_limit=math.inf, memory_limit=math.inf)


def in_turns(calls, rounds):
    """(least, median) in ms of the processor of each call; every round has one of each."""
    times = {name: [] for name in calls}
    for k in range(rounds + 2):
        for name, call in calls.items():
            start = time.process_time()
            call()
            if k > 1:
                times[name].append((time.process_time() - start) * 1e3)
    return {name: (min(t), statistics.median(t)) for name, t in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--picture")
    parser.add_argument("--rounds", type=int, default=40)
    args = parser.parse_args()
    cv2.setNumThreads(1)
    encoded = io.BytesIO()
    Image.fromarray(photo(args.picture)).save(encoded, "JPEG", quality=90)
    data = encoded.getvalue()
    print(f"{WIDTH} x {HEIGHT}, {len(data) / 1024:.0f} KiB of JPEG, to {SIDE} x {SIDE}")

    bits, decoded = np.frombuffer(data, np.uint8), np.asarray(Image.open(io.BytesIO(data)))
    picture, size = Image.fromarray(decoded), (SIDE, HEIGHT * SIDE // WIDTH)
    resizes = {"linear": ({"kernel": "linear", "like": "opencv"}, lambda: cv2.resize(decoded, size, interpolation=cv2.INTER_LINEAR)),
               "bilinear, all pixels": ({"kernel": "bilinear", "like": "pillow"}, lambda: picture.resize(size, Image.Resampling.BILINEAR))}
    calls = {"decode, Pillow": lambda: Image.open(io.BytesIO(data)).load(), "decode, OpenCV": lambda: cv2.imdecode(bits, cv2.IMREAD_COLOR)}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        detector(folder / "m.onnx", rows())
        detector(folder / "bare.onnx")
        bare, zeros = opened(args, folder, "bare"), mlrt.empty((1, 3, SIDE, SIDE), np.float32)  # used in place
        zeros[:] = 0
        calls["model"] = lambda: bare.run(images=zeros)
        for name, (small, resize) in resizes.items():
            ours = opened(args, folder, name.split(",")[0], pipeline(small))
            assert len(ours.run(photo=data)["found"]) >= 40, "each object of the rows is found"
            calls |= {f"resize, {name}": resize, f"all, {name}": lambda ours=ours: ours.run(photo=data),
                      f"decoded, {name}": lambda ours=ours: ours.run(photo=decoded)}
        times = in_turns(calls, args.rounds)
    for name, (least, median) in times.items():
        print(f"{name:32} {least:7.2f} ({median:.2f})")
    decode = [min(times[f"decode, {p}"][k] for p in ("Pillow", "OpenCV")) for k in (0, 1)]
    print("| pipeline | here | decode and resize | ratio |\n|---|---|---|---|")
    for name in resizes:
        ours = [times[f"all, {name}"][k] - times["model"][k] for k in (0, 1)]
        theirs = [decode[k] + times[f"resize, {name}"][k] for k in (0, 1)]
        print(f"| {name} | {ours[0]:.2f} ({ours[1]:.2f}) | {theirs[0]:.2f} ({theirs[1]:.2f}) | {ours[0] / theirs[0]:.2f} ({ours[1] / theirs[1]:.2f}) |")


main()
