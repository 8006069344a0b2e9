"""Models that the comparison adds to those it is given: published architectures in other sizes, with seeded random weights.

Each function answers an ONNX model. Weights are scaled so that activations stay finite and answers can be compared.
"""
import functools

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
RECURRENT_SIZES = (128, 320, 512, 1024)  # hidden; the matrices of 320 no longer fit into many second caches


class Net:
    """A graph under construction: values are named by strings, weights become initializers."""

    def __init__(self, name):
        self.name, self.nodes, self.weights, self.inputs, self.outputs = name, [], [], [], []
        self.random, self.count = np.random.default_rng(11), 0

    def fresh(self, hint):
        self.count += 1
        return f"{hint}_{self.count}"

    def const(self, value, dtype=np.float32):
        name = self.fresh("c")
        self.weights.append(numpy_helper.from_array(np.array(value, dtype, order="C"), name))
        return name

    def ints(self, *values):
        return self.const(values, np.int64)

    def weight(self, *shape, fan_in):
        return self.const(self.random.standard_normal(shape) / np.sqrt(fan_in))

    def op(self, kind, *inputs, outputs=1, **attributes):
        names = [self.fresh(kind.lower()) for _ in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def input(self, name, shape, dtype=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def output(self, value, name, shape):
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def linear(self, x, c_in, c_out, bias=True):
        y = self.op("MatMul", x, self.weight(c_in, c_out, fan_in=c_in))
        return self.op("Add", y, self.const(np.zeros(c_out))) if bias else y

    def conv(self, x, c_in, c_out, k, stride=1, groups=1):
        w = self.weight(c_out, c_in // groups, k, k, fan_in=c_in // groups * k * k / 2)
        return self.op("Conv", x, w, self.const(np.zeros(c_out)), kernel_shape=[k, k], strides=[stride] * 2, pads=[k // 2] * 4, group=groups)

    def layer_norm(self, x, c):
        return self.op("LayerNormalization", x, self.const(np.ones(c)), self.const(np.zeros(c)), axis=-1)

    def gelu(self, x):
        erf = self.op("Erf", self.op("Div", x, self.const(np.sqrt(2))))
        return self.op("Mul", self.op("Mul", x, self.const(0.5)), self.op("Add", erf, self.const(1)))

    def heads(self, x, heads, size):  # [batch, length, heads*size] to [batch, heads, length, size]
        return self.op("Transpose", self.op("Reshape", x, self.ints(0, 0, heads, size)), perm=[0, 2, 1, 3])

    def merged(self, x, c):
        return self.op("Reshape", self.op("Transpose", x, perm=[0, 2, 1, 3]), self.ints(0, 0, c))

    def attention(self, q, k, v, size, mask=None):
        scores = self.op("Mul", self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2])), self.const(size**-0.5))
        if mask:
            scores = self.op("Add", scores, mask)
        return self.op("MatMul", self.op("Softmax", scores, axis=-1), v)

    def model(self):
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.weights)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        onnx.checker.check_model(made)
        return made


def recogniser(cell, layers=3, hidden=320, features=80, symbols=500):
    """Speech recogniser: two strided convolutions, bidirectional recurrent layers, a classifier per frame (Amodei 2015)."""
    g = Net(f"{cell.lower()}_recogniser")
    x = g.input("features", [1, 1, "frames", features])
    x = g.op("Relu", g.conv(g.op("Relu", g.conv(x, 1, 32, 3, 2)), 32, 32, 3, 2))
    width = 32 * (features // 4)
    x = g.op("Reshape", g.op("Transpose", x, perm=[2, 0, 1, 3]), g.ints(0, 1, width))  # [time, batch, width]
    gates = {"LSTM": 4, "GRU": 3}[cell]
    for _ in range(layers):
        w = g.weight(2, gates * hidden, width, fan_in=width)
        r = g.weight(2, gates * hidden, hidden, fan_in=hidden)
        b = g.const(np.zeros((2, 2 * gates * hidden)))
        more = {"linear_before_reset": 1} if cell == "GRU" else {}
        y = g.op(cell, x, w, r, b, outputs=1, direction="bidirectional", hidden_size=hidden, **more)
        x = g.op("Reshape", g.op("Transpose", y, perm=[0, 2, 1, 3]), g.ints(0, 0, 2 * hidden))
        width = 2 * hidden
    g.output(g.op("LogSoftmax", g.linear(x, width, symbols), axis=-1), "symbols", ["time", 1, symbols])
    return g.model()


def recurrent(cell, hidden, both_ways, layers=2, features=128):
    """Recurrent layers and nothing else, of any batch and length. Frames come first, as ONNX has them."""
    g = Net(f"{cell.lower()}_{hidden}_{'both' if both_ways else 'one'}")
    x, width, ways = g.input("frames", ["time", "batch", features]), features, 2 if both_ways else 1
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[cell]
    more = {"linear_before_reset": 1} if cell == "GRU" else {}
    for _ in range(layers):
        w, r = g.weight(ways, gates * hidden, width, fan_in=width), g.weight(ways, gates * hidden, hidden, fan_in=hidden)
        b = g.const(g.random.standard_normal((ways, 2 * gates * hidden)) / 10)
        y = g.op(cell, x, w, r, b, outputs=1, direction="bidirectional" if both_ways else "forward", hidden_size=hidden, **more)
        width = ways * hidden
        x = g.op("Reshape", g.op("Transpose", y, perm=[0, 2, 1, 3]), g.ints(0, 0, width))
    g.output(x, "states", ["time", "batch", width])
    return g.model()


def dense(size=64, growth=12, layers=10, blocks=3, classes=100):
    """Small convolutions over concatenations that grow, a transition between blocks (Huang 2017, as its narrow nets)."""
    g = Net("dense")

    def normal_relu(x, c):
        ones, zeros = g.const(np.ones(c)), g.const(np.zeros(c))
        return g.op("Relu", g.op("BatchNormalization", x, ones, zeros, zeros, ones))

    x, c = g.conv(g.input("image", [1, 3, size, size]), 3, 2 * growth, 3), 2 * growth
    for block in range(blocks):
        for _ in range(layers):
            y = g.conv(normal_relu(x, c), c, 4 * growth, 1)
            y = g.conv(normal_relu(y, 4 * growth), 4 * growth, growth, 3)
            x, c = g.op("Concat", x, y, axis=1), c + growth
        if block + 1 < blocks:
            x = g.op("AveragePool", g.conv(normal_relu(x, c), c, c // 2, 1), kernel_shape=[2, 2], strides=[2, 2])
            c //= 2
    x = g.op("Flatten", g.op("GlobalAveragePool", normal_relu(x, c)))
    g.output(g.linear(x, c, classes), "logits", [1, classes])
    return g.model()


def unet(size=128, width=24, depth=4):
    """Segmentation: an encoder and a decoder with skips (Ronneberger 2015)."""
    g = Net("unet")
    x = g.input("image", [1, 3, size, size])

    def double(x, c_in, c_out):
        return g.op("Relu", g.conv(g.op("Relu", g.conv(x, c_in, c_out, 3)), c_out, c_out, 3))

    c, skips, c_in = width, [], 3
    for _ in range(depth):
        x = double(x, c_in, c)
        skips.append((x, c))
        x, c_in, c = g.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), c, 2 * c
    x = double(x, c_in, c)
    for skip, c_skip in reversed(skips):
        up = g.op("ConvTranspose", x, g.weight(c, c_skip, 2, 2, fan_in=c), g.const(np.zeros(c_skip)), kernel_shape=[2, 2], strides=[2, 2])
        x, c = double(g.op("Concat", up, skip, axis=1), 2 * c_skip, c_skip), c_skip
    g.output(g.conv(x, c, 2, 1), "mask", [1, 2, size, size])
    return g.model()


def vit(size=192, patch=16, c=320, heads=5, layers=10):
    """Image classifier of patches and a class token (Dosovitskiy 2020)."""
    g = Net("vit")
    x = g.input("image", ["batch", 3, size, size])
    count = (size // patch) ** 2
    w = g.weight(c, 3, patch, patch, fan_in=3 * patch * patch)
    x = g.op("Conv", x, w, g.const(np.zeros(c)), kernel_shape=[patch] * 2, strides=[patch] * 2)
    x = g.op("Transpose", g.op("Reshape", x, g.ints(0, c, count)), perm=[0, 2, 1])
    batch = g.op("Gather", g.op("Shape", x), g.ints(0), axis=0)
    token = g.op("Expand", g.weight(1, 1, c, fan_in=1), g.op("Concat", batch, g.ints(1, c), axis=0))
    x = g.op("Add", g.op("Concat", token, x, axis=1), g.weight(1, count + 1, c, fan_in=100))
    for _ in range(layers):
        y = g.layer_norm(x, c)
        q, k, v = (g.heads(g.linear(y, c, c), heads, c // heads) for _ in range(3))
        x = g.op("Add", x, g.linear(g.merged(g.attention(q, k, v, c // heads), c), c, c))
        x = g.op("Add", x, g.linear(g.gelu(g.linear(g.layer_norm(x, c), c, 4 * c)), 4 * c, c))
    first = g.op("Gather", g.layer_norm(x, c), g.const(0, np.int64), axis=1)
    g.output(g.linear(first, c, 1000), "logits", ["batch", 1000])
    return g.model()


def decoder(c=512, heads=8, groups=2, layers=8, hidden=1408, vocabulary=8000):
    """Language model with grouped heads, rotary positions, RMS norms and gated units (Touvron 2023), and its cache."""
    g = Net("grouped_decoder")
    size = c // heads
    ids = g.input("tokens", ["batch", "new"], TensorProto.INT64)
    table = g.weight(vocabulary, c, fan_in=c)
    past = [[g.input(f"past_{kind}_{i}", ["batch", groups, "past", size]) for kind in ("key", "value")] for i in range(layers)]
    length = lambda x, axis: g.op("Gather", g.op("Shape", x), g.ints(axis), axis=0)
    old, new = length(past[0][0], 2), length(ids, 1)
    end = g.op("Add", old, new)
    scalar = lambda x: g.op("Squeeze", x, g.ints(0))
    at = g.op("Range", scalar(old), scalar(end), g.const(1, np.int64))
    angles = g.op("MatMul", g.op("Cast", g.op("Unsqueeze", at, g.ints(1)), to=TensorProto.FLOAT),
                  g.const(10000.0 ** (-np.arange(0, size, 2)[None] / size)))
    angles = g.op("Concat", angles, angles, axis=1)
    cosines, sines = g.op("Cos", angles), g.op("Sin", angles)
    columns = g.op("Range", g.const(0, np.int64), scalar(end), g.const(1, np.int64))
    seen = g.op("LessOrEqual", g.op("Unsqueeze", columns, g.ints(0)), g.op("Unsqueeze", at, g.ints(1)))
    mask = g.op("Where", seen, g.const(0), g.const(-1e9))

    def rms(x):
        mean = g.op("ReduceMean", g.op("Mul", x, x), axes=[-1], keepdims=1)
        return g.op("Mul", g.op("Div", x, g.op("Sqrt", g.op("Add", mean, g.const(1e-5)))), g.const(np.ones(c)))

    def rotated(x):
        left, right = g.op("Split", x, g.ints(size // 2, size // 2), axis=3, outputs=2)
        turned = g.op("Concat", g.op("Neg", right), left, axis=3)
        return g.op("Add", g.op("Mul", x, cosines), g.op("Mul", turned, sines))

    def repeated(x):  # each group of keys serves several heads
        shape = g.op("Concat", length(x, 0), g.ints(groups, heads // groups), length(x, 2), g.ints(size), axis=0)
        wide = g.op("Expand", g.op("Unsqueeze", x, g.ints(2)), shape)
        return g.op("Reshape", wide, g.op("Concat", length(x, 0), g.ints(heads), length(x, 2), g.ints(size), axis=0))

    x = g.op("Gather", table, ids, axis=0)
    for i in range(layers):
        y = rms(x)
        q = rotated(g.heads(g.linear(y, c, c, bias=False), heads, size))
        k = rotated(g.heads(g.linear(y, c, groups * size, bias=False), groups, size))
        v = g.heads(g.linear(y, c, groups * size, bias=False), groups, size)
        k, v = g.op("Concat", past[i][0], k, axis=2), g.op("Concat", past[i][1], v, axis=2)
        for kind, value in (("key", k), ("value", v)):
            g.output(value, f"present_{kind}_{i}", ["batch", groups, "total", size])
        x = g.op("Add", x, g.linear(g.merged(g.attention(q, repeated(k), repeated(v), size, mask), c), c, c, bias=False))
        y = rms(x)
        gate = g.linear(y, c, hidden, bias=False)
        gate = g.op("Mul", gate, g.op("Sigmoid", gate))
        x = g.op("Add", x, g.linear(g.op("Mul", gate, g.linear(y, c, hidden, bias=False)), hidden, c, bias=False))
    g.output(g.op("MatMul", rms(x), g.op("Transpose", table, perm=[1, 0])), "logits", ["batch", "new", vocabulary])
    return g.model()


def quantised(size=160):
    """A residual network as quantisers write it: pairs of QuantizeLinear and DequantizeLinear around every operator, weights
    of 8 bits with a scale for each channel."""
    g = Net("quantised_residual")
    x = g.input("image", [1, 3, size, size])

    def pair(x, scale, zero=0):
        s, z = g.const(scale), g.const(zero, np.int8)
        return g.op("DequantizeLinear", g.op("QuantizeLinear", x, s, z), s, z)

    def conv(x, c_in, c_out, k, stride=1):
        fan = c_in * k * k
        w = g.random.integers(-127, 128, (c_out, c_in, k, k), dtype=np.int8)
        scales = (g.random.random(c_out) + 0.5) / 127 * np.sqrt(6 / fan)
        weights = g.op("DequantizeLinear", g.const(w, np.int8), g.const(scales), g.const(np.zeros(c_out), np.int8), axis=0)
        bias_scale = g.const(scales * 0.05)
        bias = g.op("DequantizeLinear", g.const(g.random.integers(-500, 500, c_out), np.int32), bias_scale, g.const(np.zeros(c_out), np.int32), axis=0)
        return g.op("Conv", x, weights, bias, kernel_shape=[k, k], strides=[stride] * 2, pads=[k // 2] * 4)

    x = pair(x, 0.03)
    x = pair(g.op("Relu", conv(x, 3, 32, 3, 2)), 0.05, -128)
    c = 32
    for c_out, blocks in ((32, 2), (64, 2), (128, 2), (256, 2)):
        for k in range(blocks):
            stride = 2 if k == 0 and c_out > 32 else 1
            y = pair(g.op("Relu", conv(x, c, c_out, 3, stride)), 0.05, -128)
            y = pair(conv(y, c_out, c_out, 3), 0.05)
            skip = x if stride == 1 and c == c_out else pair(conv(x, c, c_out, 1, stride), 0.05)
            x, c = pair(g.op("Relu", g.op("Add", y, skip)), 0.05, -128), c_out
    x = pair(g.op("Flatten", g.op("GlobalAveragePool", x)), 0.03, -128)
    w = g.op("DequantizeLinear", g.const(g.random.integers(-127, 128, (c, 1000)), np.int8), g.const(0.004), g.const(0, np.int8))
    g.output(g.op("Add", g.op("MatMul", x, w), g.const(np.zeros(1000))), "logits", [1, 1000])
    return g.model()


NETS = {
    "lstm_recogniser": lambda: recogniser("LSTM"),
    "gru_recogniser": lambda: recogniser("GRU", layers=4, hidden=256),
    **{f"{cell.lower()}_{hidden}_{ways}": functools.partial(recurrent, cell, hidden, ways == "both")
       for cell in ("LSTM", "GRU", "RNN") for hidden in RECURRENT_SIZES for ways in ("one", "both")},
    "dense": dense,
    "unet": unet,
    "vit": vit,
    "grouped_decoder": decoder,
    "quantised_residual": quantised,
}
