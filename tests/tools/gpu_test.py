"""Models on a device of this machine, lavapipe if there is no other: equal to the processor, chosen only as the user says, and
without a message of Vulkan's validation layer. Skipped where no device is found."""
import itertools
import json
import pathlib
import re
import struct

from npz_file import read, write
from onnx_file import model, node, port, tensor
from tool_test import Skipped, main

LAYER = pathlib.Path("/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json")
VALIDATED = pathlib.Path(__file__).resolve().parent / "validated.sh"


def facts_of_device(t):
    devices = json.loads(t.run("mlrun", "probe", "--json").stdout)["devices"]
    found = [by["facts"] for d in sorted(devices, key=lambda d: d["software"]) for by in d["drivers"] if by["api"] == "vulkan"]
    if not found:
        raise Skipped("no device of Vulkan")
    return found[0]


def need_device(t):
    """The variant that the first device takes: there are two, and the one that asks for more is preferred."""
    facts = facts_of_device(t)
    picks = facts["vk.api"] >= 1030 and facts.get("vk.subgroup_pick") and facts.get("vk.subgroup_shuffle") and facts.get("vk.int_dot")
    return "vulkan-subgroup" if picks else "vulkan-base"


def build(t, targets="vulkan,native", golden="0"):
    w = tensor("w", "f32", [24, 40], struct.pack("<960f", *(0.01 * (k % 97) for k in range(960))))
    (t.dir / "m.onnx").write_bytes(model([node("MatMul", ["x", "w"], ["z"], "product"), node("Softmax", ["z"], ["y"], "rows"), node("Relu", ["z"], ["r"], "relu")],
                                         [port("x", "f32", ["n", 24])], [port("y", "f32", None), port("r", "f32", None)], [w], opset=17))
    return t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "-f", "--progress", "none", "--golden-time", golden, "--target", targets)


def feed(t, rows):
    write(t.dir / "in.npz", {"x": ("f32", (rows, 24), [(k * 37 % 101 - 50) / 50 for k in range(rows * 24)])})


def answers(t, *options):
    done = t.run("mlrun", "run", "m.mlc", "-i", "in.npz", "-o", "out.npz", "--json", *options)
    return json.loads(done.stdout), {name: values for name, (_, values) in read(t.dir / "out.npz").items()}


def a_device_answers_as_the_processor_does(t):
    best = need_device(t)
    build(t)
    for rows, variant in ((1, best), (7, "vulkan-base"), (300, best)):
        feed(t, rows)
        report, expected = answers(t, "--devices", "cpu")
        assert report["device"] == "" and not report["variant"].startswith("vulkan"), report
        t.wrapper = [str(VALIDATED)] if LAYER.exists() else []
        report, found = answers(t, "--devices", "gpu", "--require", variant)
        t.wrapper = []
        assert report["device"] == "gpu0" and report["variant"] == variant, report
        assert expected.keys() == found.keys() == {"y", "r"}, found.keys()
        for name in expected:
            assert len(expected[name]) == len(found[name]) == rows * 40
            worst = max(abs(a - b) for a, b in zip(expected[name], found[name]))
            assert worst <= 1e-5 * max(1.0, *map(abs, expected[name])), (name, worst)


def devices_are_used_as_the_user_says(t):
    best = need_device(t)
    build(t)
    feed(t, 2)
    found = json.loads(t.run("mlrun", "explain", "m.mlc", "--json", "--devices", "gpu").stdout)
    assert found["chosen"] == best and found["devices"], found
    assert [v["device"] for v in found["variants"] if v["name"] == best] == ["gpu0"], found
    auto = json.loads(t.run("mlrun", "explain", "m.mlc", "--json").stdout)
    if all(d["software"] for d in auto["devices"]):
        assert not auto["chosen"].startswith("vulkan"), auto
        reason = next(v["reason"] for v in auto["variants"] if v["name"] == "vulkan-base")
        assert "software" in reason and "--devices gpu0" in reason, reason
        assert "vulkan" in t.run("mlrun", "run", "m.mlc", "-i", "in.npz", "--require", "vulkan", code=5).stderr
    none = json.loads(t.run("mlrun", "explain", "m.mlc", "--json", "--devices", "cpu").stdout)
    assert not none["devices"] and not none["chosen"].startswith("vulkan"), none
    t.run("mlrun", "run", "m.mlc", "-i", "in.npz", "--devices", "gpu", "--require", "cuda", code=5)
    t.run("mlrun", "run", "m.mlc", "-i", "in.npz", "--devices", "gpu", "--require", "vulkan")
    assert "gpu99" in t.run("mlrun", "run", "m.mlc", "-i", "in.npz", "--devices", "gpu99", code=2).stderr
    t.run("mlrun", "run", "m.mlc", "-i", "in.npz", "--devices", "everything", code=2)


