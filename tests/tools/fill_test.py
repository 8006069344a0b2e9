"""How much of a device the launches of a plan fill, from its text: at batch 1, none that takes 5 us by the blocks that it has leaves more
than half of the multiprocessors idle. MLC_ZOO names a folder with resnet50.onnx, minilm_l6.onnx and gpt2.onnx for the same of these."""
import os
import pathlib
import re
import struct

from onnx_file import model, node, port, tensor
from tool_test import Skipped, main

MULTIPROCESSORS, PER_MICROSECOND, LONG = 132, 67e6, 5  # of an H100: f32 operations

INTEGERS = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "min": min, "max": max,
    "floordiv": lambda a, b: a // b if b else 0, "floormod": lambda a, b: a % b if b else 0, "ceildiv": lambda a, b: -(-a // b) if b else 0,
    "lt": lambda a, b: int(a < b), "le": lambda a, b: int(a <= b), "eq": lambda a, b: int(a == b), "ne": lambda a, b: int(a != b),
    "and": lambda a, b: int(bool(a and b)), "or": lambda a, b: int(bool(a or b)), "not": lambda a: int(not a),
    "select": lambda c, a, b: a if c else b,
}
FLOATS = {"fadd": "add", "fsub": "sub", "fmul": "mul", "fmin": "min", "fmax": "max", "fle": "le", "flt": "lt", "feq": "eq"}


def value(op, words, known, extents):
    if op == "const":
        return int(words[0])
    if op == "fconst":
        return struct.unpack("<d", struct.pack("<Q", int(words[0])))[0]
    if op == "dim":
        return extents[int(words[0]), int(words[1])]
    args = [known[w] for w in words]
    if op == "todouble":
        return float(args[0])
    if op == "ftrunc":
        return int(args[0])
    return INTEGERS[FLOATS.get(op, op)](*args)


def launches(plan, extents):
    """(blocks, operations, name) of each launch of main that has blocks."""
    known, found = {}, []
    main_function = re.search(r'^function "main" \{\n(.*?)^\}', plan, re.M | re.S).group(1)
    for line in main_function.splitlines():
        line = line.split("  ;")[0]
        if made := re.match(r"\s*(\$\d+) = (\w+)(.*)", line):
            known[made[1]] = value(made[2], made[3].split(), known, extents)
        elif made := re.match(r'\s*launch .*? tiles (\$\d+)(.*)"(.*?)"', line):
            operations = re.search(r"operations (\$\d+)", made[2])
            if known[made[1]] > 0:
                found.append((known[made[1]], known[operations[1]] if operations else 0, made[3]))
    return found


def microseconds(blocks, operations):
    return operations / (PER_MICROSECOND * min(1, blocks / MULTIPROCESSORS))


def check(t, path, *cases):
    t.run("mlpack", "build", str(path), "-o", "m.mlc", "--no-sign", "-f", "--target", "cuda-sm90", "--cubin", "none", "--golden-time", "0")
    plan = t.run("mlpack", "inspect", "--plan", "m.mlc").stdout
    for extents in cases:
        all_launches = launches(plan, extents)
        idle = [l for l in all_launches if l[0] < MULTIPROCESSORS / 2 and microseconds(*l[:2]) >= LONG]
        assert all_launches and not idle, (extents, idle)
    return plan


def products_of_one_image_and_of_free_rows_fill_half_of_a_device(t):
    def weight(name, rows, columns):
        return tensor(name, "f32", [rows, columns], bytes(4 * rows * columns))

    weights = [weight("a", 1024, 512), weight("b", 512, 1024)]
    nodes = [node("MatMul", ["x", "a"], ["y"], "first"), node("Relu", ["y"], ["z"], "between"), node("MatMul", ["z", "b"], ["out"], "second")]
    (t.dir / "free.onnx").write_bytes(model(nodes, [port("x", "f32", ["n", 1024])], [port("out", "f32", None)], weights, opset=17))
    plan = check(t, t.dir / "free.onnx", *({(0, 0): n, (0, 1): 1024} for n in (1, 4, 5, 128, 300)))
    for n, operations in ((1, 2 << 20), (128, 256 << 20)):
        done = sum(l[1] for l in launches(plan, {(0, 0): n, (0, 1): 1024}))
        assert operations <= done <= 1.01 * operations, (n, operations, done)
    (t.dir / "image.onnx").write_bytes(model(nodes, [port("x", "f32", [49, 1024])], [port("out", "f32", None)], weights, opset=17))
    check(t, t.dir / "image.onnx", {})


def known_models_fill_half_of_a_device(t):
    zoo = pathlib.Path(os.environ.get("MLC_ZOO", ""))
    paths = {name: zoo / f"{name}.onnx" for name in ("resnet50", "minilm_l6", "gpt2")}
    if not os.environ.get("MLC_ZOO") or not all(p.exists() for p in paths.values()):
        raise Skipped("no MLC_ZOO with resnet50.onnx, minilm_l6.onnx and gpt2.onnx")
    check(t, paths["resnet50"], {})
    check(t, paths["minilm_l6"], {(i, k): (1, 128)[k] for i in range(3) for k in range(2)})
    past = {(i, k): (2, 1, 12, 128, 64)[k] for i in range(1, 13) for k in range(5)}
    check(t, paths["gpt2"], {(0, 0): 1, (0, 1): 1, **past})


if __name__ == "__main__":
    main([products_of_one_image_and_of_free_rows_fill_half_of_a_device, known_models_fill_half_of_a_device])
