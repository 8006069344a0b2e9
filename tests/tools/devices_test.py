"""Variants for devices: what mlpack writes beside those of processors, what it says of them, and that a file with one still
runs where there is no device."""
import json
import re
import struct

from onnx_file import model, node, port, tensor
from tool_test import main


def small(t, rows="n"):
    w = tensor("w", "f32", [24, 40], struct.pack("<960f", *(0.01 * k for k in range(960))))
    (t.dir / "m.onnx").write_bytes(model([node("MatMul", ["x", "w"], ["z"], "product"), node("Softmax", ["z"], ["y"], "rows"), node("Relu", ["z"], ["r"], "relu")],
                                         [port("x", "f32", [rows, 24])], [port("y", "f32", None), port("r", "f32", None)], [w], opset=17))


def build(t, *targets):
    done = t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--no-sign", "-f", "--json", "--target", ",".join(targets))
    return json.loads(done.stdout)


def a_device_stands_beside_a_processor(t):
    small(t)
    report = build(t, "vulkan", "native")
    names = [v["name"] for v in report["variants"]]
    assert names[:2] == ["vulkan-base", "vulkan-subgroup"] and names[-1] == "portable" and len(names) == 4, names
    assert not any("processor" in w for w in report["warnings"]), report["warnings"]
    tested = {v["name"]: v for v in report["selftest"]["variants"]}
    assert "vulkan-base" in tested and "vulkan-subgroup" in tested, tested
    for name in names[2:]:
        assert not tested[name].get("reason"), tested


def a_device_alone_is_warned_of(t):
    small(t)
    report = build(t, "vulkan-base")
    assert [v["name"] for v in report["variants"]] == ["vulkan-base", "portable"]
    assert any("no target of a processor" in w for w in report["warnings"]), report["warnings"]


def all_are_processors(t):
    small(t)
    assert not any(v["name"].startswith(("vulkan", "cuda")) for v in build(t, "all")["variants"])


def a_variant_says_what_it_asks_of_a_device(t):
    small(t)
    build(t, "vulkan", "native")
    about = json.loads(t.run("mlpack", "inspect", "m.mlc", "--json").stdout)
    variant = {v["name"]: v for v in about["variants"]}["vulkan-base"]
    assert variant["family"] == "vulkan" and variant["format"] == "spirv", variant
    assert {"vk.shader_int64", "vk.storage8", "vk.storage16", "vk.f32_inf_nan_keep"} <= set(variant["features"]), variant
    assert any(c.startswith("vk.max_storage_buffers") for c in variant["clauses"]), variant
    assert variant["audit"]["tool"] == "mlpack", variant
    more = {v["name"]: v for v in about["variants"]}["vulkan-subgroup"]
    asked = {"vk.subgroup_pick", "vk.subgroup_shuffle", "vk.subgroup_arithmetic", "vk.int_dot", "vk.shader_float16", "vk.shader_int8"}
    assert set(variant["features"]) | asked <= set(more["features"]) and not asked & set(variant["features"]), more
    assert any("vk.api" in c and "1030" in c for c in more["clauses"]), more


def matrices_of_subgroups_are_a_target_of_their_name(t):
    small(t)
    assert not any(v["name"].startswith("vulkan-matrix") for v in build(t, "vulkan", "native")["variants"])
    w = tensor("w", "f32", [64, 64], struct.pack("<4096f", *(0.01 * (k % 89) for k in range(4096))))
    (t.dir / "m.onnx").write_bytes(model([node("MatMul", ["x", "w"], ["y"], "product")], [port("x", "f32", [48, 64])], [port("y", "f32", None)], [w], opset=17))
    targets = "vulkan-matrix,vulkan-matrix8,vulkan-subgroup,native"
    done = t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--no-sign", "-f", "--precision", "f16", "--target", targets, "--dump", "schedule")
    assert done.stdout.count("instr matrix.f16") == 2, done.stdout
    variants = {v["name"]: v for v in json.loads(t.run("mlpack", "inspect", "m.mlc", "--json").stdout)["variants"]}
    for name, side, lanes in (("vulkan-matrix", "16", "32"), ("vulkan-matrix8", "8", "8")):
        assert "vk.matrix" + side in variants[name]["features"], variants[name]
        assert any("vk.subgroup_most" in c and lanes in c for c in variants[name]["clauses"]), variants[name]
    assert t.run("mlrun", "explain", "m.mlc", "--devices", "cpu").stdout.count("vulkan-matrix") >= 2


