"""What `mlpack check` passes is built, what it refuses is refused with the same words, and they are words of the model."""
import json
import struct

from onnx_file import model, node, port, tensor
from tool_test import main

# What only those who write operators or the compiler know.
INSIDE = ("push", "tdiv", "left side", "plans do not have", "//", "floordiv", "$", "nest", "the check at", "condition at")


def i64(name, *values):
    return tensor(name, "i64", [len(values)], struct.pack(f"<{len(values)}q", *values))


def both_refuse(t, name, data, words, number, *options):
    (t.dir / name).write_bytes(data)
    said = []
    for command in (["check", name], ["build", name, "-o", "never.mlc", "--target", "portable"]):
        done = t.run("mlpack", *command, *options, code=(4, 20))
        assert number is None or f"error[E{number}]" in done.stderr, done.stderr
        for word in words:
            assert word in done.stderr, (word, done.stderr)
        for word in INSIDE:
            assert word not in done.stderr, (word, done.stderr)
        said.append((done.returncode, done.stderr))
    assert said[0] == said[1], said
    assert not (t.dir / "never.mlc").exists()


def extents_that_no_run_can_compute_are_named(t):
    nodes = [node("Shape", ["x"], ["s"]), node("Sub", ["s", "one"], ["a"]), node("Div", ["a", "eight"], ["b"]),
             node("ConstantOfShape", ["b"], ["y"], name="fill")]
    data = model(nodes, [port("x", "f32", ["width"])], [port("y", "f32", ["n"])], [i64("one", 1), i64("eight", 8)])
    (t.dir / "m.onnx").write_bytes(data)
    done = t.run("mlpack", "check", "m.onnx", code=(0, 4, 20))
    built = t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--target", "portable", code=done.returncode)
    assert done.returncode == 0 or done.stderr == built.stderr, (done.stderr, built.stderr)
    for word in INSIDE:
        assert word not in done.stderr, done.stderr


def names_that_no_file_can_hold_are_refused_at_once(t):
    def renamed(x="x", extent="N", y="y"):
        return model([node("Relu", [x], [y])], [port(x, "f32", [extent, 4])], [port(y, "f32", [extent, 4])])

    for name, data, word in (("control", renamed(x="a\nb"), r'input "a\x0ab"'), ("unseen", renamed(x="x\u202e"), r'input "x\xe2\x80\xae"'),
                             ("zero", renamed(x="a\0b"), r'input "a\x00b"'), ("output", renamed(y="y\x1b[31m"), r'output "y\x1b[31m"'),
                             ("bytes", renamed(extent=b"\xff"), r'extent "\xff" of input "x"'), ("empty", renamed(x=""), 'input "" has an empty name'),
                             ("long", renamed(extent="N" * 1024), "1024 bytes, at most 1023")):
        both_refuse(t, f"{name}.onnx", data, [word], 1012)
    # Names of what is inside, and of the file, are shown to few: they are changed, as are those that are too long.
    weight = tensor(b"w\x1b\xff", "f32", [4], struct.pack("<4f", 1, 2, 3, 4))
    inside = model([node("Add", ["x", b"w\x1b\xff"], ["y"])], [port("x", "f32", ["N", 4])], [port("y", "f32", ["N", 4])], [weight])
    for name in ("inside.onnx", "\udcff\x1b.onnx", "n" * 250 + ".onnx"):
        (t.dir / name).write_bytes(inside)
        t.run("mlpack", "check", name)
        t.run("mlpack", "build", name, "-o", "inside.mlc", "--target", "portable")
    for option, code in (("--shape=x=[a\x1bb,4]", 2), ("--feed=w\x1b\udcff", 4)):
        said = [t.run("mlpack", *command, option, code=code).stderr for command in (["check", "inside.onnx"], ["build", "inside.onnx", "-o", "never.mlc"])]
        assert said[0] == said[1], said


def an_operator_that_is_not_covered_is_named_with_what_it_was_given(t):
    count = 70
    joined = model([node("Concat", [f"x{k}" for k in range(count)], ["y"], name="join", axis=0)],
                   [port(f"x{k}", "f32", [f"n{k}", 2]) for k in range(count)], [port("y", "f32", ["n", 2])])
    (t.dir / "joined.onnx").write_bytes(joined)
    done = t.run("mlpack", "check", "joined.onnx", code=(0, 20))
    if done.returncode:
        both_refuse(t, "joined.onnx", joined, ["join (Concat", "'x0': f32[n0, 2]", "and 62 more", "axis: 0", "--dim", "--ops"], 2015)
    axes = model([node("Unsqueeze", ["x", "a"], ["y"], name="grow")], [port("x", "f32", ["N", 7]), port("a", "i64", ["K"])], [port("y", "f32", None)])
    both_refuse(t, "axes.onnx", axes, ["grow (Unsqueeze", "'a': i64[K]", "not known while building", "--dim"], 2015)
    (t.dir / "axes.onnx").write_bytes(axes)


