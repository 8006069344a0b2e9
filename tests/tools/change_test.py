"""Containers that change: mlpack thin, fill, relabel, add and upgrade, as a user runs them."""
import json
import os
import pathlib
import random
import shutil
import struct

import onnx_file
from tool_test import main

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "examples/digits"
TARGETS = "x86-64-v2,x86-64-v3,armv8-a"


def built(t, name="m.mlc", targets=TARGETS, *more):
    """relu(x w) for native processors and the portable form."""
    nodes = [onnx_file.node("MatMul", ["x", "w"], ["p"]), onnx_file.node("Relu", ["p"], ["y"])]
    values = [((k * 7) % 13 - 6) / 4 for k in range(64 * 32)]
    w = onnx_file.tensor("w", "f32", [64, 32], struct.pack(f"<{len(values)}f", *values))
    (t.dir / "m.onnx").write_bytes(onnx_file.model(nodes, [onnx_file.port("x", "f32", ["N", 64])], [onnx_file.port("y", "f32", ["N", 32])], [w]))
    t.json("mlpack", "build", "m.onnx", "-o", name, "--target", targets, "--id", "acme/change", *more)
    return t.dir / name


def sample(t):
    t.run("sample_container", "s.mlc")
    return t.dir / "s.mlc"


def variants(t, path):
    return {v["name"]: v["unusable"] if "unusable" in v else "" for v in t.json("mlpack", "inspect", path)["variants"]}


def a_thinned_copy_keeps_root_and_signature(t):
    path = built(t)
    root = t.json("mlpack", "verify", path)["root"]
    names = sorted(variants(t, path))
    answer = t.json("mlpack", "thin", path, "--keep", "x86-64-v2", "-o", "thin.mlc")
    assert answer["root"] == root and answer["signatures"] == 1, answer
    assert answer["variants"] == ["portable", "x86-64-v2"], answer
    assert answer["absent"] == [n for n in names if n not in ("portable", "x86-64-v2")], answer
    assert answer["bytes"] == (t.dir / "thin.mlc").stat().st_size < answer["bytes_before"] == path.stat().st_size
    assert all(name.startswith(("code/", "plan/")) for name in answer["changed"]) and answer["changed"] == answer["lacking"]
    verified = t.json("mlpack", "verify", "thin.mlc", "--deep", "--expect-root", root)
    assert verified["trust"] == "trusted", verified
    assert {n for n, why in variants(t, "thin.mlc").items() if "thinned" in why} == set(answer["absent"])
    t.run("mlrun", "selftest", "thin.mlc")
    only = t.json("mlpack", "thin", path, "--keep", "portable", "-o", "portable.mlc")
    assert only["variants"] == ["portable"], only
    t.run("mlrun", "selftest", "portable.mlc")


def fill_gives_the_file_bit_for_bit(t):
    path = built(t)
    whole = path.read_bytes()
    for keep in ("portable", "armv8-a", "x86-64-v2,armv8-a"):
        t.run("mlpack", "thin", path, "--keep", keep, "-o", "thin.mlc")
        answer = t.json("mlpack", "fill", "thin.mlc", "--from", path, "-o", "full.mlc")
        assert (t.dir / "full.mlc").read_bytes() == whole and answer["absent"] == answer["lacking"] == [], answer
    # From copies that are thin themselves, and in place.
    t.run("mlpack", "thin", path, "--keep", "portable", "-o", "a.mlc")
    for keep in ("armv8-a", "x86-64-v2", "x86-64-v3"):
        t.run("mlpack", "thin", path, "--keep", keep, "-o", "b.mlc")
        t.run("mlpack", "fill", "a.mlc", "--from", "b.mlc")
    assert (t.dir / "a.mlc").read_bytes() == whole
    # Into a copy with a signature of its own, from an unsigned one.
    t.run("mlpack", "keygen", "-o", "k.pem")
    t.run("mlpack", "sign", path, "--key", "k.pem", "-o", "two.mlc")
    t.run("mlpack", "thin", "two.mlc", "--keep", "portable", "-o", "thin.mlc")
    t.run("mlpack", "fill", "thin.mlc", "--from", path)
    assert (t.dir / "thin.mlc").read_bytes() == (t.dir / "two.mlc").read_bytes()


