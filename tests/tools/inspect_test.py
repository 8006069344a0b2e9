"""mlpack inspect and size, as a user runs them."""
import os
import pathlib
import struct
import subprocess

import onnx_file
from tool_test import main


def sample(t, signed=True):
    t.run("sample_container", "s.mlc")
    if signed:
        t.run("mlpack", "sign", "s.mlc")
    return t.dir / "s.mlc"


def leaves(entries):
    for entry in entries:
        if "entries" in entry:
            assert sum(child["bytes"] for child in entry["entries"]) == entry["bytes"], entry
            yield from leaves(entry["entries"])
        else:
            yield entry


def every_byte_of_the_file_is_accounted_for_whatever_the_grouping(t):
    for signed in (True, False):
        path = sample(t, signed)
        size = path.stat().st_size
        for by in ("kind", "variant", "segment", "tensor"):
            for fold in ((), ("--min", "1%"), ("--min", "5000"), ("--min", "100%")):
                answer = t.json("mlpack", "size", path, "--by", by, *fold)
                assert answer["file_bytes"] == size and answer["by"] == by, answer
                assert sum(entry["bytes"] for entry in answer["entries"]) == (size if answer["entries"] else 0), answer
                assert sum(leaf["bytes"] for leaf in leaves(answer["entries"])) == (size if answer["entries"] else 0)
                assert bool(answer["entries"]) == (fold != ("--min", "100%")), "one line of others says nothing"
        names = {entry["name"] for entry in t.json("mlpack", "size", path)["entries"]}
        assert {"weights", "code", "plans", "golden", "assets", "manifest", "hash tree", "header"} <= names, names
        assert ("signature" in names) == signed, names


def a_variant_owns_its_code_and_plan_and_shares_the_weights(t):
    answer = t.json("mlpack", "size", sample(t), "--by", "variant")
    entries = {entry["name"]: entry for entry in answer["entries"]}
    assert {e["name"] for e in entries["x86-64-v2"]["entries"]} == {"code/x86-64-v2", "plan/x86-64-v2"}, answer
    assert entries["x86-64-v2"]["bytes"] == 5300, answer
    assert [e["name"] for e in entries["shared by variants"]["entries"]] == ["weights"], answer
    assert {"golden", "assets"} & {e["name"].split("/")[0] for e in entries["for every variant"]["entries"]}, answer


def tensors_are_listed_with_their_bytes(t):
    answer = t.json("mlpack", "size", sample(t), "--by", "tensor")
    weights = next(entry for entry in answer["entries"] if entry["name"] == "weights")
    assert [(e["name"], e["bytes"]) for e in weights["entries"]] == [("w", 2_400_000)], weights
    text = t.run("mlpack", "size", "s.mlc", "--min", "1%").stdout.splitlines()
    assert "100.0 %" in text[0] and "others" in text[-1], text


def diff(t, a, b, code=1):
    answer = t.json("mlpack", "diff", a, b, code=code, stderr=None)
    return {(d["part"], d["name"], d["field"]): (d["a"], d["b"]) for d in answer["differences"]}


def linear(t, name, weight, more=(), opset=13):
    """y = x w, with more inputs that are added; as NAME.mlc."""
    inputs = [onnx_file.port("x", "f32", ["N", 2])] + [onnx_file.port(m, "f32", ["N", 2]) for m in more]
    nodes, last = [onnx_file.node("MatMul", ["x", "w"], ["p"])], "p"
    for m in more:
        nodes.append(onnx_file.node("Add", [last, m], [last + m]))
        last += m
    nodes.append(onnx_file.node("Identity", [last], ["y"]))
    w = onnx_file.tensor("w", "f32", [2, 2], struct.pack("<4f", *weight))
    (t.dir / "m.onnx").write_bytes(onnx_file.model(nodes, inputs, [onnx_file.port("y", "f32", ["N", 2])], [w], opset))
    t.run("mlpack", "build", "m.onnx", "-o", f"{name}.mlc", "--target", "portable", "--no-selftest", "--id", "acme/linear")
    return f"{name}.mlc"