def long_folds_have_a_block_where_lanes_fold(t):
    (t.dir / "m.onnx").write_bytes(model([node("ReduceMax", ["x"], ["y"], "rows")], [port("x", "f32", [4, 3000])], [port("y", "f32", None)], [], opset=17))
    done = t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--no-sign", "-f", "--target", "vulkan", "--dump", "schedule,loop", "--only", "rows (ReduceMax)")
    parts = done.stdout.split("; ")
    subgroup = [part for part in parts if "for vulkan-subgroup" in part]
    assert any("max of" in part for part in subgroup), done.stdout
    assert not any("fold %" in part for part in parts if "for vulkan-base" in part), done.stdout


def its_plan_has_no_cuts_and_begins_buffers_at_multiples_of_256(t):
    wide, narrow = (tensor(name, "f32", extents, struct.pack("<960f", *(0.01 * k for k in range(960)))) for name, extents in (("w", [24, 40]), ("v", [40, 24])))
    nodes = [node("MatMul", ["x", "w"], ["a"], "p1"), node("Softmax", ["a"], ["b"], "rows1"), node("MatMul", ["b", "v"], ["c"], "p2"),
             node("Softmax", ["c"], ["d"], "rows2"), node("MatMul", ["d", "w"], ["y"], "p3")]
    (t.dir / "m.onnx").write_bytes(model(nodes, [port("x", "f32", [5, 24])], [port("y", "f32", None)], [wide, narrow], opset=17))
    build(t, "vulkan")
    plan = t.run("mlpack", "inspect", "m.mlc", "--plan", "--variant", "vulkan-base").stdout
    launches = [line for line in plan.split("\n") if line.strip().startswith("launch ")]
    assert launches and not any(" cut " in line for line in launches), plan
    assert sum('"rows' in line for line in launches) >= 2, plan
    offsets = [int(n) for n in re.findall(r" arena \S+ +; \d+, (\d+)", plan)]
    assert len(offsets) >= 3 and max(offsets) > 0 and all(n % 256 == 0 for n in offsets), plan


def it_runs_without_a_device(t):
    small(t)
    build(t, "vulkan", "native")
    explained = json.loads(t.run("mlrun", "explain", "m.mlc", "--allow-unsigned", "--json").stdout)
    answers = {v["name"]: v["answer"] for v in explained["variants"]}
    assert "vulkan-base" in answers and list(answers.values()).count("fits") >= 2, explained
    t.run("mlrun", "selftest", "m.mlc", "--allow-unsigned")


def schedules_of_devices_are_shown(t):
    small(t)
    done = t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--no-sign", "-f", "--target", "vulkan", "--dump", "schedule,loop", "--only", "relu (Relu)")
    device = [part for part in done.stdout.split("; ") if part.startswith(("schedule of", "loop of")) and "for vulkan-base" in part]
    assert any(re.search(r"map .* grid", part) for part in device), done.stdout
    assert "block 128" in done.stdout and "lanes %" in done.stdout, done.stdout


def cuda_is_three_targets(t):
    small(t)
    report = build(t, "cuda", "native")
    names = [v["name"] for v in report["variants"]]
    assert names[:3] == ["cuda-sm75", "cuda-sm80", "cuda-sm90"] and names[-1] == "portable" and len(names) == 5, names
    about = json.loads(t.run("mlpack", "inspect", "m.mlc", "--json").stdout)
    by_name = {v["name"]: v for v in about["variants"]}
    for name, capability, driver in (("cuda-sm75", 75, 10020), ("cuda-sm80", 80, 11000), ("cuda-sm90", 90, 11080)):
        variant = by_name[name]
        assert variant["family"] == "cuda" and variant["format"] == "ptx" and "cuda.base" in variant["features"], variant
        asked = " ".join(variant["clauses"])
        assert re.search(rf"cuda\.cc\D+{capability}\b", asked) and re.search(rf"cuda\.driver_api\D+{driver}\b", asked), asked
    t.run("mlrun", "selftest", "m.mlc", "--allow-unsigned")