def an_unsigned_file_stays_unsigned(t):
    path = built(t, "m.mlc", TARGETS, "--no-sign")
    answer = t.json("mlpack", "thin", path, "--keep", "armv8-a", "-o", "thin.mlc")
    assert answer["signatures"] == 0
    assert "none, as before" in t.run("mlpack", "thin", path, "--keep", "armv8-a", "-o", "thin.mlc").stdout
    assert t.json("mlpack", "verify", "thin.mlc", code=10)["trust"] == "unsigned"
    t.run("mlpack", "fill", "thin.mlc", "--from", path)
    assert (t.dir / "thin.mlc").read_bytes() == path.read_bytes()


def records_of_tuning_go_with_their_target(t):
    (t.dir / "none").mkdir()
    t.run("sample_container", "rich.mlc", "rich")
    droppable = {s["name"] for s in t.json("mlpack", "inspect", "rich.mlc", "--segments")["segments"] if s["droppable"]}
    answer = t.json("mlpack", "thin", "rich.mlc", "--keep", "portable", "-o", "thin.mlc")
    assert set(answer["changed"]) == droppable, (answer, droppable)
    t.run("mlpack", "fill", "thin.mlc", "--from", "rich.mlc")
    assert (t.dir / "thin.mlc").read_bytes() == (t.dir / "rich.mlc").read_bytes()


def what_cannot_be_done_says_why(t):
    path = built(t)
    unknown = t.json("mlpack", "thin", path, "--keep", "sparc", code=2)
    assert 'no variant "sparc"' in unknown["message"] and "x86-64-v2" in unknown["facts"][0], unknown
    t.run("mlpack", "thin", path, "--keep", "portable", "-o", "thin.mlc")
    lacks = t.json("mlpack", "thin", "thin.mlc", "--keep", "armv8-a", code=2)
    assert "lacks armv8-a" in lacks["message"] and "mlpack fill" in lacks["help"], lacks
    (t.dir / "notes.txt").write_text("notes")
    t.run("mlpack", "thin", path, "--keep", "portable", "-o", "notes.txt", code=2)
    assert (t.dir / "notes.txt").read_text() == "notes"
    other = sample(t)
    before = (t.dir / "thin.mlc").read_bytes()
    wrong = t.json("mlpack", "fill", "thin.mlc", "--from", other, code=12)
    assert "has nothing of what" in wrong["message"], wrong
    assert (t.dir / "thin.mlc").read_bytes() == before
    t.run("mlpack", "fill", "thin.mlc", "--from", "nothing.mlc", code=3)


def a_damaged_original_fills_nothing(t):
    path = built(t)
    t.run("mlpack", "thin", path, "--keep", "portable", "-o", "thin.mlc")
    before = (t.dir / "thin.mlc").read_bytes()
    for name in ("code/armv8-a", "plan/x86-64-v2"):
        segment = next(s for s in t.json("mlpack", "inspect", path, "--segments")["segments"] if s["name"] == name)
        damaged = bytearray(path.read_bytes())
        damaged[int(segment["offset"])] ^= 1
        (t.dir / "bad.mlc").write_bytes(damaged)
        refused = t.json("mlpack", "fill", "thin.mlc", "--from", "bad.mlc", code=12)
        assert name in str(refused) and "bad.mlc" in str(refused), refused
        assert (t.dir / "thin.mlc").read_bytes() == before
        # What is left out need not be good, what is kept must.
        t.run("mlpack", "thin", "bad.mlc", "--keep", "portable", "-o", "good.mlc")
        t.run("mlpack", "thin", "bad.mlc", "--keep", name.split("/")[1], "-o", "bad-thin.mlc", code=12)
        assert not (t.dir / "bad-thin.mlc").exists() and not list(t.dir.glob("*.unverified*"))
    # A signature is not carried over to what it does not cover.
    shutil.copy(t.dir / "thin.mlc", t.dir / "cut.mlc")
    with open(t.dir / "cut.mlc", "r+b") as file:
        file.truncate(len(before) - 100)
    t.run("mlpack", "fill", "cut.mlc", "--from", path, code=4)


def digits(t, *more):
    t.run("mlpack", "build", DIGITS / "digits.onnx", "--pipeline", DIGITS / "pipeline.json", "-o", "d.mlc", "--target", "native", "--id", "acme/digits", *more)
    return t.dir / "d.mlc"


def answer_of(t, path):
    picture = DIGITS / "images/plain_7.png"
    answers = t.json("mlrun", "run", path, "-i", picture, stderr=None)["outputs"]
    return next(iter(answers.values())) if isinstance(answers, dict) else answers[0]