def diff_tells_what_differs_and_nothing_else(t):
    a = linear(t, "a", (1, 2, 3, 4))
    assert diff(t, a, a, code=0) == {}
    same = linear(t, "same", (1, 2, 3, 4))  # built again
    assert diff(t, a, same, code=0) == {}
    assert t.run("mlpack", "diff", a, same).stdout.startswith("equal   sha256:")

    b = linear(t, "b", (1, 2, 3, 5))
    found = diff(t, a, b)
    assert ("weight", "w", "content") in found and ("identity", "", "root") in found, found
    assert not {"program", "variant", "pipeline", "signer", "asset"} & {part for part, _, _ in found}, found
    done = t.run("mlpack", "diff", a, b, code=1)
    assert "  weight      w  content  sha256:" in done.stdout and " -> sha256:" in done.stdout, done.stdout
    assert done.stdout.splitlines()[-1].startswith("a.mlc and b.mlc differ: ") and done.stderr == "", "an answer is no error"
    assert {key: (y, x) for key, (x, y) in diff(t, b, a).items()} == found

    found = diff(t, a, linear(t, "c", (1, 2, 3, 4), more=("z",)))
    assert found["program", "main", "inputs z"][0] is None and "z" not in str(found["program", "main", "inputs z"][0]), found
    assert ("weight", "w", "content") not in found, found

    t.run("mlpack", "keygen", "-o", "k.pem")
    t.run("mlpack", "sign", "same.mlc", "--key", "k.pem")
    found = diff(t, a, "same.mlc")
    assert [(part, field, a) for (part, _, field), (a, _) in found.items()] == [("signer", "", None)], found
    t.run("mlpack", "build", "m.onnx", "-o", "v.mlc", "--target", "portable,x86-64-v2", "--no-selftest", "--id", "acme/linear", "--model-version", "2")
    found = diff(t, "c.mlc", "v.mlc")
    assert found["identity", "", "version"] == ("1", "2") and found["variant", "x86-64-v2", ""][0] is None, found
    assert found["segment", "code/x86-64-v2", ""][0] is None, found
    t.run("mlpack", "diff", a, "absent.mlc", code=3)
    t.run("mlpack", "diff", a, code=2)


def diff_names_the_label(t):
    folder = pathlib.Path(__file__).resolve().parents[2] / "examples/digits"
    t.run("mlpack", "build", folder / "digits.onnx", "--pipeline", folder / "pipeline.json", "-o", "d.mlc", "--target", "portable")
    labels = [line if line != "3" else "three" for line in (folder / "labels.txt").read_text().split("\n")]
    for name, lines, said in (("e", labels, ("3", "three")), ("f", labels[:3] + ["3"] + labels[4:9] + ["9"], None)):
        (t.dir / "labels.txt").write_text("\n".join(lines))
        t.run("mlpack", "relabel", "d.mlc", "--labels", "labels.txt", "-o", f"{name}.mlc")
        found = diff(t, "d.mlc", f"{name}.mlc")
        assert found.get(("asset", "labels.txt", "line 4")) == said, found
    assert "labels.txt  line 4  3 -> three" in t.run("mlpack", "diff", "d.mlc", "e.mlc", code=1).stdout


def diff_of_files_of_65536_tensors_takes_little(t):
    (t.dir / "plan.txt").write_text('plan function "main" { $0 = const 64 $1 = const 0 buffer #0 u8 bytes $0 input 0 buffer #1 u8 bytes $0 output 0 '
                                    'input "x" u8 [$0] #0 output "y" u8 [$0] #1 arena $1 copy (#1, #0) "one" }')
    for name in ("a", "b"):
        t.run("plan_container", f"{name}.mlc", "plan.txt", "--tensors", f"a tensor of {name}:65536")
    with subprocess.Popen([t.bin / "mlpack", "diff", "a.mlc", "b.mlc"], cwd=t.dir, env=t.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)  # with the children that it waited for
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 1, process.returncode
    if "MLC_SANITIZED" not in os.environ:
        assert used.ru_utime + used.ru_stime < 2 and used.ru_maxrss < 300_000, used


