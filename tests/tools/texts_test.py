"""The text forms that mlpack shows: models and nests while building, plans of a container."""
import pathlib

from tool_test import main

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples/digits/digits.onnx"


def build(tools, *flags, code=0):
    target = () if "--target" in flags else ("--target", "portable")
    return tools.run("mlpack", "build", MODEL, "-o", "d.mlc", *target, "--progress", "none", *flags, code=code)


def shown(tools, *words):
    return build(tools, "--dump", *words).stdout


def the_model_is_shown_after_the_import(tools):
    text = shown(tools, "import")
    assert text.startswith("; after import\nmodel \"pytorch\"\nopset ai.onnx 13\ngraph "), text[:200]
    assert "input %image : f32[N, 1, 28, 28]\n" in text
    assert "%logits = ai.onnx.Gemm(" in text and "output %logits : f32[N, 10]\n" in text
    assert text.count(" sha256:") == 11  # weights by hash alone; the last is the root of the file
    assert len(text) < 6500


def nests_are_shown_after_a_pass_and_after_the_expansion(tools):
    expanded = shown(tools, "expand")
    fused = shown(tools, "fuse")
    assert "; after expand\nfunction \"main\"" in expanded
    assert "; after fuse\nfunction \"main\"" in fused
    assert expanded.count("\nnest ") > fused.count("\nnest ") > 0
    everything = shown(tools, "passes")
    assert everything.startswith("; after import\nmodel ") and "; after expand" in everything and "; after layout" in everything


def unknown_words_are_refused_with_the_known_ones(tools):
    text = build(tools, "--dump", "sorcery", code=2).stderr
    assert "unknown word 'sorcery'" in text and "known: nest schedule loop llvm asm import expand" in text, text
    assert "did you mean 'loop'" in build(tools, "--dump", "asm,lop", code=2).stderr
    name = shown(tools, "schedule").split("\n  of ")[1].split("\n")[0]
    text = build(tools, "--dump", "loop", "--only", name + "x", "-f", code=2).stderr
    assert f"unknown kernel '{name}x', did you mean '{name}'" in text, text
    assert "go with --dump" in build(tools, "--only", "x", code=2).stderr
    assert "--only: nothing" in build(tools, "--dump", "fuse", "--only", "x", code=2).stderr
    assert "both write to standard output" in build(tools, "--dump", "fuse", "--json", code=2).stdout


def each_kernel_is_shown_at_every_level(tools):
    words = ("--dump", "nest,schedule,loop,llvm,asm", "--target", "x86-64-v3,armv8-a", "--no-selftest", "--dump-dir")
    build(tools, *words, "one")
    build(tools, *words, "two", "--threads", "1", "--no-cache", "-f")
    found = {p.relative_to(tools.dir / "one"): p.read_bytes() for p in (tools.dir / "one").rglob("*") if p.is_file()}
    again = {p.relative_to(tools.dir / "two"): p.read_bytes() for p in (tools.dir / "two").rglob("*") if p.is_file()}
    assert found == again and found  # whatever was compiled before, and on how many threads
    for target, instruction in (("x86-64-v3", b"vfmadd"), ("armv8-a", b"fmla"), ("portable", None)):
        ends = sorted(p.suffix for p in found if p.parts[0] == target and p.name.startswith("0-"))
        assert ends == sorted([".nest", ".schedule", ".loop"] + ([".ll", ".s"] if instruction else [])), (target, ends)
        assert instruction is None or any(instruction in text for p, text in found.items() if p.parts[0] == target and p.suffix == ".s")
    text = found[next(p for p in found if p.name.startswith("0-") and p.suffix == ".nest")].decode()
    assert "\nnest \"" in text and text.count("\nnest ") <= 2 and "array %" in text, text
    assert all(text.startswith(b'kernel "') for p, text in found.items() if p.suffix == ".loop")


def one_kernel_is_shown_by_the_name_that_profiles_have(tools):
    build(tools)
    launch = max(tools.json("mlrun", "profile", "d.mlc", "--duration", "10ms", "--warmup", "0s", stderr=None)["launches"], key=lambda l: l["min_ns"])["name"]
    text = shown(tools, "schedule,loop", "--only", launch)
    assert text.count("; schedule of ") == text.count("; loop of ") == 1 and f"  of {launch}\n" in text, text


def the_plan_of_a_variant_is_shown(tools):
    build(tools)
    text = tools.run("mlpack", "inspect", "d.mlc", "--plan", "--variant", "portable").stdout
    assert text.startswith("; portable\nplan\nfunction \"main\" {\n"), text[:200]
    assert "input \"image\" f32 [" in text and "output \"logits\" f32 [" in text
    assert text.count("\n  launch ") > 3
    answer = tools.json("mlpack", "inspect", "d.mlc", "--plan")
    assert "; portable\n" + answer["plans"]["portable"] == text
    assert tools.run("mlpack", "inspect", "d.mlc", "--plan", "--variant", "nonesuch", code=2)


if __name__ == "__main__":
    main([the_model_is_shown_after_the_import, nests_are_shown_after_a_pass_and_after_the_expansion,
          unknown_words_are_refused_with_the_known_ones, each_kernel_is_shown_at_every_level, one_kernel_is_shown_by_the_name_that_profiles_have,
          the_plan_of_a_variant_is_shown])
