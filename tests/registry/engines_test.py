"""What `mlpack export` writes for engines that distribute: repositories of Triton, objects of Kubernetes and KServe."""
import json
import re

from pushed import names, sample
from small_registry import SmallRegistry
from tool_test import main
import onnx_file as onnx

HOSTILE = 'a": "b" } #{{.Name}} \'\\ é: - [x] $(y)'


def build(t, name, inputs, outputs, nodes, *flags):
    (t.dir / "m.onnx").write_bytes(onnx.model(nodes, [onnx.port(*one) for one in inputs], [onnx.port(*one) for one in outputs]))
    t.run("mlpack", "build", "m.onnx", "-o", name, "--target", "portable", *flags)


def config_of(t, *flags, folder="models"):
    answer = t.json("mlpack", "export", "m.mlc", "--as", "triton", "-o", folder, *flags)
    return answer, (t.dir / folder / answer["name"] / "config.pbtxt").read_text()


def ports(text):
    """(name, type, dims) of each port. A string is what C makes of it."""
    found = re.findall(r'name: ("(?:[^"\\]|\\.)*")\n    data_type: (\w+)\n    dims: \[ ([-0-9, ]+) \]', text)
    return [(read_string(name), kind, [int(d) for d in dims.split(",")]) for name, kind, dims in found]


def read_string(text):
    def one(match):
        return bytes([int(match[1], 8)]) if match[1] else match[2].encode()
    assert text.isascii() and text.isprintable(), text
    return re.sub(rb'\\(?:([0-7]{3})|(.))', lambda m: one([None, m[1], (m[2] or b"").decode()]), text[1:-1].encode()).decode()


def triton_gets_the_ports_as_the_manifest_has_them(t):
    build(t, "m.mlc", [("x", "f32", ["N", 3, "W"])], [("y", "f32", ["N", 3, "W"])], [onnx.node("Relu", ["x"], ["y"])])
    answer, text = config_of(t)
    assert (t.dir / "models/m/1/model.mlc").read_bytes() == (t.dir / "m.mlc").read_bytes()
    assert answer["files"] == ["m/1/model.mlc", "m/config.pbtxt"] and answer["program"] == "main" and answer["notes"] == [], answer
    assert answer["max_batch_size"] == 64 and "max_batch_size: 64\n" in text and 'backend: "mlc"' in text, text
    assert ports(text) == [("x", "TYPE_FP32", [3, -1]), ("y", "TYPE_FP32", [3, -1])], text
    answer, text = config_of(t, "--name", "whole", "--max-batch", "0")
    assert answer["max_batch_size"] == 0 and ports(text) == [("x", "TYPE_FP32", [-1, 3, -1]), ("y", "TYPE_FP32", [-1, 3, -1])], text
    assert sorted(p.name for p in (t.dir / "models").iterdir()) == ["m", "whole"], "a repository has several models"
    # Rows that are not computed each by itself are no batch.
    build(t, "m.mlc", [("x", "f32", ["N", 4])], [("y", "f32", [1, 4])], [onnx.node("ReduceMean", ["x"], ["y"], axes=[0], keepdims=1)])
    answer, text = config_of(t, "--name", "mean")
    assert answer["max_batch_size"] == 0 and ports(text)[0][2] == [-1, 4], text
    # Without axes, and of texts.
    build(t, "m.mlc", [("x", "i64", [])], [("y", "i64", [])], [onnx.node("Neg", ["x"], ["y"])])
    assert config_of(t, "--name", "scalar")[1].count("dims: [ 1 ]\n  }") == 2
    build(t, "m.mlc", [("x", "i64", ["N"])], [("y", "i64", ["N"])], [onnx.node("Neg", ["x"], ["y"])])
    assert config_of(t, "--name", "rows")[1].count("dims: [ 1 ]\n    reshape { shape: [ ] }") == 2
    build(t, "m.mlc", [("x", "str", [2])], [("y", "str", [2])], [onnx.node("Identity", ["x"], ["y"])])
    assert ports(config_of(t, "--name", "texts")[1])[0] == ("x", "TYPE_STRING", [2])