def diff_counts_bytes_and_steps(t):
    a, b = linear(t, "a", (1, 2, 3, 4)), linear(t, "b", (1, 2, 3, 5))
    answer = t.json("mlpack", "diff", a, b, code=1, stderr=None)
    assert answer["bytes"]["weights"]["changed"]["count"] == 1 and answer["bytes"]["variants"]["same"]["count"] == 1, answer["bytes"]
    assert "weights: 1 changed (" in t.run("mlpack", "diff", a, b, code=1).stdout
    assert not [d for d in answer["differences"] if d["part"] == "step"], answer
    nodes = [onnx_file.node("MatMul", ["x", "w"], ["p"], name="first"), onnx_file.node("Softmax", ["p"], ["y"], name="second")]
    w = onnx_file.tensor("w", "f32", [2, 2], struct.pack("<4f", 1, 2, 3, 4))
    (t.dir / "m.onnx").write_bytes(onnx_file.model(nodes, [onnx_file.port("x", "f32", ["N", 2])], [onnx_file.port("y", "f32", ["N", 2])], [w]))
    t.run("mlpack", "build", "m.onnx", "-o", "s.mlc", "--target", "portable", "--no-selftest", "--id", "acme/linear")
    steps = {(d["name"], d["field"]): (d["a"], d["b"]) for d in t.json("mlpack", "diff", a, "s.mlc", code=1, stderr=None)["differences"] if d["part"] == "step"}
    assert any("second" in field and a is None for (_, field), (a, b) in steps.items()), steps
    assert t.json("mlpack", "diff", a, a)["bytes"]["weights"] == {"changed": {"count": 0, "bytes": 0}, "only_a": {"count": 0, "bytes": 0}, "only_b": {"count": 0, "bytes": 0},
                                                                  "same": answer["bytes"]["weights"]["changed"]}


def behaviour(t, a, b, code, *more):
    return t.json("mlpack", "diff", a, b, "--behaviour", *more, code=code, stderr=None)["behaviour"]


def behaviour_is_compared_in_answers(t):
    a, b = linear(t, "a", (1, 2, 3, 4)), linear(t, "b", (1, 2, 3, 4.25))
    found = behaviour(t, a, b, 1)
    (y,) = found["outputs"]
    assert (y["program"], y["output"], y["vectors"], y["differing"]) == ("main", "y", 1, 1) and 0 < y["max_abs"] < 2 and not found["not_compared"], found
    assert behaviour(t, b, a, 1)["outputs"][0]["max_abs"] == y["max_abs"]
    (same,) = behaviour(t, a, linear(t, "again", (1, 2, 3, 4)), 0)["outputs"]
    assert same["differing"] == 0 and same["vector"] == "", same
    assert "y  equal in 1 vector" in t.run("mlpack", "diff", a, "again.mlc", "--behaviour").stdout
    # What stands against it is said.
    more = linear(t, "more", (1, 2, 3, 4), more=("z",))
    assert 'wants an input "z"' in behaviour(t, a, more, 1)["not_compared"][0]["reason"]
    assert 'has no input "z"' in behaviour(t, more, a, 1)["not_compared"][0]["reason"]
    t.run("mlpack", "build", "m.onnx", "-o", "bare.mlc", "--target", "portable", "--no-golden", "--no-selftest")
    assert "no golden vectors" in t.json("mlpack", "diff", "bare.mlc", a, "--behaviour", code=20)["message"]
    # Files of strangers run as mlrun runs them: the portable form, in a process without privileges.
    linear(t, "u", (1, 2, 3, 4.25))
    t.run("mlpack", "build", "m.onnx", "-o", "u.mlc", "--target", "portable,native", "--no-sign", "--id", "acme/linear")
    found = behaviour(t, a, "u.mlc", 1)
    assert found["variant_b"] == "portable" and found["outputs"][0]["max_abs"] == y["max_abs"], found
    t.json("mlpack", "diff", a, b, "--behaviour", "--delta", "d.mld", code=2)
    t.json("mlpack", "diff", a, "absent.mlc", "--behaviour", code=3)


