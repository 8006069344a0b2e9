"""Golden vectors of a build: the user's own, drawn ones, and none."""
import random
import struct
import zipfile

from onnx_file import data, model, node, number, port, tensor
from tool_test import main


def npy(code, shape, data):
    head = str({"descr": code, "fortran_order": False, "shape": shape}).encode()
    head += b" " * (63 - (10 + len(head)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data


def npz(path, **arrays):
    with zipfile.ZipFile(path, "w") as z:
        for name, array in arrays.items():
            z.writestr(name + ".npy", npy(*array))


def lookup(t):
    """Rows of a table of four."""
    table = tensor("table", "f32", [4, 2], struct.pack("<8f", *range(8)))
    (t.dir / "m.onnx").write_bytes(model([node("Gather", ["table", "ids"], ["y"])], [port("ids", "i64", ["n"])], [port("y", "f32", ["n", 2])], [table]))


def build(t, *args, **more):
    return t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--target", "portable", *args, **more)


def the_users_own_vectors_are_in_the_file(t):
    lookup(t)
    npz(t.dir / "in.npz", ids=("<i8", (2,), struct.pack("<2q", 3, 1)))
    npz(t.dir / "other.npz", ids=("<i8", (3,), struct.pack("<3q", 0, 0, 2)))
    assert "2 vectors" in build(t, "--golden", "in.npz", "--golden", "other.npz").stdout
    vectors = t.json("mlpack", "inspect", "m.mlc")["golden"]
    assert [(v["name"], v["bindings"]) for v in vectors] == [("main/in", [2]), ("main/other", [3])], vectors
    t.run("mlrun", "selftest", "m.mlc")


def products_in_16_bits_are_asked_for_and_their_tolerance_is_recorded(t):
    weights = tensor("w", "f32", [16, 32], struct.pack("<512f", *(0.37 * (k % 11) - 1.3 for k in range(512))))
    (t.dir / "m.onnx").write_bytes(model([node("MatMul", ["x", "w"], ["y"])], [port("x", "f32", ["n", 16])], [port("y", "f32", ["n", 32])], [weights]))
    for precision, tolerance in ((), 1e-3), (("--precision", "f32"), 1e-3), (("--precision", "bf16"), 3e-2), (("--precision", "f16"), 5e-3):
        build(t, *precision)
        found = t.json("mlpack", "inspect", "m.mlc", "--tensors")
        assert [v["tolerance"][0]["value"] for v in found["golden"] + found["variants"]] == [tolerance] * (len(found["golden"]) + len(found["variants"])), found
        said = t.run("mlpack", "inspect", "m.mlc").stdout
        assert found["golden"] and all((f"1 in {name}" in said) == (name in precision) for name in ("bf16", "f16")), said
        t.run("mlrun", "selftest", "m.mlc")
    for precision, most in ("bf16", 1e-2), ("f16", 1e-3):
        answer = t.json("mlpack", "build", "m.onnx", "-o", "m.mlc", "-f", "--target", "portable", "--precision", precision)
        assert answer["precision"]["type"] == precision and answer["precision"]["output"] == "y" and 0 < answer["precision"]["error"] < most, answer
        assert f"precision {precision}: 'y' of main is off by 0." in build(t, "-f", "--precision", precision).stdout
    assert t.json("mlpack", "build", "m.onnx", "-o", "m.mlc", "-f", "--target", "portable")["precision"] is None
    build(t, "--precision", "f8", code=2)


def products_in_tf32_are_for_tensor_cores(t):
    """64 rows, columns and steps, which a tile wants; 1 + k*2^-13, which tf32 does not hold."""
    weights = tensor("w", "f32", [64, 64], struct.pack("<4096f", *(1 + k % 97 / 8192 for k in range(4096))))
    (t.dir / "m.onnx").write_bytes(model([node("MatMul", ["x", "w"], ["y"])], [port("x", "f32", [64, 64])], [port("y", "f32", [64, 64])], [weights]))
    built = {p: t.json("mlpack", "build", "m.onnx", "-o", "m.mlc", "-f", "--target", "cuda-sm75,cuda-sm80,native", "--cubin", "none", "--precision", p) for p in ("f32", "tf32")}
    assert built["f32"]["precision"] is None
    assert built["tf32"]["precision"]["type"] == "tf32" and 0 < built["tf32"]["precision"]["error"] < 1e-3, built["tf32"]
    found = t.json("mlpack", "inspect", "m.mlc", "--tensors")
    assert {v["name"]: v["tolerance"][0]["value"] for v in found["variants"] if v["name"].startswith("cuda")} == {"cuda-sm75": 1e-3, "cuda-sm80": 3e-3}, found
    assert [v["tolerance"][0]["value"] for v in found["golden"]] == [3e-3] * len(found["golden"]) and found["golden"]
    assert "1 tensor, 4096 elements\n" in t.run("mlpack", "inspect", "m.mlc").stdout


def what_f16_cannot_hold_stays_f32_or_is_refused(t):
    """A weight beyond 65504 keeps its product in f32; a value beyond it ends the build, and bf16 takes both."""
    large = tensor("w", "f32", [16, 32], struct.pack("<512f", *(7e4 if k == 5 else 1 for k in range(512))))
    usual = tensor("u", "f32", [32, 16], struct.pack("<512f", *(1 + k % 7 / 64 for k in range(512))))
    nodes = [node("MatMul", ["x", "w"], ["h"]), node("Tanh", ["h"], ["g"]), node("MatMul", ["g", "u"], ["y"])]
    (t.dir / "m.onnx").write_bytes(model(nodes, [port("x", "f32", ["n", 16])], [port("y", "f32", ["n", 16])], [large, usual]))
    build(t, "--precision", "f16")
    assert "2 tensors, 1024 elements, 1 in f16" in t.run("mlpack", "inspect", "m.mlc").stdout
    nodes[1] = node("Relu", ["h"], ["g"])
    (t.dir / "m.onnx").write_bytes(model(nodes, [port("x", "f32", ["n", 16])], [port("y", "f32", ["n", 16])], [large, usual]))
    (t.dir / "m.mlc").unlink()
    npz(t.dir / "in.npz", x=("<f4", (2, 16), struct.pack("<32f", *([1] * 32))))
    done = build(t, "--precision", "f16", "--golden", "in.npz", code=20)
    assert "with factors of f16 'y' is infinite or no number" in done.stderr and "--precision bf16" in done.stderr, done.stderr
    assert not (t.dir / "m.mlc").exists()
    build(t, "--precision", "bf16", "--golden", "in.npz")
    usual = tensor("w", "f32", [16, 32], struct.pack("<512f", *(4000 + k % 7 for k in range(512))))
    (t.dir / "m.onnx").write_bytes(model(nodes, [port("x", "f32", ["n", 16])], [port("y", "f32", ["n", 16])], [usual, tensor("u", "f32", [32, 16], struct.pack("<512f", *(1 + k % 7 / 64 for k in range(512))))]))
    assert "'main' is tested by inputs of at most 1: larger ones were beyond f16" in (done := build(t, "-f", "--precision", "f16")).stdout + done.stderr, done


def what_is_measured_is_what_a_build_rounds(t):
    """Normalisations that go into weights once their scales are computed: the portable form is as far off as the build said."""
    draw, nodes, weights, x = random.Random(3), [], [], "x"
    for k in range(3):
        weights.append(tensor(f"w{k}", "f32", [16, 16, 1, 1], struct.pack("<256f", *(draw.gauss(0, 1) for _ in range(256)))))
        weights += [tensor(f"{name}{k}", "f32", [16], struct.pack("<16f", *(1 + draw.random() for _ in range(16)))) for name in "gbmv"]
        nodes += [node("Conv", [x, f"w{k}"], [f"c{k}"]), node("BatchNormalization", [f"c{k}", *(f"{name}{k}" for name in "gbmv")], [f"n{k}"]), node("Relu", [f"n{k}"], [f"r{k}"])]
        x = f"r{k}"
    (t.dir / "m.onnx").write_bytes(model(nodes, [port("x", "f32", [1, 16, 8, 8])], [port(x, "f32", [1, 16, 8, 8])], weights, opset=17))
    for precision in "bf16", "f16":
        error = t.json("mlpack", "build", "m.onnx", "-o", "m.mlc", "-f", "--target", "portable", "--precision", precision)["precision"]["error"]
        found = t.json("mlrun", "selftest", "m.mlc")["variants"][0]["max_rel"]
        assert 0 < error and abs(found / error - 1) < 0.02, (precision, error, found)


def what_rounding_costs_is_told_in_words_where_no_drawn_input_shows_it(t):
    """A softmax whose first class is far ahead for any input is 1 and zeros, whatever is rounded; with an even bias it is not."""
    weights = tensor("w", "f32", [16, 32], struct.pack("<512f", *(0.37 * (k % 11) - 1.3 for k in range(512))))
    nodes = [node("MatMul", ["x", "w"], ["h"]), node("Add", ["h", "b"], ["scores"]), node("Softmax", ["scores"], ["y"], axis=-1)]
    for first in 1e6, 0:
        bias = tensor("b", "f32", [32], struct.pack("<32f", first, *([0] * 31)))
        (t.dir / "m.onnx").write_bytes(model(nodes, [port("x", "f32", ["n", 16])], [port("y", "f32", ["n", 32])], [weights, bias]))
        done, found = build(t, "-f", "--precision", "bf16").stdout, t.json("mlpack", "build", "m.onnx", "-o", "m.mlc", "-f", "--target", "portable", "--precision", "bf16")["precision"]
        if first:
            assert "precision bf16: what it costs main is not known: its answers to drawn inputs are saturated" in done and "off by" not in done, done
            assert found["error"] is None and "saturated" in found["not_measured"][0]["reason"], found
        else:
            assert "precision bf16: 'y' of main is off by" in done and 1e-4 < found["error"] < 1e-1 and "not_measured" not in found, (done, found)


def what_rounding_costs_programs_with_control_flow_is_read_off_their_runs(t):
    weights = tensor("w", "f32", [16, 32], struct.pack("<512f", *(0.37 * (k % 11) - 1.3 for k in range(512))))
    bodies = [data(5, data(1, name) + data(6, data(1, node("MatMul", ["x", w], [w + "y"])) + data(2, name) + data(12, port(w + "y", "f32", ["n", 32]))) + number(20, 5))
              for name, w in (("then_branch", "w"), ("else_branch", "v"))]
    nodes = [node("ReduceSum", ["x"], ["s"], keepdims=0), node("Greater", ["s", "zero"], ["c"]), node("If", ["c"], ["y"]) + b"".join(bodies)]
    others = [tensor("v", "f32", [16, 32], struct.pack("<512f", *(0.11 * (k % 13) - 0.6 for k in range(512)))), tensor("zero", "f32", [], struct.pack("<f", 0))]
    (t.dir / "m.onnx").write_bytes(model(nodes, [port("x", "f32", ["n", 16])], [port("y", "f32", ["n", 32])], [weights, *others]))
    done = build(t, "--precision", "bf16").stdout
    assert "precision bf16: main is off by 0." in done and "where its vectors ran here, which has control flow" in done, done
    found = t.json("mlpack", "build", "m.onnx", "-o", "m.mlc", "-f", "--target", "portable", "--precision", "bf16")["precision"]
    error, told = t.json("mlrun", "selftest", "m.mlc")["variants"][0]["max_rel"], found["not_measured"][0]
    assert found["error"] is None and told["program"] == "main" and 0 < told["error"] < 1e-2 and abs(told["error"] / error - 1) < 1e-6, (found, error)
    done = build(t, "-f", "--precision", "bf16", "--no-selftest").stdout
    assert "precision bf16: what it costs main is not known: it has control flow, and was run by nothing that rounds" in done, done


def products_in_bf16_that_lose_the_answer_are_refused(t):
    # (x*w)*u, where the second product takes the digits away that the first one has in all columns.
    weights = [tensor("w", "f32", [16, 32], struct.pack("<512f", *(200 + 0.37 * (k * 7 % 11) for k in range(512)))),
               tensor("u", "f32", [32, 8], struct.pack("<256f", *(1 if k // 8 % 2 else -1 for k in range(256))))]
    (t.dir / "m.onnx").write_bytes(model([node("MatMul", ["x", "w"], ["h"]), node("MatMul", ["h", "u"], ["y"])], [port("x", "f32", ["n", 16])], [port("y", "f32", ["n", 8])], weights))
    build(t)
    done = build(t, "-f", "--precision", "bf16", code=21)
    assert "with factors of bf16 'y' is off by" in done.stderr and "--precision f32" in done.stderr and "--golden in.npz" in done.stderr, done.stderr
    build(t, "-f", "--precision", "bf16", "--no-golden")


def products_in_bf16_are_measured_where_scores_of_attention_are_no_steps(t):
    """softmax((x*q)*(x*k)' / sqrt(48)) * (x*v). Drawn inputs are large in some channels, one score takes all, and a rounded score is another answer."""
    draw = random.Random(8)
    weights = [tensor(name, "f32", [48, 48], struct.pack("<2304f", *(draw.gauss(0, 48**-0.5) for _ in range(2304)))) for name in ("wq", "wk", "wv")]
    nodes = [node("MatMul", ["x", w], [w[1]]) for w in ("wq", "wk", "wv")]
    nodes += [node("Transpose", ["k"], ["turned"], perm=[0, 2, 1]), node("MatMul", ["q", "turned"], ["all"]), node("Mul", ["all", "scale"], ["scores"]),
              node("Softmax", ["scores"], ["weights"], axis=-1), node("MatMul", ["weights", "v"], ["y"])]
    weights.append(tensor("scale", "f32", [], struct.pack("<f", 48**-0.5)))
    (t.dir / "m.onnx").write_bytes(model(nodes, [port("x", "f32", ["b", "n", 48])], [port("y", "f32", ["b", "n", 48])], weights))
    answer = t.json("mlpack", "build", "m.onnx", "-o", "m.mlc", "--target", "portable", "--precision", "bf16")
    assert answer["precision"]["output"] == "y" and 0 < answer["precision"]["error"] < 1e-2 and answer["selftest"]["vectors"] > 0, answer


def vectors_that_do_not_fit_are_refused(t):
    lookup(t)
    npz(t.dir / "type.npz", ids=("<i4", (2,), bytes(8)))
    npz(t.dir / "name.npz", idx=("<i8", (2,), bytes(16)))
    npz(t.dir / "far.npz", ids=("<i8", (1,), struct.pack("<q", 9)))
    (t.dir / "text.npz").write_text("ids = 3")
    for name, code, words in (("type.npz", 2, "'ids' is i32[2], the model takes i64[n]"), ("name.npz", 2, "unknown input 'idx', did you mean 'ids'?"),
                              ("far.npz", 6, "index 9"), ("text.npz", 4, "numpy.savez"), ("none.npz", 3, "none.npz")):
        done = build(t, "--golden", name, code=code)
        assert words in done.stderr and name in done.stderr, done.stderr
        assert not (t.dir / "m.mlc").exists()


def a_build_without_vectors_is_asked_for(t):
    lookup(t)
    done = build(t, "--golden-time", 1e-9, code=21)
    assert "no golden vector for 'main': there is too much work" in done.stderr and "--golden in.npz" in done.stderr and "--no-golden" in done.stderr, done.stderr
    assert not (t.dir / "m.mlc").exists()
    for none in ("--no-golden",), ("--golden-time", 0):
        assert "no golden vectors" in build(t, *none, "-f").stdout
    answer = t.json("mlpack", "build", "m.onnx", "-o", "m.mlc", "--target", "portable", "--no-golden")
    assert answer["warnings"] == [] and answer["selftest"]["vectors"] == 0, answer
    ids = t.json("mlpack", "inspect", "m.mlc")["programs"][0]["inputs"][0]
    assert ids["values"] == [0, 3], ids
    npz(t.dir / "in.npz", ids=("<i8", (2,), struct.pack("<2q", 3, 1)))
    assert "exclude each other" in build(t, "--no-golden", "--golden", "in.npz", code=2).stderr
    assert "golden" in t.run("mlpack", "inspect", "m.mlc").stdout
    assert t.json("mlpack", "inspect", "m.mlc")["golden"] == []
    assert "no golden vectors" in t.run("mlrun", "selftest", "m.mlc", code=21).stderr


def what_does_not_show_is_told(t):
    """y = x + (x * 1e-9) * 1: what is added is lost beside x."""
    constants = [tensor(name, "f32", [], struct.pack("<f", value)) for name, value in (("least", 1e-9), ("one", 1.0))]
    nodes = [node("Mul", ["x", "least"], ["a"]), node("Mul", ["a", "one"], ["b"]), node("Add", ["x", "b"], ["y"])]
    (t.dir / "m.onnx").write_bytes(model(nodes, [port("x", "f32", [4, 8])], [port("y", "f32", [4, 8])], constants))
    hidden = t.json("mlpack", "build", "m.onnx", "-o", "m.mlc", "--target", "portable")["selftest"]["hidden"]
    assert len(hidden) == 1 and hidden[0]["program"] == "main" and hidden[0]["tried"] == 3 and len(hidden[0]["nodes"]) == 2, hidden
    assert "does not show 2" in build(t, "-f").stdout


def places_are_equal_or_wrong(t):
    (t.dir / "m.onnx").write_bytes(model([node("ArgMax", ["x"], ["y"])], [port("x", "f32", [5000, 2])], [port("y", "i64", [1, 2])]))
    build(t, "-f")
    tolerance = t.json("mlpack", "inspect", "m.mlc")["golden"][0]["tolerance"]
    assert [(one["metric"], one["value"]) for one in tolerance] == [("abs", 0)], tolerance


def the_interface_says_which_values_an_input_takes(t):
    lookup(t)
    build(t)
    ids = t.json("mlpack", "inspect", "m.mlc")["programs"][0]["inputs"][0]
    assert ids["values"] == [0, 3], ids


main([the_users_own_vectors_are_in_the_file, products_in_16_bits_are_asked_for_and_their_tolerance_is_recorded, products_in_tf32_are_for_tensor_cores, what_f16_cannot_hold_stays_f32_or_is_refused, what_is_measured_is_what_a_build_rounds,
      what_rounding_costs_is_told_in_words_where_no_drawn_input_shows_it, what_rounding_costs_programs_with_control_flow_is_read_off_their_runs, products_in_bf16_that_lose_the_answer_are_refused, products_in_bf16_are_measured_where_scores_of_attention_are_no_steps,
      vectors_that_do_not_fit_are_refused, a_build_without_vectors_is_asked_for, what_does_not_show_is_told, places_are_equal_or_wrong,
      the_interface_says_which_values_an_input_takes])
