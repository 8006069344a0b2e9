"""Kernels of whole models, by the model of speed (bench/gpu/model.py) and as NVIDIA's assembler makes them for sm_80, sm_90 and, of products, sm_90a: it takes every one, and lanes keep their numbers in registers but for
what SPILLS lists. Skipped without ptxas; models of ../shared/models that are missing are counted, and some the test makes itself."""
import dataclasses
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/gpu"))
import lanes
import model
import sass
import templates
from tool_test import Skipped, main

MODELS = pathlib.Path(__file__).resolve().parents[3] / "shared/models"
NAMES = ("mnist", "ultraface_rfb_320", "dtln_1", "tiny_random_gpt2", "mobilenet_v2_quant")
# Extents with which templates have the kernels of large arrays, where their small ones have not.
EXTENTS = {"gemm": (512, 512, 512), "attention": (1, 2, 128, 64), "conv": (1, 64, 56, 64)}
MADE = ("gemm-f32", "gemm-f16", "gemm-bf16", "conv-f32", "attention-f32", "attention-f16", "softmax-f32", "layernorm-f32", "transpose-f32", "scan-f32", "topk-f32")
TARGETS = {"cuda-sm80": 80, "cuda-sm90": 90, "cuda-sm90a": 90}
GROUPS = ("gemm-f16", "gemm-bf16", "mobilenet_v2_quant")  # what is other code for cuda-sm90a than for cuda-sm90
# (model, target): bytes that a lane of its worst kernel may store outside of registers, and why.
SPILLS = {
    ("conv-f32", "cuda-sm90"): (4, "an address of the first copies of a tile of 32 x 64 in a cluster, stored and loaded before the loop: ptxas stops at 80 registers, with which six blocks are at once"),
    ("tiny_random_gpt2", "cuda-sm80"): (8, "an address of the epilogue of a tile of 64 x 32, stored before the loop and loaded behind it: ptxas stops at 72 registers, with which seven blocks are at once"),
    ("tiny_random_gpt2", "cuda-sm90"): (12, "the same, and a number of the loop of that tile, loaded once in a piece; three addresses of the epilogue of an attention whose warps share keys, at 128 registers"),
}


def kernels_of(t, source, target, *options):
    """Entries of a model's module, and what ptxas makes of them."""
    t.run("mlpack", "build", source, "-o", "m.mlc", "-f", "--no-sign", "--no-golden", "--no-selftest", "--progress", "none", "--target", target, "--cubin", "none", *options)
    t.run("mlpack", "extract", "m.mlc", "--what", "modules", "-o", "modules", "-f")
    entries, texts = sass.read_module((t.dir / "modules/modules" / f"{target}.ptx").read_bytes())
    made = {}
    for text in texts.values():
        some, refused = sass.assemble(text, TARGETS[target])
        assert not refused, f"{source} for {target}: {refused[:600]}"
        made |= some
    assert {e.name for e in entries} == set(made), f"{source} for {target}: ptxas tells of {len(made)} of {len(entries)} kernels"
    return made


def held(t, name, source, *options):
    """Builds for each target; returns findings, and how many kernels that were."""
    findings, count = [], 0
    for target in TARGETS:
        if target == "cuda-sm90a" and name not in GROUPS:
            continue
        made = kernels_of(t, source, target, *options)
        worst = max(r.spilled for r in made.values())
        allowed = SPILLS.get((name, target), (0, ""))[0]
        print(f"      {name} {target}: {len(made)} kernels, at most {max(r.registers for r in made.values())} registers, {worst} bytes spilled")
        if worst > allowed:
            findings.append(f"{name} for {target}: a lane spills {worst} bytes, SPILLS has {allowed}")
        elif worst < allowed:
            findings.append(f"{name} for {target}: a lane spills {worst} bytes, so lower the {allowed} of SPILLS")
        count += len(made)
    return findings, count


def need_ptxas():
    if not sass.tool("ptxas"):
        raise Skipped("no ptxas here")


def kernels_of_models_are_assembled_and_stay_in_registers(t):
    need_ptxas()
    there = [n for n in NAMES if (MODELS / f"{n}.onnx").exists()]
    if not there:
        raise Skipped(f"none of {len(NAMES)} models is here")
    findings = [f for n in there for f in held(t, n, MODELS / f"{n}.onnx")[0]]
    print(f"      {len(there)} models, {len(NAMES) - len(there)} are not here")
    assert not findings, "\n".join(findings)


def kernels_of_each_template_are_assembled_and_stay_in_registers(t):
    need_ptxas()
    sources = [templates.write(t.dir, dataclasses.replace(x, full=EXTENTS.get(x.kind, x.small)), False) for x in templates.ALL if x.name in MADE]
    assert len(sources) == len(MADE)
    findings = [f for s in sources for f in held(t, s.stem, s)[0]]
    assert not findings, "\n".join(findings)


