"""Models made to hurt: every one gets an answer that names the node or the tensor, within memory in proportion to the file."""
import os
import resource
import struct
import subprocess

from onnx_file import data, model, node, number, port, tensor, varint
from tool_test import main

X, HUGE = port("x", "f32", [4, 8]), 1 << 62
MEMORY = 3 << 30  # address space of one mlpack


def y(name="y"):
    return port(name, "f32", [4, 8])


def i64(*values):
    return struct.pack(f"<{len(values)}q", *values)


def body(name, nodes, outputs, inputs=()):
    graph = b"".join(data(1, n) for n in nodes) + data(2, "body") + b"".join(data(11, i) for i in inputs) + b"".join(data(12, o) for o in outputs)
    return data(1, name) + data(6, graph) + number(20, 5)


def with_bodies(op, inputs, outputs, attributes, name):
    return (b"".join(data(1, i) for i in inputs) + b"".join(data(2, o) for o in outputs) + data(3, name) + data(4, op)
            + b"".join(data(5, a) for a in attributes))


def function(name, nodes):
    opsets = data(9, data(1, "") + number(2, 13)) + data(9, data(1, "my") + number(2, 1))
    return data(1, name) + data(4, "a") + data(5, "b") + b"".join(data(7, n) for n in nodes) + opsets + data(10, "my")


def calls(functions, top):
    return model([node(top, ["x"], ["y"], "top", "my")], [X], [y()], domains=["my"]) + b"".join(data(25, f) for f in functions)


def nested_ifs(depth):
    inner, out = node("Relu", ["x"], ["r"], "innermost"), "r"
    for d in range(depth):
        other = body("else_branch", [node("Neg", ["x"], [f"e{d}"], f"neg{d}")], [y(f"e{d}")])
        inner = with_bodies("If", ["c"], [f"o{d}"], [body("then_branch", [inner], [y(out)]), other], f"if{d}")
        out = f"o{d}"
    return model([inner], [port("c", "bool", []), X], [y(out)])


def chain(op, length, second=()):
    return model([node(op, [f"t{k}" if k else "x", *second], [f"t{k + 1}"], f"n{k}") for k in range(length)], [X], [y(f"t{length}")])


def one(op, inputs=("x",), ports=(X,), out=None, initializers=(), opset=13, name="it", **attributes):
    return model([node(op, inputs, ["y"], name, **attributes)], ports, [out or y()], initializers, opset=opset)


def claim(*fields):
    return one("Add", ("x", "w"), initializers=[b"".join(fields) + number(2, 1) + data(8, "w")])


def external(location, **entries):
    fields = data(13, data(1, "location") + data(2, location)) + b"".join(data(13, data(1, k) + data(2, str(v))) for k, v in entries.items())
    return claim(number(1, 4), number(14, 1), fields)


def check(tools, bytes_):
    (tools.dir / "m.onnx").write_bytes(bytes_)
    def limit():
        if "MLC_SANITIZED" not in os.environ:  # sanitizers want terabytes of addresses for themselves
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    return subprocess.run([str(tools.bin / "mlpack"), "check", "m.onnx"], cwd=tools.dir, env=tools.env, capture_output=True, text=True,
                          preexec_fn=limit, stdin=subprocess.DEVNULL, errors="replace")


def refuses(tools, cases):
    for what, (bytes_, *words) in cases.items():
        done = check(tools, bytes_)
        assert done.returncode in (3, 4, 6, 7, 20), f"{what}: exit {done.returncode}\n{done.stdout[:300]}{done.stderr[:800]}"
        assert len(done.stderr) < 20000, f"{what}: a message of {len(done.stderr)} bytes"
        for word in words:
            assert word in done.stderr, f"{what}: no '{word}' in\n{done.stderr[:800]}"