def codes(t, path):
    return {s["name"]: s["digest"] for s in t.json("mlpack", "inspect", path, "--segments")["segments"] if s["name"] != "assets"}


def new_labels_give_new_words_and_the_same_code(t):
    path = digits(t)
    before, old = codes(t, path), t.json("mlpack", "verify", path)
    (t.dir / "german.txt").write_text("\n".join("null eins zwei drei vier fuenf sechs sieben acht neun".split()) + "\n")
    was = str(answer_of(t, path))
    answer = t.json("mlpack", "relabel", path, "--labels", "german.txt", "-o", "g.mlc")
    assert answer["changed"] == ["labels.txt"] and answer["parent"] == old["root"] != answer["root"] and answer["key"].startswith("local:"), answer
    assert answer["signatures_before"] == 1, answer
    assert codes(t, "g.mlc") == before
    assert t.json("mlpack", "verify", "g.mlc", "--deep")["trust"] == "trusted"
    t.run("mlrun", "selftest", "g.mlc")
    now = str(answer_of(t, "g.mlc"))
    assert now != was and any(word in now for word in ("null", "eins", "zwei", "drei", "vier", "fuenf", "sechs", "sieben", "acht", "neun")), (was, now)
    # Back again: the same bytes but for where it came from.
    t.run("mlpack", "relabel", "g.mlc", "--labels", f"labels.txt={DIGITS / 'labels.txt'}")
    assert str(answer_of(t, "g.mlc")) == was
    assert t.json("mlpack", "relabel", "g.mlc", "--metadata", "version=7", "--metadata", "title=Ziffern = digits")["changed"] == ["title", "version"]
    seen = t.json("mlpack", "inspect", "g.mlc")
    assert seen["version"] == "7" and seen["model"]["title"] == "Ziffern = digits", seen


def a_pipeline_is_taken_where_nothing_compiled_differs(t):
    path = digits(t)
    pipeline = json.loads((DIGITS / "pipeline.json").read_text())
    shutil.copy(DIGITS / "labels.txt", t.dir / "labels.txt")

    def relabel(code=0, file=path):
        (t.dir / "p.json").write_text(json.dumps(pipeline, indent=1))
        return t.json("mlpack", "relabel", file, "--pipeline", "p.json", "-o", "p.mlc", code=code)
    top, softmax, normalize = pipeline["steps"][-1], pipeline["steps"][-2], pipeline["steps"][2]
    top["k"] = 1
    pipeline["inputs"]["picture"]["accept"] = ["image/png"]
    assert relabel()["changed"] == ["labels.txt", "pipeline.json"]
    assert codes(t, "p.mlc") == codes(t, path)
    assert len(answer_of(t, "p.mlc")["classes"] if "classes" in answer_of(t, "p.mlc") else [0]) == 1
    # A list of another name, which the container has not had.
    top["labels"] = "names.txt"
    assert "names.txt" in str(relabel(code=3))
    (t.dir / "names.txt").write_text("\n".join("abcdefghij"))
    assert "names.txt" in relabel()["changed"]
    t.run("mlpack", "verify", "p.mlc", "--deep")
    (t.dir / "names.txt").write_text("\n".join("abcdefghi"))
    wrong = relabel(code=2)
    assert "has 9 lines" in wrong["message"] and "10 columns" in wrong["message"] and "p.json:" in wrong["message"], wrong
    (t.dir / "names.txt").write_text("\n".join("abcdefghij"))
    for change in (lambda: softmax.update(axis=1), lambda: normalize.update(div=128), lambda: pipeline["steps"].insert(2, {"op": "flip", "axis": "horizontal"})):
        kept = json.dumps(pipeline)
        change()
        refused = relabel(code=20)
        assert "differs from the pipeline of the file in what is compiled" in refused["message"] and refused["message"].startswith("p.json:"), refused
        assert "mlpack build" in refused["help"], refused
        pipeline.clear()
        pipeline.update(json.loads(kept))
        top, softmax, normalize = pipeline["steps"][-1], pipeline["steps"][-2], pipeline["steps"][2]
    (t.dir / "p.json").write_text("{")
    t.run("mlpack", "relabel", path, "--pipeline", "p.json", "-o", "x.mlc", code=(2, 4))
    assert not (t.dir / "x.mlc").exists()


