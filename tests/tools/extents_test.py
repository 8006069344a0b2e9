"""Extents as exporters compute them: by the division of C, through floats, by shifts, out of lists; pieces by the hundred; and
Slice in each form that it has. What comes out is worked out here in plain integers."""
import math
import random
import struct

import npz_file
from onnx_file import model, node, port, tensor
from tool_test import main

LEAST, MOST = -(1 << 63), (1 << 63) - 1
NONE = 77


def i64(name, values, shape=None):
    return tensor(name, "i64", [len(values)] if shape is None else shape, struct.pack(f"<{len(values)}q", *values))


def number(name, value):
    return i64(name, [value], [])


def build(t, data, *words):
    (t.dir / "a.onnx").write_bytes(data)
    t.run("mlpack", "build", "a.onnx", "-o", "a.mlc", "--target", "native,portable", *words)
    return [v["name"] for v in t.json("mlrun", "explain", "a.mlc")["variants"] if v["answer"] == "fits"]


def run(t, variant, arrays, code=0):
    npz_file.write(t.dir / "in.npz", arrays)
    done = t.run("mlrun", "run", "a.mlc", "--raw", "-i", "in.npz", "-o", "out.npz", "--variant", variant, code=code)
    return done.stdout + done.stderr if code else npz_file.read(t.dir / "out.npz")


def quotient(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def f32(v):
    return struct.unpack("<f", struct.pack("<f", v))[0]


# Each: how many numbers it takes, its nodes (inputs, output, a name of its own), and its value; none where it has none.
def plain(op, value, **attributes):
    return lambda ins, out, own: [node(op, ins, [out], **attributes)], value


def scaled(rounding, value):
    """As exporters write scales of Resize: to float, times a number, rounded, back."""
    def nodes(ins, out, own):
        return [node("Cast", [ins[0]], [own + "f"], to=1), node("Mul", [own + "f", "third"], [own + "m"]),
                node(rounding, [own + "m"], [own + "r"]), node("Cast", [own + "r"], [out], to=7)]
    return nodes, lambda a: value(f32(f32(a) * f32(0.3)))


def chosen(ins, out, own):
    return [node("Less", ins[:2], [own + "c"]), node("Where", [own + "c", ins[1], ins[2]], [out])]


OPERATIONS = [
    (2, *plain("Add", lambda a, b: a + b)), (2, *plain("Sub", lambda a, b: a - b)), (2, *plain("Mul", lambda a, b: a * b)),
    (2, *plain("Div", lambda a, b: quotient(a, b) if b else None)),
    (2, *plain("Div", lambda a, b: quotient(a, b) if b else None)),
    (2, *plain("Mod", lambda a, b: a % b if b else None)),
    (2, *plain("Mod", lambda a, b: a - b * quotient(a, b) if b else None, fmod=1)),
    (2, *plain("Min", min)), (2, *plain("Max", max)),
    (1, *plain("Abs", abs)), (1, *plain("Neg", lambda a: -a)), (1, *plain("Sign", lambda a: (a > 0) - (a < 0))),
    (3, chosen, lambda a, b, c: b if a < b else c),
    (3, *plain("Clip", lambda a, b, c: min(max(a, b), c))),
    (1, *scaled("Floor", math.floor)), (1, *scaled("Ceil", math.ceil)), (1, *scaled("Round", round)),
]


CONSTANTS = (-7, -1, 0, 1, 2, 8)


def random_numbers(seed):
    """Numbers made of the extents h and w of x, and of k, which the run tells: name, operands, nodes, value."""
    draw = random.Random(seed)
    made, names = [], ["h", "w", "k", "-7", "-1", "1", "2", "8"]
    for j in range(24):
        count, write, value = draw.choice(OPERATIONS)
        ins = [draw.choice(names) for _ in range(count)]
        made.append((f"v{j}", ins, write(ins, f"v{j}", f"v{j}."), value))
        names.append(f"v{j}")
    return made


def values_at(made, h, w, k):
    """None where there is none: a division by zero, or more than floats hold exactly."""
    known = {"h": h, "w": w, "k": k, **{str(v): v for v in CONSTANTS}}
    for name, ins, _, value in made:
        args = [known[i] for i in ins]
        known[name] = None if None in args else value(*args)
        if known[name] is not None and abs(known[name]) > 1 << 20:
            known[name] = None
    return known


def arithmetic_on_extents_is_that_of_c(t):
    """Eight numbers that have a value at each point come out as they are, four of them modulo 8 as the extents of an array."""
    points = [(1, 1, 3), (8, 5, -4), (17, 64, 0), (30, 7, 11)]
    weights = [number(str(v), v) for v in CONSTANTS] + [i64("first", [0]), tensor("third", "f32", [], struct.pack("<f", 0.3))]
    for seed in range(6):
        made = random_numbers(seed)
        wanted = [values_at(made, *p) for p in points]
        shown = [name for name, *_ in made if all(want[name] is not None for want in wanted)][-8:]
        needed = set(shown)
        for name, ins, *_ in reversed(made):
            needed.update(ins if name in needed else ())
        nodes = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "0"], ["h"]), node("Gather", ["s", "1"], ["w"])]
        nodes += [n for name, _, own, _ in made if name in needed for n in own]
        nodes += [node("Add", [name, "0"], [name + ".value"]) for name in shown]
        for name in shown[:4]:
            nodes += [node("Mod", [name, "8"], [name + ".mod"]), node("Unsqueeze", [name + ".mod", "first"], [name + ".size"])]
        nodes += [node("Concat", [name + ".size" for name in shown[:4]], ["sizes"], axis=0), node("ConstantOfShape", ["sizes"], ["y"])]
        outputs = [port(name + ".value", "i64", []) for name in shown] + [port("y", "f32", ["a", "b", "c", "d"])]
        variants = build(t, model(nodes, [port("x", "f32", ["h", "w"]), port("k", "i64", [])], outputs, weights))
        for (h, w, k), want in zip(points, wanted):
            for variant in variants:
                answer = run(t, variant, {"x": ("f32", (h, w), [0.0] * (h * w)), "k": ("i64", (), [k])})
                for name in shown:
                    assert answer[name + ".value"][1] == [want[name]], (seed, variant, (h, w, k), name, answer[name + ".value"], want[name])
                assert answer["y"][0] == tuple(want[name] % 8 for name in shown[:4]), (seed, variant, answer["y"][0])