def a_fall_back_prints_one_line(t):
    build(t, "native")
    feed(t, 2)
    done = t.run("mlrun", "run", "m.mlc", "-i", "in.npz", "--devices", "gpu")
    lines = [line for line in done.stderr.splitlines() if "runs on the processor" in line]
    assert len(lines) == 1, done.stderr
    build(t)
    assert "runs on the processor" in t.run("mlrun", "run", "m.mlc", "-i", "in.npz", "--devices", "gpu", "--isolated").stderr
    t.env["VK_ICD_FILENAMES"] = t.env["VK_DRIVER_FILES"] = "/nonexistent/icd.json"
    done = t.run("mlrun", "run", "m.mlc", "-i", "in.npz", "--devices", "gpu")
    assert done.stderr.count("runs on the processor") == 1, done.stderr
    assert "vulkan" in t.run("mlrun", "run", "m.mlc", "-i", "in.npz", "--require", "vulkan", code=5).stderr


def instructions_are_measured_on_a_device(t):
    best = need_device(t)
    build(t)
    feed(t, 3)
    report = json.loads(t.run("mlrun", "profile", "m.mlc", "-i", "in.npz", "--devices", "gpu", "--json").stdout)
    assert report["variant"] == best, report["variant"]


def signed_numbers_meet_constants_on_a_device(t):
    """A TopK of known k compares positions with constants: Mesa makes such comparisons true where OpSConvert widened the position."""
    need_device(t)
    (t.dir / "m.onnx").write_bytes(model([node("TopK", ["x", "k"], ["y", "at"], "best")], [port("x", "f32", [3, 20])], [port("y", "f32", [3, 4]), port("at", "i64", [3, 4])],
                                         [tensor("k", "i64", [1], struct.pack("<q", 4))], opset=17))
    t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "-f", "--progress", "none", "--golden-time", "0", "--target", "vulkan,native")
    values = [(k * 37 % 101 - 50) / 50 for k in range(60)]
    write(t.dir / "in.npz", {"x": ("f32", (3, 20), values)})
    _, found = answers(t, "--devices", "gpu")
    for row in range(3):
        best = sorted(range(20), key=lambda k: -values[row * 20 + k])[:4]
        assert list(found["at"][row * 4:row * 4 + 4]) == best, (row, best, found["at"])


def limits_of(t, api="vulkan"):
    devices = json.loads(t.run("mlrun", "probe", "--json").stdout)["devices"]
    return next(by["facts"] for d in devices for by in d["drivers"] if by["api"] == api)


def build_of_one(t, operator, output, extent):
    axis = [tensor("axis", "i32", [], struct.pack("<i", 0))] if operator == "CumSum" else []
    (t.dir / "m.onnx").write_bytes(model([node(operator, ["x", "axis"] if axis else ["x"], [output], "it")], [port("x", "f32", ["n"])],
                                         [port(output, "f32", [extent])], axis, opset=17))
    t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "-f", "--progress", "none", "--golden-time", "0", "--target", "vulkan,native")


def build_of_rows(t):
    """Unique rows: those of a column are numbers."""
    one = tensor("one", "i64", [1], struct.pack("<q", 1))
    nodes = [node("Unsqueeze", ["x", "one"], ["column"]), node("Unique", ["column"], ["rows"], "it", axis=0), node("Squeeze", ["rows", "one"], ["u"])]
    (t.dir / "m.onnx").write_bytes(model(nodes, [port("x", "f32", ["n"])], [port("u", "f32", ["k"])], [one], opset=17))
    t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "-f", "--progress", "none", "--golden-time", "0", "--target", "vulkan,native")


