#!/usr/bin/env python3
"""Writes single operators with ordinary shapes, inputs as ONNX's node tests have them: what bench/operators.py times.

    neighbours.py OUT [--only TEXT]...      writes OUT/NAME/model.onnx and OUT/NAME/test_data_set_0/input_K.pb

They stand beside those of the reports: other axes, lengths and kinds of the same families. No answers: the conformance tests have
those. The numbers are the same in every run. Needs numpy and onnx.
"""
import argparse
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(7)
F = np.float32
CASES = {}


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(F)


def ints(high, *shape):
    return RANDOM.integers(0, high, shape)


def case(name, nodes, feeds, constants=None, outs="y", opset=20):
    """outs: names of the outputs; one that begins with "i" is of integers, one with "u" of 32 bits, else it is of floats."""
    kinds = {"i": TensorProto.INT64, "u": TensorProto.INT32}
    ports = [helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(a.dtype) if a.dtype != object else TensorProto.STRING, a.shape)
             for key, a in feeds.items()]
    found = [helper.make_tensor_value_info(key, kinds.get(key[0], TensorProto.FLOAT), None) for key in outs.split()]
    inits = [numpy_helper.from_array(np.asarray(a), key) for key, a in (constants or {}).items() if key]
    graph = helper.make_graph(nodes, name, ports, found, inits)
    domains = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("com.microsoft", 1)]
    CASES[name] = helper.make_model(graph, opset_imports=domains, ir_version=9), feeds


def one(name, op, shape, constants=None, outs="y", domain="", opset=20, **attributes):
    """An operator of x and of constants, in the order in which they are given."""
    node = helper.make_node(op, ["x", *(constants or {})], outs.split(), domain=domain, **attributes)
    case(name, [node], {"x": normal(*shape)}, constants, outs, opset)


def folds():
    for axis in range(3):
        one(f"sum_axis{axis}", "ReduceSum", (64, 96, 128), {"a": np.array([axis])}, keepdims=0)
    one("mean_spatial", "ReduceMean", (8, 256, 14, 14), {"a": np.array([2, 3])})
    one("mean_outer", "ReduceMean", (8, 64, 28, 28), {"a": np.array([0, 2, 3])})
    one("max_last", "ReduceMax", (512, 1000), {"a": np.array([1])})
    one("max_first", "ReduceMax", (512, 1000), {"a": np.array([0])})
    one("sum_all", "ReduceSum", (1000000,), {"a": np.array([0])})
    one("l1_last", "ReduceL1", (256, 3000), {"a": np.array([1])})
    one("logsumexp_last", "ReduceLogSumExp", (256, 3000), {"a": np.array([1])})
    one("prod_last", "ReduceProd", (4000, 16), {"a": np.array([1])})
    one("argmax_last", "ArgMax", (256, 4000), outs="i", axis=1)
    one("argmin_first", "ArgMin", (1000, 256), outs="i", axis=0)