def what_ptxas_refuses_and_what_it_spills_is_seen(t):
    """The gate itself: a text with an unknown instruction, and one that has more numbers alive than registers."""
    need_ptxas()
    head = ".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n"
    made, refused = sass.assemble(head + "{\n.reg .b32 %r<2>;\nadd.s33 %r1, %r1, %r1;\nret;\n}\n", 80)
    assert not made and "s33" in refused, refused
    n = range(1, 61)
    body = ["ld.param.u64 %rd1, [p];", *(f"ld.global.f32 %f{k}, [%rd1+{4 * k}];" for k in n), "bar.sync 0;", *(f"mul.rn.f32 %f{k}, %f{k}, %f{61 - k};" for k in n),
            *(f"st.global.f32 [%rd1+{4 * k}], %f{k};" for k in n), "ret;"]
    text = head + ".maxnreg 32\n{\n.reg .b64 %rd<2>;\n.reg .f32 %f<61>;\n" + "\n".join(body) + "\n}\n"
    made, refused = sass.assemble(text, 80)
    assert not refused and made["k"].spilled > 0, (refused, made)


def the_model_counts_the_products_that_a_plan_states(t):
    """Of a lane's way through PTX: warps, blocks and turns make exactly the multiplications of the plan, thrice where one of f32 is three of tf32."""
    size = {"tf32": 2 * 16 * 8 * 8, "bf16": 2 * 16 * 8 * 16, "fma": 2 * 32}
    for name, target, kind, times in (("gemm-f32", "cuda-sm90", "tf32", 3), ("gemm-bf16", "cuda-sm80", "bf16", 1), ("gemm-f32", "cuda-sm75", "fma", 1)):
        x = next(x for x in templates.ALL if x.name == name)
        source = templates.write(t.dir, dataclasses.replace(x, full=(512, 512, 512)), False)
        t.run("mlpack", "build", source, "-o", "m.mlc", "-f", "--no-sign", "--no-golden", "--no-selftest", "--target", target, "--cubin", "none")
        container = model.Container(t.dir / "m.mlc", target, t.bin)
        kernels = {k: v for text in container.texts.values() for k, v in lanes.kernels(text).items()}
        made = 0
        for launch in container.launches:
            entry = container.entries[launch.kernel]
            counts = lanes.count(kernels[entry.name], [(k + 1) << 40 for k in range(entry.buffers)] + [launch.tiles, 0] + launch.scalars, launch.tiles, entry.lanes)
            assert counts.complete and not counts.by_data, counts
            made += sum(n for product, n in counts.products.items() if kind in product) * size[kind] * entry.lanes // 32 * launch.tiles
        assert made == times * x.operations(512, 512, 512), (name, target, made)


def the_model_answers_in_json_with_what_bounds_each_kernel(t):
    x = next(x for x in templates.ALL if x.name == "transpose-f32")
    t.run("mlpack", "build", templates.write(t.dir, x, False), "-o", "m.mlc", "--no-sign", "--no-golden", "--no-selftest", "--target", "cuda-sm80,cuda-sm90", "--cubin", "none")
    for card, least in (("a100", 190), ("h200", 66)):  # 2 x 134 MB at the rate of a copy
        told = model.model(model.Container(t.dir / "m.mlc", model.CARDS[card].row, t.bin), model.CARDS[card])
        assert told["launches"] == 1 and told["few_blocks"] == 0 and told["kernels"][0]["bound"] == "memory", told
        assert least <= told["kernels"][0]["us"] < 2 * least, told


def the_model_waits_for_a_copy_where_its_group_is_waited_for(t):
    """A turn of 105 slots, a latency of 350: behind one turn most of it is left, behind two half of it less the turn (one wait hides a part of the next one), behind four nothing."""
    def exposed(left, latency=350):
        copy = "cp.async.cg.shared.global [%rd2], [%rd1], 16;\ncp.async.commit_group;\n"
        text = (".visible .entry k(\n.param .u64 k_param_0\n)\n.maxntid 32, 1, 1\n{\nld.param.u64 %rd1, [k_param_0];\nmov.u64 %rd2, 0;\nmov.u32 %r1, 0;\n" + copy * (left + 1)
                + f"$L_loop:\n.pragma \"nounroll\";\ncp.async.wait_group {left};\nbar.sync 0;\n{copy}" + "add.s32 %r2, %r2, 1;\n" * 100
                + "add.s32 %r1, %r1, 1;\nsetp.lt.s32 %p1, %r1, 100;\n@%p1 bra $L_loop;\ncp.async.wait_group 0;\nret;\n}\n")
        counts = lanes.count(lanes.kernels(text)["k"], [1 << 40, 1, 0], 1, 32, latency=latency)
        return sum(times * max(0, latency - since) for since, times in counts.waits.items()) / 100
    one, two, four = exposed(0), exposed(1), exposed(3)
    assert 240 < one < 255 and 65 < two < 80 and four < 15, (one, two, four)


main([the_model_waits_for_a_copy_where_its_group_is_waited_for, the_model_counts_the_products_that_a_plan_states, the_model_answers_in_json_with_what_bounds_each_kernel,
      kernels_of_models_are_assembled_and_stay_in_registers, kernels_of_each_template_are_assembled_and_stay_in_registers,
      what_ptxas_refuses_and_what_it_spills_is_seen])
