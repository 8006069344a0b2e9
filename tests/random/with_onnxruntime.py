#!/usr/bin/env python3
"""Compares what `random_graphs --dump DIR` wrote with ONNX Runtime: with_onnxruntime.py DIR...

By hand; needs numpy, onnx, onnxruntime.

The interpreter's outputs are the ones compared, so that a definition that we misread is seen, which no comparison of
our own paths with each other shows. Graphs that ONNX Runtime has no kernels for are counted."""
import collections
import glob
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

ort.set_default_logger_severity(4)


def values(folder, kind):
    pattern = f"{folder}/test_data_set_0/{kind}_*.pb"
    files = sorted(glob.glob(pattern), key=lambda f: int(f.rsplit("_", 1)[1][:-3]))
    tensors = [onnx.load_tensor(f) for f in files]
    return [(t.name, numpy_helper.to_array(t)) for t in tensors]


def tolerance(model):
    """Relative to the largest magnitude. Codes and positions may hang on ties: one of a hundred may differ."""
    types = {t.type.tensor_type.elem_type for t in model.graph.input} | {t.data_type for t in model.graph.initializer}
    types |= {a.i for n in model.graph.node if n.op_type == "Cast" for a in n.attribute}
    half = onnx.TensorProto.FLOAT16 in types
    return 2e-2 if half else 1e-3


def difference(model, got, want):
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"is {got.dtype}{list(got.shape)}, ours {want.dtype}{list(want.shape)}"
    a, b = got.astype(np.float64), want.astype(np.float64)
    known = np.isfinite(a) & np.isfinite(b)
    if not known.any():
        return ""
    largest = np.abs(b[known]).max()
    allowed = tolerance(model) * (largest + np.abs(b)) if want.dtype.kind == "f" else 0
    wrong = known & (np.abs(a - b) > allowed)
    if wrong.sum() == 0 or (want.dtype.kind != "f" and wrong.mean() < 0.01):
        return ""
    first = np.argwhere(wrong)[0].tolist()
    one, ours = a[tuple(first)], b[tuple(first)]
    return f"{wrong.sum()} of {wrong.size} differ, first {first}: {one:.9g}, ours {ours:.9g} (largest {largest:.4g})"


def main(roots):
    counts = collections.Counter()
    plain = ort.SessionOptions()  # fused, codes between operators would be rounded elsewhere
    plain.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    for path in sorted(p for root in roots for p in glob.glob(f"{root}/**/model.onnx", recursive=True)):
        folder = os.path.dirname(path)
        model = onnx.load(path)
        try:
            session = ort.InferenceSession(path, plain, providers=["CPUExecutionProvider"])
            got = session.run(None, dict(values(folder, "input")))
        except Exception as error:  # whatever it raises, it has no answer
            counts["not run by ONNX Runtime: " + str(error).split("\n")[0][:110]] += 1
            continue
        both = zip(values(folder, "output"), got)
        texts = [f"{name}: {text}" for (name, want), one in both if (text := difference(model, one, want))]
        counts["differ" if texts else "same"] += 1
        if texts:
            print(folder, texts[0], " ".join(n.op_type for n in model.graph.node) if len(model.graph.node) < 12 else "")
    for text, count in counts.most_common():
        print(count, text)
    return 1 if counts["differ"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
