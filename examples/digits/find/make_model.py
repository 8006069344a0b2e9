#!/usr/bin/env python3
"""Writes ../find.onnx, which says where the digits of a number are: one square for each run of columns with ink.

    make_model.py [FONT.ttf]      with a font it draws ../numbers as well

There is nothing to train: columns with ink are those darker than the middle between the darkest and the brightest element. Needs
`pip install onnx numpy`, for the pictures Pillow; neither the example nor its test needs it: the files are committed.
"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent


def find():
    nodes, constants = [], []

    def number(name, value, dtype=np.float32):
        constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def add(kind, inputs, name, **attributes):
        nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    add("ReduceMax", ["x"], "brightest", keepdims=1)
    add("ReduceMin", ["x"], "darkest", keepdims=1)
    add("Mul", [add("Add", ["brightest", "darkest"], "sum"), number("half", 0.5)], "middle")
    add("Cast", [add("Less", ["x", "middle"], "is_ink")], "ink", to=TensorProto.FLOAT)
    # Places along one axis (of y, of x) at which ink begins and behind which it ends.
    number("first", [0], np.int64), number("one", 1), number("minus_one", -1)
    for axis, others in (("y", [0, 1, 3]), ("x", [0, 1, 2])):
        add("ReduceMax", ["ink"], f"line_{axis}", axes=others, keepdims=0)
        add("Pad", [f"line_{axis}", number(f"around_{axis}", [1, 1], np.int64)], f"wide_{axis}")
        start, end = number(f"second_{axis}", [1], np.int64), number(f"far_{axis}", [2**31 - 1], np.int64)
        add("Slice", [f"wide_{axis}", start, end], f"here_{axis}")
        add("Slice", [f"wide_{axis}", "first", number(f"last_{axis}", [-1], np.int64)], f"before_{axis}")
        add("Sub", [f"here_{axis}", f"before_{axis}"], f"edges_{axis}")
        for what, value in (("begin", "one"), ("end", "minus_one")):
            add("Equal", [f"edges_{axis}", value], f"is_{what}_{axis}")
            add("NonZero", [f"is_{what}_{axis}"], f"row_{what}_{axis}")
            add("Squeeze", [f"row_{what}_{axis}", "first"], f"whole_{what}_{axis}")
            add("Cast", [f"whole_{what}_{axis}"], f"{what}_{axis}", to=TensorProto.FLOAT)
    # The number stands in one line. Squares are a quarter higher than it.
    add("ReduceMin", ["begin_y"], "top", keepdims=1)
    add("ReduceMax", ["end_y"], "bottom", keepdims=1)
    add("Mul", [add("Sub", ["bottom", "top"], "height"), number("more", 0.625)], "reach")
    for axis, low, high in (("y", "top", "bottom"), ("x", "begin_x", "end_x")):
        add("Mul", [add("Add", [low, high], f"both_{axis}"), "half"], f"centre_{axis}")
        add("Sub", [f"centre_{axis}", "reach"], f"low_{axis}")
        add("Add", [f"centre_{axis}", "reach"], f"high_{axis}")
    add("Mul", ["begin_x", number("zero", 0)], "zeros")
    columns = []
    for name in ("low_x", "low_y", "high_x", "high_y"):
        add("Unsqueeze", [add("Add", [name, "zeros"], f"all_{name}"), "axis_one"], f"column_{name}")
        columns.append(f"column_{name}")
    number("axis_one", [1], np.int64)
    add("Concat", columns, "boxes", axis=1)
    graph = helper.make_graph(nodes, "find", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, "height", "width"])],
                              [helper.make_tensor_value_info("boxes", TensorProto.FLOAT, ["digits", 4])], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, HERE.parent / "find.onnx")


def pictures(font):
    from PIL import Image, ImageDraw, ImageFilter, ImageFont
    for name, text, paper, ink, size in (("meter.png", "0 4 7 1 9 6", 235, 30, 44), ("receipt.png", "2 8 5 0", 200, 60, 60)):
        letters = ImageFont.truetype(font, size)
        left, top, right, bottom = letters.getbbox(text)
        image = Image.new("L", (right - left + size, bottom - top + size), paper)
        ImageDraw.Draw(image).text((size / 2 - left, size / 2 - top), text, fill=ink, font=letters)
        pixels = np.asarray(image.filter(ImageFilter.GaussianBlur(0.8)), np.float32)
        pixels += np.random.default_rng(size).normal(0, 6, pixels.shape) + np.linspace(-12, 12, pixels.shape[1])
        Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(HERE.parent / "numbers" / name, optimize=True)


if __name__ == "__main__":
    find()
    if len(sys.argv) > 1:
        pictures(sys.argv[1])
