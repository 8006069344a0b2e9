"""Containers that change: mlpack thin and fill, as a user runs them."""
import pathlib
import shutil
import struct

import onnx_file
from tool_test import main

TARGETS = "x86-64-v2,x86-64-v3,armv8-a"


def built(t, name="m.mlc", targets=TARGETS, *more):
    """relu(x w) for native processors and the portable form."""
    nodes = [onnx_file.node("MatMul", ["x", "w"], ["p"]), onnx_file.node("Relu", ["p"], ["y"])]
    values = [((k * 7) % 13 - 6) / 4 for k in range(64 * 32)]
    w = onnx_file.tensor("w", "f32", [64, 32], struct.pack(f"<{len(values)}f", *values))
    (t.dir / "m.onnx").write_bytes(onnx_file.model(nodes, [onnx_file.port("x", "f32", ["N", 64])], [onnx_file.port("y", "f32", ["N", 32])], [w]))
    t.json("mlpack", "build", "m.onnx", "-o", name, "--target", targets, "--id", "acme/change", *more)
    return t.dir / name


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
    other = built(t, "other.mlc", "armv8-a")
    before = (t.dir / "thin.mlc").read_bytes()
    wrong = t.json("mlpack", "fill", "thin.mlc", "--from", other, code=11)
    assert "another container" in wrong["message"], wrong
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


if __name__ == "__main__":
    main([a_thinned_copy_keeps_root_and_signature, fill_gives_the_file_bit_for_bit, an_unsigned_file_stays_unsigned, records_of_tuning_go_with_their_target,
          what_cannot_be_done_says_why, a_damaged_original_fills_nothing])
