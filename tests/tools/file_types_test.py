"""Files of any kind through the tools: the bytes of their ends, and Magika, whose labels are those of its own preprocessing."""
import json
import pathlib
import struct
import subprocess

from onnx_file import model, node, port
from tool_test import Skipped, main

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE, MODELS = ROOT / "examples/file_types", ROOT.parent / "shared/models"


def build(t, length=8, within=16, labels=None, **keys):
    """The answer is the numbers that the model is given, or as floats the scores of their places."""
    part = {"within": within, "strip": "white space", "length": length}
    steps = [{"op": "file_bytes", "in": "file", "fill": 256, "parts": [{"of": "start", **part}, {"of": "end", **part}], **keys, "out": "x"},
             {"op": "run", "program": "main", "in": {"x": "x"}, "out": {"y": "y"}}]
    (t.dir / "m.onnx").write_bytes(model([node("Identity", ["x"], ["y"])], [port("x", "i32", ["n"])], [port("y", "i32", ["n"])]))
    (t.dir / "p.json").write_text(json.dumps({"mlc_pipeline": 1, "inputs": {"file": {"accept": ["application/octet-stream"]}}, "steps": steps, "outputs": ["y"]}))
    t.run("mlpack", "build", "m.onnx", "--pipeline", "p.json", "-o", "m.mlc", "--target", "native,portable")


def expected(data, length=8, within=16):
    first, last = list(data[:within].lstrip()[:length]), list(data[-within:].rstrip()[-length:])
    return first + [256]*(length - len(first)) + [256]*(length - len(last)) + last


def numbers(t, *args, **options):
    return t.json("mlrun", "run", "m.mlc", *args, stderr=None, **options)["outputs"]["y"]["data"]


def the_ends_of_any_file_are_numbers(t):
    build(t)
    npy = b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }" + b" "*60 + b"\n" + struct.pack("<f", 1)
    files = {"a": b"  \n\tabc\r\n", "empty": b"", "white": b" "*99, "png": b"\x89PNG\r\n\x1a\n rest", "npy": npy, "long": bytes(range(256))*3000}
    for name, data in files.items():
        (t.dir / name).write_bytes(data)
        assert numbers(t, "-i", name) == expected(data), name
        assert numbers(t, "-i", f"file={name}", "--variant", "portable") == expected(data), name
        found = subprocess.run([t.bin / "mlrun", "run", "m.mlc", "-i", "-", "--json"], cwd=t.dir, env=t.env, input=data, capture_output=True, timeout=120)
        assert json.loads(found.stdout)["outputs"]["y"]["data"] == expected(data), name
    folder = t.dir / "folder"
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    lines = [json.loads(line) for line in t.run("mlrun", "m.mlc", "-i", "folder", "--json-lines").stdout.splitlines()]
    assert {pathlib.Path(line["file"]).name: line["outputs"]["y"]["data"] for line in lines} == {name: expected(data) for name, data in files.items()}, lines


def a_large_file_is_read_at_its_ends(t):
    """A file of a terabyte, nearly all of which is a hole."""
    build(t)
    with open(t.dir / "large", "wb") as file:
        file.write(b"begin")
        file.seek(1 << 40)
        file.write(b"the end\n")
    assert numbers(t, "-i", "large") == [*b"begin", 0, 0, 0, *b"\0the end"], "large"
    line = json.loads(t.run("mlrun", "m.mlc", "-i", "large", "--json-lines").stdout)
    assert line["outputs"]["y"]["data"][-8:] == [*b"\0the end"], line


def a_file_of_too_few_bytes_is_an_error(t):
    build(t, least=4)
    (t.dir / "few").write_bytes(b"  abc")
    assert "the file has 3 bytes, and step 'file_bytes' takes 4 at least, white space not counted" in t.run("mlrun", "m.mlc", "-i", "few", code=6).stderr
    (t.dir / "enough").write_bytes(b"  abcd  ")
    assert numbers(t, "-i", "enough")[:5] == [*b"abcd ", ], "enough"
    (t.dir / "p.json").write_text((t.dir / "p.json").read_text().replace("application/octet-stream", "image/png"))
    refused = t.run("mlpack", "build", "m.onnx", "--pipeline", "p.json", "-o", "m.mlc", code=2).stderr
    assert "step 'file_bytes' takes a file of any kind (an input that accepts application/octet-stream), 'file' is a file" in refused, refused


def labels_that_unsure_names_are_lines(t):
    (t.dir / "m.onnx").write_bytes(model([node("Softmax", ["x"], ["y"])], [port("x", "f32", [1, 3])], [port("y", "f32", [1, 3])]))
    (t.dir / "l.txt").write_text("a\nb\nc\n")
    steps = [{"op": "run", "program": "main", "in": {"x": "x"}, "out": {"y": "y"}},
             {"op": "top_k", "in": "y", "k": 3, "labels": "l.txt", "unsure": {"below": 0.5, "label": "perhaps", "others": {"b": {"below": 0.1}}}, "out": "z"}]
    described = {"mlc_pipeline": 1, "inputs": {"x": {"accept": ["application/x-npy"]}}, "steps": steps, "outputs": ["z"]}
    (t.dir / "p.json").write_text(json.dumps(described))
    t.run("mlpack", "build", "m.onnx", "--pipeline", "p.json", "-o", "m.mlc", "--target", "native")
    (t.dir / "x.bin").write_bytes(struct.pack("<3f", 1, 0.5, 0))
    found = t.json("mlrun", "run", "m.mlc", "-i", "x=@x.bin:f32[1,3]", stderr=None)["outputs"]["z"]
    assert [c["label"] for c in found] == ["a", "b", "perhaps"], found
    steps[1]["unsure"]["others"]["d"] = {"below": 0.2}
    (t.dir / "p.json").write_text(json.dumps(described))
    refused = t.run("mlpack", "build", "m.onnx", "--pipeline", "p.json", "-o", "m.mlc", code=2).stderr
    assert "E5003" in refused and "'unsure' names 'd', which no line of 'l.txt' is" in refused, refused


def magika_tells_the_types_of_files(t):
    source, recorded = MODELS / "magika_v3_3.onnx", MODELS / "expected/magika_v3_3.files.npz"
    if not (source.is_file() and recorded.is_file()):
        raise Skipped("magika_v3_3.onnx is not here")
    t.run("mlpack", "build", source, "--pipeline", EXAMPLE / "pipeline.json", "-o", "m.mlc", "--target", "native")
    names = ["ppocr_keys_v1.txt", "magika_v3_3_config.json", "text_line.png", "speech_goforward.wav", "mnist.onnx", "libonnx-testdata_1.20.0-6_all.deb", "imagenet_labels_1000.txt"]
    want = [("csv", 0.9336), ("json", 0.8263), ("png", 1), ("wav", 0.9999), ("onnx", 1), ("deb", 0.9999), ("csv", 0.9132)]
    for name, (label, score) in zip(names, want):
        best = t.json("mlrun", "run", "m.mlc", "-i", MODELS / name, stderr=None)["outputs"]["type"][0]
        assert best["label"] == label and abs(best["score"] - score) < 1e-3, (name, best)


if __name__ == "__main__":
    main([the_ends_of_any_file_are_numbers, a_large_file_is_read_at_its_ends, a_file_of_too_few_bytes_is_an_error, labels_that_unsure_names_are_lines,
          magika_tells_the_types_of_files])
