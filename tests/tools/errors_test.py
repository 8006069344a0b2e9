"""Bad input of every kind gets a sentence and its documented exit code: models, pipelines, flags, containers, trust.

What mlrun says about inputs is in mlrun_test.py, about damaged containers also in keys_test.py and tests/hostile.
"""
import json
import os
import pathlib
import platform
import re
import shutil
import struct
import subprocess

import npz_file
from onnx_file import model, node, number, port, tensor
from tool_test import main

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "digits"
IMAGE = sorted((EXAMPLE / "images").iterdir())[0]

PIPELINE = """{"mlc_pipeline": 1, "inputs": {"picture": {"accept": ["image/png", "image/jpeg"]}}, "steps": [
  {"op": "decode_image", "in": "picture", "color": "gray", "like": "pillow", "orient": "exif", "alpha": "drop"},
  {"op": "resize", "size": [28, 28], "kernel": "bilinear", "like": "pillow"},
  {"op": "normalize", "div": 255},
  {"op": "layout", "to": "NCHW", "out": "x"},
  {"op": "run", "program": "main", "in": {"image": "x"}, "out": {"logits": "logits"}},
  {"op": "top_k", "in": {"softmax": "logits"}, "k": 3, "labels": "labels.txt", "out": "digits"}],
 "outputs": ["digits"]}"""


def identity(extents=("n", 4), dtype="f32"):
    return model([node("Identity", ["x"], ["y"])], [port("x", dtype, extents)], [port("y", dtype, extents)])


def refuses(t, code, words, *args, number=None):
    """`words` stand in the error; nothing else is printed; --json says the same."""
    done = t.run(args[0], *args[1:], code=code)
    assert done.stderr.startswith("error"), done.stderr
    for word in [words] if isinstance(words, str) else words:
        assert word in done.stderr, f"{word!r} is not in {done.stderr!r}"
    assert done.stdout == "" or args[1] == "check", done.stdout
    assert "terminate" not in done.stderr and "internal" not in done.stderr, done.stderr
    answer = t.json(args[0], *args[1:], code=code) if args[1] in ("build", "check", "verify") else {}
    if number:
        assert f"error[E{number}]" in done.stderr and answer.get("code", f"E{number}") == f"E{number}", (done.stderr, answer)
    return done.stderr


def build_refuses(t, code, words, *args, number=None):
    text = refuses(t, code, words, "mlpack", "build", *args, "-o", "never.mlc", "--target", "native", number=number)
    assert not (t.dir / "never.mlc").exists(), "a failed build leaves no file"
    assert not [p for p in t.dir.iterdir() if p.name.startswith((".never", "never"))], "nor a temporary one"
    return text


def files_that_are_no_model_are_called_what_they_are(t):
    files = {
        "text.onnx": (b"dear reader, this is no model\n", "1014", "not an ONNX model"),
        "picture.onnx": (b"\x89PNG\r\n\x1a\n" + bytes(64), "1002", "PNG image"),
        "photo.onnx": (b"\xff\xd8\xff\xe0" + bytes(64), "1002", "JPEG image"),
        "weights.onnx": (b"PK\x03\x04" + bytes(64), "1002", "ZIP archive"),
        "page.onnx": (b"<!DOCTYPE html><html><head><title>Sign in</title></head></html>", "1002", "web page"),
        "lite.onnx": (b"\x1c\0\0\0TFL3" + bytes(64), "1002", "TensorFlow Lite"),
        "empty.onnx": (b"", "1014", "empty"),
        "pointer.onnx": (b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"9" * 64 + b"\nsize 102442450\n",
                         "1001", ["git-lfs pointer of", "102442450 bytes", "9" * 64, "git lfs pull --include pointer.onnx"]),
        "half.onnx": ((EXAMPLE / "digits.onnx").read_bytes()[:9000], "1014", ["half.onnx", "truncated"]),
    }
    for name, (data, number, words) in files.items():
        (t.dir / name).write_bytes(data)
        build_refuses(t, 4, words, name, number=number)
        refuses(t, 4, words, "mlpack", "check", name, number=number)
    build_refuses(t, 3, "absent.onnx: No such file", "absent.onnx", number="1003")
    build_refuses(t, 3, "is a folder without model.onnx and onnx/model.onnx", t.dir, number="1003")
    t.run("mlpack", "build", EXAMPLE / "digits.onnx", "-o", "d.mlc", "--target", "portable")
    build_refuses(t, 4, "container", "d.mlc")