def rows():
    for n in (1000, 10000, 100000):
        one(f"softmax_{n}", "Softmax", (200000 // n, n))
        one(f"logsoftmax_{n}", "LogSoftmax", (200000 // n, n))
    one("softmax_64", "Softmax", (8, 12, 64, 64))
    one("softmax_first", "Softmax", (100, 2000), axis=0)
    for axis, shape in ((0, (500, 1000)), (0, (20000, 16)), (1, (64, 100, 64)), (1, (500, 1000))):
        one(f"cumsum_axis{axis}_{'x'.join(map(str, shape))}", "CumSum", shape, {"a": np.array(axis)})
    one("cumsum_back", "CumSum", (64, 4000), {"a": np.array(1)}, reverse=1, exclusive=1)


def norms():
    c = {"g": normal(768), "b": normal(768)}
    one("layernorm_768", "LayerNormalization", (128, 768), c)
    one("layernorm_4096", "LayerNormalization", (32, 4096), {"g": normal(4096), "b": normal(4096)})
    one("rmsnorm_768", "SimplifiedLayerNormalization", (128, 768), {"g": normal(768)}, axis=-1)
    one("groupnorm_32", "GroupNormalization", (1, 320, 32, 32), {"g": normal(320), "b": normal(320)}, num_groups=32, opset=21)
    one("instancenorm_small", "InstanceNormalization", (4, 256, 16, 16), {"g": normal(256), "b": normal(256)})
    one("batchnorm", "BatchNormalization", (1, 64, 56, 56), {"g": normal(64), "b": normal(64), "m": normal(64), "v": np.abs(normal(64)) + F(.1)})
    one("lpnorm", "LpNormalization", (512, 512), axis=-1)


def movement():
    for name, shape, perm in (("nchw_nhwc", (1, 64, 112, 112), (0, 2, 3, 1)), ("nhwc_nchw", (1, 112, 112, 64), (0, 3, 1, 2)),
                              ("heads", (8, 128, 12, 64), (0, 2, 1, 3)), ("keys", (8, 12, 128, 64), (0, 1, 3, 2)), ("square", (1000, 1000), (1, 0)),
                              ("shuffle", (1, 8, 32, 28, 28), (0, 2, 1, 3, 4)), ("rgb", (480, 640, 3), (2, 0, 1)), ("back", (64, 48, 80), (2, 1, 0))):
        one(f"transpose_{name}", "Transpose", shape, perm=perm)
    for mode in ("constant", "edge", "reflect", "wrap"):
        one(f"pad_{mode}", "Pad", (1, 64, 56, 56), {"p": np.array([0, 0, 1, 1, 0, 0, 1, 1])}, mode=mode)
    one("pad_channels", "Pad", (1, 64, 56, 56), {"p": np.array([0, 0, 0, 0, 0, 64, 0, 0])})
    one("gather_middle", "Gather", (64, 500, 64), {"i": ints(500, 100)}, axis=1)
    one("gather_embedding", "Gather", (30000, 384), {"i": ints(30000, 8, 128)}, axis=0)
    one("gatherelements_rows", "GatherElements", (1000, 256), {"i": ints(1000, 500, 256)}, axis=0)
    one("slice_steps", "Slice", (1, 32, 160, 160), {"s": np.array([0, 1]), "e": np.array([160, 160]), "a": np.array([2, 3]), "t": np.array([2, 2])})
    one("slice_back", "Slice", (256, 1000), {"s": np.array([-1]), "e": np.array([-2000]), "a": np.array([1]), "t": np.array([-1])})
    one("depth_to_space", "DepthToSpace", (1, 64, 64, 64), blocksize=2, mode="CRD")
    one("space_to_depth", "SpaceToDepth", (1, 16, 128, 128), blocksize=2)
    one("tile_rows", "Tile", (1, 64, 100), {"r": np.array([32, 1, 2])})
    one("trilu", "Trilu", (16, 256, 256), upper=0)
    case("concat_channels", [helper.make_node("Concat", ["x", "z"], ["y"], axis=1)], {"x": normal(4, 64, 28, 28), "z": normal(4, 32, 28, 28)})
    case("concat_last", [helper.make_node("Concat", ["x", "z"], ["y"], axis=-1)], {"x": normal(2000, 60), "z": normal(2000, 4)})
    one("split_last", "Split", (128, 2304), outs="y z w", axis=1, num_outputs=3)


def pictures():
    one("resize_nearest", "Resize", (1, 64, 40, 40), {"": None, "s": np.array([1, 1, 2, 2], F)}, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    one("resize_down", "Resize", (1, 3, 720, 1280), {"": None, "s": np.array([1, 1, .25, .25], F)}, mode="linear")
    one("resize_odd", "Resize", (1, 32, 50, 50), {"": None, "s": np.array([1, 1, 1.5, 1.5], F)}, mode="linear", coordinate_transformation_mode="asymmetric")
    one("maxpool_3x3s2", "MaxPool", (1, 64, 112, 112), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    one("maxpool_9", "MaxPool", (1, 128, 20, 20), kernel_shape=[9, 9], pads=[4] * 4)
    one("averagepool_15", "AveragePool", (1, 64, 56, 56), kernel_shape=[15, 15], pads=[7] * 4)
    one("averagepool_2", "AveragePool", (1, 64, 56, 56), kernel_shape=[2, 2], strides=[2, 2])
    one("pool1d", "MaxPool", (8, 64, 1000), kernel_shape=[3], strides=[2])
    one("global_max", "GlobalMaxPool", (8, 512, 7, 7))
    one("depthwise3", "Conv", (1, 144, 56, 56), {"w": normal(144, 1, 3, 3)}, pads=[1] * 4, group=144)
    one("depthwise3s2", "Conv", (1, 144, 56, 56), {"w": normal(144, 1, 3, 3)}, pads=[1] * 4, group=144, strides=[2, 2])
    one("depthwise5", "Conv", (1, 240, 28, 28), {"w": normal(240, 1, 5, 5)}, pads=[2] * 4, group=240)
    one("depthwise_1x31", "Conv", (1, 64, 32, 200), {"w": normal(64, 1, 1, 31)}, pads=[0, 15, 0, 15], group=64)
    one("depthwise_31x1", "Conv", (1, 64, 200, 32), {"w": normal(64, 1, 31, 1)}, pads=[15, 0, 15, 0], group=64)
    one("conv1d_causal", "Conv", (1, 128, 1000), {"w": normal(128, 1, 3)}, pads=[4, 0], dilations=[2], group=128)
    one("grouped8", "Conv", (1, 64, 56, 56), {"w": normal(64, 8, 3, 3)}, pads=[1] * 4, group=8)
    one("grouped2", "Conv", (1, 96, 27, 27), {"w": normal(256, 48, 5, 5)}, pads=[2] * 4, group=2)
    one("conv_3x3", "Conv", (1, 64, 56, 56), {"w": normal(64, 64, 3, 3)}, pads=[1] * 4)
    one("conv_1x1", "Conv", (1, 256, 28, 28), {"w": normal(128, 256, 1, 1)})
    one("conv_first", "Conv", (1, 3, 224, 224), {"w": normal(32, 3, 3, 3)}, pads=[1] * 4, strides=[2, 2])
    one("conv1d_5", "Conv", (1, 80, 1000), {"w": normal(256, 80, 5)}, pads=[2, 2])
    one("convt_2x2", "ConvTranspose", (1, 64, 56, 56), {"w": normal(64, 32, 2, 2)}, strides=[2, 2])


def products():
    for m, k, n in ((1, 768, 3072), (1, 4096, 1024), (4, 512, 512), (64, 64, 64), (128, 768, 768), (7, 100, 13), (1000, 10, 10), (300, 300, 1)):
        one(f"matmul_{m}x{k}x{n}", "MatMul", (m, k), {"w": normal(k, n)})
    case("gemm_transposed", [helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)], {"x": normal(32, 512)}, {"w": normal(1000, 512), "b": normal(1000)})
    for name, left, right in (("scores", (12, 128, 64), (12, 64, 128)), ("values", (12, 128, 128), (12, 128, 64)), ("tiny", (2000, 4, 4), (2000, 4, 4)),
                              ("vectors", (256, 1, 64), (256, 64, 64)), ("both", (1, 300, 300), (1, 300, 300))):
        case(f"bmm_{name}", [helper.make_node("MatMul", ["x", "z"], ["y"])], {"x": normal(*left), "z": normal(*right)})
    for m, k, n in ((1, 768, 768), (16, 256, 1024), (128, 768, 768)):
        case(f"int8_{m}x{k}x{n}", [helper.make_node("MatMulInteger", ["x", "w", "z"], ["u"])], {"x": ints(255, m, k).astype(np.uint8)},
             {"w": (ints(254, k, n) - 127).astype(np.int8), "z": np.array(128, np.uint8)}, "u")
    scales = {"s": F(.02), "zp": np.array(128, np.uint8), "w": (ints(254, 64, 64, 3, 3) - 127).astype(np.int8), "ws": F(.01), "wz": np.array(0, np.int8),
              "os": F(.5), "oz": np.array(128, np.uint8)}
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "zp"], ["q"]), helper.make_node("QLinearConv", ["q", "s", "zp", "w", "ws", "wz", "os", "oz"], ["c"], pads=[1] * 4),
             helper.make_node("DequantizeLinear", ["c", "os", "oz"], ["y"])]
    case("qlinearconv", nodes, {"x": normal(1, 64, 28, 28)}, scales)


def order():
    one("topk5_1000", "TopK", (64, 1000), {"k": np.array([5])}, "y i")
    one("topk10_rows", "TopK", (8, 50000), {"k": np.array([10])}, "y i")
    one("topk_sort_10000", "TopK", (4, 10000), {"k": np.array([10000])}, "y i")
    case("unique_ints", [helper.make_node("Unique", ["x"], ["i"])], {"x": ints(1000, 20000)}, None, "i")
    case("scatter_set", [helper.make_node("ScatterElements", ["x", "i", "z"], ["y"], axis=1)], {"x": normal(64, 1000), "z": normal(64, 500)},
         {"i": np.argsort(RANDOM.random((64, 1000)), 1)[:, :500]})
    case("scatternd_set", [helper.make_node("ScatterND", ["x", "i", "z"], ["y"])], {"x": normal(5000, 32), "z": normal(500, 32)}, {"i": ints(5000, 500, 1)})
    case("onehot", [helper.make_node("OneHot", ["x", "d", "v"], ["y"])], {"x": ints(1000, 256)}, {"d": np.array(1000), "v": np.array([0, 1], F)})
    one("clip_chain", "HardSwish", (1, 64, 112, 112))
    one("gelu", "Gelu", (128, 3072), approximate="tanh")
    one("sigmoid", "Sigmoid", (1, 64, 112, 112))
    case("add_bias", [helper.make_node("Add", ["x", "b"], ["y"])], {"x": normal(512, 768)}, {"b": normal(768)})


def tree(depth, trees, features):
    """Full trees of one depth, as regressors of gradient boosting are: node k has the children 2k+1 and 2k+2."""
    inner, count = 2**depth - 1, 2 ** (depth + 1) - 1
    every = trees * count
    leaf = [k >= inner for _ in range(trees) for k in range(count)]
    leaves = [(t, k) for t in range(trees) for k in range(inner, count)]
    return dict(nodes_treeids=[t for t in range(trees) for _ in range(count)], nodes_nodeids=list(range(count)) * trees,
                nodes_featureids=ints(features, every).tolist(), nodes_values=normal(every).tolist(), nodes_modes=["LEAF" if end else "BRANCH_LEQ" for end in leaf],
                nodes_truenodeids=[0 if k >= inner else 2 * k + 1 for k in range(count)] * trees,
                nodes_falsenodeids=[0 if k >= inner else 2 * k + 2 for k in range(count)] * trees, nodes_missing_value_tracks_true=[0] * every,
                nodes_hitrates=[1.0] * every), leaves


def columns():
    for name, depth, trees, n in (("tree_100x6_one", 6, 100, 1), ("tree_100x6", 6, 100, 1000), ("tree_500x4", 4, 500, 256), ("tree_50x10", 10, 50, 256)):
        nodes, leaves = tree(depth, trees, 30)
        one(name, "TreeEnsembleRegressor", (n, 30), domain="ai.onnx.ml", n_targets=1, target_treeids=[t for t, _ in leaves], target_nodeids=[k for _, k in leaves],
            target_ids=[0] * len(leaves), target_weights=normal(len(leaves)).tolist(), **nodes)
    nodes, leaves = tree(6, 60, 30)
    case("tree_classes", [helper.make_node("TreeEnsembleClassifier", ["x"], ["i", "y"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2],
                                           class_treeids=[t for t, _ in leaves], class_nodeids=[k for _, k in leaves], class_ids=[t % 3 for t, _ in leaves],
                                           class_weights=normal(len(leaves)).tolist(), post_transform="SOFTMAX", **nodes)], {"x": normal(256, 30)}, None, "i y")
    keys = [f"word_{k}" for k in range(2000)]
    words = np.array([keys[k] for k in ints(2000, 1000)], object)
    case("labels_words", [helper.make_node("LabelEncoder", ["x"], ["i"], domain="ai.onnx.ml", keys_strings=keys, values_int64s=list(range(2000)))], {"x": words}, None, "i")
    case("labels_few_words", [helper.make_node("LabelEncoder", ["x"], ["i"], domain="ai.onnx.ml", keys_strings=keys[:12], values_int64s=list(range(12)))], {"x": np.array([keys[k] for k in ints(14, 1000)], object)}, None, "i")
    case("labels_numbers", [helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_int64s=list(range(0, 6000, 3)), values_floats=normal(2000).tolist())], {"x": ints(6000, 4000)})
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        one(f"{op.lower()}_small", op, (30, 1, 32), {"w": normal(1, gates * 32, 32) * F(.1), "r": normal(1, gates * 32, 32) * F(.1)}, hidden_size=32)
    one("lstm_batch", "LSTM", (20, 16, 64), {"w": normal(1, 512, 64) * F(.1), "r": normal(1, 512, 128) * F(.1)}, hidden_size=128)


def write(out, name):
    model, feeds = CASES[name]
    data = out / name / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    onnx.save(model, out / name / "model.onnx")
    for at, (key, value) in enumerate(feeds.items()):
        (data / f"input_{at}.pb").write_bytes(numpy_helper.from_array(value, key).SerializeToString())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", action="append", default=[])
    o = parser.parse_args()
    for family in (folds, rows, norms, movement, pictures, products, order, columns):
        family()
    for name in CASES:
        if not o.only or any(text in name for text in o.only):
            write(o.out, name)


main()