def what_cannot_be_relabelled_says_why(t):
    path = digits(t)
    before = path.read_bytes()
    (t.dir / "nine.txt").write_text("a\n" * 9)
    nine = t.json("mlpack", "relabel", path, "--labels", "nine.txt", code=2)
    assert "labels.txt has 9 lines" in nine["message"] and "10 columns" in nine["message"], nine
    assert "lists: labels.txt" in str(t.json("mlpack", "relabel", path, "--labels", "x.txt=nine.txt", code=2))
    for words in ("version=0", "version=x", "id=No", "title", "colour=red"):
        t.json("mlpack", "relabel", path, "--metadata", words, code=2)
    t.json("mlpack", "relabel", path, "--metadata", "title=a\x1b[31m", code=(2, 4)[1])
    t.json("mlpack", "relabel", path, code=2)
    t.json("mlpack", "relabel", path, "--labels", "nothing.txt", code=3)
    bare = t.json("mlpack", "relabel", built(t), "--labels", "nine.txt", code=20)
    assert "no pipeline" in bare["message"], bare
    # A stranger's signature does not become one of this user by the way.
    t.run("mlpack", "keygen", "-o", "k.pem")
    t.run("mlpack", "sign", path, "--key", "k.pem", "--replace", "-o", "foreign.mlc")
    foreign = t.json("mlpack", "relabel", "foreign.mlc", "--metadata", "title=x", code=11)
    assert "--no-sign" in foreign["help"], foreign
    assert t.json("mlpack", "relabel", "foreign.mlc", "--metadata", "title=x", "--no-sign", "-o", "n.mlc")["key"] == ""
    assert t.json("mlpack", "verify", "n.mlc", code=10)["trust"] == "unsigned"
    named = t.json("mlpack", "relabel", "foreign.mlc", "--metadata", "title=x", "--key", "k.pem", "-o", "n.mlc")
    assert named["signatures_before"] == 1 and t.json("mlpack", "verify", "n.mlc", "--key", "k.pub.pem")["trust"] == "trusted"
    assert path.read_bytes() == before
    # Made by a later version: what this one does not know would be lost.
    newer = bytearray(digits(t, "--no-sign").read_bytes())
    newer[10] = 1
    (t.dir / "newer.mlc").write_bytes(newer)
    assert "format 1.1" in t.json("mlpack", "relabel", "newer.mlc", "--metadata", "title=x", code=20)["message"]
    t.run("mlpack", "thin", "newer.mlc", "--keep", "portable", "-o", "thin.mlc")


def a_thinned_file_is_relabelled_and_filled(t):
    path = built(t)
    t.run("mlpack", "thin", path, "--keep", "portable", "-o", "thin.mlc")
    t.run("mlpack", "relabel", "thin.mlc", "--metadata", "version=2")
    answer = t.json("mlpack", "fill", "thin.mlc", "--from", path)
    assert answer["absent"] == answer["lacking"] == [], answer
    t.run("mlpack", "relabel", path, "--metadata", "version=2", "-o", "whole.mlc")
    assert codes(t, "thin.mlc") == codes(t, "whole.mlc")
    assert t.json("mlpack", "verify", "thin.mlc", "--deep")["trust"] == "trusted"
    t.run("mlrun", "selftest", "thin.mlc")


def a_rich_manifest_stays_what_it_is(t):
    t.run("sample_container", "rich.mlc", "rich")
    t.run("mlpack", "relabel", "rich.mlc", "--metadata", "licence=MIT", "-o", "r.mlc")
    a, b = (t.json("mlpack", "inspect", f, "--segments", "--tensors") for f in ("rich.mlc", "r.mlc"))
    for answer in (a, b):
        for key in ("file", "root", "bytes", "file_bytes", "manifest_bytes", "model", "provenance"):
            answer.pop(key, None)
        for segment in answer["segments"]:
            segment.pop("offset")
    assert a == b, [k for k in a if a[k] != b[k]]