def runs(t, values):
    write(t.dir / "in.npz", {"x": ("f32", (len(values),), values)})
    done = t.run("mlrun", "run", "m.mlc", "-i", "in.npz", "-o", "out.npz", "--json", "--devices", "gpu")
    report = json.loads(done.stdout)
    assert report["device"] == "gpu0", report
    said = [line for line in done.stderr.splitlines() if "runs on the processor" in line]
    assert len(said) == ("fell_back" in report), done.stderr
    return report, {name: values for name, (_, values) in read(t.dir / "out.npz").items()}


def long_loops_are_right_wherever_they_run(t):
    need_device(t)
    build_of_one(t, "CumSum", "s", "n")
    for count in (100, 65_000, 70_000, 150_000):
        values = [float(k % 7) for k in range(count)]
        report, found = runs(t, values)
        assert found["s"] == list(itertools.accumulate(values)), f"the running sum of {count}"
        assert count > 65_535 or "fell_back" not in report, report


def what_a_device_cannot_do_the_processor_does(t):
    need_device(t)
    # How long the loops of a merge sort are is not known before: a device that ends long ones does not begin it.
    build_of_rows(t)
    budget = limits_of(t)["vk.loop_budget"]
    report, found = runs(t, [float(k % 7) for k in range(100)])
    assert found["u"] == [float(k) for k in range(7)], found["u"]
    assert ("fell_back" in report) == (budget > 0), report
    if not budget:
        return
    assert "any number of turns" in report["fell_back"] and str(budget) in report["fell_back"], report
    for forbids in (("--require", "vulkan"), ("--variant", "vulkan-base")):
        said = t.run("mlrun", "run", "m.mlc", "-i", "in.npz", "--devices", "gpu", *forbids, code=5).stderr
        assert "turns" in said and str(budget) in said, said
    t.run("mlrun", "run", "m.mlc", "-i", "in.npz", "--devices", "gpu", "--require", "native")


def golden_vectors_run_on_the_device(t):
    need_device(t)
    done = build(t, golden="30")
    tested = next(line for line in done.stdout.splitlines() if line.strip().startswith("tested"))
    assert re.search(r"vulkan-base on \S", tested) and "not here" not in tested, done.stdout
    report = json.loads(t.run("mlrun", "selftest", "m.mlc", "--devices", "gpu", "--json").stdout)
    tested = {v["name"]: v for v in report["variants"]}
    assert tested["vulkan-base"]["device"] == "gpu0" and tested["vulkan-base"]["answer"] == "ok", tested
    assert all("device" not in v for name, v in tested.items() if not name.startswith("vulkan")), tested
    text = t.run("mlrun", "selftest", "m.mlc", "--devices", "gpu").stdout
    assert any(line.startswith("ok") and "vulkan-base" in line and "gpu0" in line for line in text.splitlines()), text


def matrices_of_subgroups_answer_as_lanes_do(t):
    best, facts = need_device(t), facts_of_device(t)
    sides = [side for side in ("16", "8") if facts.get("vk.matrix" + side)]
    if best != "vulkan-subgroup" or not sides:
        raise Skipped("no device whose subgroups have matrices")
    w = tensor("w", "f32", [70, 130], struct.pack("<9100f", *((k % 97 - 48) / 200 for k in range(9100))))
    (t.dir / "m.onnx").write_bytes(model([node("MatMul", ["x", "w"], ["z"], "product"), node("Relu", ["z"], ["y"], "relu")], [port("x", "f32", ["n", 70])], [port("y", "f32", None)], [w], opset=17))
    name = "vulkan-matrix" + ("" if sides[0] == "16" else sides[0])
    t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "-f", "--progress", "none", "--golden-time", "0", "--precision", "f16", "--target", name + ",vulkan-subgroup,native")
    for rows in (1, 50, 300):
        write(t.dir / "in.npz", {"x": ("f32", (rows, 70), [(k * 37 % 101 - 50) / 50 for k in range(rows * 70)])})
        t.wrapper = [str(VALIDATED)] if LAYER.exists() else []
        report, found = answers(t, "--devices", "gpu")
        t.wrapper = []
        assert report["variant"] == name, report
        _, expected = answers(t, "--devices", "gpu", "--variant", "vulkan-subgroup")
        worst = max(abs(a - b) for a, b in zip(expected["y"], found["y"]))
        assert len(found["y"]) == rows * 130 and worst <= 2e-3 * max(1.0, *map(abs, expected["y"])), worst


