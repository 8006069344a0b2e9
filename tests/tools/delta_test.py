"""Deltas: mlpack diff --delta and mlpack apply, as a user runs them.

MLC_DELTA_PAIRS: how many random pairs; MLC_DELTA_SEED: the first."""
import os
import random
import shutil
import struct

import onnx_file
from tool_test import main

FRONT = 128


def values(rng, count):
    """Floats that a compressor does not shrink much."""
    return rng.randbytes(4 * count)


def model(t, tensors, name="m.onnx"):
    """One output for each tensor of `tensors`, {name: bytes}: x times it."""
    nodes, outputs, constants = [], [], []
    for key, data in sorted(tensors.items()):
        nodes.append(onnx_file.node("Mul", ["x", key], ["y" + key]))
        outputs.append(onnx_file.port("y" + key, "i32", [len(data) // 4]))
        constants.append(onnx_file.tensor(key, "i32", [len(data) // 4], data))
    (t.dir / name).write_bytes(onnx_file.model(nodes, [onnx_file.port("x", "i32", [1])], outputs, constants))


def built(t, tensors, name, *more, targets="portable"):
    model(t, tensors)
    t.json("mlpack", "build", "m.onnx", "-o", name, "--target", targets, "--id", "acme/delta", "--no-golden", "--no-selftest", *more)
    return t.dir / name


def moved(t, a, b):
    """B from A and the delta of both, which is returned."""
    made = t.json("mlpack", "diff", a, b, "--delta", "d.mld")
    answer = t.json("mlpack", "apply", a, "d.mld", "-o", "result.mlc")
    assert (t.dir / "result.mlc").read_bytes() == b.read_bytes(), "not bit for bit"
    assert answer["root"] == made["delta"]["root"] and answer["from"] == made["delta"]["from"] and answer["bytes"] == b.stat().st_size, (answer, made)
    assert made["delta"]["bytes"] == (t.dir / "d.mld").stat().st_size == answer["bytes_delta"], (answer, made)
    return made["delta"]


def a_delta_and_the_old_file_make_the_new_one_with_its_signature(t):
    rng = random.Random(1)
    tensors = {f"t{k:02}": values(rng, 200_000) for k in range(12)}
    a = built(t, tensors, "a.mlc")
    b = built(t, dict(tensors, a0=values(rng, 16)), "b.mlc")
    delta = moved(t, a, b)
    assert delta["bytes"] < 100_000 and delta["copied"] > 8_000_000, delta
    assert t.json("mlpack", "verify", "result.mlc", "--deep")["trust"] == "trusted"
    assert "signature  1 signature" in t.run("mlpack", "apply", a, "d.mld", "-o", "result.mlc").stdout
    # In place, as a device does it.
    shutil.copy(a, t.dir / "c.mlc")
    t.run("mlpack", "apply", "c.mlc", "d.mld")
    assert (t.dir / "c.mlc").read_bytes() == b.read_bytes()
    # Equal files: what is left is the front and the signature.
    assert moved(t, a, a)["bytes"] < 10_000
    # Back again, and to a file that is signed once more, or not at all.
    assert moved(t, b, a)["copied"] > 8_000_000
    t.run("mlpack", "keygen", "-o", "k.pem")
    t.run("mlpack", "sign", a, "--key", "k.pem", "-o", "two.mlc")
    assert moved(t, a, t.dir / "two.mlc")["bytes"] < 10_000
    moved(t, t.dir / "two.mlc", built(t, tensors, "n.mlc", "--no-sign"))
    assert not list(t.dir.glob("*.parts*")) and not list(t.dir.glob("*.unverified*")) and not list(t.dir.glob("*.tmp*"))


def another_container_is_told(t):
    rng = random.Random(2)
    a, b, c = (built(t, {"w": values(rng, 1000 + k)}, f"{k}.mlc") for k in range(3))
    t.run("mlpack", "diff", a, b, "--delta", "d.mld")
    told = t.json("mlpack", "apply", c, "d.mld", "-o", "r.mlc", code=12)
    assert "for another container" in told["message"] and t.json("mlpack", "inspect", c)["root"] in told["facts"][0], told
    assert not (t.dir / "r.mlc").exists()
    assert "no delta" in t.json("mlpack", "apply", a, b, "-o", "r.mlc", code=4)["message"]
    t.json("mlpack", "apply", a, "nothing.mld", "-o", "r.mlc", code=3)
    (t.dir / "notes.txt").write_text("notes")
    assert "is no delta" in t.json("mlpack", "diff", a, b, "--delta", "notes.txt", code=2)["message"]
    assert "is no container" in t.json("mlpack", "apply", a, "d.mld", "-o", "notes.txt", code=2)["message"]
    assert (t.dir / "notes.txt").read_text() == "notes"
    t.run("mlpack", "diff", a, b, "--delta", "notes.txt", "--force")
    t.json("mlpack", "diff", a, b, "--force", code=2)
    t.run("mlpack", "diff", a, b, "--delta", "d.mld")  # over an older one


def thinned_files_go_too(t):
    rng = random.Random(3)
    targets = "x86-64-v2,x86-64-v3,armv8-a"
    tensors = {"v": values(rng, 5000), "w": values(rng, 700)}
    a = built(t, tensors, "a.mlc", targets=targets)
    b = built(t, dict(tensors, v=values(rng, 5000)), "b.mlc", targets=targets)
    t.run("mlpack", "thin", a, "--keep", "portable", "-o", "at.mlc")
    t.run("mlpack", "thin", b, "--keep", "x86-64-v2", "-o", "bt.mlc")
    for old in (a, t.dir / "at.mlc"):
        for new in (b, t.dir / "bt.mlc"):
            moved(t, old, new)
    moved(t, a, t.dir / "at.mlc")
    # Made of the whole file, given a thinned one: what it wants may be there, or it says what is not.
    t.run("mlpack", "diff", t.dir / "at.mlc", b, "--delta", "d.mld")
    t.run("mlpack", "apply", a, "d.mld", "-o", "r.mlc")
    assert (t.dir / "r.mlc").read_bytes() == b.read_bytes()
    t.run("mlpack", "diff", a, b, "--delta", "d.mld")
    lacks = t.json("mlpack", "apply", "at.mlc", "d.mld", "-o", "r2.mlc", code=3)
    assert "lacks segment" in lacks["message"] and "mlpack fill" in lacks["help"], lacks
    assert not (t.dir / "r2.mlc").exists()


def damage_is_found_and_told_where_it_is(t):
    rng = random.Random(4)
    tensors = {f"t{k}": values(rng, 30_000) for k in range(4)}
    a = built(t, tensors, "a.mlc")
    b = built(t, dict(tensors, t2=values(rng, 30_000)), "b.mlc")
    t.run("mlpack", "diff", a, b, "--delta", "d.mld")
    good = (t.dir / "d.mld").read_bytes()
    before = a.read_bytes()
    for _ in range(40):
        bad = bytearray(good)
        where = rng.randrange(len(bad))
        bad[where] ^= 1 << rng.randrange(8)
        (t.dir / "bad.mld").write_bytes(bad)
        done = t.run("mlpack", "apply", a, "bad.mld", "-o", "r.mlc", code=(0, 4, 12, 20))
        assert (done.returncode == 0) == (t.dir / "r.mlc").exists(), (where, done.stderr)
        if done.returncode == 0:
            assert (t.dir / "r.mlc").read_bytes() == b.read_bytes(), where
            (t.dir / "r.mlc").unlink()
    for length in (0, 7, 16, 100, FRONT, FRONT + 40, len(good) - 1):
        (t.dir / "bad.mld").write_bytes(good[:length])
        t.json("mlpack", "apply", a, "bad.mld", "-o", "r.mlc", code=4)
    # More than a disk has is refused before anything is written: parts of zeros, which take 32 bytes each.
    count = 1 << 16
    zeros = struct.pack("<BBHIIIIIQ", 1, 0, 0, 1 << 20, 0, 0, 0, 0, 0)
    (t.dir / "bad.mld").write_bytes(good[:16] + struct.pack("<QQ", count << 20, count) + good[32:FRONT] + zeros * count)
    if shutil.disk_usage(t.dir).free < count << 20:
        assert "are free there" in t.json("mlpack", "apply", a, "bad.mld", "-o", "r.mlc", code=7)["message"]
    weights = next(s for s in t.json("mlpack", "inspect", a, "--segments")["segments"] if s["kind"] == "weights")
    damaged = bytearray(before)
    damaged[int(weights["offset"]) + 5] ^= 1
    (t.dir / "bad.mlc").write_bytes(damaged)
    told = t.json("mlpack", "apply", "bad.mlc", "d.mld", "-o", "r.mlc", code=12)
    assert "bad.mlc" in told["message"] and "weights" in told["message"], told
    assert t.json("mlpack", "diff", "bad.mlc", b, "--delta", "e.mld", code=12) and not (t.dir / "e.mld").exists()
    assert a.read_bytes() == before and not (t.dir / "r.mlc").exists()


def changed(rng, tensors):
    """Another version of a model."""
    out = dict(tensors)
    for _ in range(rng.randint(0, 3)):
        name = rng.choice(sorted(out))
        data = bytearray(out[name])
        what = rng.choice(("new", "gone", "values", "all", "longer", "named"))
        if what == "new":
            out[rng.choice("ax") + str(rng.randrange(1000))] = values(rng, rng.choice((1, 100, 70_000)))
        elif what == "gone" and len(out) > 1:
            del out[name]
        elif what == "values":
            for _ in range(rng.randint(1, 50)):
                data[rng.randrange(len(data))] ^= 1
            out[name] = bytes(data)
        elif what == "all":
            out[name] = values(rng, len(data) // 4)
        elif what == "longer":
            out[name] = bytes(data) + values(rng, rng.randint(1, 50_000))
        else:
            out["n" + name] = out.pop(name)
    return out


def random_pairs_come_out_bit_for_bit(t):
    t.run("mlpack", "keygen", "-o", "k.pem", "--type", "ed25519")
    seed = int(os.environ.get("MLC_DELTA_SEED", "1"))
    for number in range(seed, seed + int(os.environ.get("MLC_DELTA_PAIRS", "4"))):
        rng = random.Random(number)
        sizes = (1, 64, 5_000, 100_000, 400_000)
        tensors = {f"{rng.choice('mnt')}{k}": values(rng, rng.choice(sizes) + rng.randrange(64)) for k in range(rng.randint(1, 12))}
        other = rng.choices((changed(rng, tensors), tensors, {"z": values(rng, 300_000)}), (6, 1, 1))[0]
        files = []
        for name, each in (("a", tensors), ("b", other)):
            signed = rng.choice(((), ("--no-sign",), ("--key", "k.pem")))
            targets = rng.choice(("portable", "x86-64-v2", "x86-64-v2,armv8-a"))
            path = built(t, each, f"{name}.mlc", *signed, targets=targets)
            if rng.random() < 0.3:
                t.run("mlpack", "thin", path, "--keep", rng.choice(["portable", *(s for s in targets.split(",") if s != "portable")]))
            files.append(path)
        try:
            delta = moved(t, *files)
        except AssertionError as error:
            raise AssertionError(f"pair {number}: {error}") from error
        assert delta["bytes"] < files[1].stat().st_size + 32 * 1000, (number, delta)


if __name__ == "__main__":
    main([a_delta_and_the_old_file_make_the_new_one_with_its_signature, another_container_is_told, thinned_files_go_too, damage_is_found_and_told_where_it_is, random_pairs_come_out_bit_for_bit])