def thin_then_add_gives_the_code_of_the_build(t):
    path = built(t)
    whole, full = path.read_bytes(), codes(t, path)
    t.run("mlpack", "thin", path, "--keep", "x86-64-v2", "-o", "thin.mlc")
    for target in ("armv8-a", "x86-64-v3"):
        answer = t.json("mlpack", "add", "thin.mlc", "--target", target, "--from", "m.onnx")
        assert answer["restored"] == [target] and not answer["added"] and answer["root"] == answer["parent"], answer
    assert (t.dir / "thin.mlc").read_bytes() == whole, "restored bit for bit, signature included"
    assert t.json("mlpack", "add", path, "--target", "armv8-a", "--from", "m.onnx", "-o", "same.mlc")["equal"] == ["armv8-a"]
    assert (t.dir / "same.mlc").read_bytes() == whole
    t.run("mlpack", "thin", path, "--keep", "armv8-a", "-o", "thin.mlc")
    answer = t.json("mlpack", "add", "thin.mlc", "--target", "armv8-a", "--from", "m.onnx")  # which is there, while others are not
    assert answer["equal"] == ["armv8-a"] and not answer["restored"], answer
    # A file that never had the targets gets the code of one that was built with them.
    built(t, "small.mlc", "x86-64-v2")
    answer = t.json("mlpack", "add", "small.mlc", "--target", "x86-64-v3,armv8-a", "--from", "m.onnx")
    assert sorted(answer["added"]) == ["armv8-a", "x86-64-v3"] and answer["root"] != answer["parent"] and answer["key"], answer
    assert codes(t, "small.mlc") == full
    assert t.json("mlpack", "verify", "small.mlc", "--deep")["trust"] == "trusted"
    t.run("mlrun", "selftest", "small.mlc")
    # Both at once.
    t.run("mlpack", "thin", path, "--keep", "portable", "-o", "thin.mlc")
    answer = t.json("mlpack", "add", "thin.mlc", "--target", "armv8-a,rv64gc", "--from", "m.onnx")
    assert answer["restored"] == ["armv8-a"] and answer["added"] == ["rv64gc"], answer
    assert not list(t.dir.glob("*.add*")) and not list(t.dir.glob("*.unverified*"))


def code_of_a_target_does_not_depend_on_the_others(t):
    t.run("mlpack", "build", DIGITS / "digits.onnx", "--pipeline", DIGITS / "pipeline.json", "-o", "d.mlc", "--target", "x86-64-v2,x86-64-v3,armv8-a,rv64gc")
    whole = (t.dir / "d.mlc").read_bytes()
    t.run("mlpack", "thin", "d.mlc", "--keep", "portable")
    for target in ("rv64gc", "x86-64-v3", "armv8-a", "x86-64-v2"):
        answer = t.json("mlpack", "add", "d.mlc", "--target", target, "--from", DIGITS / "digits.onnx", "--pipeline", DIGITS / "pipeline.json")
        assert answer["restored"] == [target] and answer["root"] == answer["parent"], answer
    assert (t.dir / "d.mlc").read_bytes() == whole


def add_takes_the_model_of_the_file_only(t):
    path = digits(t)
    before = path.read_bytes()
    other = built(t).with_name("m.onnx")
    for model, pipeline in ((other, DIGITS / "pipeline.json"), (DIGITS / "digits.onnx", None)):
        refused = t.json("mlpack", "add", path, "--target", "rv64gc", "--from", model, *(("--pipeline", pipeline) if pipeline else ()), code=(2, 20)[pipeline is None])
        assert pipeline or "another program" in refused["message"], refused
    changed = json.loads((DIGITS / "pipeline.json").read_text())
    changed["steps"][2]["div"] = 128
    (t.dir / "p.json").write_text(json.dumps(changed))
    shutil.copy(DIGITS / "labels.txt", t.dir / "labels.txt")
    refused = t.json("mlpack", "add", path, "--target", "rv64gc", "--from", DIGITS / "digits.onnx", "--pipeline", "p.json", code=20)
    assert "another program" in refused["message"], refused
    assert path.read_bytes() == before
    t.run("mlpack", "relabel", path, "--metadata", "title=x")
    answer = t.json("mlpack", "add", path, "--target", "rv64gc", "--from", DIGITS / "digits.onnx", "--pipeline", DIGITS / "pipeline.json")
    assert answer["added"] == ["rv64gc"], answer
    t.run("mlrun", "selftest", path)
    t.run("mlpack", "add", path, "--target", "sparc", "--from", other, code=2)
    t.run("mlpack", "add", path, "--target", "rv64gc", "--from", "nothing.onnx", code=3)