def pieces_of_free_extents_by_the_hundred(t):
    """Piece k of x is its first n / (k + 1) rows; y is all of them, z what is left of y behind the first of them."""
    count = 150
    nodes = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"])]
    for k in range(count):
        nodes += [node("Div", ["n", f"d{k}"], [f"e{k}"]), node("Slice", ["x", "zero", f"e{k}"], [f"p{k}"])]
    nodes += [node("Concat", [f"p{k}" for k in range(count)], ["y"], axis=0), node("Shape", ["p0"], ["p0s"]),
              node("Gather", ["p0s", "zero"], ["behind"]), node("Slice", ["y", "behind", "end"], ["z"])]
    weights = [i64("zero", [0]), i64("end", [MOST])] + [i64(f"d{k}", [k + 1]) for k in range(count)]
    variants = build(t, model(nodes, [port("x", "f32", ["n", 2])], [port("y", "f32", ["a", 2]), port("z", "f32", ["b", 2])], weights))
    for n in (0, 1, 7, 400):
        x = [float(v) for v in range(2 * n)]
        want = [v for k in range(count) for v in x[:2 * (n // (k + 1))]]
        for variant in variants:
            answer = run(t, variant, {"x": ("f32", (n, 2), x)})
            assert answer["y"] == ((len(want) // 2, 2), want), (variant, n, answer["y"][0])
            assert answer["z"] == ((len(want) // 2 - n, 2), want[2 * n:]), (variant, n, answer["z"][0])


def places(start, end, step, n):
    """Which indices along an axis of n Slice takes."""
    start, end = (v + n if v < 0 else v for v in (start, end))
    if step > 0:
        return range(min(max(start, 0), n), min(max(end, 0), n), step)
    return range(min(max(start, 0), n - 1), min(max(end, -1), n - 1), step)


def slices_that_the_run_tells(t):
    """How many axes, which, from where, to where, in which steps. NONE among the steps is 0, for which golden vectors have no answer."""
    names = ("starts", "ends", "axes", "steps")
    inputs = [port("x", "f32", ["p", "q"])] + [port(name, "i64", ["count"]) for name in names]
    nodes = [node("Equal", ["steps", "0"], ["still"]), node("Where", ["still", "1", "steps"], ["moving"]), node("Equal", ["steps", "NONE"], ["none"]),
             node("Where", ["none", "0", "moving"], ["by"]), node("Slice", ["x", "starts", "ends", "axes", "by"], ["y"], "cut")]
    weights = [number("0", 0), number("1", 1), number("NONE", NONE)]
    variants = build(t, model(nodes, inputs, [port("y", "f32", ["a", "b"])], weights), "--dim", "count=0..2")
    cases = [([0], [2], [0], [1]), ([-1], [LEAST], [1], [-1]), ([MOST, 0], [LEAST, MOST], [1, 0], [-2, 1]), ([1, 1], [2, 2], [0, -1], [1, 1]),
             ([0], [3], [1], [MOST]), ([4], [LEAST], [-1], [LEAST]), ([], [], [], []), ([3], [1], [1], [1]), ([LEAST], [MOST], [0], [3])]
    for p, q in ((3, 5), (0, 5), (4, 1)):
        x = [float(v) for v in range(p * q)]
        for case in cases:
            chosen_places = [range(p), range(q)]
            for start, end, axis, step in zip(*case):
                chosen_places[axis] = places(start, end, step, (p, q)[axis])
            want = [x[i * q + j] for i in chosen_places[0] for j in chosen_places[1]]
            told = {name: ("i64", (len(v),), v) for name, v in zip(names, case)}
            for variant in variants:
                shape, values = run(t, variant, {"x": ("f32", (p, q), x), **told})["y"]
                assert (shape, values) == (tuple(map(len, chosen_places)), want), (variant, (p, q), case, shape, values)
    for case, says in [(([0, 0], [1, 1], [0, -2], [1, 1]), "axes"), (([0], [1], [2], [1]), "axes"), (([0], [1], [-3], [1]), "axes"),
                       (([0], [1], [0], [NONE]), "step")]:
        told = {name: ("i64", (len(v),), v) for name, v in zip(names, case)}
        text = run(t, "portable", {"x": ("f32", (1, 1), [1.0]), **told}, code=6)
        assert "cut" in text and says in text, text


def sizes_in_lists_of_free_length(t):
    """How many sizes there are is a rank: known where the result is declared, or where the list goes with an array."""
    sizes = port("sizes", "i64", ["count"])
    nodes = [node("Reshape", ["x", "sizes"], ["y"], "shaped"), node("Tile", ["x", "times"], ["z"])]
    variants = build(t, model(nodes, [port("x", "f32", ["p", "q"]), sizes, port("times", "i64", ["two"])],
                              [port("y", "f32", ["a", "b", "c"]), port("z", "f32", ["d", "e"])]))
    x = [float(v) for v in range(12)]
    given = {"x": ("f32", (3, 4), x), "times": ("i64", (2,), [1, 2])}
    for variant in variants:
        answer = run(t, variant, {**given, "sizes": ("i64", (3,), [2, -1, 3])})
        assert answer["y"] == ((2, 2, 3), x), answer["y"]
        assert answer["z"][0] == (3, 8) and answer["z"][1][:8] == x[:4] * 2, answer["z"]
    text = run(t, "portable", {**given, "sizes": ("i64", (2,), [12, 1])}, code=6)
    assert "shaped" in text and "must have 3 elements" in text, text
    nodes = [node("Reshape", ["x", "sizes"], ["r"], "shaped"), node("Reshape", ["r", "flat"], ["y"])]
    (t.dir / "b.onnx").write_bytes(model(nodes, [port("x", "f32", ["p", "q"]), sizes], [port("y", "f32", ["n"])], [i64("flat", [-1])]))
    done = t.run("mlpack", "build", "b.onnx", "-o", "b.mlc", "--target", "portable", code=4)
    assert "shaped" in done.stderr and "declare the rank of 'r'" in done.stderr, done.stderr


if __name__ == "__main__":
    main([arithmetic_on_extents_is_that_of_c, pieces_of_free_extents_by_the_hundred, slices_that_the_run_tells, sizes_in_lists_of_free_length])
