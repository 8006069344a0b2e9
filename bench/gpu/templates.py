"""A model for each kind of kernel that a card runs: what it computes, and how much of that is arithmetic and how much memory."""
import array
import dataclasses
import pathlib
import random
import sys
from typing import Callable

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "tools"))  # in a prepared folder onnx_file.py lies beside
from onnx_file import model, node, port, tensor  # noqa: E402

BYTES = {"f32": 4, "f16": 2, "bf16": 2, "i8": 1, "u8": 1}


@dataclasses.dataclass(frozen=True)
class Template:
    name: str
    kind: str             # what peers.py knows it by
    dtype: str
    full: tuple           # extents, as `make` takes them
    small: tuple
    make: Callable        # (dtype, *extents) -> bytes of an ONNX file
    operations: Callable  # (*extents) -> of one run
    elements: Callable    # (*extents) -> read and written, once each
    goal: str = ""        # of the design page, section 8

    def bytes(self, *extents):
        return self.elements(*extents) * BYTES[self.dtype]


def weights(dtype, shape, seed=1):
    """Numbers between -1 and 1, from a block of 64 Ki drawn ones."""
    count = 1
    for d in shape:
        count *= d
    draw = random.Random(seed)
    block = array.array("f", (draw.uniform(-1, 1) for _ in range(min(count, 1 << 16))))
    if dtype == "f16":
        import struct
        raw = struct.pack(f"<{len(block)}e", *block)
    elif dtype == "bf16":
        raw = b"".join(v.to_bytes(4, "little")[2:] for v in array.array("I", block.tobytes()))
    else:
        raw = block.tobytes()
    size = count * BYTES[dtype]
    return (raw * (size // len(raw) + 1))[:size]


def gemm(dtype, m, n, k):
    return model([node("MatMul", ["x", "w"], ["y"], "product")], [port("x", dtype, [m, k])], [port("y", dtype, [m, n])],
                 [tensor("w", dtype, [k, n], weights(dtype, [k, n]))], opset=17)


def conv(dtype, n, c, size, k):
    return model([node("Conv", ["x", "w"], ["y"], "conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1])], [port("x", dtype, [n, c, size, size])],
                 [port("y", dtype, [n, k, size, size])], [tensor("w", dtype, [k, c, 3, 3], weights(dtype, [k, c, 3, 3]))], opset=17)


def unary(operators):
    def make(dtype, *shape):
        names = ["x", *(f"t{k}" for k in range(len(operators) - 1)), "y"]
        nodes = [node(op, [names[k]], [names[k + 1]], op.lower(), **attributes) for k, (op, attributes) in enumerate(operators)]
        return model(nodes, [port("x", dtype, list(shape))], [port("y", dtype, None)], opset=17)
    return make


def layer_norm(dtype, rows, width):
    return model([node("LayerNormalization", ["x", "s", "b"], ["y"], "norm", axis=-1)], [port("x", dtype, [rows, width])], [port("y", dtype, [rows, width])],
                 [tensor("s", dtype, [width], weights(dtype, [width])), tensor("b", dtype, [width], weights(dtype, [width], 2))], opset=17)


def attention(dtype, batch, heads, length, width):
    shape = [batch, heads, length, width]
    return model([node("Attention", ["q", "k", "v"], ["y"], "attention")], [port(name, dtype, shape) for name in "qkv"], [port("y", dtype, shape)], opset=23)


def cumsum(dtype, rows, width):
    return model([node("CumSum", ["x", "axis"], ["y"], "scan")], [port("x", dtype, [rows, width])], [port("y", dtype, [rows, width])],
                 [tensor("axis", "i64", [], (1).to_bytes(8, "little"))], opset=17)


def top_k(dtype, rows, width):
    return model([node("TopK", ["x", "k"], ["y", "at"], "best")], [port("x", dtype, [rows, width])], [port("y", dtype, [rows, 8]), port("at", "i64", [rows, 8])],
                 [tensor("k", "i64", [1], (8).to_bytes(8, "little"))], opset=17)


def of_gemm(m, n, k):
    return 2 * m * n * k


def touched_by_gemm(m, n, k):
    return m * k + k * n + m * n


def twice(*shape):
    count = 2
    for d in shape:
        count *= d
    return count


def once(rows, width):
    return rows * width


def of_conv(n, c, size, k):
    return 2 * n * size * size * c * k * 9


def touched_by_conv(n, c, size, k):
    return n * size * size * (c + k) + 9 * c * k


def few(*shape):
    return 4 * twice(*shape)


ALL = [
    Template("gemm-f32", "gemm", "f32", (4096, 4096, 4096), (64, 96, 80), gemm, of_gemm, touched_by_gemm, "85 % of FMA"),
    Template("gemm-f16", "gemm", "f16", (4096, 4096, 4096), (64, 96, 80), gemm, of_gemm, touched_by_gemm, "90 % of cuBLASLt"),
    Template("gemm-bf16", "gemm", "bf16", (4096, 4096, 4096), (64, 96, 80), gemm, of_gemm, touched_by_gemm, "90 % of cuBLASLt"),
    Template("gemv-f32", "gemm", "f32", (1, 16384, 4096), (1, 96, 80), gemm, of_gemm, touched_by_gemm, "90 % of the copy"),
    Template("gemv-bf16", "gemm", "bf16", (1, 16384, 4096), (1, 96, 80), gemm, of_gemm, touched_by_gemm, "90 % of the copy"),
    Template("conv-f32", "conv", "f32", (32, 64, 56, 64), (1, 8, 12, 8), conv, of_conv, touched_by_conv, "95 % of cuDNN"),
    Template("conv-f16", "conv", "f16", (32, 64, 56, 64), (1, 8, 12, 8), conv, of_conv, touched_by_conv, "80 % of cuDNN"),
    Template("map-f32", "map", "f32", (4096, 8192), (8, 96), unary([("Sigmoid", {}), ("Tanh", {})]), few, twice, "85 % of the copy"),
    Template("softmax-f32", "softmax", "f32", (16384, 1024), (8, 96), unary([("Softmax", {"axis": -1})]), few, twice, "85 % of the copy"),
    Template("layernorm-f32", "layernorm", "f32", (16384, 1024), (8, 96), layer_norm, few, twice, "85 % of the copy"),
    Template("transpose-f32", "transpose", "f32", (4096, 8192), (40, 96), unary([("Transpose", {"perm": [1, 0]})]), lambda *s: 0, twice, "85 % of the copy"),
    Template("reduce-f32", "reduce", "f32", (16384, 4096), (8, 96), unary([("ReduceSum", {"keepdims": 1, "noop_with_empty_axes": 0})]), once, once, "85 % of the copy"),
    Template("attention-f32", "attention", "f32", (4, 16, 1024, 64), (1, 2, 24, 16), attention, lambda b, h, l, d: 4 * b * h * l * l * d,
             lambda b, h, l, d: 4 * b * h * l * d, "70 % of FlashAttention-2"),
    Template("attention-f16", "attention", "f16", (4, 16, 1024, 64), (1, 2, 24, 16), attention, lambda b, h, l, d: 4 * b * h * l * l * d,
             lambda b, h, l, d: 4 * b * h * l * d, "70 % of FlashAttention-2"),
    Template("scan-f32", "cumsum", "f32", (4096, 8192), (8, 96), cumsum, once, twice, "50 % of CUB"),
    Template("topk-f32", "topk", "f32", (4096, 8192), (8, 96), top_k, once, once, "50 % of CUB"),
]


def write(folder, template, small):
    """The ONNX file of a template in a folder, written at first need."""
    path = folder / f"{template.name}{'-small' if small else ''}.onnx"
    if not path.exists():
        path.write_bytes(template.make(template.dtype, *(template.small if small else template.full)))
    return path