def graphs_that_are_not_well_formed_are_refused_by_the_name_of_the_node(tools):
    ring = [node("Add", ["x", "t19999"], ["t0"], "first")] + [node("Relu", [f"t{k}"], [f"t{k + 1}"], f"n{k}") for k in range(19999)]
    refuses(tools, {
        "cycle": (model(ring, [X], [y("t19999")]), "'first'", "cycle"),
        "own input": (one("Add", ("x", "y"), name="selfish"), "'selfish'", "cycle"),
        "missing input": (one("Add", ("x", "nowhere"), name="adder"), "'adder'", "'nowhere'"),
        "too few inputs": (one("Add", name="adder"), "adder", "input b is missing"),
        "written twice": (model([node("Relu", ["x"], ["y"], "a"), node("Neg", ["x"], ["y"], "b")], [X], [y()]), "'b'", "'y'"),
        "two inputs of one name": (one("Relu", ports=[X, X]), "'x'"),
        "two weights of one name": (one("Add", ("x", "w"), initializers=[tensor("w", "f32", [1], bytes(4))] * 2), "'w'"),
        "no output": (model([node("Relu", ["x"], ["z"], "r")], [X], []), "no output"),
        "output of nothing": (model([node("Relu", ["x"], ["z"], "r")], [X], [y()]), "'y'"),
        "element types": (one("Add", ("x", "i"), [X, port("i", "i64", [4, 8])], name="adder"), "adder", "i64", "f32"),
        "type of the output": (one("Relu", out=port("y", "i64", [4, 8])), "'y'", "i64", "f32"),
        "shapes": (one("Add", ("x", "i"), [X, port("i", "f32", [3, 8])], name="adder"), "adder", "differ"),
        "operator": (one("Nonesuch", name="odd"), "Nonesuch", "'odd'"),
        "domain": (model([node("Relu", ["x"], ["y"], "odd", "com.nobody")], [X], [y()]), "com.nobody:Relu", "'odd'"),
        "opset 0": (one("Relu", opset=0), "version 0"),
        "opset 999": (one("Relu", opset=999), "opset 999", "up to opset 28"),
        "a name of 1 MB": (one("Add", name="n" * 1_000_000), "input b is missing", "bytes) ..."),
    })


def numbers_that_do_not_fit_are_refused(tools):
    free = port("y", "f32", ["a", "b"])
    four = [port("x", "f32", [4])]
    refuses(tools, {
        "extent": (one("Relu", ports=[port("x", "f32", [HUGE, 4])]), "'x'", "overflow"),
        "negative extent": (one("Relu", ports=[port("x", "f32", [-(1 << 63)])]), "'x'", "negative"),
        "padding": (one("Pad", ("x", "s"), four, free, [tensor("s", "i64", [2], i64(HUGE, HUGE))]), "'y'", "overflow"),
        "tiles": (one("Tile", ("x", "s"), four, free, [tensor("s", "i64", [1], i64(HUGE))]), "'y'", "overflow"),
        "expansion": (one("Expand", ("x", "s"), [port("x", "f32", [1])], free, [tensor("s", "i64", [1], i64(HUGE))]), "'y'", "overflow"),
        "axis": (one("Softmax", axis=HUGE, name="soft"), "soft", "axis"),
        "permutation": (one("Transpose", perm=[0, HUGE], name="turn"), "turn", "axis"),
        "permutation of 10^6 axes": (one("Transpose", perm=[0] * 1_000_000, name="turn"), "turn", "1000000 values"),
        "window": (one("MaxPool", ports=[port("x", "f32", [1, 2, 8, 8])], out=port("y", "f32", list("abcd")), name="pool",
                       kernel_shape=[1 << 40, 1 << 40]), "pool", "extent"),
        "stride of 0": (one("MaxPool", ports=[port("x", "f32", [1, 2, 8, 8])], out=port("y", "f32", list("abcd")), name="pool",
                            kernel_shape=[2, 2], strides=[0, 0]), "pool", "strides > 0"),
        "rank": (one("Relu", ports=[port("x", "f32", [1] * 64)], out=port("y", "f32", [1] * 64)), "'x'", "64 axes"),
    })


def tensors_that_lie_are_refused(tools):
    (tools.dir / "good.bin").write_bytes(bytes(16))
    (tools.dir / "link.bin").symlink_to("/etc/passwd")
    (tools.dir / "folder").symlink_to("/etc")
    os.mkfifo(tools.dir / "pipe")
    refuses(tools, {
        "3 GB in 1 KB": (claim(number(1, 805306368), data(9, b"1234")), "'w'", "3221225472"),
        "no data": (claim(number(1, 805306368)), "'w'", "3221225472"),
        "product": (claim(number(1, HUGE), number(1, HUGE), data(9, b"1234")), "'w'", "overflow"),
        "negative": (claim(number(1, -4), data(9, b"1234")), "'w'", "negative"),
        "length of a field": (one("Add", ("x", "w"), initializers=[varint(9 << 3 | 2) + varint(3 << 30)]), "protobuf"),
        "folder above": (external("../../etc/passwd"), "'w'", "outside"),
        "absolute": (external("/etc/passwd"), "'w'", "outside"),
        "link": (external("link.bin"), "'w'", "outside"),
        "link to a folder": (external("folder/passwd"), "'w'", "outside"),
        "pipe": (external("pipe"), "'w'", "regular file"),
        "missing": (external("none.bin"), "'w'", "none.bin"),
        "short": (external("good.bin", offset=8), "'w'", "good.bin"),
        "offset that wraps": (external("good.bin", offset=(1 << 64) - 4, length=16), "'w'", "good.bin"),
        "length": (external("good.bin", length=1 << 40), "'w'", "good.bin"),
    })