def items_of_one_name_are_compared_in_their_order(t):
    """As many operators of one name as a file may have: trying one name after the other would take for ever."""
    t.run("sample_container", "a.mlc", "1", "4096")
    t.run("sample_container", "b.mlc", "1", "4095")
    found = diff(t, "a.mlc", "b.mlc")
    only = [key for key, (_, there) in found.items() if there is None]
    assert only == [("identity", "", "operators Same (again 4096)")], only


def a_pipeline_is_measured_before_it_is_read(t):
    t.run("sample_container", "large.mlc", "1", "0", str((1 << 20) + 1))
    answer = t.json("mlpack", "inspect", "large.mlc", code=4)
    assert "1048577 bytes, at most 1048576" in answer["message"], answer
    t.run("sample_container", "full.mlc", "1", "0", str(1 << 20))
    assert "at most" not in t.json("mlpack", "inspect", "full.mlc", code=4)["message"]  # it has no JSON


def inspect_says_what_is_inside(t):
    path = sample(t)
    root = t.json("mlpack", "verify", path)["root"]
    answer = t.json("mlpack", "inspect", path, "--tensors")
    assert (answer["id"], answer["version"], answer["root"], answer["format"]) == ("acme/sample", "7", root, 1), answer
    assert answer["file_bytes"] == path.stat().st_size
    program, = answer["programs"]
    assert program["name"] == "main" and program["inputs"][0] == {"name": "x", "type": "f32", "shape": [4],
                                                                  "media": "tensor"}, program
    variants = {variant["name"]: variant for variant in answer["variants"]}
    assert set(variants) == {"portable", "x86-64-v2"}, variants
    assert variants["x86-64-v2"]["features"] == ["x86.sse42"], variants
    assert variants["x86-64-v2"]["clauses"] == ["os.page_size divides 65536"], variants
    assert [asset["name"] for asset in answer["assets"]] == ["labels.txt"] and answer["assets"][0]["bytes"] == 18
    assert [golden["name"] for golden in answer["golden"]] == ["ones"], answer
    assert answer["tensors"]["count"] == 1 and answer["tensors"]["entries"][0]["shape"] == [600_000], answer
    stored = {segment["name"]: segment["stored_bytes"] for segment in answer["segments"]}
    assert stored["weights"] == 2_400_000 and stored["code/x86-64-v2"] == 5000, stored
    assert all(segment["present"] for segment in answer["segments"])
    text = t.run("mlpack", "inspect", path, "--segments").stdout
    for word in ("acme/sample", root, "x86-64-v2", "labels.txt", "f32[4]", "code/portable"):
        assert word in text, (word, text)


def inspect_names_the_signer_as_this_user_sees_it(t):
    path = sample(t, signed=False)
    answer = t.json("mlpack", "inspect", path)
    assert answer["trust"] == "unsigned" and answer["signatures"] == [], answer
    t.run("mlpack", "sign", path)
    answer = t.json("mlpack", "inspect", path)
    assert answer["trust"] == "trusted" and answer["signatures"][0]["status"] == "ok", answer
    t.new_home()  # another user
    answer = t.json("mlpack", "inspect", path)
    assert answer["trust"] == "unknown-signer" and answer["signatures"][0]["status"] == "unknown-key", answer
    # An expired signature does not hide what is inside.
    t.run("mlpack", "keygen", "-o", "k.pem")
    t.run("mlpack", "sign", path, "--key", "k.pem", "--replace", "--not-after", "2001-01-01")
    t.run("mlpack", "trust", "k.pub.pem")
    answer = t.json("mlpack", "inspect", path)
    assert answer["trust"] == "refused" and "expired" in answer["reason"], answer
    assert answer["id"] == "acme/sample"