def names_of_ports_stay_names(t):
    build(t, "m.mlc", [(HOSTILE, "f32", [2])], [("y: |", "f32", [2])], [onnx.node("Relu", [HOSTILE], ["y: |"])])
    found = t.json("mlpack", "inspect", "m.mlc")["programs"][0]
    _, text = config_of(t)
    assert [one[0] for one in ports(text)] == [found["inputs"][0]["name"], found["outputs"][0]["name"]], text
    assert found["inputs"][0]["name"] == HOSTILE, found
    t.json("mlpack", "export", "m.mlc", "--as", "k8s", "-o", "objects")
    lines = (t.dir / "objects/config-map.yaml").read_text()
    block = lines[lines.index("  config.pbtxt: |\n"):].split("\n", 1)[1]
    assert "".join(line[4:] + "\n" for line in block.splitlines() if line.startswith("    ") and "KEY" not in line).startswith(text), lines


def objects_name_the_image_by_its_digest(t):
    sample(t)
    with SmallRegistry() as registry:
        reference = f"{registry.host}/acme/cat"
        for kind in ("k8s", "kserve"):
            answer = t.json("mlpack", "export", "s.mlc", "--as", kind, "-o", kind, "--image", reference + ":2", "--server", "localhost:5000/triton:1", "--name", "cat")
            pushed = t.json("mlpack", "push", "s.mlc", reference + ":2", "--shape", "image")
            assert answer["image"] == f"{reference}@{pushed['digest']}", (answer, pushed)
            assert not any("--image" in note or "--server" in note for note in answer["notes"]), answer
            assert sorted(p.name for p in (t.dir / kind).iterdir()) == sorted(answer["files"])
        pinned = t.json("mlpack", "export", "s.mlc", "--as", "k8s", "-o", "p", "--image", answer["image"])
        assert pinned["image"] == answer["image"]
        wrong = t.json("mlpack", "export", "s.mlc", "--as", "k8s", "-o", "q", "--image", reference + "@sha256:" + "0" * 64, code=2)
        assert "as an image" in wrong["message"], wrong
    assert answer["image"] in (t.dir / "k8s/deployment.yaml").read_text()
    assert f"oci://{answer['image']}" in (t.dir / "kserve/inference-service.yaml").read_text()
    t.json("mlpack", "export", "s.mlc", "--as", "kserve", "-o", "s3", "--storage", 's3://b/x "y": z')
    assert 'storageUri: "s3://b/x \\"y\\": z"\n' in (t.dir / "s3/inference-service.yaml").read_text()


def servers_trust_who_vouches_for_the_file(t):
    sample(t, sign=False)
    assert "mlpack sign" in t.json("mlpack", "export", "s.mlc", "--as", "k8s", "-o", "o", code=10)["help"]
    assert any("not signed" in note for note in t.json("mlpack", "export", "s.mlc", "--as", "triton", "-o", "r")["notes"])
    for name in ("ours", "others"):
        t.run("mlpack", "keygen", "-o", f"{name}.pem")
    t.run("mlpack", "sign", "s.mlc", "--key", "ours.pem")
    public = sorted(p.name for p in t.dir.glob("*.pem"))
    ours = next(name for name in public if name.startswith("ours") and "pub" in name)
    others = next(name for name in public if name.startswith("others") and "pub" in name)
    before = names(t)
    assert "--trust" in t.json("mlpack", "export", "s.mlc", "--as", "k8s", "-o", "o", code=11)["help"]
    t.json("mlpack", "export", "s.mlc", "--as", "k8s", "-o", "o", "--trust", others, code=11)
    t.json("mlpack", "export", "s.mlc", "--as", "k8s", "-o", "o", "--trust", "ours.pem", code=4)  # a private key goes nowhere
    assert names(t) == before, "nothing is left behind"
    t.json("mlpack", "export", "s.mlc", "--as", "k8s", "-o", "o", "--trust", ours, "--trust", others)
    text = (t.dir / "o/config-map.yaml").read_text()
    for name in (ours, others):
        assert all(line in text for line in (t.dir / name).read_text().splitlines()), text
    assert "PRIVATE" not in text and text.count("BEGIN PUBLIC KEY") == 2
    assert (t.dir / "o/deployment.yaml").read_text().count("mountPath: /etc/mlc/trust/") == 2


