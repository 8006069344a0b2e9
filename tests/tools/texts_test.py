"""The text forms that mlpack shows: models and nests while building, plans of a container."""
import pathlib

from tool_test import main

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples/digits/digits.onnx"


def build(tools, *flags, code=0):
    return tools.run("mlpack", "build", MODEL, "-o", "d.mlc", "--target", "portable", "--progress", "none", *flags, code=code)


def the_model_is_shown_after_the_import(tools):
    text = build(tools, "--print-after", "import").stderr
    assert text.startswith("model \"pytorch\"\nopset ai.onnx 13\ngraph "), text[:200]
    assert "input %image : f32[N, 1, 28, 28]\n" in text
    assert "%logits = ai.onnx.Gemm(" in text and "output %logits : f32[N, 10]\n" in text
    assert text.count(" sha256:") == 10  # weights by hash alone
    assert len(text) < 6000


def nests_are_shown_after_a_pass_and_after_the_expansion(tools):
    expanded = build(tools, "--print-after", "expand").stderr
    fused = build(tools, "--print-after", "fuse").stderr
    assert "; after expand\nfunction \"main\"" in expanded
    assert "; after fuse\nfunction \"main\"" in fused
    assert expanded.count("\nnest ") > fused.count("\nnest ") > 0
    everything = build(tools, "--print-after", "all").stderr
    assert everything.startswith("model ") and "; after expand" in everything and "; after layout" in everything


def an_unknown_pass_is_refused_with_the_known_ones(tools):
    text = build(tools, "--print-after", "sorcery", code=2).stderr
    assert "no pass 'sorcery'" in text and "known: all import expand" in text, text


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
          an_unknown_pass_is_refused_with_the_known_ones, the_plan_of_a_variant_is_shown])