def text_of_devices_is_shown(t):
    small(t)
    done = t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--no-sign", "-f", "--target", "cuda-sm80", "--dump", "asm", "--only", "relu (Relu)")
    assert ".target sm_80" in done.stdout and ".visible .entry" in done.stdout and "bra" in done.stdout, done.stdout[:2000]


MANY = 20  # arrays in one block, more than a launch of Vulkan takes


def wide(t):
    names = [f"x{k}" for k in range(MANY)]
    ops = t.dir / "ops"
    ops.mkdir(exist_ok=True)
    (ops / "wide.mlop").write_text("domain example\nop Wide@1(" + ", ".join(f"{name}: f32[n]" for name in names) + ") -> y: f32[n]\n  proc {\n    for n { y[n] = " +
                                   " + ".join(f"{name}[n]" for name in names) + " } }\n")
    (t.dir / "m.onnx").write_bytes(model([node("Wide", names, ["y"], "wide", domain="example")], [port(name, "f32", [5]) for name in names],
                                         [port("y", "f32", [5])], [], opset=17, domains=("example",)))


def a_device_that_cannot_do_an_operator_gets_no_variant(t):
    wide(t)
    done = t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--no-sign", "-f", "--json", "--ops", "ops", "--target", "vulkan,cuda-sm80,native")
    report = json.loads(done.stdout)
    names = [v["name"] for v in report["variants"]]
    assert "vulkan-base" not in names and names[0] == "cuda-sm80" and len(names) == 3, names
    told = [w for w in report["warnings"] if "no variant for vulkan-base" in w]
    assert len(told) == 1 and "wide" in told[0] and "bindings" in told[0], report["warnings"]
    told = t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--no-sign", "-f", "--ops", "ops", "--target", "vulkan,cuda-sm80,native").stderr
    assert told.count("no variant for vulkan-base") == 1, told
    t.run("mlrun", "selftest", "m.mlc", "--allow-unsigned")
    refused = t.run("mlpack", "build", "m.onnx", "-o", "n.mlc", "--no-sign", "--ops", "ops", "--target", "vulkan", code=20)
    assert "bindings" in refused.stderr and not (t.dir / "n.mlc").exists(), refused.stderr


def turns_of_loops_stand_in_the_plan(t):
    small(t)
    build(t, "vulkan")
    plan = t.run("mlpack", "inspect", "m.mlc", "--plan", "--variant", "vulkan-base").stdout
    launches = [line for line in plan.split("\n") if line.strip().startswith("launch ")]
    assert launches and all(re.search(r" steps \$\d+", line) for line in launches), plan
    product = next(line for line in launches if '"product' in line)
    assert 1 <= int(product.rsplit(",", 1)[1]) <= 1000, product  # the last of its values: of a product of 24 terms
    plan = t.run("mlpack", "inspect", "m.mlc", "--plan", "--variant", "portable").stdout
    assert " steps " not in plan, plan


if __name__ == "__main__":
    main([a_device_that_cannot_do_an_operator_gets_no_variant, turns_of_loops_stand_in_the_plan, a_device_stands_beside_a_processor, a_device_alone_is_warned_of, all_are_processors, a_variant_says_what_it_asks_of_a_device,
          its_plan_has_no_cuts_and_begins_buffers_at_multiples_of_256, it_runs_without_a_device, schedules_of_devices_are_shown, long_folds_have_a_block_where_lanes_fold, matrices_of_subgroups_are_a_target_of_their_name,
          cuda_is_three_targets, text_of_devices_is_shown])