def add_compiles_the_program_that_the_file_keeps(t):
    """The same as with the model, and the folder in which it lay is gone."""
    for name, more in (("plain", ()), ("bounded", ("--dim", "N=1..8")), ("bf16", ("--precision", "bf16", "--derived", "none"))):
        path = built(t, f"{name}.mlc", "x86-64-v2", "--no-sign", *more)
        t.run("mlpack", "add", path, "--target", "rv64gc,x86-64-v3", "--from", "m.onnx", *more, "-o", "given.mlc")
        model = (t.dir / "m.onnx").read_bytes()
        (t.dir / "m.onnx").unlink()
        answer = t.json("mlpack", "add", path, "--target", "rv64gc,x86-64-v3", "-o", "kept.mlc")
        (t.dir / "m.onnx").write_bytes(model)
        assert (t.dir / "kept.mlc").read_bytes() == (t.dir / "given.mlc").read_bytes() and "rv64gc" in answer["added"], (name, answer)
        assert not list(t.dir.glob("*.program*")) and not list(t.dir.glob("*.add*")), name
    # With a pipeline, which another one has taken the place of meanwhile.
    path = digits(t, "--target", "portable")
    t.run("mlpack", "relabel", path, "--metadata", "title=x")
    assert t.json("mlpack", "add", path, "--target", "rv64gc")["added"] == ["rv64gc"]
    t.run("mlrun", "selftest", path)
    # A copy that lacks variants keeps it; so does a file that got one more.
    t.run("mlpack", "thin", path, "--keep", "portable", "-o", "thin.mlc")
    assert t.json("mlpack", "add", "thin.mlc", "--target", "rv64gc")["restored"] == ["rv64gc"]
    program = next(s for s in t.json("mlpack", "inspect", path, "--segments")["segments"] if s["name"] == "program")
    assert program["droppable"] and int(program["stored_bytes"]) < 2000, program
    refused = t.json("mlpack", "add", path, "--target", "armv8-a", "--dim", "N=3", code=2)
    assert "--from MODEL" in refused["help"], refused
    t.json("mlpack", "add", path, "--target", "armv8-a", "--pipeline", DIGITS / "pipeline.json", code=2)


def joined_weights_are_there_once_and_in_the_program(t):
    """Two products of one array have their weights side by side: the program refers to parts of these."""
    nodes = [onnx_file.node("MatMul", ["x", f"w{k}"], [f"p{k}"]) for k in (0, 1)] + [onnx_file.node("MatMul", [f"p{k}", f"v{k}"], [f"y{k}"]) for k in (0, 1)]

    def weights(name, rows, columns):
        values = [((k * 7 + rows) % 13 - 6) / 64 for k in range(rows * columns)]
        return onnx_file.tensor(name, "f32", [rows, columns], struct.pack(f"<{len(values)}f", *values))

    constants = [weights("w0", 256, 512), weights("w1", 256, 256), weights("v0", 512, 16), weights("v1", 256, 16)]
    ports = [onnx_file.port(f"y{k}", "f32", ["N", 16]) for k in (0, 1)]
    (t.dir / "two.onnx").write_bytes(onnx_file.model(nodes, [onnx_file.port("x", "f32", ["N", 256])], ports, constants))
    answer = t.json("mlpack", "build", "two.onnx", "-o", "two.mlc", "--target", "x86-64-v2", "--no-sign")
    assert "no_program" not in answer and answer["bytes"] < 1.2 * sum(len(c) for c in constants), answer
    names = t.run("mlpack", "inspect", "two.mlc", "--tensors").stdout
    assert "w0 | w1" in names and "w0  " not in names, names
    t.run("mlpack", "add", "two.mlc", "--target", "rv64gc,x86-64-v3", "--from", "two.onnx", "-o", "given.mlc")
    (t.dir / "two.onnx").unlink()
    t.run("mlpack", "add", "two.mlc", "--target", "rv64gc,x86-64-v3", "-o", "kept.mlc")
    assert (t.dir / "kept.mlc").read_bytes() == (t.dir / "given.mlc").read_bytes()
    t.run("mlrun", "selftest", "kept.mlc", "--allow-unsigned")


