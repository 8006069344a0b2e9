"""One container, and masks of which only the run tells along which axes they broadcast: attention with a mask for all, one
per row of keys, one per sequence, one per point; and one sequence under many masks."""
import math
import struct

import npz_file
from onnx_file import model, node, port, tensor
from tool_test import main

WIDTH, HEADS = 8, 2
DEPTH = WIDTH // HEADS


def noise(seed, count):
    return [((seed * 7919 + k * 104729) % 2003) / 1001.5 - 1 for k in range(count)]


WEIGHTS = {name: noise(k + 1, WIDTH * WIDTH) for k, name in enumerate("qkvo")}


def attention_model():
    nodes, weights = [], []
    for name, values in WEIGHTS.items():
        weights.append(tensor("w" + name, "f32", [WIDTH, WIDTH], struct.pack(f"<{len(values)}f", *values)))
    weights.append(tensor("split", "i64", [4], struct.pack("<4q", 0, 0, HEADS, DEPTH)))
    weights.append(tensor("join", "i64", [3], struct.pack("<3q", 0, 0, WIDTH)))
    weights.append(tensor("scale", "f32", [], struct.pack("<f", 1 / math.sqrt(DEPTH))))
    for name in "qkv":
        nodes.append(node("MatMul", ["x", "w" + name], [name]))
        nodes.append(node("Reshape", [name, "split"], [name + "4"]))
        nodes.append(node("Transpose", [name + "4"], [name + "t"], perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]))
    nodes += [node("MatMul", ["qt", "kt"], ["products"]), node("Mul", ["products", "scale"], ["scores"]),
              node("Add", ["scores", "mask"], ["masked"], "masking"), node("Softmax", ["masked"], ["weights"], axis=-1),
              node("MatMul", ["weights", "vt"], ["heads"]), node("Transpose", ["heads"], ["turned"], perm=[0, 2, 1, 3]),
              node("Reshape", ["turned", "join"], ["joined"]), node("MatMul", ["joined", "wo"], ["out"]),
              node("Add", ["out", "x"], ["y"], "residual")]
    return model(nodes, [port("x", "f32", ["batch", "length", WIDTH]), port("mask", "f32", ["mb", "mh", "mq", "mk"])],
                 [port("y", "f32", ["rb", "rl", WIDTH])], weights)


def expected(x, batch, length, mask, shape):
    """The same in plain loops; the result has the batch of the mask if x has a batch of one."""
    def product(rows, weight):
        return [[sum(r[i] * weight[i * WIDTH + j] for i in range(WIDTH)) for j in range(WIDTH)] for r in rows]

    def masked(b, h, q, k):
        at = 0
        for index, extent in zip((b, h, q, k), shape):
            at = at * extent + (0 if extent == 1 else index)
        return mask[at]

    result = []
    for b in range(max(batch, shape[0])):
        rows = [x[((b if batch > 1 else 0) * length + i) * WIDTH:][:WIDTH] for i in range(length)]
        q, k, v = (product(rows, WEIGHTS[n]) for n in "qkv")
        joined = [[0.0] * WIDTH for _ in range(length)]
        for h in range(HEADS):
            part = slice(h * DEPTH, (h + 1) * DEPTH)
            for i in range(length):
                s = [sum(a * c for a, c in zip(q[i][part], k[j][part])) / math.sqrt(DEPTH) + masked(b, h, i, j) for j in range(length)]
                e = [math.exp(value - max(s)) for value in s]
                for d in range(DEPTH):
                    joined[i][h * DEPTH + d] = sum(e[j] * v[j][h * DEPTH + d] for j in range(length)) / sum(e)
        for r, o in zip(rows, product(joined, WEIGHTS["o"])):
            result += [a + c for a, c in zip(r, o)]
    return result


def run(t, variant, x, x_shape, mask, mask_shape, code=0):
    npz_file.write(t.dir / "in.npz", {"x": ("f32", x_shape, x), "mask": ("f32", mask_shape, mask)})
    done = t.run("mlrun", "run", "a.mlc", "--raw", "-i", "in.npz", "-o", "out.npz", "--variant", variant, code=code)
    if code:
        return done.stdout + done.stderr
    shape, values = npz_file.read(t.dir / "out.npz")["y"]
    assert len(values) == math.prod(shape), (shape, len(values))
    return shape, values


def one_container_takes_every_shape_of_a_mask(t):
    (t.dir / "a.onnx").write_bytes(attention_model())
    t.run("mlpack", "build", "a.onnx", "-o", "a.mlc", "--target", "native,portable")
    variants = [v["name"] for v in t.json("mlrun", "explain", "a.mlc")["variants"] if v["answer"] == "fits"]
    assert "portable" in variants and len(variants) > 1, variants
    for batch, length, shape in [(3, 5, (3, HEADS, 5, 5)), (3, 5, (1, 1, 5, 5)), (3, 5, (3, 1, 1, 5)), (3, 5, (1, 1, 1, 1)),
                                 (1, 5, (4, 1, 5, 5)), (2, 19, (2, 1, 1, 19)), (2, 19, (1, HEADS, 19, 1)), (1, 1, (1, 1, 1, 1)),
                                 (1, 1, (2, HEADS, 1, 1))]:
        x, mask = noise(5, batch * length * WIDTH), [4 * v for v in noise(6, math.prod(shape))]
        want = expected(x, batch, length, mask, shape)
        for variant in variants:
            found, values = run(t, variant, x, (batch, length, WIDTH), mask, shape)
            assert found == (max(batch, shape[0]), length, WIDTH), (variant, shape, found)
            worst = max(abs(a - b) for a, b in zip(values, want))
            assert worst < 1e-4, (variant, batch, length, shape, worst)


def extents_that_do_not_broadcast_are_refused_before_the_run(t):
    (t.dir / "a.onnx").write_bytes(attention_model())
    t.run("mlpack", "build", "a.onnx", "-o", "a.mlc", "--target", "portable")
    x = noise(5, 3 * 5 * WIDTH)
    for shape, node_name in [((2, 1, 5, 5), "masking"), ((1, 3, 5, 5), "masking"), ((1, 1, 5, 4), "masking"), ((1, 1, 5, 0), "masking")]:
        text = run(t, "portable", x, (3, 5, WIDTH), noise(6, math.prod(shape)), shape, code=6)
        assert node_name in text and "broadcast" in text, text


def bounds_without_one_leave_equality_to_check(t):
    (t.dir / "a.onnx").write_bytes(attention_model())
    t.run("mlpack", "build", "a.onnx", "-o", "a.mlc", "--target", "portable", *(f for d in ("batch", "mb", "length", "mq", "mk")
                                                                                  for f in ("--dim", d + "=2..64")))
    x = noise(5, 3 * 5 * WIDTH)
    shape, _ = run(t, "portable", x, (3, 5, WIDTH), noise(6, 3 * 25), (3, 1, 5, 5))
    assert shape == (3, 5, WIDTH), shape
    run(t, "portable", x, (3, 5, WIDTH), noise(6, 25), (1, 1, 5, 5), code=6)


if __name__ == "__main__":
    main([one_container_takes_every_shape_of_a_mask, extents_that_do_not_broadcast_are_refused_before_the_run,
          bounds_without_one_leave_equality_to_check])