def shapes_that_cannot_be_multiplied_are_shown(t):
    table = tensor("w", "f32", [4, 3], bytes(48))
    wrong = model([node("MatMul", ["x", "w"], ["y"], name="mm")], [port("x", "f32", ["N", 3])], [port("y", "f32", ["N", 3])], [table])
    both_refuse(t, "wrong.onnx", wrong, ["mm (", "MatMul", "'x' f32[N,3]", "'w' f32[4,3]", "differ"], None)


def steps_of_windows_are_at_least_one(t):
    windows = [("Conv", ["x", "w"], {}), ("ConvTranspose", ["x", "w"], {}), ("DeformConv", ["x", "w", "o"], {}), ("MaxPool", ["x"], {"kernel_shape": [3, 3]}),
               ("AveragePool", ["x"], {"kernel_shape": [3, 3]})]
    ports = {"x": [1, 4, 8, 8], "w": [4, 4, 3, 3], "o": [1, 18, 6, 6]}
    for op, inputs, more in windows:
        for name in ("strides", "dilations"):
            for step in (0, -1):
                nodes = [node(op, inputs, ["y"], "windowed", **more, **{name: [step, step]})]
                (t.dir / "m.onnx").write_bytes(model(nodes, [port(i, "f32", ports[i]) for i in inputs], [port("y", "f32", ["a", "b", "c", "d"])], opset=19))
                for command in (["check", "m.onnx"], ["build", "m.onnx", "-o", "m.mlc", "--target", "portable", "--no-sign"]):
                    assert op in t.json("mlpack", *command, code=4)["message"], (op, name, step)


def names_that_others_give_targets_are_known(t):
    (t.dir / "m.onnx").write_bytes(model([node("Relu", ["x"], ["y"])], [port("x", "f32", [4])], [port("y", "f32", [4])]))
    for name, ours in (("arm64", "armv8-a"), ("AVX2", "x86-64-v3"), ("riscv64", "rv64gc"), ("gpu", "vulkan,cuda"), ("host", "native"), ("x86-64-v33", "x86-64-v3")):
        message = t.json("mlpack", "build", "m.onnx", "-o", "m.mlc", "--target", name, code=2)["message"]
        assert f"did you mean '{ours}'?" in message, message
        for target in ours.split(","):
            t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "-f", "--no-sign", "--no-golden", "--target", target)


def bounds_count_as_in_a_build(t):
    axes = model([node("ReduceSum", ["x", "a"], ["y"], name="sum")], [port("x", "f32", ["N", 7]), port("a", "i64", ["K"])], [port("y", "f32", None)])
    (t.dir / "m.onnx").write_bytes(axes)
    assert "no free extent 'Q'" in t.run("mlpack", "check", "m.onnx", "--dim", "Q=3", code=2).stderr
    codes = [t.run("mlpack", *command, "m.onnx", *more, "--dim", "K=1", code=(0, 4, 20)).returncode
             for command, more in ((["check"], []), (["build"], ["-o", "m.mlc", "--target", "portable"]))]
    assert codes[0] == codes[1], codes


def a_pipeline_decides_about_ranks_as_the_bare_model_does(t):
    """Squeeze keeps the free extent, because Transpose fits no other way; so it does between the steps of a pipeline."""
    nodes = [node("Squeeze", ["x"], ["s"], name="less"), node("Transpose", ["s"], ["y"], perm=[1, 0])]
    (t.dir / "m.onnx").write_bytes(model(nodes, [port("x", "f32", [1, 1, "H", 4])], [port("y", "f32", None)]))
    steps = [{"op": "decode_image", "in": "photo", "color": "gray", "like": "pillow", "orient": "ignore", "alpha": "drop"},
             {"op": "resize", "size": [6, 4], "kernel": "bilinear", "like": "pillow"}, {"op": "normalize", "div": 255}, {"op": "layout", "to": "NCHW", "out": "x"},
             {"op": "run", "program": "main", "in": {"x": "x"}, "out": {"y": "answer"}}]
    (t.dir / "p.json").write_text(json.dumps({"mlc_pipeline": 1, "inputs": {"photo": {"accept": ["image/png"]}}, "steps": steps, "outputs": ["answer"]}))
    for command in (["check", "m.onnx"], ["build", "m.onnx", "-o", "m.mlc", "--target", "portable"]):
        t.run("mlpack", *command, "--pipeline", "p.json")
    open_rank = model(nodes[:1], [port("x", "f32", [1, "W", "H", 4])], [port("s", "f32", None)])
    both_refuse(t, "open.onnx", open_rank, ["less (", "axis 1 ('W'), 2 ('H') of 'x'", "--dim W=1"], None)
    assert t.run("mlpack", "check", "open.onnx", "--dim", "W=1", "--dim", "H=2..90").returncode == 0


