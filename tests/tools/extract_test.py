"""mlpack extract, as a user runs it."""
import json
import os
import pathlib
import struct
import zipfile

import npz_file
import onnx_file
from tool_test import main

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "examples/digits"
ALL = "interface,pipeline,assets,golden,weights,modules"


def built(t, weight="w", name="m.mlc", *more):
    """y = x w, for this processor and the portable form."""
    values = [((k * 7) % 13 - 6) / 4 for k in range(40 * 24)]
    w = onnx_file.tensor(weight, "f32", [40, 24], struct.pack(f"<{len(values)}f", *values))
    (t.dir / "m.onnx").write_bytes(onnx_file.model([onnx_file.node("MatMul", ["x", weight], ["y"])], [onnx_file.port("x", "f32", ["N", 40])], [onnx_file.port("y", "f32", ["N", 24])], [w]))
    t.json("mlpack", "build", "m.onnx", "-o", name, "--target", "x86-64-v2,portable", "--id", "acme/extract", *more)
    return t.dir / name, values


def what_is_inside_comes_out(t):
    path, values = built(t)
    answer = t.json("mlpack", "extract", path, "--what", ALL, "-o", "out")
    out = t.dir / "out"
    found = {str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()}
    assert found == {f["file"] for f in answer["files"]} | {"contents.json"}, (found, answer)
    assert all(f["bytes"] == (out / f["file"]).stat().st_size for f in answer["files"]), answer
    contents = json.loads((out / "contents.json").read_text())
    assert contents["root"] == answer["root"] == t.json("mlpack", "verify", path)["root"] and contents["files"] == answer["files"] and contents["renamed"] == [], contents
    weights = npz_file.read(out / "weights.npz")
    assert weights["w"] == ((40, 24), values), "row-major, whatever the layout"
    assert json.loads((out / "interface.json").read_text())["programs"][0]["outputs"][0]["name"] == "y"
    inputs, answers = npz_file.read(out / "golden/0.inputs.npz"), npz_file.read(out / "golden/0.answers.npz")
    assert list(inputs) == ["x"] and list(answers) == ["y"], (inputs, answers)
    # What is extracted is what other commands take: the vector gives its answers, and makes the same file.
    t.run("mlrun", "run", path, "-i", out / "golden/0.inputs.npz", "-o", "y.npz", "--variant", "portable")
    (shape, expected), (seen_shape, seen) = answers["y"], npz_file.read(t.dir / "y.npz")["y"]
    assert shape == seen_shape and all(abs(a - b) < 1e-3 for a, b in zip(expected, seen))
    module = (out / "modules/x86-64-v2.elf").read_bytes()
    assert module[:4] == b"\x7fELF" and (out / "modules/portable.portable").exists()


def a_pipeline_comes_out_as_build_takes_it(t):
    t.run("mlpack", "build", DIGITS / "digits.onnx", "--pipeline", DIGITS / "pipeline.json", "-o", "d.mlc", "--target", "portable")
    t.run("mlpack", "extract", "d.mlc", "--what", "pipeline,assets", "-o", "d")
    assert (t.dir / "d/assets/labels.txt").read_bytes() == (DIGITS / "labels.txt").read_bytes()
    t.run("mlpack", "build", DIGITS / "digits.onnx", "--pipeline", "d/assets/pipeline.json", "-o", "e.mlc", "--target", "portable")
    assert t.run("mlpack", "diff", "d.mlc", "e.mlc").stdout.startswith("equal")
    only = t.json("mlpack", "extract", "d.mlc", "--what", "pipeline", "-o", "p")
    assert [f["file"] for f in only["files"]] == ["assets/pipeline.json"], only


def names_lead_nowhere(t):
    path, values = built(t, weight="../../w")
    t.run("mlpack", "extract", path, "--what", "weights", "-o", "a/b/c")
    with zipfile.ZipFile(t.dir / "a/b/c/weights.npz") as archive:
        assert archive.namelist() == ["array-0.npy"], archive.namelist()
    contents = json.loads((t.dir / "a/b/c/contents.json").read_text())
    assert contents["renamed"] == [{"file": "weights.npz", "array": "array-0", "name": "../../w"}], contents
    # A link in the folder is not followed.
    (t.dir / "there").mkdir()
    (t.dir / "precious").write_text("precious")
    os.symlink(t.dir / "precious", t.dir / "there/weights.npz")
    refused = t.json("mlpack", "extract", path, "--what", "weights", "-o", "there", "--force", code=2)
    assert "is a link" in refused["message"] and (t.dir / "precious").read_text() == "precious", refused
    assert sorted(p.name for p in (t.dir / "there").iterdir()) == ["weights.npz"]


def what_cannot_be_extracted_says_why(t):
    path, _ = built(t)
    assert "known: interface pipeline" in str(t.json("mlpack", "extract", path, "--what", "weight", "-o", "x", code=2))
    nothing = t.json("mlpack", "extract", path, "--what", "pipeline", "-o", "x", code=3)
    assert "has nothing of what is asked for" in nothing["message"] and not (t.dir / "x").exists(), nothing
    t.run("mlpack", "extract", path, "--what", "interface", "-o", "x")
    assert "has files in it" in t.json("mlpack", "extract", path, "--what", "golden", "-o", "x", code=2)["message"]
    t.run("mlpack", "extract", path, "--what", "golden", "-o", "x", "--force")
    assert (t.dir / "x/interface.json").exists() and (t.dir / "x/golden/0.inputs.npz").exists()
    assert "is no folder" in t.json("mlpack", "extract", path, "--what", "golden", "-o", path, code=2)["message"]
    t.json("mlpack", "extract", "nothing.mlc", "--what", "golden", "-o", "y", code=3)
    # Damage: nothing stays.
    weights = next(s for s in t.json("mlpack", "inspect", path, "--segments")["segments"] if s["kind"] == "weights")
    damaged = bytearray(path.read_bytes())
    damaged[int(weights["offset"])] ^= 1
    (t.dir / "bad.mlc").write_bytes(damaged)
    t.json("mlpack", "extract", "bad.mlc", "--what", "interface,weights", "-o", "z", code=12)
    assert not (t.dir / "z").exists()
    # Files of strangers too: nothing is run.
    t.run("mlpack", "keygen", "-o", "k.pem")
    t.run("mlpack", "sign", path, "--key", "k.pem", "--replace", "-o", "foreign.mlc")
    t.run("mlpack", "extract", "foreign.mlc", "--what", "golden,modules", "-o", "f")
    t.run("mlpack", "thin", path, "--keep", "portable", "-o", "thin.mlc")
    assert [f["name"] for f in t.json("mlpack", "extract", "thin.mlc", "--what", "modules", "-o", "h")["files"]] == ["portable"]


if __name__ == "__main__":
    main([what_is_inside_comes_out, a_pipeline_comes_out_as_build_takes_it, names_lead_nowhere, what_cannot_be_extracted_says_why])