def nesting_is_bounded(tools):
    deep = [function("f0", [node("Relu", ["a"], ["b"], "r")])]
    twice = list(deep)
    for k in range(1, 1000):
        deep.append(function(f"f{k}", [node(f"f{k - 1}", ["a"], ["b"], f"c{k}", "my")]))
    for k in range(1, 40):
        twice.append(function(f"f{k}", [node(f"f{k - 1}", ["a"], ["m"], "", "my"), node(f"f{k - 1}", ["m"], ["b"], "", "my")]))
    ring = [function("f0", [node("f1", ["a"], ["b"], "", "my")]), function("f1", [node("f0", ["a"], ["b"], "", "my")])]
    refuses(tools, {"bodies": (nested_ifs(1000), "nested deeper"), "messages": (nested_ifs(3000),), "functions": (calls(deep, "f999"), "f999"),
                    "functions that double": (calls(twice, "f39"), "f39"), "functions in a ring": (calls(ring, "f0"), "calls itself")})
    assert check(tools, nested_ifs(30)).returncode == 0


def large_models_are_answered(tools):
    wide = [node("Relu", ["x"], [f"t{k}"], f"n{k}") for k in range(10_000)]
    branch = lambda which, op, k: body(which, [node(op, ["x"], [f"{op}{k}"], f"{op}{k}")], [y(f"{op}{k}")])  # noqa: E731
    ifs = [with_bodies("If", ["c"], [f"t{k}"], [branch("then_branch", "Relu", k), branch("else_branch", "Neg", k)], f"if{k}") for k in range(2000)]
    joined = lambda n: model(ifs[:n] + [node("Sum", [f"t{k}" for k in range(n)], ["y"], "sum")], [port("c", "bool", []), X], [y()])  # noqa: E731
    concat = [node("Concat", [f"t{k}" if k else "x", "x"], [f"t{k + 1}"], f"n{k}", axis=0) for k in range(5000)]
    cases = {
        "a chain of 100,000 nodes": chain("Relu", 100_000),
        "a chain of 20,000 additions": chain("Add", 20_000, ["x"]),
        "an input used 10,000 times": model(wide + [node("Sum", [f"t{k}" for k in range(10_000)], ["y"], "sum")], [X], [y()]),
        "500 branches": joined(500),
        "a chain of 5,000 Concat": model(concat, [X], [port("t5000", "f32", [20_004, 8])]),
        "100,000 weights that nobody reads": one("Relu", initializers=[tensor(f"w{k}", "f32", [1], bytes(4)) for k in range(100_000)]),
        "2,000 names of extents": one("Relu", ports=[X] + [port(f"p{k}", "f32", [f"a{k}", f"b{k}"]) for k in range(1000)]),
        "no elements": one("Relu", ports=[port("x", "f32", [0, 8])], out=port("y", "f32", [0, 8])),
    }
    for what, bytes_ in cases.items():
        done = check(tools, bytes_)
        assert done.returncode == 0, f"{what}: exit {done.returncode}\n{done.stderr[:800]}"
    refuses(tools, {"10,000 outputs": (model(wide, [X], [y(f"t{k}") for k in range(10_000)]), "10000 outputs", "1024"),
                    "2,000 branches": (joined(2000), "2000 arrays", "1024", "sum")})


def lists_of_attributes_may_be_long_but_not_multiply(tools):
    count = 30_000
    grams = lambda counts, pool, indexes, **more: model([node("TfIdfVectorizer", ["x"], ["y"], "grams", mode="TFIDF", max_skip_count=0, min_gram_length=1,  # noqa: E731
        ngram_counts=counts, ngram_indexes=indexes, pool_int64s=pool, **more)], [port("x", "i64", ["N"])], [port("y", "f32", [len(indexes)])])
    done = check(tools, grams([0], list(range(count)), list(range(count)), max_gram_length=1, weights=[0.5] * count))
    assert done.returncode == 0, done.stderr[:800]
    refuses(tools, {"300,000 lengths of n-grams": (grams([0] * 300_000, list(range(300_000)), [0], max_gram_length=300_000), "grams", "steps while building")})


if __name__ == "__main__":
    main([graphs_that_are_not_well_formed_are_refused_by_the_name_of_the_node, numbers_that_do_not_fit_are_refused,
          tensors_that_lie_are_refused, nesting_is_bounded, large_models_are_answered,
          lists_of_attributes_may_be_long_but_not_multiply])