def parts_of_a_tensor_are_no_more_than_it(t):
    """What a made-up file says of its program: parts side by side are taken, and lead to another program; those that overlap are refused before."""
    def added(*parts):
        t.run("sample_container", "parts.mlc", "parts", *parts)
        before = (t.dir / "parts.mlc").read_bytes()
        refused = t.run("mlpack", "add", "parts.mlc", "--target", "rv64gc", code=(4, 20))
        assert (t.dir / "parts.mlc").read_bytes() == before and not list(t.dir.glob("*.program*")), parts
        return refused.returncode, refused.stderr

    for parts in (("0:600000",), ("0:200000", "200000:400000"), ("200000:400000", "0:200000", "200000:400000")):  # the last: one of them twice
        code, words = added(*parts)
        assert code == 20 and "another program" in words, (parts, code, words)
    for parts in (("0:400000", "200001:399999"), ("0:600000", "0:1"), ("1:599999", "0:599999"), ("0:600000", "0:599999", "0:599998")):
        code, words = added(*parts)
        assert code == 4 and 'more parts of tensor "w" than it has' in words, (parts, code, words)
    for part in ("0:600001", "1:600000", "600001:0", "18446744073709551615:1"):
        code, words = added(part)
        assert code == 4 and "a part of a tensor that is none" in words, (part, code, words)


def files_without_a_program_say_so(t):
    path = built(t, "m.mlc", "portable", "--no-program")
    refused = t.json("mlpack", "add", path, "--target", "rv64gc", code=3)
    assert "keeps no program" in refused["message"] and "--from MODEL" in refused["help"], refused
    t.run("mlpack", "add", path, "--target", "rv64gc", "--from", "m.onnx")
    # Constants that the file has in another form would be kept a second time: large ones are not.
    values = struct.pack("<f", 1.2345678) * (600 * 300)
    nodes = [onnx_file.node("MatMul", ["x", "w"], ["y"])]
    (t.dir / "large.onnx").write_bytes(onnx_file.model(nodes, [onnx_file.port("x", "f32", ["N", 600])], [onnx_file.port("y", "f32", ["N", 300])], [onnx_file.tensor("w", "f32", [600, 300], values)]))
    answer = t.json("mlpack", "build", "large.onnx", "-o", "l.mlc", "--target", "portable", "--no-selftest")
    assert "no_program" not in answer and answer["bytes"] < 900_000, answer
    answer = t.json("mlpack", "build", "large.onnx", "-o", "l.mlc", "--target", "portable", "--precision", "bf16", "--no-selftest")
    assert "not in the file" in answer["no_program"] and answer["bytes"] < 500_000, answer
    assert "  program   not kept: " in t.run("mlpack", "build", "large.onnx", "-o", "l.mlc", "--target", "portable", "--precision", "bf16", "--no-selftest").stdout
    assert all(s["name"] != "program" for s in t.json("mlpack", "inspect", "l.mlc", "--segments")["segments"])


def older(path, to):
    """The same manifest as another writer may have encoded it: with a word behind it, for which there is room. Of an unsigned file."""
    data = bytearray(path.read_bytes())
    length = struct.unpack_from("<Q", data, 32)[0]
    if (length - 1) // 256 != (length + 7) // 256:
        return None
    struct.pack_into("<Q", data, 32, length + 8)
    to.write_bytes(data)
    return to


def upgrade_writes_the_form_of_this_version_and_keeps_segments(t):
    old = next(filter(None, (older(built(t, "m.mlc", targets, "--no-sign", "-f"), t.dir / "old.mlc") for targets in ("native", "native,rv64gc"))))
    before, root = codes(t, old), t.json("mlpack", "inspect", old)["root"]
    answer = t.json("mlpack", "upgrade", old, "-o", "new.mlc")
    assert not answer["is_current"] and answer["parent"] == root != answer["root"] and answer["key"] == "" and answer["vectors"] > 0, answer
    assert codes(t, "new.mlc") == before
    # No key that this user trusts has signed it: its machine code does not run, and that is said.
    ran = {v["name"]: v["vectors"] for v in answer["variants"]}
    assert ran.pop("portable") == answer["vectors"] and not any(ran.values()) and all("reason" in v for v in answer["variants"] if v["name"] != "portable"), answer
    t.run("mlrun", "selftest", "new.mlc", "--allow-unsigned")
    text = t.run("mlpack", "upgrade", old, "-o", "new.mlc").stdout
    assert text.startswith("upgraded") and "  signature  none\n" in text and "  golden     " in text, text
    # What is in this form already keeps root and signatures, bit for bit; its own code runs.
    mine = built(t, "mine.mlc", "native")
    answer = t.json("mlpack", "upgrade", mine, "-o", "same.mlc")
    assert answer["is_current"] and answer["signatures_before"] == 1 and (t.dir / "same.mlc").read_bytes() == mine.read_bytes(), answer
    assert all(v["vectors"] == answer["vectors"] for v in answer["variants"]), answer
    assert "valid as before" in t.run("mlpack", "upgrade", mine, "-o", "same.mlc").stdout
    assert "already" in t.json("mlpack", "upgrade", mine, "--no-sign", code=2)["message"]
    t.run("mlpack", "thin", mine, "--keep", "portable", "-o", "thin.mlc")
    assert t.json("mlpack", "upgrade", "thin.mlc")["is_current"]
    # Twice is once.
    assert t.json("mlpack", "upgrade", "new.mlc")["is_current"]