def what_cannot_be_is_said(t):
    sample(t)
    before = names(t)
    for flags, sentence in ((("--as", "triton", "--name", "A b"), "letter first"), (("--as", "k8s", "--cpu", "two"), "500m"), (("--as", "k8s", "--memory", "-1Gi"), "4Gi"),
                            (("--as", "k8s", "--memory", "0"), "4Gi"), (("--as", "k8s", "--image", "cat"), "--image"), (("--as", "kserve", "--server", "a b/c"), "--server"),
                            (("--as", "triton", "--image", "a.b/c"), "belongs to --as k8s, kserve"), (("--as", "k8s", "--tag", "x"), "belongs to --as oci-layout"),
                            (("--as", "triton", "--program", "no"), "expected"), (("--as", "triton", "--pipeline", "default"), "the file has none"),
                            (("--as", "oci-layout", "--pipeline", "default"), "belongs to --as k8s, kserve, triton")):
        assert sentence in json.dumps(t.json("mlpack", "export", "s.mlc", *flags, "-o", "o", code=2)), flags
    t.json("mlpack", "export", "missing.mlc", "--as", "triton", "-o", "o", code=3)
    t.json("mlpack", "export", "s.mlc", "--as", "triton", "-o", "no/such/o", code=3)
    assert "a folder expected" in t.json("mlpack", "export", "s.mlc", "--as", "triton", "-o", "s.mlc", code=2)["message"]
    damaged = bytearray((t.dir / "s.mlc").read_bytes())
    damaged[1_000_000] ^= 1
    (t.dir / "d.mlc").write_bytes(damaged)
    for kind in ("triton", "k8s", "kserve"):
        t.json("mlpack", "export", "d.mlc", "--as", kind, "-o", "o", code=12)
    (t.dir / "d.mlc").unlink()
    assert names(t) == before, "nothing is left behind"
    for kind, code in (("triton", 2), ("k8s", 2)):
        t.json("mlpack", "export", "s.mlc", "--as", kind, "-o", "there")
        t.json("mlpack", "export", "s.mlc", "--as", kind, "-o", "there", code=code)
        (t.dir / "there").rename(t.dir / f"was-{kind}")


def ports_without_a_form_are_listed(t):
    digits = t.bin.parents[2] / "examples/digits"
    t.run("mlpack", "build", digits / "digits.onnx", "--pipeline", digits / "pipeline.json", "-o", "d.mlc", "--target", "portable")
    said = t.json("mlpack", "export", "d.mlc", "--as", "triton", "-o", "models", "--program", "default", code=20)
    assert "picture" in said["message"] and "BYTES" in said["help"] and "--program main" in said["help"], said
    assert any("--pipeline" in note for note in t.json("mlpack", "export", "d.mlc", "--as", "triton", "-o", "models")["notes"])
    served = t.json("mlpack", "export", "d.mlc", "--as", "triton", "-o", "models", "--pipeline", "default", "--name", "photos")
    assert served["pipeline"] == "default" and "program" not in served and served["notes"] == [] and served["max_batch_size"] == 0, served
    text = (t.dir / "models/photos/config.pbtxt").read_text()
    assert 'parameters { key: "pipeline" value { string_value: "default" } }' in text and "input [" not in text and '"program"' not in text, text
    assert "one of the two expected" in t.json("mlpack", "export", "d.mlc", "--as", "triton", "-o", "models", "--pipeline", "default", "--program", "main", "--name", "n", code=2)["message"]
    (t.dir / "m.onnx").write_bytes(onnx.model([onnx.node("SequenceAt", ["s", "i"], ["y"])], [onnx.list_of("s", "f32", 1), onnx.port("i", "i64", [])], [onnx.port("y", "f32", ["n"])]))
    t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--target", "portable")
    assert "a list of arrays" in t.json("mlpack", "export", "m.mlc", "--as", "triton", "-o", "models", code=20)["message"]


main([
    triton_gets_the_ports_as_the_manifest_has_them, names_of_ports_stay_names, objects_name_the_image_by_its_digest, servers_trust_who_vouches_for_the_file,
    what_cannot_be_is_said, ports_without_a_form_are_listed,
])
