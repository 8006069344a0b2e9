#!/usr/bin/env python3
"""Writes the two models of this example and what NumPy says that they compute.

    make_models.py        writes capsules.onnx, faces.onnx, capsules.npz, faces.npz beside this file

Needs `pip install onnx numpy`; neither the example nor its test needs it: the files are committed.
"""
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
DOMAIN = "example"
OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]


def squash(s):  # over the last axis
    norm = np.sum(s * s, axis=-1, keepdims=True)
    return s * norm / ((1 + norm) * np.sqrt(norm + 1e-7))


def conv_capsule(x, weight, stride):
    n, c, e, h, w = x.shape
    m, f, _, _, u, v = weight.shape
    p, q = (h - u) // stride + 1, (w - v) // stride + 1
    vote = np.zeros((n, p, q, c, u, v, m, f))
    for i in range(p):
        for j in range(q):
            patch = x[:, :, :, i * stride:i * stride + u, j * stride:j * stride + v]
            vote[:, i, j] = np.einsum("nceuv,mfceuv->ncuvmf", patch, weight)
    logits = np.zeros((n, p, q, c, u, v, m))
    for routing in range(3):
        coupling = np.exp(logits - logits.max(-1, keepdims=True))
        coupling /= coupling.sum(-1, keepdims=True)
        y = squash(np.einsum("npqcuvm,npqcuvmf->npqmf", coupling, vote))
        logits += np.einsum("npqcuvmf,npqmf->npqcuvm", vote, y)
    return np.moveaxis(y, (1, 2), (3, 4))


def blend_boxes(boxes, scores, overlap, least):
    live, faces, best = scores >= least, [], []
    area = np.prod(np.maximum(boxes[:, 2:] - boxes[:, :2], 0), axis=1)
    while live.any():
        top = int(np.argmax(np.where(live, scores, -np.inf)))
        both = np.prod(np.maximum(np.minimum(boxes[top, 2:], boxes[:, 2:]) - np.maximum(boxes[top, :2], boxes[:, :2]), 0), axis=1)
        same = live & (both > overlap * (area[top] + area - both))
        same[top] = True
        faces.append(scores[same] @ boxes[same] / scores[same].sum())
        best.append(scores[top])
        live &= ~same
    return np.array(faces, np.float32).reshape(-1, 4), np.array(best, np.float32)


def save(name, nodes, inputs, outputs, constants, given, expected):
    graph = helper.make_graph(nodes, name, inputs, outputs, [numpy_helper.from_array(v, k) for k, v in constants.items()])
    model = helper.make_model(graph, opset_imports=OPSETS, producer_name="examples/custom_operator", ir_version=8)
    (HERE / f"{name}.onnx").write_bytes(model.SerializeToString())
    arrays = {f"in:{k}": v for k, v in given.items()} | {f"out:{k}": v for k, v in expected.items()}
    np.savez_compressed(HERE / f"{name}.npz", **arrays)


def capsules(rng):
    # Sixteen channels become four types of capsules with four components; two types above them; their length is the score.
    kernel = rng.normal(0, 0.3, (16, 1, 3, 3)).astype(np.float32)
    weight = rng.normal(0, 0.5, (2, 6, 4, 4, 3, 3)).astype(np.float32)
    image = rng.uniform(-1, 1, (2, 1, 9, 10)).astype(np.float32)
    convolved = np.zeros((2, 16, 7, 8))
    for i in range(3):
        for j in range(3):
            convolved += np.einsum("nchw,mc->nmhw", image[:, :, i:i + 7, j:j + 8], kernel[:, :, i, j])
    poses = conv_capsule(convolved.reshape(2, 4, 4, 7, 8), weight, 2)
    nodes = [helper.make_node("Conv", ["image", "kernel"], ["convolved"], "conv"),
             helper.make_node("Shape", ["convolved"], ["batch"], "batch", start=0, end=1),
             helper.make_node("Shape", ["convolved"], ["places"], "places", start=2, end=4),
             helper.make_node("Concat", ["batch", "types", "places"], ["shape"], "shape", axis=0),
             helper.make_node("Reshape", ["convolved", "shape"], ["capsules"], "reshape"),
             helper.make_node("ConvCapsule", ["capsules", "weight"], ["poses"], "routing", domain=DOMAIN, stride=2),
             helper.make_node("ReduceL2", ["poses"], ["scores"], "length", axes=[2], keepdims=0)]
    save("capsules", nodes, [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, "H", "W"])],
         [helper.make_tensor_value_info("scores", TensorProto.FLOAT, None)],
         {"kernel": kernel, "weight": weight, "types": np.array([4, 4], np.int64)}, {"image": image},
         {"scores": np.sqrt((poses ** 2).sum(2)).astype(np.float32)})


def faces(rng):
    centre = np.repeat(rng.uniform(0, 100, (5, 2)), 6, axis=0) + rng.normal(0, 2, (30, 2))
    size = rng.uniform(10, 14, (30, 2))
    boxes = np.concatenate([centre - size, centre + size], axis=1).astype(np.float32)
    logits = rng.normal(0.5, 1, 30).astype(np.float32)
    scores = (1 / (1 + np.exp(-logits.astype(np.float64)))).astype(np.float32)
    found, best = blend_boxes(boxes, scores, 0.3, 0.5)
    nodes = [helper.make_node("Sigmoid", ["logits"], ["scores"], "sigmoid"),
             helper.make_node("BlendBoxes", ["boxes", "scores"], ["faces", "best"], "blend", domain=DOMAIN)]
    save("faces", nodes, [helper.make_tensor_value_info("boxes", TensorProto.FLOAT, ["n", 4]),
                          helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n"])],
         [helper.make_tensor_value_info("faces", TensorProto.FLOAT, ["k", 4]),
          helper.make_tensor_value_info("best", TensorProto.FLOAT, ["k"])], {}, {"boxes": boxes, "logits": logits},
         {"faces": found, "best": best})


capsules(np.random.default_rng(1))
faces(np.random.default_rng(2))