def a_file_that_gives_wrong_answers_is_not_upgraded(t):
    path = sample(t)  # whose code is none
    before = path.read_bytes()
    refused = t.json("mlpack", "upgrade", path, code=21)
    assert "mlrun selftest" in refused["help"] and path.read_bytes() == before, refused
    t.run("mlpack", "upgrade", path, "-o", "n.mlc", code=21)
    assert not (t.dir / "n.mlc").exists() and not list(t.dir.glob("*.unverified*"))
    newer = bytearray(built(t, "m.mlc", "portable", "--no-sign").read_bytes())
    newer[10] = 1
    (t.dir / "newer.mlc").write_bytes(newer)
    assert "format 1.1" in t.json("mlpack", "upgrade", "newer.mlc", code=20)["message"]


def any_sequence_of_changes_leaves_a_file_that_verifies_and_answers_equally(t):
    """MLC_CHANGE_SEQUENCES: how many; MLC_CHANGE_SEED: the first."""
    path = built(t)
    (t.dir / "x.f32").write_bytes(struct.pack("<128f", *((k * 3 % 11 - 5) / 3 for k in range(128))))

    def answer(file):
        t.run("mlrun", "run", file, "-i", "x=@x.f32:f32[2,64]", "-o", "y.npy", "--variant", "portable")
        return (t.dir / "y.npy").read_bytes()
    expected = answer(path)
    seed = int(os.environ.get("MLC_CHANGE_SEED", "1"))
    for number in range(seed, seed + int(os.environ.get("MLC_CHANGE_SEQUENCES", "3"))):
        rng = random.Random(number)
        shutil.copy(path, t.dir / "c.mlc")
        done = []
        for _ in range(rng.randint(3, 7)):
            present = sorted(n for n, why in variants(t, "c.mlc").items() if not why)
            command = rng.choice(("thin", "fill", "add", "relabel"))
            more = {"thin": lambda: ["--keep", ",".join(rng.sample(present, rng.randint(1, len(present))))], "fill": lambda: ["--from", path],
                    "add": lambda: ["--target", ",".join(rng.sample(["x86-64-v2", "x86-64-v3", "armv8-a", "rv64gc"], rng.randint(1, 2))), "--from", "m.onnx"],
                    "relabel": lambda: ["--metadata", f"title=t{rng.randint(0, 9)}", "--metadata", f"licence=MIT-{rng.randint(1, 9)}"]}[command]()
            done.append((command, *more))
            # Nothing of what a file lacks may be in the original: a target that was added and left out again.
            t.run("mlpack", command, "c.mlc", *more, code=(0, 12) if command == "fill" else 0)
            verified = t.json("mlpack", "verify", "c.mlc", "--deep")
            assert verified["trust"] == "trusted" and not verified["problems"], (number, done, verified)
        assert answer("c.mlc") == expected, (number, done)
        t.run("mlrun", "selftest", "c.mlc")


if __name__ == "__main__":
    main([a_thinned_copy_keeps_root_and_signature, fill_gives_the_file_bit_for_bit, an_unsigned_file_stays_unsigned, records_of_tuning_go_with_their_target,
          what_cannot_be_done_says_why, a_damaged_original_fills_nothing, new_labels_give_new_words_and_the_same_code,
          a_pipeline_is_taken_where_nothing_compiled_differs, what_cannot_be_relabelled_says_why, a_thinned_file_is_relabelled_and_filled, a_rich_manifest_stays_what_it_is,
          thin_then_add_gives_the_code_of_the_build, code_of_a_target_does_not_depend_on_the_others, add_takes_the_model_of_the_file_only, upgrade_writes_the_form_of_this_version_and_keeps_segments, a_file_that_gives_wrong_answers_is_not_upgraded,
          add_compiles_the_program_that_the_file_keeps, joined_weights_are_there_once_and_in_the_program, parts_of_a_tensor_are_no_more_than_it, files_without_a_program_say_so,
          any_sequence_of_changes_leaves_a_file_that_verifies_and_answers_equally])
