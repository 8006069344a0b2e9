"""Graphs of many thousands of nodes: the work of a build grows with their number, not with its square (which would take hours
here), and nodes of one shape and operation share a kernel."""
import os
import struct
import subprocess

from onnx_file import model, node, port, tensor
from tool_test import main


def build(t, name, nodes, inputs, outputs, weights=()):
    (t.dir / f"{name}.onnx").write_bytes(model(nodes, inputs, outputs, list(weights)))
    return t.json("mlpack", "build", f"{name}.onnx", "-o", f"{name}.mlc", "--target", "portable", "--no-selftest")


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def a_long_chain_of_elementwise_nodes(t):
    count = 10000
    nodes = [node(["Relu", "Neg", "Abs"][k % 3], [f"v{k}" if k else "x"], [f"v{k + 1}" if k + 1 < count else "y"]) for k in range(count)]
    built = build(t, "chain", nodes, [port("x", "f32", [2, 4])], [port("y", "f32", [2, 4])])
    assert built["variants"][0]["launches"] < count / 20, built


def a_long_chain_takes_memory_by_its_length(t):
    """What joins a chain leaves the expression of the chain as it is: a node takes some kilobytes, not some ten."""
    peaks = []
    for count in (100, 10000):
        nodes = [node(["Relu", "Neg", "Abs"][k % 3], [f"v{k}" if k else "x"], [f"v{k + 1}" if k + 1 < count else "y"]) for k in range(count)]
        (t.dir / "chain.onnx").write_bytes(model(nodes, [port("x", "f32", [2, 4])], [port("y", "f32", [2, 4])], []))
        peaks.append(peak_kilobytes(t, "mlpack", "build", "chain.onnx", "-o", f"chain{count}.mlc", "--target", "portable", "--no-selftest"))
    assert peaks[1] - peaks[0] < 10000 * 8, peaks


def a_long_attribute_takes_memory_by_its_bytes(t):
    """An entry is a number, not an expression of some hundred bytes. The same numbers as an initializer take what is packed and compressed of both."""
    count = 300000
    numbers = [k / 1024 for k in range(count)]
    add = node("Add", ["x", "c"], ["y"])
    models = {"initializer": ([add], [tensor("c", "f32", [count], floats(*numbers))]),
              "attribute": ([node("Constant", [], ["c"], value_floats=numbers), add], [])}
    peaks = {}
    for name, (nodes, weights) in models.items():
        (t.dir / f"{name}.onnx").write_bytes(model(nodes, [port("x", "f32", [1])], [port("y", "f32", [count])], weights))
        peaks[name] = peak_kilobytes(t, "mlpack", "build", f"{name}.onnx", "-o", f"{name}.mlc", "--target", "portable", "--no-selftest")
    assert peaks["attribute"] - peaks["initializer"] < count * 100 // 1000, peaks