def models_cut_anywhere_are_refused(t):
    good = (EXAMPLE / "digits.onnx").read_bytes()
    for cut in (*range(1, 60, 7), len(good) // 3, len(good) // 2, len(good) - 40, len(good) - 1):
        (t.dir / "cut.onnx").write_bytes(good[:cut])
        done = t.run("mlpack", "check", "cut.onnx", code=4)
        assert "cut.onnx" in done.stderr, done.stderr


def operators_that_nobody_knows_are_all_listed_with_counts(t):
    nodes = [node("Frob", ["x"], ["a"], "frob_0"), node("Frob", ["a"], ["b"], "frob_1"), node("Relu", ["b"], ["c"]),
             node("Gadget", ["c"], ["d"], "gadget_0", domain="com.acme"), node("Zap", ["d"], ["y"], "zap_0")]
    (t.dir / "m.onnx").write_bytes(model(nodes, [port("x", "f32", [4])], [port("y", "f32", [4])], domains=["com.acme"]))
    text = build_refuses(t, 20, ["3 operators", "4 of 5 nodes", "--ops"], "m.onnx", number="2004")
    lines = [line.split() for line in text.splitlines()[1:4]]
    assert [(line[0], line[1]) for line in lines] == [("Frob-13", "2"), ("Zap-13", "1"), ("com.acme:Gadget-1", "1")], text
    for name in ("'frob_0'", "'gadget_0'", "'zap_0'"):
        assert name in text, text
    answer = t.json("mlpack", "check", "m.onnx", code=20)
    assert answer["operators"] == {"Frob": 2, "Relu": 1, "Zap": 1, "com.acme:Gadget": 1} and len(answer["facts"]) == 3, answer


def models_that_make_no_sense_name_the_node(t):
    one = port("x", "f32", [2, 3])
    cases = {
        "matmul": ([node("MatMul", ["x", "x"], ["y"], "mm_7")], "mm_7"),
        "missing": ([node("Add", ["x", "ghost"], ["y"], "add_3")], "ghost"),
        "attribute": ([node("Softmax", ["x"], ["y"], "soft_1", axis=9)], "soft_1"),
        "output": ([node("Relu", ["x"], ["z"])], "y"),
    }
    for name, (nodes, word) in cases.items():
        (t.dir / f"{name}.onnx").write_bytes(model(nodes, [one], [port("y", "f32", [2, 3])]))
        build_refuses(t, (2, 4, 20), word, f"{name}.onnx")
    (t.dir / "rankless.onnx").write_bytes(model([node("Relu", ["x"], ["y"])], [port("x", "f32", None)], [port("y", "f32", None)]))
    build_refuses(t, 20, ["'x'", "rank"], "rankless.onnx", number="2011")
    (t.dir / "text.onnx").write_bytes(model([node("Relu", ["x"], ["y"])], [port("x", "str", [2])], [port("y", "str", [2])]))
    build_refuses(t, 4, ["Relu", "element type str, expected num"], "text.onnx")
    short = tensor("w", "f32", [2, 3], struct.pack("<5f", *range(5)))
    (t.dir / "short.onnx").write_bytes(
        model([node("Add", ["x", "w"], ["y"])], [one], [port("y", "f32", [2, 3])], [short]))
    build_refuses(t, 4, "'w'", "short.onnx", number="1015")


def shapes_that_do_not_fit_are_shown(t):
    """Before a run and while building: the node, its inputs by name with their shapes, and what was expected."""
    def product(a, b):
        (t.dir / "m.onnx").write_bytes(model([node("MatMul", ["a", "b"], ["y"], name="proj")], [port("a", "f32", a), port("b", "f32", b)],
                                             [port("y", "f32", [2, 5])]))
    product([2, 3], [4, 5])
    text = build_refuses(t, 4, ["proj (ai.onnx.MatMul", "3 (axis 1 of a) and 4 (axis 0 of b) differ", "a f32[2,3]", "b f32[4,5]"], "m.onnx")
    assert text.count("differ") == 1, text
    (t.dir / "r.onnx").write_bytes(model([node("Reshape", ["a", "to"], ["y"], name="r")], [port("a", "f32", [2, 3])], [port("y", "f32", None)],
                                         [tensor("to", "i64", [2], struct.pack("<2q", 7, 7))]))
    build_refuses(t, 4, ["r (ai.onnx.Reshape", "found 49 and 6", "'a' f32[2,3]", "'to' i64[2] = 7, 7"], "r.onnx")
    product([2, "K"], ["L", 5])
    t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--target", "portable", "--no-selftest")
    text = refuses(t, 6, ["proj (ai.onnx.MatMul", "K (axis 1 of a) and L (axis 0 of b) differ", "a f32[2,K]", "b f32[L,5]", "a   found [2,3]",
                          "b   found [4,5]"], "mlrun", "run", "m.mlc", "-i", "random", "--dim", "K=3", "--dim", "L=4", number="4002")
    assert "$" not in text, text


def one_of_a_thing_is_not_several(t):
    (t.dir / "m.onnx").write_bytes(identity())
    text = t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--target", "portable")
    text = text.stdout + text.stderr + t.run("mlrun", "selftest", "m.mlc", "--threads", "1").stdout
    assert "1 node, 1 operator," in text and "1 vector, 1 thread," in text, text
    assert not re.search(r"\b1 (nodes|operators|vectors|threads)\b", text), text


def the_output_is_a_file_and_links_stay_links(t):
    (t.dir / "m.onnx").write_bytes(identity())
    build = ("mlpack", "build", "m.onnx", "--target", "portable", "-o")
    for force in ((), ("--force",)):
        text = refuses(t, 2, [". is a folder", "help: -o ./NAME.mlc"], *build, ".", *force)
        assert "--force" not in text, text
    (t.dir / "folder").mkdir()
    (t.dir / "link.mlc").symlink_to("folder/behind.mlc")  # where nothing is yet
    for _ in range(2):
        t.run(*build, "link.mlc")
        assert (t.dir / "link.mlc").is_symlink() and (t.dir / "folder/behind.mlc").is_file()
    (t.dir / "y.npz").symlink_to("folder/y.npz")
    t.run("mlrun", "link.mlc", "-i", "random", "-o", "y.npz")
    assert (t.dir / "y.npz").is_symlink() and (t.dir / "folder/y.npz").is_file()
    t.env["TMPDIR"] = str(t.dir / "absent")  # where modules are linked
    refuses(t, 3, "TMPDIR", *build[:3], "--target", "native", "-o", "n.mlc")


def an_answer_that_is_not_taken_is_no_success(t):
    if not pathlib.Path("/dev/full").exists():
        return
    with open("/dev/full", "w") as full:
        for tool in ("mlpack", "mlrun"):
            for words in (["--help"], ["--version"], ["trust", "--help"], ["help"], ["help", "exit-codes"], ["completion", "bash"]):
                done = subprocess.run([str(t.bin / tool), *words], env=t.env, stdout=full, stderr=subprocess.PIPE, text=True)
                assert done.returncode == 3 and "could not be written" in done.stderr, (tool, words, done)


def inputs_of_a_pipeline_are_named_and_arrays_go_around_it(t):
    t.run("mlpack", "build", EXAMPLE / "digits.onnx", "--pipeline", EXAMPLE / "pipeline.json", "-o", "d.mlc", "--target", "portable")
    text = refuses(t, 6, ["2 inputs without a name, and the pipeline takes 'picture'", "help: a run takes 1 file here"],
                   "mlrun", "d.mlc", "-i", IMAGE, "-i", IMAGE)
    assert "missing" not in text, text
    t.run("mlrun", "d.mlc", "--raw", "-i", "random", "-o", "y.npz")
    refuses(t, 6, ["'logits' is no input of the pipeline", "help: --raw feeds arrays to the bare program"], "mlrun", "d.mlc", "-i", "y.npz")
    refuses(t, 2, ["unknown extent 'N'", "help: --raw: extents of the bare program"], "mlrun", "bench", "d.mlc", "--dim", "N=2")


def flags_of_build_are_checked_before_work_begins(t):
    (t.dir / "m.onnx").write_bytes(identity())
    refuses(t, 2, ["x86-64-v9", "x86-64-v", "armv9", "mlpack targets"],
            "mlpack", "build", "m.onnx", "-o", "o.mlc", "--target", "x86-64-v9,armv9")
    refuses(t, 2, ["unknown option '--targets', did you mean '--target'", "mlpack build --help"],
            "mlpack", "build", "m.onnx", "-o", "o.mlc", "--targets", "native")
    refuses(t, 2, "--output", "mlpack", "build", "m.onnx")
    refuses(t, 2, "unknown command 'bild', did you mean 'build'", "mlpack", "bild", "m.onnx")
    refuses(t, 2, "did you mean 'verify'", "mlpack", "verfy", "m.onnx")
    refuses(t, 2, "unknown command 'explian', did you mean 'explain'", "mlrun", "explian", "m.mlc")
    refuses(t, 2, "'b.mlc' is one argument too many", "mlrun", "explain", "a.mlc", "b.mlc")
    refuses(t, 2, "unknown option '--vresion'", "mlrun", "--vresion")
    for dim, word in {"n=4..2": "the low bound 4 is above the high bound 2", "n": "LOW..HIGH", "n=-1": "LOW..HIGH", "n=1..x": "LOW..HIGH",
                      "m=2": "it has 'n'"}.items():
        build_refuses(t, 2, word, "m.onnx", "--dim", dim)
    build_refuses(t, 3, "nokey.pem", "m.onnx", "--key", "nokey.pem")
    build_refuses(t, 2, "--progress", "m.onnx", "--progress", "loud")
    build_refuses(t, 3, "noops", "m.onnx", "--ops", "noops")
    refuses(t, 3, "no/o.mlc", "mlpack", "build", "m.onnx", "-o", "no/o.mlc", "--target", "native")
    (t.dir / "notes.txt").write_text("notes")
    refuses(t, 2, ["notes.txt", "--force"], "mlpack", "build", "m.onnx", "-o", "notes.txt", "--target", "native")
    assert (t.dir / "notes.txt").read_text() == "notes"
    t.run("mlpack", "build", "m.onnx", "-o", "notes.txt", "--target", "portable", "--force")
    t.run("mlpack", "verify", "notes.txt")


def a_frozen_extent_is_fixed_under_each_of_its_names(t):
    (t.dir / "named.onnx").write_bytes(identity())
    (t.dir / "nameless.onnx").write_bytes(identity(("", 4)))
    for name, dim in (("named", "n"), ("nameless", "x.0")):
        t.run("mlpack", "build", f"{name}.onnx", "-o", "f.mlc", "--target", "portable", "--dim", f"{dim}=3")
        assert t.json("mlpack", "inspect", "f.mlc")["programs"][0]["inputs"][0]["shape"] == [3, 4]
        t.run("mlpack", "build", f"{name}.onnx", "-o", "b.mlc", "--target", "portable", "--dim", f"{dim}=2..3")
        t.run("mlrun", "b.mlc", "-i", "zeros", "--dim", f"{dim}=3")
        refuses(t, 6, dim, "mlrun", "b.mlc", "-i", "zeros", "--dim", f"{dim}=4")
        refuses(t, 2, "extent", "mlrun", "b.mlc", "-i", "zeros", "--dim", "other=4")


def what_a_file_does_not_say_of_its_inputs_is_said_on_the_command_line(t):
    (t.dir / "m.onnx").write_bytes(model([node("Relu", ["x"], ["y"])], [port("x", "f32", None)], [port("y", "f32", None)]))
    build_refuses(t, 20, ["'x' does not say its rank", "--shape 'x=[N,3]'"], "m.onnx", number="2011")
    t.run("mlpack", "build", "m.onnx", "-o", "s.mlc", "--target", "portable", "--shape", "x=[N, 3]", "--dim", "N=2..5")
    assert t.json("mlpack", "check", "m.onnx", "--shape", "x=[N,-1]")["inputs"] == ["x: f32[N, x.1]"]
    t.run("mlrun", "s.mlc", "-i", "zeros", "--dim", "N=4")
    refuses(t, 6, "N", "mlrun", "s.mlc", "-i", "zeros", "--dim", "N=6")
    for shape, word in {"x": "NAME=[", "x=[N": "NAME=[", "x=[N,,3]": "NAME=[", "x=[-2]": "NAME=[", "z=[3]": "no input 'z'"}.items():
        build_refuses(t, 2, word, "m.onnx", "--shape", shape)
    (t.dir / "n.onnx").write_bytes(identity())
    build_refuses(t, 2, "does not fit", "n.onnx", "--shape", "x=[n,5]")


def an_input_with_a_default_is_a_constant_unless_it_is_fed(t):
    weights = [tensor("w", "f32", [2], struct.pack("<2f", 3, 4)), tensor("hidden", "f32", [2], struct.pack("<2f", 1, 1))]
    for version in (3, 8):
        data = model([node("Mul", ["x", "w"], ["a"]), node("Add", ["a", "hidden"], ["y"])],
                                          [port("w", "f32", [2]), port("x", "f32", ["N", 2])], [port("y", "f32", ["N", 2])], weights) + number(1, version)
        (t.dir / "m.onnx").write_bytes(data)
        remark = "'w'; --feed NAME makes one an input"
        assert (remark in t.json("mlpack", "check", "m.onnx")["remark"]) == (version >= 4)
        assert (remark in t.run("mlpack", "check", "m.onnx").stdout) == (version >= 4)
        built = t.json("mlpack", "build", "m.onnx", "-o", "c.mlc", "--target", "portable", "-f")
        assert any(remark in line for line in built["warnings"]) == (version >= 4), built
        assert [p["name"] for p in t.json("mlpack", "inspect", "c.mlc")["programs"][0]["inputs"]] == ["x"]
        built = t.json("mlpack", "build", "m.onnx", "-o", "f.mlc", "--target", "portable", "-f", "--feed", "w", "--feed", "hidden")
        assert not any("--feed" in line for line in built["warnings"]), built
        assert [p["name"] for p in t.json("mlpack", "inspect", "f.mlc")["programs"][0]["inputs"]] == ["w", "x", "hidden"]
        npz_file.write(t.dir / "in.npz", {"x": ("f32", [1, 2], [1, 2]), "w": ("f32", [2], [10, 20]), "hidden": ("f32", [2], [5, 6])})
        t.run("mlrun", "run", "f.mlc", "-i", "in.npz", "-o", "out.npz")
        assert npz_file.read(t.dir / "out.npz")["y"][1] == [15, 46]
    build_refuses(t, 2, ["no initializer 'v'"], "m.onnx", "--feed", "v")
    build_refuses(t, 2, "has to be fed anyway", "m.onnx", "--feed", "x")


def pipelines_that_do_not_fit_are_refused_with_the_nearest_word(t):
    good = (EXAMPLE / "labels.txt").read_text()
    (t.dir / "labels.txt").write_text(good)
    cases = [
        ('"labels"', '"lables"', "5001", "did you mean 'labels'"),
        ('"op": "top_k"', '"op": "topk"', "5001", "did you mean 'top_k'"),
        ('"div": 255', '"div": 0', "5004", "p.json:4:"),
        ('"kernel": "bilinear"', '"kernel": "bilinaer"', "5004", "bilinear"),
        ('"size": [28, 28], ', "", "5002", "size"),
        ('"image": "x"', '"img": "x"', "5009", "p.json:6:3: the model has no input 'img', it has 'image'"),
        ('"logits": "logits"', '"logit": "logits"', "5009", "p.json:6:3: the model has no output 'logit', it has 'logits'"),
        ('"image": "x"', '"img": "x", "image": "x"', "5009", "'img'"),
        ('"program": "main"', '"program": "man"', "5009", "p.json:6:3: step 'run': there is no program 'man'"),
        ("[28, 28]", "[32, 28]", "5009", "f32[1, 1, 32, 28]"),
        ('"labels.txt"', '"../labels.txt"', "5004", "plain file name"),
        ('["digits"]}', '["digits"]', "5006", "p.json:"),
        ('"mlc_pipeline": 1', '"mlc_pipeline": 2', None, "mlc_pipeline"),
    ]
    for old, new, number, words in cases:
        assert old in PIPELINE, old
        (t.dir / "p.json").write_text(PIPELINE.replace(old, new))
        build_refuses(t, 2, words, EXAMPLE / "digits.onnx", "--pipeline", "p.json", number=number)
    (t.dir / "p.json").write_text(PIPELINE.replace('"labels.txt"', '"nolabels.txt"'))
    build_refuses(t, 3, "nolabels.txt", EXAMPLE / "digits.onnx", "--pipeline", "p.json", number="1003")
    build_refuses(t, 3, "nopipe.json", EXAMPLE / "digits.onnx", "--pipeline", "nopipe.json", number="1003")

    (t.dir / "p.json").write_text(PIPELINE)
    for lines, words in ((good.split()[:9], ["9 lines", "10 columns", '"label_offset": -1']),
                         (good.split() * 2, ["20 lines", "10 columns"])):
        (t.dir / "labels.txt").write_text("\n".join(lines))
        build_refuses(t, 2, words, EXAMPLE / "digits.onnx", "--pipeline", "p.json", number="5003")
        refuses(t, 2, ["p.json:7:3", *words], "mlpack", "check", EXAMPLE / "digits.onnx", "--pipeline", "p.json", number="5003")
    (t.dir / "labels.txt").write_bytes(b"a\nb\xff\n")
    build_refuses(t, 2, "UTF-8", EXAMPLE / "digits.onnx", "--pipeline", "p.json", number="5004")
    (t.dir / "labels.txt").write_text(good)
    ctc = '{"op": "ctc_greedy", "in": "logits", "blank": 0, "charset": "labels.txt", "final_space": true, "out": "digits"}'
    text = PIPELINE.splitlines()
    text[6] = "  " + ctc + "],"
    (t.dir / "p.json").write_text("\n".join(text))
    build_refuses(t, 2, ["labels.txt", "12 classes", "10 columns"], EXAMPLE / "digits.onnx", "--pipeline", "p.json", number="5003")


def all_that_does_not_fit_is_told_at_once_with_its_place(t):
    (t.dir / "labels.txt").write_text("one\ntwo\n")
    (t.dir / "p.json").write_text(PIPELINE)
    text = PIPELINE.replace('"image": "x"', '"img": "x"').replace('"logits": "logits"', '"logit": "logits"')
    both = json.dumps({"mlc_pipeline": 1, "pipelines": {"a": without_version(text), "b": without_version(PIPELINE)}}, indent=1)
    (t.dir / "two.json").write_text(both)
    for command in (["check"], ["build", "-o", "never.mlc"]):
        answer = t.json("mlpack", command[0], EXAMPLE / "digits.onnx", "--pipeline", "two.json", *command[1:], code=2)
        told = [answer["message"], *answer["facts"]]
        places = [re.match(r"two\.json:(\d+):\d+: ", line) for line in told]
        # a: no input, a missing one, no output; b: labels.
        for words in ("no input 'img', it has 'image'", "needs input 'image'", "no output 'logit', it has 'logits'", "2 lines"):
            assert any(words in line and place for line, place in zip(told, places)), (words, told)
    steps = without_version(PIPELINE)
    second = dict(steps["steps"][-1], labels="y.txt", out="more")
    second["in"] = "logits"
    steps["steps"][-1]["labels"] = "x.txt"
    steps["steps"].append(second)
    steps["outputs"].append("more")
    (t.dir / "p.json").write_text(json.dumps({"mlc_pipeline": 1, **steps}, indent=1))
    answer = t.json("mlpack", "check", EXAMPLE / "digits.onnx", "--pipeline", "p.json", code=3)
    told = [answer["message"], *answer["facts"]]
    assert answer["code"] == "E1003" and len(told) == 2, answer
    assert all(re.match(r"p\.json:\d+:\d+: [xy]\.txt", line) for line in told), told


def without_version(text):
    return {key: value for key, value in json.loads(text).items() if key != "mlc_pipeline"}


def a_pipeline_can_be_checked_without_building(t):
    (t.dir / "labels.txt").write_text((EXAMPLE / "labels.txt").read_text())
    (t.dir / "p.json").write_text(PIPELINE)
    answer = t.json("mlpack", "check", EXAMPLE / "digits.onnx", "--pipeline", "p.json")
    assert answer["pipelines"] == ["default: picture (image/png image/jpeg) -> digits"], answer
    assert "default: picture" in t.run("mlpack", "check", EXAMPLE / "digits.onnx", "--pipeline", "p.json").stdout
    assert t.json("mlpack", "check", EXAMPLE / "digits.onnx")["pipelines"] == []
    (t.dir / "p.json").write_text(PIPELINE.replace('"top_k"', '"topk"').replace('"div": 255', '"div": 0'))
    text = refuses(t, 2, ["did you mean 'top_k'", "p.json:4:"], "mlpack", "check", EXAMPLE / "digits.onnx", "--pipeline", "p.json")
    assert text.count("p.json:") >= 2, text


def an_array_that_needs_pickle_does_not_fit(t):
    (t.dir / "m.onnx").write_bytes(identity())
    t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--target", "portable")
    data = pathlib.Path(__file__).resolve().parents[1] / "unit/io/data/npy_object.npy"
    refuses(t, 6, "pickle", "mlrun", "m.mlc", "-i", f"x={data}")


def a_container_for_another_machine_says_so(t):
    (t.dir / "m.onnx").write_bytes(identity())
    foreign = "x86-64-v2" if platform.machine() == "aarch64" else "armv8-a"
    t.run("mlpack", "build", "m.onnx", "-o", "f.mlc", "--target", foreign)
    refuses(t, 5, ["'native' is required", foreign, "portable", "help: "], "mlrun", "f.mlc", "-i", "zeros", "--require", "native")
    refuses(t, 5, foreign, "mlrun", "f.mlc", "-i", "zeros", "--variant", foreign)
    refuses(t, 2, ["no variant 'x86'", foreign, "portable"], "mlrun", "f.mlc", "-i", "zeros", "--variant", "x86")
    done = t.run("mlrun", "f.mlc", "-i", "zeros")
    assert done.stderr.startswith("portable "), "what runs is said: " + done.stderr


def flags_of_mlrun_name_the_nearest(t):
    (t.dir / "m.onnx").write_bytes(identity())
    t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--target", "native")
    for flags, words in ((["--thread", "1"], "did you mean '--threads'"), (["--threads", "0"], "--threads"),
                         (["--threads", "-1"], "--threads"), (["--threads", "two"], "two"), (["--top", "0"], "--top"),
                         (["--verify", "maybe"], "maybe"), (["--dim", "n"], "NAME=N"), (["--dim", "n=-2"], "NAME=N")):
        text = refuses(t, 2, words, "mlrun", "m.mlc", "-i", "zeros", *flags)
        assert all(len(line) < 200 for line in text.splitlines()), text


def unsigned_and_unknown_signers_run_portable_and_say_how_to_trust(t):
    (t.dir / "m.onnx").write_bytes(identity())
    t.run("mlpack", "build", "m.onnx", "-o", "u.mlc", "--target", "native", "--no-sign")
    done = t.run("mlrun", "u.mlc", "-i", "zeros")
    assert done.stderr.startswith("portable ") and "unsigned" in done.stderr, done.stderr
    done = t.run("mlrun", "u.mlc", "-i", "zeros", "--allow-unsigned")
    assert not done.stderr.startswith("portable "), done.stderr
    t.run("mlpack", "verify", "u.mlc", code=10)

    t.run("mlpack", "keygen", "-o", "k.pem")
    t.run("mlpack", "build", "m.onnx", "-o", "k.mlc", "--target", "native", "--key", "k.pem")
    done = t.run("mlrun", "k.mlc", "-i", "zeros")
    assert done.stderr.startswith("portable ") and "mlrun trust " in done.stderr, done.stderr
    assert max(map(len, done.stderr.splitlines())) <= 100, "a key that is not trusted is told in short lines\n" + done.stderr
    refuses(t, 5, "'native' is required", "mlrun", "k.mlc", "-i", "zeros", "--require", "native")
    done = t.run("mlrun", "k.mlc", "-i", "zeros", "--trust", "k.pub.pem")
    assert not done.stderr.startswith("portable "), done.stderr
    command = t.run("mlrun", "k.mlc", "-i", "zeros").stderr
    command = command[command.index("mlrun trust"):].splitlines()[0]
    t.run(*command.split())  # with nothing of mlpack, as on a machine that only runs models
    assert not t.run("mlrun", "k.mlc", "-i", "zeros").stderr.startswith("portable "), "the command printed is the one"


def damaged_containers_name_the_segment(t):
    t.run("mlpack", "build", EXAMPLE / "digits.onnx", "--pipeline", EXAMPLE / "pipeline.json", "-o", "good.mlc",
          "--target", "native")
    good = (t.dir / "good.mlc").read_bytes()
    segments = {s["name"]: s for s in t.json("mlpack", "inspect", "good.mlc")["segments"]}
    bad = t.dir / "bad.mlc"
    for name, segment in segments.items():
        at = segment["offset"] + segment["stored_bytes"] // 2
        bad.write_bytes(good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1:])
        deep = t.run("mlpack", "verify", "bad.mlc", "--deep", code=12)
        assert name in deep.stderr + deep.stdout, (name, deep)
        run = t.run("mlrun", "bad.mlc", "-i", IMAGE, "--verify", "full", code=12)
        assert name in run.stderr and run.stdout == "", (name, run)
        lazy = t.run("mlrun", "bad.mlc", "-i", IMAGE, code=(0, 12))
        assert lazy.returncode == 0 or name in lazy.stderr, (name, lazy)
    first = min(s["offset"] for s in segments.values())
    for cut in (first + 10, (first + len(good)) // 2):
        bad.write_bytes(good[:cut])
        refuses(t, 4, ["bad.mlc is truncated", f"{cut} bytes found", "cut off: segment"], "mlrun", "bad.mlc", "-i", IMAGE,
                number="1101")
    bad.write_bytes(good + b"appended")
    refuses(t, 4, "end of the container", "mlrun", "bad.mlc", "-i", IMAGE)
    shutil.copy(EXAMPLE / "digits.onnx", bad)
    refuses(t, 4, "bad.mlc", "mlrun", "bad.mlc", "-i", IMAGE)
    refuses(t, 3, "absent.mlc", "mlrun", "absent.mlc", "-i", IMAGE)


def options_of_several_values_leave_the_next_word_alone(t):
    t.run("mlpack", "keygen", "-o", "k.pem")
    t.run("mlpack", "build", "--key", "k.pem", "--pipeline", EXAMPLE / "pipeline.json", "--target", "native", EXAMPLE / "digits.onnx",
          "-o", "d.mlc")
    t.run("mlrun", "--trust", "k.pub.pem", "d.mlc", "-i", IMAGE)
    t.run("mlrun", "--raw", "-i", "zeros", "--dim", "N=2", "d.mlc")
    t.run("mlrun", "trust", "--models", "demo/*", "k.pub.pem")
    refuses(t, 2, "words", "mlrun", "explain", "d.mlc", "words")
    refuses(t, 3, "words", "mlrun", "d.mlc", "words", "-i", IMAGE)


def closed_standard_streams_are_no_files(t):
    """Where whoever starts a tool has closed some of them, nothing is written into a file that took their place."""
    def shell(command, code):
        done = subprocess.run(["sh", "-c", command], cwd=t.dir, env=t.env, capture_output=True, text=True)
        assert done.returncode == code, (command, done)
    (t.dir / "m.onnx").write_bytes(identity())
    t.run("mlpack", "build", "m.onnx", "--target", "native", "-o", "signed.mlc")
    t.run("mlpack", "build", "m.onnx", "--target", "native", "--no-sign", "-o", "unsigned.mlc")
    mlrun, mlpack = t.bin / "mlrun", t.bin / "mlpack"
    for file in ("signed.mlc", "unsigned.mlc"):
        t.run("mlrun", file, "-i", "zeros", "-o", "expected.json")
        for closed in (">&- 2>&-", "<&- 2>&-", "<&- >&- 2>&-"):
            shell(f"{mlrun} {file} -i zeros -o answer.json {closed}", 0)
            assert (t.dir / "answer.json").read_text() == (t.dir / "expected.json").read_text(), (file, closed)
        shell(f"{mlrun} {file} -i zeros <&-", 0)
        shell(f"{mlrun} {file} -i zeros >&-", 3)
    shell(f"{mlpack} build m.onnx --target native -o signed.mlc --force >&-", 3)
    t.run("mlrun", "selftest", "signed.mlc")


def links_out_of_the_folder_of_a_pipeline_are_not_followed(t):
    for folder in ("got", "got/sub", "secret"):
        (t.dir / folder).mkdir()
    labels = "".join(f"line {k} of a private file\n" for k in range(10))
    (t.dir / "secret" / "private.txt").write_text(labels)
    shutil.copy(EXAMPLE / "digits.onnx", t.dir / "got")
    shutil.copy(EXAMPLE / "pipeline.json", t.dir / "got")
    link = t.dir / "got" / "labels.txt"
    link.symlink_to("../secret/private.txt")
    build_refuses(t, 2, ["labels.txt", "a symbolic link that leads out of the folder of got/pipeline.json", "put the file itself there"],
                  "got/digits.onnx", "--pipeline", "got/pipeline.json", number="5004")
    refuses(t, 2, "leads out of the folder", "mlpack", "check", "got/digits.onnx", "--pipeline", "got/pipeline.json", number="5004")
    link.unlink()
    link.symlink_to("sub/mine.txt")
    (t.dir / "got" / "sub" / "mine.txt").write_text(labels)
    t.run("mlpack", "build", "got/digits.onnx", "--pipeline", "got/pipeline.json", "-o", "own.mlc", "--target", "portable")


def a_folder_of_operator_texts_is_read_as_far_as_it_holds_such(t):
    (t.dir / "m.onnx").write_bytes(identity())
    cases = {"fifo": (3, ["ops/a.mlop", "not a regular file"]), "device": (3, ["not a regular file"]), "long": (4, ["at most 4194304 are expected"]),
             "many": (4, ["have more than 16777216 bytes"])}
    for case, (code, words) in cases.items():
        ops = t.dir / "ops"
        ops.mkdir()
        for name in ["a.mlop"] + ["b.mlop", "c.mlop", "d.mlop", "e.mlop"] * (case == "many"):
            if case == "fifo":
                os.mkfifo(ops / name)
            elif case == "device":
                (ops / name).symlink_to("/dev/zero")
            elif case == "long":  # without a block on the disk: who reads it does not end
                with open(ops / name, "wb") as file:
                    file.truncate(1 << 40)
            else:
                (ops / name).write_text(("# a comment that says nothing at all, of sixty-four letters\n" * 70000)[:4 << 20])
        refuses(t, code, words, "mlpack", "check", "m.onnx", "--ops", "ops")
        build_refuses(t, code, words, "m.onnx", "--ops", "ops")
        shutil.rmtree(ops)


def an_input_that_has_no_end_is_read_as_far_as_it_may_be(t):
    (t.dir / "m.onnx").write_bytes(identity())
    t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--target", "native", "--force")
    words = ["'/dev/zero' has more than", "bytes and does not say how many, at most", "are allowed for inputs", "give it as a file that has an end"]
    for more in ([], ["--isolated"]):
        for spec in ("/dev/zero", "x=@/dev/zero:f32[2]"):
            refuses(t, 7, words, "mlrun", "m.mlc", "-i", spec, *more, number=6006)
    refuses(t, 7, ["has more than 1048576 bytes"], "mlrun", "m.mlc", "-i", "/dev/zero", "--memory-limit", "1M", number=6006)
    with open(t.dir / "huge.npy", "wb") as file:  # without a block on the disk
        file.truncate(1 << 43)
    refuses(t, 7, ["'huge.npy' has 8796093022208 bytes, at most", "--memory-limit allows more"], "mlrun", "m.mlc", "-i", "huge.npy", number=6006)
    os.mkfifo(t.dir / "pipe")
    (t.dir / "folder").mkdir()
    for name, what in (("pipe", "not a regular file"), ("folder", "not a regular file"), ("/dev/zero", "not a regular file")):
        build_refuses(t, 3, [what, "numpy.savez"], "m.onnx", "--golden", name)
    build_refuses(t, 2, ["huge.npy has 8796093022208 bytes, at most"], "m.onnx", "--golden", "huge.npy")


if __name__ == "__main__":
    main([files_that_are_no_model_are_called_what_they_are, models_cut_anywhere_are_refused,
          operators_that_nobody_knows_are_all_listed_with_counts, models_that_make_no_sense_name_the_node,
          shapes_that_do_not_fit_are_shown, one_of_a_thing_is_not_several, the_output_is_a_file_and_links_stay_links,
          an_answer_that_is_not_taken_is_no_success, inputs_of_a_pipeline_are_named_and_arrays_go_around_it,
          flags_of_build_are_checked_before_work_begins, a_frozen_extent_is_fixed_under_each_of_its_names,
          what_a_file_does_not_say_of_its_inputs_is_said_on_the_command_line, an_input_with_a_default_is_a_constant_unless_it_is_fed,
          pipelines_that_do_not_fit_are_refused_with_the_nearest_word, all_that_does_not_fit_is_told_at_once_with_its_place,
          a_pipeline_can_be_checked_without_building, an_array_that_needs_pickle_does_not_fit, a_container_for_another_machine_says_so,
          flags_of_mlrun_name_the_nearest, unsigned_and_unknown_signers_run_portable_and_say_how_to_trust,
          damaged_containers_name_the_segment, options_of_several_values_leave_the_next_word_alone,
          closed_standard_streams_are_no_files, links_out_of_the_folder_of_a_pipeline_are_not_followed,
          an_input_that_has_no_end_is_read_as_far_as_it_may_be, a_folder_of_operator_texts_is_read_as_far_as_it_holds_such])
