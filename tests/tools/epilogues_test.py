"""Products with an activation behind them, in native code: each kernel is that of its product, and the golden vectors, which
the interpreter has drawn, agree in every variant of this machine."""
import random
import struct

from onnx_file import model, node, port, tensor
from tool_test import main

ACTIVATIONS = ["LeakyRelu", "PRelu", "Elu", "Celu", "Selu", "HardSwish", "HardSigmoid", "Mish", "Softplus", "Softsign", "Gelu", "Sigmoid",
               "Tanh", "Erf", "Exp", "Abs", "Shrink", "ThresholdedRelu", "Swish", "Sqrt"]
PRODUCTS = [("Conv", [1, 16, 12, 20], [32, 16, 3, 3], {"pads": [1, 1, 1, 1]}),
            ("Conv", [1, 8, 40], [16, 8, 5], {"pads": [2, 2]}),
            ("Conv", [1, 4, 5, 6, 7], [16, 4, 3, 3, 3], {"pads": [1] * 6}),
            ("Conv", [1, 32, 20, 20], [32, 1, 3, 3], {"pads": [1, 1, 1, 1], "group": 32}),
            ("ConvTranspose", [1, 8, 9, 10], [8, 16, 4, 4], {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
            ("ConvTranspose", [1, 8, 30], [8, 16, 4], {"strides": [2], "pads": [1, 1]}),
            ("MatMul", [3, 20, 24], [24, 40], {}),
            ("Gemm", [20, 24], [24, 33], {})]


def floats(name, shape, rng):
    count = 1
    for n in shape:
        count *= n
    return tensor(name, "f32", shape, struct.pack(f"<{count}f", *(rng.uniform(-0.3, 0.3) for _ in range(count))))


def products(rng):
    nodes, weights, inputs, outputs = [], [], [], []
    for k, (op, x, w, attributes) in enumerate(PRODUCTS):
        inputs.append(port(f"x{k}", "f32", x))
        weights.append(floats(f"w{k}", w, rng))
        nodes.append(node(op, [f"x{k}", f"w{k}"], [f"z{k}"], f"product{k}", **attributes))
        value = f"z{k}"
        for step, name in enumerate(rng.sample(ACTIVATIONS, 2)):
            operands = [value]
            if name == "PRelu":
                weights.append(floats(f"slope{k}", [1], rng))
                operands.append(f"slope{k}")
            value = f"t{k}_{step}"
            nodes.append(node(name, operands, [value], f"product{k}.{step}"))
        outputs.append(port(value, "f32", None))
    return model(nodes, inputs, outputs, weights, opset=24)


def kernels_are_those_of_their_products(t):
    for seed in range(2):
        (t.dir / "m.onnx").write_bytes(products(random.Random(seed)))
        done = t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--target", "native", "--no-sign", "-f", "--dump", "schedule")
        native = [text for text in done.stdout.split("; schedule of ") if " for portable\n" not in text.split("  of ")[0]]
        for k, (op, _, w, attributes) in enumerate(PRODUCTS):
            kernels = [text.split("\n")[1] for text in native if f"  of product{k}." in text]
            wanted = "window" if attributes.get("group", 1) > 1 else ("product", "thin")
            assert any(line.startswith(wanted) for line in kernels), (seed, op, w, kernels, native)


if __name__ == "__main__":
    main([kernels_are_those_of_their_products])