def slow_nodes_are_named_with_their_part_of_the_work(t):
    (t.dir / "m.onnx").write_bytes(model([node("Compress", ["x", "c"], ["y"], name="some")], [port("x", "f32", [64, 512]), port("c", "bool", [32768])],
                                         [port("y", "f32", None)]))
    assert "some (Compress)" in t.run("mlpack", "check", "m.onnx").stdout
    slow = t.json("mlpack", "check", "m.onnx")["slow"]
    assert slow[0]["node"] == "some (Compress)" and 0.05 <= slow[0]["share"] <= 1, slow
    (t.dir / "quick.onnx").write_bytes(model([node("Relu", ["x"], ["y"])], [port("x", "f32", [64, 64])], [port("y", "f32", [64, 64])]))
    assert t.json("mlpack", "check", "quick.onnx")["slow"] == []


def devices_are_asked_as_a_build_asks_them(t):
    """A block over more arrays than a launch of Vulkan can bind, beside a node that any device takes."""
    many = [f"x{k}" for k in range(20)]
    (t.dir / "ops").mkdir()
    (t.dir / "ops" / "wide.mlop").write_text("domain example\nop Wide@1(" + ", ".join(f"{x}: f32[n]" for x in many) + ") -> y: f32[n]\n  proc {\n    for n { y[n] = " +
                                             " + ".join(f"{x}[n]" for x in many) + " } }\n")
    nodes = [node("Wide", many, ["s"], "wide", domain="example"), node("CumSum", ["s", "axis"], ["y"], "behind")]
    (t.dir / "m.onnx").write_bytes(model(nodes, [port(x, "f32", [5]) for x in many], [port("y", "f32", [5])], [tensor("axis", "i64", [], struct.pack("<q", 0))], domains=("example",)))
    three = ("--ops", "ops", "--target", "vulkan-base,cuda-sm80,x86-64-v2")
    done = t.json("mlpack", "check", "m.onnx", *three)
    assert done["native_targets"] == ["x86-64-v2"], done
    warnings = t.json("mlpack", "build", "m.onnx", "-o", "m.mlc", "--no-sign", "--no-golden", "--no-selftest", "--cubin", "none", *three)["warnings"]
    built = {v["name"] for v in t.json("mlpack", "inspect", "m.mlc")["variants"]}
    found = {device["target"]: device for device in done["devices"]}
    assert list(found) == ["vulkan-base", "cuda-sm80"], found
    for name, device in found.items():
        assert device["has_variant"] == (name in built) == all(n["compiles"] for n in device["nodes"]), (device, built)
    refused = [n for n in found["vulkan-base"]["nodes"] if not n["compiles"]]
    assert [n["node"] for n in refused] == ["wide (Wide)"] and "bindings" in refused[0]["why"] and any(refused[0]["why"] in w for w in warnings), (refused, warnings)
    assert any(n["compiles"] and "behind" in n["node"] for n in found["vulkan-base"]["nodes"]), found
    text = t.run("mlpack", "check", "m.onnx", "--ops", "ops", "--target", "vulkan-base,native").stdout
    assert "all of it runs on the processor" in text and "bindings" in text, text
    alone = ("--ops", "ops", "--target", "vulkan-base")
    said = [t.run("mlpack", *command, *alone, code=20).stderr for command in (["check", "m.onnx"], ["build", "m.onnx", "-o", "never.mlc", "--no-golden"])]
    assert said[0] == said[1] and refused[0]["why"] in said[0], said


def what_the_processor_does_between_kernels_is_named(t):
    nodes = [node("SequenceConstruct", ["x", "x"], ["l"], "pair"), node("SequenceAt", ["l", "k"], ["a"], "which"), node("Relu", ["a"], ["y"], "behind")]
    (t.dir / "m.onnx").write_bytes(model(nodes, [port("x", "f32", [4]), port("k", "i64", [])], [port("y", "f32", [4])]))
    device = t.json("mlpack", "check", "m.onnx", "--target", "cuda-sm80")["devices"][0]
    apart = [n for n in device["nodes"] if not n["compiles"]]
    assert device["has_variant"] and apart and all("list" in n["why"] and "between kernels" in n["why"] for n in apart), device


main([devices_are_asked_as_a_build_asks_them, what_the_processor_does_between_kernels_is_named, extents_that_no_run_can_compute_are_named, names_that_no_file_can_hold_are_refused_at_once, an_operator_that_is_not_covered_is_named_with_what_it_was_given,
      shapes_that_cannot_be_multiplied_are_shown, steps_of_windows_are_at_least_one, names_that_others_give_targets_are_known, bounds_count_as_in_a_build,
      slow_nodes_are_named_with_their_part_of_the_work,
      a_pipeline_decides_about_ranks_as_the_bare_model_does])