def peak_kilobytes(t, tool, *args):
    done = subprocess.Popen([str(t.bin / tool), *args], cwd=t.dir, env=t.env, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(done.pid, 0)
    assert status == 0, (tool, args, status)
    return usage.ru_maxrss


def squares_of_squares_are_walked_once(t):
    """t = t*t sixty times has sixty nodes and 2^60 ways to its input. In front of each kind of nest, and behind a softmax, in a
    condition, and as the exponentials of attention."""
    def chain(x, op="Mul", count=60):
        return [node(op, [f"t{k}" if k else x] * 2, [f"t{k + 1}" if k + 1 < count else "t"]) for k in range(count)]
    weights = [tensor("w", "f32", [8, 8], floats(*[0.01] * 64)), tensor("k", "f32", [2, 2, 3, 3], floats(*[0.01] * 36)), tensor("c", "f32", [], floats(0)),
               tensor("g", "f32", [8], floats(*[1] * 8)), tensor("axis", "i64", [], struct.pack("<q", 1)), tensor("n", "i64", [1], struct.pack("<q", 2))]
    picture = [4, 2, 8, 8]
    kinds = {
        "sum": ([4, 8], [node("ReduceSum", ["t"], ["y"], keepdims=0)]),
        "maximum": ([4, 8], [node("ReduceMax", ["t"], ["y"])]),
        "norm": ([4, 8], [node("ReduceL2", ["t"], ["y"])]),
        "softmax": ([4, 8], [node("Softmax", ["t"], ["y"])]),
        "layer_norm": ([4, 8], [node("LayerNormalization", ["t", "g"], ["y"])]),
        "product": ([4, 8], [node("MatMul", ["t", "w"], ["y"])]),
        "gram": ([8, 8], [node("MatMul", ["t", "t"], ["y"])]),
        "convolution": (picture, [node("Conv", ["t", "k"], ["y"], pads=[1] * 4)]),
        "pool": (picture, [node("MaxPool", ["t"], ["y"], kernel_shape=[3, 3])]),
        "transposed": (picture, [node("Transpose", ["t"], ["y"], perm=[0, 2, 3, 1])]),
        "running_sum": ([4, 8], [node("CumSum", ["t", "axis"], ["y"])]),
        "gather": ([4, 8], [node("Gather", ["t", "n"], ["y"])]),
        "sort": ([4, 8], [node("TopK", ["t", "n"], ["y", ""])]),
        "written": ([4, 8], []),
    }
    for name, (shape, nodes) in kinds.items():
        last = nodes if nodes else [node("Identity", ["t"], ["y"])]
        build(t, name, chain("x") + last, [port("x", "f32", shape)], [port("y", "f32", None)], weights)
    behind = [node("Softmax", ["x"], ["s"])] + chain("s") + [node("MatMul", ["t", "w"], ["y"])]
    build(t, "behind", behind, [port("x", "f32", [8, 8])], [port("y", "f32", None)], weights)
    exponentials = [node("Exp", ["x"], ["e"])] + chain("e") + [node("ReduceSum", ["t", "n0"], ["d"]), node("Div", ["t", "d"], ["s"]), node("MatMul", ["s", "w"], ["y"])]
    build(t, "exponentials", exponentials, [port("x", "f32", [8, 8])], [port("y", "f32", None)], weights + [tensor("n0", "i64", [1], struct.pack("<q", 1))])
    condition = [node("Greater", ["x", "c"], ["b"])] + chain("b", "And") + [node("Where", ["t", "x", "c"], ["z"]), node("ReduceSum", ["z"], ["y"])]
    build(t, "condition", condition, [port("x", "f32", [4, 8])], [port("y", "f32", None)], weights)


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


def pieces_and_steps_share_their_kernels(t):
    """The pieces of concatenations and the steps of an unrolled recurrence differ in offsets and lengths, which are told to
    one kernel; the golden vector runs natively and interpreted."""
    steps, nodes, weights = 30, [], [tensor("w", "f32", [8, 8], floats(*[(k * 7 % 16 - 8) / 32 for k in range(64)])), tensor("axis", "i64", [1], struct.pack("<q", 0))]
    state, pieces = "h", []
    for k in range(steps):
        for name, value in (("begin", k), ("end", k + 1)):
            weights.append(tensor(f"{name}{k}", "i64", [1], struct.pack("<q", value)))
        nodes += [node("Slice", ["x", f"begin{k}", f"end{k}", "axis"], [f"x{k}"]), node("MatMul", [f"x{k}", "w"], [f"m{k}"]),
                  node("Add", [f"m{k}", state], [f"a{k}"]), node("Tanh", [f"a{k}"], [f"h{k}"])]
        state = f"h{k}"
        pieces += [state, "h"] if k % 3 else [state]
        nodes.append(node("Concat", pieces, [f"c{k}"], axis=0))
    nodes.append(node("Concat", [f"c{k}" for k in range(steps)], ["y"], axis=0))
    rows = sum(k + 1 + (k + 1) - (k // 3 + 1) for k in range(steps))
    (t.dir / "steps.onnx").write_bytes(model(nodes, [port("x", "f32", [steps, 8]), port("h", "f32", [1, 8])], [port("y", "f32", [rows, 8])], weights))
    built = t.json("mlpack", "build", "steps.onnx", "-o", "steps.mlc", "--target", "native")
    for variant in built["variants"]:
        assert variant["kernels"] < 100 < 400 < variant["launches"], built
    assert all("reason" not in v and v["vectors"] for v in built["selftest"]["variants"]), built


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


def hundreds_of_operands_are_a_few_at_a_time(t):
    """Machine code with an address for each of 600 arrays has no stack for them. The golden vector runs natively and interpreted."""
    for op, count in (("Sum", 600), ("Max", 600), ("Min", 600), ("Mean", 1500)):
        nodes = [node("Mul", ["x", f"c{k}"], [f"a{k}"]) for k in range(count)] + [node(op, [f"a{k}" for k in range(count)], ["y"])]
        weights = [tensor(f"c{k}", "f32", [4], floats(0.5, 1, k % 7 - 3, k % 5)) for k in range(count)]
        (t.dir / "many.onnx").write_bytes(model(nodes, [port("x", "f32", ["N", 4])], [port("y", "f32", ["N", 4])], weights))
        built = t.json("mlpack", "build", "many.onnx", "-o", "many.mlc", "--target", "native", "-f")
        assert all("reason" not in v and v["vectors"] for v in built["selftest"]["variants"]), built


if __name__ == "__main__":
    main([squares_of_squares_are_walked_once, a_long_chain_of_elementwise_nodes, a_long_chain_takes_memory_by_its_length, a_long_attribute_takes_memory_by_its_bytes, a_long_chain_with_constants, equal_layers_share_their_kernels, pieces_and_steps_share_their_kernels, a_wide_graph,
          hundreds_of_operands_are_a_few_at_a_time])
