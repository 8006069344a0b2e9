"""Graphs of many thousands of nodes: the work of a build grows with their number, not with its square (which would take hours
here), and nodes of one shape and operation share a kernel."""
import struct

from onnx_file import model, node, port, tensor
from tool_test import main


def build(t, name, nodes, inputs, outputs, weights=()):
    (t.dir / f"{name}.onnx").write_bytes(model(nodes, inputs, outputs, list(weights)))
    return t.json("mlpack", "build", f"{name}.onnx", "-o", f"{name}.mlc", "--target", "portable", "--no-selftest")


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def a_long_chain_of_elementwise_nodes(t):
    count = 30000
    nodes = [node(["Relu", "Neg", "Abs"][k % 3], [f"v{k}" if k else "x"], [f"v{k + 1}" if k + 1 < count else "y"]) for k in range(count)]
    built = build(t, "chain", nodes, [port("x", "f32", [2, 4])], [port("y", "f32", [2, 4])])
    assert built["variants"][0]["launches"] < count / 20, built


def a_long_chain_with_constants(t):
    count = 5000
    nodes = [node("Add" if k % 2 else "Mul", [f"v{k}" if k else "x", f"c{k}"], [f"v{k + 1}" if k + 1 < count else "y"]) for k in range(count)]
    weights = [tensor(f"c{k}", "f32", [4], floats(1, 0.5, k, 2)) for k in range(count)]
    build(t, "constants", nodes, [port("x", "f32", [2, 4])], [port("y", "f32", [2, 4])], weights)


def equal_layers_share_their_kernels(t):
    layers, nodes, weights, value = 500, [], [], "x"
    for k in range(layers):
        weights.append(tensor(f"w{k}", "f32", [4, 4], floats(*[0.25 + k / layers] * 16)))
        nodes += [node("MatMul", [value, f"w{k}"], [f"m{k}"]), node("Reshape", [f"m{k}", "shape"], [f"r{k}"]),
                  node("Softmax", [f"r{k}"], [f"s{k}"], axis=-1), node("Reshape", [f"s{k}", "back"], [f"b{k}" if k + 1 < layers else "y"])]
        value = f"b{k}"
    weights += [tensor("shape", "i64", [2], struct.pack("<2q", 2, 8)), tensor("back", "i64", [2], struct.pack("<2q", 4, 4))]
    built = build(t, "layers", nodes, [port("x", "f32", [4, 4])], [port("y", "f32", [4, 4])], weights)
    assert built["variants"][0]["kernels"] < 20 < layers < built["variants"][0]["launches"], built


def a_wide_graph(t):
    width = 3000
    nodes, sums = [], []
    for k in range(width):
        nodes += [node("Exp", ["x"], [f"e{k}"]), node("Add", [f"e{k}", f"c{k}"], [f"a{k}"])]
        sums.append(f"a{k}")
    while len(sums) > 1:
        pairs = []
        for a, b in zip(sums[::2], sums[1::2]):
            pairs.append(f"p{len(nodes)}")
            nodes.append(node("Add", [a, b], [pairs[-1]]))
        sums = pairs + ([sums[-1]] if len(sums) % 2 else [])
    nodes.append(node("Identity", [sums[0]], ["y"]))
    weights = [tensor(f"c{k}", "f32", [4], floats(0, 1, 2, k)) for k in range(width)]
    build(t, "wide", nodes, [port("x", "f32", [2, 4])], [port("y", "f32", [2, 4])], weights)


if __name__ == "__main__":
    main([a_long_chain_of_elementwise_nodes, a_long_chain_with_constants, equal_layers_share_their_kernels, a_wide_graph])