def only_one_variant_or_program_can_be_asked_for(t):
    path = sample(t)
    answer = t.json("mlpack", "inspect", path, "--variant", "portable", "--program", "main")
    assert [v["name"] for v in answer["variants"]] == ["portable"] and len(answer["programs"]) == 1, answer
    answer = t.json("mlpack", "inspect", path, "--variant", "x86-64-v9", code=2)
    assert "x86-64-v9" in answer["message"] and "x86-64-v2" in answer["facts"][0], answer
    t.json("mlpack", "inspect", path, "--program", "decoder", code=2)


def lines_stay_short_however_large_the_interface_is(t):
    t.run("sample_container", "rich.mlc", "rich")
    whole = t.json("mlpack", "inspect", "rich.mlc")["programs"][0]
    assert len(whole["inputs"]) >= 40 and max(len(str(p["shape"])) for p in whole["outputs"]) > 900, whole
    for flags in ([], ["--variant", "x86-64-v2"], ["--segments"], ["--tensors"]):
        text = t.run("mlpack", "inspect", "rich.mlc", *flags).stdout
        assert max(map(len, text.splitlines())) <= 100, text
        assert len(text.splitlines()) < 60, text
    # Inputs that differ in a number are one line; a computed extent has a name that is explained once.
    for part in ("key", "value"):
        assert f"past_key_values.0..19.decoder.{part}  f32[batch,8,a,36]   x20" in text, text
        assert f"present.0..19.decoder.{part}  f32[batch,8,b,36]   x20" in text, text
    # Extents that only the run tells are not told apart.
    assert "cut.0..2.state  f32[batch,?]   x3" in text and "cut.0.state.1" not in text, text
    assert text.count("a = select(") == 1 and text.count("b = select(") == 1, text
    assert "width 8..640 by 8" in text and "num_samples 1.. " in text.replace("\n", " "), text


def plans_of_every_kind_of_constant_are_shown(t):
    # The stop words of this one are a constant without elements.
    words = onnx_file.node("StringNormalizer", ["x"], ["y"], "words", case_change_action="LOWER", is_case_sensitive=1)
    (t.dir / "m.onnx").write_bytes(onnx_file.model([words], [onnx_file.port("x", "str", ["n"])], [onnx_file.port("y", "str", ["m"])]))
    t.run("mlpack", "build", "m.onnx", "-o", "m.mlc", "--target", "portable")
    text = t.run("mlpack", "inspect", "m.mlc", "--plan").stdout
    assert 'function "main"' in text and "string_normalize" in text, text
    assert t.json("mlpack", "inspect", "m.mlc", "--plan")["plans"]["portable"] in text


def bad_input_gets_a_sentence(t):
    path = sample(t)
    for command in ("inspect", "size"):
        t.json("mlpack", command, "absent.mlc", code=3)
        (t.dir / "text.mlc").write_text("hello")
        t.json("mlpack", command, "text.mlc", code=4)
        (t.dir / "cut.mlc").write_bytes(path.read_bytes()[:9000])
        t.json("mlpack", command, "cut.mlc", code=4)
        t.run("mlpack", command, code=2)
        text = t.run("mlpack", command, "--help").stdout
        assert text.index("Examples:") < text.index("Options:"), "examples come first"
        assert max(map(len, text.splitlines())) <= 80, text
    for by in ("", "kernel", "Kind"):
        t.json("mlpack", "size", path, "--by", by, code=2)
    for least in ("-1", "1.5", "101%", "%", "nan%", "ten", "1%%", "99999999999999999999"):
        t.json("mlpack", "size", path, f"--min={least}", code=2)


main([value for value in list(globals().values()) if getattr(value, "__module__", "") == "__main__"
      and callable(value) and value.__name__ not in ("sample", "leaves", "diff", "linear", "behaviour")])
