"""The same model gives the same file whatever the folder, clock, time zone, locale, umask and environment of the builder:
the same root digest, and the same bytes up to the signature block. Several CPU variants cost little beside one.
"""
import os
import pathlib
import shutil
import struct

from onnx_file import model, node, port, tensor
from tool_test import main

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "digits"
TARGETS = "x86-64-v2,x86-64-v3,armv8-a,rv64gc"


def body(path):
    """The file without its signature block, whose length stands in front of the magic at the end."""
    data = path.read_bytes()
    return data[:len(data) - int.from_bytes(data[-16:-8], "little")]


def build(t, folder, out, umask=0o022, **env):
    """Builds a copy of the example in a folder of its own, in its own environment."""
    home = t.dir / folder
    shutil.copytree(EXAMPLE, home, ignore=shutil.ignore_patterns("images", "train"))
    before, t.env = t.env, dict(t.env, **env)
    mask = os.umask(umask)
    try:
        return t.json("mlpack", "build", home / "digits.onnx", "--pipeline", home / "pipeline.json", "-o", home / out,
                      "--target", TARGETS), body(home / out)
    finally:
        os.umask(mask)
        t.env = before


def two_builds_give_the_same_bytes(t):
    first, first_body = build(t, "one", "a.mlc")
    other, other_body = build(t, "deep/er/än other", "b.mlc", umask=0o077, TZ="Pacific/Chatham", LC_ALL="C", LANG="tr_TR.UTF-8",
                              HOME="/nonexistent", XDG_CONFIG_HOME=str(t.dir / "another-home"), MALLOC_PERTURB_="165",
                              OMP_NUM_THREADS="1")
    assert first["root"] == other["root"], (first["root"], other["root"])
    assert first["key"] != other["key"], "another home has another key"
    assert len(first_body) == len(other_body) and first_body == other_body, "equal up to the signature block"
    order = t.json("mlpack", "build", t.dir / "one/digits.onnx", "--pipeline", t.dir / "one/pipeline.json", "-o", "c.mlc", "--target",
                   ",".join(reversed(TARGETS.split(","))))
    assert order["root"] == first["root"], "the order of targets on the command line is no content"


def another_model_or_pipeline_gives_another_root(t):
    first, _ = build(t, "one", "a.mlc")
    pipeline = (t.dir / "one/pipeline.json").read_text()
    (t.dir / "one/pipeline.json").write_text(pipeline.replace('"k": 3', '"k": 4'))
    changed = t.json("mlpack", "build", t.dir / "one/digits.onnx", "--pipeline", t.dir / "one/pipeline.json", "-o", "b.mlc",
                     "--target", TARGETS)
    assert changed["root"] != first["root"]


def five_cpu_variants_cost_at_most_five_percent(t):
    # Eight layers of 512x512 weights: large enough that code is small beside them, as in real models.
    width, layers = 512, 8
    nodes, weights, value, state = [], [], "x", 1
    for k in range(layers):
        values = []
        for _ in range(width * width):
            state = (state * 1103515245 + 12345) & 0x7FFFFFFF
            values.append(state / 0x7FFFFFFF - 0.5)
        weights.append(tensor(f"w{k}", "f32", [width, width], struct.pack(f"<{len(values)}f", *values)))
        nodes += [node("MatMul", [value, f"w{k}"], [f"m{k}"]), node("Relu", [f"m{k}"], [f"r{k}" if k + 1 < layers else "y"])]
        value = f"r{k}"
    (t.dir / "wide.onnx").write_bytes(model(nodes, [port("x", "f32", ["n", width])], [port("y", "f32", ["n", width])], weights))
    sizes = {}
    for name, targets in (("one", "x86-64-v3"), ("five", "x86-64-v2,x86-64-v3,x86-64-v4,armv8-a,rv64gc")):
        sizes[name] = t.json("mlpack", "build", "wide.onnx", "-o", f"{name}.mlc", "--target", targets)["bytes"]
    assert sizes["five"] <= 1.05 * sizes["one"], sizes
    assert sizes["one"] <= 1.05 * (t.dir / "wide.onnx").stat().st_size, "weights are stored once: " + str(sizes)


if __name__ == "__main__":
    main([two_builds_give_the_same_bytes, another_model_or_pipeline_gives_another_root,
          five_cpu_variants_cost_at_most_five_percent], own_cache=True)
