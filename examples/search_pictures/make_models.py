#!/usr/bin/env python3
"""Writes a model of two towers of the form of CLIP, its tokenizer, and pictures to search.

    make_models.py        writes text_model.onnx, vision_model.onnx, tokenizer.json and pictures/ beside this file

Inputs and outputs are those of CLIP as Transformers exports it: 77 tokens and pictures of 224 x 224. The weights are no trained ones: the first
three numbers of a vector are a colour, by hand, and the others are drawn. So "red" finds what is red, and nothing else is known.
Needs `pip install onnx numpy`; neither the example nor its test needs it: the files are committed.
"""
import json
import pathlib
import struct
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
WIDTH, VECTOR, TOKENS = 16, 12, 77
COLOURS = {"red": (1, -1, -1), "green": (-1, 1, -1), "blue": (-1, -1, 1), "yellow": (1, 1, -1), "white": (1, 1, 1), "black": (-1, -1, -1)}
WORDS = [*COLOURS, "photo", "picture", "of", "the", "car", "boat"]
START, END = "<|startoftext|>", "<|endoftext|>"
draw = np.random.default_rng(5)


def small(*shape):
    return (draw.standard_normal(shape) * 0.02).astype(np.float32)


def tokenizer():
    """Byte pairs with a mark at the end of words, as CLIP's, of letters, digits and a few words."""
    letters = [chr(c) for c in range(ord("!"), ord("~") + 1)]
    vocabulary, merges = letters + [c + "</w>" for c in letters], []
    for word in WORDS:
        parts = [*word[:-1], word[-1] + "</w>"]
        while len(parts) > 1:
            if f"{parts[0]} {parts[1]}" not in merges:
                merges.append(f"{parts[0]} {parts[1]}")
            parts[:2] = [parts[0] + parts[1]]
            if parts[0] not in vocabulary:
                vocabulary.append(parts[0])
    ids = {token: i for i, token in enumerate([*vocabulary, START, END])}
    special = [{"id": ids[t], "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for t in (START, END)]
    pieces = "'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+"
    written = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": " "}, {"type": "Lowercase"}]},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pieces}, "behavior": "Removed", "invert": True},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]},
        "post_processor": {"type": "RobertaProcessing", "sep": [END, ids[END]], "cls": [START, ids[START]], "trim_offsets": False, "add_prefix_space": False},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": END, "continuing_subword_prefix": "", "end_of_word_suffix": "</w>", "fuse_unk": False,
                  "vocab": ids, "merges": merges}}
    (HERE / "tokenizer.json").write_text(json.dumps(written, ensure_ascii=False, indent=1) + "\n")
    return ids


def save(name, nodes, inputs, output, constants):
    ports = [helper.make_tensor_value_info(n, t, shape) for n, t, shape in inputs]
    result = [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch_size", VECTOR])]
    graph = helper.make_graph(nodes, name, ports, result, [numpy_helper.from_array(v, k) for k, v in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="examples/search_pictures", ir_version=8)
    onnx.checker.check_model(model)
    (HERE / f"{name}.onnx").write_bytes(model.SerializeToString())


def projection():
    matrix = small(WIDTH, VECTOR)
    matrix[:3, :3] += np.eye(3, dtype=np.float32)
    return matrix


def text_tower(ids):
    """The token with the highest number, which ends the text, looks at all that the mask keeps."""
    table = small(len(ids), WIDTH)
    for word, colour in COLOURS.items():
        table[ids[word + "</w>"], :3] += np.array(colour, np.float32)
    node = helper.make_node
    nodes = [
        node("Gather", ["table", "input_ids"], ["words"]), node("Add", ["words", "places"], ["h"]),
        node("Transpose", ["h"], ["keys"], perm=[0, 2, 1]), node("MatMul", ["h", "keys"], ["likeness"]), node("Mul", ["likeness", "scale"], ["scores"]),
        node("Cast", ["attention_mask"], ["kept"], to=TensorProto.FLOAT), node("Sub", ["one", "kept"], ["off"]), node("Mul", ["off", "far"], ["bias"]),
        node("Unsqueeze", ["bias", "axis"], ["row"]), node("Add", ["scores", "row"], ["masked"]), node("Softmax", ["masked"], ["weights"], axis=-1),
        node("MatMul", ["weights", "h"], ["mixed"]), node("ArgMax", ["input_ids"], ["end"], axis=-1, keepdims=1), node("Unsqueeze", ["end", "last"], ["at"]),
        node("Expand", ["at", "columns"], ["all"]), node("GatherElements", ["mixed", "all"], ["picked"], axis=1), node("Squeeze", ["picked", "axis"], ["pooled"]),
        node("MatMul", ["pooled", "projection"], ["text_embeds"])]
    constants = {"table": table, "places": small(TOKENS, WIDTH), "scale": np.float32(WIDTH ** -0.5), "one": np.float32(1), "far": np.float32(-1e4),
                 "axis": np.array([1]), "last": np.array([2]), "columns": np.array([1, 1, WIDTH]), "projection": projection()}
    inputs = [(name, TensorProto.INT64, ["batch_size", TOKENS]) for name in ("input_ids", "attention_mask")]
    save("text_model", nodes, inputs, "text_embeds", constants)


def vision_tower():
    """Patches of 32 x 32, one layer of attention, the mean of all patches."""
    patch = small(WIDTH, 3, 4, 4)
    for c in range(3):
        patch[c, c] += 1 / 16
    node = helper.make_node
    nodes = [
        node("AveragePool", ["pixel_values"], ["coarse"], kernel_shape=[8, 8], strides=[8, 8]),
        node("Conv", ["coarse", "patch"], ["patches"], kernel_shape=[4, 4], strides=[4, 4]),
        node("Reshape", ["patches", "rows"], ["flat"]), node("Transpose", ["flat"], ["seen"], perm=[0, 2, 1]), node("Add", ["seen", "places"], ["h"]),
        node("Transpose", ["h"], ["keys"], perm=[0, 2, 1]), node("MatMul", ["h", "keys"], ["likeness"]), node("Mul", ["likeness", "scale"], ["scores"]),
        node("Softmax", ["scores"], ["weights"], axis=-1), node("MatMul", ["weights", "h"], ["mixed"]), node("Add", ["h", "mixed"], ["out"]),
        node("ReduceMean", ["out"], ["pooled"], axes=[1], keepdims=0), node("MatMul", ["pooled", "projection"], ["image_embeds"])]
    constants = {"patch": patch, "rows": np.array([0, WIDTH, -1]), "places": small(49, WIDTH), "scale": np.float32(WIDTH ** -0.5), "projection": projection()}
    save("vision_model", nodes, [("pixel_values", TensorProto.FLOAT, ["batch_size", 3, 224, 224])], "image_embeds", constants)


def picture(path, colour, height, width):
    """A disc of the colour on grey."""
    y, x = np.mgrid[:height, :width]
    inside = ((y - height / 2) / height) ** 2 + ((x - width / 2) / width) ** 2 < 0.2
    pixels = np.where(inside[..., None], np.array(colour) * 100 + 128, 128).astype(np.uint8)
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows, 9)) +
                     chunk(b"IEND", b""))


if __name__ == "__main__":
    numbers = tokenizer()
    text_tower(numbers)
    vision_tower()
    for k, (name, colour) in enumerate(COLOURS.items()):
        picture(HERE / "pictures" / ("more" if k % 2 else "") / f"{k + 1}.png", colour, 120 + 20 * k, 200)