def a_long_fold_gives_the_same_bits_at_every_run_and_at_every_size_of_subgroups(t):
    """LP_NATIVE_VECTOR_WIDTH gives lavapipe subgroups of 4, 8 and 16; other drivers know nothing of it."""
    if need_device(t) != "vulkan-subgroup":
        raise Skipped("no device for vulkan-subgroup")
    (t.dir / "m.onnx").write_bytes(model([node("ReduceSum", ["x"], ["y"], "sum"), node("Softmax", ["x"], ["s"], "rows")],
                                         [port("x", "f32", ["n", 3001])], [port("y", "f32", None), port("s", "f32", None)], [], opset=17))
    t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "-f", "--progress", "none", "--golden-time", "0", "--target", "vulkan-subgroup,native")
    write(t.dir / "in.npz", {"x": ("f32", (5, 3001), [(k * 7919 % 10007 - 5003) / 50 for k in range(5 * 3001)])})
    seen = set()
    for width in ("", "128", "256", "512", ""):
        t.env.pop("LP_NATIVE_VECTOR_WIDTH", None)
        if width:
            t.env["LP_NATIVE_VECTOR_WIDTH"] = width
        t.wrapper = [str(VALIDATED)] if LAYER.exists() else []
        report, found = answers(t, "--devices", "gpu")
        t.wrapper = []
        assert report["variant"] == "vulkan-subgroup", report
        seen.add((tuple(found["y"]), tuple(found["s"]) if not width else None))
    assert len({y for y, _ in seen}) == 1, "sums differ"
    assert len({s for _, s in seen if s}) == 1, "a row differs from run to run"


def whole_models_give_their_golden_answers(t):
    """The digits of the examples, and small models of a folder beside this repository where there is one."""
    need_device(t)
    top = pathlib.Path(__file__).resolve().parents[2]
    models = [top / "examples" / "digits" / "digits.onnx"]
    models += [path for path in (top.parent / "shared" / "models" / name for name in ("mnist.onnx", "magika_v3_3.onnx", "ppocr_cls.onnx")) if path.exists()]
    for path in models:
        t.run("mlpack", "build", path, "-o", "w.mlc", "-f", "--progress", "none", "--target", "vulkan,native")
        done = t.run("mlrun", "selftest", "w.mlc", "--devices", "gpu0")
        found = re.findall(r"ok\s+(vulkan-\w+)\s", done.stdout + done.stderr)
        assert "vulkan-base" in found and need_device(t) in found, (path.name, done.stdout + done.stderr)


def square(t, targets):
    """A model whose output is as its input, so that runs can follow each other."""
    w = tensor("w", "f32", [24, 24], struct.pack("<576f", *((k * 29 % 53 - 26) / 100 for k in range(576))))
    (t.dir / "s.onnx").write_bytes(model([node("MatMul", ["x", "w"], ["z"], "product"), node("Tanh", ["z"], ["y"], "tanh")],
                                         [port("x", "f32", ["n", 24])], [port("y", "f32", None)], [w], opset=17))
    t.run("mlpack", "build", "s.onnx", "-o", "s.mlc", "-f", "--no-sign", "--progress", "none", "--golden-time", "0", "--target", targets)


def arrays_of_the_application_stay_on_the_device(t):
    need_device(t)
    square(t, "vulkan,native")
    t.wrapper = [str(VALIDATED)] if LAYER.exists() else []
    t.run("device_arrays", "s.mlc", t.bin / "mlrun", "vulkan")


if __name__ == "__main__":
    main([arrays_of_the_application_stay_on_the_device, long_loops_are_right_wherever_they_run, what_a_device_cannot_do_the_processor_does, golden_vectors_run_on_the_device, a_device_answers_as_the_processor_does, devices_are_used_as_the_user_says, a_fall_back_prints_one_line, instructions_are_measured_on_a_device,
          signed_numbers_meet_constants_on_a_device, whole_models_give_their_golden_answers, matrices_of_subgroups_answer_as_lanes_do, a_long_fold_gives_the_same_bits_at_every_run_and_at_every_size_of_subgroups])
